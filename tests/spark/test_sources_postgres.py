"""A table of PostgreSQL as a replica, against a server of one's own made by Debian's packages, where they are."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from topolog.events.errors import ReplicaFailed
from topolog.events.replica import SentRow
from topolog.events.token_range import FULL
from topolog.events.tree_spec import Column, TreeSpec
from topolog.projections.spark.replica import SparkReplica
from topolog.projections.spark.sources.copied import CopiedSource, Edit, Shape
from topolog.projections.spark.sources.parquet import ParquetSource
from topolog.projections.spark.sources.postgres import PostgresTable
from topolog.projections.spark.sources.stored_values import Row

STARTS_S = 60
USER = "postgres"
"""Whom Debian's packages make; the server refuses to run as root."""

CREATE = """
CREATE TABLE shop.orders (
    id bigint, line smallint, name varchar(20), code char(4), price numeric(10, 2), weight real, photo bytea,
    is_open boolean, ordered date, changed timestamptz, noted timestamp, reference uuid, PRIMARY KEY (line, id)
)
"""
FULL_ROW = """
INSERT INTO shop.orders VALUES (1, 7, 'Ada', 'ab', 1.5, 1.1, '\\xff', true, '2026-02-28',
    '2026-02-28 13:00:00.5+01', '2026-02-28 12:00:00.25', '00000000-0000-0000-0000-00000000000a')
"""
SAME_IN_SPARK = """
SELECT 1 AS id, 7 AS line, 'Ada' AS name, 'ab' AS code, 1.50BD AS price, CAST(1.1 AS FLOAT) AS weight, X'FF' AS photo,
    true AS is_open, DATE'2026-02-28' AS ordered, TIMESTAMP'2026-02-28 12:00:00.5Z' AS changed,
    TIMESTAMP_NTZ'2026-02-28 12:00:00.25' AS noted, '00000000-0000-0000-0000-00000000000a' AS reference
UNION ALL SELECT 2, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""


def programs() -> Path | None:
    """Where Debian keeps them, one folder per version; on other systems they are on the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[4]))
    found = versions[-1] if versions else shutil.which("pg_ctl")
    return Path(found).parent if found else None


@pytest.fixture(scope="module")
def server(unused_port: Callable[[], int]) -> Iterator[str]:
    """How it is reached; it lives as long as this file's tests. Its folder is its user's, pytest's would be closed."""
    if (where := programs()) is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    user = USER if os.geteuid() == 0 else None
    port = unused_port()
    with tempfile.TemporaryDirectory(prefix="topolog-pg-") as name:
        folder = Path(name)
        if user:
            shutil.chown(folder, user)

        def run(program: str, *arguments: str) -> None:
            command = [str(where / program), "-D", str(folder / "data"), *arguments]
            subprocess.run(command, user=user, cwd=folder, check=True, capture_output=True, timeout=STARTS_S)

        run("initdb", "--auth=trust", f"--username={USER}", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "-m", "immediate")


@pytest.fixture
def database(server: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.execute("CREATE SCHEMA shop")
        connection.execute(CREATE)
        connection.execute(FULL_ROW)
        connection.execute("INSERT INTO shop.orders (id, line) VALUES (2, 7)")
        yield connection


@pytest.fixture
def table(database: psycopg.Connection[Any], server: str) -> PostgresTable:
    return PostgresTable(server, "shop.orders")


def names(database: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return database.execute("SELECT id, name, weight FROM shop.orders ORDER BY id").fetchall()


def test_its_rows_equal_those_of_a_parquet_file(spark: SparkSession, table: PostgresTable, tmp_path: Path) -> None:
    """RE16: all types, a real among them, whose double is another than the one with its text."""
    spark.sql(SAME_IN_SPARK).write.parquet(str(tmp_path / "files"))
    source = CopiedSource(table, tmp_path / "cuts")
    files = SparkReplica(spark, ParquetSource(tmp_path / "files"), "orders", "r2", ("line", "id"))
    own = SparkReplica(spark, source, "orders", "r1", source.key)
    definition = own.describe()
    assert definition.key == ("line", "id")
    assert {each.name: each.type for each in definition.columns}["price"] == "decimal(10,2)"
    spec = TreeSpec("orders", definition.columns, definition.key, 8)
    assert sorted(own.digests(spec, (FULL,), own.cut(lambda *_: None), lambda *_: None)) == sorted(
        files.digests(spec, (FULL,), files.cut(lambda *_: None), lambda *_: None)
    )


def test_what_a_repair_sends_is_written(
    spark: SparkSession, database: psycopg.Connection[Any], table: PostgresTable, tmp_path: Path
) -> None:
    """A changed row and a new one, with all types; the one that is another by now is left."""
    source = CopiedSource(table, tmp_path / "cuts")
    own = SparkReplica(spark, source, "orders", "r1", source.key)
    definition = own.describe()
    spec = TreeSpec("orders", definition.columns, definition.key, 8)
    told = {each.key: each.content for each in own.digests(spec, (FULL,), own.cut(lambda *_: None), lambda *_: None)}
    values = msgspec.json.decode(dict(own.rows(spec, ["[7,1]"], None))["[7,1]"])
    sent = [
        SentRow("[7,1]", _json({**values, "name": "Eve"}), (("r1", told["[7,1]"]),)),
        SentRow("[7,9]", _json({**values, "id": 9}), (("r1", None),)),
        SentRow("[7,2]", "", (("r1", (1, 2)),)),
    ]
    done = own.write(spec, sent, None, lambda: None, lambda *_: None)
    assert (done.rows, done.skipped) == (2, 1)
    assert names(database) == [(1, "Eve", 1.1), (2, None, None), (9, "Ada", 1.1)]
    after = {each.key: each.content for each in own.digests(spec, (FULL,), own.cut(lambda *_: None), lambda *_: None)}
    assert after["[7,2]"] == told["[7,2]"]


def test_a_cut_is_one_moment(database: psycopg.Connection[Any], table: PostgresTable) -> None:
    """What is committed while it is read does not show."""
    with table.reading() as (_, batches):
        database.execute("UPDATE shop.orders SET name = 'Bo'")
        database.execute("INSERT INTO shop.orders (id, line) VALUES (3, 7)")
        assert [row[2] for batch in batches for row in batch] == ["Ada", None]


def test_how_many_rows_there_are_is_counted_or_estimated(
    database: psycopg.Connection[Any], table: PostgresTable
) -> None:
    """PostgreSQL knows it of tables that it has analysed; a guess of none would make too small a tree."""
    for statement, rows in (("SELECT 1", 2), ("ANALYZE shop.orders", 2), ("DELETE FROM shop.orders", 2)):
        database.execute(statement)
        with table.reading() as (shape, _):
            assert shape.rows == rows
    database.execute("VACUUM ANALYZE shop.orders")
    with table.reading() as (shape, _):
        assert shape.rows == 0


def test_a_row_that_is_changed_behind_the_read_point_is_left(
    database: psycopg.Connection[Any], table: PostgresTable
) -> None:
    """Changed, deleted, or made meanwhile; and a deletion of what is as it was."""
    with table.reading() as (shape, batches):
        (first, second) = next(iter(batches))
    names_ = [each.name for each in shape.columns]
    one, two = dict(zip(names_, first, strict=True)), dict(zip(names_, second, strict=True))
    database.execute("UPDATE shop.orders SET weight = 9 WHERE id = 1")
    database.execute("INSERT INTO shop.orders (id, line) VALUES (3, 7)")
    edits = [Edit((7, 1), one, {**one, "name": "Eve"}), Edit((7, 3), None, {**one, "id": 3}), Edit((7, 2), two, None)]
    assert table.apply(shape, edits, lambda: None) == 1
    assert names(database) == [(1, "Ada", 9.0), (3, None, None)]


def test_nothing_is_written_once_the_fence_is_down(database: psycopg.Connection[Any], table: PostgresTable) -> None:
    """RE3: no row of the transaction."""

    def down() -> None:
        raise ReplicaFailed("FENCED", "It is not wanted any more.")

    with table.reading() as (shape, _):
        pass
    with pytest.raises(ReplicaFailed) as fenced:
        table.apply(shape, [Edit((7, 8), None, {"id": 8, "line": 7})], down)
    assert fenced.value.code == "FENCED"
    assert len(names(database)) == 2


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("UPDATE shop.orders SET ordered = 'infinity'", "CORRUPT", "shop.orders has a value that is none here"),
        ("ALTER TABLE shop.orders ADD extra jsonb", "UNSUPPORTED", "Column extra is jsonb"),
        ("ALTER TABLE shop.orders ADD extra numeric", "UNSUPPORTED", "Column extra is numeric"),
        ("DROP TABLE shop.orders", "SCHEMA", "no table shop.orders"),
    ],
)
def test_what_cannot_be_read_is_named(
    database: psycopg.Connection[Any], table: PostgresTable, statement: str, code: str, said: str
) -> None:
    database.execute(statement)
    with pytest.raises(ReplicaFailed, match=said) as failed, table.reading() as (_, batches):
        list(batches)
    assert failed.value.code == code


def test_a_row_that_the_table_does_not_take_is_an_error(
    database: psycopg.Connection[Any], table: PostgresTable
) -> None:
    database.execute("ALTER TABLE shop.orders ADD CHECK (id < 100)")
    with table.reading() as (shape, _):
        pass
    with pytest.raises(ReplicaFailed) as refused:
        table.apply(shape, [Edit((7, 100), None, {"id": 100, "line": 7})], lambda: None)
    assert refused.value.code == "NOT_WRITABLE"


def test_a_row_that_the_table_would_keep_as_another_is_left(
    database: psycopg.Connection[Any], table: PostgresTable, caplog: pytest.LogCaptureFixture
) -> None:
    """RE16: no key that is rounded to another, nothing too large; the rows beside it are written."""
    shape = Shape(
        (Column("id", "decimal(21,2)"), Column("line", "long"), Column("price", "decimal(30,4)")), ("line", "id")
    )
    prices = {"9.00": "1.5000", "9.50": "1.5000", "10.00": "1.5001", "11.00": "1234567890123.0000"}
    rows: list[Row] = [{"id": Decimal(key), "line": 7, "price": Decimal(price)} for key, price in prices.items()]
    assert table.apply(shape, [Edit((7, row["id"]), None, row) for row in rows], lambda: None) == 1
    assert [row[0] for row in names(database)] == [1, 2, 9]
    assert caplog.text.count("is not written to shop.orders, which would keep it as another") == 3


def test_a_server_that_does_not_answer_may_be_asked_again(unused_port: Callable[[], int]) -> None:
    silent = PostgresTable(f"postgresql://{USER}@127.0.0.1:{unused_port()}/postgres", "orders")
    with pytest.raises(ReplicaFailed) as failed, silent.reading():
        pass
    assert failed.value.code == "IO"


def _json(values: object) -> str:
    return msgspec.json.encode(values).decode()
