"""`make bench`: its table can be drawn, its commands exist and take what they are given, what they tell is understood.

Nothing is measured here.
"""

import argparse
import importlib
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.benchmarks import results
from tests.benchmarks.__main__ import command, is_quiet, machine
from tests.benchmarks.figures import FIGURES, RUNS, Figure, Run, Sense, runs_by_name
from tests.benchmarks.results import BEGIN, END, Result, append, drawn, redraw
from tests.benchmarks.told import Spread, Value, heard, spread

ROUND = Figure(
    "Rounds", "3 members", "metadata", "round_ms.3", "ms", ("p50", "p99"), (2.5, 6.0), peers="Ignite 1.6 / 8"
)
RATE = Figure("Rates", "live", "projector", "live_per_s", "events/s", goal=(50_000.0,), sense=Sense.AT_LEAST)


def result(at: str, run: str = "metadata", load: float = 0.2, **figures: Value) -> Result:
    told = figures or {"round_ms.3": Spread(2.1, 4.0, 5.96, 9.0, 400)}
    return Result(run, at, "0a1b2c3d", load, machine(), "--members 3", 61.0, told)


class Parsed(Exception):
    """The arguments were taken; nothing more is to happen."""


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_command_exists_and_takes_its_arguments(run: Run, is_quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser) -> None:
        parse(parser)
        raise Parsed

    words = command(run, is_quick=is_quick, cache=Path("kept"))
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(sys, "argv", words[2:])
    with pytest.raises(Parsed):
        importlib.import_module(words[2]).main()


def test_each_figure_is_of_a_run_and_stands_in_the_table_once() -> None:
    assert {figure.run for figure in FIGURES} == set(runs_by_name())
    assert len(RUNS) == len(runs_by_name())
    assert set(Counter((figure.run, figure.key) for figure in FIGURES).values()) == {1}
    for figure in FIGURES:
        assert len(figure.goal) in {0, len(figure.parts) or 1}
        assert set(figure.parts) <= set(Spread.__struct_fields__)


def test_the_figures_of_a_section_stand_together() -> None:
    sections = [figure.section for figure in FIGURES]
    assert sections == sorted(sections, key=sections.index)


def test_a_value_is_shown_beside_its_goal_and_the_peers() -> None:
    table = drawn([ROUND, RATE], [result("2026-11-23T08:00:00Z")])
    made = "2026-11-23 0a1b2c3d"
    assert f"| 3 members, p50 / p99 | 2.1 / 6.0 ms | ≤ 2.5 / 6 ms | yes | Ignite 1.6 / 8 | {made} |" in table
    assert "| live |" not in table
    assert "Not measured yet with it: 1 of 2 figures (`make bench`)." in table


def test_a_goal_that_is_not_met_and_a_busy_machine_are_said() -> None:
    table = drawn([RATE], [result("2026-11-23T08:00:00Z", "projector", 7.6, live_per_s=14_600)])
    assert "| 14,600 events/s | ≥ 50,000 events/s | **no** | – | 2026-11-23 0a1b2c3d, load 8 |" in table


def test_a_goal_is_met_only_by_all_parts() -> None:
    assert ROUND.is_met(Spread(2.5, 0, 6.0, 0, 9))
    assert not ROUND.is_met(Spread(1.0, 0, 6.1, 0, 9))
    assert not ROUND.is_met(Spread(2.6, 0, 1.0, 0, 9))


def test_a_value_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match=r"round_ms\.3 is 3"):
        ROUND.values(3)


def test_the_newest_result_of_each_figure_counts_whatever_its_file(tmp_path: Path) -> None:
    append(result("2026-11-24T08:00:00Z", live_per_s=2), tmp_path)
    append(result("2026-11-23T08:00:00Z", live_per_s=1, read_per_s=9), tmp_path)
    found = results.newest(results.results(tmp_path))
    assert {key: kept.figures[key] for (_, key), kept in found.items()} == {"live_per_s": 2, "read_per_s": 9}


def test_redrawing_again_changes_nothing(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Ours\n\n{BEGIN}{END}\n\nthe rest\n")
    append(result("2026-11-23T08:00:00Z"), tmp_path)
    assert redraw(FIGURES, readme, tmp_path)
    first = readme.read_text()
    assert not redraw(FIGURES, readme, tmp_path)
    assert readme.read_text() == first
    assert first.startswith("# Ours\n")
    assert first.endswith("\n\nthe rest\n")


def test_a_page_without_the_marks_is_left_as_it_is(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Ours\n")
    with pytest.raises(ValueError, match="has no <!-- figures -->"):
        redraw(FIGURES, readme, tmp_path)
    assert readme.read_text() == "# Ours\n"


def test_the_readme_shows_what_is_kept() -> None:
    text = results.README.read_text(encoding="utf-8")
    assert drawn(FIGURES, results.results()) == text.partition(BEGIN)[2].partition(END)[0]


def test_the_last_line_is_what_a_benchmark_tells() -> None:
    told = heard('3 members: 2 ms\n{"a_ms":{"p50":1.0,"p95":2.0,"p99":2.0,"max":2.0,"count":2},"b":3}\n')
    assert told == {"a_ms": Spread(1.0, 2.0, 2.0, 2.0, 2), "b": 3}
    for nothing in ("", "3 members: 2 ms\n"):
        with pytest.raises(ValueError):  # noqa: PT011 (whichever of the decoder's)
            heard(nothing)


def test_percentiles_lie_within_the_values() -> None:
    assert spread([5.0]) == Spread(5.0, 5.0, 5.0, 5.0, 1)
    assert spread([float(each) for each in range(101)]) == Spread(50.0, 95.0, 99.0, 100.0, 101)


def test_a_busy_machine_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.1, 0.0, 0.0))
    assert not is_quiet(0.0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.9, 0.0, 0.0))
    assert is_quiet(0.0)
