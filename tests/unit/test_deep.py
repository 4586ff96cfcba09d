"""The last deep run stands in a file, with its commit, however it ended."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.soak import deep
from tests.soak.deep import Ended, Part, page, parts, run

WELL = Part("a part", (sys.executable, "-c", ""))
BADLY = Part("another", (sys.executable, "-c", "import sys; sys.exit(8)"))
INTERRUPTED = Part("one that Ctrl-C ends", (sys.executable, "-c", "import sys; sys.exit(130)"))


def test_all_parts_run_whatever_fails() -> None:
    assert [each.code for each in run((BADLY, WELL))] == [8, 0]


def test_nothing_is_begun_behind_a_part_that_was_interrupted() -> None:
    assert [each.part for each in run((WELL, INTERRUPTED, WELL))] == [WELL, INTERRUPTED]


def test_the_page_says_how_each_part_ended_and_at_which_commit() -> None:
    text = page([Ended(WELL, 0, 90.0), Ended(BADLY, 8, 6.0)], "0a1b2c3d+", datetime(2026, 11, 27, tzinfo=UTC))
    assert "Commit `0a1b2c3d+`, 2026-11-27.\n" in text
    assert text.endswith("| a part | ended well | 1.5 |\n| another | **ended with 8** | 0.1 |\n")


def test_the_parts_are_those_of_the_soak_and_the_mutants() -> None:
    """Simulated faults, faults on real brokers, schema changes, mutants; each as large as it is asked to be."""
    assert [(each.what.split()[0], each.command[-1]) for each in parts(10_000, 300, 20, 7)] == [
        ("10,000", "10000"),
        ("300", "300"),
        ("20", "20"),
        ("1", "7"),
    ]


@pytest.mark.parametrize(("part", "code"), [(WELL, 0), (BADLY, 1)])
def test_the_file_is_written_also_when_a_part_has_failed(
    part: Part, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep, "PAGE", tmp_path / "deep.md")
    monkeypatch.setattr(deep, "parts", lambda *_: (part,))
    monkeypatch.setattr("sys.argv", ["deep"])
    assert deep.main() == code
    assert part.what in (tmp_path / "deep.md").read_text()
