"""A folder of reports has the former ones until all of the new is made, and then nothing of them (RD32)."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.projections.dying import Died, die_at

from topolog.events.errors import BadInput
from topolog.projections.archive.positions import Positions
from topolog.projections.spark.reports.keeping import DESCRIPTION, PAGE, check_folder, keep
from topolog.projections.spark.reports.landed import Days
from topolog.projections.spark.reports.making import Made, Whole

EFFECTS = ((shutil, "rmtree"), (Path, "replace"), (Path, "write_text"))


def whole(sentence: str) -> Whole:
    positions = Positions((), 1, {}, (), 0, "ab", 1, 0)
    made = Made("leases", "Which?", sentence, ("node",), ({"node": "zo\u00eb"},), (), 0.0)
    return Whole("main", positions, Days(), (), (made,))


def making(sentence: str, *names: str) -> Callable[[Path], Whole]:
    """Reports of these names, with the sentence in a file of each."""

    def make(tables: Path) -> Whole:
        for name in names:
            (tables / name / "facts").mkdir(parents=True)
            (tables / name / "facts" / "part-0.parquet").write_text(sentence)
        return whole(sentence)

    return make


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def test_tables_page_and_description_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "reports"
    assert keep(folder, making("all is well.", "leases")) == whole("all is well.")
    found = contents(folder)
    assert set(found) == {"leases/facts/part-0.parquet", PAGE, DESCRIPTION}
    assert "all is well." in found[PAGE]
    assert json.loads(found[DESCRIPTION])["reports"][0]["rows"] == [{"node": "zo\u00eb"}]


def test_reports_that_were_there_are_replaced(tmp_path: Path) -> None:
    """Those that are not made again too: page and tables are of one moment."""
    keep(tmp_path, making("before.", "leases", "changes"))
    keep(tmp_path, making("now.", "leases"))
    found = contents(tmp_path)
    assert set(found) == {"leases/facts/part-0.parquet", PAGE, DESCRIPTION}
    assert not any("before." in text for text in found.values())
    assert not (tmp_path / "changes").exists()


@pytest.mark.parametrize("error", [Died, BadInput])
def test_who_fails_leaves_those_that_were_there(tmp_path: Path, error: type[BaseException]) -> None:
    def fail(tables: Path) -> Whole:
        making("half", "leases")(tables)
        raise error("no memory")

    keep(tmp_path, making("before.", "leases"))
    before = contents(tmp_path)
    with pytest.raises(error, match="no memory"):
        keep(tmp_path, fail)
    assert contents(tmp_path) == before
    with pytest.raises(error):
        keep(tmp_path / "other", fail)
    assert list((tmp_path / "other").iterdir()) == []


def test_killed_at_any_step_the_next_making_replaces_all(tmp_path: Path) -> None:
    """What was there before it was killed in a first or a second making, whatever it was."""
    for had, step in ((had, step) for had in (False, True) for step in range(8)):
        folder = tmp_path / f"{had}-{step}"
        if had:
            keep(folder, making("before.", "leases", "changes"))
        with pytest.MonkeyPatch.context() as patch, suppress(Died):
            die_at(patch, step, *EFFECTS)
            keep(folder, making("half.", "leases", "changes"))
        keep(folder, making("now.", "leases"))
        found = contents(folder)
        assert set(found) == {"leases/facts/part-0.parquet", PAGE, DESCRIPTION}
        assert not any("before." in text or "half." in text for text in found.values())


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("five years")
    for act in (check_folder, lambda folder: keep(folder, making("now.", "leases"))):
        with pytest.raises(BadInput, match=r"such as thesis\.txt"):
            act(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        check_folder(tmp_path / "file")


def test_a_look_at_a_folder_leaves_nothing_in_it(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_two_at_once_are_kept_apart(tmp_path: Path) -> None:
    """The second one is told so, and the first one's reports are whole."""
    keep(tmp_path, making("before.", "leases"))

    def slow(tables: Path) -> Whole:
        for begin in (check_folder, lambda folder: keep(folder, making("other.", "changes"))):
            with pytest.raises(BadInput, match="Another process makes reports"):
                begin(tmp_path)
        return making("now.", "leases")(tables)

    keep(tmp_path, slow)
    assert set(contents(tmp_path)) == {"leases/facts/part-0.parquet", PAGE, DESCRIPTION}
