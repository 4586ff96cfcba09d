"""What a leader asks of few, each time somebody is heard, is what it would find by asking all."""

from collections.abc import Collection, Iterable

import pytest

from topolog.events.ids import NodeId, Position
from topolog.events.leases import members
from topolog.events.state import State
from topolog.streams.rules import membership, metadata
from topolog.streams.rules.verdict import Reports, proceeds, verdict
from topolog.streams.simulation import Faults
from topolog.streams.simulation.run import simulate

SEEDS = range(40)
SPAN_MS = 5_000


def simulate_all() -> None:
    for seed in SEEDS:
        simulate(seed, SPAN_MS, Faults())


def test_nobody_but_who_is_in_the_news_needs_an_echo_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """LE5: over crashes, take-overs, stalls and zombies."""
    asked, urgent = membership.is_urgent, [0, 0]

    def of_all(
        state: State,
        hearing: membership.Hearing,
        news: Iterable[NodeId],
        waited_through: Position,
        lapsed: Collection[str],
    ) -> bool:
        found = asked(state, hearing, news, waited_through, lapsed)
        assert found == asked(state, hearing, [each.node for each in members(state)], waited_through, lapsed)
        urgent[found] += 1
        return found

    monkeypatch.setattr(membership, "is_urgent", of_all)
    simulate_all()
    assert min(urgent) > 100


def test_a_verdict_is_proceed_where_its_evidence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """LE16."""
    answers = [0, 0]

    def as_by_evidence(state: State, position: Position, reports: Reports, *, waited: bool) -> bool:
        found = proceeds(state, position, reports, waited=waited)
        assert found == verdict(state, position, reports, waited=waited).proceed
        answers[found] += 1
        return found

    monkeypatch.setattr(metadata, "proceeds", as_by_evidence)
    simulate_all()
    assert min(answers) > 100
