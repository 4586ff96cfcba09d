"""Which partitions hang on few nodes: who owns them alone, and where nobody of them is left (DS2, N16)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topolog.events.ownership import WANTED, Columns, NodeNumber, OwnershipRow
from topolog.events.partitions import PartitionState


def owned_only_by(row: OwnershipRow, nodes: Sequence[NodeNumber], others: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that one of the nodes owns and none of the others does."""
    columns = Columns(row)
    is_owning = owns(columns)
    by_nodes = (is_owning & np.isin(columns.holders, nodes)).any(axis=1)
    by_others = (is_owning & np.isin(columns.holders, others)).any(axis=1)
    return [row.first + at for at in np.flatnonzero(by_nodes & ~by_others).tolist()]


def owned_by_none_of(row: OwnershipRow, nodes: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that have owners, none of them among these nodes, and are not lost yet."""
    columns = Columns(row)
    is_owning = owns(columns)
    is_here = (is_owning & np.isin(columns.holders, nodes)).any(axis=1)
    is_lost = columns.lost.astype(np.bool_)
    return [row.first + at for at in np.flatnonzero(is_owning.any(axis=1) & ~is_here & ~is_lost).tolist()]


def owns(columns: Columns) -> NDArray[np.bool_]:
    """Which of the copies own."""
    found: NDArray[np.bool_] = (columns.states & ~np.uint8(WANTED)) == PartitionState.OWNING.code
    return found
