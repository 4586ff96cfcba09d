"""Rows of tables: what is kept under an incarnation and under numbers, and what of it is shown."""

from typing import Any

import msgspec
import pytest

from topolog.events.errors import BadInput, BeingAltered
from topolog.events.ids import Version
from topolog.events.object_definition import Column, ColumnType
from topolog.events.objects import ObjectStatus
from topolog.streams.local.demo.table_rows import (
    decoded,
    encoded,
    incarnation_of,
    is_table,
    row_key,
    spread_by,
    without,
)
from topolog.streams.node.objects import Table


def table(*columns: Column, writable: tuple[Column, ...] = (), changing: frozenset[str] = frozenset()) -> Table:
    """shop.orders with the key `id` and these columns."""
    status = ObjectStatus.PRE_ALTER if writable else ObjectStatus.USING
    named = (ID, *columns)
    return Table(
        "shop.orders", 5, Version(1), named, (ID, *writable) if writable else named, "id", {}, 0, status, changing
    )


ID, NAME = Column("id", ColumnType.INT64, 1), Column("name", ColumnType.STRING, 2)


def test_a_row_of_a_table_is_never_taken_for_one_of_a_type() -> None:
    """A type may have the name of an incarnation, a key any slashes."""
    assert incarnation_of(row_key(5, "a/b")) == 5
    assert incarnation_of("5/a/b") is None
    assert (is_table("shop.orders"), is_table("Order")) == (True, False)


def test_a_table_that_is_made_anew_has_its_rows_in_the_same_partitions() -> None:
    assert spread_by(row_key(5, "a/b")) == spread_by(row_key(6, "a/b")) == "a/b"
    assert spread_by("Order/7") == "Order/7"


def test_a_column_that_got_another_name_has_its_values() -> None:
    row = encoded(table(NAME), "7", {"name": "Ada"})
    assert decoded([ID, Column("called", ColumnType.STRING, 2)], row) == {"id": 7, "called": "Ada"}


def test_a_column_that_was_dropped_and_added_again_is_empty() -> None:
    """Its number is another one; what lies under the former number can be taken out for good."""
    row = encoded(table(NAME), "7", {"name": "Ada"})
    assert decoded([ID, Column("name", ColumnType.STRING, 3)], row) == {"id": 7, "name": None}
    assert msgspec.json.decode(without(row, {2})) == {"1": 7}
    assert without(row, {3}) is row


@pytest.mark.parametrize(
    ("type_", "value", "wider", "shown"),
    [
        (ColumnType.INT32, 5, ColumnType.INT64, 5),
        (ColumnType.INT32, 5, ColumnType.DOUBLE, 5.0),
        (ColumnType.FLOAT, 0.5, ColumnType.DOUBLE, 0.5),
        (ColumnType.DATE, "2026-11-22", ColumnType.TIMESTAMP, "2026-11-22T00:00:00"),
    ],
)
def test_a_value_is_shown_in_the_type_that_its_column_has_become(
    type_: ColumnType, value: Any, wider: ColumnType, shown: Any
) -> None:
    row = encoded(table(Column("a", type_, 2)), "7", {"a": value})
    found = decoded([Column("a", wider, 2)], row)["a"]
    assert msgspec.to_builtins(found) == shown
    assert type(msgspec.to_builtins(found)) is type(shown)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ColumnType.INT32, 1 << 31),
        (ColumnType.INT64, 0.5),
        (ColumnType.INT64, "seven"),
        (ColumnType.BOOLEAN, 2),
        (ColumnType.DATE, "2026-11-22T10:00:00"),
        (ColumnType.DOUBLE, [1]),
        (ColumnType.STRING, {"a": 1}),
        (ColumnType.BLOB, "ä"),
        (ColumnType.BLOB, 1),
    ],
)
def test_a_value_that_has_no_equal_in_the_columns_type_is_refused(type_: ColumnType, value: Any) -> None:
    with pytest.raises(BadInput, match=r"shop\.orders\.a: "):
        encoded(table(Column("a", type_, 2)), "7", {"a": value})


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="has no column 'nmae'"):
        encoded(table(NAME), "7", {"nmae": "Ada"})


@pytest.mark.parametrize("document", [{"id": 8}, {"id": None}, {"id": "x"}])
def test_the_key_is_that_of_the_path(document: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        encoded(table(NAME), "7", document)


@pytest.mark.parametrize("key", ["07", " 7", "7.0", "seven"])
def test_a_key_has_one_spelling(key: str) -> None:
    """Or one row would be two."""
    with pytest.raises(BadInput):
        encoded(table(NAME), key, {})


def test_while_a_column_becomes_wider_its_values_suit_both() -> None:
    """TA23: what only the wider type has may be tried again, what neither has never fits."""
    narrow, wide = Column("a", ColumnType.INT32, 2), Column("a", ColumnType.INT64, 2)
    widening = table(wide, writable=(narrow,))
    assert encoded(widening, "7", {"a": 5}) == b'{"1":7,"2":5}'
    with pytest.raises(BeingAltered, match="becoming INT64"):
        encoded(widening, "7", {"a": 1 << 40})
    with pytest.raises(BadInput):
        encoded(widening, "7", {"a": 1 << 70})


def test_a_column_that_is_added_or_dropped_takes_no_values_meanwhile() -> None:
    with pytest.raises(BeingAltered, match="'name'"):
        encoded(
            table(NAME, writable=(Column("a", ColumnType.INT32, 3),), changing=frozenset({"name"})),
            "7",
            {"name": "Ada"},
        )
