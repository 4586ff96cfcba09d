"""Rules of the exchange: when one begins, what it takes in, whom it waits for, what it decides (DESIGN §4.3.1-4, 7).

A new exchange takes the oldest trigger; one of joins and leaves takes all of those that stand in a row behind it, and
those that come while it is open (N1, N2, N6). Servers are asked only where something is to be learnt: when members
leave a fully rebalanced cluster nobody is (P1, P2).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from topolog.events import ownership
from topolog.events.codec import Decision
from topolog.events.exchange import (
    MERGED,
    Awaited,
    ExchangeCompleted,
    ExchangeMerged,
    ExchangeRow,
    ExchangeStarted,
    FullPartitionMap,
    PartitionsLost,
    Trigger,
    TriggerType,
    Waited,
    open_exchange,
    pack_changes,
    queued,
)
from topolog.events.groups import GroupRow, LossPolicy
from topolog.events.ids import Incarnation, NodeId, Offset, TopologyVersion
from topolog.events.membership import NodeRow, Standing, members
from topolog.events.ownership import Change, NodeNumber
from topolog.events.partitions import PartitionState
from topolog.events.requests import NodeKind
from topolog.events.state import State
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.rules.outcome import Ask, Present, as_change, outcome

Wanted = Mapping[int, tuple[NodeId, ...]]
Choose = Callable[[GroupRow, Sequence[NodeRow]], Wanted]
"""The affinity of a group over servers: whom it wants for each partition, its primary first."""

_BYTES_MAX = RECORD_BYTES_MAX - 10_000
"""Changes in one FullPartitionMap; names of nodes are a part of the rest."""


class Answer(msgspec.Struct, frozen=True):
    """A single map that answers the open exchange. `waited_ms`: how long it took. States and counters by group."""

    incarnation: Incarnation
    waited_ms: int
    states: Mapping[str, Mapping[int, PartitionState]]
    counters: Mapping[str, Mapping[int, int]]


Answers = Mapping[NodeId, Answer]


def settle(state: State, answers: Answers, choose: Choose, maps: Offset, at_ms: int) -> list[Decision]:
    """What follows about exchanges; call again until nothing does.

    `maps`: how far the topic `maps` has been read. `at_ms`: wall time, for people.
    """
    row, waiting = open_exchange(state), queued(state)
    if row is None:
        return _begin(state, waiting, choose, maps, at_ms) if waiting else []
    if _takes_in(row) and (more := _alike(waiting)):
        return [ExchangeMerged(more, tuple(_joined(state, more)))]
    if all(_has_answered(each, answers) for each in row.awaited):
        return _end(state, row, answers, choose)
    return []


def servers(state: State) -> list[NodeRow]:
    """Members that may hold copies, in the order in which they joined."""
    found = [row for row in members(state) if row.kind is NodeKind.SERVER]
    return sorted(found, key=lambda row: row.joined_at)


def _begin(state: State, waiting: tuple[Trigger, ...], choose: Choose, maps: Offset, at_ms: int) -> list[Decision]:
    triggers = _alike(waiting) or waiting[:1]
    if all(trigger.type is TriggerType.LEAVE for trigger in triggers) and _was_rebalanced(state):
        started = ExchangeStarted(triggers, (), maps, at_ms)
        return [started, *_decided(state, triggers, {}, choose), _completed(triggers[-1].version, (), {})]
    return [ExchangeStarted(triggers, tuple(_awaited(servers(state))), maps, at_ms)]


def _was_rebalanced(state: State) -> bool:
    """Up to what the leaving itself has torn open."""
    return all(
        ownership.is_settled(row, but_for_absent=True) for group in _groups(state) for row in _rows(state, group)
    )


def _takes_in(row: ExchangeRow) -> bool:
    return all(trigger.type in MERGED for trigger in row.triggers)


def _alike(waiting: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """The joins and leaves before the first trigger of another kind (N2)."""
    return tuple(takewhile(lambda trigger: trigger.type in MERGED, waiting))


def _joined(state: State, triggers: Iterable[Trigger]) -> Iterator[Awaited]:
    names = dict.fromkeys(trigger.subject for trigger in triggers if trigger.type is TriggerType.JOIN)
    return _awaited(row for row in servers(state) if row.node in names)


def _awaited(rows: Iterable[NodeRow]) -> Iterator[Awaited]:
    return (Awaited(row.node, row.incarnation) for row in rows)


def _has_answered(awaited: Awaited, answers: Answers) -> bool:
    answer = answers.get(awaited.node)
    return answer is not None and answer.incarnation == awaited.incarnation


def _end(state: State, row: ExchangeRow, answers: Answers, choose: Choose) -> list[Decision]:
    decided = _decided(state, row.triggers, answers, choose)
    return [*decided, _completed(row.result, row.awaited, answers)]


def _completed(version: TopologyVersion, awaited: Sequence[Awaited], answers: Answers) -> ExchangeCompleted:
    waited = [Waited(each.node, answers[each.node].waited_ms) for each in awaited]
    return ExchangeCompleted(version, tuple(sorted(waited, key=lambda each: each.waited_ms)))


def _decided(state: State, triggers: Sequence[Trigger], answers: Answers, choose: Choose) -> list[Decision]:
    """The full maps of all groups that change, and what is lost."""
    resets = {trigger.subject for trigger in triggers if trigger.type is TriggerType.LOSS_RESET}
    decided: list[Decision] = []
    known = ownership.names(state)
    for group in _groups(state):
        wanted = choose(group, [row for row in servers(state) if row.standing is Standing.MEMBER])
        known = (*known, *sorted(_unknown(wanted, known)))
        ask = Ask(begins_empty=group.name in resets or group.loss_policy is LossPolicy.IGNORE)
        changes = list(_changes(state, group, wanted, known, answers, ask))
        decided += _full_maps(state, group, changes, known)
        decided += _losses(group, changes, known)
    return decided


def _unknown(wanted: Wanted, known: Sequence[str]) -> set[str]:
    return {str(node) for nodes in wanted.values() for node in nodes}.difference(known)


def _changes(
    state: State, group: GroupRow, wanted: Wanted, known: Sequence[str], answers: Answers, ask: Ask
) -> Iterator[Change]:
    numbers = {node: number for number, node in enumerate(known)}
    here = {numbers[row.node]: row for row in servers(state) if row.node in numbers}
    for row in _rows(state, group):
        for before in ownership.ownerships(row, range(row.first, row.first + row.count)):
            present = {
                number: _present(member, answers, group.name, before.partition) for number, member in here.items()
            }
            after = outcome(before, [numbers[node] for node in wanted[before.partition]], present, ask)
            if after != as_change(before):
                yield after


def _present(member: NodeRow, answers: Answers, group: str, partition: int) -> Present:
    answer = answers.get(member.node)
    if answer is None or answer.incarnation != member.incarnation:
        return Present(member.joined_at)
    state = answer.states.get(group, {}).get(partition)
    counter = answer.counters.get(group, {}).get(partition, 0)
    return Present(member.joined_at, state is PartitionState.OWNING, counter)


def _full_maps(state: State, group: GroupRow, changes: Sequence[Change], known: Sequence[str]) -> Iterator[Decision]:
    """As many records as the changes need; the first one enrols new nodes."""
    enrolled = tuple(known[len(ownership.names(state)) :])
    part: list[Change] = []
    for change in changes:
        part.append(change)
        if len(part) * (6 + 3 * len(change.copies)) > _BYTES_MAX:
            yield FullPartitionMap(group.name, enrolled, pack_changes(part))
            part, enrolled = [], ()
    if part:
        yield FullPartitionMap(group.name, enrolled, pack_changes(part))


def _losses(group: GroupRow, changes: Sequence[Change], known: Sequence[str]) -> Iterator[Decision]:
    """One sentence about each set of absent owners."""
    by_awaited: dict[tuple[NodeNumber, ...], list[int]] = {}
    for change in changes:
        if change.is_lost:
            by_awaited.setdefault(tuple(copy.node for copy in change.copies), []).append(change.partition)
    for awaited, partitions in by_awaited.items():
        yield PartitionsLost(group.name, tuple(partitions), tuple(known[number] for number in awaited))


def _groups(state: State) -> Iterator[GroupRow]:
    return (row for _, row in state.rows(GroupRow))


def _rows(state: State, group: GroupRow) -> Iterator[ownership.OwnershipRow]:
    return ownership.rows_of(state, group.name, group.partitions)
