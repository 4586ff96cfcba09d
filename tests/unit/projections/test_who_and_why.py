"""Who asked, who decided, and why are three things, in every view: a coordinator that decides has asked for nothing."""

from collections.abc import Iterator

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.standing import ACTIVATE, Stage, staged

from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.projections.cause_words import why
from topolog.projections.cli.columns import BY_RESOURCE
from topolog.projections.cli.resources import AUDIT
from topolog.projections.projector import Projector


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    with staged(chronicle, projector) as stage:
        stage.join("n1", "n2", "n3")
        yield stage


def test_the_first_baseline_tells_who_activated_the_cluster_and_why(stage: Stage) -> None:
    """`topolog cluster activate --reason` sets it, and its own decision names no request."""
    stage.granted(ACTIVATE)
    stage.finish()
    (baseline,) = stage.get("/baselines")
    assert (baseline["actor"], baseline["reason"]) == ("api", "the shop opens")
    (point,) = baseline["points"]
    assert (point["actor"], point["reason"]) == ("api", "the shop opens")
    assert "the shop opens" in stage.page("baselines")
    (set_,) = stage.get("/baselines/0/history")
    assert (set_["actor"], set_["reason"]) == ("api", "the shop opens")
    assert "the shop opens" in stage.get("/baselines/0/explain")["sentence"]


def test_a_decision_names_who_asked_and_who_decided(stage: Stage) -> None:
    """What a coordinator decides because of a heartbeat or a deadline nobody has asked for."""
    stage.granted(ACTIVATE)
    stage.leave("n3")
    left, *_, asked_for = stage.get("/decisions", event="NodeLeft") + stage.get(
        "/decisions", event="StateChangeStarted"
    )
    assert (left["actor"], left["decided_by"]) == ("", "c1")
    assert (asked_for["actor"], asked_for["decided_by"], asked_for["reason"]) == ("api", "c1", "the shop opens")
    one = stage.get(f"/decisions/{asked_for['position']}")
    assert (one["actor"], one["decided_by"]) == ("api", "c1")
    assert stage.get("/nodes/n3/history")[0]["actor"] == ""
    causes = stage.get(f"/decisions/{left['position']}/explain")["causes"]
    assert {each["actor"] for each in causes if each["event"] == "NodeLeft"} == {""}


def test_the_leader_of_then_has_decided(stage: Stage) -> None:
    """The one of that term, not the one that leads now."""
    stage.granted(ACTIVATE)
    stage.chronicle.lead("c2")
    stage.step()
    (decided,) = stage.get("/decisions", event="StateChangeStarted")
    assert decided["decided_by"] == "c1"


def test_who_waited_to_join_is_let_in_by_nobodys_word(stage: Stage) -> None:
    """The decision carries the request of the join, and was made because a lease was over."""
    waiting = stage.chronicle.wait_to_join("n1")
    stage.chronicle.leave("n1", LeaveReason.REPLACED)
    joined = stage.chronicle.join("n1", renewed=False, cause=f"end of the wait since position {waiting}", actor="c1")
    stage.step()
    found = stage.get(f"/decisions/{joined}")
    assert (found["event"], found["actor"], found["decided_by"]) == (NodeJoined.__name__, "", "c1")
    request = found["content"]["request"]
    assert stage.get(f"/requests/{request['requester']}/{request['sequence']}")["actor"] == "n1"


def test_the_console_shows_them_in_columns_of_their_own(stage: Stage) -> None:
    """A place in a topic is no reason; the words of who asked, or of what came, are."""
    stage.granted(ACTIVATE)
    stage.leave("n3")
    page = stage.page("decisions")
    for title in ("Asked by", "Decided by", "Why"):
        assert f">{title}<" in page
    assert "@0 n" not in page
    assert NodeLeft.__name__ in page


@pytest.mark.parametrize(
    ("cause", "reason", "words"),
    [
        ("requests@12 cli-1/3", "the shop opens", "the shop opens"),
        ("requests@12 cli-1/3", "", ""),
        ("heartbeats/0@1755 n1", "", "a heartbeat of n1"),
        ("its turn", "", "nothing that stands before it in line was left"),
        ("`topolog void` by ada", "nobody can read it", "nobody can read it"),
        ("claimed by c2", "", "no coordinator was heard, or the last one had stopped, and c2 claimed to lead"),
    ],
)
def test_why_is_what_was_said_or_else_what_came(cause: str, reason: str, words: str) -> None:
    assert why(cause, reason) == words


def test_a_dry_run_is_marked_in_the_table_of_the_audit() -> None:
    """DONE alone would read as a change that was made."""
    (result,) = (column for column in BY_RESOURCE[AUDIT] if column.title == "RESULT")
    assert not result.wide
    assert result.of({"result": "DONE", "dry_run": True}) == "DONE (dry run)"
    assert result.of({"result": "DONE", "dry_run": False}) == "DONE"
