"""What is told of mutants fits the files: what is explained is there, and a gap is not explained away."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import mutation
from tests.benchmarks.results import ROOT
from tests.mutation import EXPLAINED, TESTS, Counted, Explained, Survivor, changed, page, says_nothing, unexplained

BEFORE = "def f(given: int | None, at: int) -> bool:\n    return at > 1\n"


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda each: f"{each.file}: {each.became}")
def test_what_is_explained_stands_in_its_file(explained: Explained) -> None:
    """Who changes that line looks at the reason again."""
    assert explained.was in (ROOT / explained.file).read_text(encoding="utf-8")
    assert explained.file in TESTS
    assert explained.why


@pytest.mark.parametrize("file", TESTS)
def test_each_file_and_its_tests_are_there(file: str) -> None:
    assert all((ROOT / each).is_file() for each in (file, *TESTS[file]))


def test_what_changes_annotations_alone_is_no_mutant() -> None:
    """It cannot be seen, or is seen by whatever loads the file."""
    assert says_nothing(BEFORE, BEFORE.replace("int | None", "int & None").replace("bool", "str"))
    assert not says_nothing(BEFORE, BEFORE.replace("> 1", ">= 1"))
    assert not says_nothing(BEFORE, BEFORE.replace("at:", "at"))


def test_a_survivor_is_told_by_the_lines_that_it_changes() -> None:
    assert changed(BEFORE, BEFORE.replace("> 1", ">= 1")) == ("return at > 1", "return at >= 1")


def test_only_that_very_change_of_that_very_line_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says which are, and the share of those that are not."""
    monkeypatch.setattr(mutation, "EXPLAINED", (Explained("a.py", "x | y", "x + y", "they share no bit"),))
    found = Survivor("a.py", "x | y", "x + y"), Survivor("a.py", "x | y", "x - y")
    counted = [Counted("a.py", 50, found), Counted("b.py", 50, ())]
    assert unexplained(counted) == 0.01
    text = page(counted, 3, "0a1b2c3d", datetime(2026, 11, 27, tzinfo=UTC))
    assert "Commit `0a1b2c3d`, 2026-11-27; of each file one in 3; 1.0% are unexplained.\n" in text
    assert "| `a.py` | 50 | 48 | 1 | 1 |\n| `b.py` | 50 | 50 | 0 | 0 |\n" in text
    assert "| `a.py` | `x \\| y` | `x + y` | they share no bit |\n" in text
    assert "| `a.py` | `x \\| y` | `x - y` | **unexplained** |\n" in text


def test_without_the_tool_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["mutation", "--tool", str(tmp_path / "cosmic-ray")])
    assert mutation.main() == 2
    assert mutation.COSMIC_RAY in capsys.readouterr().err
