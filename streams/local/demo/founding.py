"""The store's tables as it makes them itself: one for each file of rows, in a database of its own.

All of them are one schema change, asked for by whoever starts while there is no such database; so it is decided once,
and a table that somebody has dropped stays dropped however often nodes start.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from topolog.events.errors import NotFound, Refused
from topolog.events.object_definition import Column, Definition, ObjectKind, Statement, Verb
from topolog.streams.local.demo.table_rows import column_type
from topolog.streams.node.client import Node

DATABASE = "shop"
TIMEOUT_S = 1.0
"""So that a loader hears soon that it should stop; it just asks again."""

_THERE_ALREADY = ("OBJECT_EXISTS",)


class Rows(Protocol):
    """What is to become a table: its name, the field of its key, and the types of its fields."""

    @property
    def table(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def types(self) -> Mapping[str, str]: ...


def found_tables(node: Node, files: Iterable[Rows]) -> None:
    """Return when the database is there, with the tables or without those that were dropped. Raises as `Node.change`,
    and Refused for files that can be no tables."""
    try:
        node.database(DATABASE)
    except NotFound:
        try:
            node.change(*statements(files), timeout_s=TIMEOUT_S, reason="the tables of our rows")
        except Refused as refused:
            if refused.code not in _THERE_ALREADY:  # another node was first
                raise


def statements(files: Iterable[Rows]) -> tuple[Statement, ...]:
    """The database, and a table for each file."""
    tables = [Statement(Verb.CREATE, ObjectKind.TABLE, each.table, _definition(each)) for each in files]
    return (Statement(Verb.CREATE, ObjectKind.DATABASE, DATABASE, Definition()), *tables)


def table_name(stem: str) -> str:
    """Of the table for the rows of a file: orders -> shop.orders."""
    return f"{DATABASE}.{_word(stem)}"


def column_names(fields: Iterable[str]) -> dict[str, str]:
    """Field -> column; most have one name."""
    return {field: _word(field) for field in fields}


def _definition(rows: Rows) -> Definition:
    types = {rows.key: "String", **rows.types}
    columns = tuple(Column(_word(field), column_type(name)) for field, name in types.items())
    return Definition(columns, _word(rows.key))


def _word(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", text)[:60]
    return word if re.match(r"[A-Za-z_]", word) else f"_{word}"
