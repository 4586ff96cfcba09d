"""Who holds a copy of which partition, who owns it, who acts: what the log knows of it (docs/design/partitions.md).

Threats. Nobody stops writing while members come and go, so no counter and no map that a node sends says which copies
hold every acknowledged write; a node that was away believes that it owns what others have written since; two nodes act
for one partition.

Invariant. A copy that is OWNING here, the *owner row* of its partition, holds every write that was acknowledged, or its
node has been away since before the last of them and nobody has acted for the partition since (DS1). At most one node
acts for a partition; the position that made it act, its *token*, is carried by all that it writes (DS8, DS9).

Argument. A write is acknowledged when every copy listed here has stored it (DS3), so a copy can only fall behind when
it is not there; whoever leaves while another acts is taken out of the owner row at the very position of its leaving,
and comes back as MOVING. Where nobody acts nothing is written, so the row may wait for the absent.

How it is packed, a million partitions in every node's memory, stands in `ownership_columns.py`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events.ids import NodeId, Place, Position
from topolog.events.ownership_columns import (
    NOBODY,
    PARTITIONS_PER_ROW,
    ROWS_AT_ONCE,
    WANTED,
    Columns,
    OwnershipRow,
    any_copy,
    partitions_of,
)
from topolog.events.partitions import PartitionState
from topolog.events.state import Row, State

NODES_MAX = NOBODY - 1
NodeNumber = int

_OWNING_WANTED, _MOVING_WANTED = (state.code | WANTED for state in (PartitionState.OWNING, PartitionState.MOVING))

Wanted = NDArray[np.uint16]
"""Whom the affinity wants: numbers by partition and place, the primary first, NOBODY where there is no copy."""

STATES = {state.code: state for state in PartitionState}
"""The state of each code."""


class RosterRow(Row, frozen=True):
    """The nodes that have ever held a copy; a node's number is its place here, for ever."""

    KIND: ClassVar[str] = "roster"

    nodes: tuple[str, ...]


class Copy(msgspec.Struct, frozen=True, gc=False):
    """One node's copy of a partition."""

    node: NodeNumber
    state: PartitionState
    wanted: bool
    since: Position = Position(0)


class Ownership(msgspec.Struct, frozen=True, gc=False):
    """One partition. `acting` is None while nobody acts; then nothing is written."""

    partition: int
    copies: tuple[Copy, ...]
    acting: NodeNumber | None
    token: Position
    is_lost: bool

    @property
    def owners(self) -> tuple[NodeNumber, ...]:
        """The owner row: absent nodes too, where nobody acts."""
        return tuple(copy.node for copy in self.copies if copy.state is PartitionState.OWNING)

    @property
    def wanted(self) -> tuple[NodeNumber, ...]:
        """Whom the affinity wants here, its primary first."""
        return tuple(copy.node for copy in self.copies if copy.wanted)

    def copy_of(self, node: NodeNumber) -> Copy | None:
        return next((copy for copy in self.copies if copy.node == node), None)


class Change(msgspec.Struct, frozen=True):
    """What a decision makes of one partition: who holds it now, who acts for it now, whether it is lost.

    When a copy came into its state, and which token acts, follows from the place of the decision: a copy that keeps its
    state keeps its time, unless its node has joined anew since; an acting node that goes on keeps its token.
    """

    partition: int
    copies: tuple[Copy, ...]
    acting: NodeNumber | None
    is_lost: bool = False


def empty_rows(group: str, partitions: int) -> Iterator[OwnershipRow]:
    """Rows of a group of which nobody holds anything yet."""
    for first in range(0, partitions, PARTITIONS_PER_ROW):
        count = min(PARTITIONS_PER_ROW, partitions - first)
        yield OwnershipRow(group, first, count, 0, b"", b"", b"", b"\xff\xff" * count, bytes(8 * count), bytes(count))


def row_key(group: str, partition: int) -> str:
    """The key of the row that holds this partition."""
    return f"{group}/{partition // PARTITIONS_PER_ROW:03d}"


def rows_of(state: State, group: str, partitions: int) -> Iterator[OwnershipRow]:
    """The rows of one group, by partition."""
    for first in range(0, partitions, PARTITIONS_PER_ROW):
        yield row_of(state, group, first)


def row_of(state: State, group: str, partition: int) -> OwnershipRow:
    row = state.get(OwnershipRow, row_key(group, partition))
    assert row is not None, f"group {group} has no partition {partition}"
    return row


def ownership(row: OwnershipRow, partition: int) -> Ownership:
    """One partition of a row."""
    return next(ownerships(row, (partition,)))


def ownerships(row: OwnershipRow, partitions: Iterable[int]) -> Iterator[Ownership]:
    """These partitions of a row, in the order given."""
    lines = np.fromiter((partition - row.first for partition in partitions), np.intp)
    return _of_lines(Columns(row), lines, lines + row.first)


def changed(before: Sequence[OwnershipRow], rows: Sequence[OwnershipRow]) -> Iterator[Ownership]:
    """The partitions of these rows of a group that are not as they were `before`, in rows of the same partitions."""
    lines = np.flatnonzero(_differ(before, rows))
    return _of_lines(Columns(*rows), lines, partitions_of(rows)[lines])


def held(rows: Sequence[OwnershipRow], node: NodeNumber) -> Iterator[Ownership]:
    """The partitions of these rows of a group of which the node holds a copy."""
    columns = Columns(*rows)
    lines = np.flatnonzero(any_copy(columns.holders == node))
    return _of_lines(columns, lines, partitions_of(rows)[lines])


def _of_lines(columns: Columns, lines: NDArray[np.intp], partitions: NDArray[np.intp]) -> Iterator[Ownership]:
    tables = (columns.holders, columns.states, columns.since, columns.acting, columns.tokens, columns.lost)
    by_line = zip(partitions.tolist(), *(each[lines].tolist() for each in tables), strict=True)
    for partition, nodes, states, since, acting, token, lost in by_line:
        yield Ownership(
            partition,
            tuple(
                [
                    Copy(node, STATES[state & ~WANTED], state & WANTED > 0, at)
                    for node, state, at in zip(nodes, states, since, strict=True)
                    if node != NOBODY
                ]
            ),
            None if acting == NOBODY else acting,
            token,
            bool(lost),
        )


def numbered(indexes: NDArray[np.int16], numbers: Sequence[NodeNumber]) -> Wanted:
    """An assignment by indexes into a list of nodes, -1 for nobody, as one by these nodes' numbers."""
    found: Wanted = np.array([*numbers, NOBODY], dtype="<u2")[indexes]
    return found


def in_question(columns: Columns, wanted: Wanted) -> NDArray[np.intp]:
    """The lines that an outcome may change: nobody acts, or others hold the partition than are wanted.

    `wanted` is that of the columns' partitions. Wherever a member acts, who has left is gone from the row (`without`).
    """
    differs = columns.acting == NOBODY
    for place in range(max(columns.holders.shape[1], wanted.shape[1])):
        differs |= _differs(columns, wanted, place)
    return np.flatnonzero(differs)


def _differs(columns: Columns, wanted: Wanted, place: int) -> NDArray[np.bool_]:
    """Where this place does not hold the copy that is wanted there."""
    found: NDArray[np.bool_]
    if place >= columns.holders.shape[1]:
        found = wanted[:, place] != NOBODY
        return found
    holders, states = columns.holders[:, place], columns.states[:, place]
    is_wanted: NDArray[np.bool_] = (states & WANTED) != 0
    if place >= wanted.shape[1]:
        return is_wanted
    expected = wanted[:, place]
    serves = (states == _OWNING_WANTED) | (states == _MOVING_WANTED)
    found = np.where(expected == NOBODY, is_wanted, (holders != expected) | ~serves)
    return found


def unlisted(rows: Sequence[OwnershipRow], wanted: Wanted, nodes: Collection[NodeNumber]) -> frozenset[int]:
    """The partitions of these rows for which one of the nodes is wanted and not listed; `wanted`: of their group."""
    partitions = partitions_of(rows)
    columns, wished = Columns(*rows), wanted[partitions]
    listed = np.where((columns.states & WANTED) != 0, columns.holders, NOBODY)
    is_listed = (wished[:, :, np.newaxis] == listed[:, np.newaxis, :]).any(axis=2)
    is_missing = np.isin(wished, list(nodes)) & ~is_listed
    return frozenset(partitions[any_copy(is_missing)].tolist())


def without(rows: Sequence[OwnershipRow], node: NodeNumber, place: Place) -> list[OwnershipRow | None]:
    """Each of the rows after the node has left at `place` (DS1), None where it held nothing.

    Its copies go where another node acts. Where it acted itself, or nobody did, the owner row stays as it is.
    """
    columns = Columns(*rows, writable=True)
    held, acted = columns.holders == node, columns.acting == node
    starts = np.cumsum([0, *(row.count for row in rows[:-1])])
    is_changed = np.logical_or.reduceat(any_copy(held) | acted, starts)
    columns.acting[acted], columns.tokens[acted] = NOBODY, place.position
    columns.take_out(held & (columns.acting != NOBODY)[:, np.newaxis])
    return [
        columns.row(row, start, row.width) if has else None
        for row, start, has in zip(rows, starts.tolist(), is_changed.tolist(), strict=True)
    ]


def acted_by(rows: Sequence[OwnershipRow], node: NodeNumber) -> list[tuple[int, Position]]:
    """(partition, token) of what the node acts for, of these rows of a group."""
    columns = Columns(*rows)
    lines = np.flatnonzero(columns.acting == node)
    return list(zip(partitions_of(rows)[lines].tolist(), columns.tokens[lines].tolist(), strict=True))


def differing(before: OwnershipRow | None, row: OwnershipRow) -> list[int]:
    """The partitions of a row that are not as they were `before`, all of them if that is None."""
    if before is None:
        return list(range(row.first, row.first + row.count))
    return [row.first + at for at in np.flatnonzero(_differ([before], [row])).tolist()]


def _differ(before: Sequence[OwnershipRow], rows: Sequence[OwnershipRow]) -> NDArray[np.bool_]:
    width = max(row.width for row in (*before, *rows))
    was, now = Columns(*before, width=width), Columns(*rows, width=width)
    tables = (was.holders != now.holders) | (was.states != now.states) | (was.since != now.since)
    lines = (was.acting != now.acting) | (was.tokens != now.tokens) | (was.lost != now.lost)
    found: NDArray[np.bool_] = any_copy(tables) | lines
    return found


def is_settled(row: OwnershipRow) -> bool:
    """Whether every copy is wanted and owns, and the wanted primary acts; nothing is left to do here."""
    if not row.width or row.states.count(_OWNING_WANTED) + row.states.count(0) < len(row.states):
        return False
    columns = Columns(row)
    return bool(((columns.acting == columns.holders[:, 0]) & (columns.acting != NOBODY)).all())


def restless(rows: Sequence[OwnershipRow]) -> list[OwnershipRow]:
    """Those of the rows in which there is a partition to be handed over, or a copy that nobody needs."""
    found: list[OwnershipRow] = []
    for at in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[at : at + ROWS_AT_ONCE]
        columns = Columns(*some)
        if columns.holders.shape[1]:
            marks = _is_ready_to_switch(columns) | _has_surplus(columns)
            starts = np.cumsum([0, *(row.count for row in some[:-1])])
            found += [row for row, has in zip(some, np.logical_or.reduceat(marks, starts), strict=True) if has]
    return found


def ready_to_switch(row: OwnershipRow) -> list[tuple[int, NodeNumber, NodeNumber]]:
    """(partition, acting, wanted primary) where another acts than is wanted, and all that are wanted own."""
    if not row.width:
        return []
    columns = Columns(row)
    found = np.flatnonzero(_is_ready_to_switch(columns))
    former, first = columns.acting[found].tolist(), columns.holders[found, 0].tolist()
    return list(zip((row.first + found).tolist(), former, first, strict=True))


def with_surplus(row: OwnershipRow) -> list[int]:
    """Partitions whose wanted primary acts, with copies that nobody wants though all that are wanted own.

    Where nobody is wanted, as no member passes the group's filter, whoever holds it goes on (EX17).
    """
    return [row.first + at for at in np.flatnonzero(_has_surplus(Columns(row))).tolist()] if row.width else []


def _is_ready_to_switch(columns: Columns) -> NDArray[np.bool_]:
    first = columns.holders[:, 0]
    is_primary_wanted = (columns.states[:, 0] & WANTED) != 0
    found: NDArray[np.bool_] = (columns.acting != NOBODY) & is_primary_wanted & (columns.acting != first)
    return found & _all_wanted_own(columns) if found.any() else found


def _has_surplus(columns: Columns) -> NDArray[np.bool_]:
    is_unwanted = (columns.holders != NOBODY) & ((columns.states & WANTED) == 0)
    found = any_copy(is_unwanted & (columns.states != PartitionState.RENTING.code))
    if not found.any():
        return found
    is_primary_wanted = (columns.states[:, 0] & WANTED) != 0
    found &= is_primary_wanted & (columns.acting == columns.holders[:, 0]) & (columns.acting != NOBODY)
    return found & _all_wanted_own(columns)


def lost_in(row: OwnershipRow) -> list[int]:
    """The partitions of a row of which no owner is left."""
    return [row.first + at for at in np.flatnonzero(Columns(row).lost).tolist()]


def _all_wanted_own(columns: Columns) -> NDArray[np.bool_]:
    is_wanted = (columns.states & WANTED) != 0
    owns = columns.states == _OWNING_WANTED
    return ~any_copy(is_wanted & ~owns)


def number_of(state: State, node: NodeId) -> NodeNumber | None:
    """The node's number, None if it has never held anything."""
    roster = _roster(state)
    return roster.index(node) if node in roster else None


def names(state: State) -> tuple[str, ...]:
    """Node ids by number."""
    return _roster(state)


def enrol(state: State, nodes: Iterable[str]) -> None:
    """Give numbers to nodes that have none yet, in this order."""
    roster = _roster(state)
    new = [node for node in dict.fromkeys(nodes) if node not in roster]
    if new:
        assert len(roster) + len(new) <= NODES_MAX, "more nodes than there are numbers"
        state.put("", RosterRow((*roster, *new)))


def leave(state: State, node: NodeId, place: Place) -> None:
    """The node's incarnation has left the membership at `place` (DS1)."""
    number, found = number_of(state, node), list(state.rows(OwnershipRow))
    for at in range(0, len(found) if number is not None else 0, ROWS_AT_ONCE):
        some = found[at : at + ROWS_AT_ONCE]
        left = without([row for _, row in some], number or 0, place)
        for (key, _), row in zip(some, left, strict=True):
            if row is not None:
                state.put(key, row)


def _roster(state: State) -> tuple[str, ...]:
    row = state.get(RosterRow, "")
    return row.nodes if row else ()
