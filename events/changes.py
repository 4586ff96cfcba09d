"""How the changes of partitions travel in decisions: six bytes a partition and three a copy."""

import struct
from collections.abc import Iterable

from topolog.events.ownership import NOBODY, STATES, WANTED, Change, Copy

_CHANGE = struct.Struct("<HHBB")
_COPY = struct.Struct("<HB")
_LOST = 1


def pack_changes(changes: Iterable[Change]) -> bytes:
    """The changes as bytes; partitions must ascend."""
    packed = bytearray()
    before = -1
    for change in changes:
        assert change.partition > before, "partitions ascend"
        before = change.partition
        acting = NOBODY if change.acting is None else change.acting
        packed += _CHANGE.pack(change.partition, acting, _LOST * change.is_lost, len(change.copies))
        for copy in change.copies:
            packed += _COPY.pack(copy.node, copy.state.code | (WANTED if copy.wanted else 0))
    return bytes(packed)


def unpack_changes(packed: bytes) -> list[Change]:
    """The changes that `pack_changes` packed."""
    at, changes = 0, list[Change]()
    while at < len(packed):
        partition, acting, flags, count = _CHANGE.unpack_from(packed, at)
        at += _CHANGE.size
        copies = tuple(
            Copy(node, STATES[code & ~WANTED], bool(code & WANTED))
            for node, code in _COPY.iter_unpack(packed[at : at + count * _COPY.size])
        )
        at += count * _COPY.size
        changes.append(Change(partition, copies, None if acting == NOBODY else acting, bool(flags & _LOST)))
    return changes
