"""A broker that goes away and comes back, with a fence of two seconds."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from tests.broker.conftest import Site, eventually

from topolog.events import kafka
from topolog.events.errors import Fenced, TopologError, Unreachable
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.metadata import ObjectType
from topolog.events.topics import PARTITIONS, PLANS, Topic, topic_name
from topolog.streams.local.broker import LocalBroker
from topolog.streams.node.client import Node


@pytest.fixture
def broker(tmp_path: Path, unused_port: Callable[[], int]) -> Iterator[LocalBroker]:
    """A broker of the test's own, to be killed."""
    broker = LocalBroker(tmp_path / "broker", port=unused_port())
    broker.start(ready=_usable)
    yield broker
    broker.stop()


def _usable(bootstrap: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()


def test_a_node_serves_until_its_lease_ends_then_refuses_and_recovers_by_itself(
    broker: LocalBroker, cluster: str
) -> None:
    """LE30: a Kafka outage longer than the fence stops all serving and removes nobody."""
    with closing(Site(broker.bootstrap, cluster)) as site:
        site.coordinator("c1")
        site.coordinator("c2")
        with site.node("n1") as node:
            node.propose(ObjectType("Customer", {"id": "long"}))
            pid = broker.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            node.lease.require()
            assert node.metadata("Customer") is not None
            eventually(lambda: not node.lease.is_valid, "the lease to end")
            with pytest.raises(Fenced):
                node.metadata("Customer")
            eventually(lambda: not broker.status().is_running, "the broker to be gone")
            broker.start(ready=_usable)
            eventually(lambda: node.lease.is_valid, "the lease to come back")
            assert node.propose(ObjectType("Customer", {"name": "String"})).accepted
            events = [each.event for each in site.told().decisions]
        assert sum(isinstance(event, NodeJoined) for event in events) == 1
        assert not any(isinstance(event, NodeLeft) for event in events)


def _restart(broker: LocalBroker) -> None:
    broker.stop()
    broker.start(ready=_usable)


HEARS_AGAIN_S = 10.0
"""How long after a restart a reader may be deaf; librdkafka keeps what it was told for a quarter of an hour."""


def test_who_asked_where_a_topic_ends_can_ask_again_after_the_broker_was_restarted(
    broker: LocalBroker, cluster: str
) -> None:
    """LE27: the epoch of each leader is another one; a client that keeps the old one is refused for ever."""
    settings, places = {"bootstrap.servers": broker.bootstrap}, range(PARTITIONS[Topic.HEARTBEATS])
    admin = KafkaAdmin(settings)
    admin.create_topics(cluster, PLANS)
    kafkas = [(topic_name(cluster, Topic.HEARTBEATS), number) for number in places]
    with closing(KafkaReader(settings, cluster)) as reader:
        reader.assign({(Topic.HEARTBEATS, number): None for number in places})

        def hears() -> bool:
            reader.poll(0.02)
            return reader.hears(Topic.HEARTBEATS)

        eventually(hears, "the end")
        assert admin.bounds(kafkas).keys() == {*kafkas}
        _restart(broker)
        eventually(hears, "the end again", HEARS_AGAIN_S)
        assert admin.bounds(kafkas).keys() == {*kafkas}
        assert admin.newest_ms(kafkas) == -1


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Kinds of clients whose first one finds no broker, now and ever, as librdkafka's issue 5301 leaves one."""
    kinds, connect = list[Any](), kafka.client

    def client(kind: Any, settings: Mapping[str, Any]) -> Any:
        if kind not in kinds:
            return connect(kind, settings)
        kinds.remove(kind)
        return connect(kind, {**settings, "bootstrap.servers": "127.0.0.1:1"})

    monkeypatch.setattr(kafka, "client", client)
    return kinds


def test_a_writer_that_finds_no_broker_where_others_do_is_connected_anew(
    site: Site, lost: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A member that delivers nothing is put out, and looks well. What is lost with the old client has failed."""
    lost[:] = [Producer, AdminClient]
    answers = list[TopologError | None]()
    with closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        writer.append(Topic.HEARTBEATS, "n1", b"first", (), lambda error, _: answers.append(error))

        def served() -> list[TopologError | None]:
            writer.serve()
            return answers

        (first,) = eventually(served, "the first record to have failed")
        assert isinstance(first, Unreachable)
        writer.append(Topic.HEARTBEATS, "n1", b"second", (), lambda error, _: answers.append(error))
        assert writer.flush(10) == 0
        assert answers[1:] == [None]
    assert [entry.value for entry in site.entries(Topic.HEARTBEATS)] == [b"second"]
    assert "this writer is connected anew, without 1 records" in caplog.text


def test_a_reader_that_finds_no_broker_where_others_do_is_connected_anew(
    site: Site, lost: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on where it was, and neither end nor record is missed."""
    with closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        for value in (b"read before", b"to be read"):
            writer.append(Topic.REQUESTS, "k", value)
        assert writer.flush(10) == 0
    lost[:] = [Consumer, AdminClient]
    with closing(KafkaReader(site.kafka, site.cluster)) as reader:
        reader.assign({(Topic.REQUESTS, 0): Offset(1), (Topic.MAPS, 0): None})
        found = eventually(lambda: reader.poll(0.05), "the record")
        assert [entry.value for entry in found] == [b"to be read"]
        eventually(lambda: reader.poll(0.05) or (reader.at_end(Topic.REQUESTS) and reader.hears(Topic.MAPS)), "the end")
    assert "This reader has not got for a while what is there: it is connected anew" in caplog.text


def test_who_is_silent_after_the_broker_was_restarted_is_missed_as_before(broker: LocalBroker, cluster: str) -> None:
    """LE24, K5: a member that hangs is put out, and a leader that hangs is followed by a stand-by."""
    with closing(Site(broker.bootstrap, cluster)) as site:
        leader = site.coordinator("c1", sentinel=False)
        site.leader()
        site.coordinator("c2", sentinel=False)
        site.member("n1")
        hanging = site.member("n2", sentinel=False)
        _restart(broker)
        hanging.send(signal.SIGSTOP)

        def out() -> list[NodeLeft]:
            events = [each.event for each in site.told().decisions]
            return [each for each in events if isinstance(each, NodeLeft)]

        assert [(each.node, each.reason) for each in eventually(out, "n2 to be out")] == [("n2", LeaveReason.FENCED)]
        leader.send(signal.SIGSTOP)
        eventually(lambda: site.leader() == "c2", "c2 to lead")


def test_a_node_without_a_broker_says_so_within_ten_seconds() -> None:
    """Bad input: one clear error that names the address."""
    node = Node("main", "n1", kafka={"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        node.__enter__()
