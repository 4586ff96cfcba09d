"""What packed rows of partitions say as they are: which partitions are in what state, who holds how many copies.

A million partitions are four thousand rows of columns (`events/ownership.py`). A list unpacks only the partitions of
its page, so whatever picks them, or counts them, works on whole columns here.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events.ownership import STATES, NodeNumber
from topolog.events.ownership_columns import (
    NOBODY,
    WANTED,
    Columns,
    OwnershipRow,
    any_copy,
)
from topolog.events.partitions import PartitionState

_OWNING = PartitionState.OWNING.code
_AT_REST = _OWNING | WANTED
_NOBODY = NOBODY.to_bytes(2, "little")
_LOST = b"\1"


class Condition(Enum):
    """The most urgent thing that can be said of a partition as a whole; later ones outweigh earlier ones."""

    OWNING = "every copy is wanted and whole, and the wanted primary acts"
    RENTING = "a copy that is no longer needed is still there"
    SWITCHING = "all wanted copies are whole; the primary is about to be handed over to the wanted one"
    MOVING = "a wanted copy loads"
    PAUSED = "nobody acts, and no owner is lost: it is neither read nor written until whom it awaits is heard"
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


def conditions(row: OwnershipRow, partitions: Sequence[int]) -> list[Condition]:
    """The condition of each of these partitions of the row."""
    if not partitions or is_at_rest(row):
        return [Condition.OWNING] * len(partitions)
    codes = _condition_codes(Columns(row)).tolist()
    return [CONDITIONS[codes[partition - row.first]] for partition in partitions]


def condition_counts(row: OwnershipRow) -> dict[Condition, int]:
    """How many partitions of the row are in which condition."""
    if is_at_rest(row):
        return {Condition.OWNING: row.count}
    counts = np.bincount(_condition_codes(Columns(row)), minlength=len(CONDITIONS)).tolist()
    return {condition: count for condition, count in zip(CONDITIONS, counts, strict=True) if count}


def is_at_rest(row: OwnershipRow) -> bool:
    """Whether all partitions of the row are in the condition OWNING, as nearly all rows nearly always are.

    Told from the bytes in a fraction of the time that the columns take; False where they have to be looked at.
    """
    if not row.width or row.states.count(_AT_REST) + row.states.count(0) != len(row.states):
        return False
    first = np.frombuffer(row.holders, dtype="<u2")[:: row.width].tobytes()
    return first == row.acting and _NOBODY not in row.acting


class Sought(msgspec.Struct, frozen=True):
    """What partitions are looked for: in this condition, with a copy on this node, with this node as primary."""

    condition: Condition | None = None
    holder: NodeNumber | None = None
    primary: NodeNumber | None = None


def found_in(row: OwnershipRow, sought: Sought) -> list[int]:
    """The partitions of the row that are as is sought."""
    if sought.condition is Condition.LOST and _LOST not in row.lost:
        return []
    if sought.condition not in (None, Condition.OWNING) and is_at_rest(row):
        return []
    columns = Columns(row)
    fits = np.ones(row.count, dtype=np.bool_)
    if sought.holder is not None:
        fits &= any_copy(columns.holders == sought.holder)
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


def copies_on(rows: Sequence[OwnershipRow], node: NodeNumber, after: int) -> tuple[bytes, bytes]:
    """Of a group, all of whose rows these are, by partition: the code of the node's copy, 0 where it has none, and 1
    where the log has listed that copy behind the position `after`."""
    columns = Columns(*rows)
    at, place = np.nonzero(columns.holders == node)
    codes, later = np.zeros(len(columns.acting), np.uint8), np.zeros(len(columns.acting), np.uint8)
    codes[at] = columns.states[at, place] & ~np.uint8(WANTED)
    later[at] = columns.since[at, place].astype(np.int64) > after
    return codes.tobytes(), later.tobytes()


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


class Kind(Enum):
    """What a node's copy is to a partition, as a picture shows it; later ones outweigh earlier ones."""

    RENTING = "being cleared, or no longer needed"
    BACKUP = "a whole copy that does not act"
    PRIMARY = "acts"
    MOVING = "loads"
    PAUSED = "a whole copy, and nobody acts"
    LOST = "of a partition that is lost"


KINDS = tuple(Kind)


def span_of(partitions: int, spans: int) -> int:
    """How many consecutive partitions one of at most so many spans holds; the last one may hold fewer."""
    return -(-partitions // spans)


def condition_spans(rows: Sequence[OwnershipRow], span: int) -> list[list[int]]:
    """How many partitions of a group are in which condition, in CONDITIONS' order, by span."""
    keys = [_spans_in(row, span) * len(CONDITIONS) + _condition_codes(Columns(row)) for row in rows]
    count = _spans(rows, span)
    found = np.bincount(np.concatenate(keys), minlength=count * len(CONDITIONS))
    by_span: list[list[int]] = found.reshape(count, len(CONDITIONS)).tolist()
    return by_span


def copy_spans(rows: Sequence[OwnershipRow], span: int) -> dict[NodeNumber, list[list[int]]]:
    """How many copies of a group are of which kind, in KINDS' order, by node and span."""
    count = _spans(rows, span)
    keys = []
    for row in rows:
        columns = Columns(row)
        places = columns.holders.astype(np.int64) * count + _spans_in(row, span)[:, np.newaxis]
        kinds = _kinds(columns, _condition_codes(columns))
        keys.append((places * len(KINDS) + kinds)[columns.holders != NOBODY])
    return _by_node(np.concatenate(keys), count)


def _spans(rows: Sequence[OwnershipRow], span: int) -> int:
    return -(-sum(row.count for row in rows) // span)


def _spans_in(row: OwnershipRow, span: int) -> NDArray[np.intp]:
    """The span of each partition of the row."""
    return (row.first + np.arange(row.count)) // span


def _by_node(keys: NDArray[np.int64], spans: int) -> dict[NodeNumber, list[list[int]]]:
    each = spans * len(KINDS)
    nodes = np.unique(keys // each)
    places = np.searchsorted(nodes, keys // each) * each + keys % each
    counts = np.bincount(places, minlength=len(nodes) * each).reshape(len(nodes), spans, len(KINDS))
    return dict(zip(nodes.tolist(), counts.tolist(), strict=True))


def _kinds(columns: Columns, condition_codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The place of each copy's kind in KINDS; of places without a copy it means nothing."""
    states = columns.states & ~np.uint8(WANTED)
    owns = states == _OWNING
    kinds = np.full(columns.holders.shape, KINDS.index(Kind.RENTING), dtype=np.intp)
    kinds[owns] = KINDS.index(Kind.BACKUP)
    kinds[columns.holders == columns.acting[:, np.newaxis]] = KINDS.index(Kind.PRIMARY)
    kinds[states == PartitionState.MOVING.code] = KINDS.index(Kind.MOVING)
    kinds[owns & (condition_codes == CONDITIONS.index(Condition.PAUSED))[:, np.newaxis]] = KINDS.index(Kind.PAUSED)
    kinds[(condition_codes == CONDITIONS.index(Condition.LOST))[:, np.newaxis] & (columns.holders != NOBODY)] = (
        KINDS.index(Kind.LOST)
    )
    return kinds


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
        codes[any_copy(is_unwanted)] = CONDITIONS.index(Condition.RENTING)
        codes[is_wanted[:, 0] & (columns.acting != columns.holders[:, 0])] = CONDITIONS.index(Condition.SWITCHING)
        codes[any_copy(loads)] = CONDITIONS.index(Condition.MOVING)
    codes[nobody_acts] = CONDITIONS.index(Condition.PAUSED)
    codes[is_lost] = CONDITIONS.index(Condition.LOST)
    return codes
