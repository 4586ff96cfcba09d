"""Which partitions hang on few nodes: who owns them alone, and where nobody of them is left (DS2, BA14)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from topolog.events.ids import Position
from topolog.events.ownership import NodeNumber
from topolog.events.ownership_columns import (
    NOBODY,
    ROWS_AT_ONCE,
    WANTED,
    Columns,
    OwnershipRow,
    any_copy,
)
from topolog.events.partitions import PartitionState

JoinedAt = Mapping[NodeNumber, Position]
"""Where the present life of each node has joined."""


def owned_only_by(
    row: OwnershipRow, nodes: Sequence[NodeNumber], others: Sequence[NodeNumber], joined_at: JoinedAt | None = None
) -> list[int]:
    """The partitions of a row that one of the nodes owns and none of the others does; with `joined_at`, in its present
    life: what is listed of a former one may be gone (DS10)."""
    columns = Columns(row)
    found = _owned_by(columns, nodes) & ~_owned_by(columns, others, joined_at)
    return [row.first + at for at in np.flatnonzero(found).tolist()]


def count_owned_only_by(
    rows: Sequence[OwnershipRow],
    nodes: Sequence[NodeNumber],
    others: Sequence[NodeNumber],
    joined_at: JoinedAt | None = None,
) -> int:
    """How many partitions of these rows one of the nodes owns and none of the others does, as `owned_only_by`."""
    found = (_owned_by(columns, nodes) & ~_owned_by(columns, others, joined_at) for columns in _together(rows))
    return sum(int(each.sum()) for each in found)


def is_any_owned_by_none_of(rows: Sequence[OwnershipRow], nodes: Sequence[NodeNumber]) -> bool:
    """Whether a partition of these rows has owners, none of them among these nodes, and is not lost yet."""
    return any(_is_torn(columns, nodes).any() for columns in _together(rows))


def owned_by_none_of(row: OwnershipRow, nodes: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that have owners, none of them among these nodes, and are not lost yet."""
    columns = Columns(row)
    return [row.first + at for at in np.flatnonzero(_is_torn(columns, nodes)).tolist()]


def paused_in(row: OwnershipRow) -> list[int]:
    """The partitions of a row that have owners, none of whom acts, and are not lost."""
    columns = Columns(row)
    is_paused = (columns.acting == NOBODY) & (columns.lost == 0) & any_copy(owns(columns))
    return [row.first + at for at in np.flatnonzero(is_paused).tolist()]


def holds_any(rows: Iterable[OwnershipRow], node: NodeNumber) -> bool:
    """Whether the node holds a copy of anything in these rows."""
    return bool((np.frombuffer(b"".join([row.holders for row in rows]), "<u2") == node).any())


def lists_former_life(row: OwnershipRow, node: NodeNumber, joined_at: Position) -> bool:
    """Whether the row lists a copy of the node from before its present life has joined, at `joined_at`."""
    columns = Columns(row)
    return bool(((columns.holders == node) & (columns.since.astype(np.int64) <= joined_at)).any())


def owns(columns: Columns) -> NDArray[np.bool_]:
    """Which of the copies own."""
    found: NDArray[np.bool_] = (columns.states & ~np.uint8(WANTED)) == PartitionState.OWNING.code
    return found


def _owned_by(columns: Columns, nodes: Sequence[NodeNumber], joined_at: JoinedAt | None = None) -> NDArray[np.bool_]:
    is_meant = np.zeros(NOBODY + 1, np.bool_)
    is_meant[list(nodes)] = True
    counts = owns(columns) & is_meant[columns.holders]
    if joined_at is not None:
        begun = np.zeros(NOBODY + 1, np.int64)
        begun[list(joined_at)] = list(joined_at.values())
        counts &= columns.since.astype(np.int64) > begun[columns.holders]
    return any_copy(counts)


def _is_torn(columns: Columns, nodes: Sequence[NodeNumber]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = any_copy(owns(columns)) & ~_owned_by(columns, nodes) & (columns.lost == 0)
    return found


def _together(rows: Sequence[OwnershipRow]) -> Iterator[Columns]:
    """The columns of all these rows, many rows at once."""
    return (Columns(*rows[at : at + ROWS_AT_ONCE]) for at in range(0, len(rows), ROWS_AT_ONCE))
