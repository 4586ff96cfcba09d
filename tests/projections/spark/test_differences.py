"""Two tables in one session: exactly the rows that differ, by whichever way they are found."""

from collections import Counter

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.projections.spark.tables import changed, numbers, spec_of, twice, without

from topolog.events.token_range import TokenRange
from topolog.events.tree_spec import Strength
from topolog.projections.spark.differences import Kind, RowDifference, compare
from topolog.projections.spark.row_hashes import PLACE, hashed

BY_HASHES, BY_LEAVES, BY_SPARK = 1 << 26, 600, 1
"""How many rows may come to the driver: all, those of leaves that differ, none."""


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return numbers(spark)


@pytest.mark.parametrize("is_null", [False, True])
def test_keys_of_other_types_and_null_are_named_as_well(table: DataFrame, *, is_null: bool) -> None:
    """Scenarios 2, 3, 5: a key that is no long, or a long that may be NULL, is read again by its place."""
    null = F.lit(None).cast("long")
    key = F.when(F.col("key") == 9, null).otherwise(F.col("key")) if is_null else F.concat(F.lit("k"), F.col("key"))
    sides = [frame.withColumn("key", key) for frame in (table, without(changed(table, 9, amount=F.lit(0)), 8))]
    found = compare(sides[0], sides[1], spec_of(sides[0]), names_columns=True)
    names = ("[8]", "[null]") if is_null else ('["k8"]', '["k9"]')
    assert found.differences == (
        RowDifference(names[0], Kind.MISSING, 1, 0),
        RowDifference(names[1], Kind.CHANGED, 1, 1, ("amount",)),
    )


@pytest.mark.parametrize("rows_max", [BY_HASHES, BY_LEAVES, BY_SPARK])
def test_exactly_the_rows_that_differ_are_named(table: DataFrame, rows_max: int) -> None:
    """Scenarios 2, 3, 4, 5: whatever the order of rows, and by each of the three ways."""
    other = twice(without(changed(table, 7, amount=F.lit(0)), 8), 9)
    extra = table.limit(1).select(F.lit(2000).cast("long").alias("key"), "amount", "name")
    found = compare(table, other.unionAll(extra).orderBy("name"), spec_of(table), rows_max=rows_max)
    assert found.rows == (1000, 1001)
    assert found.differences == (
        RowDifference("[2000]", Kind.EXTRA, 0, 1),
        RowDifference("[7]", Kind.CHANGED, 1, 1),
        RowDifference("[8]", Kind.MISSING, 1, 0),
        RowDifference("[9]", Kind.DUPLICATE_KEY, 1, 2),
    )
    assert (found.leaves > 0) is (rows_max != BY_HASHES)
    assert not found.wants_full_copy


@pytest.mark.parametrize("strength", [Strength.FAST, Strength.STRONG, Strength.PROOF])
def test_the_columns_that_changed_are_named(spark: SparkSession, table: DataFrame, strength: Strength) -> None:
    """Scenario 2: also those that are NULL on one side, and maps, which Spark cannot compare."""
    wide = table.withColumn("tags", F.create_map(F.lit("k"), F.col("key")))
    other = changed(changed(wide, 7, name=F.lit(None)), 9, amount=F.lit(0), tags=F.create_map(F.lit("k"), F.lit(0)))
    spec = msgspec.structs.replace(spec_of(wide), strength=strength)
    found = compare(wide, other, spec, names_columns=True)
    assert [(each.key, each.columns) for each in found.differences] == [("[7]", ("name",)), ("[9]", ("amount", "tags"))]
    assert found.rows_moved == 4, "two rows differ, and two of each side were read"


@pytest.mark.parametrize("rows_max", [BY_HASHES, BY_LEAVES, BY_SPARK])
def test_equal_tables_have_no_differences(spark: SparkSession, table: DataFrame, rows_max: int) -> None:
    """Scenarios 1, 9."""
    found = compare(table, numbers(spark, parts=3).orderBy(F.xxhash64("key")), spec_of(table), rows_max=rows_max)
    assert (found.differences, found.bad_leaves, found.rows_moved) == ((), 0, 0)
    empty = table.filter("key < 0")
    assert compare(empty, empty, spec_of(table), rows_max=rows_max).differences == ()


def test_rows_that_are_twice_on_both_sides_are_equal(table: DataFrame) -> None:
    """Scenario 5: rows are compared as they are, not as they should be."""
    assert compare(twice(table, 7), twice(table, 7), spec_of(table)).differences == ()


@pytest.mark.parametrize("rows_max", [BY_HASHES, BY_LEAVES])
def test_a_copy_of_all_is_advised_where_all_is_missing(table: DataFrame, rows_max: int) -> None:
    """Scenario 10: leaves are not refined where most of them differ."""
    found = compare(table, table.filter("key < 0"), spec_of(table), rows_max=rows_max)
    assert found.wants_full_copy
    assert len(found.differences) == 1000
    assert found.leaves in (0, found.bad_leaves)
    assert found.leaves <= 256


def test_a_table_without_key_is_counted(spark: SparkSession) -> None:
    """Scenario 6: how many of a row there are, on each side."""
    left = spark.createDataFrame([("a",), ("a",), ("c",)], "v string")
    right = spark.createDataFrame([("b",), ("b",), ("c",)], "v string")
    for rows_max in (BY_HASHES, BY_SPARK):
        found = compare(left, right, spec_of(left, key=()), rows_max=rows_max)
        kinds = Counter((each.kind, each.left, each.right) for each in found.differences)
        assert kinds == {(Kind.MISSING, 2, 0): 1, (Kind.EXTRA, 0, 2): 1}


def test_one_key_with_very_many_rows_ends_at_the_last_bit(spark: SparkSession) -> None:
    """Scenario 34: no leaf can part rows of one key, so their hashes are compared."""
    rows = F.when(F.col("id") < 3000, 0).otherwise(F.col("id"))
    hot = spark.range(4000).select(rows.alias("key"), F.col("id").alias("amount"))
    spec = spec_of(hot)
    found = compare(hot, hot.filter("amount <> 17"), spec, rows_max=7000)
    assert found.differences == (RowDifference("[0]", Kind.DUPLICATE_KEY, 3000, 2999),)
    assert found.bad_leaves == 1


def test_only_what_was_asked_is_compared(table: DataFrame) -> None:
    """Scenario 27: rows outside of the ranges may differ."""
    spec = spec_of(table)
    halves = [TokenRange(0, 1 << 31), TokenRange(1 << 31, 1 << 32)]
    other = table.withColumn("amount", -F.col("amount"))
    found = [compare(table, other, spec, ranges=(half,)).differences for half in halves]
    assert all(found)
    assert sorted(each.key for part in found for each in part) == sorted(f"[{key}]" for key in range(1, 1001))


def test_two_keys_of_one_place_are_told_apart(spark: SparkSession) -> None:
    """Scenario 36, of keys: where 64 bits of the key's hash are equal, keys are compared as keys."""
    prime_1, prime_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
    step = (prime_1 << 30) * pow(prime_2, -1, 1 << 64) & (1 << 64) - 1
    rows = []
    for number in range(16):
        words = [(number * 8 + place) * prime_1 & (1 << 64) - 1 for place in range(8)]
        crafted = [words[0] ^ 1 << 63, *words[1:4], (words[4] - step) & (1 << 64) - 1, *words[5:]]
        rows += [(bytearray(b"".join(word.to_bytes(8, "little") for word in each)), 1) for each in (words, crafted)]
    table = spark.createDataFrame(rows, "key binary, v int")
    spec = spec_of(table)
    places = Counter(row[0] for row in hashed(table, spec).select(PLACE).collect())
    assert max(places.values()) == 2, "half of such pairs collide"
    for key, _ in rows[0:8:2]:
        other = table.withColumn("v", F.when(F.col("key") == F.lit(bytes(key)), 2).otherwise(F.col("v")))
        assert [each.kind for each in compare(table, other, spec).differences] == [Kind.CHANGED]
