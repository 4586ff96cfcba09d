"""Records as Spark's Kafka source gives them, without a Kafka, and what lands them."""

from collections.abc import Iterable
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from topolog.events.codec import Released
from topolog.events.log import Entry
from topolog.events.topics import topic_name
from topolog.projections.archive.landings import ArchiveWriter
from topolog.projections.spark.lander import Lander

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)


def came(spark: SparkSession, cluster: str, entries: Iterable[Entry]) -> DataFrame:
    """The records as Spark's Kafka source gives them."""
    rows = [
        (
            (each.key or "").encode(),
            each.value,
            topic_name(cluster, each.topic),
            each.partition,
            each.offset,
            datetime.fromtimestamp(each.appended_at_ms / 1000, UTC),
            1,
            [(name, value) for name, value in each.headers] or None,
        )
        for each in entries
    ]
    return spark.createDataFrame(rows, SCHEMA)


def lander_of(spark: SparkSession, archive: ArchiveWriter, versions: Iterable[Released] | None = None) -> Lander:
    archives = {archive.about.cluster: archive}
    return Lander(spark, archives, archive.scratch("batch"), lambda: 7, versions=versions)
