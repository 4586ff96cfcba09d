"""Two replicas are compared until each row that differs is named: ours, and what else there is.

    python -m tests.benchmarks.replica_differences [--rows 1000000,5000000,20000000] [--differ "1 %"] [--rounds 1]
                                                   [--folder DIR] [--peers PYTHON]

Ours is what validators and the rendezvous do, in one process and without the topic between them: leaves of both,
compared and refined as a session refines them; digests of the rows in leaves that differ, on pages; these paired until
each difference stands on a page of findings. Beside it Spark's full outer join on the key in the same session, all
columns compared; with --peers, a Python with duckdb and reladiff, DuckDB's EXCEPT both ways and reladiff over DuckDB,
in processes of their own. All must name the same rows, or there is no table. The processor's seconds are of all
processes; a ratio is to the outer join.

Goal: less than half of the outer join's time at 20 million rows.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.benchmarks.peers_of_comparison import PEERS, asked
from tests.benchmarks.processor import Cost, measured
from tests.benchmarks.replica_tables import written
from tests.benchmarks.told import Value, add_json, tell

from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.repair_plan import Difference, Direction
from topolog.events.repair_tasks import Pair
from topolog.events.replica import Cut, RowDigest
from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_answers import item_pages, items
from topolog.events.tree_spec import LEAF_ROWS, REFINE_BITS, TreeSpec, bits_for
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.session import SessionSettings, spark_session
from topolog.projections.spark.sources.parquet import ParquetSource
from topolog.streams.rendezvous.comparing import compared, found
from topolog.streams.rules.repair_steps import DIGESTS_MAX, REFINED_ROWS

Made = TypeVar("Made")
JOIN = "Spark's full outer join"
PARTS = {"0 %": 0, "0.01 %": 10_000, "1 %": 100}
NAMES = ("r1", "r2")
BAD_SHARE_MAX = 0.2

WARM_UP_ROWS = 300_000


class Found(msgspec.Struct, frozen=True):
    """How many keys differ, and of how many rows digests were made to say so."""

    keys: int
    moved: int | None = None


class Two:
    """Two replicas at their read points, in Parquet."""

    def __init__(self, spark: SparkSession, places: Sequence[Path]) -> None:
        self.frames = [spark.read.parquet(str(place)) for place in places]
        self._replicas = {
            name: SparkReplica(spark, ParquetSource(place), "benchmark", name, ("id",))
            for name, place in zip(NAMES, places, strict=True)
        }
        told = [each.describe() for each in self._replicas.values()]  # validators do so when they start
        self._spec = TreeSpec("benchmark", told[0].columns, ("id",), bits_for(max(each.rows for each in told)))

    def ours(self) -> Found:
        spec = self._spec
        way = Direction(SessionDefinition("benchmark", SessionKind.PREVIEW, Policy.REPORT), spec, "r1")
        cuts = self._each(lambda name: self._replicas[name].cut(_unheard))
        try:
            pair = self._narrowed(spec, cuts)
            if not pair.ranges:
                return Found(0, 0)
            sent = self._each(lambda name: self._digests(name, spec, pair.ranges, cuts[name]))
            moved = sum(count for count, _ in sent.values())
            pages = {name: payloads for name, (_, payloads) in sent.items()}
            differences = found(pages, None, pair.ranges, moved, way).payloads
            return Found(len({each.key for each in items(differences, Difference)}), moved)
        finally:
            for name, cut in cuts.items():
                if cut is not None:
                    self._replicas[name].release(cut)

    def _narrowed(self, spec: TreeSpec, cuts: dict[str, Cut | None]) -> Pair:
        """Leaves that differ, as fine as a session makes them (RE21)."""
        bits = spec.bits
        ranges: Ranges = (FULL,)
        while True:
            at, within = bits, ranges
            trees = self._each(lambda name: list(self._replicas[name].leaves(spec, within, at, cuts[name], _unheard)))  # noqa: B023
            pair = compared(*NAMES, trees["r1"], trees["r2"], bits, ranges)
            is_fine = pair.leaf_rows_max <= LEAF_ROWS and pair.rows <= REFINED_ROWS
            if is_fine or bits + REFINE_BITS > 32 or pair.leaves > BAD_SHARE_MAX * pair.leaves_compared:
                return pair
            bits, ranges = bits + REFINE_BITS, pair.ranges

    def _digests(self, name: str, spec: TreeSpec, ranges: Ranges, cut: Cut | None) -> tuple[int, list[bytes]]:
        count = 0

        def counted() -> Iterator[RowDigest]:
            nonlocal count
            for each in self._replicas[name].digests(spec, ranges, cut, _unheard):
                count += 1
                yield each

        payloads = list(item_pages(counted()))
        return count, payloads

    def _each(self, action: Callable[[str], Made]) -> dict[str, Made]:
        """Both at once, as two validators are."""
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(NAMES, pool.map(action, NAMES), strict=True))

    def outer_join(self) -> Found:
        left, right = self.frames
        one, other = left.alias("one"), right.alias("other")
        differs = F.col("one.id").isNull() | F.col("other.id").isNull()
        for name in left.columns:
            differs = differs | ~F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}"))
        joined = one.join(other, F.col("one.id") == F.col("other.id"), "full_outer").filter(differs)
        return Found(joined.select(F.coalesce("one.id", "other.id")).toArrow().num_rows)

    @property
    def runs(self) -> dict[str, Callable[[], Found]]:
        return {JOIN: self.outer_join, "ours": self.ours}


def peer(python: Path, by: str, places: tuple[Path, Path]) -> Found:
    return Found(asked(python, by, *places))


def _unheard(rows: int, size: int) -> None:
    """Nobody waits for a word of progress."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,5000000,20000000")
    parser.add_argument("--differ", nargs="+", choices=[*PARTS], default=[*PARTS], help="which parts of the rows")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the tables are kept for the next run")
    parser.add_argument("--peers", type=Path, help="a Python with duckdb and reladiff")
    add_json(parser)
    arguments = parser.parse_args()
    told: dict[str, Value] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.folder or Path(scratch)).absolute()
        # Spark's own number of partitions: the join is not to suffer from ours.
        settings = SessionSettings(cores=2, memory="4g", shuffle_partitions=200)
        with spark_session(Path(scratch) / "spark", settings) as spark:
            warm_up(spark, folder)
            print("| rows | differ | by | keys found | seconds | ratio | processor s | ratio | rows moved for each |")
            print("|---:|---:|---|---:|---:|---:|---:|---:|---:|")
            for rows in map(int, arguments.rows.split(",")):
                first = written(spark, folder, rows, None)
                for name in arguments.differ:
                    one_in = PARTS[name]
                    places = (first, written(spark, folder, rows, one_in))
                    runs = Two(spark, places).runs
                    if 0 < one_in < LEAF_ROWS and len(NAMES) * rows > DIGESTS_MAX:
                        del runs["ours"]  # nearly all leaves differ: a session says that all is to be copied
                    if arguments.peers:
                        runs |= {by: partial(peer, arguments.peers, by, places) for by in PEERS}
                    found = {by: best(run, arguments.rounds) for by, run in runs.items()}
                    report(rows, name, found)
                    told |= {f"{by.replace(' ', '_')}_s.{rows}.{one_in}": cost.wall for by, (cost, _) in found.items()}
    tell(arguments, told)


def warm_up(spark: SparkSession, folder: Path) -> None:
    """What the JVM compiles at its first queries is to be in nobody's time."""
    places = [written(spark, folder, WARM_UP_ROWS, one_in) for one_in in (None, 100)]
    for _ in range(2):
        for run in Two(spark, places).runs.values():
            run()


def best(run: Callable[[], Found], rounds: int) -> tuple[Cost, Found]:
    return min((measured(run) for _ in range(rounds)), key=lambda each: each[0].wall)


def report(rows: int, part: str, found_by: dict[str, tuple[Cost, Found]]) -> None:
    if len({each.keys for _, each in found_by.values()}) != 1:
        sys.exit(f"They do not name the same rows: { {by: each.keys for by, (_, each) in found_by.items()} }")
    join, _ = found_by[JOIN]
    for by, (cost, each) in found_by.items():
        moved = "" if each.moved is None or not each.keys else f"{each.moved / each.keys:.1f}"
        ratios = f"{cost.wall / join.wall:.2f} | {cost.processor:.1f} | {cost.processor / join.processor:.2f}"
        print(f"| {rows:,} | {part} | {by} | {each.keys:,} | {cost.wall:.1f} | {ratios} | {moved} |", flush=True)


if __name__ == "__main__":
    main()
