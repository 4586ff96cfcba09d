"""What a list is: one declaration of all that its pages, its export, its watch and its differences need.

All of them are there, one beside the other, in `listings.py`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from pydantic import ValidationError

from topolog.events.errors import BadInput, Gone
from topolog.events.state import Key
from topolog.projections import moments
from topolog.projections.api.filters import Filters, Spanned, judges
from topolog.projections.api.problems import InvalidParameter, parameter
from topolog.projections.cursors import Page, cut
from topolog.projections.ordering import SortOrder
from topolog.projections.store import Reading

T = TypeVar("T", bound=msgspec.Struct)

_DIGITS_MAX = 18
"""No position and no offset has more."""
_RESOLVED = re.compile(rf"-1|[0-9]{{1,{_DIGITS_MAX}}}")


class ListQuery(msgspec.Struct, frozen=True):
    """What a list is asked for. `age_ms` is that of what the reader knows; `after` is where a list that can begin
    anywhere begins; `rows`: only items that these rows can have changed are wanted, and others may come too."""

    age_ms: int = 0
    filters: Mapping[str, str] = {}
    after: str | None = None
    rows: frozenset[Key] | None = None


Find = Callable[[Reading, ListQuery], Iterable[T]]


@dataclass(frozen=True, kw_only=True)
class Listing(Generic[T]):
    """All items of one kind, at `/v1/clusters/{c}/<name>`, in an order of their own, which `says` tells.

    `find` makes the list; `key` tells its items apart, `title` is the name under which one is asked for. `place`: the
    position at which it came, for `after` and `until`. `is_long`: it may have any length, and `find` heeds
    `ListQuery.after`; `descends`: its keys are its places, the newest first. `is_lasting`: what it is at one position
    stays the same. `no_past`: why it has none, if so.

    `kinds`: the kinds of rows that its items are made of, any if none is named. `shows_present`: time, or what is not
    in the log, changes it too; `lasting`: of an item what of it must differ for its watchers to be told, all but its
    fields in ms if that is not said.
    """

    name: str
    tag: str
    says: str
    item: type[T]
    find: Find[T]
    key: Callable[[T], str]
    kind: str = ""
    title: Callable[[T], str] | None = None
    filters: type[Filters] = Filters
    place: Callable[[T], int] | None = None
    is_long: bool = False
    descends: bool = False
    is_lasting: bool = False
    no_past: str = ""
    kinds: frozenset[str] = frozenset()
    shows_present: bool = False
    lasting: Callable[[T], object] | None = None

    @property
    def list_kind(self) -> str:
        """The `kind` of its pages."""
        return self.kind or f"{self.item.__name__}List"

    def title_of(self, item: T) -> str:
        return (self.title or self.key)(item)

    def items(self, reading: Reading, asked: ListQuery) -> Iterator[T]:
        """All that fit, in the list's own order; `asked.filters` are `resolved`."""
        later, until = (_bound(asked.filters, name) for name in ("after", "until"))
        fits = judges(self.filters, asked.filters)
        for each in self.find(reading, self._begun(asked, until)):
            if self.place is not None and (later is not None or until is not None):
                place = self.place(each)
                if later is not None and place <= later:
                    if self.descends:
                        return
                    continue
                if until is not None and place > until:
                    continue
            if all(fit(each) for fit in fits):
                yield each

    def order(self, sort: str) -> SortOrder | None:
        """The order that `sort` names, None for the list's own; raises BadInput for one that its items have not."""
        with parameter("sort"):
            return SortOrder.parse(sort, self.item) if sort else None

    def page(self, reading: Reading, asked: ListQuery, order: SortOrder | None, limit: int) -> Page[T]:
        """Up to `limit` of `items` behind `asked.after`, which is a place of this order."""
        if order is not None:
            unordered = self.items(reading, msgspec.structs.replace(asked, after=None))
            with parameter("sort"):
                return order.page(unordered, self.key, asked.after, limit)
        return cut(self.items(reading, asked), self.key, None if self.is_long else asked.after, limit)

    def check_past(self, as_of: str | None) -> None:
        """Raise BadInput if a past is asked for and there is none."""
        if as_of is not None and self.no_past:
            raise BadInput(self.no_past, hint="Ask for what is, without as_of.")

    def checked(self, filters: Mapping[str, str]) -> Mapping[str, str]:
        """The filters of a cursor, which anybody can write; raises BadInput unless they are as `resolved` made them."""
        try:
            known = self.filters.model_validate(filters).model_dump(exclude_none=True)
        except ValidationError:
            known = {}
        moments = [filters[name] for name in Spanned.model_fields if name in filters]
        is_ours = {name: str(value) for name, value in known.items()} == filters
        if not is_ours or not all(_RESOLVED.fullmatch(each) for each in moments):
            raise BadInput("This is no cursor of this API.", hint="Give back `next` of a page, unchanged.")
        return filters

    def resolved(self, reading: Reading, filters: Mapping[str, str], now_ms: int) -> Mapping[str, str]:
        """The filters with moments as positions, so that every page means the same ones."""
        found = dict(filters)
        for name in Spanned.model_fields:
            if name in found:
                with parameter(name):
                    found[name] = str(_position(reading, found[name], now_ms))
        return found

    def _begun(self, asked: ListQuery, until: int | None) -> ListQuery:
        """As asked, but from `until` on where one can begin anywhere."""
        if until is None or not self.descends:
            return asked
        behind = number(asked.after)
        begin = until + 1 if behind is None else min(behind, until + 1)
        return msgspec.structs.replace(asked, after=str(max(0, begin)))


def number(after: str | None) -> int | None:
    """The position or offset a page begins behind; raises BadInput for a cursor that we never gave out."""
    if after is None:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) <= _DIGITS_MAX):
        raise InvalidParameter("cursor", "it is none of this API's", hint="Give back `next` of a page, unchanged.")
    return int(after)


def _position(reading: Reading, text: str, now_ms: int) -> int:
    """The last position of a moment; -1 for one before the log began."""
    try:
        return max(-1, moments.position_of(reading, text, now_ms))
    except Gone:
        return -1


def _bound(filters: Mapping[str, str], name: str) -> int | None:
    return int(filters[name]) if name in filters else None
