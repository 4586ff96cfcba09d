"""What a reader asks of Kafka before it reads; no broker is needed to see that."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from tests.unit.raw_batches import UNREADABLE, produce, raw_batch

from topolog.events import kafka
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader
from topolog.events.log import Entry
from topolog.events.topics import Topic, topic_name


def test_who_leads_the_topics_of_later_is_asked_once_and_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K5: asked when a stand-by begins to lead, each question would stand behind a fetch that finds nothing."""
    asked = list[str]()

    class Asked(Consumer):
        def list_topics(self, topic: str, timeout: float) -> None:  # type: ignore[override]  # all that is used of it
            asked.append(topic)

    monkeypatch.setattr(kafka, "Consumer", Asked)
    reader = KafkaReader({"bootstrap.servers": "127.0.0.1:1"}, "demo", [Topic.REQUESTS, Topic.MAPS])
    reader.assign({(Topic.DECISIONS, 0): Offset(0)})
    assert sorted(each.rpartition(".")[2] for each in asked) == ["decisions", "maps", "requests"]
    reader.assign({(Topic.DECISIONS, 0): Offset(7), (Topic.REQUESTS, 0): None, (Topic.MAPS, 0): None})
    assert len(asked) == 3
    reader.close()


def test_a_record_with_a_header_whose_name_is_no_text_is_read_as_one_without_headers() -> None:
    """Anybody may write one: it ended each process that read it, and read it again when it was started again."""
    broker = Producer({"bootstrap.servers": "made-up", "test.mock.num.brokers": 1})  # librdkafka's own, inside it
    name = topic_name("demo", Topic.REQUESTS)
    where = next(iter(broker.list_topics(name, timeout=5).brokers.values()))
    bootstrap = f"{where.host}:{where.port}"
    readable = (b"n1", b"readable", [(b"name", b"content")])
    produce(bootstrap, name, raw_batch([UNREADABLE, readable]))
    reader = KafkaReader({"bootstrap.servers": bootstrap}, "demo")
    reader.assign({(Topic.REQUESTS, 0): None})
    read = list[Entry]()
    until_s = time.monotonic() + 10
    while len(read) < 2 and time.monotonic() < until_s:
        read += reader.poll(0.1)
    reader.close()
    assert [(each.value, each.headers) for each in read] == [
        (b"unreadable", ()),
        (b"readable", (("name", b"content"),)),
    ]
