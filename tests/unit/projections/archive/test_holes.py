"""Missing offsets are in doubt until a chain shows that nothing stood there (RD28)."""

import pytest
from tests.unit.projections.chronicle import Chronicle

from topolog.events.stamp import encode_stamp
from topolog.projections.archive.holes import Hole, Holes

CHAINED = encode_stamp(Chronicle().start()._stamp(0, 1, "", "", ""))
OPENS_TERM = encode_stamp(Chronicle()._stamp(0, 1, "", "", ""))


@pytest.fixture
def holes() -> Holes:
    """Two of them: 4 to 6, and 10."""
    holes = Holes()
    holes.found(4, 7)
    holes.found(10, 11)
    return holes


def test_without_a_hole_nothing_is_missing() -> None:
    holes = Holes()
    holes.counted(3, CHAINED)
    assert (holes.first, holes.incomplete("here")) == (None, None)


def test_a_chain_settles_the_holes_before_it_and_no_others(holes: Holes) -> None:
    """Records are read some thousand at a time and accepted one by one."""
    holes.counted(3, CHAINED)
    assert holes.first == Hole(4, 7)
    holes.counted(7, CHAINED)
    assert holes.first == Hole(10, 11)
    holes.counted(11, CHAINED)
    assert holes.first is None


def test_one_chain_settles_several(holes: Holes) -> None:
    holes.counted(11, CHAINED)
    assert holes.first is None


def test_the_start_of_a_term_proves_nothing(holes: Holes) -> None:
    """It carries no chain, for its writer need not know it."""
    holes.counted(11, OPENS_TERM)
    assert holes.first == Hole(4, 7)


def test_what_is_read_again_is_told_of_again(holes: Holes) -> None:
    """A rebuild goes back: holes before where it begins stay in doubt."""
    holes.read_again(7)
    holes.found(8, 9)
    assert holes.first == Hole(4, 7)
    holes.counted(7, CHAINED)
    assert holes.first == Hole(8, 9), "and 10 was forgotten"
    holes.read_again(8)
    assert holes.incomplete("here") is None


def test_what_is_missing_is_named_with_what_to_do(holes: Holes) -> None:
    incomplete = holes.incomplete("/data/archive")
    assert incomplete is not None
    assert incomplete.message.startswith(
        "The archive in /data/archive lacks offsets 4 to 6 of decisions, and no record"
    )
    assert "topolog spark archive" in incomplete.hint


def test_a_hole_at_the_beginning_is_named_as_that() -> None:
    holes = Holes()
    holes.found(0, 3)
    incomplete = holes.incomplete("/data/archive")
    assert incomplete is not None
    assert "its first record of decisions has offset 3" in incomplete.message
