"""The README's tour, run as it stands on a real broker (`terminal.py`)."""

from collections.abc import Callable, Iterator

import pytest
from tests.tour.terminal import BLOCK, CTRL_C, LEFT_RUNNING, ROOT, Shell, beside_the_demo, is_shown, run, steps

README = ROOT / "README.md"
FENCE = "10s"
"""Shorter than a reader's: the node that hangs is out 15 s earlier, and all that is shown is the same."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, unused_port: Callable[[], int]) -> Iterator[Shell]:
    with beside_the_demo(tmp_path_factory.mktemp("tour"), unused_port, TOPOLOG_LEASE__FENCE=FENCE) as shell:
        yield shell


def _tour() -> list[str]:
    """The console blocks after the one that starts everything."""
    return [block for block in BLOCK.findall(README.read_text()) if "topolog up" not in block]


def test_the_tour_of_the_readme_is_what_happens(demo: Shell) -> None:
    """Each command prints what the README shows, but for what differs from run to run."""
    run(demo, README, _tour())


def test_a_command_that_prints_something_else_would_be_noticed() -> None:
    """The comparison can fail: another word, a missing line, a line too many."""
    assert is_shown(["a 1", "b"], ["b", "a 2"])
    assert not is_shown(["a 1", "b"], ["a 1", "c"])
    assert not is_shown(["a 1", "b"], ["a 1"])
    assert not is_shown(["a 1"], ["a 1", "b"])
    assert not is_shown(["exit 5"], ["exit 1"])
    assert not is_shown(["r GRANTED  3  yes  46"], ["r GRANTED  2  yes  46"])
    assert not is_shown(["r GRANTED  3  yes  46"], ["r GRANTED  3  no  46"])
    assert is_shown(["r GRANTED  3  yes  46"], ["r GRANTED  3  yes  47"])
    assert not is_shown(["accepted_version 2 → 3; at 4 → 5"], ["accepted_version 2 → 4; at 4 → 5"])
    assert not is_shown(["version 3 since position 47"], ["version 4 since position 47"])
    assert is_shown(["a 1", "…"], ["a 1", "b", "c"])
    assert not is_shown(["x", "…"], ["a 1", "b", "c"])
    assert not is_shown(["partition/rows/12"], ["partition/rows/13"])
    assert not is_shown(["Node n6 starts (pid 7)."], ["Node n7 starts (pid 7)."])
    assert not is_shown(["…", "lost           none while a copy lived"], ["lost           2 rows:"])
    assert not is_shown(["gone 8 rows, with the last copy of rows/1"], ["gone 8 rows, with the last copy of rows/2"])
    assert is_shown(["gone 8 rows, with the last copy of rows/1"], ["gone 9 rows, with the last copy of rows/1"])
    assert is_shown(["552  0.377  936  EQUAL"], ["1,104  0.4  1,464  EQUAL"]), "with and without thousands"
    assert not is_shown(["552  0.377  936  EQUAL"], ["1,104  0.4  1,464  DIFFERENT"])
    assert not is_shown(["702 records in 1 landing."], ["702 records in 2 landings."])
    assert is_shown(["is lost; it awaits n2 and n4."], ["is lost; it awaits n4."]), "whoever was out last"


def test_what_is_left_running_is_ended_by_a_line_of_its_own() -> None:
    """Its output is compared in two steps."""
    assert steps("$ topolog demo load\n4 clients\n") == [(LEFT_RUNNING[0], ["4 clients"])]
    assert steps("^C\n…\nlost none\n") == [(CTRL_C, ["…", "lost none"])]
