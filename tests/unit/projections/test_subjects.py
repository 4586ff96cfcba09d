"""What a decision is about: there are words for each."""

import pytest
from tests.unit.events.examples import EXAMPLES

from topolog.events.decision import Decision
from topolog.projections.subjects import subject_of

DECISIONS = [each for each in EXAMPLES if isinstance(each, Decision)]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda each: type(each).__name__)
def test_every_decision_is_about_something(decision: Decision) -> None:
    """A new one that nobody has thought of here would stop every projector."""
    assert subject_of(decision)
