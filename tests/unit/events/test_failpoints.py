"""Failpoints: what the variable may say, that every place is in the table and every entry of the table is a place."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from topolog.events.errors import BadInput, Injected
from topolog.events.failpoints import FAILPOINTS, VARIABLE, arm, is_armed, reach

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


def places() -> set[str]:
    """Every name that the source gives to `reach`."""
    calls = (
        node
        for package in ("events", "streams", "projections")
        for path in (ROOT / package).rglob("*.py")
        if "reach(" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reach"
    )
    names = (each.value for call in calls for each in ast.walk(call) if isinstance(each, ast.Constant))
    return {name for name in names if isinstance(name, str)}


def test_the_table_names_every_place_and_no_other() -> None:
    """A place without an entry could not be armed; an entry without a place would never happen."""
    assert places() == set(FAILPOINTS)


def test_without_the_variable_nothing_happens_anywhere() -> None:
    """Production: an unarmed place is one look into an empty dictionary."""
    arm({})
    for name in FAILPOINTS:
        reach(name)
        assert not is_armed(name)


def test_an_error_is_raised_at_the_time_that_was_said_and_only_then() -> None:
    """`name:3=error`: the third time, once."""
    arm({VARIABLE: "node.hooked:3=error, node.folded=pause:0ms"})
    reach("node.folded")
    reach("node.hooked")
    reach("node.hooked")
    with pytest.raises(Injected, match=r"node\.hooked"):
        reach("node.hooked")
    reach("node.hooked")


def test_actions_happen_in_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    """`a+b`: the pause first, then the error; the line on stderr says what was armed."""
    arm({VARIABLE: "node.hooked=pause:30ms+error"})
    started_ns = time.monotonic_ns()
    with pytest.raises(Injected):
        reach("node.hooked")
    assert time.monotonic_ns() - started_ns >= 30_000_000


def test_a_crash_runs_nothing_of_the_process_any_more() -> None:
    """`crash` is SIGKILL: no finally, no atexit, no buffer is flushed, one line says where it was."""
    program = (
        "import atexit, os, sys; from topolog.events.failpoints import arm, reach; arm(os.environ)\n"
        "atexit.register(print, 'at exit'); sys.stdout.write('buffered')\n"
        "try: reach('node.hooked')\n"
        "finally: os.write(1, b'finally')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONUNBUFFERED": "", VARIABLE: "node.hooked=crash"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"")
    assert ended.stderr == b"failpoint node.hooked: crash\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("node.hookd=crash", "no failpoint 'node.hookd'"),
        ("node.hooked", "not of the form"),
        ("node.hooked:0=crash", "not of the form"),
        ("node.hooked=explode", "'explode' is no action"),
        ("node.hooked=pause:5", "'pause:5' is no action"),
        ("node.hooked=crash,=", "not of the form"),
    ],
)
def test_what_is_misspelt_stops_the_process_and_arms_nothing(text: str, complaint: str) -> None:
    """A drill that silently does nothing proves nothing."""
    with pytest.raises(BadInput, match=complaint):
        arm({VARIABLE: text})
    assert not any(map(is_armed, FAILPOINTS))


def test_an_unknown_name_is_answered_with_all_names() -> None:
    """Whoever misspells one learns the others."""
    with pytest.raises(BadInput) as found:
        arm({VARIABLE: "x=crash"})
    assert all(f"{name}: {meaning}" in found.value.hint for name, meaning in FAILPOINTS.items())


def test_a_role_refuses_to_start_with_an_unknown_name() -> None:
    """Exit code 2, before anything is connected."""
    ended = subprocess.run(
        [sys.executable, "-m", "topolog", "run", "coordinator"],
        env={**os.environ, VARIABLE: "coordinator.dying=crash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "there is no failpoint 'coordinator.dying'" in ended.stderr
