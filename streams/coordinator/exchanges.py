"""What a coordinator knows of partitions besides the log: members' single maps, ideal assignments, rows to look at.

All of it can be made again. Maps come again from the offset that the newest exchange carries (K4); an ideal assignment
is a function of members and group; every row is looked at when a term begins. So nothing of this is in the log, and a
new coordinator starts without it.

A million partitions are four thousand rows: between two exchanges only those are looked at that have changed.
"""

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence

from topolog.events import ownership
from topolog.events.awaited import unheard
from topolog.events.decision import Decision
from topolog.events.exchange import newest_exchange, open_exchange, queued
from topolog.events.groups import GroupRow
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset, Position
from topolog.events.leases import NodeRow
from topolog.events.log import Entry
from topolog.events.ownership_columns import Columns, OwnershipRow
from topolog.events.partitions import PartitionState, decode_codes, states_of
from topolog.events.single_maps import NodeMap, SinglePartitionMap, unpack_counters
from topolog.events.state import Key, State
from topolog.events.terms import cluster
from topolog.streams.coordinator.reports import Reports
from topolog.streams.rules import copies, exchange, hand_over, placement
from topolog.streams.rules.affinity import Candidate, Indexes, Placement, ideal, ideal_after
from topolog.streams.rules.responses import Told
from topolog.streams.rules.single_maps import (
    Inbox,
    Known,
    KnownGroup,
    Receipt,
    answers,
    finished_in,
    receive,
)


class Exchanges:
    """`inbox` counts what became of every map. `next_offset`: how far the topic `maps` has been read.

    `passed`: the deadlines of maps that have passed and are still due, as the agenda keeps them.
    """

    def __init__(self, passed: Collection[str] = frozenset()) -> None:
        self.inbox = Inbox()
        self.next_offset = Offset(0)
        self._passed = passed
        self._told_last: Told | None = None
        self._answers: dict[NodeId, MapAnswer] = {}
        self._sources: dict[NodeId, str] = {}
        self._reports: dict[NodeId, list[copies.Report]] = {}
        self._ideals: dict[tuple[Placement, bool], tuple[Sequence[Candidate], Indexes]] = {}
        self._columns: dict[str, tuple[tuple[OwnershipRow, ...], Columns | None]] = {}
        self._changed: dict[str, None] = {}
        self._to_do: dict[str, None] = {}

    def begin(self, state: State) -> None:
        """A new leader: every row may hold something to do, and maps are read from the newest exchange on."""
        self.next_offset = maps_from(state)
        for key, _ in state.rows(OwnershipRow):
            self._changed[key] = None

    def revise(self, key: Key) -> None:
        """The row under `key` has changed."""
        if key[0] == OwnershipRow.KIND:
            self._changed[key[1]] = None

    def hear(self, record: SinglePartitionMap, entry: Entry, known: Known) -> Receipt:
        """One record of `maps`."""
        self.next_offset = Offset(entry.offset + 1)
        self.inbox, receipt = receive(self.inbox, known, record)
        if receipt.map:
            self._sources[record.node] = f"maps/{entry.partition}@{entry.offset} {record.node}"
            self._answers[record.node] = MapAnswer(receipt.map, known.groups, entry.appended_at_ms)
            self._reports[record.node] = list(_reports(receipt.map, known.groups))
        return receipt

    def silent(self, state: State, known: Known, reports: Reports) -> list[NodeId]:
        """Who is awaited by the open exchange and has not answered."""
        row = open_exchange(state)
        return exchange.silent(state, row, self._told(state, known, reports, 0)) if row else []

    def source_of_late(self, state: State) -> str:
        """The record of the newest map of who was heard at last, as `source`, by what was told at the last settling."""
        late = exchange.heard_late(state, self._told_last) if self._told_last else []
        return self.source(late[0]) if late else ""

    def source(self, node: str) -> str:
        """The record of the node's newest map, as stamps name it: `maps/0@17 n3`."""
        return self._sources.get(NodeId(node), "")

    def settle(
        self, state: State, known: Known, reports: Reports, waited_through: Position, at_ms: int
    ) -> list[Decision]:
        """What follows about partitions; call again until nothing does. `at_ms`: wall time, for people."""
        self._told_last = told = self._told(state, known, reports, at_ms)
        decided = exchange.settle(state, told, self._choose, self._together)
        decided = decided or hand_over.settle(state, reports.drained(), waited_through)
        if decided or open_exchange(state) or queued(state):
            return decided
        rows = self._rows_to_do(state)
        left_out = placement.left_out(state, self._choose, rows)
        return (
            copies.settle(state, self._take_reports(known))
            or hand_over.prepare(state, rows, left_out)
            or copies.surplus(state, rows, left_out)
        )

    def _rows_to_do(self, state: State) -> list[OwnershipRow]:
        """Rows with partitions to be handed over, or copies that nobody needs."""
        changed = [row for key in self._changed if (row := state.get(OwnershipRow, key))]
        restless = {ownership.row_key(row.group, row.first) for row in ownership.restless(changed)}
        for key in self._changed:
            if key in restless:
                self._to_do[key] = None
            else:
                self._to_do.pop(key, None)
        self._changed.clear()
        return [row for key in self._to_do if (row := state.get(OwnershipRow, key))]

    def _choose(self, group: GroupRow, candidates: Sequence[Candidate]) -> Indexes:
        """The affinity's choice; computed anew only where candidates have changed since. A group that the baseline
        places may have others."""
        kind = Placement.of(group.definition), group.persistent
        before, previous = self._ideals.get(kind, ([], None))
        if previous is None or before != candidates:
            placement = kind[0]
            after = (
                ideal(candidates, placement)
                if previous is None
                else ideal_after(previous, before, candidates, placement)
            )
            self._ideals[kind] = candidates, after
            return after
        return previous

    def _together(self, rows: Sequence[OwnershipRow]) -> Columns:
        """An exchange looks at all rows when it begins and when it ends; mostly no row has changed in between."""
        before, columns = self._columns.get(rows[0].group, ((), None))
        if columns is None or len(before) != len(rows) or any(map(operator.is_not, before, rows)):
            columns = Columns(*rows)
            self._columns[rows[0].group] = tuple(rows), columns
        return columns

    def _told(self, state: State, known: Known, reports: Reports, at_ms: int) -> Told:
        """What is known beside the log. No map answers what has not been asked."""
        row, missed = open_exchange(state), unheard(state)
        found: dict[NodeId, MapAnswer] = {}
        for node in answers(self.inbox, known) if row or missed else ():
            found[node] = self._answers[node]
            found[node].began_at_ms = row.began_at_ms if row else at_ms
            found[node].has_lost_all = _has_lost_all(state, node)
        return Told(found, self.next_offset, at_ms, self._passed, reports.hearing)

    def _take_reports(self, known: Known) -> list[copies.Report]:
        """Loads and clearings that the newest maps tell of: each is looked at once, outside of exchanges."""
        reports, self._reports = self._reports, {}
        current = {node for node, told in self.inbox.kept.items() if known.members.get(node) == told.incarnation}
        return [each for node, found in reports.items() if node in current for each in found]


class MapAnswer:
    """A kept map as an answer: most of its bytes are never looked at, so each group is unpacked when it is asked for.

    `waited_ms` counts from `began_at_ms`, both wall times. `has_lost_all`: what it says of copies of former lives is
    not believed.
    """

    def __init__(self, told: NodeMap, groups: Mapping[str, KnownGroup], came_at_ms: int) -> None:
        self.began_at_ms = came_at_ms
        self.has_lost_all = False
        self._told = told
        self._groups = groups
        self._came_at_ms = came_at_ms
        self._whole: dict[str, Collection[int]] = {}
        self._counters: dict[str, Mapping[int, int]] = {}

    @property
    def incarnation(self) -> Incarnation:
        return self._told.incarnation

    @property
    def applied(self) -> Position:
        return self._told.applied.position

    @property
    def waited_ms(self) -> int:
        return max(0, self._came_at_ms - self.began_at_ms)

    def whole(self, group: str) -> Collection[int]:
        """The partitions of which the node says that it has a whole copy."""
        if self.has_lost_all:
            return ()
        if group not in self._whole:
            held = self._told.groups.get(group)
            states = states_of(decode_codes(held.states, self._groups[group].partitions)) if held else {}
            self._whole[group] = {number for number, state in states.items() if state is PartitionState.OWNING}
        return self._whole[group]

    def counters(self, group: str) -> Mapping[int, int]:
        """Update counters by partition."""
        if group not in self._counters:
            held = self._told.groups.get(group)
            found = unpack_counters(held.counters, self._groups[group].partitions) if held else {}
            self._counters[group] = {number: counter.current for number, counter in found.items()}
        return self._counters[group]


def _has_lost_all(state: State, node: NodeId) -> bool:
    """Whether its disk is not that of its last life, whatever its service says (`events/views.py`).

    A node without a folder has no past that could say which of its lives the disk is of, so it has no disk: between two
    lives of it another process may have acted under its name, with another one.
    """
    row = state.get(NodeRow, node)
    if row is None:
        return False
    return not row.folder or (row.kinship is not None and row.kinship.has_lost_it)


def _reports(told: NodeMap, groups: Mapping[str, KnownGroup]) -> Iterator[copies.Report]:
    """Loads and clearings that a kept map tells of."""
    for name in told.groups:
        for partition, state, finished in finished_in(told, name, groups[name].partitions):
            if state is PartitionState.OWNING:
                yield copies.Loaded(told.node, name, partition, finished.since, finished.token)
            else:
                yield copies.Cleared(told.node, name, partition, finished.since)


def maps_from(state: State) -> Offset:
    """From where the topic `maps` matters: what came before the newest exchange, that one has taken in."""
    row = newest_exchange(state)
    return row.maps if row else Offset(0)


def known_of(state: State, position: Position, chains: Mapping[Position, bytes]) -> Known:
    """What maps are judged by, as the log has been decided up to `position`."""
    newest, missed = newest_exchange(state), unheard(state)
    counts_from = missed or newest
    return Known(
        log_id=bytes.fromhex(cluster(state).log_id),
        position=position,
        members={row.node: row.incarnation for row in placement.servers(state)},
        groups={name: KnownGroup(row.partitions, row.created_at) for name, row in state.rows(GroupRow)},
        exchange=newest.started_at if newest else NOWHERE,
        counts_from=counts_from.counts_from if counts_from else NOWHERE,
        chains=chains,
    )
