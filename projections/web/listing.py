"""Lists: one page of what a query finds, as a table with its filters, readable and usable without a script."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from topolog.projections.cursors import cut
from topolog.projections.web.asking import Asked
from topolog.projections.web.frame import Frame
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Shown

ROWS = 50


class Column(msgspec.Struct, frozen=True):
    """`shown` says what of an item stands in it; `is_wide` may wrap."""

    title: str
    shown: Callable[[Frame, Any], Shown]
    is_number: bool = False
    is_wide: bool = False


class Listing(msgspec.Struct, frozen=True):
    """A list: `find` asks, `key` tells items apart, `empty` says why there may be none.

    `begins_after`: `find` heeds `after` itself. `told`: the filters that the command line knows too.
    """

    view: str
    title: str
    about: str
    find: Callable[[Asked], Iterable[Any]]
    key: Callable[[Any], str]
    columns: Sequence[Column]
    empty: str
    begins_after: bool = False
    has_past: bool = True
    told: frozenset[str] = frozenset()


def page(listing: Listing, asked: Asked, template: str = "list.html", **more: Any) -> str:
    """The list as a page; `template` may put a picture of the same above it."""
    frame = asked.frame
    found = cut(listing.find(asked), listing.key, None if listing.begins_after else asked.after, ROWS)
    following = None
    if found.last is not None:
        # Bound to the position, as a cursor is, so that no row is passed over while the cluster goes on.
        moment = {"as_of": frame.as_of.position} if listing.has_past else {}
        following = frame.narrowed(**{**moment, "after": found.last})
    return rendered(
        template,
        frame,
        listing=listing,
        rows=[[column.shown(frame, item) for column in listing.columns] for item in found.items],
        choices=asked.choices,
        following=following,
        is_first=asked.after is None,
        commands=_commands(listing, asked),
        api=frame.api(listing.view, **asked.filters),
        **{"items": found.items, **more},
    )


def fitting(items: Iterable[Any], asked: Asked) -> Iterable[Any]:
    """Those whose fields are as the filters say."""
    given = asked.filters
    return (each for each in items if all(str(getattr(each, name)) == value for name, value in given.items()))


def _commands(listing: Listing, asked: Asked) -> Any:
    options = "".join(
        f" --{name.replace('_', '-')} {shell_word(value)}"
        for name, value in asked.filters.items()
        if name in listing.told
    )
    return asked.frame.commands(
        f"get {listing.view}{options}", api=asked.frame.api(listing.view, **asked.filters)
    )


def shell_word(text: str) -> str:
    """One word of a command line, whatever is in it."""
    return shlex.quote(text)
