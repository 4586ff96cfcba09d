"""A broker that goes away and comes back, with a fence of two seconds."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.broker.conftest import Site, eventually

from topolog.events.errors import Fenced, Unreachable
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.metadata import ObjectType
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
    """DESIGN 4.1: a Kafka outage longer than the fence stops all serving and removes nobody."""
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


def test_a_node_without_a_broker_says_so_within_ten_seconds() -> None:
    """Bad input: one clear error that names the address."""
    node = Node("main", "n1", kafka={"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        node.__enter__()
