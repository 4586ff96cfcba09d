"""Members that answer from tables while these change and one of the members is stopped: rounds without end in sight.

    python -m tests.soak.schema --rounds 200 [--first SEED] [--bootstrap HOST:PORT]

One broker, one coordinator, three members, a fence of one second. The first round with an answer that no definition
justifies ends the run with 8, and shows it.
"""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.broker.conftest import Site
from tests.broker.schema_rounds import FENCE_MS, Played, Rounds
from tests.soak.ports import free_row

from topolog.streams.local.broker import LocalBroker

FOUND = 8
SHOWN_MAX = 3


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def soak(bootstrap: str, first: int, count: int) -> int:
    began_s, all_played = time.monotonic(), list[Played]()
    with (
        tempfile.TemporaryDirectory(prefix="topolog-schema-") as folder,
        contextlib.closing(Site(bootstrap, f"schema-{os.getpid()}")) as site,
    ):
        site.coordinator("c1", fence_ms=FENCE_MS)
        with contextlib.closing(Rounds(site, Path(folder))) as rounds:
            for seed in range(first, first + count):
                all_played.append(played := rounds.play(seed))
                say(line_of(played))
                if played.stale:
                    for answer, possible in played.stale[:SHOWN_MAX]:
                        say(f"{answer}\n  is justified by none of {possible}")
                    return FOUND
    report(all_played, time.monotonic() - began_s)
    return 0


def line_of(played: Played) -> str:
    verdict = f"{len(played.stale)} STALE of" if played.stale else "none stale of"
    commits = f"{played.commits} commits, {played.missed} while one was stopped"
    return f"seed {played.seed}: {verdict} {played.answers} answers; {commits}; {played.seconds:.1f} s"


def report(all_played: list[Played], seconds: float) -> None:
    answers, commits, missed = (
        sum(getattr(each, field) for each in all_played) for field in ("answers", "commits", "missed")
    )
    say(
        f"{len(all_played)} rounds, {answers:,} answers, {commits:,} commits, {missed:,} of them while a member was "
        f"stopped, in {seconds / 60:.1f} minutes. No answer was stale."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.schema", description="Rounds of schema changes.")
    parser.add_argument("--rounds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the seed of the first")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if given.bootstrap:
        return soak(given.bootstrap, given.first, given.rounds)
    with (
        tempfile.TemporaryDirectory(prefix="topolog-schema-kafka-") as folder,
        LocalBroker(Path(folder) / "kafka", port=free_row(2)).running() as status,
    ):
        return soak(status.bootstrap, given.first, given.rounds)


if __name__ == "__main__":
    sys.exit(main())
