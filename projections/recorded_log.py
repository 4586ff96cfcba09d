"""A log that was recorded in a file: its records as they were, to the byte, so that a reader of it finds what a reader
of the broker found then. A support bundle holds one; nothing can be appended to it.

Format: one msgpack value, (format, [records of `Entry` as arrays]), topics by their short names.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topolog.events.errors import BadInput, NotAllowed
from topolog.events.ids import Offset
from topolog.events.log import Entry, Headers, OnDelivery, Partition
from topolog.events.topics import BY_SHORT_NAME, PARTITIONS, Topic

_FORMAT = 1
_NOTHING_COMES = threading.Event()


class _Record(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    appended_at_ms: int


class _Recording(msgspec.Struct, frozen=True, array_like=True):
    format: int
    records: tuple[_Record, ...]


def encode(entries: Iterable[Entry]) -> bytes:
    """The file's content."""
    records = tuple(
        _Record(
            each.topic.short_name,
            each.partition,
            each.offset,
            each.key,
            each.value,
            each.headers,
            each.appended_at_ms,
        )
        for each in entries
    )
    return msgspec.msgpack.encode(_Recording(_FORMAT, records))


def decode(data: bytes) -> Sequence[Entry]:
    """What `encode` was given; BadInput for anything else."""
    try:
        held = msgspec.msgpack.decode(data, type=_Recording)
        if held.format != _FORMAT:
            raise BadInput(f"The log was recorded in format {held.format}, this release reads {_FORMAT}.")
        return [
            Entry(
                BY_SHORT_NAME[each.topic],
                each.partition,
                Offset(each.offset),
                each.key,
                each.value,
                each.headers,
                each.appended_at_ms,
            )
            for each in held.records
        ]
    except (msgspec.MsgspecError, KeyError) as error:
        raise BadInput(f"This is no recorded log: {error}.") from error


class RecordedReader:
    """Reads what was recorded; always at its end soon, for nothing comes any more."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._held: dict[Partition, list[Entry]] = {
            (topic, number): [] for topic, count in PARTITIONS.items() for number in range(count)
        }
        for each in sorted(entries, key=lambda each: each.offset):
            self._held[each.topic, each.partition].append(each)
        self._left: dict[Partition, list[Entry]] = {}

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._left = {
            place: [each for each in self._held[place] if each.offset >= (start or 0)]
            for place, start in starts.items()
        }

    def poll(self, timeout_s: float) -> list[Entry]:
        found = [each for left in self._left.values() for each in left]
        self._left = {place: [] for place in self._left}
        if not found:
            _NOTHING_COMES.wait(timeout_s)
        return found

    def at_end(self, topic: Topic) -> bool:
        return all(not left for place, left in self._left.items() if place[0] is topic)

    def hears(self, topic: Topic) -> bool:
        return self.at_end(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        held = self._held[partition]
        return (held[0].offset, Offset(held[-1].offset + 1)) if held else (Offset(0), Offset(0))

    def counted(self, entry: Entry, fence_ms: int) -> None:
        """The file goes on holding what it holds."""

    def proven(self) -> bool:
        return True

    def close(self) -> None:
        pass


class RefusingWriter:
    """What stands in for a writer where nothing can be asked for."""

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        raise NotAllowed("What is shown was recorded: nothing can be asked of it.")

    def serve(self) -> None:
        pass

    def flush(self, timeout_s: float) -> int:
        return 0

    def close(self) -> None:
        pass
