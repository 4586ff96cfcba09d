"""A folder of Parquet that others write meanwhile, whose files are not of one table, or in which a repair dies."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.spark.place import Place, nothing, sent, spec_of
from tests.spark.tables import changed, numbers

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import SentRow
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.sources import parquet, parquet_files

TWO = TreeSpec("numbers", (Column("key", "long"), Column("name", "string")), ("key",), 8)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    found = Place(spark, tmp_path / "one")
    found.folder.mkdir()
    return found


def put(place: Place, file_name: str, /, *keys: int, **columns: object) -> Path:
    """A file that somebody else writes, with these keys."""
    file = place.folder / file_name
    told = {"key": pa.array(keys, pa.int64()), "name": [f"n{each}" for each in keys], **columns}
    pq.write_table(pa.table(told), file)
    return file


def row(key: int, name: str, compared: tuple[int, int] | None) -> SentRow:
    values = msgspec.json.encode({"key": key, "name": name}).decode()
    return SentRow(f"[{key}]", values, (("one", compared),))


def failure(ask: Callable[[], object]) -> ReplicaFailed:
    with pytest.raises(ReplicaFailed) as failed:
        ask()
    return failed.value


def test_files_of_two_schemas_are_no_table(place: Place) -> None:
    """RE14: Spark shows the columns of one of them, and a file that is written anew would have no others."""
    put(place, "1.parquet", 1)
    precious = put(place, "2.parquet", 2, 3, weight=["precious", "gold"])
    before = precious.read_bytes()
    for ask in (
        place.replica.describe,
        lambda: place.replica.cut(nothing),
        lambda: place.replica.write(TWO, [row(2, "new", None)], None, nothing, nothing),
    ):
        failed = failure(ask)
        assert failed.code == "SCHEMA"
        wide, narrow = "key bigint, name string, weight string", "key bigint, name string"
        assert failed.message.endswith(f"2.parquet has {wide}; 1.parquet has {narrow}.")
    assert precious.read_bytes() == before


def test_files_of_two_types_are_no_table(place: Place) -> None:
    """RE14."""
    put(place, "1.parquet", 1, weight=[1])
    put(place, "2.parquet", 2, weight=["much"])
    assert failure(place.replica.describe).code == "SCHEMA"


def test_columns_whose_names_differ_in_case_alone_are_no_table_for_spark(place: Place) -> None:
    put(place, "1.parquet", 1, a=["x"], A=["y"])
    assert failure(place.replica.describe).code == "SCHEMA"
    assert failure(lambda: place.replica.cut(nothing)).code == "SCHEMA"


def test_what_others_and_what_spark_has_written_is_one_table(place: Place, spark: SparkSession) -> None:
    """Other ways to write the same types, and columns in another order: what a repair has written is compared, too."""
    for number in (1, 2):
        moment = pa.array([number], pa.timestamp("us", tz="UTC"))
        put(place, f"{number}.parquet", number, at=moment, tags=[["a"]], weight=[1.5])
    spec, before = spec_of(place), place.digests(TWO)
    contents = dict(place.replica.rows(spec, ["[2]"], None))
    values = msgspec.json.encode({**msgspec.json.decode(contents["[2]"]), "name": "new"}).decode()
    target = (("one", place.digests(spec)["[2]"].content),)
    assert place.replica.write(spec, [SentRow("[2]", values, target)], None, nothing, nothing).rows == 1
    assert spec_of(place) == spec
    assert place.replica.cut(nothing) is not None
    assert place.digests(TWO)["[1]"] == before["[1]"]
    assert place.rows()[2][3:] == place.rows()[1][3:]


def test_columns_that_are_not_compared_keep_their_values(place: Place) -> None:
    """A session of some columns writes those."""
    put(place, "1.parquet", 1, 2, weight=["precious", "gold"])
    written = place.replica.write(TWO, [row(2, "new", place.digests(TWO)["[2]"].content)], None, nothing, nothing)
    assert written.rows == 1
    assert place.rows() == {1: (1, "n1", "precious"), 2: (2, "new", "gold")}


def test_a_symbolic_link_is_refused_by_name(place: Place, spark: SparkSession, tmp_path: Path) -> None:
    """Spark follows it, and what is put in its place would be beside what it points to."""
    shutil.rmtree(place.folder)
    place.save(numbers(spark, 4).withColumn("day", F.col("key") % 2), "day")
    shutil.move(place.folder / "day=1", tmp_path / "disk")
    (place.folder / "day=1").symlink_to(tmp_path / "disk")
    other = Place(spark, tmp_path / "other")
    other.folder.mkdir()
    (other.folder / "a.parquet").symlink_to(os.path.relpath(next((tmp_path / "disk").glob("*.parquet")), other.folder))
    for each, name in ((place, "day=1"), (other, "a.parquet")):
        for ask in (each.replica.describe, lambda each=each: each.replica.cut(nothing)):
            failed = failure(ask)
            assert failed.code == "UNSUPPORTED"
            assert failed.message.endswith(f"{each.folder / name} is a symbolic link.")


@pytest.mark.parametrize("is_left", [False, True])
def test_a_folder_without_files_may_be_asked_again(place: Place, is_left: bool) -> None:
    """Somebody is replacing all of it, or has removed what there was and writes it anew soon."""
    if is_left:
        (place.folder / "_temporary").mkdir()
    for ask in (place.replica.describe, lambda: place.replica.cut(nothing)):
        assert failure(ask).code == "IO"


def test_files_that_vanish_while_they_are_looked_at_may_be_asked_for_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list and the footers, and behind both."""
    for module, name in ((parquet, "footers"), (parquet, "check_alike")):
        put(place, "1.parquet", 1)
        real = getattr(parquet_files, name)

        def vanishing(*arguments: object, real: Callable[..., object] = real) -> object:
            (place.folder / "1.parquet").unlink(missing_ok=True)
            return real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(module, name, vanishing)
            assert failure(place.replica.describe).code == "IO"


def test_a_damaged_footer_is_named(place: Place) -> None:
    """RE7."""
    put(place, "1.parquet", 1)
    file = put(place, "2.parquet", 2)
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    data[-8 - size : -8] = b"\xff" * size
    file.write_bytes(data)
    for ask in (place.replica.describe, lambda: place.replica.cut(nothing)):
        failed = failure(ask)
        assert failed.code == "CORRUPT"
        assert failed.message.endswith("2.parquet is no whole Parquet file.")


def test_a_file_that_cannot_be_read_may_be_asked_for_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the disk that fails, or who may read: nothing is said of what is in it."""
    put(place, "1.parquet", 1)

    def failing(_: Path) -> parquet_files.Footer:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(parquet_files, "_footer", failing)
    failed = failure(place.replica.describe)
    assert (failed.code, failed.message) == ("IO", "numbers@one: 1.parquet cannot be read: Input/output error.")


class Aborted(Exception):
    """A repair is killed here."""


def dying(behind: int) -> Callable[[], None]:
    """A fence that lets so many effects through."""
    left = [behind]

    def fence() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Aborted

    return fence


@pytest.mark.parametrize("effects", [1, 3, 4])
def test_a_row_that_moves_is_moved_by_whoever_goes_on(
    places: tuple[Place, Place], spark: SparkSession, effects: int
) -> None:
    """RE3, RE4: to a partition that is there, and to a new one; killed before any of the files is put."""
    one, other = places
    table = numbers(spark, 8).withColumn("day", F.lit(0))
    moved = changed(changed(table, 2, day=F.lit(1)), 3, day=F.lit(2), amount=F.lit(7))
    one.save(moved, "day")
    other.save(changed(table, 8, day=F.lit(1)), "day")
    spec = spec_of(one)
    rows = sent(one, other, spec, "[2]", "[3]", "[8]")
    with pytest.raises(Aborted):
        other.replica.write(spec, rows, None, dying(effects), nothing)
    written = other.replica.write(spec, rows, None, nothing, nothing)
    assert (written.rows, written.skipped) == (3, 0)
    assert other.rows() == one.rows()
    assert other.spark.read.parquet(str(other.folder)).count() == 8


def test_a_row_that_somebody_has_added_beside_the_old_one_is_no_move(place: Place) -> None:
    """Without another place that it could have come from a repair: which of the two is right nobody knows here."""
    put(place, "1.parquet", 1, 2)
    compared = place.digests(TWO)["[2]"].content
    put(place, "2.parquet", 2, name=["new"])
    written = place.replica.write(TWO, [row(2, "new", compared)], None, nothing, nothing)
    assert (written.rows, written.skipped) == (0, 1)
    assert sorted(each["name"] for each in place.spark.read.parquet(str(place.folder)).collect()) == ["n1", "n2", "new"]


@pytest.mark.parametrize("key", [1, 2], ids=["one that is there", "one that is missing"])
def test_a_row_that_comes_behind_the_read_point_is_not_written_beside(place: Place, key: int) -> None:
    """The protocol of repair: the application adds a file with the key, between the look and the effect."""
    put(place, "1.parquet", 1)
    compared = place.digests(TWO)["[1]"].content if key == 1 else None
    rows = [row(key, "late", compared), row(5, "new", None)]
    failed = failure(lambda: place.replica.write(TWO, rows, None, lambda: _put(place, key), nothing))
    assert (failed.code, failed.message) == ("IO", "2.parquet came meanwhile, with rows that were sent.")
    assert place.files() == {place.folder / "1.parquet", place.folder / "2.parquet"}
    written = place.replica.write(TWO, rows, None, nothing, nothing)
    assert (written.rows, written.skipped) == (1, 1), "the next attempt leaves the row as it is, and writes the other"
    assert place.rows()[5] == (5, "new")


def _put(place: Place, key: int) -> None:
    put(place, "2.parquet", key)


def test_files_with_other_rows_may_come_meanwhile(place: Place) -> None:
    """An application that adds files all the time keeps no repair from its end."""
    put(place, "1.parquet", 1)
    compared = place.digests(TWO)["[1]"].content
    come: list[Path] = []

    def fence() -> None:
        if len(come) < 3:
            come.append(put(place, f"more-{len(come)}.parquet", 100 + len(come)))

    rows = [row(1, "changed", compared), row(2, "new", None)]
    assert place.replica.write(TWO, rows, None, fence, nothing).rows == 2
    assert place.rows() == {
        1: (1, "changed"),
        2: (2, "new"),
        **{100 + number: (100 + number, f"n{100 + number}") for number in range(3)},
    }


@pytest.mark.parametrize("keys", [(1, 3), (3,)], ids=["with the row", "without it"])
def test_a_file_that_was_replaced_behind_the_read_point_is_not_replaced_again(
    place: Place, keys: tuple[int, ...]
) -> None:
    """Whatever it holds by then, ours is made of what it held; one that is put before it has looked at it already."""
    put(place, "1.parquet", 1, 3)
    compared = place.digests(TWO)["[1]"].content
    rows = [row(1, "changed", compared), row(2, "new", None)]
    replaced: list[bytes] = []

    def fence() -> None:
        if not replaced:
            replaced.append(put(place, "1.parquet", *keys).read_bytes())

    failed = failure(lambda: place.replica.write(TWO, rows, None, fence, nothing))
    assert failed.code == "IO"
    assert (place.folder / "1.parquet").read_bytes() == replaced[0]


def test_nothing_is_put_into_a_folder_that_is_being_replaced(place: Place) -> None:
    """RE19."""
    put(place, "1.parquet", 1)

    def fence() -> None:
        (place.folder / "_temporary").mkdir(exist_ok=True)

    failed = failure(lambda: place.replica.write(TWO, [row(2, "new", None)], None, fence, nothing))
    assert failed.code == "IO"
    assert place.files() == {place.folder / "1.parquet"}
