"""Lists: one page of what a query finds, as a table with its filters, readable and usable without a script."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from topolog.projections.cursors import cut
from topolog.projections.web.asking import Asked
from topolog.projections.web.frame import Command, Frame
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Shown

ROWS = 50


class Column(msgspec.Struct, frozen=True):
    """`shown` says what of an item stands in it; `is_wide` may wrap; `sort`: the field it can be sorted by."""

    title: str
    shown: Callable[[Frame, Any], Shown]
    is_number: bool = False
    is_wide: bool = False
    sort: str = ""


class Listing(msgspec.Struct, frozen=True):
    """A list of the API as a table: `empty` says why there may be nothing in it.

    `told`: the filters that the command line knows too; `terminal`: its command, empty if there is none, None for the
    usual one. `find` makes a list that the API has not, each item with its
    `key`; it heeds `asked.behind` itself.
    """

    view: str
    title: str
    about: str
    columns: Sequence[Column]
    empty: str
    has_past: bool = True
    told: frozenset[str] = frozenset()
    terminal: str | None = None
    find: Callable[[Asked], Iterable[Any]] | None = None
    key: Callable[[Any], str] = str


def page(listing: Listing, asked: Asked, template: str = "list.html", **more: Any) -> str:
    """The list as a page; `template` may put a picture of the same above it."""
    frame = asked.frame
    found = asked.listed() if listing.find is None else cut(listing.find(asked), listing.key, None, ROWS)
    following = None
    if found.last is not None:
        # Bound to the position, as a cursor is, so that no row is passed over while the cluster goes on.
        moment = {"as_of": frame.as_of.position} if listing.has_past else {}
        following = frame.narrowed(**{**moment, "behind": found.last})
    return rendered(
        template,
        frame,
        listing=listing,
        heads=[_head(column, asked) for column in listing.columns],
        rows=[[column.shown(frame, item) for column in listing.columns] for item in found.items],
        choices=asked.choices,
        following=following,
        is_first=asked.behind is None,
        commands=_commands(listing, asked),
        api=frame.api(listing.view, **asked.filters),
        **{"items": found.items, **more},
    )


def _head(column: Column, asked: Asked) -> tuple[Column, str, str]:
    """A column with the address that sorts by it, and how it is sorted now (ascending, descending or not)."""
    if not column.sort:
        return column, "", ""
    now = {column.sort: "ascending", f"-{column.sort}": "descending"}.get(asked.sort, "")
    following = {"": column.sort, "ascending": f"-{column.sort}", "descending": ""}[now]
    return column, asked.frame.narrowed(sort=following), now


def _commands(listing: Listing, asked: Asked) -> tuple[Command, ...]:
    """The same in the terminal."""
    command = f"get {listing.view}" if listing.terminal is None else listing.terminal
    options = "".join(
        f" --{name.replace('_', '-')} {shell_word(value)}"
        for name, value in asked.filters.items()
        if name in listing.told
    )
    told = (f"{command}{options}",) if command else ()
    return asked.frame.commands(*told, api=asked.frame.api(listing.view, **asked.filters))


def shell_word(text: str) -> str:
    """One word of a command line, whatever is in it."""
    return shlex.quote(text)
