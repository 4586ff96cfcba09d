"""Pages on the topic `trees`: sent so that they are there before their answer is, and read once the log names them.

A page is waited for before the task is reported, so who has read the report in the log finds its pages by reading the
topic to its end: what is not there by then never comes.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from topolog.events.codec import CODEC
from topolog.events.errors import ReplicaFailed, TopologError
from topolog.events.ids import Offset, Position
from topolog.events.log import Entry, LogReader, LogWriter, Partition
from topolog.events.repair_tasks import TaskId
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.streams.validator.pages import Assembly, Expected, InOrder, with_last

IN_FLIGHT_MAX = 8
"""Pages that may be with the producer, not with the broker: they are large, and the broker may be slow."""

DELIVERY_LIMIT_S = 60.0
"""How long the broker may take none of the pages that are with the producer."""

_POLL_S = 0.2
_SEGMENTS_NOTED = 2_048
_PARTITIONS: tuple[Partition, ...] = tuple((Topic.TREES, number) for number in range(PARTITIONS[Topic.TREES]))

Ask = Callable[[], None]
"""Raises when the task is no longer wanted."""

Tell = Callable[[int], None]
"""The same; told how many bytes of the topic have been read so far, for there may be a week of others' pages."""


class Trees:
    """One thread's way to the topic. `connect` makes a reader, for a reader remembers where it stands."""

    def __init__(self, writer: LogWriter, connect: Callable[[], LogReader], life: int) -> None:
        self._writer = writer
        self._connect = connect
        self._life = life
        self._starts: dict[tuple[Position, int], dict[Partition, Offset]] = {}

    def close(self) -> None:
        self._writer.close()

    def note_start(self, session: Position, segment: int) -> None:
        """Nothing has been sent for this segment yet: its pages need not be looked for before this place.

        Where this is not known, as by a process that has been started again, all that is kept is read.
        """
        reader = self._connect()
        try:
            bounds = {partition: reader.bounds(partition) for partition in _PARTITIONS}
        finally:
            reader.close()
        found = {partition: each[1] for partition, each in bounds.items() if each is not None}
        self._starts[session, segment] = found
        while len(self._starts) > _SEGMENTS_NOTED:
            del self._starts[next(iter(self._starts))]

    # Sending.

    def send(
        self, task: TaskId, kind: PageKind, spec_id: bytes, payloads: Iterable[bytes], ask: Ask
    ) -> tuple[int, bytes]:
        """Send these as the pages of an attempt; how many, and the digest over them, once the broker has all of them.

        Raises ReplicaFailed IO if it does not take them, and what `ask` and the payloads raise.
        """
        flight = _Flight()

        def sent() -> Iterator[bytes]:
            for payload, is_last in with_last(payloads):
                self._append(TreePage(task, self._life, spec_id, kind, flight.pages, is_last, payload), flight)
                self._wait(flight, IN_FLIGHT_MAX - 1, ask)
                yield payload

        digest = digest_of(sent())
        self._wait(flight, 0, ask)
        return flight.pages, digest

    def _append(self, page: TreePage, flight: "_Flight") -> None:
        flight.pages += 1
        flight.waiting += 1
        self._writer.append(Topic.TREES, str(page.task.session), CODEC.encode(page), on_delivery=flight.on_delivery)

    def _wait(self, flight: "_Flight", waiting_max: int, ask: Ask) -> None:
        until_s, waiting = time.monotonic() + DELIVERY_LIMIT_S, flight.waiting
        self._writer.serve()
        while flight.waiting > waiting_max and not flight.lost:
            ask()
            self._writer.flush(_POLL_S)
            if flight.waiting < waiting:
                until_s, waiting = time.monotonic() + DELIVERY_LIMIT_S, flight.waiting
            if time.monotonic() > until_s:
                raise ReplicaFailed("IO", f"The broker has taken no page for {DELIVERY_LIMIT_S:g} s.")
        if flight.lost:
            raise ReplicaFailed("IO", f"A page was lost: {flight.lost}")

    # Reading.

    def read(self, expected: Expected, tell: Tell) -> Iterator[bytes]:
        """The payloads of this attempt, one after the other.

        Raises ReplicaFailed PAGES_MISSING or PAGES_DAMAGED if the topic does not have what the log names, and what
        `tell` raises while it is read.
        """
        task, first = expected.task, dict[Partition, Offset]()
        assembly, passed = Assembly(expected), _Passed(tell)
        starts = self._starts.get((task.session, task.segment), {})
        for entry, page in self._pages(expected, {each: starts.get(each) for each in _PARTITIONS}, passed):
            first.setdefault((Topic.TREES, entry.partition), entry.offset)
            assembly.add(page)
            if assembly.hashes is not None:
                break
        in_order = InOrder(expected, assembly.found())
        for _, page in self._pages(expected, first, passed):
            yield from in_order.taken(page)
            if in_order.is_done:
                return
        raise ReplicaFailed("PAGES_MISSING", f"The topic no longer has all pages of {task}.")

    def _pages(
        self, expected: Expected, starts: Mapping[Partition, Offset | None], passed: "_Passed"
    ) -> Iterator[tuple[Entry, TreePage]]:
        """The pages of this attempt from there on, to the end of the topic."""
        reader = self._connect()
        try:
            reader.assign(starts)
            while True:
                passed.tell()
                entries = reader.poll(_POLL_S)
                for entry in entries:
                    passed.size += len(entry.value)
                    page = CODEC.read(entry.value) if entry.key == str(expected.task.session) else None
                    if isinstance(page, TreePage) and expected.is_of(page):
                        yield entry, page
                if not entries and reader.at_end(Topic.TREES):
                    return
        finally:
            reader.close()


class _Passed:
    """How many bytes of the topic have been read for one answer, told before each look: nothing may come for long."""

    def __init__(self, tell: Tell) -> None:
        self.size = 0
        self._tell = tell

    def tell(self) -> None:
        self._tell(self.size)


class _Flight:
    """The pages of one attempt on their way: those of one that was stopped are answered while another is sent."""

    def __init__(self) -> None:
        self.pages = 0
        self.waiting = 0
        self.lost = ""

    def on_delivery(self, error: TopologError | None, _: Offset | None) -> None:
        self.waiting -= 1
        self.lost = self.lost or (error.message if error else "")
