"""What the command line does when its streams are closed, full, or of an encoding that has not every character."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TOPOLOG = f"{shlex.quote(sys.executable)} -m topolog"
NOWHERE = "--api http://127.0.0.1:1 --cluster demo"
COMPLETES = {"_TOPOLOG_COMPLETE": "complete_bash", "COMP_WORDS": "topolog ve", "COMP_CWORD": "1"}


def ended(script: str, folder: Path, **environ: str) -> tuple[int, str, str]:
    """The exit code of `topolog` and what stands behind it in a shell, what is on stdout, and on stderr."""
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], **environ}
    command = ["bash", "-c", f"{TOPOLOG} {script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environ)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("args", ["version", "--help", "help get", "context list -o json"])
def test_who_has_closed_stdout_is_told_nothing(args: str, tmp_path: Path) -> None:
    assert ended(f"{args} >&-", tmp_path) == (0, "", "")


def test_who_has_closed_stderr_has_the_exit_code(tmp_path: Path) -> None:
    assert ended(f"get nodes {NOWHERE} 2>&-", tmp_path) == (4, "", "")
    assert ended(f"get nodes {NOWHERE} >&- 2>&-", tmp_path) == (4, "", "")
    assert ended(f"get nodes {NOWHERE} 2>/dev/full", tmp_path) == (4, "", "")


@pytest.mark.parametrize("args", ["version", "--help", "help get", "context list -o json"])
def test_a_full_disk_is_an_error_and_said(args: str, tmp_path: Path) -> None:
    said = "Error: The output cannot be written: No space left on device.\n"
    assert ended(f"{args} >/dev/full", tmp_path) == (1, "", said)


@pytest.mark.parametrize("stream", ["", ">&-", ">/dev/full"])
@pytest.mark.parametrize("position", ["", "x", "-1", "9" * 9999, "1"])
def test_the_tab_key_never_complains(stream: str, position: str, tmp_path: Path) -> None:
    """What it said would stand in the line that is typed."""
    shown = "verify\nversion\n" if position == "1" and not stream else ""
    assert ended(stream, tmp_path, **{**COMPLETES, "COMP_CWORD": position}) == (0, shown, "")


def test_a_setting_that_is_wrong_does_not_disturb_the_tab_key(tmp_path: Path) -> None:
    (tmp_path / "topolog.toml").write_text("[api", encoding="utf-8")
    asks = {**COMPLETES, "COMP_WORDS": "topolog get nodes n", "COMP_CWORD": "3"}
    assert ended("", tmp_path, **asks)[::2] == (0, "")


def test_what_a_stream_cannot_encode_is_spelt_out(tmp_path: Path) -> None:
    environ = {"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"}
    code, _, said = ended("get nodes --context für", tmp_path, **environ)
    assert (code, "f\\xfcr" in said, "Traceback" in said) == (2, True, False)


def test_a_terminal_of_absurd_width_has_help(tmp_path: Path) -> None:
    code, shown, said = ended("--help", tmp_path, COLUMNS="9" * 9999)
    assert (code, shown.startswith("Usage: topolog"), said) == (0, True, "")
