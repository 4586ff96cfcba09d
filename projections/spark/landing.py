"""The jobs that land: a cluster's topics as a stream, or a span of their time.

A stream of Spark begins where the archive ends. Spark's own notes of how far it has read (its checkpoint) are made anew
for each run and say one thing only: which offsets a batch is made of, for they are written before the batch is.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from topolog.events.errors import LogDiverged, SparkEnded, SparkFailed, TopologError, Unreachable
from topolog.events.topics import Topic, topic_name
from topolog.projections.archive.landings import ArchiveWriter
from topolog.projections.archive.spans import Span, merged, minus, shares
from topolog.projections.archive.topics import TOPICS, Place
from topolog.projections.spark import jobs
from topolog.projections.spark.batches import Lander
from topolog.projections.spark.session import is_over

RECORDS_PER_BATCH_MAX = 500_000
TASKS_MAX = 16
"""Above this many partitions in a batch that is not a stream's a task reads several, one after the other."""

_KAFKA = {"isolation.level": "read_committed", "default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
_GONE = re.compile(r"data may have been (?:missed|lost)|OffsetOutOfRange|KAFKA_DATA_LOSS", re.IGNORECASE)
_SILENT = re.compile(r"TimeoutException|DisconnectException|Failed to (?:construct|create new) kafka", re.IGNORECASE)
_END_S = 2.0
Offsets = dict[str, dict[str, int]]
"""As Spark writes them: by Kafka's name of a topic, by partition."""


class Job:
    """Lands one cluster's topics into its archive. `kafka` are settings of Kafka's Java clients."""

    def __init__(
        self,
        session: SparkSession,
        archive: ArchiveWriter,
        kafka: Mapping[str, str],
        now_ms: Callable[[], int],
        topics: Sequence[Topic] = TOPICS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._archive = archive
        self._cluster = archive.about.cluster
        self._kafka = kafka
        self._topics = topics
        self._lander = Lander(session, {self._cluster: archive}, archive.scratch("batch"), now_ms, check)

    def land(self, batch: DataFrame, source: str, read: Sequence[Span] = ()) -> None:
        """Land what of these records, as Spark's Kafka source gives them, has not landed."""
        self._lander.land(batch, source, {self._cluster: read})

    def stream(self, starts: Mapping[Place, int], *, once: bool = False, every_s: float = 10.0) -> "Stream":
        """Land all that is there from these offsets on, and, unless `once`, whatever comes."""
        notes = self._archive.scratch("checkpoint")
        names = {topic.short_name: topic_name(self._cluster, topic) for topic in self._topics}
        offsets: Offsets = {}
        for (topic, number), start in starts.items():
            offsets.setdefault(names[topic], {})[str(number)] = start
        source = kafka_source(self._session.readStream, self._kafka, offsets)
        source = source.option("startingOffsets", _text(offsets)).option("maxOffsetsPerTrigger", RECORDS_PER_BATCH_MAX)
        return Stream(source.load(), self._lander, self._cluster, notes, offsets, once=once, every_s=every_s)

    def backfill(self, wanted: Sequence[Span], source: str, told: jobs.Told | None = None) -> None:
        """Land these offsets; those that have landed are left out. What is `told` may raise, and that ends it."""
        batches = Batches(self._session, self._lander, self._kafka, told)
        for batch in in_batches([(self._cluster, span) for span in wanted], RECORDS_PER_BATCH_MAX):
            batches.land(batch, source)


class Stream:
    """A stream that runs. `wait` says whether it has ended, and raises what has ended it."""

    def __init__(
        self,
        source: DataFrame,
        lander: Lander,
        cluster: str,
        notes: Path,
        starts: Offsets,
        *,
        once: bool,
        every_s: float,
    ) -> None:
        self._lander = lander
        self._cluster = cluster
        self._notes = notes
        self._starts = starts
        self._failed: TopologError | None = None
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)  # what it says is raised as well
        writer = source.writeStream.foreachBatch(self._land).option("checkpointLocation", str(notes))
        trigger: dict[str, Any] = (
            {"availableNow": True} if once else {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        )
        self.query: StreamingQuery = writer.trigger(**trigger).start()

    def wait(self, timeout_s: float) -> bool:
        """Raises what `Lander.land` does, LogDiverged, Unreachable, SparkFailed, SparkEnded without a JVM."""
        try:
            return bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # it takes parts of a second
        except StreamingQueryException as error:
            raise self._failed or _translated(error) from error
        except Exception as error:
            if is_over(_END_S):
                raise SparkEnded(
                    "The JVM of Spark has ended.",
                    hint="What has landed stays: start again, with more --memory if it was killed for want of that.",
                ) from error
            raise

    def stop(self) -> None:
        """End it; a landing that is being made to stand is finished, a batch that is being read is not."""
        if not is_over(0):
            self.query.stop()

    def rows_per_s(self) -> float:
        """How fast the newest batch went, 0 before there is one."""
        progress = None if is_over(0) else self.query.lastProgress
        return float(progress.processedRowsPerSecond or 0.0) if progress else 0.0

    def _land(self, batch: DataFrame, number: int) -> None:
        try:
            self._lander.land(batch, f"stream {number}", {self._cluster: self._read(number)})
        except TopologError as error:
            self._failed = error
            raise

    def _read(self, number: int) -> tuple[Span, ...]:
        """Which offsets a batch is made of: from the end of the one before."""
        before = _noted(self._notes, number - 1) if number else self._starts
        return merged(
            Span(topic.rpartition(".")[2], int(partition), before.get(topic, {}).get(partition, 0), end)
            for topic, ends in _noted(self._notes, number).items()
            for partition, end in ends.items()
        )


class Batches:
    """Lands offsets that are named, of one cluster or of many."""

    def __init__(
        self, session: SparkSession, lander: Lander, kafka: Mapping[str, str], told: jobs.Told | None = None
    ) -> None:
        self._session = session
        self._lander = lander
        self._kafka = kafka
        self._told = told

    def land(self, batch: Sequence[tuple[str, Span]], source: str) -> None:
        """Spans by cluster, no two of one partition. Raises what `Lander.land` does, LogDiverged and Unreachable."""
        starts, ends = Offsets(), Offsets()
        read: dict[str, list[Span]] = {}
        for cluster, span in batch:
            name = f"topolog.{cluster}.{span.topic}"
            starts.setdefault(name, {})[str(span.partition)] = span.start
            ends.setdefault(name, {})[str(span.partition)] = span.end
            read.setdefault(cluster, []).append(span)
        frame = kafka_source(self._session.read, self._kafka, starts)
        frame = frame.option("startingOffsets", _text(starts)).option("endingOffsets", _text(ends)).load()
        if len(batch) > TASKS_MAX:
            frame = frame.coalesce(TASKS_MAX)
        try:
            jobs.run(self._session, lambda: self._lander.land(frame, source, read), self._told)
        except SparkFailed as error:
            raise _translated(error) from error


def in_batches(wanted: Sequence[tuple[str, Span]], limit: int) -> Iterator[list[tuple[str, Span]]]:
    """All of it, in batches of about `limit` offsets that have one span of each partition."""
    left = list(wanted)
    while left:
        firsts: dict[tuple[str, Place], tuple[str, Span]] = {}
        for cluster, span in sorted(left):
            firsts.setdefault((cluster, span.place), (cluster, span))
        batch = shares(firsts.values(), limit)
        yield batch
        gone: dict[str, list[Span]] = {}
        for cluster, span in batch:
            gone.setdefault(cluster, []).append(span)
        left = [(cluster, each) for cluster, span in left for each in minus([span], gone.get(cluster, ()))]


def kafka_source(reader: Any, kafka: Mapping[str, str], offsets: Offsets) -> Any:
    """Spark's Kafka source for these partitions, and no others."""
    source = reader.format("kafka")
    for name, value in {**_KAFKA, **kafka}.items():
        source.option(f"kafka.{name}", value)
    assigned = {topic: sorted(map(int, partitions)) for topic, partitions in offsets.items()}
    source.option("assign", _text(assigned)).option("includeHeaders", "true").option("failOnDataLoss", "true")
    return source


def _noted(notes: Path, number: int) -> Offsets:
    """The ends of a batch: the last line of a file that Spark has written before it made the batch."""
    try:
        return msgspec.json.decode((notes / "offsets" / str(number)).read_bytes().splitlines()[-1], type=Offsets)
    except (OSError, IndexError, msgspec.MsgspecError) as error:
        raise SparkFailed(f"Spark has not noted what batch {number} is made of: {error}.") from error


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _translated(error: BaseException) -> TopologError:
    said = str(error)
    if _GONE.search(said):
        return LogDiverged(
            "Records that were to land are gone from their topic, or the topic was made anew meanwhile.",
            hint="Start again: what is wrong with the topics is looked at first, and told.",
        )
    if _SILENT.search(said):
        return Unreachable("Kafka does not answer Spark.", hint="What is landed stays; the rest follows later.")
    found = jobs.translated(error)
    return found if isinstance(found, TopologError) else SparkFailed(f"The stream has ended: {said[:300]}")
