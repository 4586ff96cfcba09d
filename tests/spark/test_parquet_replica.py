"""A folder of Parquet as a replica: read points that stay, rows from another replica written back, and fences."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.spark.place import Place, nothing, sent, spec_of
from tests.spark.tables import changed, numbers, without

from topolog.events.errors import Fenced, ReplicaFailed
from topolog.events.merkle import differing
from topolog.events.replica import Cut, SentRow, Written
from topolog.events.token_range import FULL, of_buckets
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.replica import SparkReplica


def test_a_replica_says_what_it_holds(spark: SparkSession, tmp_path: Path) -> None:
    """RE15: with a sample of its keys, if it is to have one."""
    place = Place(spark, tmp_path / "one").save(numbers(spark, 100, parts=3))
    told = SparkReplica(spark, place.source, "numbers", "one", ("key",), boundaries=9).describe()
    assert (told.id, told.rows, told.key) == ("numbers@one", 100, ("key",))
    assert told.columns == (Column("key", "long"), Column("amount", "long"), Column("name", "string"))
    assert told.is_writable
    assert told.gives_cuts
    assert len(told.boundaries) == 9
    assert [int(each) for each in told.boundaries] == [11, 21, 31, 41, 51, 61, 71, 81, 91], "as numbers"
    assert place.source.cuts() == set(), "what was sampled is given back"
    with pytest.raises(ReplicaFailed, match="no column other") as failed:
        SparkReplica(spark, place.source, "numbers", "one", ("other",)).describe()
    assert failed.value.code == "SCHEMA"


def test_a_read_point_stays_while_the_files_change(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE19: files are replaced, added and removed; the rows at the cut are those that there were."""
    place, _ = places
    place.save(numbers(spark, 50, parts=2))
    spec = spec_of(place)
    cut = place.replica.cut(nothing)
    assert cut is not None
    assert place.replica.cut(nothing) == cut, "nothing has changed since"
    before = place.digests(spec, cut)
    place.save(changed(numbers(spark, 60), 7, amount=F.lit(0)), mode="overwrite")
    assert place.digests(spec, cut) == before
    assert len(place.digests(spec)) == 60
    assert place.replica.cut(nothing, cut) == cut, "the moment that the session reads already"
    later = place.replica.cut(nothing)
    assert later is not None
    assert later.name != cut.name
    assert later.schema == cut.schema
    for each in (cut, later, cut):
        place.replica.release(each)
    with pytest.raises(ReplicaFailed) as failed:
        place.digests(spec, cut)
    assert failed.value.code == "CUT_LOST"
    assert [path.name for path in place.folder.parent.iterdir()] == ["one"], "nothing is left behind"


def test_a_folder_that_is_being_replaced_has_no_read_point(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE19: Spark keeps what it writes below `_temporary` until all of it is there."""
    place, _ = places
    place.save(numbers(spark, 10))
    (place.folder / "_temporary").mkdir()
    with pytest.raises(ReplicaFailed, match="being written") as failed:
        place.replica.cut(nothing)
    assert failed.value.code == "IO"


def test_a_read_point_tells_how_far_it_is_and_leaves_nothing_where_it_is_stopped(
    places: tuple[Place, Place], spark: SparkSession
) -> None:
    """RE19: where there are no links, each file is copied."""
    place, _ = places
    place.save(numbers(spark, 50, parts=3))
    told: list[int] = []
    place.replica.release(place.replica.cut(lambda _, size: told.append(size)) or Cut("", b""))
    assert len(told) == 3
    assert told == sorted(set(told))

    def stopped(*_: int) -> None:
        raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        place.replica.cut(stopped)
    assert [path.name for path in place.folder.parent.iterdir()] == ["one"], "nor an empty folder beside the data"


def test_a_file_that_is_no_parquet_is_named(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE7."""
    place, _ = places
    place.save(numbers(spark, 10))
    (file,) = place.files()
    file.write_bytes(file.read_bytes()[:-20])
    for ask in (lambda: place.replica.cut(nothing), place.replica.describe):
        with pytest.raises(ReplicaFailed, match=file.name) as failed:
            ask()
        assert failed.value.code == "CORRUPT"


def test_damage_inside_of_a_file_ends_the_job(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE7: the footer is sound, a page is not."""
    place, _ = places
    place.save(numbers(spark, 1000))
    (file,) = place.files()
    data = bytearray(file.read_bytes())
    data[4:60] = bytes(56)
    file.write_bytes(data)
    spec = spec_of(place)
    with pytest.raises(ReplicaFailed, match="parquet") as failed:
        place.replica.leaves(spec, (FULL,), 8, place.replica.cut(nothing), nothing)
    assert failed.value.code == "CORRUPT"


def test_rows_are_written_in_the_types_of_who_stores_them(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE17, RE16: changed and missing rows come from a replica with other types, and all leaves are equal."""
    one, other = places
    price = F.col("key").cast("decimal(10,2)") / 4
    wide = numbers(spark, 100, parts=2).withColumn("price", price.cast("decimal(10,2)"))
    one.save(wide.withColumn("at", F.timestamp_micros("key")))
    narrow = wide.select(F.col("key").cast("int"), F.col("amount").cast("int"), "name", "price")
    narrow = without(changed(narrow, 7, amount=F.lit(0)), 8)
    other.save(narrow.withColumns({"price": F.col("price").cast("decimal(12,4)"), "note": F.lit("kept")}))
    columns = (
        Column("key", "long"),
        Column("amount", "long"),
        Column("name", "string"),
        Column("price", "decimal(12,4)"),
    )
    spec = TreeSpec("numbers", columns, ("key",), 8)
    before, cut = other.files(), other.replica.cut(nothing)
    trees = [list(place.replica.leaves(spec, (FULL,), 8, None, nothing)) for place in places]
    found = differing(*trees)
    assert len(found) == 2
    bad = of_buckets(found, 8)
    here, there = ({each.key: each for each in place.replica.digests(spec, bad, None, nothing)} for place in places)
    wanted = [key for key, each in here.items() if there.get(key) != each]
    assert sorted(wanted) == ["[7]", "[8]"]
    fences: list[set[Path]] = []
    written = other.replica.write(
        spec, sent(one, other, spec, *wanted), None, lambda: fences.append(other.files()), nothing
    )
    assert (written.rows, written.skipped) == (2, 0)
    assert len(fences) == 2, "one file has been added, one replaced"
    assert fences[0] == before
    assert other.rows()[7] == (7, 21, "name 7", Decimal("1.7500"), "kept")
    assert other.rows()[8] == (8, 24, "name 8", Decimal("2.0000"), None)
    assert differing(trees[0], list(other.replica.leaves(spec, (FULL,), 8, None, nothing))) == []
    assert cut is not None
    assert len(other.digests(spec, cut)) == 99, "the read point of before is still there"


def test_rows_of_partitions_are_written_where_they_belong(places: tuple[Place, Place], spark: SparkSession) -> None:
    """A row that is changed, one that goes to another partition, one to a new one, and one that is deleted."""
    one, other = places
    table = numbers(spark, 30).withColumn("day", F.col("key") % 3)
    new = changed(table, 5, amount=F.lit(1))
    one.save(changed(changed(new, 6, day=F.lit(1)), 7, day=F.lit(9)), "day")
    other.save(without(table, 10), "day")
    spec = spec_of(one)
    rows = sent(one, other, spec, "[5]", "[6]", "[7]", "[10]")
    gone = SentRow("[11]", "", (("other", other.digests(spec)["[11]"].content),))
    assert other.replica.write(spec, [*rows, gone], None, nothing, nothing).rows == 5
    assert (other.folder / "day=9").is_dir()
    expected = one.rows()
    del expected[11]
    assert other.rows() == expected


def test_a_row_that_is_something_else_by_now_is_left_alone(places: tuple[Place, Place], spark: SparkSession) -> None:
    """The protocol of repair: written is what is as it was compared; what already is as it is to be counts as well."""
    one, other = places
    one.save(changed(numbers(spark, 20), 7, amount=F.lit(0)))
    other.save(without(changed(numbers(spark, 20), 9, amount=F.lit(5)), 12))
    spec = spec_of(one)
    rows = sent(one, other, spec, "[7]", "[9]", "[12]")
    stale = [msgspec.structs.replace(row, targets=(("other", (1, 2)),)) for row in rows if row.key == "[9]"]
    assert other.replica.write(spec, stale, None, nothing, nothing) == Written(0, 0, 1)
    assert other.rows()[9][1] == 5
    assert other.replica.write(spec, rows, None, nothing, nothing).rows == 3
    again = other.replica.write(spec, rows, None, nothing, nothing)
    assert (again.rows, again.bytes, again.skipped) == (3, 0, 0)
    assert other.replica.write(spec, [SentRow("[99]", "", (("other", (1, 2)),))], None, nothing, nothing).rows == 1
    assert other.replica.write(spec, [SentRow("[7]", "", (("third", None),))], None, nothing, nothing) == Written(0, 0)


def test_nothing_is_written_once_the_fence_says_no(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE3: no effect after the session's end."""
    one, other = places
    one.save(numbers(spark, 20))
    other.save(without(changed(numbers(spark, 20), 7, amount=F.lit(0)), 9))
    spec, before = spec_of(one), other.rows()

    def fence() -> None:
        raise Fenced("The session has ended.", retry_after_ms=0)

    with pytest.raises(Fenced):
        other.replica.write(spec, sent(one, other, spec, "[7]", "[9]"), None, fence, nothing)
    assert other.rows() == before
    assert [path.name for path in other.folder.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("stored", "key"),
    [("amount tinyint", "[100]"), ("price decimal(4,1)", "[7]"), ("counts map<string,tinyint>", "[7]")],
)
def test_a_value_that_does_not_fit_is_not_written(
    places: tuple[Place, Place], spark: SparkSession, stored: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """RE16: rather than a rounded or a cut value none at all; the rows beside it are written, and the log says so."""
    one, other = places
    price = (F.col("key") / 100).cast("decimal(6,2)")
    counts = F.create_map(F.lit("a"), F.col("key") * 100)
    table = numbers(spark, 100).withColumns({"price": price, "counts": counts})
    one.save(table)
    name, _, type_ = stored.partition(" ")
    other.save(table.filter("key <= 2").withColumn(name, F.lit(None).cast(type_)))
    columns = (
        Column("key", "long"),
        Column("amount", "long"),
        Column("price", "decimal(6,2)"),
        Column("counts", "map<string,long>"),
    )
    spec = TreeSpec("numbers", columns, ("key",), 8)
    rows = [*sent(one, other, spec, key), SentRow("[101]", '{"key":101}', (("other", None),))]
    assert other.replica.write(spec, rows, None, nothing, nothing) == Written(
        1, sum(len(row.values) for row in rows), 1
    )
    assert sorted(other.rows()) == [1, 2, 101]
    assert f"1 rows are not written to {other.folder}, whose types do not hold their {name}" in caplog.text


def test_a_key_that_does_not_fit_is_left_alone_too(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE16: 1.50 is no key of a column of integers, 3.00 is."""
    _, other = places
    other.save(numbers(spark, 2).withColumn("key", F.col("key").cast("int")))
    columns = (Column("key", "decimal(21,2)"), Column("amount", "long"))
    rows = [SentRow(f'["{key}"]', f'{{"key":"{key}","amount":5}}', (("other", None),)) for key in ("1.50", "3.00")]
    written = other.replica.write(TreeSpec("numbers", columns, ("key",), 8), rows, None, nothing, nothing)
    assert (written.rows, written.skipped) == (1, 1)
    assert sorted(other.rows()) == [1, 2, 3]


def test_a_table_without_key_is_compared_and_not_written(places: tuple[Place, Place], spark: SparkSession) -> None:
    """RE17: answers are counts; there is nothing to write a row by."""
    place, _ = places
    place.save(numbers(spark, 5).unionAll(numbers(spark, 2)))
    replica = SparkReplica(spark, place.source, "numbers", "one", ())
    told = replica.describe()
    spec = TreeSpec("numbers", told.columns, (), 8)
    found = list(replica.digests(spec, (FULL,), None, nothing))
    assert not told.is_writable
    assert (len(found), len({each.key for each in found})) == (7, 5)
    assert {each.key for each in found} == {f"[{each.h1},{each.h2}]" for each in found}
    assert max(max(each.content) for each in found) >= 1 << 63, "hashes have no sign"
    names = [each.key for each in found]
    assert sorted(key for key, _ in replica.rows(spec, names, None)) == sorted(names)
    with pytest.raises(ReplicaFailed, match="names no row"):
        list(replica.rows(spec, ["[1]"], None))
    with pytest.raises(ReplicaFailed) as failed:
        replica.write(spec, [SentRow("[1,2]", "", (("one", (1, 2)),))], None, nothing, nothing)
    assert failed.value.code == "NOT_WRITABLE"
