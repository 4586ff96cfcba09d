"""Where the batches that land come from: a stream of Spark's, or offsets that are named.

A stream of Spark begins where the archive ends. Spark's own notes of how far it has read (its checkpoint) are made anew
for each run and say one thing only: which offsets a batch is made of, for they are written before the batch is.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from topolog.events.errors import BadInput, LogDiverged, SparkEnded, SparkFailed, TopologError, Unreachable
from topolog.events.topics import BY_SHORT_NAME, topic_name
from topolog.projections.archive.spans import Span, merged, minus, shares
from topolog.projections.archive.topics import TopicPartition
from topolog.projections.spark import jobs
from topolog.projections.spark.lander import Lander
from topolog.projections.spark.session import is_over

RECORDS_PER_BATCH_MAX = 500_000
TASKS_MAX = 16
"""Above this many partitions in a batch that is not a stream's a task reads several, one after the other."""

_KAFKA = {"isolation.level": "read_committed", "default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
_GONE = re.compile(r"data may have been (?:missed|lost)|OffsetOutOfRange|KAFKA_DATA_LOSS", re.IGNORECASE)
_SILENT = re.compile(r"TimeoutException|DisconnectException|Failed to (?:construct|create new) kafka", re.IGNORECASE)
_REFUSED = re.compile(
    r"\.(?:Config|InvalidConfiguration|Login|\w*Authentication|\w*Authorization)Exception|'KafkaClient' entry in"
)
_UNKNOWN_HOST = "No resolvable bootstrap urls"  # Java calls that a wrong setting
_END_S = 2.0
Offsets = dict[str, dict[str, int]]
"""As Spark writes them: by Kafka's name of a topic, by partition."""


class Stream:
    """A stream that runs. `wait` says whether it has ended, and raises what has ended it."""

    def __init__(
        self,
        session: SparkSession,
        lander: Lander,
        cluster: str,
        kafka: Mapping[str, str],
        notes: Path,
        starts: Offsets,
        *,
        once: bool,
        every_s: float,
    ) -> None:
        """Reads one cluster from these offsets on, and ends at the topics' end if it is for `once`. `notes` is an empty
        folder; `kafka` are settings of Kafka's Java clients."""
        self._lander = lander
        self._cluster = cluster
        self._notes = notes
        self._starts = starts
        self._failed: TopologError | None = None
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)  # what it says is raised as well
        source = kafka_source(session.readStream, kafka, starts).option("startingOffsets", _text(starts))
        source = source.option("maxOffsetsPerTrigger", RECORDS_PER_BATCH_MAX)
        trigger: dict[str, Any] = (
            {"availableNow": True} if once else {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        )
        try:
            writer = source.load().writeStream.foreachBatch(self._land).option("checkpointLocation", str(notes))
            self.query: StreamingQuery = writer.trigger(**trigger).start()
        except PySparkException as error:
            raise _translated(error) from error

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
        try:
            progress = None if is_over(0) else self.query.lastProgress
        except Exception:
            if not is_over(_END_S):
                raise
            return 0.0  # the JVM died meanwhile, which `wait` says
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


def land(
    session: SparkSession,
    lander: Lander,
    kafka: Mapping[str, str],
    batch: Sequence[tuple[str, Span]],
    source: str,
    told: jobs.OnProgress | None = None,
) -> None:
    """Land offsets that are named: spans by cluster, no two of one partition.

    Raises what `Lander.land` does, LogDiverged and Unreachable. What is `told` may raise, and that ends it.
    """
    starts, ends = Offsets(), Offsets()
    read: dict[str, list[Span]] = {}
    for cluster, span in batch:
        name = topic_name(cluster, BY_SHORT_NAME[span.topic])
        starts.setdefault(name, {})[str(span.partition)] = span.start
        ends.setdefault(name, {})[str(span.partition)] = span.end
        read.setdefault(cluster, []).append(span)
    reader = kafka_source(session.read, kafka, starts)
    reader = reader.option("startingOffsets", _text(starts)).option("endingOffsets", _text(ends))

    def land_them() -> None:
        frame = reader.load()
        lander.land(frame.coalesce(TASKS_MAX) if len(batch) > TASKS_MAX else frame, source, read)

    try:
        jobs.run(session, land_them, told)
    except SparkEnded:
        raise
    except SparkFailed as error:
        raise _translated(error.__cause__ or error) from error


def in_batches(wanted: Sequence[tuple[str, Span]], limit: int) -> Iterator[list[tuple[str, Span]]]:
    """All of it, in batches of about `limit` offsets that have one span of each partition."""
    left = list(wanted)
    while left:
        firsts: dict[tuple[str, TopicPartition], tuple[str, Span]] = {}
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
    settings = {**_KAFKA, **kafka}
    if "default.api.timeout.ms" not in kafka:  # Java refuses one that is shorter than that of a request
        settings["default.api.timeout.ms"] = max(
            settings["default.api.timeout.ms"], settings["request.timeout.ms"], key=int
        )
    for name, value in settings.items():
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
    why, said = jobs.causes(error), jobs.told_by(error)
    if _GONE.search(said):
        return LogDiverged(
            "Records that were to land are gone from their topic, or the topic was made anew meanwhile.",
            hint="Start again: what is wrong with the topics is looked at first, and told.",
        )
    if _REFUSED.search(said) and _UNKNOWN_HOST not in said:
        return BadInput(
            f"Kafka's Java client refuses its settings, or the broker refuses the client: {(why or [said])[-1][:300]}.",
            hint="What [kafka] says is translated; --kafka-properties FILE says it in Java's own words.",
        )
    if _SILENT.search(said):
        return Unreachable("Kafka does not answer Spark.", hint="What is landed stays; the rest follows later.")
    return error if isinstance(error, TopologError) else SparkFailed(f"A batch failed: {jobs.sentence(said)}")
