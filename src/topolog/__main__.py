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

import os
from importlib.machinery import PathFinder

COMPLETION = "_TOPOLOG_COMPLETE"
VERSION = ("--version", "version")


def main() -> None:
    """The `topolog` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        from topolog.projections.cli.exit_codes import ExitCode

        sys.exit(ExitCode.INTERRUPTED)


def run(args: list[str]) -> int:
    """Run what the arguments name, and return the exit code."""
    if len(args) == 1 and args[0] in VERSION and COMPLETION not in os.environ:
        from topolog.projections.cli.help_page import version_line

        return _print(version_line())
    if PathFinder.find_spec("typer") is None:
        return _without_command_line()
    if COMPLETION in os.environ:
        from topolog.projections.cli import tab

        shown = tab.answer(os.environ[COMPLETION])
        shown = None if shown is None else f"{shown}\n"
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


def _print(text: str) -> int:
    """To stdout. Whoever reads may stop reading, as `head` does: then the command ends in peace."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


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
