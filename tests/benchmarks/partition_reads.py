"""What questions about partitions cost on the server: pages, one by name, filters, pictures; of a million partitions.

    python -m tests.benchmarks.partition_reads [--groups 977] [--nodes 300] [--rounds 100] [--write]

Goals: one by name ≤ 2 ms, a page of 1,000 ≤ 50 ms. The figures are this machine's; `--write` puts them into
docs/reading-partitions.md. The log is made by hand, and read by a real projector into a store on this disk.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import msgspec
from tests.benchmarks.told import Spread, add_json, spread, tell
from tests.unit.projections.chronicle import Chronicle

from topolog.events.changes import pack_changes
from topolog.events.exchange import ExchangeCompleted, ExchangeStarted, FullPartitionMap, queued
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupCreated
from topolog.events.ids import Offset, TopologyVersion
from topolog.events.ownership import Change, Copy
from topolog.events.partitions import PartitionState
from topolog.events.terms import cluster
from topolog.projections import exchanges, explain_partition, forecast, partition_history, partitions
from topolog.projections.projector import Projector
from topolog.projections.store import Reading
from topolog.projections.web.heat import heat_maps

PAGE = Path(__file__).parents[2] / "docs" / "reading-partitions.md"
PARTITIONS, COPIES, LIMIT = 1_024, 3, 1_000
Question = Callable[[Reading], object]


def written(groups: int, nodes: int) -> Chronicle:
    """A log in which so many groups are shared out in turn, each by one exchange."""
    chronicle = Chronicle(pace_ms=10).start()
    names = tuple(f"n{number:03d}" for number in range(nodes))
    for name in names:
        chronicle.join(name, renewed=False)
    for group in range(groups):
        view = cluster(chronicle.fold.state).topology_version
        view = TopologyVersion(view.major, view.minor + 1)
        definition = GroupDefinition(f"g{group:03d}", PARTITIONS, COPIES - 1)
        chronicle.decide(GroupCreated(chronicle.ref(), group + 1, definition, view))
        triggers = queued(chronicle.fold.state)
        chronicle.decide(
            ExchangeStarted(triggers, (), Offset(0), 0),
            FullPartitionMap(definition.name, () if group else names, pack_changes(laid_out(group, nodes))),
            ExchangeCompleted(triggers[-1].version, (), ()),
        )
    return chronicle


def laid_out(group: int, nodes: int) -> Iterable[Change]:
    for number in range(PARTITIONS):
        holders = [(number * 7 + group * 13 + place * 31) % nodes for place in range(COPIES)]
        yield Change(number, tuple(Copy(each, PartitionState.OWNING, wanted=True) for each in holders), holders[0])


def page(filters: dict[str, str], after: str | None = None) -> Question:
    """What the API reads for one page, as the bytes it answers with."""
    return lambda reading: msgspec.json.encode(list(islice(partitions.partitions(reading, filters, after), LIMIT + 1)))


def questions(groups: int) -> dict[str, Question]:
    middle, numbers = f"g{groups // 2:03d}", random.Random(1)

    def any_one(reading: Reading) -> bytes:
        group = f"g{numbers.randrange(groups):03d}"
        return msgspec.json.encode(partitions.partition(reading, group, numbers.randrange(PARTITIONS)))

    def any_page(reading: Reading) -> object:
        return page({}, f"g{numbers.randrange(groups):03d}/{numbers.randrange(PARTITIONS)}")(reading)

    return {
        "any partition by name": any_one,
        "any page": any_page,
        "one partition by name": lambda r: msgspec.json.encode(partitions.partition(r, middle, 511)),
        "its history": lambda r: msgspec.json.encode(list(partition_history.of_partition(r, middle, 511))),
        "why it is there": lambda r: msgspec.json.encode(explain_partition.explain_partition(r, 0, middle, 511)),
        "the first page": page({}),
        "a page in the middle": page({}, f"{middle}/511"),
        "the same as of ten positions before": lambda r: page({}, f"{middle}/511")(r.as_of(r.position - 10)),
        "a page of those of one node": page({"node": "n017"}),
        "the lost ones of all, none": page({"state": "LOST"}),
        "the loading ones of all, none": page({"state": "MOVING"}),
        "a page of maps": lambda r: msgspec.json.encode(list(islice(partitions.maps(r, {}), LIMIT + 1))),
        "the map of one node of one group": lambda r: msgspec.json.encode(partitions.node_map(r, middle, "n017")),
        "a hundred exchanges": lambda r: msgspec.json.encode(list(islice(exchanges.exchanges(r, 0, {}), 101))),
        "counts by state of all": partitions.condition_totals,
        "the heat maps, drawn anew": heat_maps,
        "what if a node dies": lambda r: forecast.forecast(r, "n017", forecast.What.DIES),
    }


def times_ms(projector: Projector, question: Question, rounds: int) -> tuple[Spread, float]:
    """The rounds by the clock, and the best by this thread's own time; each round has a reading of its own."""
    walls, own = [], []
    for _ in range(rounds):
        with projector.reading() as reading:
            began_s, began_own_s = time.perf_counter(), time.thread_time()
            question(reading)
            walls.append((time.perf_counter() - began_s) * 1000)
            own.append((time.thread_time() - began_own_s) * 1000)
    return spread(walls), min(own)


def table(rows: Iterable[tuple[str, Spread, float]]) -> str:
    lines = [f"| {name} | {wall.p50:,.2f} | {wall.p99:,.2f} | {own:,.2f} |" for name, wall, own in rows]
    return "\n".join(["| question | p50 | p99 | processor |", "|---|---:|---:|---:|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=977)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", action="store_true", help=f"put the times into {PAGE.name}")
    add_json(parser)
    arguments = parser.parse_args()
    chronicle = written(arguments.groups, arguments.nodes)
    with tempfile.TemporaryDirectory() as folder:
        projector = Projector(chronicle.log.reader(), Path(folder), "main", wall_ms=lambda: chronicle.now_ms)
        while projector.step():
            pass
        asked = questions(arguments.groups)
        found = {name: times_ms(projector, each, arguments.rounds) for name, each in asked.items()}
        projector.close()
    measured = table((name, *times) for name, times in found.items())
    sys.stdout.write(f"{measured}\n")
    if arguments.write:
        before, begin, rest = PAGE.read_text(encoding="utf-8").partition("<!-- costs -->\n")
        _, end, after = rest.partition("<!-- end of costs -->")
        PAGE.write_text(f"{before}{begin}{measured}\n{end}{after}", encoding="utf-8")
    tell(arguments, {f"{name.replace(' ', '_')}_ms": wall for name, (wall, _) in found.items()})


if __name__ == "__main__":
    main()
