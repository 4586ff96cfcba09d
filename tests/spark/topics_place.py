"""A cluster's topics on the tests' broker, an archive of them, and the pipeline between."""

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from tests.broker.conftest import eventually
from tests.unit.projections.chronicle import Chronicle

from topolog.events.kafka import KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.projections.archive import reading, topics
from topolog.projections.archive.landings import Archive, ArchiveWriter, opened
from topolog.projections.archive.spans import Span
from topolog.projections.spark import batches
from topolog.projections.spark.batches import Stream
from topolog.projections.spark.lander import Lander
from topolog.projections.spark.pipeline import Pipeline


class TopicsPlace:
    """A cluster on the broker, an archive of it, and the job between them."""

    def __init__(self, spark: SparkSession, bootstrap: str, cluster: str, folder: Path) -> None:
        self.cluster = cluster
        self.spark = spark
        self.kafka = {"bootstrap.servers": bootstrap}
        self.admin = KafkaAdmin(self.kafka)
        self.admin.create_topics(cluster, PLANS)
        self.broker = AdminClient(dict(self.kafka))
        self.folder = folder
        self.written = 0

    def write(self, chronicle: Chronicle) -> None:
        """What the chronicle has decided and the broker has not got."""
        entries = chronicle.entries[self.written :]
        self.append(Topic.DECISIONS, [(each.value, each.headers) for each in entries])
        self.written += len(entries)

    def append(self, topic: Topic, records: Sequence[tuple[bytes, tuple[tuple[str, bytes], ...]]]) -> None:
        writer = KafkaWriter(self.kafka, self.cluster)
        for value, headers in records:
            writer.append(topic, "k", value, headers)
        assert writer.flush(30) == 0
        writer.close()

    def seen(self) -> topics.Seen:
        return topics.look(self.admin, self.cluster)

    def pipeline(self, archive: ArchiveWriter) -> Pipeline:
        return Pipeline(archive, self.admin, self.kafka, lambda: 7, lambda _: None)

    def lander(self, archive: ArchiveWriter) -> Lander:
        """As a pipeline has one."""

        def check() -> None:
            topics.check(archive, self.seen())

        return Lander(self.spark, {self.cluster: archive}, archive.scratch("batch"), lambda: 7, check)

    def backfill(self, archive: ArchiveWriter, wanted: Sequence[Span]) -> None:
        for batch in batches.in_batches([(self.cluster, span) for span in wanted], batches.RECORDS_PER_BATCH_MAX):
            batches.land(self.spark, self.lander(archive), self.kafka, batch, "backfill")

    def land(self) -> Archive:
        """What is there, with a stream that ends."""
        with opened(self.folder, self.cluster) as archive:
            pipeline = self.pipeline(archive)
            pipeline.begin(topics.log_id(self.kafka, self.cluster))
            run_out(pipeline.stream(self.spark, once=True))
            return archive

    def records_of(self, archive: Archive, topic: Topic, partition: int = 0) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for table in reading.tables(archive, topic.short_name, partition=partition):
            found += zip(table.column("offset").to_pylist(), table.column("value").to_pylist(), strict=True)
        return found

    def delete_before(self, topic: Topic, offset: int) -> None:
        """As retention does."""
        place = TopicPartition(topic_name(self.cluster, topic), 0, offset)
        self.broker.delete_records([place])[place].result()

    def make_anew(self, topic: Topic) -> None:
        name = topic_name(self.cluster, topic)
        before = self.admin.describe([name])[name].id
        self.broker.delete_topics([name])[name].result()
        eventually(lambda: name not in self.admin.describe([name]), "the topic to be gone")
        self.admin.create_topics(self.cluster, PLANS)
        assert self.admin.describe([name])[name].id != before


def run_out(stream: Stream) -> None:
    while not stream.wait(0.2):
        pass
