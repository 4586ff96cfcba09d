"""What takes longer than `.ci/run` may: the soak, at sizes that take hours, and the mutants of what safety rests on.
How it ended and at which commit is kept.

    python -m tests.soak.deep [--seeds N] [--rounds N] [--changes N] [--every N]

Writes docs/deep.md anew, also when a part has failed or Ctrl-C ended the run. Ends with 1 unless all parts ended well.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from tests.benchmarks.results import ROOT, commit

PAGE = ROOT / "docs" / "deep.md"
SEEDS, ROUNDS, CHANGES, EVERY = 10_000, 300, 200, 1
_INTERRUPTED = 130
_MINUTE_S = 60


class Part(msgspec.Struct, frozen=True):
    """One command: `what` it does, as the page says it."""

    what: str
    command: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True):
    """How a part has ended; `code` is its exit code."""

    part: Part
    code: int
    took_s: float


def parts(seeds: int, rounds: int, changes: int, every: int) -> tuple[Part, ...]:
    """Those of `make soak`, and one in `every` mutants."""
    module = (sys.executable, "-m")
    simulated = (*module, "topolog", "simulate", "--keep-going", "--seeds", str(seeds))
    return (
        Part(f"{seeds:,} seeds of the simulation", simulated),
        Part(f"{rounds:,} rounds of faults on real brokers", (*module, "tests.soak", "--rounds", str(rounds))),
        Part(f"{changes:,} rounds of schema changes", (*module, "tests.soak.schema", "--rounds", str(changes))),
        Part(f"1 in {every:,} mutants", (*module, "tests.mutation", "--page", "--every", str(every))),
    )


def run(planned: Iterable[Part]) -> Iterator[Ended]:
    """Run all parts, whatever fails; Ctrl-C ends the one that runs, and none comes behind it."""
    for part in planned:
        began_s = time.monotonic()
        with subprocess.Popen(part.command, cwd=ROOT) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:  # It has heard the same, and ends its brokers first.
                process.wait()
                code = _INTERRUPTED
        yield Ended(part, code, time.monotonic() - began_s)
        if code == _INTERRUPTED:
            return


def page(ended: Sequence[Ended], name: str, at: datetime) -> str:
    """The page; `name` is that of the commit, with `+` if files differed from it, `at` in UTC."""
    rows = [
        f"| {each.part.what} | {'ended well' if each.code == 0 else f'**ended with {each.code}**'} "
        f"| {each.took_s / _MINUTE_S:.1f} |"
        for each in ended
    ]
    lines = [
        "# The last deep run",
        "",
        "What takes longer than `.ci/run` may. Written by `make test-deep` (`tests/soak/deep.py`), not by hand;",
        "what is run and checked: [faults.md](faults.md), [simulation.md](simulation.md), [mutants.md](mutants.md).",
        "",
        f"Commit `{name}`, {at:%Y-%m-%d}.",
        "",
        "| part | result | minutes |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.deep", description="The soak, and what it said last.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--changes", type=int, default=CHANGES)
    parser.add_argument("--every", type=int, default=EVERY, help="one mutant in N")
    given = parser.parse_args()
    name, at = commit(), datetime.now(UTC)
    ended = list(run(parts(given.seeds, given.rounds, given.changes, given.every)))
    PAGE.write_text(page(ended, name, at), encoding="utf-8")
    return int(any(each.code for each in ended))


if __name__ == "__main__":
    sys.exit(main())
