"""The table of the scenarios, keys 1 to 1000, what can be wrong with a replica of it, and its trees."""

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.merkle import Leaf
from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark.canonical import columns_of
from topolog.projections.spark.row_hashes import TOKEN, hashed
from topolog.projections.spark.trees import leaves


def numbers(spark: SparkSession, rows: int = 1000, parts: int = 1) -> DataFrame:
    key = F.col("id")
    name = F.when(key % 10 != 0, F.concat(F.lit("name "), key))
    return spark.range(1, rows + 1, 1, parts).select(key.alias("key"), (key * 3).alias("amount"), name.alias("name"))


def changed(frame: DataFrame, key: int, **values: Expression) -> DataFrame:
    new = {name: F.when(F.col("key") == key, value).otherwise(F.col(name)) for name, value in values.items()}
    return frame.withColumns(new)


def without(frame: DataFrame, *keys: int) -> DataFrame:
    return frame.filter(~F.col("key").isin(*keys))


def twice(frame: DataFrame, key: int) -> DataFrame:
    return frame.unionAll(frame.filter(F.col("key") == key))


def spec_of(frame: DataFrame, bits: int = 8, key: tuple[str, ...] = ("key",)) -> TreeSpec:
    return TreeSpec("numbers", columns_of(frame.schema), key, bits)


def tree(frame: DataFrame, spec: TreeSpec, ranges: Ranges = (FULL,), bits: int = 0) -> list[Leaf]:
    return sorted(leaves(frame, spec, ranges, bits or spec.bits), key=lambda leaf: leaf.bucket)


def leaf_of(frame: DataFrame, spec: TreeSpec, key: int) -> int:
    """The bucket of a key."""
    (row,) = hashed(frame.filter(F.col("key") == key), spec).select(TOKEN).collect()
    return int(row[0]) >> (32 - spec.bits)
