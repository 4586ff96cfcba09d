"""Changes of partitions: how they travel in decisions, seven bytes a partition and three a copy, what they change.

The death of one of many nodes changes ten thousand partitions of a million in one set, and every reader folds it. So a
decision's changes are columns from its bytes to the rows, and a change is a value of its own only where somebody looks
at one.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topolog.events.ids import NOWHERE, Place
from topolog.events.leases import NodeRow
from topolog.events.ownership import (
    STATES,
    Change,
    Copy,
    NodeNumber,
    names,
    row_key,
    row_of,
)
from topolog.events.ownership_columns import (
    NOBODY,
    PARTITIONS_PER_ROW,
    WANTED,
    Columns,
    compact,
    pieces,
)
from topolog.events.state import State
from topolog.events.topics import RECORD_BYTES_MAX

PACKED_BYTES_MAX = RECORD_BYTES_MAX - 100_000
"""Changes in one record; names of nodes are the rest."""

_CHANGE = struct.Struct("<HHHB")
_COPY = struct.Struct("<HB")
_LOST_AT = _CHANGE.size - 1
_LOST = 1
_STATE = np.uint8(0xFF & ~WANTED)
_IS_STATE = np.isin(np.arange(256) & ~WANTED, list(STATES))


class Changes:
    """Changes of one group as columns, a line each; partitions ascend.

    `holders` and `states` have a place for each copy, filled from the left; NOBODY and 0 stand behind the last one. A
    state is its code, and WANTED. `acting` is NOBODY where nobody acts.
    """

    def __init__(
        self,
        partitions: NDArray[np.int64],
        holders: NDArray[np.uint16],
        states: NDArray[np.uint8],
        acting: NDArray[np.uint16],
        lost: NDArray[np.bool_],
    ) -> None:
        self.partitions = partitions
        self.holders = holders
        self.states = states
        self.acting = acting
        self.lost = lost

    @classmethod
    def of(cls, changes: Sequence[Change]) -> "Changes":
        return unpacked(pack_changes(changes))

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many copies each has."""
        found: NDArray[np.int64] = (self.holders != NOBODY).sum(axis=1)
        return found

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, lines: slice | NDArray[np.intp]) -> "Changes":
        return Changes(
            self.partitions[lines], self.holders[lines], self.states[lines], self.acting[lines], self.lost[lines]
        )

    def __iter__(self) -> Iterator[Change]:
        columns = (self.partitions, self.holders, self.states, self.acting, self.lost)
        for partition, holders, states, acting, lost in zip(*(each.tolist() for each in columns), strict=True):
            copies = tuple(
                Copy(node, STATES[code & ~WANTED], bool(code & WANTED))
                for node, code in zip(holders, states, strict=True)
                if node != NOBODY
            )
            yield Change(partition, copies, None if acting == NOBODY else acting, lost)

    @classmethod
    def joined(cls, parts: Sequence["Changes"]) -> "Changes":
        """One after the other."""
        width = max(each.holders.shape[1] for each in parts)
        rooms = [((0, 0), (0, width - each.holders.shape[1])) for each in parts]
        holders = [np.pad(each.holders, room, constant_values=NOBODY) for each, room in zip(parts, rooms, strict=True)]
        states = [np.pad(each.states, room) for each, room in zip(parts, rooms, strict=True)]
        return cls(
            np.concatenate([each.partitions for each in parts]),
            np.concatenate(holders),
            np.concatenate(states),
            np.concatenate([each.acting for each in parts]),
            np.concatenate([each.lost for each in parts]),
        )

    def where_lost(self) -> "Changes":
        return self[np.flatnonzero(self.lost)]

    def records(self) -> Iterator[bytes]:
        """Packed, in as many parts as they need records; none if there are none."""
        ends = np.cumsum(_CHANGE.size + _COPY.size * self.counts)
        start = 0
        while start < len(self):
            before = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, before + PACKED_BYTES_MAX, side="right"))
            yield self[start:end].pack()
            start = end

    def pack(self) -> bytes:
        """As `pack_changes`."""
        counts = self.counts
        ends = np.cumsum(_CHANGE.size + _COPY.size * counts)
        packed = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
        at = ends - _CHANGE.size - _COPY.size * counts
        numbers: tuple[NDArray[Any], ...] = (self.partitions, self.acting, counts)
        for place, column in enumerate(numbers):
            packed[at + 2 * place], packed[at + 2 * place + 1] = column & 0xFF, column >> 8
        packed[at + _LOST_AT] = _LOST * self.lost
        for number in range(self.holders.shape[1]):
            has = counts > number
            copy_at, holders = at[has] + _CHANGE.size + _COPY.size * number, self.holders[has, number]
            packed[copy_at], packed[copy_at + 1] = holders & 0xFF, holders >> 8
            packed[copy_at + 2] = self.states[has, number]
        return packed.tobytes()


def pack_changes(changes: Iterable[Change]) -> bytes:
    """The changes as bytes; partitions must ascend."""
    packed = bytearray()
    before = -1
    for change in changes:
        assert change.partition > before, "partitions ascend"
        before = change.partition
        acting = NOBODY if change.acting is None else change.acting
        packed += _CHANGE.pack(change.partition, acting, len(change.copies), _LOST * change.is_lost)
        for copy in change.copies:
            packed += _COPY.pack(copy.node, copy.state.code | (WANTED if copy.wanted else 0))
    return bytes(packed)


def apply(state: State, group: str, packed: bytes, place: Place) -> None:
    """Make packed changes of a group's partitions, as decided at `place`."""
    _put(state, group, unpacked(packed), place)


def set_acting(state: State, group: str, partitions: Iterable[int], acting: NodeNumber | None, place: Place) -> None:
    """Another node acts for these partitions, or nobody does; ascending."""
    for first, some in groupby(partitions, key=lambda partition: partition - partition % PARTITIONS_PER_ROW):
        numbers, columns = np.array(list(some)), Columns(row_of(state, group, first))
        at = numbers - first
        holders, states = compact(columns.holders[at], columns.states[at])
        acts = np.full(len(numbers), NOBODY if acting is None else acting, np.uint16)
        _put(state, group, Changes(numbers, holders, states, acts, columns.lost[at] != 0), place)


def unpacked(packed: bytes) -> Changes:
    """The changes that `pack_changes` packed."""
    starts, at = [], 0
    while at < len(packed):
        starts.append(at)
        assert at + _CHANGE.size <= len(packed), "a change has a head"
        _, _, count, _ = _CHANGE.unpack_from(packed, at)
        at += _CHANGE.size + _COPY.size * count
    assert at == len(packed), "the last change is whole"
    octets, heads = np.frombuffer(packed, np.uint8), np.array(starts, np.int64)
    wide = octets.astype(np.uint16)
    counts = wide[heads + 4] | wide[heads + 5] << 8
    width = int(counts.max(initial=0))
    holders, states = np.full((len(heads), width), NOBODY, np.uint16), np.zeros((len(heads), width), np.uint8)
    for number in range(width):
        has = counts > number
        copy_at = heads[has] + _CHANGE.size + _COPY.size * number
        holders[has, number], states[has, number] = wide[copy_at] | wide[copy_at + 1] << 8, octets[copy_at + 2]
    assert (holders != NOBODY).sum() == counts.sum() and _IS_STATE[states[holders != NOBODY]].all(), (
        "copies have states"
    )
    partitions = (wide[heads] | wide[heads + 1] << 8).astype(np.int64)
    assert (np.diff(partitions) > 0).all(), "partitions ascend"
    acting = (wide[heads + 2] | wide[heads + 3] << 8).astype(np.uint16)
    return Changes(partitions, holders, states, acting, (octets[heads + _LOST_AT] & _LOST) != 0)


def _put(state: State, group: str, changes: Changes, place: Place) -> None:
    """Changes of one group, in whichever of its rows they lie."""
    if not len(changes):
        return
    numbers, bounds = np.unique(changes.partitions // PARTITIONS_PER_ROW, return_index=True)
    rows = [row_of(state, group, number * PARTITIONS_PER_ROW) for number in numbers.tolist()]
    widths = np.maximum([row.width for row in rows], np.maximum.reduceat(changes.counts, bounds))
    columns = Columns(*rows, width=int(widths.max()), writable=True)
    starts = np.cumsum([0, *(row.count for row in rows[:-1])])
    lines = np.repeat(starts, np.diff(bounds, append=len(changes))) + changes.partitions % PARTITIONS_PER_ROW
    joined_at = _joined_at(state, changes)
    for some in pieces(len(changes), columns.holders.shape[1]):
        _change(columns, lines[some], changes[some], place, joined_at)
    for row, start, width in zip(rows, starts.tolist(), widths.tolist(), strict=True):
        state.put(row_key(group, row.first), columns.row(row, start, width))


def _change(
    columns: Columns, lines: NDArray[np.int64], changes: Changes, place: Place, joined_at: NDArray[np.int64]
) -> None:
    """Make the changes of these lines.

    A copy keeps the position that put it into its state. But one that the log lists of a former life of its node is in
    a new life from here on if somebody acts now: only copies that are there are left where somebody does.
    """
    holders, states, before = changes.holders, changes.states, columns.holders[lines]
    is_held = holders != NOBODY
    is_kept = (holders[:, :, np.newaxis] == before[:, np.newaxis, :]) & is_held[:, :, np.newaxis]
    is_kept &= (states & _STATE)[:, :, np.newaxis] == (columns.states[lines] & _STATE)[:, np.newaxis, :]
    since = np.where(is_kept, columns.since[lines].astype(np.int64)[:, np.newaxis, :], NOWHERE).max(
        axis=2, initial=NOWHERE
    )
    acts = changes.acting[:, np.newaxis] != NOBODY
    is_new = ~is_kept.any(axis=2) | (acts & (since <= joined_at[np.minimum(holders, len(joined_at) - 1)]))
    width = holders.shape[1]
    columns.holders[lines], columns.states[lines], columns.since[lines] = NOBODY, 0, 0
    columns.holders[lines, :width], columns.states[lines, :width] = holders, states
    columns.since[lines, :width] = np.where(is_held, np.where(is_new, place.position, since), 0)
    is_another = changes.acting != columns.acting[lines]
    columns.acting[lines], columns.lost[lines] = changes.acting, changes.lost
    columns.tokens[lines[is_another]] = place.position


def _joined_at(state: State, changes: Changes) -> NDArray[np.int64]:
    """By number the position at which a node's present incarnation joined, of nodes in the changes; then NOBODY's."""
    found = names(state)
    joined_at = np.full(len(found) + 1, NOWHERE, np.int64)
    for number in np.unique(changes.holders).tolist():
        row = state.get(NodeRow, found[number]) if number != NOBODY else None
        joined_at[min(number, len(found))] = row.joined_at if row else NOWHERE
    return joined_at
