"""Rows of tables: what is kept under an incarnation and under numbers, and what of it is shown."""

from typing import Any

import msgspec
import pytest

from topolog.events.errors import BadInput
from topolog.events.object_definition import Column, ColumnType
from topolog.streams.local.demo.table_rows import (
    decoded,
    encoded,
    incarnation_of,
    is_table,
    row_key,
    spread_by,
    without,
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
    row = encoded("shop.orders", [ID, NAME], {"id": 7, "name": "Ada"})
    assert decoded([ID, Column("called", ColumnType.STRING, 2)], row) == {"id": 7, "called": "Ada"}


def test_a_column_that_was_dropped_and_added_again_is_empty() -> None:
    """Its number is another one; what lies under the former number can be taken out for good."""
    row = encoded("shop.orders", [ID, NAME], {"id": 7, "name": "Ada"})
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
    row = encoded("shop.orders", [Column("a", type_, 2)], {"a": value})
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
        encoded("shop.orders", [Column("a", type_, 2)], {"a": value})


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(BadInput, match="has no column 'nmae'. It has id, name"):
        encoded("shop.orders", [ID, NAME], {"id": 7, "nmae": "Ada"})
