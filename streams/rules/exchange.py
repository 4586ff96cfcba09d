"""Rules of the exchange: when one begins, what it takes in, whom it waits for and for how long, what it decides.

A new exchange takes the oldest trigger; one of joins and leaves takes all of those that stand in a row behind it, and
those that come while it is open (N1, N2, N6). Servers are asked only where something is to be learnt: when members
leave a fully rebalanced cluster nobody is (P1, P2).

Waiting is bounded and visible (DESIGN §4.3.9). Whoever has not answered `warn_ms` after it was asked is named in the
log; after `evict_ms` it is stopped as STUCK. If that would take the last copy of a partition, the exchange is completed
without it instead, and what needs its map stays paused until it is heard.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Protocol

import msgspec

from topolog.events import last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.baseline import cluster_state
from topolog.events.changes import Changes
from topolog.events.cluster_state import Operation
from topolog.events.codec import Decision
from topolog.events.errors import Refused
from topolog.events.exchange import (
    MERGED,
    Asked,
    Awaited,
    ExchangeCompleted,
    ExchangeMerged,
    ExchangeOverdue,
    ExchangeQueued,
    ExchangeRow,
    ExchangeStarted,
    FullPartitionMap,
    PartitionsLost,
    Trigger,
    TriggerType,
    Waited,
    newest_exchange,
    open_exchange,
    queued,
)
from topolog.events.groups import GroupRow, LossPolicy, group_row
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.membership import LeaseStopped, LeaveReason, NodeRow, Standing
from topolog.events.ownership import NodeNumber
from topolog.events.requests import ExchangeRequested, LossResetRequested, RequestUnchanged, subject_of
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.streams.rules import cluster_state as rules_of_cluster
from topolog.streams.rules import placement
from topolog.streams.rules.allowed import is_allowed
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.outcome import Ask, outcome
from topolog.streams.rules.outcomes import Holdings, Server, Servers, outcomes
from topolog.streams.rules.placement import Choose

_NAMES_MAX, _NAMES_WITH_CHANGES_MAX = 1_000, 100
"""Names of nodes that fit one record, by themselves and beside changes, were each as long as a name can be."""

_TRIGGERS_MAX = 250
"""Triggers that fit one record beside the servers that it asks."""


class Patience(msgspec.Struct, frozen=True):
    """How long a server may leave an exchange without its map before operators see it, and before it is stopped."""

    warn_ms: int = 5_000
    evict_ms: int = 60_000


class Answer(Holdings, Protocol):
    """A single map that answers the open exchange; `waited_ms`: how long it took."""

    @property
    def incarnation(self) -> Incarnation: ...

    @property
    def waited_ms(self) -> int: ...


Answers = Mapping[NodeId, Answer]


class Told(msgspec.Struct, frozen=True):
    """What is known beside the log: who has answered the open exchange, which waits for a map have passed.

    `maps`: how far the topic `maps` has been read. `at_ms`: wall time, for people. `heard`: servers of which there is a
    map from behind the beginning of the last exchange.
    """

    answers: Answers
    maps: Offset
    at_ms: int
    passed: Collection[str] = ()
    heard: Collection[NodeId] = ()


def decide(state: State, request: LossResetRequested | ExchangeRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    match request:
        case LossResetRequested():
            return [_reset(state, request, ref)]
        case ExchangeRequested():
            if not state.count(GroupRow):
                raise Refused("NO_GROUPS", "DESIGN 4.3", "There are no groups, so there is nothing to exchange.")
            return [ExchangeQueued(ref, TriggerType.REQUESTED, "", changed_view(state))]


def settle(state: State, told: Told, choose: Choose) -> list[Decision]:
    """What follows about exchanges; call again until nothing does."""
    row, waiting = open_exchange(state), queued(state)
    if row is not None and _takes_in(row) and (more := _alike(waiting)):
        return [ExchangeMerged(more, tuple(_joined(state, more)))]
    if not cluster_state(state).shares_out:
        return []
    if row is None:
        return _begin(state, waiting, told, choose) if waiting else _hear_late(state, told)
    silent = [each for each in row.awaited if _is_here(state, each) and not _has_answered(each, told.answers)]
    if not silent:
        return _end(state, row, told.answers, choose, ())
    return _overdue(row, silent, told) or _evict(state, row, silent, told, choose)


def deadlines(row: ExchangeRow, patience: Patience, gaps: int) -> list[Deadline]:
    """When to say for whom an open exchange waits, and when to stop waiting.

    `gaps` counts how often the coordinator was not hearing maps: silence must be heard to count, so a gap makes a new
    key.
    """
    if row.completed_at is not None:
        return []
    waits = (("warn", patience.warn_ms), ("evict", patience.evict_ms))
    return [
        Deadline(f"{_key(each, what)}{gaps}", each.at, after_ms) for each in row.awaited for what, after_ms in waits
    ]


def stops_waiting(key: str) -> bool:
    """Whether behind this deadline a server is waited for no more."""
    return key.startswith("exchange/") and "/evict/" in key


# Beginning.


def _reset(state: State, request: LossResetRequested, ref: RequestRef) -> Decision:
    group = group_row(state, request.name)
    if group is None:
        hint = "See `topolog get groups`."
        raise Refused("GROUP_UNKNOWN", "DESIGN 4.3", f"There is no group {request.name!r}.", hint=hint)
    if not any(ownership.lost_in(row) for row in _rows(state, group)):
        return RequestUnchanged(ref, subject_of(request), None)
    return ExchangeQueued(ref, TriggerType.LOSS_RESET, group.name, changed_view(state))


def _begin(state: State, waiting: tuple[Trigger, ...], told: Told, choose: Choose) -> list[Decision]:
    triggers = _alike(waiting) or waiting[:1]
    if all(trigger.type is TriggerType.LEAVE for trigger in triggers) and _was_rebalanced(state):
        started = ExchangeStarted(triggers, (), told.maps, told.at_ms)
        completed = ExchangeCompleted(triggers[-1].version, (), ())
        return [started, *_decided(state, triggers, {}, choose), completed]
    return [ExchangeStarted(triggers, tuple(_awaited(placement.servers(state))), told.maps, told.at_ms)]


def _was_rebalanced(state: State) -> bool:
    """Up to what the leaving itself has torn open."""
    return all(
        ownership.is_settled(row, but_for_absent=True) for group in _groups(state) for row in _rows(state, group)
    )


def _takes_in(row: ExchangeRow) -> bool:
    return all(trigger.type in MERGED for trigger in row.triggers)


def _alike(waiting: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The joins and leaves before the first trigger of another kind (N2), as many of them as fit one record: while the
    cluster is INACTIVE or cold they may pile up for days."""
    return tuple(takewhile(lambda trigger: trigger.type in MERGED, islice(waiting, _TRIGGERS_MAX)))


def _joined(state: State, triggers: Iterable[Trigger]) -> Iterator[Awaited]:
    names = dict.fromkeys(trigger.subject for trigger in triggers if trigger.type is TriggerType.JOIN)
    return _awaited(row for row in placement.servers(state) if row.node in names)


def _awaited(rows: Iterable[NodeRow]) -> Iterator[Awaited]:
    return (Awaited(row.node, row.incarnation) for row in rows)


# Waiting.


def _has_answered(asked: Asked, answers: Answers) -> bool:
    answer = answers.get(asked.node)
    return answer is not None and answer.incarnation == asked.incarnation


def _is_here(state: State, asked: Asked) -> bool:
    """Whoever has left is awaited no more (PI5), also where its leaving waits for the next exchange."""
    row = state.get(NodeRow, asked.node)
    return row is not None and row.is_member and row.incarnation == asked.incarnation


def _overdue(row: ExchangeRow, silent: Sequence[Asked], told: Told) -> list[Decision]:
    """Named once, when the first of them has been awaited for too long."""
    if row.overdue_at is not None or not any(_has_passed(each, "warn", told) for each in silent):
        return []
    return [ExchangeOverdue(tuple(each.node for each in silent))]


def _evict(state: State, row: ExchangeRow, silent: Sequence[Asked], told: Told, choose: Choose) -> list[Decision]:
    """Stop who keeps all waiting; complete without those that hold a last copy once there is nobody else to wait for.

    Who is being stopped already is still waited for: its lease ends, and it leaves.
    """
    stuck = [each for each in silent if _has_passed(each, "evict", told)]
    needed = {each.node for each in stuck if _holds_a_last_copy(state, each.node, told.answers)}
    stopped = [
        LeaseStopped(None, each.node, each.incarnation, LeaveReason.STUCK)
        for each in stuck
        if each.node not in needed and _standing(state, each.node) is Standing.MEMBER
    ]
    if stopped:
        return list(stopped)
    if stuck and {each.node for each in silent} == needed:
        return _end(state, row, told.answers, choose, tuple(each.node for each in silent))
    return []


def _holds_a_last_copy(state: State, node: NodeId, answers: Answers) -> bool:
    """Whether it owns a partition that no server owns which has answered."""
    number = ownership.number_of(state, node)
    names = ownership.names(state)
    others = [names.index(each) for each in answers if each in names and each != node]
    if number is None:
        return False
    return any(
        last_owners.owned_only_by(row, [number], others) for group in _groups(state) for row in _rows(state, group)
    )


def _standing(state: State, node: NodeId) -> Standing:
    row = state.get(NodeRow, node)
    assert row is not None, "only a member is awaited"
    return row.standing


def _hear_late(state: State, told: Told) -> list[Decision]:
    """A server that an exchange had to do without is heard at last: what it alone can tell needs another one."""
    last = newest_exchange(state)
    if last is None or not state.count(GroupRow) or not any(node in told.heard for node in last.unheard):
        return []
    return [ExchangeQueued(None, TriggerType.REQUESTED, "", changed_view(state))]


def _has_passed(asked: Asked, what: str, told: Told) -> bool:
    return any(key.startswith(_key(asked, what)) for key in told.passed)


def _key(asked: Asked, what: str) -> str:
    return f"exchange/{asked.at}/{asked.node}/{asked.incarnation}/{what}/"


# Ending.


def _end(
    state: State, row: ExchangeRow, answers: Answers, choose: Choose, unheard: tuple[NodeId, ...]
) -> list[Decision]:
    heard = [each for each in row.awaited if _has_answered(each, answers)]
    waited = [Waited(each.node, answers[each.node].waited_ms) for each in heard]
    completed = ExchangeCompleted(row.result, tuple(sorted(waited, key=lambda each: each.waited_ms)), unheard)
    decided = _decided(state, row.triggers, answers, choose)
    return rules_of_cluster.cooled_by(state, decided) or [*decided, completed]


def _decided(state: State, triggers: Sequence[Trigger], answers: Answers, choose: Choose) -> list[Decision]:
    """The full maps of all groups that change, and what is lost."""
    resets = _resets(state, triggers)
    joined = {trigger.subject for trigger in triggers if trigger.type is TriggerType.JOIN}
    ready = placement.may_hold(state)
    names = ownership.names(state)
    known = (*names, *sorted({str(row.node) for row in ready}.difference(names)))
    number_of = {node: number for number, node in enumerate(known)}
    numbers = {row.node: number_of[row.node] for row in ready}
    here = _here(state, number_of, answers, joined)
    decided: list[Decision] = []
    for group in _groups(state):
        rows, chosen_from = list(_rows(state, group)), placement.candidates(state, group, ready)
        ask = Ask(begins_empty=group.loss_policy is LossPolicy.IGNORE, reset_at=resets.get(group.name))
        wanted = placement.wanted(group, rows, chosen_from, numbers, ask, choose)
        changes = outcomes(rows, wanted, here, ask, outcome)
        decided += _full_maps(group, changes, known[len(names) :])
        decided += _losses(group, changes, known)
    return decided


def _resets(state: State, triggers: Sequence[Trigger]) -> Mapping[str, Position]:
    """Since when what is lost of a group is given up; of none where the state of the cluster forbids that by now, for
    whoever made it read-only may have meant just that."""
    if not is_allowed(state, Operation.GROUP):
        return {}
    return {trigger.subject: trigger.at for trigger in triggers if trigger.type is TriggerType.LOSS_RESET}


def _here(state: State, number_of: Mapping[str, NodeNumber], answers: Answers, joined: Collection[str]) -> Servers:
    """Who is a member, and what those have told that have answered."""
    found: dict[NodeNumber, Server] = {}
    opened = open_exchange(state)
    asked = {(each.node, each.incarnation) for each in opened.awaited} if opened else ()
    for row in placement.servers(state):
        answer = answers.get(row.node)
        told = answer if answer is not None and answer.incarnation == row.incarnation else None
        if row.node in number_of:
            is_asked = (row.node, row.incarnation) in asked
            found[number_of[row.node]] = Server(row.joined_at, told, row.node in joined, is_asked=is_asked)
    return Servers(found)


def _full_maps(group: GroupRow, changes: Changes, enrolled: tuple[str, ...]) -> Iterator[Decision]:
    """As many records as the changes need; the first ones enrol new nodes."""
    while len(changes) and len(enrolled) > _NAMES_WITH_CHANGES_MAX:
        yield FullPartitionMap(group.name, enrolled[:_NAMES_MAX], b"")
        enrolled = enrolled[_NAMES_MAX:]
    for record in changes.records():
        yield FullPartitionMap(group.name, enrolled, record)
        enrolled = ()


def _losses(group: GroupRow, changes: Changes, known: Sequence[str]) -> Iterator[Decision]:
    """One sentence about each set of absent owners."""
    by_awaited: dict[tuple[NodeNumber, ...], list[int]] = {}
    for change in changes.where_lost():
        by_awaited.setdefault(tuple(copy.node for copy in change.copies), []).append(change.partition)
    for awaited, partitions in by_awaited.items():
        yield PartitionsLost(group.name, tuple(partitions), tuple(known[number] for number in awaited))


def _groups(state: State) -> Iterator[GroupRow]:
    return (row for _, row in state.rows(GroupRow))


def _rows(state: State, group: GroupRow) -> Iterator[ownership.OwnershipRow]:
    return ownership.rows_of(state, group.name, group.partitions)
