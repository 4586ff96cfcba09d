"""Two replicas of a table of 8 columns, about 65 bytes a row in Parquet, of which one differs by a given part."""

import shutil
from pathlib import Path

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

KINDS = 4
"""Of four rows that differ one is missing, one is there under another key, and two are changed."""


def table(spark: SparkSession, rows: int, parts: int) -> DataFrame:
    key = F.col("id")

    def hashed(salt: int) -> Expression:
        return F.xxhash64(F.lit(salt), key)

    states = F.array(*map(F.lit, ("new", "paid", "sent", "back")))
    return spark.range(0, rows, 1, parts).select(
        key,
        F.pmod(hashed(0), F.lit(1_000_000)).cast("int").alias("account"),
        (F.shiftrightunsigned(hashed(1), 44) / 100).cast("decimal(12,2)").alias("amount"),
        F.timestamp_micros(F.lit(1_700_000_000_000_000) + key * 977_123).alias("at"),
        F.element_at(states, (F.pmod(hashed(2), F.lit(4)) + 1).cast("int")).alias("state"),
        F.when(F.pmod(hashed(3), F.lit(10)) != 0, F.substring(F.sha2(key.cast("string"), 256), 1, 24)).alias("name"),
        (hashed(4) / 1e9).alias("score"),
        F.substring(F.md5(key.cast("string")), 1, 12).alias("note"),
    )


def drifted(frame: DataFrame, rows: int, one_in: int) -> DataFrame:
    """One of so many rows differs; 0: none."""
    if not one_in:
        return frame
    is_bad = F.pmod(F.xxhash64(F.lit(99), "id"), F.lit(one_in)) == 0
    kind = F.pmod(F.xxhash64(F.lit(98), "id"), F.lit(KINDS))
    kept = frame.filter(~(is_bad & (kind == 0)))
    kept = kept.withColumn("score", F.when(is_bad & (kind >= 2), F.col("score") + 1).otherwise(F.col("score")))
    return kept.withColumn("id", F.when(is_bad & (kind == 1), F.col("id") + rows).otherwise(F.col("id")))


def written(spark: SparkSession, folder: Path, rows: int, one_in: int | None) -> Path:
    """The first replica (`one_in` None) or one that has drifted from it, in other files; kept for the next run."""
    place = folder / (f"{rows}-first" if one_in is None else f"{rows}-{one_in}")
    if not (place / "_SUCCESS").exists():
        shutil.rmtree(place, ignore_errors=True)
        made = table(spark, rows, 8) if one_in is None else drifted(table(spark, rows, 6), rows, one_in)
        made.write.parquet(str(place))
    return place
