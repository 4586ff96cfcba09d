"""A folder of Parquet, the replica that it is, and rows on their way from one to another."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from topolog.events.replica import Cut, RowDigest, SentRow
from topolog.events.token_range import FULL
from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.sources.parquet import ParquetSource


def nothing(*_: object) -> None:
    """For who wants no progress, and whom no fence stops."""


class Place:
    """A folder of Parquet, and the replica that it is."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.source = ParquetSource(folder)
        self.replica = SparkReplica(spark, self.source, "numbers", folder.name, ("key",))

    def save(self, frame: DataFrame, *partitions: str, mode: str = "errorifexists") -> "Place":
        writer = frame.write.mode(mode)
        (writer.partitionBy(*partitions) if partitions else writer).parquet(str(self.folder))
        return self

    def files(self) -> set[Path]:
        return set(self.folder.rglob("*.parquet"))

    def rows(self) -> dict[int, tuple[object, ...]]:
        return {row["key"]: tuple(row) for row in self.spark.read.parquet(str(self.folder)).collect()}

    def digests(self, spec: TreeSpec, cut: Cut | None = None) -> dict[str, RowDigest]:
        return {each.key: each for each in self.replica.digests(spec, (FULL,), cut, nothing)}


def spec_of(place: Place) -> TreeSpec:
    told = place.replica.describe()
    return TreeSpec(told.table, told.columns, told.key, 8)


def sent(place: Place, target: Place, spec: TreeSpec, *keys: str) -> list[SentRow]:
    """Rows of the one for the other, as compared just now."""
    there = target.digests(spec)
    name = target.folder.name
    contents = {key: there[key].content if key in there else None for key in keys}
    return [SentRow(key, values, ((name, contents[key]),)) for key, values in place.replica.rows(spec, keys, None)]
