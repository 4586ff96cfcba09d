"""What packed rows of partitions say as they are: which partitions are in what state, who holds how many copies.

A million partitions are four thousand rows of columns (`events/ownership.py`). A list unpacks only the partitions of
its page, so whatever picks them, or counts them, works on whole columns here.
"""

from collections.abc import Iterator
from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events.ownership import NOBODY, STATES, WANTED, Columns, NodeNumber, OwnershipRow
from topolog.events.partitions import PartitionState

_OWNING = PartitionState.OWNING.code


class Condition(Enum):
    """The most urgent thing that can be said of a partition as a whole; later ones outweigh earlier ones."""

    OWNING = "every copy is wanted and whole, and the wanted primary acts"
    RENTING = "a copy that is no longer needed is still there"
    SWITCHING = "all wanted copies are whole; the primary is about to be handed over to the wanted one"
    MOVING = "a wanted copy loads"
    PAUSED = "nobody acts until the exchange ends: it is neither read nor written"
    LOST = "no owner is left"


CONDITIONS = tuple(Condition)


class Tally(msgspec.Struct):
    """Copies of one node in some rows: by state, how many the affinity wants, of how many partitions it is primary."""

    states: dict[PartitionState, int]
    wanted: int = 0
    primaries: int = 0

    @property
    def copies(self) -> int:
        return sum(self.states.values())


def conditions(row: OwnershipRow) -> list[Condition]:
    """The condition of each partition of the row."""
    return [CONDITIONS[code] for code in _condition_codes(Columns(row)).tolist()]


def condition_counts(row: OwnershipRow) -> dict[Condition, int]:
    """How many partitions of the row are in which condition."""
    counts = np.bincount(_condition_codes(Columns(row)), minlength=len(CONDITIONS)).tolist()
    return {condition: count for condition, count in zip(CONDITIONS, counts, strict=True) if count}


class Sought(msgspec.Struct, frozen=True):
    """What partitions are looked for: in this condition, with a copy on this node, with this node as primary."""

    condition: Condition | None = None
    holder: NodeNumber | None = None
    primary: NodeNumber | None = None


def found_in(row: OwnershipRow, sought: Sought) -> list[int]:
    """The partitions of the row that are as is sought."""
    columns = Columns(row)
    if sought.condition is Condition.LOST and not columns.lost.any():
        return []
    fits = np.ones(row.count, dtype=np.bool_)
    if sought.holder is not None:
        fits &= (columns.holders == sought.holder).any(axis=1)
    if sought.primary is not None:
        fits &= columns.acting == sought.primary
    if sought.condition is not None and fits.any():
        fits &= _condition_codes(columns) == CONDITIONS.index(sought.condition)
    return [row.first + at for at in np.flatnonzero(fits).tolist()]


def states_on(row: OwnershipRow, node: NodeNumber) -> Iterator[tuple[int, PartitionState]]:
    """(partition, state) of each copy that the node holds in this row."""
    columns = Columns(row)
    at, place = np.nonzero(columns.holders == node)
    for partition, code in zip(at.tolist(), columns.states[at, place].tolist(), strict=True):
        yield row.first + partition, STATES[code & ~WANTED]


def add_to(tallies: dict[NodeNumber, Tally], row: OwnershipRow) -> None:
    """Count the row's copies, by node."""
    columns = Columns(row)
    keys = (columns.holders.astype(np.uint32) << 8) | columns.states
    for key, count in _counted(keys[columns.holders != NOBODY]):
        number, code = key >> 8, key & 0xFF
        tally = tallies.setdefault(number, Tally({}))
        state = STATES[code & ~WANTED]
        tally.states[state] = tally.states.get(state, 0) + count
        tally.wanted += count if code & WANTED else 0
    for number, count in _counted(columns.acting[columns.acting != NOBODY]):
        tallies.setdefault(number, Tally({})).primaries += count


def _counted(values: NDArray[np.unsignedinteger]) -> Iterator[tuple[int, int]]:
    found, counts = np.unique(values, return_counts=True)
    return zip(found.tolist(), counts.tolist(), strict=True)


def _condition_codes(columns: Columns) -> NDArray[np.intp]:
    """The place of each partition's condition in CONDITIONS."""
    codes = np.zeros(columns.acting.shape, dtype=np.intp)
    nobody_acts, is_lost = columns.acting == NOBODY, columns.lost != 0
    if columns.holders.shape[1]:
        is_wanted = (columns.states & WANTED) != 0
        is_unwanted = (columns.holders != NOBODY) & ~is_wanted
        loads = is_wanted & (columns.states != (_OWNING | WANTED))
        codes[is_unwanted.any(axis=1)] = CONDITIONS.index(Condition.RENTING)
        codes[is_wanted[:, 0] & (columns.acting != columns.holders[:, 0])] = CONDITIONS.index(Condition.SWITCHING)
        codes[loads.any(axis=1)] = CONDITIONS.index(Condition.MOVING)
    codes[nobody_acts] = CONDITIONS.index(Condition.PAUSED)
    codes[is_lost] = CONDITIONS.index(Condition.LOST)
    return codes
