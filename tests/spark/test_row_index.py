"""Rows that are read once answer all that a session asks, with just what a scan would have answered (RE17, RE21)."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.tables import numbers, spec_of, tree, twice

from topolog.events.errors import ReplicaFailed
from topolog.events.merkle import Leaf
from topolog.events.token_range import FULL, RING, Ranges, TokenRange
from topolog.events.tree_spec import Strength, TokenMode, TreeSpec
from topolog.projections.spark import replica as replicas
from topolog.projections.spark import row_index
from topolog.projections.spark.digests import digests
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.row_index import RowIndex, answers_digests, is_fit, made
from topolog.projections.spark.sources.parquet import ParquetSource

PARTS: tuple[Ranges, ...] = (
    (FULL,),
    (TokenRange(RING // 3, RING // 2),),
    tuple(TokenRange(RING // 64 * n, RING // 64 * n + RING // 256) for n in range(0, 64, 3)),
    (TokenRange(5, 6),),
    (),
)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """With a key that is there twice, one below zero, and the greatest and the least of longs."""
    edges = spark.createDataFrame(
        [(-7, 1, "x"), ((1 << 63) - 1, 2, None), (-(1 << 63), 3, "é")], "key bigint, amount bigint, name string"
    )
    return twice(numbers(spark), 7).unionAll(edges)


def specs(table: DataFrame) -> dict[str, TreeSpec]:
    spec = spec_of(table)
    return {
        "fast": spec,
        "strong": msgspec.structs.replace(spec, strength=Strength.STRONG),
        "ordered": msgspec.structs.replace(spec, mode=TokenMode.ORDERED, boundaries=("-5", "10", "200", "900")),
        "two columns": spec_of(table, key=("key", "name")),
        "no key": spec_of(table, key=()),
    }


@pytest.mark.parametrize("kind", ["fast", "strong", "ordered", "two columns", "no key"])
def test_its_leaves_are_those_of_a_scan(table: DataFrame, kind: str) -> None:
    spec = specs(table)[kind]
    index = made(table, spec)
    assert index.rows == 1004
    for ranges in PARTS:
        for bits in (8, 13, 24, 32):
            assert list(index.leaves(ranges, bits)) == tree(table, spec, ranges, bits), (ranges, bits)


@pytest.mark.parametrize("kind", ["fast", "strong", "ordered"])
def test_its_digests_are_those_of_a_scan_where_the_key_is_one_long(table: DataFrame, kind: str) -> None:
    spec = specs(table)[kind]
    index = made(table, spec)
    assert index.has_keys
    for ranges in PARTS:
        assert sorted(index.digests(ranges)) == sorted(digests(table, spec, ranges))


def test_a_key_that_is_null_has_its_place_too(spark: SparkSession, table: DataFrame) -> None:
    null = table.unionAll(spark.createDataFrame([(None, 1, "x")] * 2, "key bigint, amount bigint, name string"))
    spec = spec_of(null)
    assert list(made(null, spec).leaves((FULL,), 13)) == tree(null, spec, (FULL,), 13)


def test_many_rows_are_added_part_by_part(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "_ADDED_ROWS", 50_000)
    frame = numbers(spark, 140_000, parts=2)
    spec = spec_of(frame)
    assert list(made(frame, spec).leaves((FULL,), 8)) == tree(frame, spec, (FULL,), 8)


def test_the_greatest_hashes_of_very_many_rows_are_added_exactly() -> None:
    """RE17: no sum is rounded, though they are added as floating-point numbers."""
    rows = 2 * row_index._ADDED_ROWS + 3
    greatest = np.full(rows, (1 << 64) - 1, np.uint64)
    index = RowIndex(np.full(rows, RING - 1, np.uint32), None, greatest, greatest - np.uint64(1))
    half = (1 << 32) - 1
    for bits in (0, 8, 32):
        sums = (rows * half, rows * half, rows * (half - 1), rows * half)
        assert list(index.leaves((FULL,), bits)) == [Leaf((1 << bits) - 1, rows, *sums)]


def test_other_keys_are_not_kept(spark: SparkSession, table: DataFrame) -> None:
    """A long that may be NULL, several columns, none, a string."""
    null = table.unionAll(spark.createDataFrame([(None, 1, "x")], "key bigint, amount bigint, name string"))
    for frame, key in ((null, ("key",)), (table, ("key", "name")), (table, ()), (table, ("name",))):
        assert not made(frame, spec_of(frame, key=key)).has_keys


def test_what_two_hashes_a_row_cannot_say_is_not_asked_of_it(table: DataFrame) -> None:
    spec = spec_of(table)
    assert not is_fit(msgspec.structs.replace(spec, strength=Strength.PROOF))
    assert not answers_digests(msgspec.structs.replace(spec, version_column="amount"))
    assert not answers_digests(msgspec.structs.replace(spec, tombstone_column="name"))


def test_an_empty_table_has_no_leaves(table: DataFrame) -> None:
    index = made(table.filter("false"), spec_of(table))
    assert (index.rows, list(index.leaves((FULL,), 8)), list(index.digests((FULL,)))) == (0, [], [])


def test_a_leaf_too_large_is_refused_as_by_a_scan(table: DataFrame) -> None:
    """RE17."""
    with pytest.raises(ReplicaFailed, match=r"has 1,\d+ rows"):
        list(made(table, spec_of(table)).leaves((FULL,), 0, rows_max=1000))


# In a replica.


@pytest.fixture
def replica(table: DataFrame, tmp_path: Path, spark: SparkSession) -> SparkReplica:
    table.write.parquet(str(tmp_path / "table"))
    return SparkReplica(spark, ParquetSource(tmp_path / "table"), "numbers", "R1", ("key",))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read of the table, as it is read."""
    found: list[str] = []

    def noted(what: str, owner: ModuleType, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def noting(*given: object) -> object:
            found.append(what)
            return real(*given)

        monkeypatch.setattr(owner, name, noting)

    noted("index", row_index, "made")
    noted("leaves", replicas, "leaves")
    noted("digests", replicas, "digest_table")
    return found


def unheard(rows: int, size: int) -> None:
    """Nobody waits for progress."""


def test_a_session_reads_the_table_once(replica: SparkReplica, scans: list[str]) -> None:
    told = replica.describe()
    spec, cut = TreeSpec(told.table, told.columns, told.key, 8), replica.cut(unheard)
    bad = (TokenRange(0, RING // 256),)
    assert list(replica.leaves(spec, (TokenRange(0, RING // 2),), 8, cut, unheard))
    assert list(replica.leaves(spec, (TokenRange(RING // 2, RING),), 8, cut, unheard))
    assert list(replica.leaves(spec, bad, 16, cut, unheard))
    assert list(replica.digests(spec, bad, cut, unheard))
    assert scans == ["index"]
    assert cut is not None
    replica.release(cut)
    later = replica.cut(unheard)
    assert list(replica.leaves(spec, bad, 8, later, unheard))
    assert scans == ["index", "index"]


def test_who_no_longer_wants_its_digests_can_end_them(replica: SparkReplica) -> None:
    """An aborted session does not wait for the last of many rows."""
    told = replica.describe()
    spec, cut = TreeSpec(told.table, told.columns, told.key, 8), replica.cut(unheard)
    list(replica.leaves(spec, (FULL,), 8, cut, unheard))

    def ended(rows: int, size: int) -> None:
        raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        list(replica.digests(spec, (FULL,), cut, ended))


def test_a_few_rows_too_many_rows_and_rows_without_a_read_point_are_read_as_they_are_asked_for(
    replica: SparkReplica, scans: list[str]
) -> None:
    told = replica.describe()
    spec, cut = TreeSpec(told.table, told.columns, told.key, 8), replica.cut(unheard)
    list(replica.leaves(spec, (FULL,), 8, None, unheard))
    list(replica.leaves(spec, (TokenRange(0, RING >> 9),), 16, cut, unheard))
    list(replica.digests(spec, (TokenRange(0, RING >> 9),), cut, unheard))
    replica.index_rows = 1003
    list(replica.leaves(spec, (FULL,), 8, cut, unheard))
    assert scans == ["leaves", "leaves", "digests", "leaves"]
    replica.index_rows = 1004
    list(replica.leaves(spec, (FULL,), 8, cut, unheard))
    other = msgspec.structs.replace(spec, bits=9)
    list(replica.leaves(other, (FULL,), 8, cut, unheard))
    assert scans[4:] == ["index", "index"]
