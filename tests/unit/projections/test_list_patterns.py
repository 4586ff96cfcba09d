"""Patterns that filter lists are anybody's who may read: they cost what their length costs, and that has a bound."""

import time
from collections.abc import Sequence

import pytest

from topolog.events.errors import BadInput
from topolog.projections.api import filters
from topolog.projections.api.filters import TEXT_CHARS_MAX, judges


class Named:
    def __init__(self, name: str) -> None:
        self.node = self.name = name


def named(pattern: str, names: Sequence[str]) -> list[str]:
    fits = judges(filters.Types, {"name": pattern})
    return [name for name in names if all(fit(Named(name)) for fit in fits)]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("shop.*", ["shop.t", "shop.[ab]"]),
        ("*t", ["shop.t"]),
        ("*", ["shop.t", "shop.[ab]", "a?"]),
        ("shop.[ab]", ["shop.[ab]"]),
        ("a?", ["a?"]),
        ("", []),
    ],
)
def test_a_star_alone_means_something(pattern: str, found: list[str]) -> None:
    """As in grants: names may have any other character in them."""
    assert named(pattern, ["shop.t", "shop.[ab]", "a?"]) == found


@pytest.mark.parametrize("piece", ["[", "*a", "?*"])
def test_no_pattern_takes_longer_than_its_length(piece: str) -> None:
    """One of 64 KiB of brackets stopped the whole process for minutes."""
    pattern = piece * (TEXT_CHARS_MAX // len(piece))
    began_s = time.process_time()
    for _ in range(100):
        assert named(pattern, ["a" * 999]) == []
    assert time.process_time() - began_s < 1


@pytest.mark.parametrize(("listed", "name"), [(filters.Nodes, "attribute"), (filters.Types, "name")])
def test_a_filter_has_a_bound(listed: type[filters.Filters], name: str) -> None:
    assert judges(listed, {name: "x" * TEXT_CHARS_MAX})
    with pytest.raises(BadInput, match=name):
        judges(listed, {name: "x" * (TEXT_CHARS_MAX + 1)})
