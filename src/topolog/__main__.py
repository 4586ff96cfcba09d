"""The `topolog` command: what needs no command's module is answered here, everything else by the command itself.

Help and the Tab key read a table, so that they answer at once; a command loads its own module and what that needs.
"""

import signal
import sys

if (__name__ == "__main__" or sys.argv[0].rpartition("/")[2] == "topolog") and (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    # Ctrl-C while the libraries load: there is nothing to end in order, and a trace would tell nobody anything.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import gc
import os
from importlib.machinery import PathFinder
from io import TextIOWrapper

COMPLETION = "_TOPOLOG_COMPLETE"
VERSION = ("--version", "version")


def main() -> None:
    """The `topolog` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams()
    gc.disable()  # Nothing that is loaded is garbage; `app.run` lets commands collect theirs.
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        from topolog.projections.cli.exit_codes import ExitCode

        sys.exit(ExitCode.INTERRUPTED)
    finally:
        if not gc.isenabled():
            gc.freeze()  # No command ran: the interpreter, which looks through all of it at its end, finds no garbage.
        _end_streams()


def run(args: list[str]) -> int:
    """Run what the arguments name, and return the exit code."""
    if args and args[0] in VERSION and COMPLETION not in os.environ:
        from topolog.projections.cli import help_page

        shown = help_page.version_line() if len(args) == 1 else help_page.asked_for(args)
        if shown is not None:
            return _print(shown)
    if PathFinder.find_spec("typer") is None:
        return _without_command_line()
    if COMPLETION in os.environ:
        from topolog.events.errors import TopologError
        from topolog.projections.cli import tab

        try:
            shown = tab.answer(os.environ[COMPLETION])
        except TopologError:
            return 0  # the line that is typed is no place for complaints
        if shown is not None:
            _print(f"{shown}\n", complains=False)
            return 0
    else:
        from topolog.projections.cli import help_page

        shown = help_page.asked_for(args)
    if shown is not None:
        return _print(shown)
    from topolog.projections.cli import app

    return app.run(_typer_root, args)


def _typer_root() -> object:
    """Typer's view of all commands, for what is not plain; it costs more than most commands."""
    from topolog.commands.tree import root

    return root()


def _print(text: str, *, complains: bool = True) -> int:
    """To stdout. Whoever reads may stop reading, as `head` does: then the command ends in peace."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _end_streams()
    except OSError as error:
        from topolog.projections.cli.exit_codes import ExitCode
        from topolog.projections.cli.terminal import unwritten

        _end_streams()
        if complains:
            unwritten(error)
        return ExitCode.ERROR
    return 0


def _open_streams() -> None:
    """Whoever starts us may have closed a stream, and a name may hold what a stream's encoding has not."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115  # open until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115  # the same
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_streams() -> None:
    """What a stream cannot take is lost: the interpreter's last flush would make another exit code of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _without_command_line() -> int:
    """The node client and the query client are installed, the command line is not."""
    if COMPLETION not in os.environ:
        from topolog.events.errors import missing_extra
        from topolog.projections.cli.exit_codes import ExitCode

        error = missing_extra("The command line of topolog", "typer", "cli")
        sys.stderr.write(f"Error: {error.message}\n Hint: {error.hint}\n")
        return ExitCode.MISSING_EXTRA
    return 0


if __name__ == "__main__":
    main()
