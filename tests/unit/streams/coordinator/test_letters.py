"""A dead letter of any record can be appended; if it cannot, the loop goes on."""

import msgspec
import pytest
from confluent_kafka import Producer

from topolog.events import dead_letters
from topolog.events.errors import BadInput
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaWriter
from topolog.events.log import Entry, Headers, InMemoryLog, InMemoryWriter, OnDelivery
from topolog.events.topics import RECORD_BYTES_MAX, Topic
from topolog.streams.coordinator.core import Dead
from topolog.streams.coordinator.letters import Burials, letter

SMALL = Entry(Topic.REQUESTS, 0, Offset(7), "n1", b"value", (), 0)
BIG = RECORD_BYTES_MAX - 10


@pytest.mark.parametrize(
    "dead",
    [
        Dead(msgspec.structs.replace(SMALL, key="\udcff" * BIG), "a key"),
        Dead(msgspec.structs.replace(SMALL, key="k" * (BIG // 2), value=b"v" * (BIG // 2)), "a key and a value"),
        Dead(msgspec.structs.replace(SMALL, headers=(("é" * BIG, b""),)), "a header's name"),
        Dead(msgspec.structs.replace(SMALL, headers=(("a", b""),) * (BIG // 3)), "many headers"),
        Dead(SMALL, "\x01" * BIG),
    ],
    ids=["key", "key and value", "name", "headers", "reason"],
)
def test_the_letter_of_a_record_of_any_shape_can_be_appended(dead: Dead) -> None:
    """It had ended the coordinator before the record counted as read, and so the next one, too."""
    broker = Producer({"bootstrap.servers": "made-up", "test.mock.num.brokers": 1})  # librdkafka's own, inside it
    where = next(iter(broker.list_topics("dead", timeout=5).brokers.values()))
    writer = KafkaWriter({"bootstrap.servers": f"{where.host}:{where.port}"}, "demo")
    Burials(writer).bury([dead])
    assert writer.flush(5) == 0
    found = letter(dead)
    size = len((found.key or "").encode("utf-8", "surrogateescape")) + len(found.value)
    assert size + sum(len(name.encode()) + len(content) + 6 for name, content in found.headers) <= RECORD_BYTES_MAX
    assert dict(found.headers)[dead_letters.OFFSET] == b"7"


class Narrow(InMemoryWriter):
    """Takes no record longer than five bytes."""

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if len(value) > 5:
            raise BadInput("too big")
        super().append(topic, key, value, headers, on_delivery)


def test_a_letter_that_is_too_big_all_the_same_is_lost_and_the_next_one_is_not() -> None:
    """Read again it would be no smaller, so nobody is to read it again."""
    log = InMemoryLog()
    burials = Burials(Narrow(log, prompt=True))
    burials.bury([Dead(msgspec.structs.replace(SMALL, value=b"longer"), "a value"), Dead(SMALL, "nothing")])
    assert [each.value for each in log.entries(Topic.DEAD)] == [b"value"]
    assert burials.count == 2
