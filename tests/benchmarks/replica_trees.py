"""Trees on Spark: rows a second, by the number of leaves and the strength.

    python -m tests.benchmarks.replica_trees [--rows 20000000] [--folder DIR] [--rounds 2]

Goal: 2 million rows a second on two cores at 2^12 leaves. Cassandra 5's validation: 90–165 thousand rows a second cold,
260–440 thousand warm, per node. The figures are this machine's.
"""

import argparse
import tempfile
from pathlib import Path

from tests.benchmarks.processor import measured
from tests.benchmarks.replica_tables import written
from tests.benchmarks.told import Value, add_json, tell

from topolog.events.token_range import FULL
from topolog.events.tree_spec import Strength, TreeSpec
from topolog.projections.spark.canonical import columns_of
from topolog.projections.spark.session import SessionSettings, spark_session
from topolog.projections.spark.trees import leaves

TREES = (
    (Strength.FAST, 12),
    (Strength.FAST, 16),
    (Strength.FAST, 20),
    (Strength.STRONG, 12),
    (Strength.STRONG, 16),
    (Strength.PROOF, 12),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the tables are kept for the next run")
    add_json(parser)
    arguments = parser.parse_args()
    told: dict[str, Value] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        with spark_session(Path(scratch) / "spark", SessionSettings(cores=2, memory="4g")) as spark:
            frame = spark.read.parquet(str(written(spark, folder, arguments.rows, None)))
            columns = columns_of(frame.schema)
            print("| strength | leaves | seconds | processor s | million rows/s | rows in the largest leaf |")
            print("|---|---:|---:|---:|---:|---:|")
            for strength, bits in TREES:
                spec = TreeSpec("benchmark", columns, ("id",), bits, strength)
                costs = []
                for _ in range(arguments.rounds):
                    cost, made = measured(lambda: list(leaves(frame, spec, (FULL,), bits)))  # noqa: B023
                    costs.append(cost)
                best = min(costs, key=lambda cost: cost.wall)
                rate = arguments.rows / best.wall / 1e6
                told[f"rows_per_s.{strength.value}.{bits}"] = rate * 1e6
                largest = max(leaf.rows for leaf in made)
                print(
                    f"| {strength.value} | 2^{bits} | {best.wall:.1f} | {best.processor:.1f} | {rate:.2f} | {largest} |"
                )
    tell(arguments, told)


if __name__ == "__main__":
    main()
