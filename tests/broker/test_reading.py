"""What a reader owes to librdkafka's ways: a topic that it reads at once, an end that it sees though others write, and
nothing of a transaction that was aborted."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.broker.conftest import Site, eventually

from topolog.events import kafka
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.topics import PARTITIONS, Topic, topic_name

SOON_S, TURN_S = 0.5, 1.1
"""Left to itself librdkafka asks for the leader of a topic when its client is a second old, and then each second."""

RECORDS = 100
"""Several batches of a reader whose batches are small."""

HEARD_MIN, WITHIN_S = 30, 20.0
"""A reader that wanted all partitions to end at one moment heard 5 times in 12 s, with fifty writers."""


def reader(site: Site) -> KafkaReader:
    return KafkaReader(site.kafka, site.cluster)


def one_batch(site: Site) -> KafkaWriter:
    """What is appended goes to the log at once when it is flushed: between its records there is no end."""
    return KafkaWriter(site.kafka, site.cluster, linger_ms=10_000)


@contextlib.contextmanager
def beating(site: Site, writers: int) -> Iterator[None]:
    """So many write a record a second each to `heartbeats`, one after the other."""
    stop = threading.Event()

    def beat() -> None:
        with contextlib.closing(KafkaWriter(site.kafka, site.cluster)) as writer:
            number = 0
            while not stop.wait(1 / writers):
                writer.append(Topic.HEARTBEATS, f"n{number % writers}", b"")
                writer.serve()
                number += 1

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_topic_is_read_at_once_the_first_time_too(site: Site) -> None:
    """Otherwise each take-over costs a second, for a leader reads other topics than a stand-by. The best of four, on a
    machine that may be busy: librdkafka's turn would cost each of them that second."""

    def first_record_s() -> float:
        with contextlib.closing(reader(site)) as fresh:
            born_s = time.monotonic()
            fresh.assign({(Topic.DECISIONS, 0): Offset(0)})
            eventually(lambda: fresh.poll(0.05) or time.monotonic() > born_s + TURN_S, "its next turn to be far")
            began_s = time.monotonic()
            fresh.assign({(Topic.REQUESTS, 0): Offset(0)})
            eventually(lambda: fresh.poll(0.05), "the record")
            return time.monotonic() - began_s

    with contextlib.closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        writer.append(Topic.REQUESTS, "k", b"")
        assert writer.flush(5) == 0
    assert min(first_record_s() for _ in range(4)) < SOON_S


def test_who_reads_hears_however_many_write(site: Site) -> None:
    """LE27: silence counts only while heartbeats are read to their end; of many nodes one always writes, and a
    node whose machine is gone must be put out all the same."""
    with contextlib.closing(reader(site)) as hearing, beating(site, writers=50):
        hearing.assign({(Topic.HEARTBEATS, number): Offset(0) for number in range(PARTITIONS[Topic.HEARTBEATS])})
        heard = [0]

        def look() -> bool:
            hearing.poll(0.05)
            heard[0] += hearing.hears(Topic.HEARTBEATS)
            return heard[0] >= HEARD_MIN

        eventually(look, f"{HEARD_MIN} times to have read to the end", WITHIN_S)


def test_what_a_transaction_has_taken_back_is_read_by_nobody(site: Site) -> None:
    """K7: a foreign program that aborts has asked for nothing; what it commits counts, and what stands behind."""
    name = topic_name(site.cluster, Topic.REQUESTS)
    producer = Producer({**site.kafka, "transactional.id": name})
    producer.init_transactions()
    for value, end in ((b"taken back", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush()
        end()
    with contextlib.closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        writer.append(Topic.REQUESTS, "k", b"behind")
        assert writer.flush(5) == 0
    assert [entry.value for entry in site.entries(Topic.REQUESTS)] == [b"committed", b"behind"]


def test_a_reader_that_was_at_the_end_is_not_while_it_reads_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """LE27: silence counts only at the end, and what has come since is not read yet."""
    monkeypatch.setattr(kafka, "_BATCH_MAX", 10)
    with contextlib.closing(reader(site)) as reading, contextlib.closing(one_batch(site)) as writer:
        reading.assign({(Topic.REQUESTS, 0): Offset(0)})
        eventually(lambda: reading.poll(0.05) or reading.at_end(Topic.REQUESTS), "the end of an empty topic")
        for _ in range(RECORDS):
            writer.append(Topic.REQUESTS, "k", b"")
        assert writer.flush(5) == 0
        count = len(eventually(lambda: reading.poll(0.05), "the first records"))
        while count < RECORDS:
            assert not reading.at_end(Topic.REQUESTS), f"{count} of {RECORDS} records are read"
            count += len(reading.poll(0.05))
        eventually(lambda: reading.poll(0.05) or reading.at_end(Topic.REQUESTS), "the end")
