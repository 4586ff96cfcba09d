"""Rules of lease terms: what they may be, which of them are in force, and when a change is confirmed (LE36, LE37)."""

import pytest
from tests.unit.streams.rules.cluster import LOG_ID, Cluster, new_id

from topolog.events import requests as q
from topolog.events.asked import RequestRef
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed, LeaseTermsRequested
from topolog.events.terms import ClusterRow, FormerTerms, cluster
from topolog.streams.rules import lease_terms

REF = RequestRef("t", 1_000_000, bytes(8))


def asked(fence_ms: int | None = None, margin_ms: int | None = None) -> LeaseTermsRequested:
    return LeaseTermsRequested(new_id(), LOG_ID, "ada", "", fence_ms, margin_ms)


@pytest.fixture
def found() -> Cluster:
    """A fence of 2 s, a margin of 500 ms and a heartbeat every 200 ms."""
    return Cluster("n1")


def row(found: Cluster) -> ClusterRow:
    return cluster(found.state)


def confirm(found: Cluster) -> None:
    found.log(*lease_terms.settle(found.state, found.position))


def test_n26_what_is_not_given_stays_as_it_is(found: Cluster) -> None:
    """LE37: the fence, the margin, or both."""
    assert isinstance(found.ask(asked(fence_ms=1_000))[0], LeaseTermsChanged)
    assert (row(found).fence_ms, row(found).margin_ms) == (1_000, 500)
    found.ask(asked(margin_ms=600))
    assert (row(found).fence_ms, row(found).margin_ms) == (1_000, 600)
    found.ask(asked(3_000, 700))
    assert (row(found).fence_ms, row(found).margin_ms) == (3_000, 700)


@pytest.mark.parametrize("request_", [asked(), asked(2_000), asked(2_000, 500)], ids=str)
def test_what_holds_already_changes_nothing(found: Cluster, request_: LeaseTermsRequested) -> None:
    """K7: and a change that is not confirmed yet holds already."""
    assert isinstance(found.ask(request_)[0], q.RequestUnchanged)
    found.ask(asked(1_000))
    assert isinstance(found.ask(asked(1_000))[0], q.RequestUnchanged)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (asked(fence_ms=999), "The fence (999 ms) must be at least 5 × the heartbeat (200 ms)"),
        (asked(fence_ms=10_001), "The margin (500 ms) must be at least 5 % of the fence (10001 ms)"),
        (asked(margin_ms=99), "The margin (99 ms) must be at least 5 % of the fence (2000 ms)"),
        (asked(1_000, 49), "he margin (49 ms) must be at least 50 ms"),
        (asked(600_001, 60_000), "The fence (600001 ms) must be at most 600000 ms"),
        (asked(margin_ms=600_001), "The margin (600001 ms) must be at most 600000 ms"),
        (asked(fence_ms=0), "The fence (0 ms) must be at least"),
        (asked(fence_ms=-5_000, margin_ms=-5_000), "The fence (-5000 ms) must be at least"),
    ],
)
def test_b5_terms_that_contradict_each_other_are_refused(
    found: Cluster, request_: LeaseTermsRequested, why: str
) -> None:
    """LE36: some beats per fence, a margin that covers two clocks and a short pause; the facts say all three terms."""
    with pytest.raises(Refused) as refusal:
        found.decide(request_)
    assert why in refusal.value.message
    assert (refusal.value.code, refusal.value.rule) == ("BAD_TERMS", "LE36")
    assert set(refusal.value.facts) == {"fence_ms", "margin_ms", "heartbeat_ms"}
    assert refusal.value.facts["heartbeat_ms"] == "200"


@pytest.mark.parametrize("request_", [asked(fence_ms=1_000), asked(fence_ms=10_000), asked(margin_ms=100)])
def test_b5_the_bounds_themselves_are_granted(found: Cluster, request_: LeaseTermsRequested) -> None:
    """LE36: no rule says «more than» where another says «at least»."""
    assert isinstance(found.ask(request_)[0], LeaseTermsChanged)


def test_b8_a_lowered_fence_is_waited_for_as_long_as_the_former_one(found: Cluster) -> None:
    """LE37: renewals are by the new fence at once, waits by the longer one until confirmed."""
    found.ask(asked(1_000, 100))
    changed = found.position
    assert row(found).fence_ms == 1_000
    assert row(found).proceed_ms == 2_500
    assert lease_terms.settle(found.state, Position(changed - 1)) == []
    assert lease_terms.settle(found.state, changed) == [LeaseTermsConfirmed(changed)]
    confirm(found)
    assert row(found).proceed_ms == 1_100
    assert lease_terms.settle(found.state, found.position) == []


def test_b5_a_raised_fence_is_waited_for_at_once(found: Cluster) -> None:
    """LE37: a renewal behind the change may run that long; what must be heard in time goes by the shorter one."""
    found.ask(asked(4_000, 500))
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (4_500, 2_000)
    confirm(found)
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (4_500, 4_000)


def test_b8_lowered_then_raised_keeps_the_longest_and_the_shortest(found: Cluster) -> None:
    """LE37: what any change left behind counts until the last one is confirmed."""
    found.ask(asked(1_000))
    found.ask(asked(1_500))
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (2_500, 1_000)
    found.ask(asked(9_000))
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (9_500, 1_000)
    found.ask(asked(1_200))
    last = found.position
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (9_500, 1_000)
    confirm(found)
    assert row(found).former is None
    assert (row(found).proceed_ms, row(found).fence_min_ms) == (1_700, 1_200)
    assert last == found.position - 1


def test_b8_the_confirmation_is_that_of_the_last_change(found: Cluster) -> None:
    """A change that has been waited for while another one has come since is not confirmed by itself."""
    found.ask(asked(1_000))
    first = found.position
    found.ask(asked(2_000))
    assert row(found).former == FormerTerms(found.position, 1_000, 2_500)
    assert lease_terms.settle(found.state, first) == []


def test_a_change_that_is_taken_back_is_waited_for_like_any_other(found: Cluster) -> None:
    """Terms as they were, though leases by the ones in between run: those had been in force."""
    found.ask(asked(4_000))
    found.ask(asked(2_000))
    assert row(found).proceed_ms == 4_500
    confirm(found)
    assert row(found).proceed_ms == 2_500


def test_a_confirmation_of_another_change_is_no_decision(found: Cluster) -> None:
    """Who writes it has not folded the log: its readers stop (K8)."""
    with pytest.raises(AssertionError, match="nobody changed"):
        found.log(LeaseTermsConfirmed(found.position))
    found.ask(asked(1_000))
    with pytest.raises(AssertionError, match="another change"):
        found.log(LeaseTermsConfirmed(Position(found.position - 1)))
