"""Pages of a list: what a cursor holds, and how a list is cut.

A cursor is bound to a position: every page is read as of it, so rows neither repeat nor get lost between pages while
the cluster goes on. It carries the list's filters and order, so that it is enough to give back the cursor.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from topolog.events.errors import BadInput

T = TypeVar("T")


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The next page of `path`, with these `filters`, as of `position`, begins behind the item with key `after`; in the
    order `sort` behind the place `after`. `sort` and `fields` are as they were given; `since` is the earlier position
    of a comparison."""

    path: str
    position: int
    after: str
    filters: Mapping[str, str]
    sort: str = ""
    fields: str = ""
    since: int = -1

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str, path: str) -> "Cursor":
        """The cursor in this text; raises BadInput unless it was given out by the list at `path`."""
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            cursor = msgspec.msgpack.decode(data, type=cls)
        except (binascii.Error, ValueError, RecursionError) as error:
            raise BadInput("This is no cursor of this API.", hint="Give back `next` of a page, unchanged.") from error
        if cursor.path != path:
            raise BadInput(f"This cursor belongs to {cursor.path}.", hint="Give it back to the list it came from.")
        return cursor


class Page(Generic[T]):
    """Up to `limit` items behind `after`; `last` is the key to go on behind, None at the list's end."""

    def __init__(self, items: list[T], last: str | None) -> None:
        self.items = items
        self.last = last


def cut(items: Iterable[T], key: Callable[[T], str], after: str | None, limit: int) -> Page[T]:
    """One page of an ordered list whose order does not change with the position held still."""
    rest = iter(items)
    if after is not None:
        for each in rest:
            if key(each) == after:
                break
    page = list(islice(rest, limit + 1))
    return Page(page[:limit], key(page[limit - 1]) if len(page) > limit else None)
