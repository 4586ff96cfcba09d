"""A node's own copies: what the log asks of each, and what the node has done with it. Pure.

Threats. A node reports a load of an earlier life of its copy as one of this; it says that a hand-over has drained while
an operation still runs; after a restart it says that it owns what it no longer has.

The log says what a node holds and since when; this file only adds what the log cannot know: which loads and clearings
the node has finished, which partitions were on its disk when it started, and which hand-overs have not drained yet. A
finished load names the life of the copy and the token of the primary that supplied it (DS5), so what is finished for
another life, or under another token, counts no more by itself. For what the node may act is `acting.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

import msgspec

from topolog.events import ownership
from topolog.events.awaited import Asked, unheard
from topolog.events.errors import HookFailed
from topolog.events.exchange import HandOverRow, open_exchange
from topolog.events.group_definition import PARTITIONS_MAX
from topolog.events.groups import GroupRow
from topolog.events.ids import Incarnation, NodeId, Position, Term
from topolog.events.leases import NodeRow
from topolog.events.membership import Applied
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, codes_of, encode_codes
from topolog.events.single_maps import (
    NUMBER_MAX,
    Copies,
    Finished,
    NodeMap,
    UpdateCounter,
    pack_counters,
    pack_finished,
)
from topolog.events.state import State

_SHOWN_CHARS_MAX = 100

PartitionId = tuple[str, int]
"""A group and one of its partitions."""

Disk = Mapping[int, Mapping[int, UpdateCounter]]
"""Whole copies that a process has, on its disk or in memory, by the group's *number* and the partition: of a group that
was dropped and made anew under the same name they are worth nothing."""


def check_disk(disk: object, partitions: Mapping[int, int]) -> None:
    """Raise HookFailed for what is no Disk; `partitions`: how many the groups have that are known, by their number."""
    if not isinstance(disk, Mapping):
        raise _no_disk(f"{_shown(disk)}, which is no mapping")
    for number, counters in disk.items():
        if type(number) is not int:
            raise _no_disk(f"{_shown(number)} for a group, which is not its number")
        if not isinstance(counters, Mapping):
            raise _no_disk(f"{_shown(counters)} for group {number}, which is no mapping")
        for partition, counter in counters.items():
            where = f"partition {_shown(partition)} of group {number}"
            if type(partition) is not int or not 0 <= partition < partitions.get(number, PARTITIONS_MAX):
                raise _no_disk(f"{where}, which there is not")
            if not isinstance(counter, UpdateCounter):
                raise _no_disk(f"{_shown(counter)} for {where}, which is no UpdateCounter")
            if not _is_counter(counter):
                raise _no_disk(f"{_shown(counter)} for {where}, which does not count up")


def _is_counter(counter: UpdateCounter) -> bool:
    initial, current = counter.initial, counter.current
    return type(initial) is int and type(current) is int and 0 <= initial <= current <= NUMBER_MAX


def _no_disk(what: str) -> HookFailed:
    return HookFailed(
        f"The hook that `holds` was given said {what}.",
        hint="It is to give {group's number: {partition: UpdateCounter(initial, current)}}. The node is fenced. Repair "
        "the hook and start the process again.",
    )


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARS_MAX]


class _Told(msgspec.Struct, frozen=True):
    """In which term the last map was sent, and for which position that asked for one."""

    term: Term
    asked_at: Position | None


class Held(msgspec.Struct, frozen=True):
    """One copy of this node as the log has it; `token` is that of whoever acts."""

    group: str
    partition: int
    state: PartitionState
    since: Position
    token: Position


class NodeCopies:
    """`update_sequence` numbers the maps of a process."""

    def __init__(self, node: NodeId) -> None:
        self.update_sequence = 0
        self._node = node
        self._incarnation = Incarnation(0)
        self._whole: dict[int, set[int]] = {}  # by the group's number: what the disk has, as far as it was not cleared
        self._finished: dict[PartitionId, Finished] = {}
        self._drained: dict[Position, set[PartitionId]] = {}
        self._told: _Told | None = None

    def begin(self, incarnation: Incarnation, disk: Disk) -> None:
        """A new incarnation, which has these whole copies; what the former one has finished is no more."""
        self._incarnation, self._told = incarnation, None
        self._whole = {number: set(counters) for number, counters in disk.items()}
        self._finished.clear()
        self._drained.clear()

    def held(self, state: State) -> Iterator[Held]:
        """This node's copies as of the state, in the order of groups and partitions.

        Not those that the log lists of a former life and no outcome has confirmed since: nobody knows if they are here.
        """
        number, node = ownership.number_of(state, self._node), state.get(NodeRow, self._node)
        if number is None or node is None or node.incarnation != self._incarnation:
            return
        for name, group in state.rows(GroupRow):
            for each in ownership.held(list(ownership.rows_of(state, name, group.partitions)), number):
                copy = each.copy_of(number)
                assert copy is not None, "the row lists it"
                if copy.since > node.joined_at:
                    yield Held(name, each.partition, copy.state, copy.since, each.token)

    def finish(self, state: State, group: str, partition: int, since: Position, token: Position) -> bool:
        """Note that the copy of this life is loaded under this token, or cleared (token 0); False if it is another by
        now, or the token is: what was finished under the present one stands."""
        held = self._own(state, group, partition)
        if held is None or held.since != since:
            return False
        if token != {PartitionState.MOVING: held.token, PartitionState.RENTING: Position(0)}.get(held.state):
            return False
        self._finished[group, partition] = Finished(since, token)
        if held.state is PartitionState.RENTING and (row := state.get(GroupRow, group)):
            self._whole.get(row.number, set()).discard(partition)
        self._told = None
        return True

    def drain(self, state: State, places: Set[PartitionId]) -> None:
        """Nothing that this node began for these partitions, which it hands over, still runs."""
        for row in self._hand_overs(state):
            self._drained.setdefault(row.prepared_at, set()).update(places)

    def drained(self, state: State, applied: Position) -> Position:
        """Up to which position every hand-over has drained here, for the heartbeat."""
        waiting = [row.prepared_at for row in self._hand_overs(state) if self._undrained(row)]
        self._drained = {at: self._drained[at] for at in self._drained if state.get(HandOverRow, str(at))}
        return Position(min(waiting) - 1) if waiting else applied

    def prepared_between(self, state: State, above: Position, up_to: Position) -> bool:
        """Whether a hand-over of this node was prepared behind the one position and not behind the other."""
        return any(above < row.prepared_at <= up_to for row in self._hand_overs(state))

    def hands_over(self, state: State) -> bool:
        """Whether a hand-over of this node is under way."""
        return bool(self._hand_overs(state))

    def undrained(self, state: State) -> set[PartitionId]:
        """What must drain before hand-overs under way can switch."""
        return {place for row in self._hand_overs(state) for place in self._undrained(row)}

    def owes_map(self, state: State, incarnation: Incarnation, term: Term) -> bool:
        """Whether a map is to be sent: the open exchange asks for one, or something is finished that the log does not
        show. Once in each term: a new coordinator may not have the one that was sent (K4)."""
        asked = self._asked_at(state, incarnation)
        return self._told != _Told(term, asked) and (asked is not None or self._has_news(state))

    def next_map(self, state: State, incarnation: Incarnation, applied: Applied, counters: Disk, term: Term) -> NodeMap:
        """All that this node has to say of its copies now; `counters` are the present ones of persistent groups."""
        self.update_sequence += 1
        self._told = _Told(term, self._asked_at(state, incarnation))
        row = open_exchange(state)
        held: dict[str, list[Held]] = {}
        for each in self.held(state):
            held.setdefault(each.group, []).append(each)
        groups = {
            name: self._group_map(group, held.get(name, ()), counters.get(group.number, {}))
            for name, group in state.rows(GroupRow)
        }
        exchange = row.started_at if row else None
        return NodeMap(self._node, incarnation, exchange, self.update_sequence, applied, groups)

    def unsay(self) -> None:
        """The last map did not reach the log."""
        self._told = None

    def _asked_at(self, state: State, incarnation: Incarnation) -> Position | None:
        """The position that asks this incarnation for its map, if one does; also that of an exchange that has done
        without it, which another one mends when it is heard."""
        row, missed = open_exchange(state), unheard(state)
        if row is not None and self._is_in(row.awaited, incarnation):
            return row.started_at
        return missed.missed_at if missed and self._is_in(missed.servers, incarnation) else None

    def _is_in(self, asked: Iterable[Asked], incarnation: Incarnation) -> bool:
        return any((each.node, each.incarnation, each.needs_map) == (self._node, incarnation, True) for each in asked)

    def _has_news(self, state: State) -> bool:
        """Forgets what the log shows by now, or what is of an earlier life of its copy."""
        current = {place: done for place, done in self._finished.items() if self._is_news(state, place, done)}
        self._finished = current
        return bool(current)

    def _is_news(self, state: State, place: PartitionId, done: Finished) -> bool:
        copy = self._own(state, *place)
        return copy is not None and copy.since == done.since

    def _group_map(self, group: GroupRow, held: Iterable[Held], counters: Mapping[int, UpdateCounter]) -> Copies:
        states = {each: PartitionState.OWNING for each in self._whole.get(group.number, ()) if each < group.partitions}
        finished: dict[int, Finished] = {}
        for each in held:
            done = self._done(each)
            states[each.partition] = _after(each.state) if done else each.state
            if done:
                finished[each.partition] = done
        known = {partition: counter for partition, counter in counters.items() if partition in states}
        return Copies(
            encode_codes(codes_of(states, group.partitions)),
            pack_counters(known) if known else b"",
            pack_finished(finished) if finished else b"",
        )

    def _done(self, held: Held) -> Finished | None:
        """What is finished of this very life of the copy, a load under the token that acts now."""
        done = self._finished.get((held.group, held.partition))
        if done is None or done.since != held.since:
            return None
        if held.state is PartitionState.MOVING:
            return done if done.token == held.token else None
        return done if held.state is PartitionState.RENTING else None

    def _hand_overs(self, state: State) -> list[HandOverRow]:
        return [row for _, row in state.rows(HandOverRow) if row.node == self._node]

    def _undrained(self, row: HandOverRow) -> set[PartitionId]:
        places = {(move.group, partition) for move in row.moves for partition in move.partitions}
        return places - self._drained.get(row.prepared_at, set())

    def _own(self, state: State, group: str, partition: int) -> Held | None:
        row = state.get(OwnershipRow, ownership.row_key(group, partition))
        number = ownership.number_of(state, self._node)
        if row is None or number is None or partition >= row.first + row.count:
            return None
        each = ownership.ownership(row, partition)
        copy = each.copy_of(number)
        return Held(group, partition, copy.state, copy.since, each.token) if copy else None


def _after(state: PartitionState) -> PartitionState:
    return PartitionState.OWNING if state is PartitionState.MOVING else PartitionState.EVICTED
