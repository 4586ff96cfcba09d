"""The leader takes snapshots, a little at each turn of its loop (K10; why they are true: `events/snapshots.py`).

Threats. A leader that encodes a million rows in one go is silent for seconds: heartbeats wait, leases lapse, a stand-by
takes over. Chunks that crowd the connection hold up decisions. A topic that is gone must cost the cluster nothing.

So a snapshot is a generator that the loop lets run for some milliseconds at a time, with one chunk on its way at once.
What it encodes are copies of the state's maps, made in one step at the end of a set. A chunk that is lost ends the
attempt, not the leader; another is made a while later. A leader that is deposed forgets what it has begun: its chunks
without SnapshotTaken in the log mean nothing, and whoever leads next counts anew.
"""

import logging
from collections.abc import Generator, Iterator

import msgspec

from topolog.events.codec import CODEC
from topolog.events.errors import TopologError
from topolog.events.failpoints import reach
from topolog.events.fold import Header
from topolog.events.ids import NOWHERE, Offset, Position, Term
from topolog.events.log import Entry, LogWriter
from topolog.events.rows import row_format
from topolog.events.snapshot_content import PIECE_BYTES_MAX, Content, Cut
from topolog.events.snapshots import SnapshotAnchor, SnapshotChunk, SnapshotTaken, last_snapshot
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.coordinator.core import Core, Role

_LOGGER = logging.getLogger("topolog.coordinator")
_NS_PER_MS = 1_000_000

STEP_MS_MAX = 3
"""How long one turn of the loop encodes; a single huge row may take longer."""

STEP_ROWS_MAX = 1_000
"""And so many rows at most, so that a step is bounded where no clock moves."""

PAUSE_S = 0.005
"""How long the loop waits for records while a snapshot is under way: its next step is due soon."""

_RETRY_AFTER_MS = 60_000


class Cadence(msgspec.Struct, frozen=True):
    """When the next snapshot is due: so many positions after the last one was said, or when this leader has read back
    so many bytes of log since. 0 positions is never."""

    positions: int = 50_000
    log_bytes: int = 64 << 20
    piece_bytes: int = PIECE_BYTES_MAX


class _Lost(Exception):
    """A record of the snapshot did not reach its topic."""


class Snapshots:
    """The snapshots that one leader takes; `count` are those that it has announced."""

    def __init__(self, core: Core, writer: LogWriter, clock: Clock, cluster_name: str, cadence: Cadence) -> None:
        self._core = core
        self._writer = writer
        self._clock = clock
        self._cluster = cluster_name
        self._cadence = cadence
        self._anchor: SnapshotAnchor | None = None
        self._read_back = core.confirmed.position
        self._log_bytes = 0
        self._not_before_ns = 0
        self._making: Iterator[bool] | None = None
        self._answer: tuple[TopologError | None, Offset | None] | None = None
        self.count = 0

    @property
    def is_under_way(self) -> bool:
        return self._making is not None

    def note_read_back(self, entry: Entry) -> None:
        """A record of `decisions` that counts has been read; the last of a set can be an anchor."""
        self._log_bytes += len(entry.value) + len(entry.stamp or b"")
        header = self._core.confirmed
        # The chain before a term's first record is not in its stamp, so that one cannot be recognised.
        if header.next_sequence > 1 and header.position > self._read_back:
            self._read_back = header.position
            self._anchor = SnapshotAnchor(entry.offset, header.next_sequence - 1, header.position, header.chain)

    def step(self) -> None:
        """Go on with the snapshot that is under way, or begin one that is due."""
        if self._core.role is not Role.LEADING:
            self._making = None
            return
        if self._making is None and self._is_due() and self._anchor is not None:
            self._making = self._make(self._core.cut(), self._anchor)
        if self._making is not None:
            self._go_on(self._making)

    def _is_due(self) -> bool:
        cadence = self._cadence
        if not cadence.positions:
            return False
        if self._clock.monotonic_ns() < self._not_before_ns:
            return False
        last = last_snapshot(self._core.state)
        since = self._core.ahead.position - (last.said_at if last else NOWHERE)  # its own decision makes none due
        return since >= cadence.positions or self._log_bytes >= cadence.log_bytes

    def _go_on(self, making: Iterator[bool]) -> None:
        until_ns = self._clock.monotonic_ns() + STEP_MS_MAX * _NS_PER_MS
        try:
            for _ in range(STEP_ROWS_MAX):
                waits = next(making)
                if waits or self._clock.monotonic_ns() > until_ns:
                    return
        except StopIteration:
            self._making = None
        except (_Lost, TopologError) as error:
            _LOGGER.warning("a snapshot was given up, the next is tried later: %s", error)
            self._making = None
            self._not_before_ns = self._clock.monotonic_ns() + _RETRY_AFTER_MS * _NS_PER_MS

    def _make(self, cut: Cut, anchor: SnapshotAnchor) -> Iterator[bool]:
        """Yields after every little piece of work; True if it waits for the broker."""
        header, content = cut.header, Content(cut, self._cadence.piece_bytes)
        assert header.log_id is not None
        log_bytes, self._log_bytes = self._log_bytes, 0
        reach("snapshot.cut")
        chunks, first_offset = 0, Offset(0)
        for piece in content.pieces():
            if piece:
                self._send(CODEC.encode(SnapshotChunk(header.log_id, header.position, header.chain, chunks, piece)))
                reach("snapshot.chunk-sent")
                offset = yield from self._await_delivery()
                reach("snapshot.chunk-delivered")
                first_offset = first_offset if chunks else offset
                chunks += 1
            yield False
        taken = _announcement(header, content, chunks, first_offset, anchor)
        self._send(self._core.encoded(taken))
        yield from self._await_delivery()
        reach("snapshot.closed")
        self._core.announce(taken)
        reach("snapshot.announced")
        self.count += 1
        _LOGGER.info(
            "snapshot of position %d: %d rows, %d bytes, %d of log since the last",
            taken.position,
            taken.rows,
            taken.content_bytes,
            log_bytes,
        )

    def _send(self, value: bytes) -> None:
        self._answer = None
        self._writer.append(Topic.SNAPSHOTS, self._cluster, value, on_delivery=self._on_delivery)

    def _on_delivery(self, error: TopologError | None, offset: Offset | None) -> None:
        self._answer = error, offset

    def _await_delivery(self) -> Generator[bool, None, Offset]:
        while self._answer is None:
            yield True
        error, offset = self._answer
        if error is not None or offset is None:
            raise _Lost(f"a chunk did not reach its topic: {error}")
        return offset


def _announcement(
    header: Header, content: Content, chunks: int, first_offset: Offset, anchor: SnapshotAnchor
) -> SnapshotTaken:
    assert header.log_id is not None
    return SnapshotTaken(
        log_id=header.log_id,
        term=Term(header.term),
        position=Position(header.position),
        chain=header.chain,
        state_hash=content.state_hash,
        row_format=row_format(),
        digest=content.digest,
        rows=content.rows,
        content_bytes=content.size,
        chunks=chunks,
        first_offset=first_offset,
        anchor=anchor,
    )
