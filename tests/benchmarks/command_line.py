"""What the command line takes of the processor before it has asked the API, and for help, as ratios to an empty Python.

    python -m tests.benchmarks.command_line [--rounds N] [--json]

A ratio, because it is the same on a fast and on a slow machine. The question goes to a port at which nobody answers.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from tests.benchmarks.told import add_json, tell

NOBODY = "http://127.0.0.1:1"
ASKING = ("get", "nodes", "--api", NOBODY, "--cluster", "demo")

SCRIPT = "import sys; sys.argv[0] = 'topolog'; from topolog.__main__ import main; sys.exit(main())"
"""What an installed `topolog` is."""


def processor_s(command: list[str], environ: Mapping[str, str]) -> float:
    """Seconds of the processor that a command takes, user and system, children included."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nowhere, number) for number in (0, 1, 2)]
    pid = os.posix_spawn(command[0], command, environ, file_actions=actions)
    os.close(nowhere)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime


def ratio(args: Sequence[str], rounds: int, environ: Mapping[str, str]) -> float:
    """Of the median of `topolog ARGS` to that of `python -c ''`, measured in turns."""
    empty, ours = [], []
    for _ in range(rounds + 1):  # the first writes what is compiled
        empty.append(processor_s([sys.executable, "-c", ""], environ))
        ours.append(processor_s([sys.executable, "-c", SCRIPT, *args], environ))
    return median(ours[1:]) / median(empty[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    add_json(parser)
    given = parser.parse_args()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    tab = {"_TOPOLOG_COMPLETE": "complete_bash", "COMP_WORDS": "topolog get ", "COMP_CWORD": "2"}
    names = {**tab, "COMP_WORDS": "topolog get node ", "COMP_CWORD": "3", "TOPOLOG_API__URL": NOBODY}
    told = {
        "get": ratio(ASKING, given.rounds, environ),
        "help": ratio(["get", "--help"], given.rounds, environ),
        "version": ratio(["version"], given.rounds, environ),
        "tab": ratio([], given.rounds, {**environ, **tab}),
        "names": ratio([], given.rounds, {**environ, **names}),
    }
    for name, value in told.items():
        print(f"{name}: {value:.1f} times an empty Python")
    tell(given, told)


if __name__ == "__main__":
    main()
