"""How long explanations take in a long log: `python -m tests.benchmarks.explanations [positions]`.

A store of a million decisions: partitions that move while types are proposed and accepted and leases renewed, so that
what a question is about lies between much that it is not. The bar is that of RD20, «why is partition p on node n» in at
most 200 ms.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.told import Spread, Value, add_json, spread, tell
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.sharing import Sharing

from topolog.events.topics import Topic
from topolog.projections import causes, explain_decision, explain_partition, pending
from topolog.projections.projector import Projector
from topolog.projections.store import Reading

POSITIONS = 1_000_000
PARTITIONS = 1_024
ROUNDS = 40
"""How often a server leaves and comes back meanwhile."""

ASKED = 200


def fill(chronicle: Chronicle, until: int, numbers: random.Random) -> None:
    """Decisions about other things: three of ten are renewals, the others proposals and acceptances of 50 types."""
    while chronicle.position < until:
        draw = numbers.random()
        if draw < 0.3:
            chronicle.renew("s1", "s2")
        else:
            name = f"T{numbers.randrange(50)}"
            chronicle.propose(name, {"id": "long"}, actor="ann", reason="a new field")
            chronicle.accept(name, "s1", "s2", "s3")


def written(positions: int) -> Chronicle:
    chronicle = Chronicle(pace_ms=10).start()
    cluster, numbers = Sharing(chronicle), random.Random(1)
    cluster.join("s1", "s2", "s3", "s4")
    cluster.renew("s1", "s2", "s3", "s4")
    cluster.create("orders", PARTITIONS, 1)
    cluster.rest()
    for number in range(ROUNDS):
        fill(chronicle, positions * (number + 1) // (ROUNDS + 1), numbers)
        cluster.position = chronicle.position
        if number % 2 == 0:
            cluster.leave("s4")
        else:
            cluster.join("s4")
        cluster.rest()
    fill(chronicle, positions, numbers)
    return chronicle


def timed(what: str, ask: Callable[[], object], times: int = ASKED) -> Spread:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1_000)
    took.sort()
    sys.stdout.write(f"{what:42} p50 {took[len(took) // 2]:8.2f} ms   p99 {took[len(took) * 99 // 100]:8.2f} ms\n")
    sys.stdout.flush()
    return spread(took)


def measure(reading: Reading) -> dict[str, Value]:
    numbers = random.Random(2)

    def partition() -> object:
        return explain_partition.explain_partition(reading, 0, "orders", numbers.randrange(PARTITIONS))

    def past_partition() -> object:
        then = reading.as_of(numbers.randrange(reading.position // 10, reading.position))
        return explain_partition.explain_partition(then, 0, "orders", numbers.randrange(PARTITIONS))

    why = timed("why is partition p on node n", partition)
    why_then = timed("the same, as of the past", past_partition)
    timed("chain of any decision", lambda: causes.chain(reading, numbers.randrange(reading.position)))
    timed("a decision, with what followed", lambda: any_decision(reading, numbers))
    waits = timed("everything pending", lambda: pending.pending(reading, 0))
    past = "everything pending, as of the past"
    timed(past, lambda: pending.pending(reading.as_of(numbers.randrange(1_000, reading.position)), 0))
    return {"why_ms": why, "why_then_ms": why_then, "pending_ms": waits}


def any_decision(reading: Reading, numbers: random.Random) -> object:
    return explain_decision.explain_decision(reading, 0, numbers.randrange(reading.position))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("positions", type=int, nargs="?", default=POSITIONS)
    add_json(parser)
    arguments = parser.parse_args()
    began = time.perf_counter()
    chronicle = written(arguments.positions)
    entries = len(chronicle.log.entries(Topic.DECISIONS))
    sys.stdout.write(f"{entries} records written in {time.perf_counter() - began:.0f} s\n")
    with tempfile.TemporaryDirectory() as folder:
        projector = Projector(chronicle.log.reader(), Path(folder), "main")
        while projector.step():
            pass
        sys.stdout.write(f"projected by {time.perf_counter() - began:.0f} s\n")
        with projector.reading() as reading:
            told = measure(reading)
        projector.close()
    tell(arguments, told)


if __name__ == "__main__":
    main()
