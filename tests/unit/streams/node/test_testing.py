"""The kit for services' unit tests: what it promises about time, leases, cuts and deaths, and that it is quick."""

import math
import threading
import time
from collections.abc import Iterator

import pytest

from topolog.events.errors import BadInput, Fenced, NotAllowed, OutcomeUnknown, Unreachable
from topolog.events.group_definition import GroupDefinition
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.metadata import MetadataUpdateAccepted
from topolog.events.object_types import ObjectType
from topolog.events.topics import Topic
from topolog.streams.clock import SystemClock
from topolog.streams.node.testing import LocalCluster

CUSTOMER = ObjectType("Customer", {"id": "long"})
NAMED = ObjectType("Customer", {"name": "String"})


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def test_nodes_of_one_cluster_agree(cluster: LocalCluster) -> None:
    """Everything but the broker and the clock is the real thing."""
    with cluster.node("n1") as one, cluster.node("n2") as two:
        assert one.propose(CUSTOMER).version == 1
        assert two.propose(NAMED).version == 2
        cluster.settle()
        assert one.fingerprint() == two.fingerprint()
        assert set(cluster.decisions(MetadataUpdateAccepted)[-1].evidence.applied) == {"n1", "n2"}


def test_a_lease_lasts_while_time_passes_and_ends_in_a_cut(cluster: LocalCluster) -> None:
    """A connected node renews however much time passes; one that is cut off is fenced after its fence, not before."""
    with cluster.node("n1") as node:
        cluster.advance(6)
        node.lease.require()
        with cluster.cut_off("n1"):
            cluster.advance(1.5)
            node.lease.require()
            cluster.advance(0.7)
            with pytest.raises(Fenced):
                node.lease.require()
        cluster.advance(0.2)
        node.lease.require()
        assert cluster.decisions(NodeLeft) == []


def test_a_node_that_is_cut_off_for_long_is_put_out_and_comes_back_as_another_incarnation(
    cluster: LocalCluster,
) -> None:
    """LE24: out after fence and margin; it returns only through the log."""
    with cluster.node("n1") as node:
        first = node.incarnation
        with cluster.cut_off("n1"):
            cluster.advance(4)
            assert [each.reason for each in cluster.decisions(NodeLeft)] == [LeaveReason.FENCED]
        cluster.advance(1)
        node.lease.require()
        assert node.incarnation != first


def test_expired_leases_come_back(cluster: LocalCluster) -> None:
    """As after an outage of the broker: everybody is fenced, nobody is removed."""
    with cluster.node("n1") as one, cluster.node("n2") as two:
        with cluster.leases_expired():
            for node in (one, two):
                with pytest.raises(Fenced):
                    node.lease.require()
        cluster.advance(0.4)
        one.lease.require()
        two.lease.require()
        assert cluster.decisions(NodeLeft) == []


@pytest.mark.parametrize(("certificate", "reason"), [(True, LeaveReason.DIED), (False, LeaveReason.FENCED)])
def test_a_killed_node_releases_nothing(cluster: LocalCluster, certificate: bool, reason: LeaveReason) -> None:
    """With its sentinel's word it is out at once, without it when its lease is over; the object is fenced at once."""
    with cluster.node("n1") as one, cluster.node("n2") as two:
        cluster.kill("n2", certificate=certificate)
        assert bool(cluster.decisions(NodeLeft)) is certificate
        with pytest.raises(Unreachable, match="was killed"):
            two.lease.require()
        assert two.failure is not None
        cluster.advance(4)
        assert [each.reason for each in cluster.decisions(NodeLeft)] == [reason]
        assert [each.node for each in one.members()] == ["n1"]


def test_without_a_coordinator_nothing_is_decided_until_there_is_another(cluster: LocalCluster) -> None:
    """A proposal that nobody decides is unknown, not lost; the next coordinator decides it."""
    with cluster.node("n1") as node:
        cluster.stop_coordinator()
        with pytest.raises(OutcomeUnknown) as unknown:
            node.propose(CUSTOMER, timeout_s=0.01)
        cluster.start_coordinator()
        assert node.outcome(unknown.value.request_id).version == 1


def test_a_fence_of_twenty_seconds_runs_out_in_a_moment(cluster: LocalCluster) -> None:
    """Time is moved, not waited for."""
    started_s = time.monotonic()
    with cluster.node("n1") as node, cluster.cut_off("n1"):
        cluster.advance(20)
        assert not node.lease.is_valid
    assert time.monotonic() - started_s < 20


def test_what_cannot_be_done_is_said(cluster: LocalCluster) -> None:
    """A misspelt name, a real clock, time that is none, what is no event."""
    with pytest.raises(BadInput, match="no live node 'n9'"):
        cluster.kill("n9")
    for seconds in (-1, math.nan, math.inf):
        with pytest.raises(BadInput, match="Time cannot pass"):
            cluster.advance(seconds)
    with pytest.raises(BadInput, match="no class of events"):
        cluster.decisions("NodeJoined")  # type: ignore[arg-type]
    with LocalCluster(clock=SystemClock()) as real, pytest.raises(BadInput, match="real clock"):
        real.advance(1)


def test_no_time_passes_while_somebody_has_still_to_do_what_is_due() -> None:
    """Also not from the first step on: what was asked before it is done by then."""
    with LocalCluster() as cluster, cluster.node("n1") as n1, cluster.node("n2") as n2:
        passed_ns: list[int] = []

        def dawdle(_: object) -> None:
            began_ns = cluster.clock.monotonic_ns()
            threading.Event().wait(0.05)
            passed_ns.append(cluster.clock.monotonic_ns() - began_ns)

        n2.on_map(dawdle)
        n1.create_group(GroupDefinition("orders", 8, 1))
        cluster.advance(0.2)
        assert passed_ns
        assert set(passed_ns) == {0}


def test_what_is_an_operator_s_is_denied_to_a_node_unless_the_cluster_was_made_with_it_as_one() -> None:
    """As on a broker with access lists: who has not given the service that right learns it in the unit test."""
    with LocalCluster(operators=("n1",)) as cluster, cluster.node("n1") as n1, cluster.node("n2") as n2:
        n2.create_group(GroupDefinition("orders", 4))
        with pytest.raises(NotAllowed, match="use topic operations"):
            n2.reset_group("orders")
        assert cluster.log.entries(Topic.OPERATIONS) == []
        n1.reset_group("orders")
        assert len(cluster.log.entries(Topic.OPERATIONS)) == 1


def test_who_waits_for_what_is_denied_is_told_though_the_log_stands_still(cluster: LocalCluster) -> None:
    """A denial is not in the log, so nothing is applied behind which a wait would be looked at."""
    with cluster.node("n1") as node:
        with cluster.cut_off("n1"):
            given_up = node._declaring.reset("orders", "")
        with pytest.raises(NotAllowed):
            given_up.result(5)
