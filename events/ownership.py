"""Who holds a copy of which partition, who owns it and who acts for it: what the log knows of it (DESIGN §4.3).

Threats. Nobody stops writing while members come and go, so no counter and no map that a node sends says which copies
hold every acknowledged write; a node that was away believes that it owns what others have written since; two nodes act
for one partition.

Invariant. A copy that is OWNING here, the *owner row* of its partition, holds every write that was acknowledged, or its
node has been away since before the last of them and nobody has acted for the partition since (DS1). At most one node
acts for a partition; the position that made it act, its *token*, is carried by all that it writes (DS8, DS9).

Argument. A write is acknowledged when every copy listed here has stored it (DS3), so a copy can only fall behind when
it is not there; whoever leaves while another acts is taken out of the owner row at the very position of its leaving,
and comes back as MOVING. Where nobody acts nothing is written, so the row may wait for the absent.

A million partitions must fit into every node's memory and change in a blink. So one row holds 256 partitions in columns
of fixed width; nodes are numbers in one roster, in the order in which they first held anything.

| column | per | type | |
|---|---|---|---|
| holders | copy | u2 | the node's number, NOBODY for an empty place; wanted ones first, in their affinity's order |
| states | copy | u1 | the state's code (`partitions.py`), and WANTED if the affinity wants it; 0 for an empty place |
| since | copy | u8 | the position that put the copy into this state |
| acting | partition | u2 | the acting primary's number, NOBODY while none acts |
| tokens | partition | u8 | the position that made it act, or ended that |
| lost | partition | u1 | 1 if no owner is left of it (DS2) |
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events.ids import NodeId, Place, Position
from topolog.events.partitions import PartitionState
from topolog.events.state import Row, State

PARTITIONS_PER_ROW = 256
NOBODY = 0xFFFF
NODES_MAX = NOBODY - 1
WANTED = 0x80
"""Bit of a state: the affinity of the newest outcome wants this copy."""

NodeNumber = int

Wanted = NDArray[np.uint16]
"""Whom the affinity wants: numbers by partition and place, the primary first, NOBODY where there is no copy."""

STATES = {state.code: state for state in PartitionState}
"""The state of each code."""


class RosterRow(Row, frozen=True):
    """The nodes that have ever held a copy; a node's number is its place here, for ever."""

    KIND: ClassVar[str] = "roster"

    nodes: tuple[str, ...]


class OwnershipRow(Row, frozen=True):
    """`count` partitions of a group from `first` on; `width` places for copies of each. The columns are above."""

    KIND: ClassVar[str] = "ownership"

    group: str
    first: int
    count: int
    width: int
    holders: bytes
    states: bytes
    since: bytes
    acting: bytes
    tokens: bytes
    lost: bytes


class Copy(msgspec.Struct, frozen=True):
    """One node's copy of a partition."""

    node: NodeNumber
    state: PartitionState
    wanted: bool
    since: Position = Position(0)


class Ownership(msgspec.Struct, frozen=True):
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


class Columns:
    """The columns of one row as arrays, to be looked at or, if they are `writable`, to be changed."""

    def __init__(self, row: OwnershipRow, *, writable: bool = False) -> None:
        table, line = (row.count, row.width), (row.count,)
        self.holders = _array(row.holders, "<u2", table, writable)
        self.states = _array(row.states, "u1", table, writable)
        self.since = _array(row.since, "<u8", table, writable)
        self.acting = _array(row.acting, "<u2", line, writable)
        self.tokens = _array(row.tokens, "<u8", line, writable)
        self.lost = _array(row.lost, "u1", line, writable)

    def row(self, like: OwnershipRow) -> OwnershipRow:
        """A row of the group and the partitions of `like` with these columns."""
        return OwnershipRow(
            like.group,
            like.first,
            like.count,
            self.holders.shape[1],
            self.holders.tobytes(),
            self.states.tobytes(),
            self.since.tobytes(),
            self.acting.tobytes(),
            self.tokens.tobytes(),
            self.lost.tobytes(),
        )

    def close_up(self) -> None:
        """No empty place before a copy: the first place is the wanted primary's, wherever somebody is wanted."""
        order = np.argsort(self.holders == NOBODY, axis=1, kind="stable")
        self.holders = np.take_along_axis(self.holders, order, axis=1)
        self.states = np.take_along_axis(self.states, order, axis=1)
        self.since = np.take_along_axis(self.since, order, axis=1)

    def widen(self, width: int) -> None:
        """Room for so many copies of each partition."""
        more = ((0, 0), (0, max(0, width - self.holders.shape[1])))
        self.holders = np.pad(self.holders, more, constant_values=NOBODY)
        self.states = np.pad(self.states, more)
        self.since = np.pad(self.since, more)


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
    columns = Columns(row)
    for partition in partitions:
        at = partition - row.first
        places = zip(columns.holders[at].tolist(), columns.states[at].tolist(), columns.since[at].tolist(), strict=True)
        copies = tuple(
            Copy(node, STATES[state & ~WANTED], bool(state & WANTED), Position(since))
            for node, state, since in places
            if node != NOBODY
        )
        acting = int(columns.acting[at])
        yield Ownership(
            partition,
            copies,
            None if acting == NOBODY else acting,
            Position(int(columns.tokens[at])),
            bool(columns.lost[at]),
        )


def changed(
    row: OwnershipRow, changes: Sequence[Change], place: Place, joined: Callable[[NodeNumber], int]
) -> OwnershipRow:
    """The row with these partitions as the decision at `place` makes them.

    `joined`: the position at which a node's present incarnation joined. A copy that the log lists of a former one is in
    a new life from here on if somebody acts now: only copies that are there are left where somebody does.
    """
    columns = Columns(row, writable=True)
    columns.widen(max(len(change.copies) for change in changes))
    for change, before in zip(changes, ownerships(row, [change.partition for change in changes]), strict=True):
        at = change.partition - row.first
        kept = {(copy.node, copy.state): copy.since for copy in before.copies}
        columns.holders[at], columns.states[at], columns.since[at] = NOBODY, 0, 0
        for number, copy in enumerate(change.copies):
            columns.holders[at, number] = copy.node
            columns.states[at, number] = copy.state.code | (WANTED if copy.wanted else 0)
            since = kept.get((copy.node, copy.state), place.position)
            is_confirmed = change.acting is not None and since <= joined(copy.node)
            columns.since[at, number] = place.position if is_confirmed else since
        if change.acting != before.acting:
            columns.acting[at] = NOBODY if change.acting is None else change.acting
            columns.tokens[at] = place.position
        columns.lost[at] = change.is_lost
    return columns.row(row)


def numbered(indexes: NDArray[np.int16], numbers: Sequence[NodeNumber]) -> Wanted:
    """An assignment by indexes into a list of nodes, -1 for nobody, as one by these nodes' numbers."""
    found: Wanted = np.array([*numbers, NOBODY], dtype="<u2")[indexes]
    return found


def in_question(row: OwnershipRow, wanted: Wanted) -> list[int]:
    """The partitions of a row that an outcome may change: nobody acts, or others hold them than are wanted.

    `wanted` is that of the row's partitions. Wherever a member acts, who has left is gone from the row (`without`).
    """
    columns = Columns(row, writable=True)
    columns.widen(wanted.shape[1])
    padding = ((0, 0), (0, columns.holders.shape[1] - wanted.shape[1]))
    expected = np.pad(wanted, padding, constant_values=NOBODY)
    is_wanted = (columns.states & WANTED) != 0
    serves = np.isin(columns.states, (PartitionState.OWNING.code | WANTED, PartitionState.MOVING.code | WANTED))
    is_alike = np.where(expected == NOBODY, ~is_wanted, (columns.holders == expected) & serves)
    found = ~is_alike.all(axis=1) | (columns.acting == NOBODY)
    return [row.first + at for at in np.flatnonzero(found).tolist()]


def held_by(row: OwnershipRow, node: NodeNumber) -> list[int]:
    """The partitions of a row of which the node holds a copy."""
    holds = (Columns(row).holders == node).any(axis=1)
    return [row.first + at for at in np.flatnonzero(holds).tolist()]


def without(row: OwnershipRow, node: NodeNumber, place: Place) -> OwnershipRow | None:
    """The row after the node has left at `place` (DS1), None if it held nothing here.

    Its copies go where another node acts. Where it acted itself, or nobody did, the owner row stays as it is.
    """
    if node not in Columns(row).holders and node not in Columns(row).acting:
        return None
    columns = Columns(row, writable=True)
    acted = columns.acting == node
    columns.acting[acted], columns.tokens[acted] = NOBODY, place.position
    goes = (columns.holders == node) & (columns.acting != NOBODY)[:, np.newaxis]
    columns.holders[goes], columns.states[goes], columns.since[goes] = NOBODY, 0, 0
    columns.close_up()
    return columns.row(row)


def acted_by(row: OwnershipRow, node: NodeNumber) -> list[tuple[int, Position]]:
    """(partition, token) of what the node acts for."""
    columns = Columns(row)
    found = np.flatnonzero(columns.acting == node)
    return [
        (row.first + at, Position(token))
        for at, token in zip(found.tolist(), columns.tokens[found].tolist(), strict=True)
    ]


def differing(before: OwnershipRow | None, row: OwnershipRow) -> list[int]:
    """The partitions of a row that are not as they were `before`, all of them if that is None."""
    if before is None:
        return list(range(row.first, row.first + row.count))
    was, now = Columns(before, writable=True), Columns(row, writable=True)
    was.widen(row.width)
    now.widen(before.width)
    tables = (was.holders != now.holders) | (was.states != now.states) | (was.since != now.since)
    lines = (was.acting != now.acting) | (was.tokens != now.tokens) | (was.lost != now.lost)
    return [row.first + at for at in np.flatnonzero(tables.any(axis=1) | lines).tolist()]


def is_settled(row: OwnershipRow, *, but_for_absent: bool = False) -> bool:
    """Whether every copy is wanted and owns, and the wanted primary acts; nothing is left to do here.

    `but_for_absent`: places that leaving has emptied, and partitions for which nobody acts since, are passed over.
    """
    columns = Columns(row)
    held = columns.holders != NOBODY
    if not row.width or (held & (columns.states != (PartitionState.OWNING.code | WANTED))).any():
        return False
    if but_for_absent:
        return bool(((columns.acting == columns.holders[:, 0]) | (columns.acting == NOBODY)).all())
    return bool((columns.acting == columns.holders[:, 0]).all() and (columns.acting != NOBODY).all())


def ready_to_switch(row: OwnershipRow) -> list[tuple[int, NodeNumber, NodeNumber]]:
    """(partition, acting, wanted primary) where another acts than is wanted, and all that are wanted own."""
    if not row.width:
        return []
    columns = Columns(row)
    first = columns.holders[:, 0]
    is_primary_wanted = (columns.states[:, 0] & WANTED) != 0
    found = (columns.acting != NOBODY) & is_primary_wanted & (columns.acting != first) & _all_wanted_own(columns)
    return [(row.first + at, int(columns.acting[at]), int(first[at])) for at in np.flatnonzero(found).tolist()]


def with_surplus(row: OwnershipRow) -> list[int]:
    """Partitions whose wanted primary acts, with copies that nobody wants though all that are wanted own.

    Where nobody is wanted, as no member passes the group's filter, whoever holds it goes on (L3).
    """
    if not row.width:
        return []
    columns = Columns(row)
    is_unwanted = (columns.holders != NOBODY) & ((columns.states & WANTED) == 0)
    is_surplus = is_unwanted & (columns.states != PartitionState.RENTING.code)
    is_primary_wanted = (columns.states[:, 0] & WANTED) != 0
    acts_as_wanted = (columns.acting == columns.holders[:, 0]) & (columns.acting != NOBODY) & is_primary_wanted
    found = is_surplus.any(axis=1) & _all_wanted_own(columns) & acts_as_wanted
    return [row.first + at for at in np.flatnonzero(found).tolist()]


def lost_in(row: OwnershipRow) -> list[int]:
    """The partitions of a row of which no owner is left."""
    return [row.first + at for at in np.flatnonzero(Columns(row).lost).tolist()]


def solely_owned(row: OwnershipRow, node: NodeNumber, others: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that the node owns and none of the others does."""
    columns = Columns(row)
    owns = (columns.states & ~np.uint8(WANTED)) == PartitionState.OWNING.code
    by_node = (owns & (columns.holders == node)).any(axis=1)
    by_others = (owns & np.isin(columns.holders, others)).any(axis=1)
    return [row.first + at for at in np.flatnonzero(by_node & ~by_others).tolist()]


def _all_wanted_own(columns: Columns) -> NDArray[np.bool_]:
    is_wanted = (columns.states & WANTED) != 0
    owns = columns.states == (PartitionState.OWNING.code | WANTED)
    found: NDArray[np.bool_] = (~is_wanted | owns).all(axis=1)
    return found


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
    number = number_of(state, node)
    if number is None:
        return
    for key, row in list(state.rows(OwnershipRow)):
        left = without(row, number, place)
        if left is not None:
            state.put(key, left)


def _roster(state: State) -> tuple[str, ...]:
    row = state.get(RosterRow, "")
    return row.nodes if row else ()


def _array(column: bytes, dtype: str, shape: tuple[int, ...], writable: bool) -> NDArray[np.unsignedinteger]:
    found = np.frombuffer(column, dtype=dtype).reshape(shape)
    return found.copy() if writable else found
