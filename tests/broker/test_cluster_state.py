"""What a real cluster still does when an operator has stopped it, and what a client still says when it is cut off."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.broker.conftest import FENCE_MS, Site, eventually
from tests.broker.schema_operator import Operator
from tests.unit.streams.rules.changing import TEXT, database, drop, grant, table

from topolog.events.baseline_requests import ClusterStateRequested
from topolog.events.cluster_state import ClusterState
from topolog.events.errors import Fenced, NotActive
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import NodeKind
from topolog.events.object_definition import ObjectKind, Privilege
from topolog.events.objects import ChangeStatus
from topolog.streams.local.broker import LocalBroker
from topolog.streams.node.client import Node
from topolog.streams.node.deletions import Deletion

ORDERS = "shop.orders"


def turn(operator: Operator, node: Node, state: ClusterState) -> None:
    """The cluster is in this state, as the node has applied it."""
    operator.send(ClusterStateRequested(*operator._head(), state))
    eventually(lambda: node.cluster_state().state is state and node.cluster_state().target is None, state.value)


def test_a_cluster_that_was_made_read_only_deletes_nothing_until_it_is_active_again(site: Site) -> None:
    """BA1: servers in processes of their own; a drop is refused, the deletion of an earlier one waits, a right is taken
    all the same."""
    site.coordinator("c1")
    site.member("n2")
    node, owed = site.node("n1"), list[Deletion]()
    node.on_deletion(owed.append)
    with Operator(site.kafka, site.cluster) as operator, node:
        operator.change(database(), table(note=TEXT), table("shop.gone"))
        operator.change(grant(f"ada@{ORDERS}"))
        dropped = operator.change(drop("shop.gone"))
        eventually(lambda: owed, "the deletion")
        turn(operator, node, ClusterState.ACTIVE_READ_ONLY)
        refused = operator.outcome(operator.ask(drop()))
        assert (refused.code, refused.facts["state"]) == ("NOT_ACTIVE", "ACTIVE_READ_ONLY")
        assert "`topolog cluster activate`" in refused.message
        with node.using(ORDERS):
            pass
        with pytest.raises(NotActive), node.writing(ORDERS):
            raise AssertionError("it was let in")
        with pytest.raises(NotActive), node.deleting():
            raise AssertionError("it was let in")
        assert node.ttl_ms(ORDERS) is None
        assert operator.change(drop(f"ada@{ORDERS}", ObjectKind.GRANT)).status is ChangeStatus.COMMITTED
        turn(operator, node, ClusterState.ACTIVE)
        with node.deleting():
            node.deleted(dropped.number)
        assert operator.change(drop()).status is ChangeStatus.COMMITTED


@pytest.fixture
def broker(tmp_path: Path, unused_port: Callable[[], int]) -> Iterator[LocalBroker]:
    """A broker of the test's own, to be killed."""
    broker = LocalBroker(tmp_path / "broker", port=unused_port())
    broker.start(ready=_usable)
    yield broker
    broker.stop()


def _usable(bootstrap: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()


def test_a_client_that_is_cut_off_from_kafka_honours_no_right_behind_the_fence(
    broker: LocalBroker, cluster: str
) -> None:
    """LE38: it says how old it is, takes an older answer only if it is told to, and recovers by itself."""
    with closing(Site(broker.bootstrap, cluster)) as site:
        site.coordinator("c1")
        site.member("n1")
        client = Node(cluster, "web", kafka=site.kafka, kind=NodeKind.CLIENT)
        with Operator(site.kafka, cluster) as operator, client:
            made = operator.change(database(), table(note=TEXT), grant(f"ada@{ORDERS}"))
            client.catch_up(made.number)
            eventually(lambda: _is_allowed(client), "the right")
            pid = broker.status().pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not client.lease.is_valid, "the fence")
            for look in (lambda: _is_allowed(client), lambda: client.table(ORDERS), client.types):
                with pytest.raises(Fenced, match="has not heard of the cluster"):
                    look()
            age_ms = client.table(ORDERS, max_age_s=60).age_ms
            assert age_ms is not None
            assert age_ms > FENCE_MS
            eventually(lambda: not broker.status().is_running, "the broker to be gone")
            broker.start(ready=_usable)
            eventually(lambda: client.lease.is_valid, "the client to hear of the cluster")
            assert _is_allowed(client)


def _is_allowed(client: Node) -> bool:
    return client.allows("ada", Privilege.READ, ORDERS)
