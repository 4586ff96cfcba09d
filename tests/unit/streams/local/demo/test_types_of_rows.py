"""Names that people would have chosen, and conversions that lose nothing or refuse."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from topolog.streams.local.demo.types_of_rows import conversion, document_of, field_names, type_name


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("orders", "Order"),
        ("customer", "Customer"),
        ("customer_addresses", "CustomerAddress"),
        ("categories", "Category"),
        ("address", "Address"),
        ("status", "Status"),
        ("2024-sales", "2024Sale"),
        ("---", "Row"),
    ],
)
def test_a_table_names_its_type_in_the_singular(stem: str, name: str) -> None:
    """Words are joined in capitals, the last one loses its plural; an odd one out is still a name."""
    assert type_name(stem) == name


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["c_custkey", "c_name"], ["custkey", "name"]),
        (["order_date", "id"], ["orderDate", "id"]),
        (["c_name", "name"], ["cName", "name"]),
        (["a_b", "aB"], ["a_b", "aB"]),
        (["x_", "x_y"], ["x_", "x_y"]),
    ],
)
def test_fields_lose_a_word_that_all_columns_share(columns: list[str], names: list[str]) -> None:
    """A prefix that says nothing goes; where two columns would become one, all keep their names."""
    assert list(field_names(columns).values()) == names


def test_what_is_empty_or_zero_is_not_in_the_document() -> None:
    """But the key is, whatever its value: region 0 is a region."""
    row = {"k": 0, "name": "", "price": Decimal("0.00"), "size": 7}
    assert document_of(row, {column: column for column in row}, "k") == {"k": 0, "size": 7}


DAY = dt.date(1996, 1, 2)
MIDNIGHT, NOON = (dt.datetime.fromisoformat(f"1996-01-02T{hour}:00") for hour in ("00", "12"))


@pytest.mark.parametrize(
    ("given", "agreed", "value", "expected"),
    [
        ("double", "decimal", 711.56, Decimal("711.56")),
        ("decimal", "double", Decimal("711.56"), 711.56),
        ("long", "int", 7, 7),
        ("String", "long", "42", 42),
        ("double", "long", 3.0, 3),
        ("long", "String", 42, "42"),
        ("String", "boolean", "TRUE", True),
        ("String", "Date", "1996-01-02", DAY),
        ("Date", "Timestamp", DAY, MIDNIGHT),
        ("Timestamp", "Date", MIDNIGHT, DAY),
        ("Object", "Object", {"a": 1}, {"a": 1}),
    ],
)
def test_a_value_becomes_its_equal(given: str, agreed: str, value: Any, expected: Any) -> None:
    """Of the agreed type, and equal to what it was."""
    converted = conversion(given, agreed)(value)
    assert (converted, type(converted)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("given", "agreed", "value"),
    [
        ("long", "int", 1 << 31),
        ("double", "long", 2.5),
        ("double", "long", float("inf")),
        ("double", "long", float("nan")),
        ("long", "double", (1 << 53) + 1),
        ("String", "double", "one"),
        ("String", "boolean", "perhaps"),
        ("Timestamp", "Date", NOON),
        ("String", "Timestamp", "yesterday"),
        ("byte[]", "String", b"x"),
        ("long", "UUID", 1),
    ],
)
def test_a_value_without_an_equal_is_refused(given: str, agreed: str, value: Any) -> None:
    """Nothing is rounded, cut or guessed."""
    with pytest.raises(ValueError, match=r"\w"):
        conversion(given, agreed)(value)
