"""A table of SQLite as a replica: read at one moment, compared with files of other types, written row by row."""

import datetime as dt
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import SentRow
from topolog.events.token_range import FULL
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.sources.copied import CopiedSource, Edit, Shape
from topolog.projections.spark.sources.parquet import ParquetSource
from topolog.projections.spark.sources.sqlite import SqliteTable
from topolog.projections.spark.sources.stored_values import Row

CREATE = """
CREATE TABLE orders (
    id INTEGER, line INT, name VARCHAR(20), price DECIMAL(10, 2), weight DOUBLE PRECISION, photo BLOB,
    is_open BOOLEAN, ordered DATE, changed TIMESTAMP, PRIMARY KEY (line, id)
)
"""
INSERT = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
FULL_ROW = (1, 7, "Ada", "1.50", 0.25, b"\xff", 1, "2026-02-28", "2026-02-28 12:00:00.5")
NULLS = (2, 7, None, None, None, None, None, None, None)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute(CREATE)
        connection.executemany(INSERT, [FULL_ROW, NULLS])
        yield connection


@pytest.fixture
def table(database: sqlite3.Connection, tmp_path: Path) -> SqliteTable:
    return SqliteTable(tmp_path / "shop.db", "orders")


def replica(spark: SparkSession, table: SqliteTable, folder: Path) -> SparkReplica:
    source = CopiedSource(table, folder)
    return SparkReplica(spark, source, "orders", "r1", source.key)


def rows(database: sqlite3.Connection) -> list[tuple[object, ...]]:
    return database.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_declared_types_are_what_columns_are(table: SqliteTable) -> None:
    """The key in its own order, whatever that of the columns."""
    with table.reading() as (shape, _):
        assert shape.key == ("line", "id")
        assert {each.name: each.type for each in shape.columns} == {
            "id": "long",
            "line": "long",
            "name": "string",
            "price": "decimal(10,2)",
            "weight": "double",
            "photo": "binary",
            "is_open": "boolean",
            "ordered": "date",
            "changed": "timestamp",
        }
        assert shape.rows == 2


def test_its_rows_equal_those_of_a_parquet_file(
    spark: SparkSession, database: sqlite3.Connection, table: SqliteTable, tmp_path: Path
) -> None:
    """RE16: what is stored differently and is equal has equal digests."""
    spark.sql(
        """
        SELECT 1 AS id, 7 AS line, 'Ada' AS name, 1.5BD AS price, CAST(0.25 AS FLOAT) AS weight, X'FF' AS photo,
            true AS is_open, DATE'2026-02-28' AS ordered, TIMESTAMP'2026-02-28 13:00:00.5+01:00' AS changed
        UNION ALL SELECT 2, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        """
    ).write.parquet(str(tmp_path / "files"))
    files = SparkReplica(spark, ParquetSource(tmp_path / "files"), "orders", "r2", ("line", "id"))
    own = replica(spark, table, tmp_path / "cuts")
    definition = own.describe()
    spec = TreeSpec("orders", definition.columns, definition.key, 8)
    assert sorted(own.digests(spec, (FULL,), own.cut(lambda *_: None), lambda *_: None)) == sorted(
        files.digests(spec, (FULL,), files.cut(lambda *_: None), lambda *_: None)
    )
    assert definition.key == ("line", "id")


def test_a_cut_is_one_moment(database: sqlite3.Connection, table: SqliteTable, tmp_path: Path) -> None:
    """Rows that are committed while it is read do not show, half of them or all."""
    database.execute("PRAGMA journal_mode = WAL")
    with table.reading() as (shape, batches):
        database.execute("UPDATE orders SET name = 'Bo'")
        found = [row for batch in batches for row in batch]
    assert [row[2] for row in found] == ["Ada", None]
    assert shape.rows == 2


def test_what_a_repair_sends_is_written(
    spark: SparkSession, database: sqlite3.Connection, table: SqliteTable, tmp_path: Path
) -> None:
    """A changed row, a new one, one that goes: if they still are what was compared; what has changed stays."""
    database.execute(INSERT, (3, 7, "Cy", None, None, None, None, None, None))
    own = replica(spark, table, tmp_path / "cuts")
    definition = own.describe()
    spec = TreeSpec("orders", definition.columns, definition.key, 8)
    cut = own.cut(lambda *_: None)
    told = {each.key: each.content for each in own.digests(spec, (FULL,), cut, lambda *_: None)}
    contents = dict(own.rows(spec, list(told), None))
    values = msgspec.json.decode(contents["[7,1]"])
    sent = [
        SentRow("[7,1]", _json({**values, "name": "Eve", "price": "2.25"}), (("r1", told["[7,1]"]),)),
        SentRow("[7,9]", _json({**values, "id": 9}), (("r1", None),)),
        SentRow("[7,3]", "", (("r1", told["[7,3]"]),)),
        SentRow("[7,2]", _json({**values, "id": 2}), (("r1", (1, 2)),)),
    ]
    before = sorted((tmp_path / "cuts").iterdir())
    done = own.write(spec, sent, cut, lambda: None, lambda *_: None)
    assert (done.rows, done.skipped) == (3, 1)
    assert rows(database) == [
        (1, 7, "Eve", 2.25, 0.25, b"\xff", 1, "2026-02-28", "2026-02-28 12:00:00.500000"),
        NULLS,
        (9, 7, "Ada", 1.5, 0.25, b"\xff", 1, "2026-02-28", "2026-02-28 12:00:00.500000"),
    ]
    again = own.write(spec, sent[:3], cut, lambda: None, lambda *_: None)
    assert sorted((tmp_path / "cuts").iterdir()) == before, "nothing has been copied for it"
    assert (again.rows, again.skipped) == (3, 0), "a life that died before it said so has written them"


def test_a_row_that_is_changed_behind_the_read_point_is_left(database: sqlite3.Connection, table: SqliteTable) -> None:
    """The look and the write are one transaction."""
    with table.reading() as (shape, batches):
        (row, _) = next(iter(batches))
    before = dict(zip((each.name for each in shape.columns), row, strict=True))
    edit = Edit((7, 1), before, {**before, "name": "Eve"})
    database.execute("UPDATE orders SET weight = 9 WHERE id = 1")
    assert table.apply(shape, [edit], lambda: None) == 0
    assert rows(database)[0][2] == "Ada"


def test_nothing_is_written_once_the_fence_is_down(database: sqlite3.Connection, table: SqliteTable) -> None:
    """RE3: no row of the transaction."""

    def down() -> None:
        raise ReplicaFailed("FENCED", "It is not wanted any more.")

    with table.reading() as (shape, _):
        pass
    with pytest.raises(ReplicaFailed) as fenced:
        table.apply(shape, [Edit((7, 8), None, {"id": 8, "line": 7})], down)
    assert fenced.value.code == "FENCED"
    assert len(rows(database)) == 2


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("UPDATE orders SET line = 'seven'", "CORRUPT", "Column line holds 'seven', which is no long"),
        ("UPDATE orders SET price = 1.555", "CORRUPT", "Column price holds 1.555, which is no decimal"),
        ("UPDATE orders SET ordered = 'soon'", "CORRUPT", "Column ordered holds 'soon', which is no date"),
        ("UPDATE orders SET changed = '0001-01-01T00:00+05:00'", "CORRUPT", "Column changed holds '0001"),
        ("UPDATE orders SET changed = '2024-01-01 00:00:00.1234567'", "CORRUPT", "Column changed holds '2024"),
        ("UPDATE orders SET name = CAST(X'FF41' AS TEXT)", "CORRUPT", "Could not decode to UTF-8"),
        ("ALTER TABLE orders ADD COLUMN extra JSON", "UNSUPPORTED", "declared as 'JSON'"),
        ("ALTER TABLE orders ADD COLUMN extra", "UNSUPPORTED", "declared as ''"),
        ("DROP TABLE orders", "SCHEMA", "no table orders"),
    ],
)
def test_what_cannot_be_read_is_named(
    database: sqlite3.Connection, table: SqliteTable, statement: str, code: str, said: str
) -> None:
    database.execute(statement)
    with pytest.raises(ReplicaFailed, match=said) as failed, table.reading() as (_, batches):
        list(batches)
    assert failed.value.code == code


def test_a_name_that_no_table_can_have_is_none(table: SqliteTable) -> None:
    with (
        pytest.raises(ReplicaFailed, match="has no table") as failed,
        SqliteTable(table._path, "orders\0").reading(),
    ):
        pass
    assert failed.value.code == "SCHEMA"


def test_digits_of_a_second_that_say_nothing_are_no_fault(database: sqlite3.Connection, table: SqliteTable) -> None:
    """Microseconds are what there is; nothing is cut silently behind them."""
    database.execute("UPDATE orders SET changed = '2024-01-01 00:00:00.123456000' WHERE id = 1")
    with table.reading() as (_, batches):
        rows_ = [row for batch in batches for row in batch]
    assert rows_[0][-1] == dt.datetime(2024, 1, 1, 0, 0, 0, 123456, dt.UTC)


WIDE = "CREATE TABLE wide (id INTEGER PRIMARY KEY, x DOUBLE, d DECIMAL(19, 2), n INT)"


@pytest.mark.parametrize(
    "values",
    [{"x": math.nan}, {"d": Decimal("12345678901234567.89")}, {"n": Decimal("1.50")}, {"id": Decimal("1.50")}],
    ids=str,
)
def test_a_row_that_sqlite_would_keep_as_another_is_left(
    database: sqlite3.Connection, table: SqliteTable, values: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """RE16: no NULL for NaN, and no decimal that is rounded; the rows beside it are written, and the log says so."""
    database.execute(WIDE)
    database.execute("INSERT INTO wide VALUES (7, 0.5, 1.25, 3)")
    wide = SqliteTable(table._path, "wide")
    types = {"id": "decimal(21,2)", "x": "double", "d": "decimal(19,2)", "n": "decimal(21,2)"}
    shape = Shape(tuple(Column(*each) for each in types.items()), ("id",))
    plain: Row = {"id": Decimal(1), "x": 2.5, "d": Decimal("1234567.89"), "n": Decimal(4)}
    before: Row = {"id": Decimal(7), "x": 0.5, "d": Decimal("1.25"), "n": Decimal(3)}
    edits = [
        Edit((values.get("id", Decimal(2)),), None, {**plain, "id": Decimal(2), **values}),
        Edit(
            (Decimal(7),),
            before,
            {**plain, "id": Decimal(7), **{name: values[name] for name in values if name != "id"}},
        ),
        Edit((Decimal(1),), None, plain),
    ]
    assert wide.apply(shape, edits, lambda: None) == (2 if "id" in values else 1)
    found = {row[0]: row for row in database.execute("SELECT * FROM wide").fetchall()}
    assert found.pop(1) == (1, 2.5, 1234567.89, 4)
    assert found == {7: (7, 2.5, 1234567.89, 4) if "id" in values else (7, 0.5, 1.25, 3)}
    assert "is not written to wide, which would keep it as another" in caplog.text


def test_a_database_that_is_not_there_or_none_is_said_to_be(tmp_path: Path) -> None:
    """None is made by looking for it."""
    with pytest.raises(ReplicaFailed) as absent, SqliteTable(tmp_path / "no.db", "orders").reading():
        pass
    assert absent.value.code == "IO"
    assert not (tmp_path / "no.db").exists()
    (tmp_path / "other.db").write_bytes(b"no database" * 100)
    with pytest.raises(ReplicaFailed) as damaged, SqliteTable(tmp_path / "other.db", "orders").reading():
        pass
    assert damaged.value.code == "CORRUPT"


def test_a_row_that_the_table_does_not_take_is_an_error_and_nothing_is_written(
    database: sqlite3.Connection, table: SqliteTable
) -> None:
    database.execute("CREATE TABLE strict_orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    strict = SqliteTable(table._path, "strict_orders")
    with strict.reading() as (shape, _):
        pass
    edits = [Edit((1,), None, {"id": 1, "name": "Ada"}), Edit((2,), None, {"id": 2, "name": None})]
    with pytest.raises(ReplicaFailed) as refused:
        strict.apply(shape, edits, lambda: None)
    assert refused.value.code == "NOT_WRITABLE"
    assert database.execute("SELECT * FROM strict_orders").fetchall() == []


def _json(values: object) -> str:
    return msgspec.json.encode(values).decode()
