"""Between a process and the log: what is read late, what is sent late, what is lost, and what lands after all.

`Reader` and `Writer` are a `LogReader` and a `LogWriter` for the real cores. They keep what a broker promises (one
order per partition, the order of one writer per topic while nothing is lost) and nothing more: other writers overtake,
a send may fail for good, or seem to, or land twice, or land long after its writer has been deposed or has died.
"""

import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import partial

import msgspec

from topolog.events.errors import TopologError, Unreachable
from topolog.events.ids import Offset
from topolog.events.log import Entry, Headers, InMemoryLog, OnDelivery, Partition
from topolog.events.topics import Topic
from topolog.streams.simulation.timeline import Timeline, between

LATE_MS = 2_000
"""A late send lands within this time: two fences of the simulated cluster."""

_SEND_MS = (1.0, 30.0)
_LAG_MS = 20
_BATCH_MAX = 200


class Fate(Enum):
    """What becomes of one send; a writer is told the truth about it only where it LANDS, is LOST or lands TWICE."""

    LANDS = "lands"
    LOST = "is lost"
    TWICE = "lands twice"
    DOUBTED = "lands and is reported lost"
    LATE = "is reported lost and lands late"


class Send(msgspec.Struct, frozen=True):
    """One record on its way; `author` is the process life that sent it."""

    author: str
    topic: Topic
    key: str
    value: bytes
    headers: Headers
    on_delivery: OnDelivery | None
    fate: Fate


class Landed(msgspec.Struct, frozen=True):
    """A record that stands in the log, who wrote it, and when it came there."""

    entry: Entry
    author: str
    at_ns: int


class Broker:
    """The log, and what came to it since it was last looked at; `history` is all that ever came, in that order."""

    def __init__(self, timeline: Timeline) -> None:
        self.log = InMemoryLog(self._now_ms)
        self.landed: list[tuple[Entry, str]] = []
        self.history: list[Landed] = []
        self._timeline = timeline
        self._copied_ms: int | None = None

    def put(self, send: Send) -> Offset:
        entry = self.log.put(send.topic, send.key, send.value, send.headers)
        self.landed.append((entry, send.author))
        self.history.append(Landed(entry, send.author, self._timeline.now_ns))
        return entry.offset

    def copy(self, topics: Collection[Topic], decisions: int) -> "Broker":
        """Another log with these topics as they are, of `decisions` so many records; others are empty there."""
        copied = Broker(self._timeline)
        for landed in self.history:
            entry = landed.entry
            if entry.topic in topics and (entry.topic is not Topic.DECISIONS or entry.offset < decisions):
                copied._copied_ms = entry.appended_at_ms
                copied.log.put(entry.topic, entry.key or "", entry.value, entry.headers)
        copied._copied_ms = None
        return copied

    def _now_ms(self) -> int:
        return self._timeline.wall_ms() if self._copied_ms is None else self._copied_ms


class Link:
    """The state of one process's connection to the log; faults change it.

    `unreadable` are the topics whose brokers do not answer it; `fates` are those of its next sends.
    """

    def __init__(self) -> None:
        self.unreadable: frozenset[Topic] = frozenset()
        self.sends_cut = False
        self.lag_ms = _LAG_MS
        self.batch_max = _BATCH_MAX
        self.fates: deque[Fate] = deque()

    def slow_down(self, lag_ms: int, batch_max: int) -> None:
        self.lag_ms, self.batch_max = lag_ms, batch_max

    def recover(self) -> None:
        self.unreadable = frozenset()
        self.slow_down(_LAG_MS, _BATCH_MAX)
        self.fates.clear()


class _Cursor:
    """How far one partition is read, and where its end was when it was last looked at."""

    def __init__(self, topic: Topic, entries: Sequence[Entry], start: int) -> None:
        self.topic = topic
        self.entries = entries
        self.next = start
        self.seen_end: int | None = None

    def take(self, visible_ms: int, room: int) -> Sequence[Entry]:
        """At most `room` entries of those appended by then."""
        entries, start = self.entries, self.next
        end = len(entries)
        while end > start and entries[end - 1].appended_at_ms > visible_ms:
            end -= 1
        self.seen_end = end
        taken = entries[start : min(end, start + room)]
        self.next = start + len(taken)
        return taken


class Reader:
    """Reads with a lag, in batches, partitions in any order. Cut off, it reads nothing and trusts what it saw last.

    Where a topic ends before the place that is asked for, it is read from its beginning, as Kafka's is.
    """

    def __init__(self, timeline: Timeline, chance: random.Random, broker: Broker, link: Link) -> None:
        self._timeline = timeline
        self._chance = chance
        self._log = broker.log
        self._link = link
        self._cursors: list[_Cursor] = []

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._cursors = [
            _Cursor(partition[0], entries, 0 if offset is None or offset > len(entries) else offset)
            for partition, offset in starts.items()
            for entries in [self._log.entries(*partition)]
        ]

    def poll(self, timeout_s: float) -> list[Entry]:
        link, cursors = self._link, self._cursors
        visible_ms = self._timeline.wall_ms() - self._chance.randrange(link.lag_ms)
        if len(cursors) > 1:
            turn = self._chance.randrange(len(cursors))
            cursors = cursors[turn:] + cursors[:turn]
        found: list[Entry] = []
        for cursor in cursors:
            if cursor.topic not in link.unreadable:
                found += cursor.take(visible_ms, link.batch_max - len(found))
        return found

    def at_end(self, topic: Topic) -> bool:
        assigned = [each for each in self._cursors if each.topic is topic]
        return bool(assigned) and all(each.seen_end is not None and each.next >= each.seen_end for each in assigned)

    def hears(self, topic: Topic) -> bool:
        return (
            topic not in self._link.unreadable
            and self.at_end(topic)
            and all(each.next == len(each.entries) for each in self._cursors if each.topic is topic)
        )

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        if partition[0] in self._link.unreadable:
            return None
        return Offset(0), Offset(len(self._log.entries(*partition)))

    def counted(self, entry: Entry, fence_ms: int) -> None:
        """Nobody swaps the log here."""

    def proven(self) -> bool:
        return Topic.DECISIONS not in self._link.unreadable

    def close(self) -> None:
        self._cursors = []


class Writer:
    """Sends that are under way for a while, or held while the link is cut. `author` names this process life."""

    def __init__(self, author: str, timeline: Timeline, chance: random.Random, broker: Broker, link: Link) -> None:
        self._author = author
        self._timeline = timeline
        self._chance = chance
        self._broker = broker
        self._link = link
        self._under_way: dict[Topic, deque[Send]] = {topic: deque() for topic in Topic}
        self._held: list[Topic] = []
        self._answers: deque[tuple[OnDelivery, TopologError | None, Offset | None]] = deque()

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        fate = self._link.fates.popleft() if self._link.fates else Fate.LANDS
        self._under_way[topic].append(Send(self._author, topic, key, value, headers, on_delivery, fate))
        self._timeline.after(between(self._chance, *_SEND_MS), partial(self._arrive, topic))

    def serve(self) -> None:
        while self._answers:
            on_delivery, error, offset = self._answers.popleft()
            on_delivery(error, offset)

    def flush(self, timeout_s: float) -> int:
        self.serve()
        return sum(map(len, self._under_way.values()))

    def close(self) -> None:
        """Nothing more is sent; what is under way still lands."""

    def release(self) -> None:
        """The link is whole again: what was held goes on its way."""
        self._link.sends_cut = False
        held, self._held = self._held, []
        for topic in held:
            self._timeline.after(between(self._chance, *_SEND_MS), partial(self._arrive, topic))

    def give_up(self) -> None:
        """Some of the oldest sends have been under way for too long: they fail for good."""
        for under_way in self._under_way.values():
            for _ in range(self._chance.randint(0, len(under_way))):
                self._answer(under_way.popleft(), Unreachable("The record has timed out."), None)

    def die(self) -> None:
        """The process has died: the kernel still sends the first of what it had, the rest never was."""
        for under_way in self._under_way.values():
            for _ in range(self._chance.randint(0, len(under_way))):
                under_way.pop()

    def _arrive(self, topic: Topic) -> None:
        """The oldest send of the topic reaches the log, unless the link is cut or it is gone."""
        if self._link.sends_cut:
            self._held.append(topic)
        elif self._under_way[topic]:
            self._land(self._under_way[topic].popleft())

    def _land(self, send: Send) -> None:
        arrives = send.fate in (Fate.LANDS, Fate.TWICE, Fate.DOUBTED)
        offset = self._broker.put(send) if arrives else None
        if send.fate in (Fate.TWICE, Fate.LATE):
            self._timeline.after(between(self._chance, 0, LATE_MS), partial(self._put_late, send))
        if send.fate in (Fate.LANDS, Fate.TWICE):
            self._answer(send, None, offset)
        else:
            self._answer(send, Unreachable("The record is lost."), None)

    def _put_late(self, send: Send) -> None:
        self._broker.put(send)

    def _answer(self, send: Send, error: TopologError | None, offset: Offset | None) -> None:
        if send.on_delivery:
            self._answers.append((send.on_delivery, error, offset))
