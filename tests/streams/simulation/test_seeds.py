"""Many seeds: the same outcomes as one by one, in processes of their own, and the story of one that breaks a rule."""

import pytest

from topolog.streams.simulation.seeds import outcome_of, outcomes

SPAN_MS = 1_000


def test_the_outcomes_come_in_the_order_of_the_seeds_and_are_those_of_one_process() -> None:
    ended = list(outcomes(range(4, 9), SPAN_MS))
    assert ended == [outcome_of(seed, SPAN_MS) for seed in range(4, 9)]
    assert all(each.positions and not each.violation for each in ended)


def test_a_violation_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As text: an exception would lose half of itself between two processes."""
    monkeypatch.setattr("topolog.streams.rules.metadata.settle", lambda *_: [])
    outcome = outcome_of(7, SPAN_MS)
    assert outcome.seed == 7
    assert "seed 7, after" in outcome.violation
    assert " s  position " in outcome.violation
