"""The help of every command, against golden files: one of the commands that stand alone, one of each group."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.projections.cli.conftest import check_golden

from topolog.commands.table import table, written
from topolog.commands.tree import root
from topolog.projections.cli.app import run
from topolog.projections.cli.command_table import FILE
from topolog.projections.cli.help_page import of
from topolog.settings.model import setting_keys
from topolog.settings.sources import KEYS_FILE

GOLDEN = Path(__file__).parent / "golden-help"
WIDTH = 100


def helped(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By the file's name, each command that has help: a group itself is the first in its file."""
    yield "-".join(path) or "topolog", path
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from helped(command, (*path, name))
        else:
            yield "-".join(path) or "topolog", (*path, name)


def files() -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for file, path in helped(root()):
        found.setdefault(file, []).append(path)
    return found


FILES = files()


@pytest.fixture(autouse=True)
def _of_this_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """As wide everywhere; the machine's own terminal has no say."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))


@pytest.mark.parametrize("file", FILES)
def test_help_is_what_its_golden_file_holds(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ""
    for path in FILES[file]:
        assert run(root, [*path, "--help"]) == 0
        text = capsys.readouterr().out
        shown += f"$ {' '.join(('topolog', *path, '--help'))}\n" + "".join(
            f"{line.rstrip()}\n" for line in text.strip("\n").splitlines()
        )
    check_golden(GOLDEN / f"{file}.txt", shown)
    assert str(Path.home()) not in shown


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("-h get", ""),
        ("repair -h plan", "repair"),
        ("get -wh", "get"),
        ("get -ojson -h", "get"),
        ("verify -o json -h", "verify table"),
        ("verify -h orders", "verify"),
        ("-- get -h", "get"),
    ],
)
def test_every_way_to_ask_for_help_shows_the_same_page(
    args: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the table reads the words or Typer has to."""
    assert run(root, args.split()) == 0
    assert capsys.readouterr().out == of(path.split())


@pytest.mark.parametrize(
    "args",
    [
        "--bogus -h",
        "-h --bogus get",
        "get --bogus -h",
        "get -h --bogus",
        "get --no-color=1 -h",
        "get -h --output",
        "repair --bogus --help",
        "bogus -h",
    ],
)
def test_what_is_wrong_beside_help_is_said(args: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt option must not look as if it were there."""
    assert run(root, args.split()) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.startswith("Error: ")) == ("", True)


def test_no_color_goes_before_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in of(["get"])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in of(["get"])


def test_the_table_is_that_of_the_commands() -> None:
    """Help and completion read it, so a command that has changed has changed there too: `make command-table`."""
    assert FILE.read_text(encoding="utf-8") == f"{written(table())}\n"
    assert sorted(json.loads(KEYS_FILE.read_text(encoding="utf-8"))) == sorted(setting_keys())


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{file}.txt" for file in FILES}


def test_every_command_says_what_it_does() -> None:
    """And every option: nobody is to read the source to learn what one means."""
    for paths in FILES.values():
        for path in paths:
            at: Any = root()
            for name in path:
                at = at.commands[name]
            assert at.help, path
            silent = [each.name for each in at.params if not (getattr(each, "help", None) or each.hidden)]
            assert not silent, (path, silent)
