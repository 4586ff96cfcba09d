"""`Decision`, the parent of what may stand in the log, and the closed unions over which the protocols match."""

from collections import Counter

from tests.unit.events.declared import declared

from topolog.events.codec import DECISIONS
from topolog.events.decision import Decision


def test_every_decision_is_in_the_union_of_exactly_one_protocol() -> None:
    """One that is in no union could not be read, and no protocol would fold it; one in two would be folded twice."""
    assert Counter(DECISIONS) == Counter(declared(Decision))
