"""Who acted for which partition, under which token, from when to when: told by nodes, safe from their own `kill -9`.

A node keeps its diary in a file that it has mapped, so what it has noted outlives it. All processes of a machine share
one monotonic clock, so diaries of several nodes can be laid side by side.
"""

import itertools
import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from topolog.events.errors import TopologError
from topolog.streams.node.client import Node

_SLOT = struct.Struct("<qqqq")
_LAST = struct.Struct("<q")
SLOTS = 20_000


class Tenure(msgspec.Struct, frozen=True, order=True):
    """One node acted for a partition under one token; ns of CLOCK_MONOTONIC, its first and last moment."""

    partition: int
    token: int
    first_ns: int
    last_ns: int
    node: str


class Diary:
    """Of one process; the file's name begins with the node's."""

    def __init__(self, path: Path) -> None:
        with path.open("wb+") as file:
            file.truncate(SLOTS * _SLOT.size)
            self._slots = mmap.mmap(file.fileno(), 0)
        self._places: dict[tuple[int, int], int] = {}

    def note(self, partition: int, token: int, begun_ns: int, ended_ns: int) -> None:
        """An operation was under the node's right to act from its beginning to its end."""
        place = self._places.get((partition, token))
        if place is None:
            place = self._places[partition, token] = len(self._places) * _SLOT.size
            _SLOT.pack_into(self._slots, place, partition, token, begun_ns, ended_ns)
        else:
            _LAST.pack_into(self._slots, place + _SLOT.size - _LAST.size, ended_ns)


def act(node: Node, group: str, partitions: set[int], diary: Diary, hold_s: float) -> None:
    """Begin an operation for each of these partitions, let all of them run for a while, and note those that were good.

    One that ends fenced or `Moved` is none: whoever it ran for must not believe it.
    """
    running = []
    for partition in partitions:
        operation = node.acting(group, partition)
        with suppress(TopologError):
            running.append((operation, partition, operation.__enter__(), time.monotonic_ns()))
    time.sleep(hold_s)
    for operation, partition, token, begun_ns in running:
        ended_ns = time.monotonic_ns()
        with suppress(TopologError):
            operation.__exit__(None, None, None)
            diary.note(partition, token, begun_ns, ended_ns)


def tenures(folder: Path) -> list[Tenure]:
    """Of all diaries in a folder, by partition and token."""
    return sorted(each for path in folder.glob("*.diary") for each in _read(path))


def _read(path: Path) -> Iterator[Tenure]:
    node = path.name.partition(".")[0]
    for partition, token, first_ns, last_ns in _SLOT.iter_unpack(path.read_bytes()):
        if last_ns:
            yield Tenure(partition, token, first_ns, last_ns, node)


def contradictions(told: list[Tenure]) -> list[tuple[Tenure, Tenure]]:
    """Where two acted for a partition at a time, or one under a token of another; in the order of tokens nobody may
    begin before all under lower ones have ended (EX12)."""
    pairs = itertools.pairwise(told)
    return [(one, next_) for one, next_ in pairs if one.partition == next_.partition and not _follows(one, next_)]


def _follows(one: Tenure, next_: Tenure) -> bool:
    return one.token < next_.token and one.last_ns <= next_.first_ns
