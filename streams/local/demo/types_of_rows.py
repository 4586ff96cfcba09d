"""What rows say about themselves: good names, Ignite's names of types, and values of one type as values of another.

Pure. A conversion either loses nothing or raises ValueError: a store that silently changes what it was given is worse
than one that puts a row aside.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

Document = dict[str, Any]
"""Field name -> value. What is empty or zero is not there, as in a document store."""

Convert = Callable[[Any], Any]
"""Raises ValueError if the value has no equal in the other type."""


JSON_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "String",
    list: "Collection",
    dict: "Map",
}
"""What a value of JSON is, by the type that it is decoded to."""


def type_name(stem: str) -> str:
    """The name of a type from a file's or table's: orders -> Order, customer_addresses -> CustomerAddress."""
    words = [word for word in re.split(r"[^0-9A-Za-z]+", stem) if word] or ["Row"]
    return "".join(word[0].upper() + word[1:] for word in [*words[:-1], _singular(words[-1])])


def _singular(word: str) -> str:
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word.removesuffix(ending) + single
    return word


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """Column -> field: camel case (order_date -> orderDate), without a first word that all share (c_name -> name).

    Columns whose fields would have one name keep their own names, all of them.
    """
    prefix = columns[0].partition("_")[0] + "_"
    bare = {column: column.removeprefix(prefix) for column in columns}
    is_shared = all(column.startswith(prefix) for column in columns)
    names = {column: _camel_case(bare[column] if is_shared else column) for column in columns}
    is_good = all(names.values()) and len({name.lower() for name in names.values()}) == len(names)
    return names if is_good else {column: column for column in columns}


def _camel_case(text: str) -> str:
    first, *others = [word for word in re.split(r"[^0-9A-Za-z]+", text) if word] or [""]
    return first + "".join(word[0].upper() + word[1:] for word in others)


def document_of(row: Mapping[str, Any], fields: Mapping[str, str], key: str) -> Document:
    """The row without what is empty or zero, under the names of `fields`; the field `key` is always there.

    So rows of one table differ in their fields, as documents do. False is a value like True and stays.
    """
    return {
        field: row[column] for column, field in fields.items() if row[column] or row[column] is False or field == key
    }


def conversion(given: str, agreed: str) -> Convert:
    """From values of type `given` to values of type `agreed`; the types are Ignite's names."""
    if given == agreed:
        return _as_it_is
    if given in _OPAQUE or agreed not in _TO:
        raise ValueError(f"a {given} cannot become a {agreed}")
    return _TO[agreed]


def _as_it_is(value: Any) -> Any:
    return value


def _to_whole_number(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        number = _to_decimal(value)
        if number.is_finite() and number == number.to_integral_value() and -limit <= number < limit:
            return int(number)
        raise ValueError(f"{value!r} is no whole number of {bits} bits")

    return convert


def _to_decimal(value: Any) -> Decimal:
    """Through the text of the value, which for a float is the shortest that means it."""
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"{value!r} is no number") from error


def _to_float(value: Any) -> float:
    exact = _to_decimal(value)
    number = float(exact)
    if exact.is_finite() and Decimal(repr(number)) != exact:
        raise ValueError(f"{value!r} has more digits than a double")
    return number


def _to_boolean(value: Any) -> bool:
    try:
        return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
    except KeyError as error:
        raise ValueError(f"{value!r} is neither true nor false") from error


def _to_date(value: Any) -> dt.date:
    moment = _to_timestamp(value)
    if moment.time() != dt.time():
        raise ValueError(f"{value!r} is more than a date")
    return moment.date()


def _to_timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime.fromisoformat(str(value))  # of a date: its midnight


_OPAQUE = ("byte[]", "Collection", "Map", "Object")

_TO: Mapping[str, Convert] = {
    "byte": _to_whole_number(8),
    "short": _to_whole_number(16),
    "int": _to_whole_number(32),
    "long": _to_whole_number(64),
    "float": _to_float,
    "double": _to_float,
    "decimal": _to_decimal,
    "boolean": _to_boolean,
    "Date": _to_date,
    "Timestamp": _to_timestamp,
    "String": str,
}
