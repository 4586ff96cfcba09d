"""A table of the example store as two replicas: `store:shop.orders@acting` and `store:shop.orders@backup`.

Threats. A partition is missing, or is there twice, because it moves while the nodes are asked one after the other. A
row is put right that a client has written meanwhile.

Invariant. A cut has each partition once. A row of a backup is changed only where the very bytes lie that were compared,
under the version that the acting copy has, too.

Argument. Each node tells which partitions its rows are of, and how many there are; unless all of them come together
once, the nodes are asked again later. Each partition is as at one moment, not all of them at the same one: clients may
write meanwhile. That shows as a difference, and is gone at a later cut. What a row may be changed to, and when, is
decided by the node under its lock, by version and bytes (`streams/local/demo/copies.py`): so only the bytes of the same
write are put right, and rows that a copy lacks or has too many are left for a load.

The column `_version` is that of the row in the store: it sorts as versions do.
"""

import base64
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from topolog.events.errors import ReplicaFailed, TopologError
from topolog.events.object_definition import Column as StoreColumn
from topolog.events.object_definition import ColumnType
from topolog.events.replica_access import Fence
from topolog.events.tree_spec import Column
from topolog.projections.spark.sources.copied import BATCH_ROWS, Batches, Edit, Shape
from topolog.projections.spark.sources.stored_values import Row, Value, are_same, instant_in

VERSION = "_version"
ANSWER_S = 30.0
CORRECTIONS = 200
"""Rows in one request."""

_TYPES: Mapping[ColumnType, str] = {
    ColumnType.BOOLEAN: "boolean",
    ColumnType.INT32: "long",
    ColumnType.INT64: "long",
    ColumnType.FLOAT: "double",
    ColumnType.DOUBLE: "double",
    ColumnType.STRING: "string",
    ColumnType.BLOB: "binary",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamp",
}


class Part(Enum):
    """Of each partition the copy that acts, or the first of the others that own."""

    ACTING = "acting"
    BACKUP = "backup"


class _Told(msgspec.Struct, frozen=True):
    """The first line of an answer; `of` is how many partitions there are, `partitions` those that follow."""

    node: str
    key: str
    columns: tuple[StoreColumn, ...]
    of: int
    partitions: dict[int, int]


class _ToldRow(msgspec.Struct, frozen=True):
    key: str
    version: tuple[int, int]
    kept: str
    row: dict[str, Any]


class _Correction(msgspec.Struct, frozen=True):
    key: str
    version: tuple[int, int]
    kept: str
    row: dict[str, Any]


class _Corrected(msgspec.Struct, frozen=True):
    written: int


class _Answer(msgspec.Struct, frozen=True):
    endpoint: str
    told: _Told
    rows: list[_ToldRow]


class StoreTable:
    """An Original (copied.py). `endpoints` says where the nodes of the store answer now."""

    def __init__(self, endpoints: Callable[[], Sequence[str]], table: str, part: Part) -> None:
        self._endpoints = endpoints
        self._table = table
        self._part = part

    @property
    def is_writable(self) -> bool:
        return self._part is Part.BACKUP

    @contextmanager
    def reading(self) -> Iterator[tuple[Shape, Batches]]:
        with self._nodes() as nodes:
            answers = self._asked(nodes)
        shape = _shape(answers)
        rows = [_loaded(shape.columns, each) for answer in answers for each in answer.rows]
        yield shape, (rows[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS))

    def apply(self, shape: Shape, edits: Sequence[Edit], fence: Fence) -> int:
        wanted = {edit.key: edit for edit in edits}
        done = 0
        with self._nodes() as nodes:
            for answer in self._asked(nodes):
                found = [_correction(shape, wanted, each) for each in answer.rows]
                corrections = [each for each in found if isinstance(each, _Correction)]
                done += found.count(True)
                for start in range(0, len(corrections), CORRECTIONS):
                    fence()
                    body = msgspec.json.encode(corrections[start : start + CORRECTIONS])
                    told = self._answer(nodes.post(f"{answer.endpoint}/copies/{self._path}", content=body))
                    done += msgspec.json.decode(told, type=_Corrected).written
        return done

    @property
    def _path(self) -> str:
        return quote(self._table, safe="")

    @contextmanager
    def _nodes(self) -> Iterator[httpx.Client]:
        try:
            with httpx.Client(timeout=ANSWER_S, trust_env=False) as nodes:
                yield nodes
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ReplicaFailed("IO", f"A node of the store does not answer: {error}.", hint="Ask again.") from error

    def _asked(self, nodes: httpx.Client) -> list[_Answer]:
        """All nodes' copies; raises ReplicaFailed unless each partition is there once."""
        answers = []
        for endpoint in self._found():
            response = nodes.get(f"{endpoint}/copies/{self._path}", params={"role": self._part.value})
            first, *lines = self._answer(response).splitlines()
            told = msgspec.json.decode(first, type=_Told)
            answers.append(_Answer(endpoint, told, [msgspec.json.decode(line, type=_ToldRow) for line in lines]))
        partitions = sorted(number for each in answers for number in each.told.partitions)
        if not answers or partitions != list(range(answers[0].told.of)):
            raise ReplicaFailed(
                "IO",
                f"The {self._part.value} copies of {self._table} are not all there at the moment: "
                f"{len(set(partitions))} partitions of {answers[0].told.of if answers else 'an unknown number'}.",
                hint="Ask again when partitions are at rest; a backup needs two nodes.",
            )
        return answers

    def _found(self) -> Sequence[str]:
        try:
            return self._endpoints()
        except TopologError as error:
            raise ReplicaFailed(
                "IO", f"The nodes of the store are not known: {error.message}", hint=error.hint
            ) from error

    def _answer(self, response: httpx.Response) -> bytes:
        if response.status_code == HTTPStatus.OK:
            return response.content
        codes = {
            HTTPStatus.NOT_FOUND: "SCHEMA",
            HTTPStatus.BAD_REQUEST: "SCHEMA",
            HTTPStatus.CONFLICT: "IO",  # it acts for the row by now
            HTTPStatus.INTERNAL_SERVER_ERROR: "CORRUPT",
        }
        code = codes.get(HTTPStatus(response.status_code), "IO")
        raise ReplicaFailed(code, f"{response.url} answers {response.status_code}: {response.text.strip()}")


def version_text(version: tuple[int, int]) -> str:
    """As the column `_version` has it: token and number, each with 16 digits."""
    return "{:016d}.{:016d}".format(*version)


def _shape(answers: Sequence[_Answer]) -> Shape:
    """Of the table; raises ReplicaFailed while nodes show it differently."""
    first = answers[0].told
    if any((each.told.columns, each.told.key) != (first.columns, first.key) for each in answers):
        raise ReplicaFailed("IO", "The table is being changed: nodes show different columns.", hint="Ask again.")
    columns = (*(Column(each.name, _TYPES[each.type]) for each in first.columns), Column(VERSION, "string"))
    return Shape(columns, (first.key,), sum(len(each.rows) for each in answers))


def _loaded(columns: Sequence[Column], told: _ToldRow) -> list[Value]:
    values = {**told.row, VERSION: version_text(told.version)}
    try:
        return [_value(values[each.name], each.type) for each in columns]
    except (KeyError, TypeError, ValueError) as error:
        raise ReplicaFailed("CORRUPT", f"Row {told.key!r} is none of its table: {error}.") from error


def _value(value: Any, kind: str) -> Value:
    """A value as the nodes write JSON, which is not as the wire between replicas has it."""
    if value is None:
        return None
    match kind:
        case "double":
            return float(value)
        case "binary":
            return base64.b64decode(value, validate=True)
        case "date":
            return dt.date.fromisoformat(value)
        case "timestamp":
            return instant_in(value)
        case _:
            return value  # type: ignore[no-any-return]  # Arrow looks at what it is


def _correction(shape: Shape, wanted: Mapping[tuple[Value, ...], Edit], told: _ToldRow) -> _Correction | bool:
    """What the row is to be, if it is as it was compared, and differs from what is wanted in bytes alone; else whether
    it is already so."""
    row: Row = dict(zip((each.name for each in shape.columns), _loaded(shape.columns, told), strict=True))
    edit = wanted.get(tuple(row[name] for name in shape.key))
    if edit is None or edit.after is None or not are_same(edit.before, row):
        return edit is not None and are_same(edit.after, row)
    if edit.after.get(VERSION, row.get(VERSION)) != version_text(told.version):
        return False
    values = {**told.row, **{name: _sent(value) for name, value in edit.after.items() if name != VERSION}}
    return _Correction(told.key, told.version, told.kept, values)


def _sent(value: Value) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
