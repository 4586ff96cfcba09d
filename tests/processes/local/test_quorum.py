"""Three real nodes: one is killed and comes back, all stop, and what cannot be three nodes is refused."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.broker.conftest import eventually

from topolog.events.errors import LocalBrokerError
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.kafka_config import (
    Door,
    Seat,
    Voter,
    initial_controllers,
    parse_properties,
    server_properties,
)
from topolog.streams.local.quorum import LocalQuorum

VOTERS = (Voter(1, 101, "A"), Voter(2, 103, "B"), Voter(3, 105, "C"))


@pytest.fixture
def quorum(tmp_path: Path, unused_ports: Callable[[int], int]) -> Iterator[LocalQuorum]:
    quorum = LocalQuorum(tmp_path / "data", port=unused_ports(6))
    yield quorum
    quorum.stop()


def test_nothing_acknowledged_is_lost_with_one_of_three(quorum: LocalQuorum, cluster: str) -> None:
    """RF 3, min.insync 2: kill -9 of the leader of `decisions` stops nobody for long, its restart makes it three."""
    settings = {"bootstrap.servers": quorum.bootstrap}
    quorum.start(ready=lambda _: KafkaAdmin(settings).wait_until_usable())
    KafkaAdmin(settings).create_topics(cluster, PLANS, replicas=3)
    producer = Producer({**settings, "acks": "all", "enable.idempotence": "true"})
    topic = topic_name(cluster, Topic.DECISIONS)
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    leader = producer.list_topics(topic).topics[topic].partitions[0].leader
    killed = quorum.nodes[leader - 1]
    os.kill(killed.status().pid or 0, signal.SIGKILL)
    eventually(lambda: not killed.status().is_running, "the node to be gone")
    assert [node.status().is_running for node in quorum.nodes].count(True) == 2
    for number in range(100, 200):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0, "two of three go on"

    assert all(status.is_running for status in quorum.start())
    eventually(lambda: len(_in_sync(producer, topic)) == 3, "the third copy")
    assert _values(settings, cluster) == [b"%d" % number for number in range(200)]
    assert quorum.stop()
    assert not any(status.is_running for status in quorum.status())
    assert not quorum.stop(), "there is nothing left to stop"


def _in_sync(producer: Producer, topic: str) -> list[int]:
    return list(producer.list_topics(topic).topics[topic].partitions[0].isrs)


def _values(settings: dict[str, str], cluster: str) -> list[bytes]:
    reader = KafkaReader(settings, cluster)
    reader.assign({(Topic.DECISIONS, 0): None})
    values: list[bytes] = []

    def at_end() -> bool:
        values.extend(entry.value for entry in reader.poll(0.1))
        return reader.at_end(Topic.DECISIONS)

    eventually(at_end, "the end of the topic")
    reader.close()
    return values


def test_a_node_that_cannot_start_ends_the_others(quorum: LocalQuorum) -> None:
    """Two of three would wait for the third's sentence for a minute; nothing is left running."""
    (quorum.folder / "node-2").mkdir(parents=True)
    (quorum.folder / "node-2" / "thesis.tex").touch()
    with pytest.raises(LocalBrokerError, match="holds something else, not of three"):
        quorum.start()
    (quorum.folder / "node-2" / "thesis.tex").rename(quorum.folder.parent / "thesis.tex")
    (quorum.folder / "node-2").rmdir()
    quorum._claim()  # as a start does that is cut off right behind it
    (quorum.folder / "node-2").mkdir()
    (quorum.folder / "node-2" / "thesis.tex").touch()
    with pytest.raises(LocalBrokerError, match="node-2 is not empty and not a data folder"):
        quorum.start()
    assert not any(status.is_running for status in quorum.status())


def test_one_node_and_three_nodes_do_not_share_a_folder(tmp_path: Path, unused_ports: Callable[[int], int]) -> None:
    """Neither start touches the other's data, and both say what the folder is."""
    port = unused_ports(6)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "topolog-broker.json").write_text('{"kafka_cluster_id": "x"}')
    with pytest.raises(LocalBrokerError, match="holds the data of one node, not of three"):
        LocalQuorum(tmp_path / "one", port=port).start()
    LocalQuorum(tmp_path / "three", port=port)._claim()
    with pytest.raises(LocalBrokerError, match="holds a Kafka of several nodes"):
        LocalBroker(tmp_path / "three", port=port).start()
    with pytest.raises(LocalBrokerError, match=f"by the ports from {port} on, not from {port + 6}"):
        LocalQuorum(tmp_path / "three", port=port + 6)


def test_every_node_knows_all_controllers_and_its_own_doors() -> None:
    """What Kafka is told of a quorum, and of a listener whose clients come through a proxy."""
    told = parse_properties(server_properties(Path("/d"), Seat(102, 2, VOTERS, (Door("N1", 300, 400),))))
    assert told["node.id"] == "2"
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:102,N1://127.0.0.1:300,CONTROLLER://127.0.0.1:103"
    assert told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:102,N1://127.0.0.1:400"
    assert told["controller.quorum.bootstrap.servers"] == "127.0.0.1:101,127.0.0.1:103,127.0.0.1:105"
    assert told["min.insync.replicas"] == "2"
    expected = "1@127.0.0.1:101:A,2@127.0.0.1:103:B,3@127.0.0.1:105:C"
    assert initial_controllers(Seat(102, 2, VOTERS)) == ("--initial-controllers", expected)
    assert initial_controllers(Seat(19092)) == ("--standalone",)
