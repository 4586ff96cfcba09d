"""What a node tells Prometheus: its lease, how long it was fenced, how old what it knows may be, what it asked for."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from topolog.events.errors import MergeConflict
from topolog.events.ids import Incarnation
from topolog.events.leases import NodeKind
from topolog.events.object_types import ObjectType
from topolog.streams.node.client import Node
from topolog.streams.node.lease import Lease
from topolog.streams.node.measures import NodeMeasures
from topolog.streams.node.metrics import NodeMetrics
from topolog.streams.node.testing import LocalCluster

CUSTOMER = ObjectType("Customer", {"id": "long"})
CONTRADICTION = ObjectType("Customer", {"id": "String"})
NS_PER_S = 1_000_000_000


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def value(node: Node, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(NodeMetrics(node))
    return registry.get_sample_value(f"topolog_node_{name}", {"cluster": node.cluster, **labels})


def test_a_node_that_is_cut_off_says_how_long_it_was_fenced(cluster: LocalCluster) -> None:
    """Its lease runs out by itself, and what it knows grows old; when it is back, the counter stays."""
    with cluster.node("n1") as node:
        cluster.advance(1)
        assert value(node, "fenced") == value(node, "fenced_seconds_total") == 0
        left_s, lag_s = value(node, "lease_remaining_seconds"), value(node, "lag_seconds")
        assert left_s is not None
        assert 1 < left_s <= 2
        assert lag_s is not None
        assert lag_s <= 0.8
        with cluster.cut_off("n1"):
            cluster.advance(2.4)
            lag_s = value(node, "lag_seconds")
            assert value(node, "fenced") == 1
            assert value(node, "lease_remaining_seconds") == 0
            assert lag_s is not None
            assert lag_s > 2
        cluster.advance(0.4)
        fenced_s = value(node, "fenced_seconds_total")
        assert value(node, "fenced") == 0
        assert fenced_s is not None
        assert 0.1 < fenced_s < 1.2


def test_own_requests_count_by_outcome_and_are_timed(cluster: LocalCluster) -> None:
    """From sending to the outcome that is applied here; refusals by their code."""
    with cluster.node("n1") as node:
        node.propose(CUSTOMER)
        with pytest.raises(MergeConflict):
            node.propose(CONTRADICTION)
        assert value(node, "requests_total", outcome="granted") == 2, "with its join"
        assert value(node, "requests_total", outcome="refused") == 1
        assert value(node, "refusals_total", code="METADATA_CONFLICT") == 1
        assert value(node, "request_seconds_count") == 3
        assert value(node, "applied_position") == node.position


def test_a_client_has_no_lease_to_tell_of(cluster: LocalCluster) -> None:
    with cluster.node("c1", kind=NodeKind.CLIENT) as node:
        assert value(node, "member") == 1
        assert value(node, "fenced") is None


def test_nothing_is_told_of_a_node_that_was_not_entered() -> None:
    assert list(NodeMetrics(Node("demo", "n1", kafka={"bootstrap.servers": "broker:9092"})).collect()) == []


def test_being_fenced_counts_from_the_end_of_the_lease_and_not_from_the_look_that_noticed() -> None:
    """A thread that hung in a hook looks late: what lies between the end and the renewal counts, no more."""
    measures, lease = NodeMeasures(), Lease(Incarnation(1))
    measures.look(lease, 5 * NS_PER_S)
    assert measures.fenced_ns == 0, "it never held one"
    lease.sent(1, 10 * NS_PER_S)
    lease.echoed(1, 2_000, 10 * NS_PER_S)
    measures.look(lease, 11 * NS_PER_S)
    measures.look(lease, 15 * NS_PER_S)
    assert measures.fenced_ns == 3 * NS_PER_S
    lease.sent(2, 16 * NS_PER_S)
    lease.echoed(2, 2_000, 16 * NS_PER_S)
    measures.look(lease, 16 * NS_PER_S)
    assert measures.fenced_ns == 4 * NS_PER_S
    lease.sent(3, 17 * NS_PER_S)
    lease.echoed(3, 2_000, 17 * NS_PER_S)
    measures.look(lease, 17 * NS_PER_S)
    assert measures.fenced_ns == 4 * NS_PER_S, "renewed in time"
    lease.void()
    measures.look(lease, 18 * NS_PER_S)
    measures.look(lease, 20 * NS_PER_S)
    assert measures.fenced_ns == 6 * NS_PER_S
