"""Stores beside each other, without the log: whether they agree, as of where the one that is behind stands."""

from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import contents, damage_tables, flipped, project, write

from topolog.events.errors import BadInput
from topolog.events.ids import Position
from topolog.projections import layout
from topolog.projections.self_check import between
from topolog.projections.self_check.findings import What
from topolog.projections.self_check.verdict import State

NODE = layout.row_key(("node", "n1"))


@pytest.fixture
def behind(chronicle: Chronicle, folder: Path) -> Path:
    """A store that stands a few positions before the end of the log."""
    for name in ("m1", "m2"):
        chronicle.join(name)
    return folder


@pytest.fixture
def ahead(chronicle: Chronicle, behind: Path, tmp_path: Path) -> Path:
    return project(chronicle, tmp_path / "ahead")


def test_two_stores_that_are_equal(chronicle: Chronicle, folder: Path, tmp_path: Path) -> None:
    other = project(chronicle, tmp_path / "other")
    first, second = between.compare([folder, other])
    assert (first.state, second.state) == (State.EQUAL, State.EQUAL)
    assert (first.behind, second.behind) == (0, 0)
    assert first.rows == second.rows


def test_a_row_that_is_not_the_same_is_named_and_nobody_is_called_wrong(
    chronicle: Chronicle, folder: Path, tmp_path: Path
) -> None:
    """Both differ: from each other."""
    other = project(chronicle, tmp_path / "other")
    write(other, {NODE: contents(other)[NODE].replace(b"n1:7000", b"n1:7002")})
    first, second = between.compare([folder, other])
    assert (first.state, second.state) == (State.DIFFERENT, State.DIFFERENT)
    assert [str(each.place) for each in second.findings] == ["row node/n1"]
    assert "--no-log" in second.hint


def test_one_that_is_behind_is_compared_as_of_its_own_position(ahead: Path, behind: Path) -> None:
    """The newest rows cannot be: they are of another moment."""
    first, second = between.compare([behind, ahead])
    assert (first.state, second.state) == (State.EQUAL, State.EQUAL)
    assert (first.behind > 0, second.behind) == (True, 0)
    assert first.position is not None
    assert first.position + first.behind == second.position


@pytest.mark.parametrize("is_behind", [True, False])
def test_the_past_of_one_that_is_behind_is_compared(ahead: Path, behind: Path, is_behind: bool) -> None:
    """Whichever of the two is damaged."""
    wrong = behind if is_behind else ahead
    key = layout.decision_key(Position(6))
    write(wrong, {key: flipped(contents(wrong)[key], 99), layout.decision_key(Position(7)): None})
    first, second = between.compare([behind, ahead])
    assert {first.state, second.state} == {State.DIFFERENT}
    assert [each.place.position for each in first.findings] == [6, 7]
    assert first.findings[1].what is (What.LOST if is_behind else What.EXTRA)


def test_a_store_of_another_log_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    other = project(Chronicle(log_id=bytes(16)).start(), tmp_path / "other")
    first, second = between.compare([folder, other])
    assert second.state is State.OTHER_LOG
    assert first.state is State.DIFFERENT


def test_one_that_cannot_be_read_does_not_hide_the_others(ahead: Path, behind: Path, folder: Path) -> None:
    damage_tables(ahead)
    first, second = between.compare([ahead, behind])
    assert (first.state, second.state) == (State.UNREADABLE, State.EQUAL)
    write(behind, {layout.META_KEY: None})
    assert {each.state for each in between.compare([ahead, behind])} == {State.UNREADABLE}


def test_a_folder_without_a_store_is_bad_input(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no store"):
        between.compare([folder, tmp_path / "nowhere"])
