"""Commands whose modules load when they are called: what a tree of commands is made of, and Typer's view of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from topolog.projections.cli import help_page
from topolog.projections.cli.command_table import HELP_OPTIONS
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.loading import loaded, needs_extra
from topolog.projections.cli.spreading import spread
from topolog.projections.cli.terminal import Screen

_SETTINGS = {"help_option_names": list(HELP_OPTIONS)}


@dataclass(frozen=True)
class CommandPlace:
    """Where a command is, as `module:function`; the heading that lists it; the extra of topolog that it needs."""

    target: str
    panel: str = ""
    extra: str = "cli"


@dataclass(frozen=True)
class CommandGroup:
    """What a group is about, and its commands; `by_default` is called with what is no command's name."""

    help: str
    commands: "Mapping[str, CommandPlace | CommandGroup]"
    panel: str = ""
    by_default: str = ""


class _OwnHelp:
    """Help that is asked for in a way that only Typer reads, as `-wh`, is the same page."""

    def get_help(self, ctx):  # type: ignore[no-untyped-def]  # as Typer's own vendored click has it
        return help_page.of(ctx.command_path.split()[1:]).removesuffix("\n")


class LazyGroup(_OwnHelp, TyperGroup):
    """A group whose commands are made when they are looked up."""

    by_default: str = ""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]  # as Typer's own vendored click has it
        if not args and not ctx.resilient_parsing:
            Screen().data(help_page.of(ctx.command_path.split()[1:]))
            raise typer.Exit(ExitCode.USAGE)
        return super().parse_args(ctx, self._named(args))

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]  # the same
        return super().resolve_command(ctx, self._named(args))

    def _named(self, args: list[str]) -> list[str]:
        """The arguments with the name of a command before them: `verify orders` is `verify table orders`."""
        is_named = not (self.by_default and args) or args[0] in self.commands or args[0] in HELP_OPTIONS
        return list(args) if is_named else [self.by_default, *args]


class PlacedCommand(_OwnHelp, TyperCommand):
    """A command that has a place in the tree."""


class _Commands(Mapping[str, Any]):
    """Commands by name, each made once."""

    def __init__(self, entries: Mapping[str, CommandPlace | CommandGroup]) -> None:
        self._entries = entries
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            entry = self._entries[name]
            self._made[name] = group(name, entry) if isinstance(entry, CommandGroup) else _command(name, entry)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def group(name: str, entry: CommandGroup) -> Any:
    """Typer's view of a group."""
    app = typer.Typer(
        name=name,
        cls=LazyGroup,
        help=entry.help,
        no_args_is_help=True,
        add_completion=name == "topolog",
        context_settings=_SETTINGS,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root if name == "topolog" else _no_options)
    made: Any = typer.main.get_command(app)
    made.commands, made.by_default, made.rich_help_panel = _Commands(entry.commands), entry.by_default, entry.panel
    return made


def _command(name: str, entry: CommandPlace) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    needing = needs_extra(entry.extra)
    command = needing(spread(needing(loaded)(entry.target)))
    app.command(name=name, cls=PlacedCommand, context_settings=_SETTINGS, rich_help_panel=entry.panel or None)(command)
    return typer.main.get_command(app)


def _no_options() -> None:
    """A group has none, and does nothing before its commands."""


def _show_version(wanted: bool) -> None:
    if wanted:
        show_version()
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options of `topolog` itself."""


def show_version() -> None:
    """Print the version."""
    Screen().data(help_page.version_line())
