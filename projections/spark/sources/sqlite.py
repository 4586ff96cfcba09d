"""A table of an SQLite database as a replica: `sqlite:/folder/shop.db#orders`.

A cut is one read transaction. SQLite keeps whatever it is given under any declared type; here a column is what its
declaration says, and a value that is none of it is CORRUPT, with its column. Times are kept as ISO 8601 texts, in UTC
unless they say otherwise; decimals as their digits.

What it is given it may keep as something else: NaN as NULL, a decimal of many digits as the nearest double. So each row
that is written is read back in the same transaction, and left as it was if it is not what was sent.
"""

import datetime as dt
import logging
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

from topolog.events.errors import ReplicaFailed
from topolog.events.replica_access import Fence
from topolog.events.tree_spec import Column
from topolog.projections.spark.sources.copied import BATCH_ROWS, Batches, Edit, Shape
from topolog.projections.spark.sources.stored_values import Row, Value, are_same, decimal_in, instant_in

_LOGGER = logging.getLogger(__name__)

BUSY_S = 5.0

_DECLARED = re.compile(r"([A-Z][A-Z0-9 ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_TYPES = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "INT2", "INT4", "INT8"), "long"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "boolean"),
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT"), "double"),
    **dict.fromkeys(("TEXT", "CLOB", "CHAR", "CHARACTER", "VARCHAR", "NCHAR", "NVARCHAR"), "string"),
    **dict.fromkeys(("TIMESTAMP", "DATETIME"), "timestamp"),
    "BLOB": "binary",
    "DATE": "date",
}


class SqliteTable:
    """An Original (copied.py). The file and the table are looked for anew each time."""

    def __init__(self, path: Path, table: str) -> None:
        self._path = path
        self._table = table

    @property
    def is_writable(self) -> bool:
        return True

    @contextmanager
    def reading(self) -> Iterator[tuple[Shape, Batches]]:
        with self._connected("ro") as connection:
            connection.execute("BEGIN")
            shape = self._shape(connection)
            yield shape, self._batches(connection, shape)

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        with self._connected("rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            types = {each.name: each for each in self._columns(connection)[0]}
            kept = tuple(types.get(each.name, each) for each in shape.columns)
            done = sum(self._apply(connection, shape, kept, each) for each in edits)
            fence()
            connection.execute("COMMIT")
        return done

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Whatever is not committed is undone at the end."""
        uri = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
        try:
            with closing(sqlite3.connect(uri, BUSY_S, uri=True, isolation_level=None)) as connection:
                yield connection
        except sqlite3.IntegrityError as error:
            raise ReplicaFailed("NOT_WRITABLE", f"{self._table} does not take a row: {error}.") from error
        except sqlite3.DatabaseError as error:
            own = getattr(error, "sqlite_errorcode", None)  # none if Python's module has raised it: of a text
            is_damaged = own is None or own & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            code = "CORRUPT" if is_damaged else "IO"
            raise ReplicaFailed(code, f"{self._path}: {error}.", hint="Is it there, and a database?") from error

    def _shape(self, connection: sqlite3.Connection) -> Shape:
        columns, key = self._columns(connection)
        (rows,) = connection.execute(f"SELECT count(*) FROM {_quoted(self._table)}").fetchone()
        return Shape(columns, key, rows)

    def _columns(self, connection: sqlite3.Connection) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """All of the table, and the names of those of its key."""
        is_name = "\0" not in self._table
        found = connection.execute(f"PRAGMA table_info({_quoted(self._table)})").fetchall() if is_name else []
        if not found:
            raise ReplicaFailed("SCHEMA", f"{self._path} has no table {self._table}.")
        columns = tuple(Column(name, _canonical(name, declared)) for _, name, declared, *_ in found)
        return columns, tuple(name for *_, place, name in sorted((each[5], each[1]) for each in found) if place)

    def _batches(self, connection: sqlite3.Connection, shape: Shape) -> Batches:
        cursor = connection.execute(f"SELECT {_list(shape.columns)} FROM {_quoted(self._table)}")
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield [_loaded(shape.columns, row) for row in rows]

    def _apply(self, connection: sqlite3.Connection, shape: Shape, kept: Sequence[Column], edit: Edit) -> bool:
        """`kept`: the columns of the edit in the types of the table."""
        own = [_stored(value) for value in edit.key]
        found = self._found(connection, shape, own)
        now = _row(shape.columns, found)
        if len(found) > 1 or are_same(edit.after, now) or not are_same(edit.before, now):
            return len(found) <= 1 and are_same(edit.after, now)
        if edit.after is None:
            connection.execute(f"DELETE FROM {_quoted(self._table)} WHERE {_where(shape)}", own)
            return True
        connection.execute("SAVEPOINT one")
        is_kept = self._put(connection, shape, own, edit.after, is_new=not found)
        if not (is_kept and self._is_as(connection, shape, kept, own, edit.after)):
            connection.execute("ROLLBACK TO one")
            _LOGGER.warning("row %s is not written to %s, which would keep it as another", edit.key, self._table)
            is_kept = False
        connection.execute("RELEASE one")
        return is_kept

    def _put(
        self, connection: sqlite3.Connection, shape: Shape, own: Sequence[object], row: Row, *, is_new: bool
    ) -> bool:
        """Whether the table takes the types of this row at all."""
        table, names, values = _quoted(self._table), [*map(_quoted, row)], [_stored(value) for value in row.values()]
        try:
            if is_new:
                marks = ", ".join("?" for _ in values)
                connection.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", values)
            else:
                settings = ", ".join(f"{name} = ?" for name in names)
                connection.execute(f"UPDATE {table} SET {settings} WHERE {_where(shape)}", [*values, *own])
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_MISMATCH:
                raise
            return False
        return True

    def _found(self, connection: sqlite3.Connection, shape: Shape, own: Sequence[object]) -> list[Sequence[object]]:
        """The rows with this key."""
        select = f"SELECT {_list(shape.columns)} FROM {_quoted(self._table)} WHERE {_where(shape)}"
        return connection.execute(select, own).fetchall()

    def _is_as(
        self, connection: sqlite3.Connection, shape: Shape, kept: Sequence[Column], own: Sequence[object], row: Row
    ) -> bool:
        """Whether the row reads as it was written."""
        try:
            now = _row(kept, self._found(connection, shape, own))
        except ReplicaFailed:
            return False
        return now is not None and are_same(row, {name: now[name] for name in row})


def _canonical(name: str, declared: str) -> str:
    match = _DECLARED.fullmatch(declared.strip().upper())
    word, precision, scale = match.groups() if match else ("", None, None)
    if word in ("DECIMAL", "NUMERIC") and precision:
        return f"decimal({precision},{scale or 0})"
    if word not in _TYPES:
        hint = "Declare such as BIGINT, DOUBLE, DECIMAL(10,2), TEXT, BLOB, BOOLEAN, DATE, TIMESTAMP."
        raise ReplicaFailed("UNSUPPORTED", f"Column {name} is declared as {declared!r}, which says no type.", hint=hint)
    return _TYPES[word]


def _row(columns: Sequence[Column], found: Sequence[Sequence[object]]) -> Row | None:
    names = (each.name for each in columns)
    return dict(zip(names, _loaded(columns, found[0]), strict=True)) if found else None


def _loaded(columns: Sequence[Column], row: Sequence[object]) -> list[Value]:
    found: list[Value] = []
    for column, value in zip(columns, row, strict=True):
        try:
            found.append(None if value is None else _value(value, column.type))
        except (TypeError, ValueError) as error:
            raise ReplicaFailed(
                "CORRUPT", f"Column {column.name} holds {value!r}, which is no {column.type}."
            ) from error
    return found


def _value(value: object, kind: str) -> Value:
    match kind, value:
        case "long", int():
            return value
        case "string", str():
            return value
        case "binary", bytes():
            return value
        case "double", int() | float():
            return float(value)
        case "boolean", 0 | 1:
            return bool(value)
        case "date", str():
            return dt.date.fromisoformat(value)
        case "timestamp", str():
            return instant_in(value)
        case _, int() | float() | str() if kind.startswith("decimal"):
            return decimal_in(value, kind)
        case _:
            raise TypeError(kind)


def _stored(value: Value) -> object:
    """As SQLite is given it; of a time in the form that its own functions write."""
    match value:
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ")
        case dt.date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def _where(shape: Shape) -> str:
    return " AND ".join(f"{_quoted(name)} IS ?" for name in shape.key)


def _quoted(name: str) -> str:
    return f'"{name.replace(chr(34), chr(34) * 2)}"'


def _list(columns: Sequence[Column]) -> str:
    return ", ".join(_quoted(each.name) for each in columns)
