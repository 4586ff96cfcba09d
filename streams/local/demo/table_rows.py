"""Rows of tables: how they are kept, so that a schema change may rename, widen or drop what they lie under. Pure.

Threats. A table is dropped and created again under its name, and the rows of the former one are back. A column that was
dropped and added again shows what the former one held. A row that was written before a column became wider, or got
another name, cannot be read any more.

How it works. A row is kept under the incarnation of its table and its key, its values under the numbers of columns:
neither is ever given twice. A name is looked up when somebody asks, in the definition that may be used then. What
lies under an incarnation or a number that is no more is dropped by whoever comes upon it.

The partition is that of the key alone: a table that is made anew has its rows where they were.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from topolog.events.errors import BadInput, BeingAltered
from topolog.events.object_definition import Column, ColumnType
from topolog.streams.local.demo.types_of_rows import JSON_TYPES, Document, conversion
from topolog.streams.node.objects import Table

Numbered = dict[str, Any]
"""What a row holds, by the numbers of columns as text. A column without a value is not there."""

_IGNITE: Mapping[ColumnType, str] = {
    ColumnType.BOOLEAN: "boolean",
    ColumnType.INT32: "int",
    ColumnType.INT64: "long",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.STRING: "String",
    ColumnType.DATE: "Date",
    ColumnType.TIMESTAMP: "Timestamp",
}
_OF_JSON: Mapping[type, str] = {**JSON_TYPES, int: "decimal"}  # JSON's whole numbers have no limit, as those of a long

_COLUMN_TYPES = {
    "boolean": ColumnType.BOOLEAN,
    "byte": ColumnType.INT32,
    "short": ColumnType.INT32,
    "int": ColumnType.INT64,
    "long": ColumnType.INT64,
    "float": ColumnType.DOUBLE,
    "double": ColumnType.DOUBLE,
    "decimal": ColumnType.DOUBLE,
    "Date": ColumnType.DATE,
    "Timestamp": ColumnType.TIMESTAMP,
    "byte[]": ColumnType.BLOB,
}


def is_table(name: str) -> bool:
    """A table's name is shop.orders; those of types that rows agree on have no dot here."""
    return "." in name


def row_key(incarnation: int, key: str) -> str:
    """No other row has it: that of a type begins with the type's name, which is never empty."""
    return f"/{incarnation}/{key}"


def incarnation_of(row: str) -> int | None:
    """Of the table in which the row with this row key lies, None for a row of a type."""
    return int(row.split("/", 2)[1]) if row.startswith("/") else None


def spread_by(row: str) -> str:
    """What decides about the row's partition."""
    return row.split("/", 2)[2] if row.startswith("/") else row


def column_type(type_name: str) -> ColumnType:
    """The type of a column for values of this type of Ignite's: wide enough for what other files of the rows say."""
    return _COLUMN_TYPES.get(type_name, ColumnType.STRING)


def encoded(table: Table, key: str, document: Document) -> bytes:
    """The row with this key as it is kept. The document need not say the key.

    Raises BadInput for a column that is not there, a value that has no equal in the column's type, and another key;
    BeingAltered for what suits only one of the definitions that a change has prepared.
    """
    row: Numbered = {}
    for name, value in {table.key: key, **document}.items():
        column = table.writable_column(name)
        if value is not None:
            row[str(column.number)] = _written(table, column, value)
    named = row.get(str(table.writable_column(table.key).number))
    if _text(named) != key:
        raise BadInput(f"The row says that its {table.key} is {_text(named)}, the path says {key!r}.")
    return msgspec.json.encode(row)


def _written(table: Table, column: Column, value: Any) -> Any:
    """As one of the type that every value must fit while the column becomes wider."""
    try:
        return converted(f"{table.name}.{column.name}", value, column.type)
    except BadInput:
        wider = table.column(column.name)
        if wider is None or wider.type is column.type:
            raise
        converted(f"{table.name}.{column.name}", value, wider.type)
        message = f"Column {column.name!r} of {table.name!r} is becoming {wider.type.value}, and is not yet."
        raise BeingAltered(message, retry_after_ms=1_000, hint="Try again.") from None


def _text(value: Any) -> str:
    """Of a key, as it stands in a path."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')


def decoded(columns: Iterable[Column], value: bytes) -> Document:
    """The row by names, null for each column that it has no value of."""
    row: Numbered = msgspec.json.decode(value)
    return {each.name: _shown(row.get(str(each.number)), each.type) for each in columns}


def numbers_in(value: bytes) -> set[int]:
    """Of the columns that the row has values of."""
    row: Numbered = msgspec.json.decode(value)
    return set(map(int, row))


def without(value: bytes, numbers: Collection[int]) -> bytes:
    """The row without what lies under these numbers."""
    row: Numbered = msgspec.json.decode(value)
    kept = {number: each for number, each in row.items() if int(number) not in numbers}
    return value if len(kept) == len(row) else msgspec.json.encode(kept)


def converted(what: str, value: Any, wanted: ColumnType) -> Any:
    """The value of JSON as one of the column's type; raises BadInput if there is none."""
    try:
        return _to_blob(value) if wanted is ColumnType.BLOB else _shown(value, wanted)
    except ValueError as error:
        raise BadInput(f"{what}: {error}.") from error


def _shown(value: Any, wanted: ColumnType) -> Any:
    """A value that is kept, as one of the column's type by now, which is never narrower."""
    if value is None or wanted is ColumnType.BLOB:
        return value
    return conversion(_OF_JSON[type(value)], _IGNITE[wanted])(value)


def _to_blob(value: Any) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (TypeError, ValueError, binascii.Error) as error:
        raise ValueError(f"{value!r} is no text of base64") from error
