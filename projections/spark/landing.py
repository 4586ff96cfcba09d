"""The job that lands: topics in, an archive's tables out, as a stream or over a span of time.

Spark keeps how far it has read, in the checkpoint, and gives the same batch again after a crash; which of its records
count is said by the archive alone (`archive/landings.py`), so a checkpoint that is lost, or older than the archive, does
no harm. Whether the topics are those that the archive was made of is looked at before anything is read, and at the
first record of the log when it comes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql.streaming import StreamingQuery

from topolog.events.codec import Released, released
from topolog.events.errors import LogDiverged
from topolog.events.topics import Topic, topic_name
from topolog.projections.archive.landings import ArchiveWriter
from topolog.projections.archive.spans import Span, merged, minus, overlapping
from topolog.projections.spark import archive as steps

TOPICS = (Topic.DECISIONS, Topic.REQUESTS, Topic.LEASE_HEALTH, Topic.DEAD)
"""What is landed if nothing else is said: what is kept for ever or for long, and what reports are made of."""

RECORDS_PER_BATCH_MAX = 500_000
_RECORDS, _TABLES, _QUARANTINE = "records", "tables", "quarantine"


class Job:
    """Lands into one archive. `kafka` are settings of Kafka's Java clients; `now_ms` is wall time (UTC)."""

    def __init__(
        self,
        session: SparkSession,
        archive: ArchiveWriter,
        kafka: Mapping[str, str],
        now_ms: Callable[[], int],
        topics: Sequence[Topic] = TOPICS,
    ) -> None:
        assert archive.about is not None
        cluster = archive.about.cluster
        self._session = session
        self._archive = archive
        self._now_ms = now_ms
        self._names = {topic_name(cluster, topic): topic.short_name for topic in topics}
        self._kafka = {f"kafka.{name}": value for name, value in kafka.items()}
        self._types: dict[str, list[Released]] = {}
        for each in released():
            self._types.setdefault(each.name, []).append(each)
        self._prefixes = {each.prefix.hex().upper(): each.name for each in released()}

    def stream(self, *, once: bool = False, every_s: float = 10.0) -> StreamingQuery:
        """Land all that is there, and, unless `once`, whatever comes."""
        source = self._options(self._session.readStream.format("kafka"))
        source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", RECORDS_PER_BATCH_MAX)
        writer = source.load().writeStream.foreachBatch(lambda batch, number: self.land(batch, f"stream {number}"))
        writer = writer.option("checkpointLocation", str(self._archive.folder / "checkpoint"))
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_s:g} seconds"}
        return writer.trigger(**trigger).start()

    def backfill(self, start: datetime, end: datetime) -> None:
        """Land what the topics have of these days and has not landed; done twice, the second adds nothing."""
        source = self._options(self._session.read.format("kafka"))
        for name, at in (("startingTimestamp", start), ("endingTimestamp", end)):
            source.option(name, int(at.timestamp() * 1000))
        source.option("startingOffsetsByTimestampStrategy", "latest")
        self.land(source.load(), f"backfill {start.isoformat()} to {end.isoformat()}")

    def land(self, batch: DataFrame, source: str) -> None:
        """Land what of these records has not landed; nothing happens if all of them have."""
        self._archive.refresh()
        came = steps.records(batch, self._names).persist()
        try:
            spans = _spans(came)
            taken = overlapping(spans, self._archive.spans())
            if minus(spans, taken):
                self._land(steps.without(came, taken), minus(spans, taken), source)
        finally:
            came.unpersist()

    def _land(self, came: DataFrame, spans: tuple[Span, ...], source: str) -> None:
        self._identify(came)
        staged = self._archive.staged()
        came.write.partitionBy("topic", "date").parquet(str(staged / _RECORDS))
        told = steps.stated(came).persist()
        try:
            rows = self._tables(told, staged)
        finally:
            told.unpersist()
        self._archive.land(source, spans, rows, self._now_ms())

    def _tables(self, told: DataFrame, staged: Path) -> dict[str, int]:
        """Write a table of each type that is there, and what is in none of them; how many rows each has."""
        counts: Counter[str] = Counter()
        for row in told.groupBy("prefix").count().collect():
            counts[self._prefixes.get(row["prefix"], "")] += row["count"]
        apart = told.withColumn("reason", steps.reason_without_type(self._prefixes))
        aside = steps.set_aside(apart.where(F.col("reason").isNotNull()), F.col("reason"))
        for name in sorted(counts.keys() - {""}):
            events = steps.decoded(told, self._types[name])
            steps.table(events).write.partitionBy("date").parquet(str(staged / _TABLES / name))
            damaged = events.where(F.col("event").isNull())
            aside = aside.unionByName(steps.set_aside(damaged, F.lit(steps.DAMAGED), name))
        set_aside = {row["type"]: row["count"] for row in aside.groupBy("type").count().collect()}
        if set_aside:
            aside.write.partitionBy("date").parquet(str(staged / _QUARANTINE))
        tables = {f"{_TABLES}/{name}": count - set_aside.get(name, 0) for name, count in counts.items() if name}
        quarantined = {_QUARANTINE: sum(set_aside.values())} if set_aside else {}
        return {_RECORDS: counts.total(), **{name: rows for name, rows in tables.items() if rows}, **quarantined}

    def _identify(self, came: DataFrame) -> None:
        """The log's own id is in the stamp of its first record."""
        genesis = came.where((F.col("topic") == Topic.DECISIONS.short_name) & (F.col("offset") == 0))
        found = genesis.select(steps.log_id().alias("log_id")).first()
        if found is not None and found["log_id"] is not None:
            self._archive.identify(bytes(found["log_id"]))

    def _options(self, source: Any) -> Any:
        for name, value in self._kafka.items():
            source.option(name, value)
        source.option("subscribe", ",".join(self._names)).option("includeHeaders", "true")
        return source.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "true")


def check_same_log(archive: ArchiveWriter, log_id: bytes, ends: Mapping[tuple[str, int], int]) -> None:
    """Raise BadInput or LogDiverged unless these topics are those that the archive was made of.

    `log_id`: of the topic `decisions` now; `ends`: the offset after the newest record, by topic and partition.
    """
    archive.identify(log_id)
    for span in merged(archive.spans()):
        end = ends.get((span.topic, span.partition), 0)
        if end < span.end:
            raise LogDiverged(
                f"The archive in {archive.folder} has {span.topic}/{span.partition} up to offset {span.end}, and the "
                f"topic ends at {end}: it was cut short or made anew.",
                hint="Keep this archive: it may be all that is left of those records. Land the topic in another folder.",
            )


def _spans(came: DataFrame) -> tuple[Span, ...]:
    by_partition = came.groupBy("topic", "partition").agg(F.min("offset").alias("start"), F.max("offset").alias("last"))
    return merged(Span(row["topic"], row["partition"], row["start"], row["last"] + 1) for row in by_partition.collect())
