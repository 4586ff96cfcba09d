"""In which order a list comes and which fields of its items: `sort=-rows,table`, `fields=name,state`.

A sorted page is found without sorting the list: the smallest items behind the one where the page before ended, in one
pass and in the room of one page. So a cursor need not remember a sorted list, and items that come or go beside it
neither repeat others nor hide them. What a pass may look at is bounded (`SORTED_MAX`): a list that can be longer has an
order of its own in which any page is found at once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import total_ordering
from heapq import nsmallest
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from topolog.events.errors import BadInput
from topolog.projections.cursors import Page

SORTED_MAX = 50_000
"""So many items are looked at for one sorted page."""

_SCALARS = frozenset({str, int, float, bool, NoneType})
_NUMBER = re.compile(r"([0-9]+)")

T = TypeVar("T")
Value = str | int | float | bool | None


def field_names(item: type[msgspec.Struct]) -> tuple[str, ...]:
    return item.__struct_fields__


def sortable_fields(item: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of such items that hold one value: text, a number, yes or no, or nothing."""
    hints = get_type_hints(item)
    return tuple(name for name in item.__struct_fields__ if _alternatives(hints[name]) <= _SCALARS)


def chosen_fields(text: str, item: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that `a,b` names, each once; raises BadInput for one that such items have not."""
    return tuple(dict.fromkeys(_checked(name.strip(), field_names(item)) for name in text.split(",")))


def with_fields(item: msgspec.Struct, fields: Sequence[str]) -> Mapping[str, Any]:
    return {name: getattr(item, name) for name in fields}


class SortOrder(msgspec.Struct, frozen=True):
    """By these (field, descending) in turn; by its key what is equal in all of them."""

    by: tuple[tuple[str, bool], ...]

    @classmethod
    def parse(cls, text: str, item: type[msgspec.Struct]) -> "SortOrder":
        """The order in `-field,other`, each once; raises BadInput for a field by which such items cannot be sorted."""
        parts = [part.strip() for part in text.split(",")]
        names, by = sortable_fields(item), dict[str, bool]()
        for part in parts:
            name = _checked(part.removeprefix("-"), names)
            if name in by:
                raise BadInput(
                    f"The field {name!r} is named twice.", hint="Behind the first time it would sort nothing."
                )
            by[name] = part.startswith("-")
        return cls(tuple(by.items()))

    def page(self, items: Iterable[T], key: Callable[[T], str], after: str | None, limit: int) -> Page[T]:
        """One page of these items, behind the place `after` of the page before.

        Raises BadInput if there are more than `SORTED_MAX`, and for a place that is none of ours.
        """
        behind = None if after is None else self._rank(self._parsed_place(after))
        places = ((self._place(each, key), each) for each in _bounded(items))
        ranked = ((self._rank(place), number, each) for number, (place, each) in enumerate(places))
        found = nsmallest(limit + 1, (each for each in ranked if behind is None or each[0] > behind))
        page = [each for _, _, each in found[:limit]]
        last = msgspec.json.encode(self._place(page[-1], key)).decode() if len(found) > limit else None
        return Page(page, last)

    def _place(self, item: object, key: Callable[[Any], str]) -> list[Value]:
        return [*(getattr(item, name) for name, _ in self.by), key(item)]

    def _rank(self, place: Sequence[Value]) -> tuple[Any, ...]:
        ranks: list[Any] = [natural(value) for value in place]
        for index, (_, is_descending) in enumerate(self.by):
            if is_descending:
                ranks[index] = _Descending(ranks[index])
        return tuple(ranks)

    def _parsed_place(self, text: str) -> list[Value]:
        try:
            place = msgspec.json.decode(text, type=list[Value])
        except (msgspec.DecodeError, RecursionError):
            place = []
        if len(place) != len(self.by) + 1:
            raise BadInput("This is no cursor of this API.", hint="Give back `next` of a page, unchanged.")
        return place


def natural(value: Value) -> tuple[Any, ...]:
    """What values are compared by: nothing before numbers before texts, and numbers inside of texts as numbers."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (2, tuple(map(_part, enumerate(_NUMBER.split(value)))), value)
    return (1, value)


def _part(numbered: tuple[int, str]) -> str | tuple[int, str]:
    """A part of a text; digits, which are each other one, so that the longer ones are more."""
    index, part = numbered
    if index % 2 == 0:
        return part
    digits = part.lstrip("0")
    return len(digits), digits


@total_ordering
@dataclass(frozen=True)
class _Descending:
    rank: tuple[Any, ...]

    def __lt__(self, other: "_Descending") -> bool:
        return other.rank < self.rank


def _bounded(items: Iterable[T]) -> Iterator[T]:
    for count, each in enumerate(items):
        if count == SORTED_MAX:
            raise BadInput(
                f"More than {SORTED_MAX:,} items fit, which is the most that is sorted.",
                hint="Narrow the list by its filters, or ask without sort: then it comes in its own order.",
            )
        yield each


def _checked(name: str, known: Sequence[str]) -> str:
    if name in known:
        return name
    near = get_close_matches(name, known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise BadInput(f"There is no field {name!r} for this.", hint=f"{guess}There are: {', '.join(known)}.")


def _alternatives(hint: Any) -> set[Any]:
    return set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
