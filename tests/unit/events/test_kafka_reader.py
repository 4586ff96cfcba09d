"""What a reader asks of Kafka before it reads; no broker is needed to see that."""

import pytest
from confluent_kafka import Consumer

from topolog.events import kafka
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader
from topolog.events.topics import Topic


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
