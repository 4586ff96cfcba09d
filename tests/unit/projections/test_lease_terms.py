"""Lease terms through the API: asked for, decided by the real rules, and read back while they change (LE37)."""

from collections.abc import Iterator

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.standing import Json, Stage, staged

from topolog.events.lease_terms import LeaseTermsConfirmed
from topolog.events.terms import cluster
from topolog.projections.projector import Projector


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    """Three servers, a fence of 20 s and a margin of 5 s."""
    with staged(chronicle, projector) as stage:
        stage.join("n1", "n2", "n3")
        yield stage


def terms(**ms: int) -> Json:
    return {"kind": "lease-terms", "reason": "a faster Kafka", **ms}


def confirm(stage: Stage) -> None:
    former = cluster(stage.chronicle.fold.state).former
    assert former is not None
    stage.chronicle.decide(LeaseTermsConfirmed(former.changed_at))
    stage.step()


def test_a_change_is_accepted_when_no_lease_by_the_former_terms_is_left(stage: Stage) -> None:
    """LE37: until then the longer wait stands, with how long that lasts at most, in figures and in the sentence."""
    outcome = stage.granted(terms(fence_ms=10_000, margin_ms=3_000))
    assert (outcome["subject"], outcome["accepted"]) == ("lease-terms", False)
    changing = stage.get("/cluster")
    assert (changing["fence_ms"], changing["margin_ms"], changing["proceed_ms"]) == (10_000, 3_000, 25_000)
    former = changing["former_terms"]
    assert (former["fence_ms"], former["proceed_ms"]) == (20_000, 25_000)
    assert 0 < former["left_ms"] <= 25_000
    assert changing["sentence"].startswith("Waiting: ")
    assert f"Lease terms changed at position {former['changed_at']}, to be confirmed" in changing["sentence"]
    assert "waits at most" in stage.get(f"/requests/{outcome['id']}/explain")["facts"]
    confirm(stage)
    settled = stage.get("/cluster")
    assert (settled["proceed_ms"], settled["former_terms"]) == (13_000, None)
    assert "waits at most" not in stage.get(f"/requests/{outcome['id']}/explain")["facts"]
    assert settled["sentence"].startswith("3 members")


def test_asked_for_again_it_is_accepted_when_it_is_confirmed(stage: Stage) -> None:
    """Who repeats what he asked for is not told that it holds before it does."""
    stage.granted(terms(fence_ms=10_000))
    again = stage.post(terms(fence_ms=10_000)).json()["item"]
    assert (again["status"], again["accepted"]) == ("UNCHANGED", False)
    confirm(stage)
    assert stage.post(terms(fence_ms=10_000)).json()["item"]["accepted"]


def test_explain_says_who_changed_the_terms_and_until_when_the_former_count(stage: Stage) -> None:
    assert not {"terms changed", "former terms"} & stage.get("/cluster/explain")["facts"].keys()
    stage.granted(terms(fence_ms=10_000))
    told = stage.get("/cluster/explain")
    facts = told["facts"]
    assert facts["lease"].startswith("a node stops 10000 ms after")
    assert facts["lease"].endswith("after 25000 ms")
    assert facts["terms changed"].startswith("at position")
    assert facts["terms changed"].endswith("by api: a faster Kafka")
    assert facts["former terms"].startswith("others wait 25000 ms by them, for ")
    (changed,) = (each for each in stage.get("/cluster/history") if each["event"] == "LeaseTermsChanged")
    assert changed["changes"]["fence_ms"] == [20_000, 10_000]
    before = stage.get("/cluster", as_of=changed["position"] - 1)
    assert (before["fence_ms"], before["former_terms"]) == (20_000, None)


def test_a_wait_is_told_by_the_terms_that_were_in_force_at_its_decision(stage: Stage) -> None:
    """LE37: what was asked before a raise does not wait for it."""
    asked = stage.granted({"kind": "remove", "resource": "node", "name": "n3"})
    stage.granted(terms(fence_ms=100_000))
    told = stage.get(f"/requests/{asked['id']}/explain")["facts"]["waits at most"]
    assert told.startswith("25000 ms after position")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            terms(fence_ms=10_000, margin_ms=3_000),
            "after 25000 ms, 13000 ms once it is confirmed, in some 25000 ms.",
        ),
        (terms(fence_ms=30_000), "after 35000 ms."),
    ],
)
def test_a_dry_run_says_how_long_others_would_wait(stage: Stage, asked: Json, said: str) -> None:
    sent = stage.requests_sent
    told = stage.imagined(asked)["sentence"]
    assert "It would be decided: LeaseTermsChanged." in told
    assert told.endswith(said)
    assert (stage.requests_sent, stage.get("/cluster")["fence_ms"]) == (sent, 20_000)


@pytest.mark.parametrize("asked", [terms(fence_ms=4_999), terms(margin_ms=999), terms(fence_ms=600_001)])
def test_terms_that_contradict_each_other_are_refused(stage: Stage, asked: Json) -> None:
    """LE36: by a dry run as by the request itself, with all three terms."""
    for answer in (stage.post(asked, dry_run="true"), stage.post(asked)):
        assert (answer.status_code, answer.json()["code"]) == (409, "BAD_TERMS"), answer.text
        assert set(answer.json()["facts"]) == {"fence_ms", "margin_ms", "heartbeat_ms"}


@pytest.mark.parametrize(
    ("asked", "parameter"),
    [(terms(fence_ms=0), "fence_ms"), (terms(margin_ms=2**60), "margin_ms"), (terms(heartbeat_ms=1), "body")],
)
def test_what_cannot_be_meant_is_refused_here_and_never_sent(stage: Stage, asked: Json, parameter: str) -> None:
    """K7: 400 with the member that is wrong."""
    sent = stage.requests_sent
    answer = stage.post(asked)
    assert answer.status_code == 400, answer.text
    assert [invalid["name"] for invalid in answer.json()["invalid_params"]] == [parameter]
    assert stage.requests_sent == sent


def test_the_page_tells_it_in_its_first_sentence(stage: Stage) -> None:
    stage.granted(terms(fence_ms=10_000))
    assert "Lease terms changed at position" in stage.page()
