"""Rules of the cluster's state: activation, hold, READ_ONLY; cold after a power cut, and out of it (BA3 to BA17)."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.unit.streams.rules.cluster import LOG_ID, join_request, joiner
from tests.unit.streams.rules.counted import (
    Counted,
    activation,
    add,
    deactivation,
    hold,
    remove,
    set_,
    to_view,
    warm,
)
from tests.unit.streams.rules.exchanging import CAPABILITIES, passed

from topolog.events import baseline as b
from topolog.events import exchange as x
from topolog.events.cluster_state import ClusterState, lesser
from topolog.events.errors import Refused
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.leases import NodeKind
from topolog.events.views import Echo, Kinship, Past, newest_point

ACTIVE, READ_ONLY, INACTIVE = ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.INACTIVE
THREE: tuple[str, ...] = ("n1", "n2", "n3")


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def deactivated(*servers: str) -> Counted:
    """A cluster with one group that an operator has deactivated."""
    found = Counted(*servers)
    found.create()
    found.rest()
    found.ask(deactivation())
    found.settle()
    assert found.state_row.state is INACTIVE
    return found


def cold(backups: int = 1) -> Counted:
    """Three members of a baseline; n2 and n3 have gone together, with the last copies of something."""
    found = Counted(*THREE)
    found.create(backups=backups)
    found.rest()
    found.leave("n2", "n3")
    found.settle()
    return found


def test_a_hold_that_is_to_do_no_harm_lets_no_cluster_go_on_that_is_not_active() -> None:
    """Who asks had looked at the cluster while it was active, and has no right to end its stop."""
    off = msgspec.structs.replace(hold(off=True), harmless=True)
    found = Counted(*THREE)
    found.ask(activation())
    found.settle()
    found.ask(hold())
    assert kinds(found.decide(off)) == ["HoldChanged"]
    for _ in ("while it stops", "when it has stopped"):
        found.ask(deactivation()) if found.state_row.is_active else found.settle()
        with pytest.raises(Refused) as raised:
            found.decide(off)
        assert raised.value.code == "PLAN_IS_OLD"
    assert kinds(found.decide(hold(off=True))) == ["HoldChanged"]


# Changes of the state.


def test_without_a_baseline_the_cluster_is_active_and_every_server_counts() -> None:
    """BA7: as Ignite's cluster in memory."""
    found = Counted(*THREE, active=False)
    found.create()
    found.rest()
    assert found.state_row.allowed is ACTIVE
    assert b.baseline(found.state) is None
    assert found.holders() == set(THREE)


def test_the_first_activation_makes_baseline_0_of_all_servers_that_are_online() -> None:
    """BA7: not of clients; with their attributes."""
    found = Counted(active=False)
    found.join("n1", zone="eu")
    found.join("n2")
    found.ask(join_request(joiner("c1", kind=NodeKind.CLIENT, capabilities=CAPABILITIES)))
    assert kinds(found.ask(activation())) == ["BaselineChanged", "StateChangeStarted"]
    assert found.baseline.number == 0
    assert found.baseline.members == (
        b.BaselineMember(NodeId("n1"), {"zone": "eu"}),
        b.BaselineMember(NodeId("n2"), {}),
    )
    assert kinds(found.settle()) == ["StateChangeFinished"]
    assert found.state_row.state is ACTIVE


def test_without_a_server_nobody_could_count() -> None:
    refused = Counted(active=False).refusal(activation())
    assert (refused.code, refused.rule, refused.facts) == ("NO_SERVERS", "BA7", {})
    assert "start a node" in refused.hint.lower()


@pytest.mark.parametrize(
    ("before", "target", "meanwhile"),
    [
        (ACTIVE, INACTIVE, INACTIVE),
        (ACTIVE, READ_ONLY, READ_ONLY),
        (READ_ONLY, ACTIVE, READ_ONLY),
        (INACTIVE, ACTIVE, INACTIVE),
        (INACTIVE, READ_ONLY, INACTIVE),
    ],
)
def test_until_everybody_knows_the_lesser_of_both_states_is_served(
    before: ClusterState, target: ClusterState, meanwhile: ClusterState
) -> None:
    """BA1: whoever has not read of the change may still serve what was, and nobody serves more."""
    found = Counted(*THREE)
    if before is not ACTIVE:
        found.ask(activation(before))
        found.settle()
    found.silent = {"n2"}
    (started,) = found.ask(activation(target))
    assert isinstance(started, b.StateChangeStarted)
    assert found.settle() == []
    assert (found.state_row.state, found.state_row.target, found.state_row.allowed) == (before, target, meanwhile)
    found.silent = set()
    assert kinds(found.settle()) == ["StateChangeFinished"]
    assert (found.state_row.state, found.state_row.target) == (target, None)


def test_who_is_silent_is_waited_for_no_longer_than_its_lease() -> None:
    """BA3: the one verdict, whose evidence says who was presumed fenced."""
    found = Counted(*THREE)
    found.silent = {"n2"}
    found.ask(activation(READ_ONLY))
    found.waited_through = found.position
    (finished,) = found.settle()
    assert isinstance(finished, b.StateChangeFinished)
    assert finished.evidence.presumed_fenced == ("n2",)
    assert finished.started == found.position - 1


def test_each_step_of_a_change_is_a_view_of_its_own() -> None:
    """BA22: every change of view is a branching point, so a node notes it before it writes under it."""
    found = Counted(*THREE)
    before = found.view
    found.ask(activation(READ_ONLY))
    started = found.view
    found.settle()
    assert [each.minor - before.minor for each in (started, found.view)] == [1, 2]


def test_another_change_is_refused_while_one_runs_and_the_same_one_changes_nothing() -> None:
    """BA3: everything that would change who counts or what is served waits for its end."""
    found = Counted(*THREE)
    found.silent = {"n2"}
    found.ask(activation(READ_ONLY))
    started_at = found.position
    assert kinds(found.decide(activation(READ_ONLY))) == ["RequestUnchanged"]
    for request in (activation(), deactivation(), set_("n1"), add("n1"), remove("n1"), to_view(found.view)):
        refused = found.refusal(request)
        assert (refused.code, refused.rule) == ("STATE_CHANGING", "BA3")
        assert refused.facts == {"target": "ACTIVE_READ_ONLY", "started_at": str(started_at)}
        assert "again once it is done" in refused.hint


@pytest.mark.parametrize("target", [ACTIVE, READ_ONLY, INACTIVE])
def test_a_state_that_is_asked_for_twice_changes_nothing_the_second_time(target: ClusterState) -> None:
    found = Counted(*THREE)
    found.ask(activation(target))
    found.settle()
    before = found.view
    assert kinds(found.ask(activation(target))) == ["RequestUnchanged"]
    assert found.settle() == []
    assert found.view == before


def test_a_state_that_nobody_knows_is_refused() -> None:
    """A request of a newer build than the coordinator's."""
    refused = Counted(*THREE).refusal(activation(ClusterState.UNKNOWN))
    assert (refused.code, refused.rule) == ("BAD_REQUEST", "BA4")
    assert "upgrade" in refused.hint.lower()


def test_a_state_that_is_not_known_allows_nothing() -> None:
    """K8: a decision of a newer build must not make an older node serve."""
    assert lesser(ClusterState.UNKNOWN, ACTIVE) is ClusterState.UNKNOWN
    row = b.ClusterStateRow(ACTIVE, Position(0), ClusterState.UNKNOWN)
    assert not row.shares_out


def test_neither_deactivation_nor_read_only_changes_the_baseline() -> None:
    """BA6."""
    found = Counted(*THREE)
    before = found.baseline
    for target in (READ_ONLY, ACTIVE, INACTIVE):
        found.ask(activation(target))
        found.settle()
    assert found.baseline == before


def test_an_activation_is_a_branching_point_with_those_that_are_online() -> None:
    """The seed: the history of a baseline says each time with whom it went on; its number stays."""
    found = deactivated(*THREE)
    found.leave("n2")
    found.join("n4")
    found.ask(activation())
    started_at = found.position
    found.settle()
    assert [point.online for point in found.baseline.history] == [THREE, ("n1", "n3")]
    assert found.baseline.history[-1].at.position == started_at
    assert found.baseline.number == 0


# Hold (BA9).


def test_a_deactivation_is_not_undone_by_restarts() -> None:
    """BA9: in Ignite the cluster activates itself when its last member is back."""
    found = deactivated(*THREE)
    found.leave(*THREE)
    found.join(*THREE)
    assert found.settle() == []
    assert found.state_row.state is INACTIVE
    assert found.state_row.held


def test_once_it_is_let_go_a_cluster_activates_when_all_members_are_online() -> None:
    """BA8: an outsider does not count, and nothing happens before the last member is there."""
    found = deactivated(*THREE)
    found.leave("n3")
    found.ask(hold(off=True))
    assert found.settle() == []
    found.join("n4")
    assert found.settle() == []
    found.join("n3")
    started, *_ = found.settle()
    assert isinstance(started, b.StateChangeStarted)
    assert (started.request, started.cause, started.target) == (None, b.Cause.COMPLETE, ACTIVE)
    assert found.state_row.state is ACTIVE
    assert not found.state_row.held


def test_who_activates_lets_go() -> None:
    found = deactivated(*THREE)
    found.ask(activation(READ_ONLY))
    found.settle()
    assert not found.state_row.held


def test_a_hold_stays_while_an_active_cluster_is_made_read_only_and_back() -> None:
    """BA9: that is what a maintenance window looks like; only an activation out of INACTIVE lets go."""
    found = Counted(*THREE)
    found.ask(hold())
    for target in (READ_ONLY, ACTIVE):
        found.ask(activation(target))
        found.settle()
        assert found.state_row.held


def test_who_deactivates_what_is_inactive_holds_it() -> None:
    """BA9: it would activate itself otherwise, as soon as all are back."""
    found = deactivated(*THREE)
    found.leave("n3")
    found.ask(hold(off=True))
    assert kinds(found.ask(deactivation())) == ["HoldChanged"]
    found.join("n3")
    assert found.settle() == []
    assert kinds(found.ask(deactivation())) == ["RequestUnchanged"]


@pytest.mark.parametrize("off", [False, True])
def test_a_hold_that_is_asked_for_twice_changes_nothing_the_second_time(off: bool) -> None:
    found = Counted(*THREE)
    found.ask(hold())
    if off:
        assert kinds(found.ask(hold(off=True))) == ["HoldChanged"]
    assert found.state_row.held is not off
    assert kinds(found.ask(hold(off=off))) == ["RequestUnchanged"]


def test_read_only_survives_a_restart_of_all() -> None:
    """BA6: Ignite forgets it."""
    found = Counted(*THREE)
    found.ask(activation(READ_ONLY))
    found.settle()
    found.leave(*THREE)
    found.settle()
    found.join(*THREE)
    found.rest()
    assert found.state_row.state is READ_ONLY
    assert found.state_row.allowed is READ_ONLY


@pytest.mark.parametrize("is_away", [False, True])
def test_what_was_read_only_before_it_was_deactivated_is_so_again_by_itself(is_away: bool) -> None:
    """BA6: only somebody who asks for it lets anybody write again."""
    found = Counted(*THREE)
    for target in (READ_ONLY, INACTIVE):
        found.ask(activation(target))
        found.settle()
    if is_away:
        found.leave(*THREE)
        found.settle()
    found.ask(hold(off=True))
    if is_away:
        found.join(*THREE)
    found.settle()
    assert (found.state_row.state, found.state_row.target) == (READ_ONLY, None)


def test_who_activates_what_was_read_only_makes_it_active_and_that_is_what_comes_back() -> None:
    """His word is the newer one; a change that goes another way forgets what was before that."""
    found = Counted(*THREE)
    for target in (READ_ONLY, INACTIVE, ACTIVE, INACTIVE):
        found.ask(activation(target))
        found.settle()
    found.ask(hold(off=True))
    found.settle()
    assert found.state_row.state is ACTIVE


def test_what_is_made_read_only_out_of_inactive_comes_back_so() -> None:
    found = Counted(*THREE)
    for target in (INACTIVE, READ_ONLY, INACTIVE):
        found.ask(activation(target))
        found.settle()
    found.ask(hold(off=True))
    found.settle()
    assert found.state_row.state is READ_ONLY


# While nothing is served, nothing is given up.


def test_an_inactive_cluster_ends_no_exchange_and_takes_up_nothing() -> None:
    """Nothing is given up while nothing is served; merges go on, so the log stays short."""
    found = deactivated(*THREE)
    found.leave("n2", "n3")
    left = found.placed()
    assert any(found.acting(partition) is None for partition in range(16))
    assert found.settle() == []
    found.join("n2", "n3")
    assert found.settle() == []
    assert found.placed() == left
    found.ask(activation())
    found.rest()
    assert x.queued(found.state) == ()
    assert {state for copies in found.placed().values() for _, state in copies} == {"OWNING"}
    assert all(found.acting(partition) for partition in range(16))


def test_an_exchange_that_is_open_while_the_cluster_is_deactivated_waits_and_takes_in_who_comes() -> None:
    """EX22: whoever joins is asked by the one that is open; it ends when the cluster is active again."""
    found = Counted(*THREE)
    found.create()
    found.rest()
    found.leave("n3")
    found.settle()
    found.join("n3")
    found.settle()
    assert x.open_exchange(found.state)
    found.ask(deactivation())
    found.settle()
    found.join("n4")
    assert kinds(found.settle()) == ["ExchangeMerged"]
    found.answer(*THREE, "n4")
    assert found.settle() == []
    found.ask(activation())
    assert kinds(found.settle())[-1] == "ExchangeCompleted"


def test_nobody_is_stopped_for_its_silence_while_the_cluster_is_inactive() -> None:
    """No exchange ends or begins, whoever was not heard by the last one."""
    found = Counted(*THREE)
    found.create()
    found.rest()
    found.leave("n3")
    found.settle()
    passed(found, "gather")
    found.settle()
    found.ask(deactivation())
    found.settle()
    passed(found, "evict")
    assert found.settle() == []


def test_joins_and_leaves_that_pile_up_for_days_still_fit_a_record() -> None:
    """K23: a node that starts and dies every five seconds beside an INACTIVE cluster."""
    found = deactivated(*THREE)
    name = "\U0001f600" * 200
    for _ in range(600):
        found.join(name)
        found.leave(name)
    assert found.settle() == []
    found.ask(activation())
    found.rest()
    assert x.queued(found.state) == ()


# Cold.


def test_after_a_power_cut_nothing_is_lost_and_no_exchange_ends() -> None:
    """BA16: two of three are gone with the last copies of something; the log says whom it waits for."""
    found = cold()
    assert found.state_row.cold_at is not None
    assert not any(each.is_lost for _, each in found.all())
    assert x.open_exchange(found.state) is None
    found.join("n4")
    assert found.settle() == []


def test_a_cold_cluster_says_whom_it_waits_for() -> None:
    found = Counted(*THREE)
    found.create()
    found.rest()
    found.leave("n2", "n3")
    (said,) = found.settle()
    assert said == b.ClusterCold((NodeId("n2"), NodeId("n3")), 2)


def test_what_still_has_an_owner_goes_on_being_served() -> None:
    """Nobody acts only where those acted that are gone."""
    found = cold()
    assert {found.acting(partition) for partition in range(16)} == {"n1", None}


def test_a_power_cut_gives_up_nothing_while_the_state_is_being_changed() -> None:
    """The change may wait for somebody who is silent; exchanges go on meanwhile, and must not end (found by seed)."""
    found = Counted(*THREE)
    found.create(backups=0)
    found.rest()
    found.silent = {"n1"}
    found.ask(activation(READ_ONLY))
    found.leave("n2", "n3")
    assert kinds(found.settle()) == ["ClusterCold"]
    assert found.state_row.target is READ_ONLY
    assert not any(each.is_lost for _, each in found.all())


def test_with_a_quorum_it_goes_on_by_itself() -> None:
    """More than half are back: what the third alone owned is lost until it comes, and says so (DS2)."""
    found = cold(backups=0)
    found.join("n2")
    warmed, *_ = found.settle()
    assert isinstance(warmed, b.ClusterWarmed)
    assert (warmed.request, warmed.cause, warmed.online) == (None, b.Cause.QUORUM, ("n1", "n2"))
    found.exchange()
    assert found.state_row.cold_at is None
    lost = {partition for partition in range(16) if found.one(partition).is_lost}
    assert lost
    assert all(found.states(partition) == {"n3": "OWNING"} for partition in lost)


def test_what_a_life_came_without_its_next_life_has_not_either() -> None:
    """While the cluster is cold no exchange hears it; its disk is that of its last life then, and as old as before."""
    found = Counted(*THREE)
    found.create(backups=0)
    found.rest()
    found.renew(n1=1)
    found.leave(*THREE)
    found.settle()
    assert found.state_row.cold_at is not None
    found.join("n1")
    assert found.node("n1").kinship is Kinship.WIPED
    found.leave("n1")
    found.join("n1", past=own_past(found, "n1", 2))
    assert found.node("n1").kinship is Kinship.RESTORED
    found.join("n2", "n3")
    found.rest()
    found.leave("n1")
    found.join("n1", past=own_past(found, "n1", 3))
    assert found.node("n1").kinship is Kinship.EQUAL


def own_past(found: Counted, node: str, incarnation: int) -> Past:
    """What a disk says to which this life was the last one."""
    at = newest_point(found.state)
    assert at is not None
    return Past(LOG_ID, NodeId(node), (at,), Echo(Incarnation(incarnation), 0, at), 64)


def test_an_owner_that_returned_with_an_empty_disk_gives_up_nothing_of_those_that_are_away() -> None:
    """It acted, so the log lists it until an exchange has heard it, and nothing seems torn before (found by seed)."""
    found = Counted(*THREE)
    found.create(partitions=1, backups=2)
    found.rest()
    primary = found.acting()
    assert primary is not None
    others = [node for node in THREE if node != primary]
    found.leave(primary)
    found.disks[primary].clear()
    found.join(primary)
    found.leave(*others)
    assert "ClusterCold" not in kinds(found.settle())
    found.answer(primary)
    assert kinds(found.settle()) == ["ClusterCold"]
    assert not found.one().is_lost
    found.ask(warm())
    found.rest()
    assert found.one().is_lost


def test_an_outsider_is_no_part_of_a_quorum() -> None:
    """It holds nothing that anybody waits for."""
    found = cold()
    found.join("n4", "n5", "n6")
    assert found.settle() == []
    assert found.state_row.cold_at is not None


def test_on_request_it_goes_on_with_those_that_are_here() -> None:
    """BA17: an explicit command, which the log remembers as a branching point."""
    found = cold(backups=0)
    (warmed,) = found.ask(warm())
    assert isinstance(warmed, b.ClusterWarmed)
    assert warmed.cause is b.Cause.REQUESTED
    assert [point.online for point in found.baseline.history] == [THREE, ("n1",)]
    found.exchange()
    assert any(found.one(partition).is_lost for partition in range(16))
    assert kinds(found.ask(warm())) == ["RequestUnchanged"]


def test_who_has_been_told_to_go_on_goes_on_until_a_quorum_was_back() -> None:
    """It would be cold again at once otherwise; the next power cut is another one."""
    found = cold(backups=0)
    found.ask(warm())
    found.exchange()
    found.join("n4")
    found.rest()
    found.leave("n4")
    found.settle()
    assert (found.state_row.goes_on, found.state_row.cold_at) == (True, None)
    found.join("n2")
    found.rest()
    assert (found.state_row.goes_on, found.state_row.cold_at) == (False, None)
    found.leave("n2")
    assert kinds(found.settle())[0] == "ClusterCold"


def test_the_loss_of_a_minority_is_a_loss() -> None:
    """DS2, BA16: nothing is cold while a quorum is here; the partitions say that they are lost."""
    found = Counted("n1", "n2", "n3", "n4", "n5")
    found.create(backups=0)
    found.rest()
    found.leave("n5")
    found.settle()
    assert found.state_row.cold_at is None
    assert any(found.one(partition).is_lost for partition in range(16))


def test_without_a_quorum_a_cluster_that_still_owns_everything_goes_on() -> None:
    """They left one after the other, and n1 has a copy of each."""
    found = Counted(*THREE)
    found.create(backups=2)
    found.rest()
    found.leave("n2", "n3")
    found.exchange()
    assert found.state_row.cold_at is None
    assert {found.acting(partition) for partition in range(16)} == {"n1"}


def test_a_group_in_memory_makes_nothing_cold() -> None:
    """What it has lost does not come back, however many do."""
    found = Counted(*THREE)
    found.create(backups=0, persistent=False)
    found.rest()
    found.leave("n2", "n3")
    found.settle()
    assert found.state_row.cold_at is None


def test_a_power_cut_of_all_and_their_return() -> None:
    """All five go at once and come back in any order: everything is owned as it was, and nothing has moved."""
    five = ("n1", "n2", "n3", "n4", "n5")
    found = Counted(*five)
    found.create(partitions=32)
    found.rest()
    before = {partition: set(copies) for partition, copies in found.placed().items()}
    found.leave(*five)
    found.settle()
    found.join("n4", "n2")
    assert found.settle() == []
    found.join("n5")
    assert kinds(found.settle())[0] == "ClusterWarmed"
    found.join("n1", "n3")
    found.rest()
    assert {partition: set(copies) for partition, copies in found.placed().items()} == before


def test_a_cold_cluster_can_be_deactivated_and_warms_before_it_activates() -> None:
    """Each is a row of its own."""
    found = cold()
    found.ask(deactivation())
    found.settle()
    found.join("n2", "n3")
    assert kinds(found.settle()) == ["ClusterWarmed"]
    assert found.state_row.state is INACTIVE


def test_fewer_members_need_a_smaller_quorum() -> None:
    """A cluster whose lost members will never come back is told so by name, and goes on."""
    found = cold(backups=0)
    assert found.refusal(remove("n2", "n3")).code == "LAST_COPY"
    found.ask(remove("n2", "n3", accepts_loss=True))
    assert kinds(found.settle())[0] == "ClusterWarmed"


def test_a_warm_cluster_is_not_warmed() -> None:
    assert kinds(Counted(*THREE).decide(warm())) == ["RequestUnchanged"]


def test_who_is_told_to_go_on_when_a_quorum_is_back_already_goes_cold_again() -> None:
    """The request was read with the join that makes the quorum, before anything could follow from that."""
    found = cold()
    found.join("n2")
    found.ask(warm())
    assert not found.state_row.goes_on
    found.exchange()
    found.leave("n2")
    assert kinds(found.settle())[:1] == ["ClusterCold"]
