"""Which partitions hang on few nodes: who owns them alone, who owns them not; where nobody is left (DS2, N16)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topolog.events.ownership import NOBODY, WANTED, Columns, NodeNumber, OwnershipRow, Wanted
from topolog.events.partitions import PartitionState


def owned_only_by(row: OwnershipRow, nodes: Sequence[NodeNumber], others: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that one of the nodes owns and none of the others does."""
    columns = Columns(row)
    owns = _owns(columns)
    by_nodes = (owns & np.isin(columns.holders, nodes)).any(axis=1)
    by_others = (owns & np.isin(columns.holders, others)).any(axis=1)
    return [row.first + at for at in np.flatnonzero(by_nodes & ~by_others).tolist()]


def owned_by_none_of(row: OwnershipRow, nodes: Sequence[NodeNumber]) -> list[int]:
    """The partitions of a row that have owners, none of them among these nodes, and are not lost yet."""
    columns = Columns(row)
    owns = _owns(columns)
    is_here = (owns & np.isin(columns.holders, nodes)).any(axis=1)
    is_lost = columns.lost.astype(np.bool_)
    return [row.first + at for at in np.flatnonzero(owns.any(axis=1) & ~is_here & ~is_lost).tolist()]


def to_begin(rows: Sequence[OwnershipRow], wanted: Wanted, *, also_lost: bool) -> NDArray[np.intp]:
    """The partitions of a group, all of whose rows these are, that nobody has owned and nobody is wanted for, so that
    they cannot begin; with those that are lost, where these are given up."""
    columns = Columns.over(rows)
    is_unserved = (columns.acting == NOBODY) & (wanted[:, 0] == NOBODY)
    is_lost = columns.lost.astype(np.bool_)
    is_new = ~is_lost & ~_owns(columns).any(axis=1)
    return np.flatnonzero(is_unserved & (is_new | is_lost if also_lost else is_new))


def filled(wanted: Wanted, partitions: NDArray[np.intp], others: Wanted) -> Wanted:
    """An assignment that is that of others for these partitions."""
    found = np.full((len(wanted), max(wanted.shape[1], others.shape[1])), NOBODY, wanted.dtype)
    found[:, : wanted.shape[1]] = wanted
    found[partitions, : others.shape[1]] = others[partitions]
    return found


def _owns(columns: Columns) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (columns.states & ~np.uint8(WANTED)) == PartitionState.OWNING.code
    return found
