"""What a writer owes to those who write with other clients: the same key goes to the same partition for all of them."""

import contextlib

from tests.broker.conftest import Site

from topolog.events.kafka import KafkaWriter
from topolog.events.topics import PARTITIONS, Topic

MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
"""Hashes of keys by which Kafka's own clients choose a partition, as its tests have them (UtilsTest.testMurmur2)."""


def test_a_key_goes_to_the_partition_that_javas_client_gives_it(site: Site) -> None:
    """K7: what one node says stands in one partition, in order, whatever client and release it says it with."""
    with contextlib.closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        for key in MURMUR2:
            writer.append(Topic.HEARTBEATS, key, b"")
        assert writer.flush(5) == 0
    places = {entry.key: entry.partition for entry in site.entries(Topic.HEARTBEATS)}
    assert places == {key: (each & 0x7FFFFFFF) % PARTITIONS[Topic.HEARTBEATS] for key, each in MURMUR2.items()}
