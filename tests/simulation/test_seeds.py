"""Many seeds: the same outcomes as one by one, in processes of their own, and the story of one that breaks a rule."""

import signal

import pytest

from topolog.events.errors import TopologError
from topolog.streams.simulation.seeds import _on_several, outcome_of, outcomes

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


def test_a_process_that_dies_is_said_and_not_waited_for() -> None:
    """As for want of memory: what came before its number has been given."""
    given = _on_several(signal.raise_signal, [0, 0, signal.SIGKILL, 0], 2)
    assert [next(given) for _ in range(2)] == [None, None]
    with pytest.raises(TopologError, match="number 9 has died"):
        next(given)
