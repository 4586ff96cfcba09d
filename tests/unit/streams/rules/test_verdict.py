"""The one verdict: LE15 to LE19.

That a deposed coordinator emits nothing (K6) is the core's, see `tests/unit/streams/coordinator/test_core.py`. A node
that is blocked and a deadline (TA19, TA20) turn a change into FAIL, which a stamped metadata proposal never becomes.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.cluster import Cluster, heard, join_request, joiner, node_removal

from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.leases import LeaveReason, NodeKind
from topolog.streams.rules import membership, metadata
from topolog.streams.rules.verdict import Reports, Verdict, holders, proceeds, verdict


def reports(life: int = 1, **applied: int) -> Reports:
    return {NodeId(node): (Incarnation(life), Position(position)) for node, position in applied.items()}


def judge(cluster: Cluster, position: Position, said: Reports, *, waited: bool = False) -> Verdict:
    """The verdict; whoever asks only whether it is PROCEED hears the same."""
    found = verdict(cluster.state, position, said, waited=waited)
    assert proceeds(cluster.state, position, said, waited=waited) == found.proceed
    return found


def test_v3_everybody_has_applied_it_so_it_proceeds_at_once() -> None:
    """LE16: each member's report is at or past the position; the evidence names them."""
    cluster = Cluster("n1", "n2")
    at = cluster.propose("T", "id")
    found = judge(cluster, at, reports(n1=at, n2=at + 5))
    assert found.proceed
    assert found.evidence.applied == ("n1", "n2")


def test_v3_nobody_is_concerned_so_it_proceeds() -> None:
    """LE16: an empty set of holders has nothing to wait for."""
    cluster = Cluster()
    assert judge(cluster, cluster.propose("T", "id"), {}).proceed


def test_v3_a_node_that_has_left_since_is_evidence() -> None:
    """LE16: its lease was over before NodeLeft, so it is no holder; the evidence says so."""
    cluster = Cluster("n1", "n2")
    at = cluster.propose("T", "id")
    cluster.settle_membership({NodeId("n2"): heard(1, release=True)})
    found = judge(cluster, at, reports(n1=at))
    assert found.proceed
    assert found.evidence.left == ("n2",)


def test_v3_a_node_that_had_left_before_is_nothing_at_all() -> None:
    """LE16: who was out when the decision was made had nothing to do with it."""
    cluster = Cluster("n1", "n2")
    cluster.settle_membership({NodeId("n2"): heard(1, release=True)})
    assert judge(cluster, cluster.propose("T", "id"), reports(n1=99)).evidence.left == ()


def test_v3_a_node_that_came_and_went_since_is_nothing_at_all() -> None:
    """LE16: it had no lease when the decision was made, so its leaving is evidence of nothing."""
    cluster = Cluster("n1")
    at = cluster.propose("T", "id")
    cluster.ask(join_request(joiner("n2")))
    cluster.settle_membership({NodeId("n2"): heard(1, release=True)})
    assert judge(cluster, at, reports(n1=at)).evidence.left == ()


def test_v3_a_report_of_a_former_incarnation_says_nothing() -> None:
    """LE16: only the present incarnation's report counts, whatever its life before had applied."""
    cluster, life = Cluster("n1"), 1 << 60
    cluster.ask(join_request(joiner("n1", life, replaces=1)))
    at = cluster.propose("T", "id")
    assert judge(cluster, at, reports(1, n1=at)).open == ("n1",)
    assert judge(cluster, at, reports(life + 1, n1=at)).open == ("n1",)
    assert judge(cluster, at, reports(int(str(life)), n1=at)).proceed


def test_v4_after_the_wait_the_silent_are_presumed_fenced() -> None:
    """LE17: proceed_ms since the read-back; the evidence names who was presumed, and who had applied."""
    cluster = Cluster("n1", "n2")
    at = cluster.propose("T", "id")
    found = judge(cluster, at, reports(n1=at, n2=at - 1), waited=True)
    assert found.proceed
    assert (found.evidence.applied, found.evidence.presumed_fenced) == (("n1",), ("n2",))


def test_v5_a_holder_that_cannot_fence_itself_is_never_presumed() -> None:
    """LE18: it stays open until it applies or is removed, however long that takes."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("old", capabilities=())))
    at = cluster.propose("T", "id")
    assert judge(cluster, at, reports(n1=at), waited=True).open == ("old",)
    assert judge(cluster, at, reports(n1=at, old=at)).proceed


def test_v5_an_operator_removes_the_holder_that_cannot_fence_itself() -> None:
    """LE18: the operator vouches for it; from its leaving on nobody waits for it."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("old", capabilities=())))
    at = cluster.propose("T", "id")
    lapse = cluster.lapse_of("old")
    assert cluster.settle_membership({}, {lapse}) == []
    cluster.ask(node_removal("old"))
    cluster.settle_membership({}, {lapse})
    assert cluster.node("old").left_reason is LeaveReason.REMOVED
    assert judge(cluster, at, reports(n1=at)).evidence.left == ("old",)


def test_v7_otherwise_it_waits_and_says_for_whom() -> None:
    """LE16: silence alone is never an answer."""
    cluster = Cluster("n1", "n2", "n3")
    at = cluster.propose("T", "id")
    found = judge(cluster, at, reports(n1=at, n2=at - 1))
    assert not found.proceed
    assert found.open == ("n2", "n3")


def test_a_node_that_joined_later_is_no_holder() -> None:
    """LE15: its first echo stands behind its NodeJoined, so it has applied the decision before it may answer."""
    cluster = Cluster("n1")
    at = cluster.propose("T", "id")
    cluster.ask(join_request(joiner("n2")))
    assert [row.node for row in holders(cluster.state, at)] == ["n1"]
    assert judge(cluster, at, reports(n1=at)).evidence.applied == ("n1",)


def test_a_client_is_no_holder() -> None:
    """Clients hold no lease and are not asked."""
    cluster = Cluster("n1")
    cluster.ask(join_request(joiner("web", kind=NodeKind.CLIENT)))
    at = cluster.propose("T", "id")
    assert judge(cluster, at, reports(n1=at)).proceed


def test_a_stopping_node_is_still_a_holder() -> None:
    """Being removed is not enough: until NodeLeft its lease may run (LE15)."""
    cluster = Cluster("n1", "n2")
    cluster.ask(node_removal("n2"))
    at = cluster.propose("T", "id")
    assert judge(cluster, at, reports(n1=at)).open == ("n2",)


NODES = ("n1", "n2", "n3")


@given(st.dictionaries(st.sampled_from(NODES), st.integers(0, 8)), st.booleans(), st.data())
def test_the_verdict_is_monotone(applied: dict[str, int], waited: bool, data: st.DataObject) -> None:
    """PROCEED never becomes WAIT again, and more reports, a longer wait or a leaving never delay it."""
    cluster = Cluster(*NODES)
    at = cluster.propose("T", "id")
    before = judge(cluster, at, reports(**applied), waited=waited)
    more = {node: applied.get(node, 0) + data.draw(st.integers(0, 8)) for node in NODES}
    leaving = data.draw(st.sets(st.sampled_from(NODES)))
    cluster.settle_membership({NodeId(node): heard(1, release=True) for node in leaving})
    after = judge(cluster, at, reports(**more), waited=waited or data.draw(st.booleans()))
    assert set(after.open) <= set(before.open)
    assert after.proceed or not before.proceed


@given(st.integers(1, 9), st.integers(1, 9))
def test_what_proceeds_at_a_position_proceeds_before_it(first: int, second: int) -> None:
    """Verdicts are monotone in the position, so one pass accepts all that is pending at or below it."""
    cluster = Cluster(*NODES)
    early, late = cluster.propose("T", "a"), cluster.propose("T", "b")
    said = reports(n1=first, n2=second, n3=9)
    assert judge(cluster, early, said).proceed or not judge(cluster, late, said).proceed


@pytest.mark.parametrize("waited", [True, False])
def test_the_verdict_is_a_function_of_what_it_is_given(waited: bool) -> None:
    """Pure: asked again it says the same, and the state is as it was."""
    cluster = Cluster(*NODES)
    at = cluster.propose("T", "id")
    before = cluster.state.hash()
    found = judge(cluster, at, reports(n1=at), waited=waited)
    assert found == judge(cluster, at, reports(n1=at), waited=waited)
    assert cluster.state.hash() == before
    assert msgspec.structs.asdict(found).keys() == {"evidence", "open"}
    assert membership.settle(cluster.state, {}, (), end=at, joins=metadata.declare) == []
