"""Pages on the topic `trees`: sent so that they are there before their answer is, and read once the log names them.

A page is waited for before the task is reported, so who has read the report in the log finds its pages by reading the
topic to its end: what is not there by then never comes.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from topolog.events.codec import CODEC
from topolog.events.errors import ReplicaFailed
from topolog.events.ids import Offset, Position
from topolog.events.log import LogReader, LogWriter, Partition
from topolog.events.repair_tasks import TaskId
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.streams.validator.pages import Assembly, Expected, whole, with_last

IN_FLIGHT_MAX = 8
"""Pages that may be with the producer, not with the broker: they are large, and the broker may be slow."""

DELIVERY_LIMIT_S = 60.0
"""How long the broker may take none of the pages that are with the producer."""

_POLL_S = 0.2
_SEGMENTS_NOTED = 2_048
_PARTITIONS: tuple[Partition, ...] = tuple((Topic.TREES, number) for number in range(PARTITIONS[Topic.TREES]))

Ask = Callable[[], None]
"""Raises when the task is no longer wanted."""


class Trees:
    """One thread's way to the topic. `connect` makes a reader, for a reader remembers where it stands."""

    def __init__(self, writer: LogWriter, connect: Callable[[], LogReader], life: int) -> None:
        self._writer = writer
        self._connect = connect
        self._life = life
        self._starts: dict[tuple[Position, int], dict[Partition, Offset]] = {}
        self._in_flight = 0
        self._lost = ""

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
        self._in_flight, self._lost = 0, ""
        count = 0

        def sent() -> Iterator[bytes]:
            nonlocal count
            for payload, is_last in with_last(payloads):
                page = TreePage(task, self._life, spec_id, kind, count, is_last, payload)
                self._append(page)
                count += 1
                self._wait(IN_FLIGHT_MAX - 1, ask)
                yield payload

        digest = digest_of(sent())
        self._wait(0, ask)
        return count, digest

    def _append(self, page: TreePage) -> None:
        def on_delivery(error: str | None, _: Offset | None) -> None:
            self._in_flight -= 1
            self._lost = self._lost or error or ""

        self._in_flight += 1
        self._writer.append(Topic.TREES, str(page.task.session), CODEC.encode(page), on_delivery=on_delivery)

    def _wait(self, in_flight_max: int, ask: Ask) -> None:
        until_s = time.monotonic() + DELIVERY_LIMIT_S
        in_flight = self._in_flight
        self._writer.serve()
        while self._in_flight > in_flight_max and not self._lost:
            ask()
            self._writer.flush(_POLL_S)
            if self._in_flight < in_flight:
                in_flight, until_s = self._in_flight, time.monotonic() + DELIVERY_LIMIT_S
            if time.monotonic() > until_s:
                raise ReplicaFailed("IO", f"The broker has taken no page for {DELIVERY_LIMIT_S:g} s.")
        if self._lost:
            raise ReplicaFailed("IO", f"A page was lost: {self._lost}.")

    # Reading.

    def read(self, expected: Expected, ask: Ask) -> Sequence[bytes]:
        """The payloads of this attempt.

        Raises ReplicaFailed PAGES_MISSING or PAGES_DAMAGED if the topic does not have what the log names, and what
        `ask` raises while it is read.
        """
        assembly, task = Assembly(expected), expected.task
        starts = self._starts.get((task.session, task.segment), {})
        reader = self._connect()
        try:
            reader.assign({partition: starts.get(partition) for partition in _PARTITIONS})
            while assembly.payloads is None:
                ask()
                entries = reader.poll(_POLL_S)
                for entry in entries:
                    page = CODEC.read(entry.value) if entry.key == str(task.session) else None
                    if isinstance(page, TreePage):
                        assembly.add(page)
                if not entries and reader.at_end(Topic.TREES):
                    break
        finally:
            reader.close()
        return whole(assembly)
