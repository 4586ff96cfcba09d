"""The Tab key: what may stand at the cursor, from the table of commands, without loading one.

Names of things are asked of the API (`completion.py`). What only a command itself knows is left to Typer: then
`proposals` is None. How shells ask, and what they take for an answer, is what Typer's own scripts do
(`topolog --install-completion`).
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import NamedTuple

from topolog.events.errors import BadInput
from topolog.projections.cli import command_table
from topolog.projections.cli.command_table import Entry, Found


class Completion(NamedTuple):
    """A word that may stand at the cursor, and what it means."""

    word: str
    meaning: str = ""


def answer(question: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What the shell is told, None if Typer has to say; `question` names the shell, the environment has the words."""
    instruction, _, shell = question.partition("_")
    if instruction != "complete" or shell not in ("bash", "zsh", "fish"):
        return None
    if shell == "fish" and environ.get("_TYPER_COMPLETE_FISH_ACTION") != "get-args":
        return None
    words, incomplete = _typed(shell, environ)
    found = proposals(words, incomplete)
    return None if found is None else _written(shell, found)


def proposals(words: Sequence[str], incomplete: str) -> list[Completion] | None:
    """What may stand behind these words, of which the last is begun; None if only the command knows."""
    root = command_table.table()
    found = command_table.find(root, words)
    if found.awaited is None and "=" in incomplete and incomplete.startswith("--"):
        name, _, incomplete = incomplete.partition("=")
        found = command_table.find(root, [*words, name])
    if found.awaited is not None:
        return _values(found.awaited, found, incomplete)
    if incomplete.startswith("-") and "--" not in words:
        return _options(found, incomplete)
    if "commands" in found.entry:
        commands: Mapping[str, Entry] = found.entry["commands"]
        return [Completion(name, each["short"]) for name, each in commands.items() if name.startswith(incomplete)]
    arguments = [param for param in found.entry["params"] if "opts" not in param]
    if not arguments or (found.words >= len(arguments) and not arguments[-1]["usage"].rstrip("]").endswith("...")):
        return []
    param = arguments[min(found.words, len(arguments) - 1)]
    if param.get("complete") == "commands":
        from topolog.projections.cli import completion

        topic = SimpleNamespace(params={"topic": words[len(found.path) :]})
        return [Completion(each) for each in completion.commands(topic, incomplete)]
    return _values(param, found, incomplete)


def _options(found: Found, incomplete: str) -> list[Completion]:
    params = [param for param in found.entry["params"] if not _is_of_others(param, found)]
    options = [(name, param["help"]) for param in params for name in param.get("opts", ())]
    options.append((command_table.HELP_OPTIONS[-1], "Show this message."))
    return [Completion(name, text) for name, text in options if name.startswith("--") and name.startswith(incomplete)]


def _is_of_others(param: Entry, found: Found) -> bool:
    """Whether the option narrows lists, and that of the resource which is typed has no such filter."""
    if not any(each["name"] == "others" for each in found.entry["params"]):
        return False
    from topolog.projections.cli.resources import RESOURCES, find

    try:
        kind = find(found.values.get("resource", "").partition("/")[0])
    except BadInput:
        return False
    return param["name"] not in kind.filters and any(param["name"] in each.filters for each in RESOURCES)


def _values(param: Entry, found: Found, incomplete: str) -> list[Completion] | None:
    how = param.get("complete", "")
    if "values" in param and "/" not in incomplete:
        return [Completion(each) for each in param["values"] if each.startswith(incomplete)]
    if how == "command":
        return None
    if not how:
        return []
    from topolog.projections.cli import completion

    if how == "contexts":
        return [Completion(each) for each in completion.contexts(incomplete)]
    thing, slash, begun = incomplete.partition("/")
    if "values" in param and slash:
        params = SimpleNamespace(params={**found.values, "resource": thing})
        return [Completion(f"{thing}/{name}") for name in completion.names(params, begun)]
    return [Completion(each) for each in completion.names(SimpleNamespace(params=found.values), incomplete)]


def _typed(shell: str, environ: Mapping[str, str]) -> tuple[list[str], str]:
    """The whole words behind `topolog`, and the one that is begun."""
    if shell == "bash":
        words = _split(environ.get("COMP_WORDS", ""))
        at = _position(environ.get("COMP_CWORD", ""))
        return words[1:at], words[at] if at < len(words) else ""
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    return (words[:-1], words[-1]) if words and not line.endswith(" ") else (words, "")


def _position(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadInput(f"COMP_CWORD is {text!r}, which is no word's position.")
    return int(text)


def _split(line: str) -> list[str]:
    """Words as a shell takes them, the last of them perhaps within a quote that is still open."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _written(shell: str, found: Sequence[Completion]) -> str:
    if shell == "bash":
        return "\n".join(each.word for each in found)
    if shell == "fish":
        return "\n".join(f"{each.word}\t{each.meaning}" if each.meaning else each.word for each in found)
    if not found:
        return "_files"
    rows = [f'"{_zsh(each.word)}":"{_zsh(each.meaning)}"' if each.meaning else f'"{_zsh(each.word)}"' for each in found]
    return f"_arguments '*: :(({chr(10).join(rows)}))'"


def _zsh(text: str) -> str:
    """As Typer's script for zsh wants it, which evaluates it."""
    for char, quoted in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", r"\\:")):
        text = text.replace(char, quoted)
    return text
