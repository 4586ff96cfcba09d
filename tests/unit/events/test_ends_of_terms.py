"""What ends a term is told by a record's bytes alone, so that whoever folds, leaves out or looks ahead agrees (K3)."""

from topolog.events.codec import CODEC
from topolog.events.fold import ends_term
from topolog.events.terms import TermEnded, TermStarted


def test_only_the_end_of_a_term_ends_it() -> None:
    assert ends_term(CODEC.encode(TermEnded(3)))
    assert not ends_term(CODEC.encode(TermStarted(3, "c1", 1)))


def test_a_damaged_end_ends_nothing() -> None:
    """It is poison for all, and voided or not, what stands behind it in its term counts."""
    whole = CODEC.encode(TermEnded(3))
    assert not ends_term(whole + b"\0")
    assert not ends_term(whole[:-1])
