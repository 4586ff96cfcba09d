"""Canonical values as Python has them, between a foreign store, the Parquet file of a cut, and the wire.

boolean bool · long int · double float · decimal(p,s) Decimal · string str · binary bytes · date date · timestamp
datetime with a time zone · timestamp_ntz datetime without · None for NULL. How the wire writes them is canonical.py's.
"""

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from topolog.events.errors import ReplicaFailed
from topolog.events.tree_spec import Column

Value = bool | int | float | Decimal | str | bytes | dt.date | dt.datetime | None
Row = Mapping[str, Value]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARROW = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_OF_WIRE: Mapping[str, Callable[[Any], Value]] = {
    "boolean": lambda value: msgspec.convert(value, bool),
    "long": lambda value: msgspec.convert(value, int),
    "string": lambda value: msgspec.convert(value, str),
    "double": float,
    "binary": lambda value: base64.b64decode(value, validate=True),
    "date": dt.date.fromisoformat,
    "timestamp": lambda value: _EPOCH + dt.timedelta(microseconds=value),
    "timestamp_ntz": dt.datetime.fromisoformat,
}
_EXACT = Context(prec=76, traps=[InvalidOperation, Inexact])


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Raises ReplicaFailed for types that no source here has: lists, maps, structs."""
    return pa.schema([pa.field(each.name, _arrow_type(each)) for each in columns])


def arrow_table(columns: Sequence[Column], rows: Sequence[Sequence[Value]]) -> pa.Table:
    """The rows, each a value per column. Raises ReplicaFailed CORRUPT for a value that is none of its column."""
    schema, arrays = arrow_schema(columns), []
    for place, (column, field) in enumerate(zip(columns, schema, strict=True)):
        try:
            arrays.append(pa.array([row[place] for row in rows], field.type))
        except (pa.ArrowException, OverflowError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise ReplicaFailed(
                "CORRUPT", f"Column {column.name} has a value that is no {column.type}: {said}"
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def from_wire(value: Any, kind: str) -> Value:
    """A value of JSON as canonical.py writes it; raises ReplicaFailed for one that is none of the type."""
    if value is None:
        return None
    try:
        return _from_wire(value, kind)
    except (msgspec.ValidationError, TypeError, ValueError, ArithmeticError) as error:
        raise ReplicaFailed("SCHEMA", f"{value!r} is no {kind} as it is sent.") from error


def row_from_wire(text: str, columns: Sequence[Column]) -> Row:
    """Of these columns those that the JSON object has."""
    values = msgspec.json.decode(text, type=dict[str, Any])
    return {each.name: from_wire(values[each.name], each.type) for each in columns if each.name in values}


def key_from_wire(text: str, columns: Sequence[Column]) -> tuple[Value, ...]:
    """The values of the key columns, which are given in the key's order."""
    values = msgspec.json.decode(text, type=list[Any])
    return tuple(from_wire(value, each.type) for value, each in zip(values, columns, strict=True))


def decimal_in(value: object, kind: str) -> Decimal:
    """With the scale of the type; raises ValueError if it has more digits than that."""
    scale = int(_decimal(kind)[1])
    try:
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except ArithmeticError as error:
        raise ValueError(f"{value!r} is no {kind}") from error


def instant_in(text: str) -> dt.datetime:
    """An ISO 8601 text as a time in UTC, which it is of unless it says otherwise; raises ValueError if it says more
    than microseconds, or is of no year from 1 to 9999."""
    if _FINER.search(text):
        raise ValueError(f"{text!r} is finer than microseconds")
    found = dt.datetime.fromisoformat(text)
    try:
        return found.astimezone(dt.UTC) if found.tzinfo else found.replace(tzinfo=dt.UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is no time in UTC") from error


def are_same(one: Row | None, other: Row | None) -> bool:
    """Whether two rows have the same canonical values in the same columns; no row is the same as no row."""
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())


def _is_same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def _from_wire(value: Any, kind: str) -> Value:
    known = _OF_WIRE.get(kind)
    return decimal_in(value, kind) if known is None else known(value)


def _arrow_type(column: Column) -> pa.DataType:
    if column.type in _ARROW:
        return _ARROW[column.type]
    return pa.decimal128(*map(int, _decimal(column.type)))


def _decimal(kind: str) -> tuple[str, str]:
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        raise ReplicaFailed("UNSUPPORTED", f"A column of type {kind} cannot be copied.")
    return match[1], match[2]
