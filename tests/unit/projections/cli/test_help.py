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
