"""Rules of the exchange: when one begins, what it takes in, whom it waits for and for how long, what it decides.

A new exchange takes the oldest trigger; one of joins and leaves takes all of those that stand in a row behind it, and
those that come while it is open (EX22).

Threats. A server that hangs, with a copy or without, and everybody's failover waits for it. A coordinator that does not
wait, and gives away what only the silent one has; or one that begins exchange behind exchange without an end.

It waits for nobody whom it does not need (DS10-DS17). Whom it needs, the rule of one partition says (`outcome.py`): the
awaited are the union over the partitions in question as the log knows them when it begins, mostly none or the joiner.
It ends when all of them are heard, or `gather_ms` after it began, whatever is missing then: what could be decided is,
the rest stays as it is, PAUSED where nobody acts, and whoever is needed still is `unheard` (`events/awaited.py`). Their
late answers start the next exchange, in which they count.

That an exchange ends is safe at any moment, for an outcome is made of what is known, partition by partition; to wait
only spares the next one. So the bound on failover is `gather_ms` and no other node's hook, and what stays paused waits
for servers of its owner row, or for those that are to begin it. Whoever stays `unheard` for `warn_ms` is named in the
log, after `evict_ms` it is stopped as STUCK, unless that would take the last copy of a partition; one that applies
nothing loses its lease anyway.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile

import msgspec

from topolog.events import last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.awaited import Asked, Awaited, UnheardRow, unheard
from topolog.events.baseline import cluster_state
from topolog.events.changes import Changes
from topolog.events.cluster_state import Operation
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.exchange import (
    MERGED,
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
    open_exchange,
    queued,
)
from topolog.events.exchange_requests import ExchangeRequest, ExchangeRequested, LossResetRequested
from topolog.events.groups import GroupRow, LossPolicy, group_row
from topolog.events.ids import NodeId, Position
from topolog.events.leases import LeaveReason, NodeRow, Standing
from topolog.events.membership import LeaseStopped
from topolog.events.ownership import NodeNumber
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.streams.rules import cluster_state as rules_of_cluster
from topolog.streams.rules import placement
from topolog.streams.rules.allowed import is_allowed
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.outcome import Ask, outcome
from topolog.streams.rules.outcomes import Server, Servers, Together, outcomes, side_by_side
from topolog.streams.rules.placement import Choose, Roster
from topolog.streams.rules.responses import Responses, Told

_NAMES_MAX, _NAMES_WITH_CHANGES_MAX = 1_000, 100
"""Names of nodes that fit one record, by themselves and beside changes, were each as long as a name can be."""

_TRIGGERS_MAX = 250
"""Triggers that fit one record beside the servers that it asks."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long an exchange waits for those that it needs; how long one of them may stay silent before operators see it,
    and before it is stopped."""

    gather_ms: int = 100
    warn_ms: int = 5_000
    evict_ms: int = 60_000


class _Look(msgspec.Struct, frozen=True):
    """What an exchange would decide now, and whom it still needs: those in `maps` for what their maps say."""

    decided: list[Decision]
    needed: frozenset[NodeId]
    maps: frozenset[NodeId]


def decide(state: State, request: ExchangeRequest, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    match request:
        case LossResetRequested():
            return [_reset(state, request, ref)]
        case ExchangeRequested():
            if not state.count(GroupRow):
                raise Refused("NO_GROUPS", "EX20", "There are no groups, so there is nothing to exchange.")
            return [ExchangeQueued(ref, TriggerType.REQUESTED, "", changed_view(state))]


def settle(state: State, told: Told, choose: Choose, together: Together = side_by_side) -> list[Decision]:
    """What follows about exchanges; call again until nothing does."""
    row, waiting = open_exchange(state), queued(state)
    if row is not None and _takes_in(row) and (more := _alike(waiting)):
        return [_merged(state, row, more, told, choose, together)]
    if not cluster_state(state).shares_out:
        return []
    if row is not None:
        return _end(state, row, told, choose, together)
    if waiting:
        return _begin(state, waiting, told, choose, together)
    missed = unheard(state)
    if missed is None or not state.count(GroupRow):
        return []
    return _hear_late(state, told) or _overdue(missed, told) or _evict(state, missed, told, choose, together)


def deadlines(row: ExchangeRow, patience: Patience) -> list[Deadline]:
    """When an open exchange waits no more: also for maps that the coordinator cannot read."""
    return [] if row.completed_at else [Deadline(_gathered(row), row.started_at, patience.gather_ms)]


def deadlines_of_unheard(row: UnheardRow, patience: Patience, gaps: int) -> list[Deadline]:
    """When to name, and when to stop, whom the last exchange has not heard.

    `gaps` counts how often the coordinator was not hearing maps: silence must be heard to count, so a gap makes a new
    key.
    """
    waits = (("warn", patience.warn_ms), ("evict", patience.evict_ms))
    return [
        Deadline(f"{_key(each, what)}{gaps}", each.at, after_ms) for each in row.servers for what, after_ms in waits
    ]


def silent(state: State, row: ExchangeRow, told: Told) -> list[NodeId]:
    """Whom the open exchange still waits for."""
    responses = Responses.of(state, told)
    return [each.node for each in row.awaited if _is_awaited(state, each, responses)]


def heard_late(state: State, told: Told) -> list[NodeId]:
    """Whom the last exchange has missed, and who has answered since."""
    missed, responses = unheard(state), Responses.of(state, told)
    return [each.node for each in missed.servers if responses.is_heard(each)] if missed else []


def may_stop_a_server(key: str) -> bool:
    """Whether behind this deadline a server may be stopped for its silence."""
    return key.startswith("exchange/") and "/evict/" in key


# Beginning.


def _reset(state: State, request: LossResetRequested, ref: RequestRef) -> Decision:
    group = group_row(state, request.name)
    if group is None:
        hint = "See `topolog get groups`."
        raise Refused("GROUP_UNKNOWN", "EX1", f"There is no group {request.name!r}.", hint=hint)
    if not any(ownership.lost_in(row) for row in _rows(state, group)):
        return RequestUnchanged(ref, request.subject, None)
    return ExchangeQueued(ref, TriggerType.LOSS_RESET, group.name, changed_view(state))


def _begin(
    state: State, waiting: tuple[Trigger, ...], told: Told, choose: Choose, together: Together
) -> list[Decision]:
    """The exchange of the oldest triggers; over at once where it needs nobody (DS16)."""
    triggers, missed = _alike(waiting) or waiting[:1], unheard(state)
    look = _look(state, triggers, told, choose, together)
    maps = missed.maps if missed else told.maps
    started = ExchangeStarted(triggers, _awaited(state, triggers, look), maps, told.at_ms)
    if started.awaited:
        return [started]
    completed = ExchangeCompleted(triggers[-1].version, (), tuple(sorted(look.needed)))
    return rules_of_cluster.cooled_by(state, look.decided) or [started, *look.decided, completed]


def _merged(
    state: State, row: ExchangeRow, more: tuple[Trigger, ...], told: Told, choose: Choose, together: Together
) -> ExchangeMerged:
    """Whoever is needed now and was not asked yet is asked."""
    asked = {(each.node, each.incarnation): each.needs_map for each in row.awaited}
    look = _look(state, (*row.triggers, *more), told, choose, together)
    awaited = _awaited(state, more, look)
    return ExchangeMerged(
        more, tuple(each for each in awaited if asked.get((each.node, each.incarnation)) not in (True, each.needs_map))
    )


def _awaited(state: State, triggers: Sequence[Trigger], look: _Look) -> tuple[Awaited, ...]:
    """Who is needed, in the order of their joining; not again whom the last exchange has asked and not heard.

    Where members come and go it is enough that the others are there, but for those that come, and those that may have
    come back with something. An operator takes stock of all.
    """
    types, missed = {trigger.type for trigger in triggers}, unheard(state)
    is_of_members = types.issubset((*MERGED, TriggerType.ANSWERED))
    joined = {trigger.subject for trigger in triggers if trigger.type is TriggerType.JOIN}
    asked = (each for each in missed.servers if each.at < missed.missed_at) if missed else ()
    silent = {(each.node, each.incarnation) for each in asked}
    return tuple(
        Awaited(row.node, row.incarnation, not is_of_members or row.node in look.maps or row.node in joined)
        for row in placement.servers(state)
        if (row.node in look.needed or TriggerType.REQUESTED in types) and (row.node, row.incarnation) not in silent
    )


def _takes_in(row: ExchangeRow) -> bool:
    return all(trigger.type in MERGED for trigger in row.triggers)


def _alike(waiting: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The joins and leaves before the first trigger of another kind (EX22), as many as fit one record: while the
    cluster is INACTIVE or cold they may pile up for days."""
    return tuple(takewhile(lambda trigger: trigger.type in MERGED, islice(waiting, _TRIGGERS_MAX)))


# Waiting.


def _is_awaited(state: State, asked: Asked, responses: Responses) -> bool:
    """Whoever has left is awaited no more (EX24), also where its leaving waits for the next exchange."""
    row = state.get(NodeRow, asked.node)
    is_here = row is not None and row.is_member and row.incarnation == asked.incarnation
    return is_here and not responses.is_heard(asked)


def _hear_late(state: State, told: Told) -> list[Decision]:
    """A server that the last exchange has done without is heard: what it alone can tell needs another one (DS17)."""
    if not heard_late(state, told):
        return []
    return [ExchangeQueued(None, TriggerType.ANSWERED, "", changed_view(state))]


def _overdue(missed: UnheardRow, told: Told) -> list[Decision]:
    """Named once, when the first of them has been silent for too long."""
    if missed.overdue_at is not None or not any(_has_passed(each, "warn", told) for each in missed.servers):
        return []
    return [ExchangeOverdue(tuple(each.node for each in missed.servers))]


def _evict(state: State, missed: UnheardRow, told: Told, choose: Choose, together: Together) -> list[Decision]:
    """Stop who answers nobody and is needed still, unless it holds a last copy; who is being stopped already leaves
    when its lease ends."""
    stuck = [
        each
        for each in missed.servers
        if _has_passed(each, "evict", told) and _standing(state, each.node) is Standing.MEMBER
    ]
    needed = _look(state, (), told, choose, together).needed if stuck else ()
    return [
        LeaseStopped(None, each.node, each.incarnation, LeaveReason.STUCK)
        for each in stuck
        if each.node in needed and not _holds_a_last_copy(state, each.node, missed)
    ]


def _holds_a_last_copy(state: State, node: NodeId, missed: UnheardRow) -> bool:
    """Whether it owns a partition of which no server has a present copy that is not silent itself (DS10)."""
    number, silent = ownership.number_of(state, node), {each.node for each in missed.servers}
    known = {ownership.number_of(state, row.node): row for row in placement.servers(state)}
    joined_at = {each: row.joined_at for each, row in known.items() if each is not None and row.node not in silent}
    if number is None:
        return False
    return any(
        last_owners.owned_only_by(row, [number], list(joined_at), joined_at)
        for group in _groups(state)
        for row in _rows(state, group)
    )


def _standing(state: State, node: NodeId) -> Standing:
    row = state.get(NodeRow, node)
    assert row is not None, "only a member is awaited"
    return row.standing


def _has_passed(asked: Asked, what: str, told: Told) -> bool:
    return any(key.startswith(_key(asked, what)) for key in told.passed)


def _key(asked: Asked, what: str) -> str:
    return f"exchange/{asked.at}/{asked.node}/{asked.incarnation}/{what}/"


def _gathered(row: ExchangeRow) -> str:
    return f"exchange/{row.started_at}/gather"


# Ending.


def _end(state: State, row: ExchangeRow, told: Told, choose: Choose, together: Together) -> list[Decision]:
    """Once all that it waits for are heard, or the time for that is over."""
    if _gathered(row) not in told.passed and silent(state, row, told):
        return []
    look = _look(state, row.triggers, told, choose, together)
    responses = Responses.of(state, told)
    times = ((each.node, responses.waited_ms(each, row.began_at_ms)) for each in row.awaited)
    waited = sorted((Waited(node, ms) for node, ms in times if ms is not None), key=lambda each: each.waited_ms)
    completed = ExchangeCompleted(row.result, tuple(waited), tuple(sorted(look.needed)))
    return rules_of_cluster.cooled_by(state, look.decided) or [*look.decided, completed]


def _look(state: State, triggers: Sequence[Trigger], told: Told, choose: Choose, together: Together) -> _Look:
    """The full maps of all groups that change, what is lost, and who is needed for the rest."""
    resets, roster = _resets(state, triggers), Roster.of(state)
    here = _here(state, roster.number_of, Responses.of(state, told))
    decided: list[Decision] = []
    needed: set[NodeNumber] = set()
    maps: set[NodeNumber] = set()
    for group in _groups(state):
        rows, ask = list(_rows(state, group)), _ask(group, resets.get(group.name))
        found = outcomes(rows, roster.wanted(state, group, rows, ask, choose), here, ask, outcome, together)
        decided += _full_maps(group, found.changes, roster.new)
        decided += _losses(group, found.changes, roster.names)
        needed |= found.waits_for
        maps |= found.maps
    return _Look(decided, roster.nodes(needed), roster.nodes(maps))


def _ask(group: GroupRow, reset_at: Position | None = None) -> Ask:
    return Ask(begins_empty=group.loss_policy is LossPolicy.IGNORE, reset_at=reset_at)


def _resets(state: State, triggers: Sequence[Trigger]) -> Mapping[str, Position]:
    """Since when what is lost of a group is given up, also by a reset whose exchange has missed somebody; of none where
    the state of the cluster forbids that by now, for whoever made it read-only may have meant just that."""
    if not is_allowed(state, Operation.GROUP):
        return {}
    missed = unheard(state)
    before = dict(missed.resets) if missed else {}
    return before | {trigger.subject: trigger.at for trigger in triggers if trigger.type is TriggerType.LOSS_RESET}


def _here(state: State, number_of: Mapping[str, NodeNumber], responses: Responses) -> Servers:
    """Who is a member, who of them is heard, and what those have told that have answered."""
    return Servers(
        {
            number_of[row.node]: Server(row.joined_at, responses.map_of(row), is_heard=responses.is_heard(row))
            for row in placement.servers(state)
            if row.node in number_of
        }
    )


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


def _rows(state: State, group: GroupRow) -> Iterator[OwnershipRow]:
    return ownership.rows_of(state, group.name, group.partitions)
