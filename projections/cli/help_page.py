"""The help of a command as text, from the table of commands: as wide as the terminal, in colours on one."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from topolog.projections.cli import command_table
from topolog.projections.cli.command_table import HELP_OPTIONS, Entry

EXIT_CODES: Final = "exit-codes"
"""The topic of `topolog help` that is no command."""
WIDTH: Final = 80
WIDTH_MAX: Final = 110
_NAMES_MAX: Final = 30
"""Names that are longer have their text on the lines below."""
_GAP: Final = 2
_LEAST: Final = 24
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def version_line() -> str:
    """Which release this is."""
    from importlib.metadata import version

    return f"topolog {version('topolog')}\n"


def asked_for(args: Sequence[str]) -> str | None:
    """The page that these arguments ask for, None if they ask for none, or Typer has to read them."""
    if args and args[0] == "help" and not any(word.startswith("-") for word in args):
        return explained(args[1:])
    if not any(each in args for each in HELP_OPTIONS):
        return None
    found = command_table.find(command_table.table(), args)
    if not (found.is_help and found.is_plain) or found.awaited is not None:
        return None
    return page(found.path, found.entry, width(), coloured=is_coloured(args))


def explained(topic: Sequence[str]) -> str | None:
    """What `topolog help` says about a command, or the exit codes; None if there is no such topic."""
    if list(topic) == [EXIT_CODES]:
        from topolog.projections.cli.exit_codes import MEANINGS

        return "".join(f"{code:>4}  {text}\n" for code, text in [("CODE", "MEANING"), *MEANINGS.items()])
    return asked_for([*topic, HELP_OPTIONS[-1]])


def of(path: Sequence[str]) -> str:
    """The page of this command."""
    return page(path, command_table.find(command_table.table(), path).entry, width(), coloured=is_coloured())


def width() -> int:
    """How wide a page is: the terminal, within bounds; 80 where there is none."""
    if re.fullmatch("[0-9]{1,9}", columns := os.environ.get("COLUMNS", "")) and int(columns):
        return min(int(columns), WIDTH_MAX)
    try:
        return min(os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH, WIDTH_MAX)
    except (OSError, ValueError, AttributeError):
        return WIDTH


def is_coloured(words: Sequence[str] = ()) -> bool:
    """Whether a page has colours: on a terminal, unless --no-color or NO_COLOR says no."""
    if "--no-color" in words or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def page(path: Sequence[str], entry: Entry, columns: int, *, coloured: bool) -> str:
    """What `--help` prints."""
    text = "".join(f"{line}\n" for line in _lines(path, entry, columns))
    if coloured:
        text = re.sub(r"\x02(.*?)\x03", rf"{_BOLD}\1{_PLAIN}", text)
        return re.sub(r"\x04(.*?)\x05", rf"{_CYAN}\1{_PLAIN}", text)
    return re.sub("[\x02-\x05]", "", text)


def _lines(path: Sequence[str], entry: Entry, columns: int) -> Iterator[str]:
    is_group = "commands" in entry
    arguments = [param for param in entry["params"] if "opts" not in param]
    usage = ["topolog", *path, "[OPTIONS]", *(["COMMAND", "[ARGS]..."] if is_group else [])]
    usage += [param["usage"] for param in arguments]
    lines = _wrapped(" ".join(usage), columns - len("Usage: "))
    yield f"\x02Usage:\x03 {lines[0]}"
    yield from (f"       {line}" for line in lines[1:])
    for paragraph in entry["help"].split("\n\n"):
        yield ""
        yield from _wrapped(paragraph, columns)
    if is_group:
        yield from _commands(entry["commands"], columns)
    if arguments:
        yield from _section("Arguments", [(param["shown"], param["help"]) for param in arguments], columns)
    options = [(param["shown"], param["help"]) for param in entry["params"] if "opts" in param]
    yield from _section("Options", [*options, ("-h, --help", "Show this message.")], columns)
    if is_group:
        yield ""
        yield from _wrapped(f"`{' '.join(['topolog', *path])} COMMAND --help` says more of a command.", columns)


def _commands(commands: Entry, columns: int) -> Iterator[str]:
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, entry in commands.items():
        panels.setdefault(entry["panel"] or "Commands", []).append((name, entry["short"]))
    least = max(len(name) for name in commands)
    for title, rows in panels.items():
        yield from _section(title, rows, columns, least)


def _section(title: str, rows: Sequence[tuple[str, str]], columns: int, least: int = 0) -> Iterator[str]:
    yield ""
    yield f"\x02{title}:\x03"
    widest = max([least, *(len(name) for name, _ in rows if len(name) <= _NAMES_MAX)])
    indent = " " * (_GAP + widest + _GAP)
    for name, text in rows:
        lines = _wrapped(text, max(columns - len(indent), _LEAST)) or [""]
        shown = f"{' ' * _GAP}\x04{name}\x05"
        if len(name) > widest:
            yield shown
            yield f"{indent}{lines[0]}".rstrip()
        else:
            yield f"{shown}{' ' * (widest - len(name) + _GAP)}{lines[0]}".rstrip()
        yield from (f"{indent}{line}" for line in lines[1:])


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of whole words; a word that is longer than a line has one of its own."""
    words = text.split()
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
