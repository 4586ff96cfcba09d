"""Partitions as a service sees them: who holds, who acts, who loads from whom. Pure functions of a state."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from topolog.events import ownership
from topolog.events.exchange import HandOverRow
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Position
from topolog.events.ownership import Ownership
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.state import State
from topolog.streams.node.copies import PartitionId


class CopyView(msgspec.Struct, frozen=True, gc=False):
    """A node's copy; `since`: the position that put it into its state."""

    node: NodeId
    state: PartitionState
    since: Position


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """One partition as of a position. `primary` is None while nobody acts; `token`: the position that made it act.

    `group_number` tells a group from another one that had its name before.
    """

    group: str
    group_number: int
    partition: int
    token: Position
    primary: NodeId | None
    copies: tuple[CopyView, ...]
    is_lost: bool

    def copy_of(self, node: str) -> CopyView | None:
        return next((copy for copy in self.copies if copy.node == node), None)


class Move(msgspec.Struct, frozen=True):
    """A copy that loads: `demander` from `supplier`, which is None while nobody acts."""

    group: str
    partition: int
    supplier: NodeId | None
    demander: NodeId
    since: Position


class Route(msgspec.Struct, frozen=True):
    """Where a key is served, and under which token."""

    group: str
    partition: int
    node: NodeId
    endpoint: str
    token: Position


def view(state: State, group: str, partition: int) -> PartitionView | None:
    """One partition; None if there is no such group, or it has no such partition."""
    row = state.get(GroupRow, group)
    if row is None or not 0 <= partition < row.partitions:
        return None
    held = ownership.ownership(ownership.row_of(state, group, partition), partition)
    return _view(row, held, ownership.names(state))


def of_group(state: State, group: GroupRow) -> Iterator[PartitionView]:
    """All partitions of a group."""
    rows = list(ownership.rows_of(state, group.name, group.partitions))
    return changed(group, [None] * len(rows), rows, ownership.names(state))


def changed(
    group: GroupRow, before: Sequence[OwnershipRow | None], rows: Sequence[OwnershipRow], names: Sequence[str]
) -> Iterator[PartitionView]:
    """The partitions of these rows of a group that are not as they were `before`, None where there was none; those
    first. `names` are node ids by number."""
    both = list(zip(before, rows, strict=True))
    known = [(was, row) for was, row in both if was is not None]
    for row in (row for was, row in both if was is None):
        for each in ownership.ownerships(row, range(row.first, row.first + row.count)):
            yield _view(group, each, names)
    if known:
        for each in ownership.changed([was for was, _ in known], [row for _, row in known]):
            yield _view(group, each, names)


def gone(row: OwnershipRow, number: int) -> Iterator[PartitionView]:
    """The partitions of this row of a group that is dropped: nobody holds them any more."""
    for each in ownership.ownerships(row, range(row.first, row.first + row.count)):
        yield PartitionView(row.group, number, each.partition, each.token, None, (), is_lost=False)


def moves(found: Iterable[PartitionView]) -> Iterator[Move]:
    """The loads that these partitions wait for."""
    for each in found:
        for copy in each.copies:
            if copy.state is PartitionState.MOVING:
                yield Move(each.group, each.partition, each.primary, copy.node, copy.since)


def handed_over_by(state: State, node: str) -> set[PartitionId]:
    """What this node hands over, and starts nothing new for."""
    rows = [row for _, row in state.rows(HandOverRow) if row.node == node]
    return {(move.group, each) for row in rows for move in row.moves for each in move.partitions}


def _view(group: GroupRow, each: Ownership, names: Sequence[str]) -> PartitionView:
    copies = tuple([CopyView(NodeId(names[copy.node]), copy.state, copy.since) for copy in each.copies])
    primary = None if each.acting is None else NodeId(names[each.acting])
    return PartitionView(group.name, group.number, each.partition, each.token, primary, copies, each.is_lost)
