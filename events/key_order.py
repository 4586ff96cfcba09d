"""The order of a key's first column, by which ordered tokens place rows (RE15): numbers and times as numbers, all else
by its text.

Boundaries are canonical texts, and whoever places a row compares its value with them. All of them have to do so alike:
as texts, "10" would come before "9", and a range of orders would be scattered over the ring.
"""

from decimal import Decimal, InvalidOperation

from topolog.events.errors import BadInput

_NUMBERS = ("long", "double", "decimal", "timestamp")
_NAN = "nan"

Order = tuple[bool, Decimal, str]
"""Whether it is no number (those come last, as in Spark), the number, the text; what does not count is 0 or empty."""


def is_number(type_: str) -> bool:
    """Whether canonical texts of this type are compared as numbers: times are microseconds."""
    return type_.partition("(")[0] in _NUMBERS


def order_of(type_: str, text: str) -> Order:
    """By what a canonical text of this type is sorted; raises BadInput for a text that is none."""
    if not is_number(type_):
        return False, Decimal(0), text
    if text.lower() == _NAN:
        return True, Decimal(0), ""
    try:
        return False, Decimal(text), ""
    except InvalidOperation as error:
        raise BadInput(f"{text!r} is no {type_}.") from error
