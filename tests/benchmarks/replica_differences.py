"""Two replicas are compared until each row that differs is named: ours, and what else there is.

    python -m tests.benchmarks.replica_differences [--rows 1000000,5000000,20000000] [--differ "1 %"] [--rounds 1]
                                                   [--folder DIR] [--peers PYTHON]

Ours: `spark.differences.compare`; and what replicas on two machines do, leaves and then the digests of those that
differ. Beside it Spark's full outer join on the key in the same session, all columns compared; with --peers, a Python
with duckdb and reladiff, DuckDB's EXCEPT both ways and reladiff over DuckDB, in processes of their own. All must name
the same rows, or there is no table. The processor's seconds are of all processes; a ratio is to the outer join.

Goal: less than half of the outer join's time at 20 million rows; about one row read for each that differs (Cassandra
moves 10.3).
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.benchmarks.peers_of_comparison import PEERS, asked
from tests.benchmarks.processor import Cost, measured
from tests.benchmarks.replica_tables import written

from topolog.events.merkle import differing_ranges
from topolog.events.token_range import FULL
from topolog.events.tree_spec import LEAF_ROWS, TreeSpec, bits_for
from topolog.projections.spark.canonical import columns_of
from topolog.projections.spark.differences import compare
from topolog.projections.spark.digests import digests
from topolog.projections.spark.session import SessionSettings, spark_session
from topolog.projections.spark.trees import leaves

PARTS = {"0 %": 0, "0.01 %": 10_000, "1 %": 100}


class Found(msgspec.Struct, frozen=True):
    """How many keys differ, and of how many rows more than a hash was read to say so."""

    keys: int
    moved: int | None = None


def spec_of(frame: DataFrame, rows: int) -> TreeSpec:
    return TreeSpec("benchmark", columns_of(frame.schema), ("id",), bits_for(rows))


def ours(left: DataFrame, right: DataFrame, rows: int) -> Found:
    found = compare(left, right, spec_of(left, rows))
    return Found(len(found.differences), found.rows_moved)


def ours_with_columns(left: DataFrame, right: DataFrame, rows: int) -> Found:
    found = compare(left, right, spec_of(left, rows), names_columns=True)
    return Found(len(found.differences), found.rows_moved)


def trees(left: DataFrame, right: DataFrame, rows: int) -> Found:
    """As two validators: leaves of both, then the digests of leaves that differ, compared by key."""
    spec = spec_of(left, rows)
    made = [list(leaves(frame, spec, (FULL,), spec.bits)) for frame in (left, right)]
    ranges = differing_ranges(made[0], made[1], spec.bits)
    if not ranges:
        return Found(0, 0)
    sides = [{each.key: each.content for each in digests(frame, spec, ranges)} for frame in (left, right)]
    keys = sum(sides[0].get(key) != sides[1].get(key) for key in sides[0].keys() | sides[1].keys())
    return Found(keys, sum(map(len, sides)))


def outer_join(left: DataFrame, right: DataFrame, rows: int) -> Found:
    one, other = left.alias("one"), right.alias("other")
    differs = F.col("one.id").isNull() | F.col("other.id").isNull()
    for name in left.columns:
        differs = differs | ~F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}"))
    joined = one.join(other, F.col("one.id") == F.col("other.id"), "full_outer").filter(differs)
    table = joined.select(F.coalesce("one.id", "other.id")).toArrow()
    return Found(table.num_rows)


OWN: dict[str, Callable[[DataFrame, DataFrame, int], Found]] = {
    "Spark's full outer join": outer_join,
    "ours": ours,
    "ours, columns named": ours_with_columns,
    "trees and digests, as between machines": trees,
}
SLOW = "trees and digests, as between machines"
DIGESTS_MAX = 5_000_000
WARM_UP_ROWS = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,5000000,20000000")
    parser.add_argument("--differ", nargs="+", choices=[*PARTS], default=[*PARTS], help="which parts of the rows")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the tables are kept for the next run")
    parser.add_argument("--peers", type=Path, help="a Python with duckdb and reladiff")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.folder or Path(scratch)).absolute()
        # Spark's own number of partitions: the join is not to suffer from ours.
        settings = SessionSettings(memory="4g", shuffle_partitions=200)
        with spark_session(Path(scratch) / "spark", settings) as spark:
            warm_up(spark, folder)
            print("| rows | differ | by | keys found | seconds | ratio | processor s | ratio | rows read for each |")
            print("|---:|---:|---|---:|---:|---:|---:|---:|---:|")
            for rows in map(int, arguments.rows.split(",")):
                first = written(spark, folder, rows, None)
                for name in arguments.differ:
                    one_in = PARTS[name]
                    second = written(spark, folder, rows, one_in)
                    left, right = (spark.read.parquet(str(place)) for place in (first, second))
                    runs = {by: (lambda run=run: run(left, right, rows)) for by, run in OWN.items()}  # noqa: B023
                    if 0 < one_in < LEAF_ROWS and rows > DIGESTS_MAX:
                        del runs[SLOW]  # nearly all leaves differ: that many digests are for pages, not for one list
                    if arguments.peers:
                        runs |= {by: (lambda by=by: Found(asked(arguments.peers, by, first, second))) for by in PEERS}  # noqa: B023
                    report(rows, name, {by: best(run, arguments.rounds) for by, run in runs.items()})


def warm_up(spark: SparkSession, folder: Path) -> None:
    """What the JVM compiles at its first queries is to be in nobody's time."""
    places = [written(spark, folder, WARM_UP_ROWS, one_in) for one_in in (None, 100)]
    left, right = (spark.read.parquet(str(place)) for place in places)
    for _ in range(2):
        for run in OWN.values():
            run(left, right, WARM_UP_ROWS)


def best(run: Callable[[], Found], rounds: int) -> tuple[Cost, Found]:
    return min((measured(run) for _ in range(rounds)), key=lambda each: each[0].wall)


def report(rows: int, part: str, found: dict[str, tuple[Cost, Found]]) -> None:
    if len({each.keys for _, each in found.values()}) != 1:
        sys.exit(f"They do not name the same rows: { {by: each.keys for by, (_, each) in found.items()} }")
    join, _ = found["Spark's full outer join"]
    for by, (cost, each) in found.items():
        read = "" if each.moved is None or not each.keys else f"{each.moved / each.keys:.1f}"
        ratios = f"{cost.wall / join.wall:.2f} | {cost.processor:.1f} | {cost.processor / join.processor:.2f}"
        print(f"| {rows:,} | {part} | {by} | {each.keys:,} | {cost.wall:.1f} | {ratios} | {read} |", flush=True)


if __name__ == "__main__":
    main()
