"""How far a process has read each partition of its topics, and how far behind it is, as its reader has seen it itself.

Nobody else knows better: who measures from outside has to guess at times. «Behind» is nothing at the end of a topic,
else the time since it was last there.
"""

import time
from collections.abc import Callable, Mapping

import msgspec

from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader, Partition
from topolog.events.topics import Topic


class PartitionRead(msgspec.Struct, frozen=True):
    """`next_offset` is that of the next record, None while it is the oldest that is kept; `records`: so many have come
    since the process started, the last of them appended at `appended_ms`."""

    next_offset: Offset | None
    records: int = 0
    appended_ms: int | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far each partition has been read that is read at all, and for how long each topic's end has not been known,
    None for one that was never read to its end."""

    partitions: Mapping[Partition, PartitionRead] = {}
    behind_s: Mapping[Topic, float | None] = {}


class Measured:
    """The log reader it is given, and how far that has come. One thread reads, any thread asks for `progress`."""

    def __init__(self, reader: LogReader, now_s: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._now_s = now_s
        self._partitions: Mapping[Partition, PartitionRead] = {}
        self._knew_end_s: Mapping[Topic, float] = {}
        self._ended: frozenset[Topic] = frozenset()

    def progress(self) -> Progress:
        return Progress(self._partitions, {topic: self._behind_s(topic) for topic, _ in self._partitions})

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._reader.assign(starts)
        self._partitions = {
            partition: msgspec.structs.replace(self._partitions.get(partition, PartitionRead(None)), next_offset=offset)
            for partition, offset in starts.items()
        }

    def poll(self, timeout_s: float) -> list[Entry]:
        entries = self._reader.poll(timeout_s)
        if entries:
            self._partitions = {**self._partitions, **self._moved(entries)}
        self._ended = frozenset(topic for topic, _ in self._partitions if self._reader.at_end(topic))
        if self._ended:
            self._knew_end_s = {**self._knew_end_s, **dict.fromkeys(self._ended, self._now_s())}
        return entries

    def at_end(self, topic: Topic) -> bool:
        return self._reader.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self._reader.hears(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        return self._reader.bounds(partition)

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._reader.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._reader.proven()

    def close(self) -> None:
        self._reader.close()

    def _behind_s(self, topic: Topic) -> float | None:
        knew_s = self._knew_end_s.get(topic)
        return 0.0 if topic in self._ended else None if knew_s is None else self._now_s() - knew_s

    def _moved(self, entries: list[Entry]) -> dict[Partition, PartitionRead]:
        last: dict[Partition, Entry] = {}
        counts: dict[Partition, int] = {}
        for entry in entries:
            partition = entry.topic, entry.partition
            last[partition] = entry
            counts[partition] = counts.get(partition, 0) + 1
        return {
            partition: PartitionRead(
                Offset(entry.offset + 1), self._records(partition) + counts[partition], entry.appended_at_ms
            )
            for partition, entry in last.items()
        }

    def _records(self, partition: Partition) -> int:
        held = self._partitions.get(partition)
        return held.records if held else 0
