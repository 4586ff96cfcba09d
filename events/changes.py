"""Changes of partitions: how they travel in decisions, six bytes a partition and three a copy, and what they change."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from topolog.events.ids import NOWHERE, Place
from topolog.events.membership import NodeRow
from topolog.events.ownership import (
    NOBODY,
    PARTITIONS_PER_ROW,
    STATES,
    WANTED,
    Change,
    Copy,
    NodeNumber,
    changed,
    names,
    ownerships,
    row_key,
    row_of,
)
from topolog.events.state import State
from topolog.events.topics import RECORD_BYTES_MAX

_CHANGE = struct.Struct("<HHBB")
_COPY = struct.Struct("<HB")
_LOST = 1

PACKED_BYTES_MAX = RECORD_BYTES_MAX - 100_000
"""Changes in one record; names of nodes are the rest."""


def pack_changes(changes: Iterable[Change]) -> bytes:
    """The changes as bytes; partitions must ascend."""
    packed = bytearray()
    before = -1
    for change in changes:
        assert change.partition > before, "partitions ascend"
        before = change.partition
        acting = NOBODY if change.acting is None else change.acting
        more, count = divmod(len(change.copies), 1 << 8)
        packed += _CHANGE.pack(change.partition, acting, more << 1 | _LOST * change.is_lost, count)
        for copy in change.copies:
            packed += _COPY.pack(copy.node, copy.state.code | (WANTED if copy.wanted else 0))
    return bytes(packed)


def parts_of(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes in as many parts as they need records; none if there are none."""
    part: list[Change] = []
    room = PACKED_BYTES_MAX
    for change in changes:
        size = _CHANGE.size + _COPY.size * len(change.copies)
        if part and size > room:
            yield part
            part, room = [], PACKED_BYTES_MAX
        part.append(change)
        room -= size
    if part:
        yield part


def unpack_changes(packed: bytes) -> list[Change]:
    """The changes that `pack_changes` packed."""
    at, changes = 0, list[Change]()
    while at < len(packed):
        partition, acting, flags, count = _CHANGE.unpack_from(packed, at)
        count += flags >> 1 << 8
        at += _CHANGE.size
        copies = tuple(
            Copy(node, STATES[code & ~WANTED], bool(code & WANTED))
            for node, code in _COPY.iter_unpack(packed[at : at + count * _COPY.size])
        )
        at += count * _COPY.size
        changes.append(Change(partition, copies, None if acting == NOBODY else acting, bool(flags & _LOST)))
    return changes


def apply(state: State, group: str, packed: bytes, place: Place) -> None:
    """Make packed changes of a group's partitions, as decided at `place`."""
    for _, changes in groupby(unpack_changes(packed), key=lambda change: change.partition // PARTITIONS_PER_ROW):
        _put(state, group, list(changes), place)


def set_acting(state: State, group: str, partitions: Iterable[int], acting: NodeNumber | None, place: Place) -> None:
    """Another node acts for these partitions, or nobody does; ascending."""
    for _, some in groupby(partitions, key=lambda partition: partition // PARTITIONS_PER_ROW):
        numbers = list(some)
        held = ownerships(row_of(state, group, numbers[0]), numbers)
        _put(state, group, [Change(each.partition, each.copies, acting, each.is_lost) for each in held], place)


def _put(state: State, group: str, changes: Sequence[Change], place: Place) -> None:
    """Changes within one row."""
    first = changes[0].partition
    row = row_of(state, group, first)
    state.put(row_key(group, first), changed(row, changes, place, _joined_at(state)))


def _joined_at(state: State) -> Callable[[NodeNumber], int]:
    found = names(state)

    def joined_at(number: NodeNumber) -> int:
        row = state.get(NodeRow, found[number])
        return row.joined_at if row else NOWHERE

    return joined_at
