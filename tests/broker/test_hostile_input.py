"""Input that no coordinator may die of, on a real broker."""

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.conftest import Site, eventually

from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.log import Entry
from topolog.events.metadata import ObjectType, TypeRemovalRequested
from topolog.events.topics import OF_NODES, PLANS, RECORD_BYTES_MAX, Topic, topic_name


def test_a_request_that_cannot_be_read_and_hardly_be_buried_stops_nobody(site: Site) -> None:
    """Bad input: 890 kB of garbage leave a stub on `dead` that says how big they were; work goes on."""
    site.coordinator("c1")
    writer = KafkaWriter(site.kafka, site.cluster)
    garbled = CODEC.encode(TypeRemovalRequested(RequestId("op", 1), bytes(16), "@" * 230_000, "", "T"))
    writer.append(Topic.REQUESTS, "op", b"\xff" * 899_990)
    writer.append(Topic.REQUESTS, "op", garbled.replace(b"@", b"\xff"))
    writer.flush(10)
    with site.node("n1") as node:
        assert node.propose(ObjectType("T", {"id": "long"})).accepted
    big, garbled_letter = eventually(lambda: _letters(site), "two dead letters")
    headers = dict(big.headers)
    assert int(headers["__dlq.errors.truncated.from.bytes"]) > 899_990
    assert big.value == b"\xff" * len(big.value)
    assert len(dict(garbled_letter.headers)["__dlq.errors.message"]) < 1_000


def _letters(site: Site) -> list[Entry] | None:
    found = site.entries(Topic.DEAD)
    return found if len(found) == 2 else None


@pytest.mark.parametrize("topic", sorted(OF_NODES, key=str))
def test_a_batch_that_unpacks_to_more_than_a_broker_takes_is_turned_away(site: Site, topic: Topic) -> None:
    """Bytes end nobody: what unpacks to 70 MB stops librdkafka's readers for ever, so no broker keeps it."""
    refusals: list[KafkaError | None] = []
    packing = {
        "compression.type": "gzip",
        "linger.ms": 5_000,
        "batch.size": 100_000_000,
        "message.max.bytes": 100_000_000,
    }
    producer = Producer({**site.kafka, **packing, "retries": 0})
    for _ in range(80):
        value = bytes(RECORD_BYTES_MAX)
        producer.produce(
            topic_name(site.cluster, topic), value, partition=0, on_delivery=lambda e, _: refusals.append(e)
        )
    assert producer.flush(30) == 0
    assert {error and error.code() for error in refusals} == {KafkaError.MSG_SIZE_TOO_LARGE}
    assert site.entries(topic) == []


def test_a_reader_whose_input_was_deleted_goes_on_from_the_oldest_record(site: Site) -> None:
    """Retention may delete inputs while nobody reads them: that costs the deleted records and no coordinator."""
    writer = KafkaWriter(site.kafka, site.cluster)
    for number in range(10):
        writer.append(Topic.REQUESTS, "k", b"%d" % number)
    writer.flush(10)
    partition = TopicPartition(topic_name(site.cluster, Topic.REQUESTS), 0, 6)
    admin = AdminClient({**site.kafka})  # a client that is collected early never answers
    for future in admin.delete_records([partition]).values():
        future.result()
    for start in (None, Offset(3)):
        reader = KafkaReader(site.kafka, site.cluster)
        reader.assign({(Topic.REQUESTS, 0): start})
        found: list[bytes] = []

        def at_end(reader: KafkaReader = reader, found: list[bytes] = found) -> bool:
            found.extend(entry.value for entry in reader.poll(0.1))
            return reader.at_end(Topic.REQUESTS)

        eventually(at_end, "the end of what is left")
        reader.close()
        assert found == [b"6", b"7", b"8", b"9"]


def test_a_topic_made_by_hand_with_other_partitions_is_refused(kafka: str, cluster: str) -> None:
    """Bad input: heartbeats of one partition would be waited for for ever, so they are named at once."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.create_topics([NewTopic(topic_name(cluster, Topic.HEARTBEATS), 1, 1)]).values():
        future.result()
    with pytest.raises(BadInput, match="has 1 partitions, topolog needs 4"):
        KafkaAdmin({"bootstrap.servers": kafka}).create_topics(cluster, PLANS)
