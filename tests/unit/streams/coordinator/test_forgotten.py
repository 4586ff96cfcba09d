"""One request, one outcome, for ever: also of a requester that was idle for a day and is forgotten (K19)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.streams.coordinator.desk import LOG_ID, Desk

from topolog.events import forgotten
from topolog.events import requests as q
from topolog.events.asked import Request, RequestId
from topolog.events.fold import Fold
from topolog.events.forgotten import ForgottenRow
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupCreationRequested, GroupDropRequested, GroupRow
from topolog.events.log import Entry
from topolog.events.snapshot_content import Content, Cut, Loader
from topolog.streams.rules import requesters

DOCS = Path(__file__).parents[4] / "docs"


def created(requester: str, sequence: int, partitions: int) -> GroupCreationRequested:
    return GroupCreationRequested(
        RequestId(requester, sequence), LOG_ID, requester, "", GroupDefinition("nightly", partitions, 0)
    )


def dropped(requester: str, sequence: int) -> GroupDropRequested:
    return GroupDropRequested(RequestId(requester, sequence), LOG_ID, requester, "", "nightly")


def ask(desk: Desk, request: Request) -> Entry:
    entry = desk.ask(request)
    desk.land()
    return entry


def asked_again(desk: Desk, entry: Entry) -> list[object]:
    """What the same bytes lead to."""
    desk.core.decided.clear()
    desk.core.ask(entry)
    desk.land()
    return list(desk.core.decided)


def let_a_day_pass(desk: Desk, requester: str) -> None:
    """In which that requester asks for nothing."""
    row = desk.core.state.get(q.RequesterRow, requester)
    assert row is not None
    (deadline,) = requesters.deadlines(requester, row)
    desk.core.pass_deadline(deadline.key)
    desk.core.settle()
    desk.land()
    assert desk.core.state.get(q.RequesterRow, requester) is None


def taken_over(desk: Desk) -> Desk:
    """Another coordinator leads, from the log's first record on."""
    return led(Desk(desk.log, "c2", 2))


def restored(desk: Desk) -> Desk:
    """Another one leads, from a snapshot on."""
    content = Content(Cut(desk.core.ahead, desk.core.state.copies()))
    loader = Loader()
    for piece in content.pieces():
        loader.feed(piece)
    header, state = loader.finish(content.digest, content.state_hash)
    after = Desk(desk.log, "c2", 2)
    after.core.begin_from(Fold(state, header))
    return led(after)


def led(successor: Desk) -> Desk:
    successor.follow()
    successor.core.claim()
    successor.land()
    return successor


def unchanged(desk: Desk) -> Desk:
    return desk


@pytest.mark.parametrize("gone_on", [unchanged, taken_over, restored])
def test_k7_a_request_is_not_carried_out_again_once_its_requester_is_forgotten(
    gone_on: Callable[[Desk], Desk],
) -> None:
    """K7: a pipeline has made and dropped a group, and asks for nothing for a day; then somebody else makes one of that
    name, and the pipeline's old drop comes again. Whoever leads by then, it drops nothing."""
    desk = Desk.leading()
    ask(desk, created("ci/nightly", 1, 16))
    drop = ask(desk, dropped("ci/nightly", 2))
    let_a_day_pass(desk, "ci/nightly")
    desk = gone_on(desk)
    ask(desk, created("bob", 1, 8))
    assert asked_again(desk, drop) == []
    row = desk.core.state.get(GroupRow, "nightly")
    assert row is not None
    assert row.partitions == 8
    assert q.is_forgotten(desk.core.state, RequestId("ci/nightly", 2))


def test_k7_a_forgotten_requester_goes_on_above_its_highest_number() -> None:
    """K7: what it asked for before stays refused when it has a window again, whatever falls into that, and when it is
    forgotten for the second time."""
    desk = Desk.leading()
    entries = [ask(desk, created("ci", 1, 16)), ask(desk, dropped("ci", 3))]
    others = desk.ask(created("other", 1, 16))
    let_a_day_pass(desk, "ci")
    assert asked_again(desk, ask(desk, dropped("ci", 4))) == []
    assert q.outcome_of(desk.core.state, RequestId("ci", 4)) is not None, "it goes on"
    assert [asked_again(desk, entry) for entry in (*entries, others)] == [[], [], []]
    ask(desk, dropped("ci", 2))
    assert q.outcome_of(desk.core.state, RequestId("ci", 2)) is None, "nobody knows whether it had an outcome"
    assert desk.core.state.get(ForgottenRow, "ci") is None
    let_a_day_pass(desk, "ci")
    assert desk.core.state.count(ForgottenRow) == 1
    assert [asked_again(desk, entry) for entry in entries] == [[], []]
    assert asked_again(desk, desk.ask(created("ci", 4, 16))) == []
    ask(desk, created("ci", 5, 16))
    assert q.outcome_of(desk.core.state, RequestId("ci", 5)) is not None


def test_k7_a_request_of_a_requester_that_is_not_remembered_any_more_is_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bound that docs/api.md states: so many forgotten requesters are remembered, the oldest go first."""
    monkeypatch.setattr(forgotten, "REMEMBERED_MAX", 2)
    monkeypatch.setattr(forgotten, "REMEMBERED_LEAST", 2)
    desk = Desk.leading()
    for requester in ("a", "b", "c"):
        ask(desk, created(requester, 1, 16))
        drop = ask(desk, dropped(requester, 2))
        let_a_day_pass(desk, requester)
    assert asked_again(desk, drop) == []
    assert {key for key, _ in desk.core.state.rows(ForgottenRow)} == {"b", "c"}
    assert asked_again(desk, desk.ask(created("a", 1, 8))) == []
    assert q.outcome_of(desk.core.state, RequestId("a", 1)) is not None


@pytest.mark.parametrize("page", ["api.md", "dead-letters.md", "security.md"])
def test_the_bound_is_the_one_that_the_pages_state(page: str) -> None:
    """Who repeats a request after a long time must know up to when that is harmless."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert f"{forgotten.REMEMBERED_LEAST:,}" in text
    if page == "api.md":
        kept = f"{q.IDLE_REQUESTER_MS // 3_600_000} hours", f"last {q.OUTCOMES_KEPT} numbers"
        assert [each in text for each in (f"{forgotten.REMEMBERED_MAX:,}", *kept)] == [True] * 3
