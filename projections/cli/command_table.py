"""The table of all commands, as `make command-table` has written it: what help and completion know without loading one.

`python -m topolog.commands.table` derives it from the commands themselves, and a test compares the two.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).with_name("command_table.json")
HELP_OPTIONS: Final = ("-h", "--help")

Entry = Mapping[str, Any]
"""A command: `help`, `short`, `panel` and `params`; a group has `commands` by name, and perhaps `by_default`."""


class Found(NamedTuple):
    """How far words lead: a command, its path, the values of its parameters by name, and what is said of the rest."""

    path: tuple[str, ...]
    entry: Entry
    values: Mapping[str, str]
    is_help: bool
    awaited: Entry | None
    """The option that still has no value."""
    words: int
    """How many words stand for arguments; of a group's, the first begins what only Typer can name."""
    is_plain: bool
    """Whether the table knows all options there are, and how they are written."""


@functools.cache
def table() -> Entry:
    """The root command."""
    written = json.loads(FILE.read_text(encoding="utf-8"))
    _with_params(written["root"], written["params"])
    found: Entry = written["root"]
    return found


def _with_params(entry: dict[str, Any], params: Sequence[Entry]) -> None:
    """Put parameters in the place of their numbers: most of them are those of many commands."""
    entry["params"] = [params[number] for number in entry["params"]]
    for each in entry.get("commands", {}).values():
        _with_params(each, params)


def leaf(words: Sequence[str]) -> tuple[Entry | None, Sequence[str]]:
    """The command that these words begin with and the words behind it; None if they name a group, or nothing."""
    _, entry, rest = _descent(table(), words)
    return (None if "commands" in entry else entry), rest


def find(root: Entry, words: Sequence[str]) -> Found:
    """The command that these words name, as far as they do; what is no command's name ends the search."""
    return _read(*_descent(root, words))


def _descent(root: Entry, words: Sequence[str]) -> tuple[tuple[str, ...], Entry, Sequence[str]]:
    """The path to the command that these words name, the command, and the words behind its name."""
    path: list[str] = []
    entry, rest = root, list(words)
    while rest and "commands" in entry and not rest[0].startswith("-"):
        name = rest[0] if rest[0] in entry["commands"] else entry.get("by_default")
        if not name:
            break
        if name == rest[0]:
            del rest[0]
        path.append(name)
        entry = entry["commands"][name]
    return tuple(path), entry, rest


def _read(path: tuple[str, ...], entry: Entry, rest: Sequence[str]) -> Found:
    options = {name: param for param in entry["params"] for name in param.get("opts", ())}
    arguments = [param for param in entry["params"] if "opts" not in param]
    values: dict[str, str] = {}
    awaited: Entry | None = None
    is_help, words, is_plain = False, 0, True
    for index, word in enumerate(rest):
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if awaited is not None:
            values[awaited["name"]] = word
            awaited = None
        elif word == "--":
            words += len(rest) - index - 1
            break
        elif word in HELP_OPTIONS:
            is_help = True
        elif name in options and equals:
            values[options[name]["name"]] = value
            is_plain = is_plain and bool(options[name].get("takes"))
        elif word in options:
            awaited = options[word] if options[word].get("takes") else None
        elif not word.startswith("-") or word == "-":
            if words < len(arguments):
                values[arguments[words]["name"]] = word
            words += 1
            if "commands" in entry:
                break
        else:
            is_plain = False
    return Found(path, entry, values, is_help, awaited, words, is_plain)
