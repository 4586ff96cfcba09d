"""What topolog needs of a log, and one in memory that behaves as Kafka does.

Everything that reads or writes is given a `LogReader` and a `LogWriter`; `kafka.py` implements them on a broker,
`InMemoryLog` here for tests, the simulation and users' own tests. The memory log keeps Kafka's habits: one order per
partition, a record is read back by its own writer like by anybody else, an append is answered later than it is made,
and the sends of a writer that has been deposed may still land.
"""

import threading
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from topolog.events.errors import LogDiverged, NotAllowed, TopologError, Unreachable
from topolog.events.ids import Offset
from topolog.events.stamp import HEADER_NAME, opens_term
from topolog.events.topics import PARTITIONS, Topic

Partition = tuple[Topic, int]
Headers = Sequence[tuple[str, bytes]]
OnDelivery = Callable[[TopologError | None, Offset | None], None]
"""Called once per append: (None, its offset) when the log has the record; (NotAllowed, None) when the broker has turned
it away, until it hears of other rights; (Unreachable, None) when it was given up, though it may still arrive."""


class Entry(msgspec.Struct, frozen=True):
    """One record as a log returns it; `appended_at_ms` is the log's own time (UTC), for people and for liveness."""

    topic: Topic
    partition: int
    offset: Offset
    key: str | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    appended_at_ms: int

    @property
    def stamp(self) -> bytes | None:
        return next((value for name, value in self.headers if name == HEADER_NAME), None)


class LogReader(Protocol):
    """Reads partitions in order. One thread owns it."""

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        """Read these partitions, and no others, from these offsets on; None is the oldest record kept."""

    def poll(self, timeout_s: float) -> list[Entry]:
        """All records that are there; waits up to `timeout_s` for the first. Raises LogDiverged if an offset is gone
        and Unreachable if the log cannot be read for good."""

    def at_end(self, topic: Topic) -> bool:
        """Whether every assigned partition of the topic has been read to its end since its last record."""

    def hears(self, topic: Topic) -> bool:
        """Whether the log itself has said, a moment ago, that this reader stands at the end of the topic.

        Never waits: the first call asks, a later one has the answer, and False means not yet, no, or no answer within a
        second. Silence counts only while it could have been broken.
        """

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        """The offset of the oldest record kept and the one after the newest; both 0 for a topic that is not there.

        None while the log does not answer: ask again. May take a second, so it is for starts, not for a running loop.
        """

    def counted(self, entry: Entry, fence_ms: int) -> None:
        """The fold has accepted this record of `decisions`, so the log must go on holding it (K9); at most that is
        looked into after a silence of `fence_ms` / 2. What no fold accepts is no sign of the log that it has read."""

    def proven(self) -> bool:
        """Whether the log has said, a moment ago, that it still holds what counted last.

        Never waits, and is asked again and again as `hears` is. Raises LogDiverged if it holds something else.
        """

    def close(self) -> None: ...


class LogWriter(Protocol):
    """Appends in order per topic. Any thread may append; callbacks run inside `serve` and `flush`."""

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None: ...

    def serve(self) -> None:
        """Run the callbacks of appends that have been answered."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all appends are answered, at most `timeout_s`; returns how many are not."""

    def close(self) -> None: ...


def proof(last: Entry | None, entry: Entry) -> Entry | None:
    """Which of two records that counted says more by standing where it was read: the newer one of the log, unless it
    begins a term. Any history can be followed by the beginning of a term, for that carries no chain."""
    is_newer = last is None or entry.offset > last.offset
    return entry if is_newer and entry.stamp and not opens_term(entry.stamp) else last


Copy = Mapping[Partition, Sequence[Entry]]


class _Append(msgspec.Struct, frozen=True):
    topic: Topic
    key: str
    value: bytes
    headers: Headers
    on_delivery: OnDelivery | None


class InMemoryLog:
    """A broker in memory: partitions as lists, safe for threads. `now_ms` gives LogAppendTime.

    While not `reachable` nothing is read and sends stay in flight, as when a broker is down.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self.changed = threading.Condition()
        self.reachable = True
        self._partitions: dict[Partition, list[Entry]] = {
            (topic, number): [] for topic, count in PARTITIONS.items() for number in range(count)
        }

    def writer(self, *, prompt: bool = True, denied: Collection[Topic] = ()) -> "InMemoryWriter":
        """A writer whose appends land at once, or, if not `prompt`, when `land` is called; those to topics that are
        `denied` to it fail then with NotAllowed."""
        return InMemoryWriter(self, prompt, denied)

    def reader(self) -> "InMemoryReader":
        return InMemoryReader(self)

    @property
    def size(self) -> int:
        """How many records there are, on all topics."""
        return sum(map(len, self._partitions.values()))

    def entries(self, topic: Topic, partition: int = 0) -> Sequence[Entry]:
        return self._partitions[topic, partition]

    def put(self, topic: Topic, key: str, value: bytes, headers: Headers = ()) -> Entry:
        """Append one record; the key decides its partition."""
        partition = zlib.crc32(key.encode("utf-8", "surrogateescape")) % PARTITIONS[topic]
        entries = self._partitions[topic, partition]
        with self.changed:
            entry = Entry(topic, partition, Offset(len(entries)), key, value, tuple(headers), self._now_ms())
            entries.append(entry)
            self.changed.notify_all()
        return entry

    def copy(self) -> Copy:
        """All records, as a copy of a broker's disk has them."""
        return {partition: tuple(entries) for partition, entries in self._partitions.items()}

    def put_back(self, copy: Copy) -> None:
        """Hold what this copy holds, and nothing else."""
        with self.changed:
            self._partitions = {partition: list(entries) for partition, entries in copy.items()}
            self.changed.notify_all()

    def truncate(self, topic: Topic, length: int, partition: int = 0) -> None:
        """Lose every record from offset `length` on, as a broker that comes back from an older disk does."""
        with self.changed:
            del self._partitions[topic, partition][length:]
            self.changed.notify_all()


class InMemoryWriter:
    """A writer with sends in flight: each lands, or fails, when the test says so; at once while it is `prompt`.

    `interruptions` counts how often its connection was lost.
    """

    def __init__(self, log: InMemoryLog, prompt: bool, denied: Collection[Topic] = ()) -> None:
        self._log = log
        self.prompt = prompt
        self._denied = denied
        self.interruptions = 0
        self._in_flight: deque[_Append] = deque()
        self._answers: deque[tuple[OnDelivery, TopologError | None, Offset | None]] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        with self._log.changed:
            self._in_flight.append(_Append(topic, key, value, tuple(headers), on_delivery))
            if self.prompt and self._log.reachable:
                self.land()

    def land(self, count: int | None = None) -> None:
        """The oldest `count` sends in flight (all if None) reach the log, or are turned away by it."""
        with self._log.changed:
            for send in self._take(count):
                if send.topic in self._denied:
                    self._answer(send, _denied(send.topic), None)
                else:
                    entry = self._log.put(send.topic, send.key, send.value, send.headers)
                    self._answer(send, None, entry.offset)

    def fail(self, count: int | None = None, error: TopologError | None = None) -> None:
        """The oldest `count` sends in flight (all if None) are lost for good."""
        with self._log.changed:
            for send in self._take(count):
                self._answer(send, error or Unreachable("The record is lost."), None)

    def interrupt(self) -> None:
        """The connection is lost, and with it what is in flight."""
        self.interruptions += 1
        self.fail()

    def serve(self) -> None:
        if self.prompt and self._log.reachable:
            self.land()
        while self._answers:
            on_delivery, error, offset = self._answers.popleft()
            on_delivery(error, offset)

    def flush(self, timeout_s: float) -> int:
        self.serve()
        return self.in_flight

    def close(self) -> None:
        pass

    def _take(self, count: int | None) -> Iterable[_Append]:
        return [self._in_flight.popleft() for _ in range(len(self._in_flight) if count is None else count)]

    def _answer(self, send: _Append, error: TopologError | None, offset: Offset | None) -> None:
        if send.on_delivery:
            self._answers.append((send.on_delivery, error, offset))


def _denied(topic: Topic) -> NotAllowed:
    return NotAllowed(
        f"The broker does not let this writer use topic {topic.short_name}.",
        hint="`topolog cluster init --plan` prints what each role needs.",
    )


class InMemoryReader:
    """A reader; `batch_max` bounds what one poll returns, so that a test can make it lag."""

    def __init__(self, log: InMemoryLog) -> None:
        self._log = log
        self._next: dict[Partition, int] = {}
        self._last: Entry | None = None
        self.batch_max = 1_000_000

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._next = {partition: offset or 0 for partition, offset in starts.items()}

    def poll(self, timeout_s: float) -> list[Entry]:
        with self._log.changed:
            self._log.changed.wait_for(self._has_more, timeout_s)
            return self._take()

    def _has_more(self) -> bool:
        ends = ((start, len(self._log.entries(*partition))) for partition, start in self._next.items())
        return self._log.reachable and any(start != end for start, end in ends)

    def _take(self) -> list[Entry]:
        found: list[Entry] = []
        if not self._log.reachable:
            return found
        for partition, start in self._next.items():
            entries = self._log.entries(*partition)
            if start > len(entries):
                raise LogDiverged(f"{partition[0].short_name} ends at {len(entries)}, this reader was at {start}.")
            taken = entries[start : start + self.batch_max - len(found)]
            found.extend(taken)
            self._next[partition] = start + len(taken)
        return found

    def at_end(self, topic: Topic) -> bool:
        assigned = [(partition, start) for partition, start in self._next.items() if partition[0] is topic]
        return bool(assigned) and all(start == len(self._log.entries(*partition)) for partition, start in assigned)

    def hears(self, topic: Topic) -> bool:
        return self._log.reachable and self.at_end(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        return (Offset(0), Offset(len(self._log.entries(*partition)))) if self._log.reachable else None

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._last = proof(self._last, entry)

    def proven(self) -> bool:
        last = self._last
        if last is None or not self._log.reachable:
            return self._log.reachable
        if last not in self._log.entries(last.topic, last.partition)[last.offset : last.offset + 1]:
            raise LogDiverged(f"Offset {last.offset} of {last.topic.short_name} holds another record, or none.")
        return True

    def close(self) -> None:
        self._next = {}
