"""One cluster's topics and the archive in which they land: as a stream, or a span of their time."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from pyspark.sql import SparkSession

from topolog.events.errors import LogDiverged, Retriable
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.log import LogReader
from topolog.events.topics import BY_SHORT_NAME, Topic, topic_name
from topolog.projections.archive import topics
from topolog.projections.archive.landings import ArchiveWriter
from topolog.projections.archive.progress import Progress, at_rate, progress
from topolog.projections.archive.spans import Span, minus, overlapping
from topolog.projections.spark import batches, jobs
from topolog.projections.spark.lander import Lander

_LOGGER = logging.getLogger("topolog.archive")
_LOOK_EVERY_S = 5.0
_TURN_S = 0.25


class Backfilled(msgspec.Struct, frozen=True):
    """Records that a backfill has landed, and how many offsets of its span had landed before."""

    records: int
    before: int


class Pipeline:
    """Lands the topics of one cluster. `kafka` are settings of Kafka's Java clients, `now_ms` is wall time (UTC).

    `say` is told sentences for people.
    """

    def __init__(
        self,
        archive: ArchiveWriter,
        admin: KafkaAdmin,
        kafka: Mapping[str, str],
        now_ms: Callable[[], int],
        say: Callable[[str], None],
        only: Sequence[Topic] = topics.TOPICS,
    ) -> None:
        self._archive = archive
        self._cluster = archive.about.cluster
        self._admin = admin
        self._kafka = kafka
        self._now_ms = now_ms
        self._say = say
        self._topics = only

    def begin(self, log_id: bytes, *, accept_loss: bool = False) -> None:
        """Raise what `topics.check` does unless these are the topics that the archive was made of.

        `log_id` is that of the cluster's log. With `accept_loss` records that were deleted before they landed are given
        up, but for those of the log.
        """
        seen = self._look()
        self._archive.identify(log_id)
        topics.check_same(self._archive, seen)  # of other topics nothing is to be given up
        if accept_loss and (lost := [each for each in topics.deleted(self._archive, seen) if not _is_log(each)]):
            self._archive.give_up(lost, self._now_ms())
            self._say(f"Given up: {_offsets(lost)} records that were deleted before they landed.")
        topics.check(self._archive, seen)
        for (topic, number), (oldest, _) in seen.bounds.items():
            if oldest and not any(span.place == (topic, number) for span in self._archive.covered()):
                self._say(f"{topic}/{number} begins at offset {oldest}: what was before is no longer kept.")

    def backfill(
        self, session: SparkSession, start_ms: int, end_ms: int, told: jobs.OnProgress | None = None
    ) -> Backfilled:
        """Land what was appended from one time to before another. What is `told` may raise, and that ends it."""
        wanted = self._appended(start_ms, end_ms)
        left = minus(wanted, self._archive.covered())
        before = self._archive.records
        _tell_of(left)
        source = f"backfill {utc(start_ms)} to {utc(end_ms)}"
        lander = self._lander(session)
        for batch in batches.in_batches([(self._cluster, span) for span in left], batches.RECORDS_PER_BATCH_MAX):
            batches.land(session, lander, self._kafka, batch, source, told)
        records = self._archive.records - before
        return Backfilled(records, _offsets(overlapping(wanted, self._archive.covered())) - records)

    def stream(self, session: SparkSession, *, once: bool, every_s: float = 0.0) -> batches.Stream:
        """Land all that has not landed, and, unless `once`, whatever comes. Raises what `topics.check` does."""
        seen = self._look()
        topics.check(self._archive, seen)
        topics.begin(self._archive, seen)
        left = topics.unread(self._archive, seen)
        _tell_of(left)
        offsets: batches.Offsets = {}
        for (topic, number), start in topics.starts(self._archive, seen).items():
            offsets.setdefault(topic_name(self._cluster, BY_SHORT_NAME[topic]), {})[str(number)] = start
        notes = self._archive.scratch("checkpoint")
        lander = self._lander(session)
        return batches.Stream(session, lander, self._cluster, self._kafka, notes, offsets, once=once, every_s=every_s)

    def follow(
        self, stream: batches.Stream, is_told: Callable[[], bool], look: Callable[[batches.Stream], None]
    ) -> None:
        """Wait until the stream ends, or end it once this process is told to; `look` is called now and then.

        Raises what ends the stream.
        """
        look_at_s, told = time.monotonic(), len(self._archive.landings)
        try:
            while not is_told() and not stream.wait(_TURN_S):
                for landing in self._archive.landings[told:]:
                    told += 1
                    _LOGGER.info("Landing %d: %d records.", landing.number, landing.records)
                if time.monotonic() >= look_at_s:
                    with contextlib.suppress(Retriable):
                        look(stream)
                    look_at_s = time.monotonic() + _LOOK_EVERY_S
        except LogDiverged:
            self._check()  # which says what is wrong with them, if anything still is
            raise
        finally:
            stream.stop()

    def progress(self, reader: LogReader, rows_per_s: float) -> Progress:
        """How far it is, by the topics as they are now. Raises Unreachable."""
        seen = self._look()
        first = {span.place: span.start for span in reversed(topics.unread(self._archive, seen))}
        found = progress(self._archive, seen, topics.appended_ms(reader, first), self._now_ms())
        return at_rate(found, rows_per_s)

    def _lander(self, session: SparkSession) -> Lander:
        return Lander(
            session, {self._cluster: self._archive}, self._archive.scratch("batch"), self._now_ms, self._check
        )

    def _look(self) -> topics.Seen:
        return topics.look(self._admin, self._cluster, self._topics)

    def _check(self) -> None:
        topics.check(self._archive, self._look())

    def _appended(self, start_ms: int, end_ms: int) -> tuple[Span, ...]:
        """The offsets of what was appended from one time to before another."""
        bounds = self._look().bounds
        names = {place: (topic_name(self._cluster, BY_SHORT_NAME[place[0]]), place[1]) for place in bounds}
        starts, ends = (self._admin.offsets_at([*names.values()], ms) for ms in (start_ms, end_ms))
        found = []
        for place, (oldest, end) in bounds.items():
            start, stop = starts[names[place]], ends[names[place]]
            found.append(Span(*place, end if start < 0 else max(start, oldest), end if stop < 0 else min(stop, end)))
        return minus(found, ())


def utc(time_ms: int) -> str:
    """Such as 2026-11-23T02:30:00Z."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _tell_of(left: Sequence[Span]) -> None:
    _LOGGER.info("%d offsets are to land by now; the first landing of a process takes longest.", _offsets(left))


def _offsets(spans: Sequence[Span]) -> int:
    return sum(each.end - each.start for each in spans)


def _is_log(span: Span) -> bool:
    return span.topic == Topic.DECISIONS.short_name
