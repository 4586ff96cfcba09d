"""What is hashed of a row: each trap of the built-in hashes (RE16)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.tree_spec import Column, Strength, TreeSpec
from topolog.projections.spark.canonical import canonical, columns_of, fields_of, from_wire, wire
from topolog.projections.spark.row_hashes import H1, H2, hashed

STRENGTHS = (Strength.FAST, Strength.STRONG)


def frame(spark: SparkSession, *values: str) -> DataFrame:
    named = ", ".join(f"{value} as c{number}" for number, value in enumerate(values))
    return spark.sql(f"select {named}")


def hashes(strength: Strength, *frames: DataFrame, types: Sequence[str] = ()) -> list[tuple[int, int]]:
    """The two hashes of the one row of each frame, in one job."""
    parts = []
    for number, rows in enumerate(frames):
        declared = tuple(Column(f"c{place}", each) for place, each in enumerate(types)) or columns_of(rows.schema)
        spec = TreeSpec("t", declared, (), 8, strength)
        parts.append(hashed(rows, spec).select(F.lit(number).alias("number"), H1, H2))
    return [(row[H1], row[H2]) for row in sorted(reduce(DataFrame.unionAll, parts).collect())]


@contextmanager
def zone(spark: SparkSession, name: str) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


NULL = "cast(null as int)"
NO_TEXT = "cast(null as string)"
LISTS = "cast({} as array<int>)"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((NULL, "1"), ("1", NULL)),
        (("''",), (NO_TEXT,)),
        ((LISTS.format("array()"),), (LISTS.format("null"),)),
        (("array(1)", "array(2)"), ("array(1, 2)", LISTS.format("array()"))),
        ((LISTS.format("array(null)"), "5"), (LISTS.format("array(null, null)"), "5")),
        (("struct(cast(null as int) as a)",), ("cast(null as struct<a:int>)",)),
        (("array(struct(cast(null as int) as a))",), ("array(cast(null as struct<a:int>))",)),
        (("'a'", NO_TEXT, "'b'"), ("'a'", "'b'", NO_TEXT)),
        (("'a1'", "'b'"), ("'a'", "'1b'")),
        (("array(array(1), array(2))",), ("array(array(1, 2), cast(array() as array<int>))",)),
        (("map('a', 1, 'b', 2)",), ("map('a', 2, 'b', 1)",)),
        (("map('a', cast(null as int))",), ("cast(map() as map<string,int>)",)),
        (("'\u00e9'",), ("'e\u0301'",)),
        (("timestamp'2024-01-01 00:00:00'",), ("timestamp'2024-01-01 00:00:00.000001'",)),
    ],
)
@pytest.mark.parametrize("strength", STRENGTHS)
def test_different_rows_have_different_hashes(
    spark: SparkSession, strength: Strength, left: tuple[str, ...], right: tuple[str, ...]
) -> None:
    """RE16."""
    one, other = hashes(strength, frame(spark, *left), frame(spark, *right))
    assert one[0] != other[0]
    assert one[1] != other[1]


@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_row_may_have_more_columns_than_a_long_has_bits(spark: SparkSession, strength: Strength) -> None:
    """RE16: one NULL each, and the values beside it are all alike."""
    places = (0, 1, 61, 62, 63, 64, 123, 124, 129)
    rows = [frame(spark, *(NULL if place == null else "1" for place in range(130))) for null in places]
    found = hashes(strength, *rows)
    assert len({h1 for h1, _ in found}) == len({h2 for _, h2 in found}) == len(places)


@pytest.mark.parametrize(
    ("left", "right", "declared"),
    [
        ("0.0d", "-0.0d", "double"),
        ("double('nan')", "-double('nan')", "double"),
        ("array(0.0d, double('nan'))", "array(-0.0d, double('nan'))", "array<double>"),
        ("7", "7L", "long"),
        ("cast(7 as tinyint)", "cast(7 as smallint)", "long"),
        ("cast(1.5 as float)", "1.5d", "double"),
        ("cast(0.1 as float)", "0.1d", "float"),
        ("cast(1.25 as decimal(10,2))", "cast(1.25 as decimal(12,4))", "decimal(12,4)"),
        ("cast(3 as decimal(5,0))", "3", "decimal(38,1)"),
        ("cast('ab' as char(2))", "'ab'", "string"),
        ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map<string,long>"),
        ("struct(1 as a, array(2) as b)", "struct(1L as a, array(2L) as b)", "struct<a:long,b:array<long>>"),
    ],
)
@pytest.mark.parametrize("strength", STRENGTHS)
def test_equal_values_have_equal_hashes_whatever_their_type(
    spark: SparkSession, strength: Strength, left: str, right: str, declared: str
) -> None:
    """RE16."""
    one, other = hashes(strength, frame(spark, left), frame(spark, right), types=(declared,))
    assert one == other


@pytest.mark.parametrize("strength", STRENGTHS)
def test_the_time_zone_of_the_session_is_in_no_hash(spark: SparkSession, strength: Strength) -> None:
    """RE16: instants, also inside of structs, and wall times."""
    rows = frame(
        spark,
        "timestamp_micros(1700000000123456)",
        "struct(timestamp_micros(5) as t)",
        "timestamp_ntz'2024-01-01 00:00:00'",
    )
    before = hashes(strength, rows)
    with zone(spark, "Asia/Tokyo"):
        rows = frame(
            spark,
            "timestamp_micros(1700000000123456)",
            "struct(timestamp_micros(5) as t)",
            "timestamp_ntz'2024-01-01 00:00:00'",
        )
        assert hashes(strength, rows) == before


def test_the_two_hashes_of_a_row_are_two(spark: SparkSession) -> None:
    """RE17: a chance that both are equal is the product of two."""
    rows = frame(spark, "1")
    one = hashed(rows, TreeSpec("t", columns_of(rows.schema), (), 8)).select(H1, H2).first()
    assert one is not None
    assert one[0] != one[1]


def test_a_type_without_canonical_form_is_refused_by_name(spark: SparkSession) -> None:
    """RE16: the column is named, so that it can be left out."""
    with pytest.raises(ReplicaFailed, match="Column c1 is of type interval") as failed:
        columns_of(frame(spark, "1", "interval '1' day").schema)
    assert failed.value.code == "UNSUPPORTED"
    with pytest.raises(ReplicaFailed, match="'money'") as failed:
        canonical(frame(spark, "1"), [Column("c0", "money")])
    assert failed.value.code == "UNSUPPORTED"


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        ("'7'", "long"),
        ("cast(1.25 as decimal(12,4))", "decimal(10,2)"),
        ("1.5d", "long"),
        ("date'2024-01-01'", "timestamp"),
        ("struct(1 as a)", "struct<b:long>"),
    ],
)
def test_a_cast_that_could_lose_something_is_refused(spark: SparkSession, stored: str, declared: str) -> None:
    """RE16: each side is cast to one type, and what does not fit is another schema."""
    with pytest.raises(ReplicaFailed, match="is stored as") as failed:
        canonical(frame(spark, stored), [Column("c0", declared)])
    assert failed.value.code == "SCHEMA"


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    """RE14 at the replica: it says what is not there, and what is."""
    with pytest.raises(ReplicaFailed, match="no column other") as failed:
        canonical(frame(spark, "1"), [Column("c0", "long"), Column("other", "long")])
    assert failed.value.code == "SCHEMA"


VALUES = (
    "cast(null as bigint)",
    "-9223372036854775808L",
    "double('-infinity')",
    "double('nan')",
    "0.1d",
    "cast('-12345678901234567890.123400' as decimal(38,6))",
    "'\u00e9\\n\"\\u0000'",
    "cast('a,b' as binary)",
    "date'0001-01-01'",
    "timestamp_micros(-1)",
    "timestamp_ntz'2024-02-29 23:59:59.999999'",
    "array(timestamp_micros(1), null)",
    "map(2, array(1.50bd), 1, null)",
    "struct(1L as a, cast(null as struct<b:date>) as n, map('k', struct(cast('x' as binary) as v)) as m)",
    "cast(null as struct<a:int>)",
    "true",
)


def test_a_row_that_was_carried_as_json_has_the_same_hashes(spark: SparkSession) -> None:
    """A row can be written by another replica than the one that it was read from, and is the same there."""
    rows = frame(spark, *VALUES)
    columns = columns_of(rows.schema)
    fields = fields_of(columns)
    text = canonical(rows, columns).select(wire(fields).alias("v"))
    again = text.select(*from_wire(F.col("v"), fields))
    for strength in STRENGTHS:
        one, other = hashes(strength, again, rows)
        assert one == other
    assert again.select(wire(fields)).collect() == text.collect()
