"""Views in the state: what is kept, from which level on, and that what was before is judged by nothing (BA22, K8)."""

import random

import pytest
from tests.unit.streams.rules.histories import History

from topolog.events import views as v
from topolog.events.ids import NodeId, Place, Position, Term, TopologyVersion
from topolog.events.state import State
from topolog.events.views import Kinship, PointsRow, ViewRow

# A running log.


def test_a_life_that_never_had_a_renewal_takes_nothing_from_what_is_known_of_the_one_before() -> None:
    """It may have ended before it could note anything, so what its disk says is that of its last life but one."""
    for is_wiped in (True, False):
        found = History("a", "b")
        found.write("a")
        found.leave("a")
        found.join("a")
        found.leave("a")
        if is_wiped:
            found.wipe("a")
        found.join("a")
        assert found.kinship("a") is (Kinship.WIPED if is_wiped else Kinship.BEHIND)


# What is kept.


def noted(state: State, number: int, *members: str) -> v.Point:
    """View `number` at ten times that position."""
    place = Place(Position(number * 10), number.to_bytes(16, "big"), Term(1))
    v.note_view(state, TopologyVersion(number, 0), tuple(NodeId(each) for each in members), place)
    return v.Point(place.position, place.chain)


def test_every_point_is_found_and_no_other() -> None:
    """Over rows of 64, however many there are."""
    state = State()
    points = [noted(state, number) for number in range(1, 200)]
    assert state.count(PointsRow) == 4
    assert v.newest_point(state) == points[-1]
    for point in points:
        assert v.is_point(state, point)
        assert not v.is_point(state, v.Point(point.position, bytes(16)))
        assert not v.is_point(state, v.Point(Position(point.position + 1), point.chain))
        assert v.point_after(state, Position(point.position - 1)) == point
    assert v.point_after(state, points[-1].position) is None


def test_a_view_in_which_only_ownership_changes_has_the_members_of_the_one_before() -> None:
    state = State()
    noted(state, 1, "a")
    noted(state, 2, "a")
    noted(state, 3, "a", "b")
    assert [key for key, _ in state.rows(ViewRow)] == ["1.0", "3.0"]
    in_between = v.view_at(state, Position(25))
    assert in_between is not None
    assert in_between.members == ("a",)
    assert v.view_at(state, Position(9)) is None


def test_the_oldest_views_are_dropped_also_by_a_reader_whose_rows_are_in_another_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A projector loads its rows by key, where 10.0 stands before 2.0; its state must stay that of all others."""
    monkeypatch.setattr(v, "VIEWS_KEPT", 12)
    state, again = State(), State()
    for number in range(1, 13):
        noted(state, number, str(number))
    rows = [(key, row) for kind in state.copies().values() for key, row in kind.items()]
    random.Random(1).shuffle(rows)
    for key, row in rows:
        again.put(key, row)
    for number in range(13, 16):
        noted(state, number, str(number))
        noted(again, number, str(number))
        assert state.hash() == again.hash()
    assert [row.version.major for _, row in state.rows(ViewRow)] == list(range(4, 16))


def test_a_take_over_or_a_renewal_is_no_view() -> None:
    """EX21: or every beat of the leader would be something to sync."""
    found = History("a")
    before = v.newest_point(found.state)
    found.write("a")
    assert v.newest_point(found.state) == before


def test_who_is_being_stopped_still_belongs_to_the_view_it_is_in() -> None:
    """The members of a version are those by which it came."""
    found = History("a", "b")
    version = found.view
    found.stop("b")
    row = v.view_of(found.state, version)
    assert row is not None
    assert row.members == ("a", "b")
