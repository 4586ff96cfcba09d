"""How every command of topolog is run and ends, and the commands about the command line itself."""

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from topolog.events.errors import BadInput, Refused, TopologError
from topolog.projections.cli import completion, direct, help_page
from topolog.projections.cli.contexts import DEFAULTS, Defaults
from topolog.projections.cli.exit_codes import ExitCode, exit_code
from topolog.projections.cli.loading import missing_extra_of, without_command_line_of_httpx
from topolog.projections.cli.terminal import Screen
from topolog.settings.values import utf8_text


def run(command: Callable[[], Any], args: Sequence[str] | None = None, defaults: Defaults | None = None) -> int:
    """Run the command that `args` (the process's own if None) name, and return the exit code.

    `command` makes Typer's view of all commands, for arguments that take more than the table to read.
    `defaults` hold where neither flag, context nor environment says which API is meant, those of the settings if None.
    Errors of topolog and of usage are printed; an error that is neither is a bug and goes through with its trace.
    """
    given = sys.argv[1:] if args is None else list(args)
    no_color = "--no-color" in given
    token = DEFAULTS.set(defaults or Defaults())
    try:
        _check_text(given)
        if (page := help_page.asked_for(given)) is not None:
            Screen(no_color=no_color).data(page)
            return ExitCode.OK
        with without_command_line_of_httpx():
            call = direct.prepared(given)
            _collect_garbage()
            if call is not None:
                result = call()
            else:
                result = command().main(args=given, prog_name="topolog", standalone_mode=False)
    except TopologError as error:
        return report(error, no_color=no_color)
    except TyperException as error:
        if (missing := missing_extra_of(given)) is not None:
            return report(missing, no_color=no_color)
        return _report_usage(error, no_color=no_color)
    except typer.Exit as end:
        return end.exit_code
    except (typer.Abort, KeyboardInterrupt, EOFError):
        Screen(no_color=no_color).note("\nInterrupted.")
        return ExitCode.INTERRUPTED
    finally:
        DEFAULTS.reset(token)
    return result if isinstance(result, int) else ExitCode.OK


def _check_text(args: Sequence[str]) -> None:
    """BadInput for an argument that no file, address or record of ours can hold."""
    for word in args:
        try:
            utf8_text(word)
        except ValueError as error:
            raise BadInput(f"The argument {word!r} cannot be read: {error}.") from error


def _collect_garbage() -> None:
    """From here on, if `main` has put it off. What is loaded stays: no collection walks it, nor does the last one."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


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
    message, context = _wrong_value(error) or error.format_message(), getattr(error, "ctx", None)
    if message:
        Screen(no_color=no_color).complaint(message, f"`{context.command_path} --help` says more." if context else "")
    return error.exit_code


def _wrong_value(error: TyperException) -> str:
    """What is wrong with a value, '' if something else is: Typer has pydantic check it, and says that in its words."""
    found: list[Any] = getattr(error.__cause__, "errors", list)()
    param = getattr(error, "param", None)
    if not found or param is None:
        return ""
    value, bounds = found[0]["input"], found[0].get("ctx", {})
    name = max(param.opts, key=len) if param.param_type_name == "option" else param.name.upper()
    if choices := param.type_descriptor.choices:
        return f"{name} {value!r} is none of {', '.join(str(each) for each in choices)}."
    if "ge" in bounds:
        return f"{name} {value} is less than {bounds['ge']}."
    if "le" in bounds:
        return f"{name} {value} is more than {bounds['le']}."
    number = {"int": "whole number", "float": "number"}.get(found[0]["type"].partition("_")[0])
    return f"{name} {value!r} is no {number}." if number else f"{name} {value!r} cannot be."


def explain_command(
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help=f"A command, or {help_page.EXIT_CODES}.", autocompletion=completion.commands
        ),
    ] = None,
) -> None:
    """Explain a command, or list the exit codes."""
    if (page := help_page.explained(topic or [])) is None:
        raise BadInput(f"There is no command {' '.join(topic or [])!r}.", hint="`topolog --help` lists them all.")
    Screen().data(page)
