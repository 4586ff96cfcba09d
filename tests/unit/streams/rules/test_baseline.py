"""Rules of the baseline: set, add, remove, by version; what is refused; how it follows the servers (BA10 to BA20)."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.cluster import join_request, joiner
from tests.unit.streams.rules.counted import (
    Counted,
    activation,
    add,
    adjust,
    change,
    deactivation,
    drain,
    hold,
    remove,
    set_,
    to_view,
)
from tests.unit.streams.rules.exchanging import CAPABILITIES

from topolog.events import baseline as b
from topolog.events.asked import Request
from topolog.events.baseline_requests import BaselineChangeRequested, BaselineVerb
from topolog.events.cluster_state import ClusterState
from topolog.events.errors import Refused
from topolog.events.fold import evolve
from topolog.events.ids import NodeId, Place, Term, TopologyVersion
from topolog.events.leases import NodeKind
from topolog.streams.coordinator.agenda import Agenda
from topolog.streams.coordinator.timers import Timers
from topolog.streams.rules.baseline import MEMBERS_BYTES_MAX, TIMEOUT_MS_MAX, deadlines, settle

THREE: tuple[str, ...] = ("n1", "n2", "n3")


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def counted(*servers: str, backups: int = 1) -> Counted:
    """An active cluster at rest with one persistent group."""
    found = Counted(*servers)
    found.create(backups=backups)
    found.rest()
    return found


def names_of(found: Counted) -> tuple[str, ...]:
    return found.baseline.nodes


# What is granted.


def test_a_set_makes_the_next_number_and_moves_what_was_to_the_history() -> None:
    """The seed: id + 1, a branching history that begins anew, and the former one kept."""
    found = Counted(*THREE)
    before = found.baseline
    found.join("n4")
    (changed,) = found.ask(set_("n4", *THREE))
    assert isinstance(changed, b.BaselineChanged)
    assert (changed.number, changed.cause, changed.online) == (1, b.Cause.REQUESTED, (*THREE, "n4"))
    assert names_of(found) == (*THREE, "n4")
    assert [point.online for point in found.baseline.history] == [(*THREE, "n4")]
    assert found.baseline.history[0].at.position == found.position
    former = found.state.get(b.FormerBaselineRow, "0")
    assert former is not None
    assert (former.nodes, former.history, former.replaced_at) == (THREE, before.history, found.position)


def test_a_set_is_a_view_and_asks_for_one_exchange() -> None:
    """EX21, EX22: it stands by itself, and merges with nothing."""
    found = counted(*THREE)
    before = found.view
    found.join("n4")
    found.rest()
    found.ask(add("n4"))
    assert found.view == TopologyVersion(before.major + 1, found.view.minor)
    assert kinds(found.settle()) == ["ExchangeStarted"]


def test_added_and_removed_are_those_that_are_named() -> None:
    found = Counted(*THREE)
    found.join("n4")
    found.ask(add("n4", "n1"))
    assert found.baseline.nodes == (*THREE, "n4")
    found.leave("n2", "n3")
    found.ask(remove("n2"))
    assert found.baseline.nodes == ("n1", "n3", "n4")


def test_members_that_are_away_stay_members_of_a_set() -> None:
    """BA12: an online server, or a member already; with the attributes it was taken in with (BA11)."""
    found = Counted(active=False)
    found.join("n1", zone="eu")
    found.join("n2", zone="us")
    found.ask(activation())
    found.settle()
    found.leave("n2")
    found.join("n3", zone="eu")
    (changed,) = found.ask(set_("n1", "n2", "n3"))
    assert isinstance(changed, b.BaselineChanged)
    assert [member.attributes["zone"] for member in changed.members] == ["eu", "us", "eu"]
    assert changed.online == ("n1", "n3")


def test_a_set_of_the_same_members_refreshes_their_attributes() -> None:
    """BA11: in Ignite it is no change, and stored attributes stay as they were."""
    found = Counted(active=False)
    found.join("n1", zone="eu")
    found.ask(activation())
    found.settle()
    found.leave("n1")
    found.join("n1", zone="us")
    assert kinds(found.ask(set_("n1"))) == ["BaselineChanged"]
    assert found.baseline.members == (b.BaselineMember(NodeId("n1"), {"zone": "us"}),)
    assert kinds(found.ask(set_("n1"))) == ["RequestUnchanged"]


def test_a_client_by_the_name_of_an_absent_member_lends_it_no_attributes() -> None:
    """Whoever uses the name meanwhile is another process, and holds nothing."""
    found = Counted(active=False)
    found.join("n1")
    found.join("n2", zone="eu")
    found.ask(activation())
    found.settle()
    found.leave("n2")
    client = joiner("n2", 9, kind=NodeKind.CLIENT, capabilities=CAPABILITIES, attributes={"zone": "us"})
    found.ask(join_request(client))
    assert kinds(found.decide(set_("n1", "n2"))) == ["RequestUnchanged"]


def test_a_baseline_can_be_that_of_a_former_view() -> None:
    """BA12: the servers of topology version v."""
    found = Counted(*THREE)
    of_three = found.view
    found.join("n4")
    found.ask(add("n4"))
    found.leave("n4")
    found.ask(to_view(of_three))
    assert found.baseline.nodes == THREE
    assert found.baseline.number == 2


def test_without_an_activation_a_set_makes_baseline_0() -> None:
    """Of all that are online: until then everybody counts, and nobody is dropped by not being named."""
    found = Counted(*THREE, active=False)
    found.create()
    found.rest()
    refused = found.refusal(set_("n1", "n2"))
    assert (refused.code, refused.facts) == ("NO_BASELINE", {"online": "n3"})
    found.ask(set_(*THREE))
    found.rest()
    assert found.baseline.number == 0
    assert found.holders() == set(THREE)


@pytest.mark.parametrize("request_", [set_(*THREE), add("n2"), to_view(TopologyVersion(3, 0))])
def test_what_holds_already_changes_nothing(request_: BaselineChangeRequested) -> None:
    found = Counted(*THREE)
    before = found.view
    assert kinds(found.ask(request_)) == ["RequestUnchanged"]
    assert found.view == before


def test_read_only_is_kept_over_a_set() -> None:
    """BA6: to add a node must not make the cluster writable."""
    found = Counted(*THREE)
    found.ask(activation(ClusterState.ACTIVE_READ_ONLY))
    found.settle()
    found.join("n4")
    found.ask(add("n4"))
    found.rest()
    assert found.state_row.allowed is ClusterState.ACTIVE_READ_ONLY


# What is refused.


def stopped() -> Counted:
    found = counted(*THREE)
    found.leave("n3")
    found.settle()
    return found


def with_a_last_copy_away() -> Counted:
    found = counted(*THREE, backups=0)
    found.leave("n3")
    found.settle()
    return found


def inactive() -> Counted:
    found = Counted(*THREE)
    found.ask(deactivation())
    found.settle()
    return found


def following() -> Counted:
    found = Counted(*THREE)
    found.ask(adjust())
    return found


Make = Callable[[], Counted]
REFUSED: Sequence[tuple[Make, Request, str, str, dict[str, str], str]] = [
    (lambda: Counted(*THREE), set_(), "NO_NODES", "BA12", {}, "get nodes"),
    (lambda: Counted(*THREE), add(), "NO_NODES", "BA12", {}, "get nodes"),
    (lambda: Counted(*THREE), remove(), "NO_NODES", "BA12", {}, "get nodes"),
    (lambda: Counted(*THREE), set_("n1", "n2", "n3", "n7"), "NODE_UNKNOWN", "BA12", {"unknown": "n7"}, "get nodes"),
    (lambda: Counted(*THREE), add("n7", "n6"), "NODE_UNKNOWN", "BA12", {"unknown": "n6, n7"}, "Start it first"),
    (lambda: Counted(*THREE), remove("n7"), "NOT_A_MEMBER", "BA12", {"strangers": "n7"}, "get baseline"),
    (lambda: Counted(*THREE), set_("n1"), "MEMBER_ONLINE", "BA13", {"online": "n2, n3"}, "baseline drain n2"),
    (lambda: Counted(*THREE), remove("n3"), "MEMBER_ONLINE", "BA13", {"online": "n3"}, "baseline drain n3"),
    (lambda: Counted(*THREE), remove(*THREE), "BASELINE_EMPTY", "BA12", {}, "baseline set"),
    (with_a_last_copy_away, remove("n3"), "LAST_COPY", "BA14", {"orders": "4"}, "Start n3 again"),
    (with_a_last_copy_away, set_("n1", "n2"), "LAST_COPY", "BA14", {"orders": "4"}, "--accept-loss"),
    (
        inactive,
        set_("n1"),
        "NOT_ACTIVE",
        "BA1",
        {"state": "INACTIVE", "operation": "COUNT"},
        "cluster activate",
    ),
    (following, set_("n1"), "AUTO_ADJUSTED", "BA19", {}, "auto-adjust --off"),
    (lambda: Counted(*THREE), to_view(TopologyVersion(99, 0)), "VIEW_UNKNOWN", "BA12", {"view": "99.0"}, "get views"),
    (lambda: Counted(*THREE), to_view(None), "VIEW_UNKNOWN", "BA12", {"view": "none"}, "get views"),
    (lambda: Counted(*THREE), to_view(TopologyVersion(0, 0)), "BASELINE_EMPTY", "BA12", {"view": "0.0"}, "get views"),
    (lambda: Counted(*THREE), change(BaselineVerb.UNKNOWN, "n1"), "BAD_REQUEST", "BA4", {}, "Upgrade"),
    (lambda: Counted("n1", active=False), add("n1"), "NO_BASELINE", "BA7", {}, "cluster activate"),
    (lambda: Counted("n1", active=False), remove("n1"), "NO_BASELINE", "BA7", {}, "topolog cluster activate"),
    (
        lambda: Counted(*THREE),
        adjust(soft_ms=0),
        "BAD_TIMEOUT",
        "BA18",
        {"soft_ms": "0", "hard_ms": "1800000"},
        "Name both",
    ),
    (
        lambda: Counted(*THREE),
        adjust(soft_ms=10, hard_ms=9),
        "BAD_TIMEOUT",
        "BA18",
        {"soft_ms": "10", "hard_ms": "9"},
        "Name both",
    ),
    (
        lambda: Counted(*THREE),
        adjust(hard_ms=TIMEOUT_MS_MAX + 1),
        "BAD_TIMEOUT",
        "BA18",
        {"soft_ms": "300000", "hard_ms": "604800001"},
        "Name both",
    ),
]


@pytest.mark.parametrize(
    ("make", "request_", "code", "rule", "facts", "hint"),
    REFUSED,
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_refused_says_by_which_rule_with_what_facts_and_what_would_be_right(
    make: Make, request_: Request, code: str, rule: str, facts: dict[str, str], hint: str
) -> None:
    refused = make().refusal(request_)
    assert (refused.code, refused.rule, refused.facts) == (code, rule, facts)
    assert hint in refused.hint


def test_a_former_view_whose_servers_are_gone_is_no_baseline() -> None:
    """BA12: a former member that can no longer be resolved is refused by name."""
    found = Counted(*THREE)
    of_three = found.view
    found.leave("n3")
    found.ask(remove("n3"))
    assert found.refusal(to_view(of_three)).facts == {"unknown": "n3"}


def test_a_member_that_is_being_stopped_may_be_dropped_once_it_has_left_and_not_before() -> None:
    """It may still hold a lease, and act."""
    found = Counted(*THREE)
    found.stop("n3")
    assert found.refusal(remove("n3")).code == "MEMBER_ONLINE"
    found.leave("n3")
    assert kinds(found.decide(remove("n3"))) == ["BaselineChanged"]


def test_a_last_copy_may_be_given_up_by_name() -> None:
    """BA14: what is lost then stays lost until it is reset, for its owner may still come back."""
    found = with_a_last_copy_away()
    lost = {partition for partition in range(16) if found.one(partition).is_lost}
    found.ask(remove("n3", accepts_loss=True))
    found.rest()
    assert found.baseline.nodes == ("n1", "n2")
    assert {partition for partition in range(16) if found.one(partition).is_lost} == lost
    found.reset("orders")
    found.rest()
    assert not any(found.one(partition).is_lost for partition in range(16))


def test_a_copy_on_a_member_that_is_away_is_a_copy() -> None:
    """n2 and n3 are away and hold what n1 has not; one of them may be dropped where the other has it too."""
    found = counted("n1", "n2", "n3", "n4", "n5", backups=2)
    found.leave("n2", "n3")
    found.settle()
    assert kinds(found.decide(remove("n2"))) == ["BaselineChanged"]


# It follows the servers.


def test_soft_starts_again_with_each_event_and_hard_does_not() -> None:
    """BA18: with a soft timeout alone, permanent flapping postpones for ever."""
    found = following()
    assert found.waits == []
    found.join("n4")
    first = found.position
    assert found.waits == [f"adjust/soft/{first}", f"adjust/hard/{first}"]
    found.leave("n4")
    assert found.waits == []
    found.join("n4")
    second = found.position
    found.join("n5")
    assert found.waits == [f"adjust/soft/{found.position}", f"adjust/hard/{second}"]


def test_the_hard_timeout_runs_from_the_first_event_and_the_soft_one_from_the_last() -> None:
    """BA18: a key that names the first event is not enough, for the wait itself could still begin anew with each."""
    found = following()
    found.join("n4")
    first = found.position
    found.join("n5")
    soft, hard = deadlines(found.auto_adjust)
    assert (soft.position, soft.after_ms) == (found.position, found.auto_adjust.soft_ms)
    assert (hard.position, hard.after_ms) == (first, found.auto_adjust.hard_ms)


@pytest.mark.parametrize("passing", [Counted.pass_soft, Counted.pass_hard])
def test_when_either_has_passed_the_baseline_is_that_of_the_servers(passing: Callable[[Counted], list[object]]) -> None:
    found = following()
    found.leave("n3")
    found.join("n4")
    (changed,) = passing(found)
    assert isinstance(changed, b.BaselineChanged)
    assert (changed.request, changed.cause) == (None, b.Cause.ADJUSTED)
    assert found.baseline.nodes == ("n1", "n2", "n4")
    assert found.waits == []


def test_a_client_is_no_reason_to_adjust() -> None:
    """BA18."""
    found = following()
    found.ask(join_request(joiner("c1", kind=NodeKind.CLIENT, capabilities=CAPABILITIES)))
    assert found.waits == []


def test_a_new_coordinator_waits_anew() -> None:
    """K14, BA18: waits are named by rows, and a leader begins all that the rows name."""
    found = following()
    found.join("n4")
    first, second = Agenda(), Agenda()
    for agenda in (first, second):
        agenda.begin(found.state)
        assert set(agenda.drain()) >= set(found.waits)
        assert not agenda.adjusting
        assert agenda.pass_deadline(found.waits[0])


def test_a_timeout_that_is_changed_or_switched_off_and_on_is_waited_for_anew() -> None:
    """A deadline may pass late without harm, never early."""
    found, agenda, timers = following(), Agenda(), Timers()
    found.join("n4")
    agenda.begin(found.state)
    for at_s, request in ((0, None), (200, adjust(enabled=False)), (250, adjust()), (300, adjust(soft_ms=900_000))):
        if request is not None:
            found.ask(request)
            agenda.revise(found.state, (b.AutoAdjustRow.KIND, ""))
        timers.change((key, each) for key, each in agenda.drain().items() if key.startswith("adjust/"))
        assert timers.pass_time(at_s * 10**9, found.position) == []
    assert timers.pass_time(1_199 * 10**9, found.position) == []
    assert timers.pass_time(1_200 * 10**9, found.position) == [found.waits[0]]


def test_switched_on_it_looks_at_who_is_outside_by_now() -> None:
    """BA18: also where nothing has happened for long."""
    found = Counted(*THREE)
    found.join("n4")
    assert found.waits == []
    found.ask(adjust())
    assert found.waits
    found.pass_soft()
    assert found.baseline.nodes == (*THREE, "n4")


def test_what_is_not_named_stays_as_it_is() -> None:
    found = Counted(*THREE)
    assert (found.auto_adjust.enabled, found.auto_adjust.soft_ms, found.auto_adjust.hard_ms) == (
        False,
        300_000,
        1_800_000,
    )
    found.ask(adjust(enabled=None, soft_ms=1_000))
    found.ask(adjust(hard_ms=2_000))
    assert (found.auto_adjust.enabled, found.auto_adjust.soft_ms, found.auto_adjust.hard_ms) == (True, 1_000, 2_000)
    for request in (adjust(), adjust(enabled=None), adjust(soft_ms=1_000, hard_ms=2_000)):
        assert kinds(found.decide(request)) == ["RequestUnchanged"]


def test_without_a_baseline_there_is_nothing_to_adjust() -> None:
    found = Counted(*THREE, active=False)
    found.ask(adjust())
    found.join("n4")
    assert found.waits == []
    found.ask(activation())
    found.settle()
    assert found.waits == []


def test_auto_adjust_keeps_read_only() -> None:
    """BA6: a past bug switched it to ACTIVE."""
    found = following()
    found.ask(activation(ClusterState.ACTIVE_READ_ONLY))
    found.settle()
    found.join("n4")
    assert kinds(found.pass_soft()) == ["BaselineChanged"]
    assert found.state_row.allowed is ClusterState.ACTIVE_READ_ONLY


# It does not, says why, and does once that is gone (BA20).


def by_hold() -> tuple[Counted, Request | None]:
    found = following()
    found.join("n4")
    found.ask(hold())
    return found, hold(off=True)


def by_inactivity() -> tuple[Counted, Request | None]:
    found = following()
    found.join("n4")
    found.leave("n3")
    found.ask(deactivation())
    found.ask(hold(off=True))
    found.settle()
    return found, activation()


def by_a_change_of_state() -> tuple[Counted, Request | None]:
    found = following()
    found.join("n4")
    found.silent = {"n1"}
    found.ask(activation(ClusterState.ACTIVE_READ_ONLY))
    return found, None


def by_cold() -> tuple[Counted, Request | None]:
    found = counted(*THREE)
    found.ask(adjust())
    found.leave("n2", "n3")
    found.settle()
    return found, None


def by_loss() -> tuple[Counted, Request | None]:
    found = counted(*THREE, backups=0)
    found.ask(adjust())
    found.leave("n3")
    found.settle()
    return found, None


SUPPRESSED: Sequence[tuple[Callable[[], tuple[Counted, Request | None]], str]] = [
    (by_hold, "an operator holds the cluster"),
    (by_inactivity, "INACTIVE"),
    (by_a_change_of_state, "on its way"),
    (by_cold, "cold"),
    (by_loss, "partitions of orders are lost"),
]


@pytest.mark.parametrize(("make", "reason"), SUPPRESSED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_keeps_it_from_following_is_said_once_and_nothing_moves(
    make: Callable[[], tuple[Counted, Request | None]], reason: str
) -> None:
    """BA20: a row that says why, instead of one warning in somebody's file."""
    found, _ = make()
    before = found.baseline
    (said,) = found.pass_soft()
    assert isinstance(said, b.AutoAdjustSuppressed)
    assert reason in said.reason
    assert found.auto_adjust.suppressed == said.reason
    assert found.pass_soft() == found.pass_hard() == []
    assert found.baseline == before


def test_once_the_reason_is_gone_it_is_tried_again_without_another_event() -> None:
    """BA20: in Ignite the task counts as done, and the node that came back stays outside."""
    for make, after in ((by_hold, (*THREE, "n4")), (by_inactivity, ("n1", "n2", "n4"))):
        found, request = make()
        found.pass_soft()
        assert request is not None
        found.ask(request)
        assert "BaselineChanged" in kinds(found.pass_soft())
        assert names_of(found) == after
        assert found.auto_adjust.suppressed == ""


def test_what_was_lost_and_is_back_or_given_up_keeps_nothing_from_following() -> None:
    """BA20: there it is one warning, and nothing is scheduled again."""
    for is_back in (True, False):
        found, _ = by_loss()
        found.join("n4")
        found.settle()
        assert "lost" in "".join(each.reason for each in found.pass_soft() if isinstance(each, b.AutoAdjustSuppressed))
        found.join("n3") if is_back else found.reset("orders")
        found.rest()
        found.pass_soft()
        assert names_of(found) == ((*THREE, "n4") if is_back else ("n1", "n2", "n4"))


def test_a_last_copy_is_never_dropped_by_itself() -> None:
    """BA20: the guard looks at what the log lists, also where no exchange has said yet that it is lost."""
    found = counted(*THREE, backups=0)
    found.ask(adjust())
    found.leave("n3")
    (said,) = settle(found.state, found.waits)
    assert isinstance(said, b.AutoAdjustSuppressed)
    assert said.reason == "nobody else has a whole copy of partitions of orders"


def test_without_a_server_it_stays_as_it_is() -> None:
    found = following()
    found.leave(*THREE)
    assert [each.reason for each in found.pass_soft() if isinstance(each, b.AutoAdjustSuppressed)] == [
        "no server is online"
    ]


def test_who_was_drained_out_of_it_is_not_taken_in_again() -> None:
    """BA21: an operator has said that it goes; if it joins anew, or that is taken back, it is one like the others."""
    found = counted(*THREE)
    found.ask(adjust())
    found.ask(drain("n3"))
    found.rest()
    assert names_of(found) == ("n1", "n2")
    assert found.waits == []
    found.ask(drain("n3", cancelled=True))
    assert found.waits
    found.pass_soft()
    assert found.baseline.nodes == THREE


def test_a_member_that_is_being_stopped_is_not_dropped_before_it_has_left() -> None:
    """It may still hold a lease, and act."""
    found = following()
    found.join("n4")
    found.stop("n3")
    found.pass_soft()
    assert found.baseline.nodes == (*THREE, "n4")


def test_an_outsider_that_is_being_stopped_is_not_taken_in() -> None:
    """Nor is a baseline of the same members made once more."""
    found = following()
    found.join("n4")
    found.stop("n4")
    assert found.pass_soft() == []


# What is kept.


def test_of_long_ago_only_the_last_baselines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection's history has them all."""
    monkeypatch.setattr(b, "FORMER_KEPT", 2)
    found = Counted(*THREE)
    for number in range(4):
        found.join(f"m{number}")
        found.ask(add(f"m{number}"))
    assert [row.number for _, row in found.state.rows(b.FormerBaselineRow)] == [2, 3]


def test_numbers_without_a_gap_or_a_poisoned_log() -> None:
    """K8: a decision that skips one is not folded by anybody."""
    found = Counted(*THREE)
    skipping = b.BaselineChanged(None, 2, (), (), b.Cause.REQUESTED, TopologyVersion(9, 0))
    with pytest.raises(AssertionError, match="without a gap"):
        evolve(found.state, skipping, Place(found.position, bytes(16), Term(1)))


names = st.sampled_from(("n1", "n2", "n3", "n4"))
requests = st.one_of(
    st.builds(set_, names, names),
    st.builds(add, names),
    st.builds(remove, names, accepts_loss=st.booleans()),
    st.sampled_from(("join", "leave", "soft", "hold", "unhold", "on", "off")).map(lambda act: act),
)


@given(st.lists(st.tuples(requests, names), max_size=25))
def test_whatever_is_asked_in_whatever_order(acts: list[tuple[Request | str, str]]) -> None:
    """Numbers rise by one; nobody that is online is dropped; a repeat of what was granted gives nothing; and once all
    is settled, the baseline that follows the servers is that of the servers."""
    found = counted("n1", "n2")
    for act, name in acts:
        before, here = found.baseline, set(b.online(found.state))
        try:
            perform(found, act, name)
        except Refused:
            continue
        after = found.baseline
        assert after.number - before.number in (0, 1)
        assert not (set(before.nodes) - set(after.nodes)) & here & set(b.online(found.state))
        if isinstance(act, Request):
            assert gives_nothing(found, act)
    assert all(not each.is_lost or each.acting is None for _, each in found.all())


def gives_nothing(found: Counted, act: Request) -> bool:
    """Also who is no member cannot be removed again."""
    try:
        return kinds(found.decide(act)) == ["RequestUnchanged"]
    except Refused as refusal:
        return refusal.code == "NOT_A_MEMBER"


def perform(found: Counted, act: Request | str, name: str) -> None:
    is_here = name in b.online(found.state)
    match act:
        case "join" if not is_here:
            found.join(name)
        case "leave" if is_here:
            found.leave(name)
        case "soft":
            found.pass_soft()
        case "hold" | "unhold":
            found.ask(hold(off=act == "unhold"))
        case "on" | "off":
            found.ask(adjust(enabled=act == "on"))
        case str():
            return
        case _:
            found.ask(act)
    found.rest()


def test_members_that_do_not_fit_a_record_are_refused_and_not_decided() -> None:
    """BA15: a leader that decides more than a record holds ends, and so does the next that reads the request."""
    found = Counted("n1", active=False)
    many = [f"m{number}" for number in range(MEMBERS_BYTES_MAX // 9_000)]
    found.join(*many, zone="y" * 9_000)
    found.ask(set_("n1", *many))
    found.join("one-more", zone="y" * 9_000)
    refused = found.refusal(add("one-more"))
    assert (refused.code, refused.rule) == ("TOO_LARGE", "BA15")
    assert "shorter attributes" in refused.hint
    found.ask(adjust())
    (said,) = found.pass_soft()
    assert isinstance(said, b.AutoAdjustSuppressed)
    assert "bytes" in said.reason
    assert set(found.baseline.nodes) == {"n1", *many}


def test_a_reason_names_no_more_groups_than_a_record_holds() -> None:
    found = Counted("n1", "n2")
    for number in range(12):
        found.create(f"g{number:02d}", partitions=4, backups=0)
    found.rest()
    found.leave("n2")
    refused = found.refusal(remove("n2"))
    assert refused.code == "LAST_COPY"
    assert str(refused).count(" of g") == 10
    assert "and 2 more" in str(refused)


def test_a_node_that_is_named_a_thousand_times_is_one() -> None:
    found = Counted(*THREE)
    found.leave("n3")
    found.exchange()
    found.ask(remove(*["n3"] * 1_000))
    assert found.baseline.nodes == ("n1", "n2")
