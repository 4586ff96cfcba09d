"""Rows that are copied to a Parquet file at each cut, and changed only where they still are what they were at it."""

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import SentRow
from topolog.events.replica_access import Fence
from topolog.events.token_range import FULL
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.replica import Change, SparkReplica
from topolog.projections.spark.sources.copied import CUTS_MAX, Batches, CopiedSource, Edit, Shape
from topolog.projections.spark.sources.stored_values import Value, are_same, arrow_table, from_wire

COLUMNS = (Column("id", "long"), Column("name", "string"), Column("size", "double"))
SPEC = TreeSpec("parts", COLUMNS, ("id",), 8)


def nothing(*_: object) -> None:
    """For who wants no progress."""


class Listed:
    """An original that is a list of rows."""

    is_writable = True

    def __init__(self, *rows: Sequence[Value]) -> None:
        self.rows = list(rows)
        self.edits: list[Edit] = []
        self.copies = 0

    @contextmanager
    def reading(self) -> Iterator[tuple[Shape, Batches]]:
        yield Shape(COLUMNS, ("id",), len(self.rows)), self._batches()

    def _batches(self) -> Iterator[list[Sequence[Value]]]:
        self.copies += 1
        yield self.rows[:1]
        yield self.rows[1:]

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        fence()
        self.edits += edits
        return len(edits)


def changed(key: int, **values: Any) -> Change:
    return Change(f"[{key}]", msgspec.json.encode(values).decode() if values else "")


def test_a_cut_is_named_by_its_rows_and_holds_still(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows have one name, others another; a cut that is released is lost, and said to be."""
    original = Listed((1, "a", 0.5), (2, None, None))
    source = CopiedSource(original, tmp_path)
    first = source.cut(nothing)
    assert source.cut(nothing) == first
    original.rows.append((3, "c", math.nan))
    second = source.cut(nothing)
    assert source.cuts() == {first, second}
    assert sorted(row.id for row in source.frame(spark, first).collect()) == [1, 2]
    assert sorted(row.id for row in source.frame(spark, None).collect()) == [1, 2, 3]
    source.release(first)
    source.release(first)
    with pytest.raises(ReplicaFailed) as lost:
        source.frame(spark, first)
    assert lost.value.code == "CUT_LOST"


def test_a_copy_tells_how_far_it_is_and_ends_where_nobody_wants_it(tmp_path: Path) -> None:
    """RE7: a cut that takes an hour is no validator that is gone; one that was stopped leaves nothing."""
    source = CopiedSource(Listed((1, "a", 0.5), (2, "b", 1.5), (3, "c", 2.5)), tmp_path)
    told: list[tuple[int, int]] = []
    source.cut(lambda rows, size: told.append((rows, size)))
    assert [rows for rows, _ in told] == [1, 3]
    assert 0 < told[0][1] < told[1][1]
    before = sorted(tmp_path.iterdir())

    def stopped(rows: int, _: int) -> None:
        raise ReplicaFailed("FENCED", f"enough after {rows}")

    with pytest.raises(ReplicaFailed, match="enough after 1"):
        source.cut(stopped)
    assert sorted(tmp_path.iterdir()) == before


def test_a_session_copies_a_table_once_for_all_that_it_reads_and_writes(spark: SparkSession, tmp_path: Path) -> None:
    """However many segments it has, and batches of rows; what is gone is copied anew."""
    original = Listed((1, "a", 0.5), (2, "b", 1.5))
    source = CopiedSource(original, tmp_path)
    replica = SparkReplica(spark, source, "parts", "r1", ("id",))
    cut = replica.cut(nothing)
    assert cut is not None
    found = {each.key: each.content for each in replica.digests(SPEC, (FULL,), cut, nothing)}
    original.copies = 0
    original.rows.append((3, "c", 2.5))
    assert replica.cut(nothing, cut) == cut
    for number in (1, 2):
        row = SentRow(f"[{number}]", f'{{"id":{number},"name":"new","size":1.0}}', (("r1", found[f"[{number}]"]),))
        assert replica.write(SPEC, [row], cut, lambda: None, nothing).rows == 1
    assert original.copies == 0
    assert [edit.before for edit in original.edits] == [
        {"id": 1, "name": "a", "size": 0.5},
        {"id": 2, "name": "b", "size": 1.5},
    ]
    replica.release(cut)
    assert replica.cut(nothing, cut) != cut
    assert original.copies == 1


def test_a_table_of_no_rows_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    """RE17."""
    source = CopiedSource(Listed(), tmp_path)
    assert source.frame(spark, source.cut(nothing)).schema.names == ["id", "name", "size"]
    assert source.describe(spark).schema.simpleString() == "struct<id:bigint,name:string,size:double>"


def test_a_change_goes_out_with_what_the_row_was_at_the_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Changed, new and deleted; whatever became of the row since then."""
    original = Listed((1, "a", 0.5), (2, "b", 1.5))
    source = CopiedSource(original, tmp_path)
    cut = source.cut(nothing)
    original.rows[0] = (1, "later", 0.5)
    changes = [changed(1, id=1, name="A", size=2), changed(2), changed(3, id=3, name=None, size="NaN")]
    source.write(spark, SPEC, changes, cut, lambda: None)
    one, two, three = original.edits
    assert one == Edit((1,), {"id": 1, "name": "a", "size": 0.5}, {"id": 1, "name": "A", "size": 2.0})
    assert two == Edit((2,), {"id": 2, "name": "b", "size": 1.5}, None)
    assert (three.key, three.before) == ((3,), None)
    assert are_same(three.after, {"id": 3, "name": None, "size": math.nan})


def test_columns_that_are_not_compared_stay_out_of_it(spark: SparkSession, tmp_path: Path) -> None:
    original = Listed((1, "a", 0.5))
    source = CopiedSource(original, tmp_path)
    spec = msgspec.structs.replace(SPEC, columns=COLUMNS[:2])
    source.write(spark, spec, [changed(1, id=1, name="A")], source.cut(nothing), lambda: None)
    assert original.edits == [Edit((1,), {"id": 1, "name": "a"}, {"id": 1, "name": "A"})]


def test_what_is_only_read_takes_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    original = Listed((1, "a", 0.5))
    original.is_writable = False
    source = CopiedSource(original, tmp_path)
    assert not source.describe(spark).is_writable
    with pytest.raises(ReplicaFailed) as refused:
        source.write(spark, SPEC, [changed(1)], source.cut(nothing), lambda: None)
    assert refused.value.code == "NOT_WRITABLE"


def test_cuts_that_nobody_releases_do_not_fill_the_disk(tmp_path: Path) -> None:
    """Those of former processes, but for the newest; none of this one."""
    former, original = CopiedSource(Listed((0, "", 0.0)), tmp_path), Listed()
    names = []
    for number in range(CUTS_MAX + 3):
        former._original = Listed((number, "", 0.0))
        names.append(former.cut(nothing))
    source = CopiedSource(original, tmp_path)
    own = source.cut(nothing)
    assert source.cuts() == {own, *names[-CUTS_MAX:]}


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("boolean", True, True),
        ("long", -5, -5),
        ("double", "-Infinity", -math.inf),
        ("double", 3, 3.0),
        ("decimal(10,2)", "1.50", Decimal("1.50")),
        ("string", "", ""),
        ("binary", "/wA=", b"\xff\x00"),
        ("date", "2026-02-28", dt.date(2026, 2, 28)),
        ("timestamp", 1_000_001, dt.datetime(1970, 1, 1, 0, 0, 1, 1, dt.UTC)),
        ("timestamp_ntz", "2026-02-28 12:00:00.5", dt.datetime.fromisoformat("2026-02-28T12:00:00.5")),
        ("long", None, None),
    ],
)
def test_values_that_are_sent_become_values_again(kind: str, sent: object, value: object) -> None:
    """As canonical.py writes them."""
    assert from_wire(sent, kind) == value


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("long", "5"), ("long", True), ("boolean", 1), ("decimal(4,1)", "1.55"), ("date", "soon"), ("binary", "?")],
)
def test_what_is_no_value_of_its_type_is_refused(kind: str, sent: object) -> None:
    with pytest.raises(ReplicaFailed) as refused:
        from_wire(sent, kind)
    assert refused.value.code == "SCHEMA"


def test_a_stored_value_that_is_none_of_its_column_is_corrupt() -> None:
    """RE7, with the column; and a type that cannot be copied is named."""
    with pytest.raises(ReplicaFailed, match="Column id has a value that is no long") as corrupt:
        arrow_table(COLUMNS, [("one", "a", 0.5)])
    assert corrupt.value.code == "CORRUPT"
    with pytest.raises(ReplicaFailed) as unsupported:
        arrow_table((Column("tags", "array<string>"),), [("a",)])
    assert unsupported.value.code == "UNSUPPORTED"
