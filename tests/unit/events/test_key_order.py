"""The order of a key's first column, by which ordered tokens place rows (RE15)."""

import pytest

from topolog.events.errors import BadInput
from topolog.events.key_order import order_of


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("long", ["-10", "-9", "0", "9", "10"]),
        ("decimal(12,2)", ["-1.50", "9.00", "10.00"]),
        ("double", ["-Infinity", "-1.0E10", "9.5", "1.0E10", "Infinity", "NaN"]),
        ("timestamp", ["-1000000", "999999", "1000000"]),
        ("string", ["10", "9", "a"]),
        ("date", ["1999-12-31", "2024-01-01"]),
        ("boolean", ["false", "true"]),
    ],
)
def test_canonical_texts_are_sorted_by_what_they_stand_for(type_: str, texts: list[str]) -> None:
    backwards = texts[::-1]
    assert sorted(backwards, key=lambda text: order_of(type_, text)) == texts


def test_a_text_that_is_no_number_has_no_place_among_them() -> None:
    with pytest.raises(BadInput, match="'ten' is no long"):
        order_of("long", "ten")
