"""A table of PostgreSQL as a replica: `postgresql://ada@host/shop#public.orders` (the owner of psycopg).

A cut is one REPEATABLE READ transaction of one connection. Spark's own JDBC source reads over several connections,
each with a snapshot of its own; so it has no cut, and no driver of Java is needed here.

`real` is read as the double that it is, so that it equals a FLOAT elsewhere. Numbers without a declared scale, times
with no time zone of their own but that of the session, and infinite times have no canonical form.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.errors import DataError, IntegrityError

from topolog.events.errors import ReplicaFailed
from topolog.events.replica_access import Fence
from topolog.events.tree_spec import Column
from topolog.projections.spark.sources.copied import BATCH_ROWS, Batches, Edit, Shape
from topolog.projections.spark.sources.stored_values import Row, Value, are_same

_LOGGER = logging.getLogger(__name__)

CONNECT_S = 5

_TYPES: Mapping[str, str] = {
    "boolean": "boolean",
    "smallint": "long",
    "integer": "long",
    "bigint": "long",
    "real": "double",
    "double precision": "double",
    "text": "string",
    "uuid": "string",
    "bytea": "binary",
    "date": "date",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
}
_READ_AS = {"double": "double precision", "string": "text"}
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL), atttypmod
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = %s AND indisprimary ORDER BY array_position(indkey::int2[], attnum)
"""
_ROWS = "SELECT reltuples::bigint FROM pg_class WHERE oid = %s"


class PostgresTable:
    """An Original (copied.py); `table` may name its schema."""

    def __init__(self, conninfo: str, table: str) -> None:
        self._conninfo = conninfo
        self._name = table
        self._table = sql.Identifier(*table.split(".", 1))

    @property
    def is_writable(self) -> bool:
        return True

    @contextmanager
    def reading(self) -> Iterator[tuple[Shape, Batches]]:
        with self._connected() as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with connection.transaction():
                connection.execute("SET LOCAL synchronize_seqscans = off")  # equal rows come in one order: one name
                shape = self._shape(connection)
                yield shape, self._batches(connection, shape)

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        with self._connected() as connection, connection.transaction():
            done = sum(self._apply(connection, shape, each) for each in edits)
            fence()
            return done

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self._conninfo, connect_timeout=CONNECT_S, options="-c timezone=UTC") as connection:
                yield connection
        except DataError as error:
            raise ReplicaFailed("CORRUPT", f"{self._name} has a value that is none here: {_first(error)}") from error
        except IntegrityError as error:
            raise ReplicaFailed("NOT_WRITABLE", f"{self._name} does not take a row: {_first(error)}") from error
        except psycopg.Error as error:
            raise ReplicaFailed("IO", f"PostgreSQL, asked for {self._name}: {_first(error)}") from error

    def _shape(self, connection: psycopg.Connection[tuple[Any, ...]]) -> Shape:
        found = connection.execute("SELECT to_regclass(%s)::oid", [self._table.as_string(connection)]).fetchone()
        if found is None or found[0] is None:
            raise ReplicaFailed("SCHEMA", f"The database has no table {self._name}.")
        columns = tuple(
            Column(name, _canonical(name, kind, modifier))
            for name, kind, modifier in connection.execute(_COLUMNS, found).fetchall()
        )
        key = tuple(name for (name,) in connection.execute(_KEY, found).fetchall())
        return Shape(columns, key, self._count(connection, found))

    def _count(self, connection: psycopg.Connection[tuple[Any, ...]], found: Sequence[Any]) -> int:
        """As it was when the table was analysed last; counted if it never was."""
        estimate = connection.execute(_ROWS, found).fetchone()
        if estimate is None or estimate[0] <= 0:
            estimate = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(self._table)).fetchone()
        return int(estimate[0]) if estimate else 0

    def _batches(self, connection: psycopg.Connection[tuple[Any, ...]], shape: Shape) -> Batches:
        with connection.cursor("topolog") as cursor:
            cursor.execute(self._select(shape))
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows

    def _apply(self, connection: psycopg.Connection[tuple[Any, ...]], shape: Shape, edit: Edit) -> bool:
        where = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in shape.key)
        locked = sql.SQL("{} WHERE {} FOR UPDATE").format(self._select(shape), where)
        found = connection.execute(locked, edit.key).fetchone()
        now = _row(shape.columns, found)
        if are_same(edit.after, now) or not are_same(edit.before, now):
            return are_same(edit.after, now)
        if edit.after is None:
            return _is_done(connection, sql.SQL("DELETE FROM {} WHERE {}").format(self._table, where), edit.key)
        names, values = [sql.Identifier(name) for name in edit.after], list(edit.after.values())
        if found is not None:
            settings = sql.SQL(", ").join(sql.SQL("{} = %s").format(name) for name in names)
            update = sql.SQL("UPDATE {} SET {} WHERE {}").format(self._table, settings, where)
            return self._is_put(connection, shape, update, [*values, *edit.key], edit.after)
        marks = sql.SQL(", ").join([sql.Placeholder()] * len(values))
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING")
        query = insert.format(self._table, sql.SQL(", ").join(names), marks)
        return self._is_put(connection, shape, query, values, edit.after)

    def _is_put(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        shape: Shape,
        query: sql.Composed,
        values: Sequence[Value],
        row: Row,
    ) -> bool:
        """Whether the row is there now. One that the table would round, or has no room for, is left as it was."""
        returning = sql.SQL("{} RETURNING {}").format(query, _columns(shape))
        with suppress(DataError), connection.transaction() as one:
            kept = _row(shape.columns, connection.execute(returning, values).fetchone())
            if kept is None:
                return False
            if are_same(row, {name: kept[name] for name in row}):
                return True
            raise psycopg.Rollback(one)
        _LOGGER.warning("a row is not written to %s, which would keep it as another", self._name)
        return False

    def _select(self, shape: Shape) -> sql.Composed:
        return sql.SQL("SELECT {} FROM {}").format(_columns(shape), self._table)


def _is_done(connection: psycopg.Connection[tuple[Any, ...]], query: sql.Composed, values: Sequence[Value]) -> bool:
    return connection.execute(query, values).rowcount == 1


def _columns(shape: Shape) -> sql.Composed:
    return sql.SQL(", ").join(_read(each) for each in shape.columns)


def _read(column: Column) -> sql.Composable:
    name = sql.Identifier(column.name)
    wanted = _READ_AS.get(column.type)
    return name if wanted is None else sql.SQL("{}::{}").format(name, sql.SQL(wanted))


def _canonical(name: str, kind: str, modifier: int) -> str:
    if kind in ("character varying", "character"):
        return "string"
    if kind == "numeric" and modifier >= 0:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    if kind not in _TYPES:
        said = f"Column {name} is {kind}, which has no canonical form."
        hint = "Compare a view without it, or with a type such as numeric(38,9) or text."
        raise ReplicaFailed("UNSUPPORTED", said, hint=hint)
    return _TYPES[kind]


def _row(columns: Sequence[Column], found: Sequence[Value] | None) -> Row | None:
    return None if found is None else dict(zip((each.name for each in columns), found, strict=True))


def _first(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
