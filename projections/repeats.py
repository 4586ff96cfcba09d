"""Refusals that repeat: who asks again for what was refused fills a list with one thing, for people to read once."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import count, groupby
from typing import Any, TypeVar

Item = TypeVar("Item")
_Field = Callable[[str], Any]


def of_request(field: _Field) -> Hashable:
    """What two refused requests have in common that are one and the same; None of any other request."""
    return (field("requester"), field("subject"), field("code")) if field("status") == "REFUSED" else None


def of_decision(field: _Field) -> Hashable:
    """The same of the decisions that refuse them."""
    if field("event") != "RequestRefused":
        return None
    content = field("content")
    return content["request"]["requester"], field("subject"), content["code"]


def runs(items: Iterable[Item], same: Callable[[Item], Hashable]) -> Iterator[list[Item]]:
    """The items in order, those that follow one another and are the `same` together; None is like nothing."""
    number = count()

    def key(item: Item) -> Hashable:
        found = same(item)
        return next(number) if found is None else (found,)

    return (list(run) for _, run in groupby(items, key))
