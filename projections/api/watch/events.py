"""What becomes of a list as the log goes on: the events that its watchers are told.

Threats. A watcher misses a change or is told it twice, because its connection broke in the middle of a set of
decisions, because it goes on at another server, or because its server was started anew or shows a rebuilt store.

Invariant. The events of a list are a function of the log alone: behind a mark come the same events in the same order,
whoever tells them and when.

Argument. Events are made set by set, from the list before the set and the list behind it, both as they will be told for
ever (`Reading.settled`); neither what is known of the present alone nor a clock has a part in them. The events of one
set come in the order of their keys, so a mark can stand between two of them: it holds the position where the set ends
and how many of its events were told. A watcher that goes on from a mark is told what stands behind it, and what stands
behind it is the same everywhere.

A list that shows the present (leases, what has no past) has no such marks. Its watch begins with all of its items each
time, and tells what has changed between two looks.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Any

import msgspec

from topolog.events.errors import BadInput, NotFound
from topolog.events.ids import Position
from topolog.events.state import Key
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.cursors import cut
from topolog.projections.moments import Token
from topolog.projections.ordering import with_fields
from topolog.projections.store import Reading

Items = Mapping[str, tuple[bytes, Any]]
"""By key: what must differ for an item to have changed, and the item."""

_WINDOW = 10_000
"""So many positions of a list that only grows are looked at in one go."""


WHOLE_SET = 1 << 62
"""More events than any set has."""


class Mark(msgspec.Struct, frozen=True, order=True):
    """A place in the events of a list: behind the first `told` of the set that ends at `position`, or behind it all."""

    position: Position
    told: int = WHOLE_SET

    @property
    def is_whole(self) -> bool:
        return self.told == WHOLE_SET

    def token(self, log_id: str) -> str:
        return f"{Token(self.position, log_id)}{'' if self.is_whole else f'+{self.told}'}"

    @classmethod
    def parse(cls, text: str, log_id: str) -> "Mark":
        """The mark in a token; raises BadInput for other text, ForeignToken for one of another log."""
        token, plus, told = text.strip().partition("+")
        if plus and not (told.isascii() and told.isdecimal() and len(told) < 10):
            raise BadInput(f"{text!r} is no token of a watch.", hint="Give back the `token` of an event, unchanged.")
        parsed = Token.parse(token)
        parsed.check(log_id)
        return cls(Position(parsed.position), int(told) if plus else WHOLE_SET)


class Event(msgspec.Struct, frozen=True, dict=True):
    """One thing that watchers are told. `type`: ADDED, MODIFIED, DELETED with the item that it is about, of DELETED as
    it was last; SYNCED, BOOKMARK without. `token`: where to go on behind it; None if it has to begin anew."""

    type: str
    mark: Mark
    token: str | None
    name: str | None = None
    item: msgspec.Raw | None = None
    code: str | None = None
    detail: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """Its members, as they are written."""
        return {name: value for name in _MEMBERS if (value := getattr(self, name)) is not None}

    @cached_property
    def json(self) -> bytes:
        return msgspec.json.encode(self.told)

    @cached_property
    def line(self) -> bytes:
        return self.json + b"\n"

    @cached_property
    def frame(self) -> bytes:
        """As a server-sent event; JSON has no line breaks, so its data are one line."""
        mark = b"" if self.token is None else b"id: %s\n" % self.token.encode()
        return b"event: %s\n%sdata: %s\n\n" % (self.type.encode(), mark, self.json)


class Batch(msgspec.Struct, frozen=True, dict=True):
    """Events that are told at once, at least one, and their bytes, made once for all who are told them."""

    events: list[Event]

    @property
    def mark(self) -> Mark:
        return self.events[-1].mark

    @cached_property
    def lines(self) -> bytes:
        return b"".join([each.line for each in self.events])

    @cached_property
    def frames(self) -> bytes:
        return b"".join([each.frame for each in self.events])


_MEMBERS = ("type", "token", "name", "item", "code", "detail")


class Watched(msgspec.Struct, frozen=True):
    """What is watched: a list, narrowed by `filters` (resolved), of each item `fields` alone if any are named."""

    listing: Listing[Any]
    log_id: str
    filters: Mapping[str, str] = {}
    fields: tuple[str, ...] = ()

    @property
    def key(self) -> object:
        """The same for all who watch the same."""
        shown = self.listing.name, self.listing.shows_present
        return *shown, self.log_id, tuple(sorted(self.filters.items())), self.fields

    def events(self, reading: Reading, behind: Mark) -> Iterator[Event]:
        """All events behind a mark that this reading knows, in their order."""
        if self.grows:
            yield from self._grown(reading, behind)
            return
        whole = behind.position if behind.is_whole else Position(behind.position - 1)
        for end, rows in reading.sets(whole):
            if self._concerns(rows):
                yield from (each for each in self._changed(reading, end, rows) if each.mark > behind)

    def snapshot(self, reading: Reading, after: str | None, limit: int) -> tuple[list[Event], str | None]:
        """Up to `limit` items of the list behind the one with the key `after`, and the key to go on behind, None at the
        list's end. Of a list that only grows its newest items, the oldest first, and no more."""
        asked = ListQuery(filters=self.filters, after=after if self.listing.is_long else None)
        items = self.listing.items(reading.settled(), asked)
        page = cut(items, self.listing.key, None if self.listing.is_long else after, limit)
        told = [self._told("ADDED", Mark(reading.position), None, each) for each in page.items]
        return (told[::-1], None) if self.grows else (told, page.last)

    def present(self, reading: Reading, age_ms: int) -> Items:
        """The items of a list that shows the present, by key, each with what must differ for it to have changed."""
        found = self.listing.items(reading, ListQuery(age_ms, self.filters))
        return {self.listing.key(each): (self._lasting(each), each) for each in found}

    def between(self, mark: Mark, old: Items, new: Items) -> Iterator[Event]:
        """What has become of a list, both given by key; in the order of keys."""
        for key in sorted(old.keys() | new.keys()):
            if key not in new:
                yield self._told("DELETED", mark, None, old[key][1])
            elif key not in old:
                yield self._told("ADDED", mark, None, new[key][1])
            elif old[key][0] != new[key][0]:
                yield self._told("MODIFIED", mark, None, new[key][1])

    def said(self, type_: str, mark: Mark, code: str | None = None, detail: str | None = None) -> Event:
        """An event without an item; where to go on is told unless that would be of no use."""
        token = None if self.listing.shows_present else mark.token(self.log_id)
        return Event(type_, mark, token, code=code, detail=detail)

    @property
    def grows(self) -> bool:
        """Whether items only come, the newest first, and stay as they are: decisions, views."""
        return self.listing.descends and self.listing.is_lasting

    def _grown(self, reading: Reading, behind: Mark) -> Iterator[Event]:
        place = self.listing.place
        assert place is not None, "a list that descends has places"
        start = int(behind.position)
        while start < reading.position:
            window = reading.as_of(min(start + _WINDOW, int(reading.position)))
            items = self.listing.items(window.settled(), ListQuery(filters=self.filters))
            placed = ((Position(place(each)), each) for each in items)
            for at, each in reversed(list(_behind(placed, start))):
                yield self._told("ADDED", Mark(at), Mark(at).token(self.log_id), each)
            start = int(window.position)

    def _changed(self, reading: Reading, end: Position, rows: Collection[Key]) -> list[Event]:
        """What one set has done to the list."""
        before = reading.surely_decision(end).set_start - 1
        old, new = (self.touched(reading.as_of(at), rows) for at in (before, end))
        events = list(self.between(Mark(end), old, new))
        last = len(events) - 1
        marks = (Mark(end) if number == last else Mark(end, number + 1) for number in range(len(events)))
        return [
            msgspec.structs.replace(each, mark=mark, token=mark.token(self.log_id))
            for each, mark in zip(events, marks, strict=True)
        ]

    def touched(self, reading: Reading, rows: Collection[Key]) -> Items:
        """The items as they will be told of this position for ever, those at least that these rows can have changed."""
        found = self.listing.items(reading.settled(), ListQuery(filters=self.filters, rows=frozenset(rows)))
        try:
            return {self.listing.key(each): (self._lasting(each), each) for each in found}
        except NotFound:  # what the filters name is not there yet, or not any more
            return {}

    def _concerns(self, rows: Collection[Key]) -> bool:
        kinds = self.listing.kinds
        return not kinds or any(kind in kinds for kind, _ in rows)

    def _told(self, type_: str, mark: Mark, token: str | None, item: Any) -> Event:
        return Event(type_, mark, token, self.listing.title_of(item), msgspec.Raw(self._encoded(item)))

    def _lasting(self, item: Any) -> bytes:
        """The item but for what grows by itself as time goes by."""
        if self.listing.shows_present and self.listing.lasting is not None:
            return msgspec.json.encode(self.listing.lasting(item))
        names = (name for name in self.fields or item.__struct_fields__ if not name.endswith("_ms"))
        return msgspec.json.encode([getattr(item, name) for name in names])

    def _encoded(self, item: Any) -> bytes:
        return msgspec.json.encode(with_fields(item, self.fields) if self.fields else item)


def _behind(placed: Iterable[tuple[Position, Any]], start: int) -> Iterator[tuple[Position, Any]]:
    """The items that came behind a position, of those that are given the newest first."""
    return takewhile(lambda pair: pair[0] > start, placed)
