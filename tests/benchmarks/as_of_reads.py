"""What a read of the past costs in a store of a million positions, or of twenty: any position, any moment.

    python -m tests.benchmarks.as_of_reads [--positions 1000000] [--types 2000] [--reads 2000] [--cache DIR]

Goal (OP29): p95 ≤ 50 ms as of any position of 20 M. The store is written directly, set by set, as a projector
writes them: half of the positions renew leases, half propose and accept versions of 2,000 types, in turn. The sets are
those of one real fold of four rounds over all types; they are written again and again at later positions, so the rows'
own numbers repeat, while keys, sizes and the lengths of histories are those of such a log. With `--cache` the store is
kept for the next run, as large as it is. A read is what the API does without the network: the position is found, the
row or the page is read and encoded.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec
from tests.benchmarks.told import Spread, add_json, spread, tell
from tests.unit.projections.chronicle import START_MS, Chronicle

from topolog.events.ids import Offset, Place, Position
from topolog.events.metadata import TypeRow
from topolog.projections.layout import Meta, WholeSet
from topolog.projections.store import Reading, Store
from topolog.projections.whole_sets import WholeSets

NODES, ROUNDS, PACE_MS, BATCH, PAGE = 20, 4, 20, 500, 100


def template(types: int) -> tuple[list[WholeSet], list[WholeSet]]:
    """The sets of a log's beginning, and those of some rounds over all types, as one fold makes them."""
    chronicle = Chronicle("bench", pace_ms=PACE_MS).start()
    nodes = [f"n{number}" for number in range(NODES)]
    for name in nodes:
        chronicle.join(name)
    beginning = chronicle.position
    for turn in range(types * ROUNDS):
        name = f"T{turn % types:05d}"
        chronicle.propose(name, {f"f{turn // types}": "int"}, reason="the benchmark")
        chronicle.renew(*nodes[: NODES // 2])
        chronicle.accept(name, *nodes)
        chronicle.renew(*nodes[NODES // 2 :])
    folding = WholeSets(Chronicle().fold.state, Meta("bench"))
    sets = [found for entry in chronicle.entries if isinstance(found := folding.read(entry), WholeSet)]
    first = [each for each in sets if each.meta.position <= beginning]
    return first, sets[len(first) :]


def moved(whole: WholeSet, by: int) -> WholeSet:
    """The same set so many positions later."""
    header = msgspec.structs.replace(whole.meta.header, position=Position(whole.meta.position + by))
    meta = msgspec.structs.replace(
        whole.meta,
        header=header,
        last_offset=Offset(header.position),
        logged_at_ms=START_MS + header.position * PACE_MS,
    )
    decisions = [
        msgspec.structs.replace(
            each, place=Place(Position(each.place.position + by), each.place.chain, each.place.term)
        )
        for each in whole.decisions
    ]
    return WholeSet(meta, decisions, whole.rows)


def sets_up_to(positions: int, types: int) -> Iterator[WholeSet]:
    beginning, rounds = template(types)
    yield from (moved(each, 0) for each in beginning)
    length = rounds[-1].meta.position - beginning[-1].meta.position
    for by in range(0, positions, length):
        for each in rounds:
            if each.meta.position + by >= positions:
                return
            yield moved(each, by)


def filled(folder: Path, positions: int, types: int) -> Store:
    """The store, written up to there if it is not yet; one that was left half written is written anew."""
    whole = folder / "whole"
    if not whole.exists():
        shutil.rmtree(folder, ignore_errors=True)
    store = Store(folder, "bench")
    if not whole.exists():
        began_s, sets = time.monotonic(), sets_up_to(positions, types)
        while batch := list(islice(sets, BATCH)):
            store.write(batch)
        took_s = time.monotonic() - began_s
        whole.touch()
        print(f"{store.meta.position + 1:,} positions written in {took_s:,.0f} s", flush=True)
    return store


def page(reading: Reading, start: str) -> bytes:
    rows = islice(reading.rows(TypeRow, start=start), PAGE)
    return msgspec.json.encode([row for _, row in rows])


def questions(numbers: random.Random, keys: Sequence[str]) -> dict[str, Callable[[Reading], object]]:
    def past(reading: Reading) -> Reading:
        return reading.as_of(numbers.randrange(reading.position // 10, reading.position))

    def at_time(reading: Reading) -> object:
        spent_ms = reading.meta.logged_at_ms - START_MS
        then = reading.as_of(reading.position_at(START_MS + numbers.randrange(spent_ms // 10, spent_ms)))
        return msgspec.json.encode(then.row(TypeRow, numbers.choice(keys)))

    def diff(reading: Reading) -> object:
        key = numbers.choice(keys)
        return past(reading).row(TypeRow, key), past(reading).row(TypeRow, key)

    return {
        "row": lambda reading: msgspec.json.encode(past(reading).row(TypeRow, numbers.choice(keys))),
        "page": lambda reading: page(past(reading), numbers.choice(keys)),
        "time": at_time,
        "two_moments": diff,
    }


def timed(store: Store, ask: Callable[[Reading], object], reads: int) -> Spread:
    found = []
    for _ in range(reads):
        began_s = time.perf_counter()
        with store.reading() as reading:
            ask(reading)
        found.append((time.perf_counter() - began_s) * 1000)
    return spread(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=1_000_000)
    parser.add_argument("--types", type=int, default=2_000)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--cache", type=Path, help="where the store is kept between runs")
    add_json(parser)
    arguments = parser.parse_args()
    told = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = (
            arguments.cache / f"{arguments.positions}-{arguments.types}" if arguments.cache else Path(scratch) / "store"
        )
        with closing(filled(folder, arguments.positions, arguments.types)) as store:
            with store.reading() as reading:
                keys = [key for key, _ in reading.rows(TypeRow)]
            for name, ask in questions(random.Random(1), keys).items():
                told[f"{name}_ms"] = found = timed(store, ask, arguments.reads)
                sys.stdout.write(f"{name:12} {found.p50:8.2f} / {found.p95:.2f} / {found.p99:.2f} ms p50 / p95 / p99\n")
    tell(arguments, told)


if __name__ == "__main__":
    main()
