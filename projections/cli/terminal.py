"""The two streams of a command: data to stdout, all else to stderr. The only file that writes to either.

Colours and the terminal's width matter on a terminal only; in a pipe each row stays on one line.
"""

import errno
import os
import shutil
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, TextIO

from topolog.projections.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_UNBROKEN = 100_000  # columns: more than any row has, so that nothing is wrapped for a reader that is a program


class Screen:
    """Prints for one command."""

    def __init__(self, *, no_color: bool = False) -> None:
        self._no_color = no_color

    @cached_property
    def _out(self) -> "Console":
        return _console(sys.stdout, no_color=self._no_color)

    @cached_property
    def _err(self) -> "Console":
        return _console(sys.stderr, no_color=self._no_color)

    @property
    def is_seen(self) -> bool:
        """Whether what goes to stdout goes to a terminal, and no program reads it."""
        return sys.stdout.isatty()

    def data(self, text: str) -> None:
        """Text for a program, as it is."""
        _write(text)

    def view(self, shown: "RenderableType") -> None:
        """Something for people to look at, on stdout."""
        with self._out.capture() as captured:
            self._out.print(shown, crop=False)
        _write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def lines(self, shown: "RenderableType", width: int) -> list[str]:
        """What `view` would print, line by line, each cut to the width."""
        with self._out.capture() as captured:
            self._out.print(shown, crop=True, no_wrap=True, overflow="crop", width=width)
        return [line.rstrip() for line in captured.get().splitlines()]

    def aside(self, shown: "RenderableType") -> None:
        """Something to look at that is not what was asked for, on stderr."""
        with self._err.capture() as captured:
            self._err.print(shown, crop=False)
        write_aside("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def note(self, text: str, *, style: str = "dim") -> None:
        """One sentence on stderr."""
        if self._is_plain:
            write_aside("".join(f"{line.rstrip()}\n" for line in clean(text).splitlines()))
            return
        from rich.text import Text

        self.aside(Text(clean(text), style=style))

    def complaint(self, message: str, hint: str) -> None:
        """What went wrong and, on a line of its own, what to do about it."""
        if self._is_plain:
            self.note(f"Error: {message}\n Hint: {hint}" if hint else f"Error: {message}")
            return
        from rich.text import Text

        shown = Text.assemble(("Error: ", "bold red"), clean(message))
        self.aside(Text.assemble(shown, ("\n Hint: ", "bold"), clean(hint)) if hint else shown)

    @property
    def _is_plain(self) -> bool:
        """Whether what is said on stderr needs neither colours nor lines of some width, hence no rich."""
        return not (sys.stderr.isatty() or os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"))


class StatusLine:
    """One line on stderr that is written over again and again; a context manager, nothing unless it is a terminal."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._shown = ""

    def __enter__(self) -> "StatusLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            write_aside("\r\x1b[K")

    def show(self, text: str) -> None:
        """The text in place of the one before, cut to the terminal's width."""
        width = max(20, shutil.get_terminal_size().columns - 1)
        line = clean(text).replace("\n", " ")[:width]
        if self._is_on and line != self._shown:
            self._shown = line
            write_aside(f"\r\x1b[K{line}")


class Redrawn:
    """A view on a terminal's stdout that is drawn again in place of itself; a context manager. What does not fit on the
    screen is cut, for what has scrolled away cannot be drawn again."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines = 0

    def __enter__(self) -> "Redrawn":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, shown: "RenderableType", footer: str) -> None:
        """The view, and a line below it, in place of those before."""
        size = shutil.get_terminal_size()
        lines = self._screen.lines(shown, size.columns)
        room = max(1, size.lines - 2)
        more = f" ({len(lines) - room} lines more)" if len(lines) > room else ""
        up = f"\x1b[{self._lines}A\x1b[J" if self._lines else ""
        drawn = [*lines[:room], clean(f"{footer}{more}")[: size.columns]]
        _write(up + "".join(f"{line}\n" for line in drawn))
        self._lines = len(drawn)


def plain(value: object) -> str:
    """A value of an answer in one line; `-` for nothing."""
    match value:
        case None | "" | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case {"major": major, "minor": minor}:
            return f"{major}.{minor}"
        case Mapping():
            return " ".join(f"{clean(str(key))}={plain(held)}" for key, held in value.items()) or "-"
        case list() | tuple():
            return ", ".join(plain(held) for held in value)
        case _:
            return clean(str(value)).replace("\n", " ")


def in_one_line(text: str) -> str:
    """The text without control characters, the end of a line among them: what stands in a list of names is one name."""
    return clean(text).replace("\n", "\\n")


def clean(text: str) -> str:
    """The text without control characters: what a stranger wrote into the log must not drive a reader's terminal."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def _console(stream: TextIO, *, no_color: bool) -> "Console":
    from rich.console import Console

    console = Console(file=stream, no_color=no_color or None, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNBROKEN
    return console


def _write(text: str) -> None:
    """To stdout. Whoever reads may stop reading, as `head` does: then the command ends in peace."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        silence(sys.stdout)
        _end(ExitCode.OK, error)
    except OSError as error:
        silence(sys.stdout)
        unwritten(error)
        _end(ExitCode.ERROR, error)


def _end(code: ExitCode, error: OSError) -> NoReturn:
    import typer

    raise typer.Exit(code) from error


def unwritten(error: OSError) -> None:
    """Say that stdout takes nothing."""
    write_aside(f"Error: The output cannot be written: {error.strerror or error}.\n")


def write_aside(text: str) -> None:
    """To stderr. Whoever cannot be told must not keep the command from what it does, least of all from stopping."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError as error:
        if error.errno != errno.ENOSPC:  # there may be room again
            silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let the stream end nowhere, so that the interpreter's last flush does not complain either."""
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # a descriptor is wanted, not a path
        os.dup2(nowhere.fileno(), stream.fileno())
