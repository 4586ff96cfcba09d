"""A copy of a cluster's log under another name on the same broker, as a backup or a mirror that goes live beside it.

Keys, values, headers and partitions are the same to the byte, and so are offsets, for nothing of a test's log is old
enough to have been dropped. The name of a cluster is a name of topics; what the log is, it says itself.
"""

from collections.abc import Iterator

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import ASKED, PARTITIONS, PLANS, Topic, topic_name

PATIENCE_S = 30.0
COPIED = (Topic.DECISIONS, *ASKED, Topic.HEARTBEATS, Topic.MAPS)


def copy_log(bootstrap: str, cluster: str, name: str, *, decisions: int | None = None) -> None:
    """Make cluster `name` of what the log of `cluster` holds; of the first so many decisions alone, if that is said."""
    KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(name, PLANS)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": "true", "acks": "all"})
    for topic in COPIED if decisions is None else (Topic.DECISIONS,):
        for partition in range(PARTITIONS[topic]):
            for message in _records(bootstrap, topic_name(cluster, topic), partition):
                if topic is Topic.DECISIONS and message.offset() == decisions:
                    break
                producer.produce(
                    topic_name(name, topic), message.value(), message.key(), partition, headers=message.headers()
                )
    assert producer.flush(PATIENCE_S) == 0, "the broker does not take the copy"


def _records(bootstrap: str, topic: str, partition: int) -> Iterator[Message]:
    """Those that are there now: a log that is written to may have no end that is ever reached."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}.copy", "enable.auto.commit": "false"}
    consumer = Consumer(settings)
    try:
        place = TopicPartition(topic, partition, 0)
        first, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        assert first == 0, "offsets would not be the same"
        consumer.assign([place])
        for _ in range(end):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{topic} cannot be read"
            assert message.error() is None, str(message.error())
            yield message
    finally:
        consumer.close()
