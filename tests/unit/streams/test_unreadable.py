"""One record that aiokafka cannot parse must not end who reads it, now and at each start."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher
from confluent_kafka import Producer
from tests.unit.raw_batches import UNREADABLE, produce, raw_batch

from topolog.streams.faust_apps.unreadable import step_over_unreadable

READABLE = (b"n1", b"readable", [(b"name", b"content")])
HEARTBEATS = TopicPartition("heartbeats", 0)


async def _values(bootstrap: str, first: int, count: int) -> list[tuple[int, bytes | None]]:
    """The next `count` records from this offset on, as faust reads them."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", check_crcs=False)
    await consumer.start()
    try:
        consumer.assign([HEARTBEATS])
        consumer.seek(HEARTBEATS, first)
        read = list[tuple[int, bytes | None]]()
        async with asyncio.timeout(10):
            while len(read) < count:
                found = await consumer.getmany(timeout_ms=100)
                read += [(each.offset, each.value) for some in found.values() for each in some]
        return read
    finally:
        await consumer.stop()


def test_the_rest_of_a_batch_that_cannot_be_parsed_is_read_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """No offset is missing, whatever is in front, behind, or in the same batch; nor if nothing follows."""
    monkeypatch.setattr(fetcher, "PartitionRecords", fetcher.PartitionRecords)
    step_over_unreadable()
    broker = Producer({"bootstrap.servers": "made-up", "test.mock.num.brokers": 1})  # librdkafka's own, inside it
    where = next(iter(broker.list_topics("heartbeats", timeout=5).brokers.values()))
    bootstrap = f"{where.host}:{where.port}"
    for batch in ([READABLE], [READABLE, UNREADABLE, READABLE], [READABLE], [UNREADABLE]):
        produce(bootstrap, "heartbeats", raw_batch(batch))
    read = [b"readable", b"readable", None, None, b"readable", None]
    assert asyncio.run(_values(bootstrap, 0, 6)) == list(enumerate(read))
    assert asyncio.run(_values(bootstrap, 3, 2)) == [(3, None), (4, b"readable")]
