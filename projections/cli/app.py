"""The command line: one Typer app of the commands over the query API, and how every command of topolog ends.

The composition root builds the app, adds the commands that run roles, and ends the process with what `run` returns.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from rich.table import Table
from typer.exceptions import TyperException

from topolog.events.errors import Refused, TopologError
from topolog.projections.cli import baseline_commands
from topolog.projections.cli.applying import apply
from topolog.projections.cli.auth_commands import auth_commands
from topolog.projections.cli.context_commands import context_commands
from topolog.projections.cli.diffing import diff
from topolog.projections.cli.exit_codes import MEANINGS, ExitCode, exit_code
from topolog.projections.cli.problems import DEFAULT_API
from topolog.projections.cli.projection_commands import projection_commands
from topolog.projections.cli.reading import describe, explain, get, history
from topolog.projections.cli.repair_commands import repair_commands
from topolog.projections.cli.replaying import replay
from topolog.projections.cli.schema_commands import cancel, rename
from topolog.projections.cli.sharing import alter, create, drop, reset, start_exchange
from topolog.projections.cli.spreading import spread
from topolog.projections.cli.terminal import Screen
from topolog.projections.cli.verify_commands import verify_commands
from topolog.projections.cli.waiting import wait
from topolog.projections.cli.watching import watch
from topolog.projections.cli.writing import propose, raise_level, remove

EXIT_CODES = "exit-codes"


def build(
    url: Callable[[], str] = lambda: DEFAULT_API, cluster: Callable[[], str | None] = lambda: None
) -> typer.Typer:
    """The app with the commands that read and ask.

    `url` and `cluster` are asked for what holds without flag and environment, by the command that needs it: whoever
    asks for help is not to be told that his settings are wrong.
    """
    app = typer.Typer(name="topolog", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_root)
    for command in (
        get,
        describe,
        history,
        explain,
        watch,
        diff,
        wait,
        apply,
        propose,
        remove,
        create,
        alter,
        rename,
        drop,
        cancel,
        reset,
        replay,
    ):
        app.command()(spread(command, api=url, cluster=cluster))
    app.command(name="start-exchange")(spread(start_exchange, api=url, cluster=cluster))
    app.command(name="raise-level")(spread(raise_level, api=url, cluster=cluster))
    app.command(name="help")(_help)
    app.add_typer(baseline_commands.cluster_commands(api=url, cluster=cluster), name="cluster")
    app.add_typer(baseline_commands.baseline_commands(api=url, cluster=cluster), name="baseline")
    app.add_typer(verify_commands(api=url, cluster=cluster), name="verify")
    app.add_typer(projection_commands(api=url, cluster=cluster), name="projection")
    app.add_typer(repair_commands(api=url, cluster=cluster), name="repair")
    app.add_typer(context_commands(), name="context")
    app.add_typer(auth_commands(api=url, cluster=cluster), name="auth")
    return app


def group(app: typer.Typer, name: str) -> typer.Typer:
    """The group of commands of this name, for who adds to it."""
    return next(each.typer_instance for each in app.registered_groups if each.name == name and each.typer_instance)


def run(app: typer.Typer, args: Sequence[str] | None = None) -> int:
    """Run the command that `args` (the process's own if None) name, and return the exit code.

    Errors of topolog and of usage are printed; an error that is neither is a bug and goes through with its trace.
    """
    given = sys.argv[1:] if args is None else list(args)
    no_color = "--no-color" in given
    try:
        result = typer.main.get_command(app).main(args=given, prog_name="topolog", standalone_mode=False)
    except TopologError as error:
        return report(error, no_color=no_color)
    except TyperException as error:
        return _report_usage(error, no_color=no_color)
    except typer.Abort:
        Screen(no_color=no_color).note("\nInterrupted.")
        return ExitCode.INTERRUPTED
    return result if isinstance(result, int) else ExitCode.OK


def report(error: TopologError, *, no_color: bool = False) -> int:
    """Print the error and what to do about it on stderr, with its trace if TOPOLOG_DEBUG is set; its exit code."""
    if os.environ.get("TOPOLOG_DEBUG"):
        traceback.print_exception(error)
    message = error.message
    if isinstance(error, Refused):
        message += f" [{error.code}{', rule ' if error.rule else ''}{error.rule}]"
    Screen(no_color=no_color).complaint(message, error.hint)
    return exit_code(error)


def _report_usage(error: TyperException, *, no_color: bool) -> int:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if message:
        Screen(no_color=no_color).complaint(message, f"`{context.command_path} --help` says more." if context else "")
    return error.exit_code


def _show_version(wanted: bool) -> None:
    if wanted:
        Screen().data(f"topolog {version('topolog')}\n")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The topology of a sharded cluster as one ordered log of decisions on Kafka."""


def _help(
    context: typer.Context,
    topic: Annotated[list[str] | None, typer.Argument(help=f"A command, or {EXIT_CODES}.")] = None,
) -> None:
    """Explain a command, or list the exit codes."""
    if topic == [EXIT_CODES]:
        Screen().view(_exit_code_table())
        return
    context.find_root().command.main(args=[*(topic or []), "--help"], prog_name="topolog", standalone_mode=False)


def _exit_code_table() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("CODE", justify="right")
    table.add_column("MEANING", overflow="fold")
    for code, meaning in MEANINGS.items():
        table.add_row(str(int(code)), meaning)
    return table
