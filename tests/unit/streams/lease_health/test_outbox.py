"""What is put aside for the changelog is with the broker before faust notes how far it has read."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from faust.transport.producer import ProducerBuffer

from topolog.streams.lease_health.outbox import Outbox

RECORDS = 3
LONGER_S = 0.15
"""faust's own flush gives up after 0.1 s."""


class Record(asyncio.Future[None]):
    """One that is put aside for a topic."""

    def __init__(self, topic: "Topic") -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.message = SimpleNamespace(channel=topic)


class Topic:
    """Its broker takes a record `LONGER_S` after it was sent; one that `is_gone` takes none."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.taken: list[Record] = []
        self._is_gone = is_gone

    async def publish_message(self, record: Record, wait: bool = True) -> None:
        await asyncio.sleep(LONGER_S)
        if self._is_gone:
            record.set_exception(ConnectionError("the broker is gone"))
        else:
            record.set_result(None)
            self.taken.append(record)


class Producer:
    """faust's own queue, behind a flush that does what faust's does."""

    def __init__(self) -> None:
        buffer: Any = ProducerBuffer()
        buffer.app = SimpleNamespace(conf=SimpleNamespace(producer_threaded=False))
        self.buffer = buffer

    async def flush(self) -> None:
        await self.buffer.flush()


async def flushed(producer: Producer, topic: Topic) -> int:
    """How much of what was put aside the broker has when a flush returns."""
    await producer.buffer.start()
    try:
        for _ in range(RECORDS):
            producer.buffer.put(Record(topic))
        await producer.flush()
        return len(topic.taken)
    finally:
        with suppress(RuntimeError):  # it ends with records that it has not sent
            await producer.buffer.stop()


def test_a_flush_returns_when_the_broker_has_it_all() -> None:
    """However slow the machine is; the library's own does not, and then this file and its subject may go."""
    assert asyncio.run(flushed(Producer(), Topic())) < RECORDS
    producer = Producer()
    Outbox(producer)
    assert asyncio.run(flushed(producer, Topic())) == RECORDS


def test_a_flush_says_that_a_record_was_lost() -> None:
    """Or its worker would note as read what no table has."""
    producer = Producer()
    Outbox(producer)
    with pytest.raises(ConnectionError):
        asyncio.run(flushed(producer, Topic(is_gone=True)))


def test_a_flush_of_a_queue_that_has_been_stopped_waits_for_nothing() -> None:
    """Nothing is sent from it any more."""

    async def stopped() -> None:
        producer = Producer()
        Outbox(producer)
        await producer.buffer.start()
        await producer.buffer.stop()
        producer.buffer.put(Record(Topic()))
        with pytest.raises(RuntimeError, match="not Running"):
            await producer.flush()

    asyncio.run(asyncio.wait_for(stopped(), 5))
