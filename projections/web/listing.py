"""Lists: one page of what a query finds, as a table with its filters, readable and usable without a script."""

import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from topolog.projections.cursors import cut
from topolog.projections.repeats import runs
from topolog.projections.web import values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.frame import Command, Frame
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Shown, Value

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

    `told`: the filters that are options of the command line, all others are given by `--filter`; `terminal`: its
    command, empty if there is none, None for the usual one. `same`: what items have in common that are one row where
    they follow one another; such items have a `time`. `find` makes a list that the API has not, each item with
    its `key`; it heeds `asked.behind` itself, and `nearest` says which list of the API, filtered how, has most of it.
    """

    view: str
    title: str
    about: str
    columns: Sequence[Column]
    empty: str
    has_past: bool = True
    told: frozenset[str] = frozenset()
    terminal: str | None = None
    same: Callable[[Any], Hashable] = lambda _: None
    find: Callable[[PageRequest], Iterable[Any]] | None = None
    nearest: Callable[[Mapping[str, str]], tuple[str, Mapping[str, str]]] | None = None
    key: Callable[[Any], str] = str


def page(listing: Listing, asked: PageRequest, template: str = "list.html", **more: Any) -> str:
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
        rows=[_row(listing, frame, run) for run in runs(found.items, listing.same)],
        choices=asked.choices,
        following=following,
        is_first=asked.behind is None,
        commands=_commands(listing, asked),
        api=_api(listing, asked),
        **{"items": found.items, **more},
    )


def _row(listing: Listing, frame: Frame, run: Sequence[Any]) -> list[Shown]:
    """The first of these items; how often there was one like it, and from when to when."""
    cells = [column.shown(frame, run[0]) for column in listing.columns]
    if len(run) == 1:
        return cells
    first, last = sorted((run[0].time, run[-1].time))
    name = cells[0] if isinstance(cells[0], Value) else Value(str(cells[0]))
    return [(name, Value(f"{len(run)} times", tone="quiet"), values.time(first), values.time(last)), *cells[1:]]


def _head(column: Column, asked: PageRequest) -> tuple[Column, str, str]:
    """A column with the address that sorts by it, and how it is sorted now (ascending, descending or not)."""
    if not column.sort:
        return column, "", ""
    now = {column.sort: "ascending", f"-{column.sort}": "descending"}.get(asked.sort, "")
    following = {"": column.sort, "ascending": f"-{column.sort}", "descending": ""}[now]
    return column, asked.frame.narrowed(sort=following), now


def _elsewhere(listing: Listing, asked: PageRequest) -> tuple[str, Mapping[str, str]]:
    """Which list of the API it is, and how that is filtered."""
    return (listing.view, asked.filters) if listing.nearest is None else listing.nearest(asked.filters)


def _api(listing: Listing, asked: PageRequest) -> str:
    view, filters = _elsewhere(listing, asked)
    return asked.frame.api(view, **filters, sort=_sort(listing, asked))


def _sort(listing: Listing, asked: PageRequest) -> str:
    return asked.sort if listing.find is None else ""


def _commands(listing: Listing, asked: PageRequest) -> tuple[Command, ...]:
    """The same in the terminal."""
    view, filters = _elsewhere(listing, asked)
    command = f"get {view}" if listing.terminal is None else listing.terminal
    options = "".join(_option(name, value, is_own=name in listing.told) for name, value in filters.items())
    sort = _sort(listing, asked)
    order = f" {shell_word(f'--sort={sort}')}" if sort else ""  # with its sign, for it may begin with one
    told = (f"{command}{options}{order}",) if command else ()
    return asked.frame.commands(*told, api=_api(listing, asked))


def _option(name: str, value: str, *, is_own: bool) -> str:
    return f" --{name} {shell_word(value)}" if is_own else f" --filter {shell_word(f'{name}={value}')}"


def shell_word(text: str) -> str:
    """One word of a command line, whatever is in it."""
    return shlex.quote(text)
