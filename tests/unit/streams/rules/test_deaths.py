"""Death certificates in the rules of membership: who is out, whose join is refused, what they must not touch."""

import pytest
from tests.unit.streams.rules.cluster import ASKED_AT_MS, Cluster, heard, join_request, joiner, new_id, secret

from topolog.events import membership as m
from topolog.events import requests as q
from topolog.events.asked import RequestRef
from topolog.events.errors import Refused
from topolog.events.ids import Incarnation, NodeId
from topolog.events.leases import FENCING, LeaveReason
from topolog.events.proof import Life, seal_of
from topolog.streams.rules import membership, metadata

N1 = NodeId("n1")
FIRST, SECOND, THIRD = (Life(N1, Incarnation(number), seal_of(secret(number))) for number in (1, 2, 3))


def join(name: str, incarnation: int, *, fences: bool = True) -> m.JoinRequested:
    """A process without a folder of its own, hence one that must wait for its former life."""
    capabilities = (FENCING,) if fences else ()
    return join_request(joiner(name, incarnation, folder="", capabilities=capabilities))


def settle(cluster: Cluster, *dead: Life, hearing: membership.Hearing | None = None) -> list[object]:
    """All that follows from these deaths, decided and folded."""
    followed: list[object] = []
    while decided := membership.settle(
        cluster.state, hearing or {}, (), dead, end=cluster.position, joins=metadata.declare
    ):
        followed += decided
        cluster.log(*decided)
    return followed


def test_a_certified_member_leaves_without_waiting() -> None:
    """LE26: DIED, though its lease was renewed a moment ago and nothing has lapsed; the view is a new one."""
    cluster = Cluster("n1", "n2")
    cluster.renew(n1=4)
    renewed_at = cluster.position
    (left,) = settle(cluster, FIRST)
    assert isinstance(left, m.NodeLeft)
    assert (left.reason, left.last_sequence, left.renewed_at) == (LeaveReason.DIED, 4, renewed_at)
    assert left.topology_version.major == 3


def test_a_certificate_is_settled_once() -> None:
    """The same certificate, heard for ever, gives nothing the second time."""
    cluster = Cluster("n1")
    assert len(settle(cluster, FIRST)) == 1
    assert settle(cluster, FIRST) == []


def test_a_certificate_of_a_former_life_touches_nobody() -> None:
    """The incarnation is what died, not the node."""
    cluster = Cluster("n1")
    settle(cluster, FIRST)
    cluster.ask(join("n1", 2))
    assert settle(cluster, FIRST) == []
    assert cluster.node("n1").is_member


def test_a_certificate_of_the_node_of_another_name_touches_nobody() -> None:
    """Two nodes may have drawn one incarnation."""
    cluster = Cluster("n1", "n2")
    assert len(settle(cluster, FIRST)) == 1
    assert cluster.node("n2").is_member


def test_the_death_of_a_member_that_was_being_removed_completes_the_removal() -> None:
    """REMOVED: why it was stopped is why it left; the death only ends the wait."""
    cluster = Cluster("n1")
    cluster.ask(m.NodeRemovalRequested(new_id(), bytes(16), "ada", "", "n1"))
    (left,) = settle(cluster, FIRST)
    assert isinstance(left, m.NodeLeft)
    assert left.reason is LeaveReason.REMOVED


def test_a_node_that_never_fences_itself_is_out_when_it_is_dead() -> None:
    """LE18: silence never proves it gone; its death does."""
    cluster = Cluster()
    cluster.ask(join("n1", 1, fences=False))
    assert len(settle(cluster, FIRST)) == 1


def test_who_waits_for_a_dead_life_is_admitted_at_once() -> None:
    """A node restarted after kill -9, without a folder: the certificate stands in for the lease."""
    cluster = Cluster("n1")
    cluster.ask(join("n1", 2))
    left, joined = settle(cluster, FIRST)
    assert isinstance(left, m.NodeLeft)
    assert isinstance(joined, m.NodeJoined)
    assert joined.joiner.incarnation == 2


def test_a_dead_process_is_refused_when_its_join_comes_late() -> None:
    """No ghost member: the certificate was heard first, and the request is answered like any other (K7)."""
    cluster = Cluster("n2")
    request = join("n1", 2)
    ref = RequestRef(request.id.requester, request.id.sequence, bytes(8))
    with pytest.raises(Refused) as refused:
        membership.decide(
            cluster.state, request, ref, ASKED_AT_MS, {SECOND}, end=cluster.position, joins=metadata.declare
        )
    assert (refused.value.code, refused.value.facts) == ("PROCESS_DIED", {"incarnation": "2"})
    assert membership.decide(
        cluster.state, request, ref, ASKED_AT_MS, {FIRST, THIRD}, end=cluster.position, joins=metadata.declare
    )


def test_a_waiting_join_of_a_dead_process_is_withdrawn_with_an_outcome() -> None:
    """K4, K7: what removes the row gives its request an outcome; the member it waited for is not touched."""
    cluster = Cluster("n1")
    request = join("n1", 2)
    cluster.ask(request)
    withdrawn, refused = settle(cluster, SECOND)
    assert withdrawn == m.JoinWithdrawn(N1)
    assert isinstance(refused, q.RequestRefused)
    assert refused.code == "PROCESS_DIED"
    assert q.outcome_of(cluster.state, request.id) is not None
    assert cluster.node("n1").is_member


def test_when_both_have_died_nobody_is_left() -> None:
    """The former life leaves, the one that waited for it is withdrawn, whichever was certified first."""
    cluster = Cluster("n1")
    cluster.ask(join("n1", 2))
    kinds = [type(each) for each in settle(cluster, SECOND, FIRST)]
    assert sorted(kind.__name__ for kind in kinds) == ["JoinWithdrawn", "NodeLeft", "RequestRefused"]
    assert not cluster.node("n1").is_member


def test_a_death_comes_before_a_duplicate_id() -> None:
    """A process that waits is not refused for a former life that was renewed while it waited and has died since."""
    cluster = Cluster("n1")
    cluster.ask(join("n1", 2))
    waiting_at = cluster.position
    cluster.renew(n1=5)
    followed = settle(cluster, FIRST, hearing={N1: heard(6, applied=waiting_at)})
    assert [type(each) for each in followed] == [m.NodeLeft, m.NodeJoined]
