"""Leases over time, by node: renewals as ticks, validity as a band, gaps, joins and fences, as the log tells of them.

A renewal is in the log when the coordinator has read a newer heartbeat; it is valid by the log's time for as long as
the terms say that were in force then. The node itself may have stopped earlier, never later. What nobody can know from
here is no gap: what was before the log began, and what came after the newest decision that this reader has.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise

import msgspec

from topolog.events.errors import Gone
from topolog.events.ids import Slot
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.membership import LeasesRenewed, LeaseStopped, NodeJoined, NodeLeft, unpack_renewals
from topolog.projections.durations import ago
from topolog.projections.layout import Decided
from topolog.projections.queries import cluster_row
from topolog.projections.store import Reading

WIDTH = 1000
DECISIONS_MAX = 6_000
NODES_MAX = 48
_TICK_STEP = 2.5
"""Ticks that lie closer would run into one: of those the first is drawn."""
_LEAST = 2.0

Span = tuple[int, int]
"""From and until, in milliseconds of the log's time."""


class Band(msgspec.Struct, frozen=True):
    """Part of a strip: `colour` is valid, gap, away, or unknown."""

    x: float
    width: float
    colour: str


class Event(msgspec.Struct, frozen=True):
    """What happened to the holder: joined, stopped, left, fenced."""

    x: float
    what: str
    position: int


class Strip(msgspec.Struct, frozen=True):
    """One node's lease over the window, and the same in words; `gap_ms`: for how long it was not valid in all."""

    node: str
    bands: tuple[Band, ...]
    ticks: tuple[float, ...]
    events: tuple[Event, ...]
    words: str
    gap_ms: int
    is_overlapping: bool


class Strips(msgspec.Struct, frozen=True):
    """`since_ms` to `until_ms` by the log's time; `is_cut`: the log is too busy to look back as far as was asked."""

    since_ms: int
    until_ms: int
    strips: tuple[Strip, ...]
    more: int
    is_cut: bool


class _Window(msgspec.Struct, frozen=True):
    """What is drawn; the log tells of it from `began_ms` to `known_ms`."""

    since_ms: int
    began_ms: int
    known_ms: int
    until_ms: int

    def x(self, time_ms: int) -> float:
        scale = WIDTH / max(1, self.until_ms - self.since_ms)
        return round(min(WIDTH, max(0.0, (time_ms - self.since_ms) * scale)), 1)


class _Holder:
    """What the log tells of one node. `away_since_ms`: since when it is no member, None while it is one."""

    def __init__(self, away_since_ms: int | None) -> None:
        self.renewed_ms: dict[Slot, list[int]] = {}
        self.leases: list[Span] = []
        self.joins: list[Span] = []
        self.absences: list[Span] = []
        self.events: list[tuple[int, str, int]] = []
        self.away_since_ms = away_since_ms

    def renew(self, slot: Slot, time_ms: int, fence_ms: int) -> None:
        self.renewed_ms.setdefault(slot, []).append(time_ms)
        self.leases.append((time_ms, time_ms + fence_ms))

    def join(self, time_ms: int, fence_ms: int) -> None:
        """It has to renew for the first time within a fence."""
        self.joins.append((time_ms, time_ms + fence_ms))
        if self.away_since_ms is not None:
            self.absences.append((self.away_since_ms, time_ms))
            self.away_since_ms = None

    def leave(self, time_ms: int) -> None:
        """Its lease was over by then."""
        self.leases = [(start, min(end, time_ms)) for start, end in self.leases]
        self.away_since_ms = time_ms

    @property
    def times_ms(self) -> list[int]:
        """When it was renewed, oldest first."""
        return sorted({time_ms for times in self.renewed_ms.values() for time_ms in times})


class _Holders:
    """All who held a lease since `start`, followed decision by decision."""

    def __init__(self, start: Reading, began_ms: int) -> None:
        rows = [row for _, row in start.rows(NodeRow) if row.holds_lease]
        self._began_ms = began_ms
        self._fence_ms = cluster_row(start).fence_ms
        self._nodes: dict[Slot, str] = {row.slot: row.node for row in rows}
        self.holders: dict[str, _Holder] = {row.node: _Holder(None) for row in rows}

    def follow(self, decided: Decided) -> None:
        time_ms = decided.logged_at_ms
        match decided.event:
            case LeasesRenewed(renewals=renewals):
                for slot, _ in unpack_renewals(renewals):
                    if slot in self._nodes:  # clients are renewed, too, and nobody waits for them
                        self.holders[self._nodes[slot]].renew(slot, time_ms, self._fence_ms)
            case LeaseTermsChanged(fence_ms=fence_ms):
                self._fence_ms = fence_ms
            case NodeJoined(joiner=joiner, slot=slot) if joiner.kind is NodeKind.SERVER:
                holder = self.holders.setdefault(joiner.node, _Holder(self._began_ms))
                holder.join(time_ms, self._fence_ms)
                self._nodes[slot] = joiner.node
                holder.events.append((time_ms, "joined", decided.position))
            case LeaseStopped(node=node, reason=reason) if node in self.holders:
                self.holders[node].events.append((time_ms, f"stopped: {_word(reason.value)}", decided.position))
            case NodeLeft(node=node, reason=reason) if node in self.holders:
                self.holders[node].leave(time_ms)
                self.holders[node].events.append((time_ms, f"left: {_word(reason.value)}", decided.position))
            case _:
                pass


def strips(reading: Reading, age_ms: int, window_ms: int, only: str | None = None) -> Strips:
    """The strips of all who held a lease within `window_ms` before the reading's moment, those with gaps first."""
    known_ms = reading.surely_decision(reading.position).logged_at_ms
    until_ms = known_ms + (age_ms if reading.is_current else 0)
    since_ms = until_ms - window_ms
    decided, is_cut = _within(reading, since_ms - _lookback_ms(reading, since_ms))
    start = reading.as_of(decided[-1].position if decided else reading.position)
    start_ms = reading.surely_decision(start.position).logged_at_ms
    if is_cut:  # what was renewed before may have been valid for that long
        since_ms = min(until_ms, start_ms + cluster_row(start).proceed_ms)
    is_from_the_beginning = bool(decided) and decided[-1].set_start == 0
    window = _Window(since_ms, max(since_ms, start_ms) if is_from_the_beginning else since_ms, known_ms, until_ms)
    found = _Holders(start, window.began_ms)
    for each in reversed(decided):
        if each.position > start.position:
            found.follow(each)
    drawn = [_strip(node, holder, window) for node, holder in found.holders.items() if only in (None, node)]
    shown = [strip for strip in drawn if any(band.colour != "away" for band in strip.bands)]
    shown.sort(key=lambda strip: (not strip.is_overlapping, -strip.gap_ms, strip.node))
    return Strips(since_ms, until_ms, tuple(shown[:NODES_MAX]), max(0, len(shown) - NODES_MAX), is_cut)


def _lookback_ms(reading: Reading, since_ms: int) -> int:
    """For how long before that time renewals count for it."""
    try:
        return cluster_row(reading.as_of(reading.position_at(since_ms))).proceed_ms
    except Gone:  # the log began later
        return 0


def _within(reading: Reading, since_ms: int) -> tuple[list[Decided], bool]:
    """The decisions since then, newest first, and whether there were too many."""
    found: list[Decided] = []
    for decided in islice(reading.all_decisions(), DECISIONS_MAX):
        if decided.logged_at_ms < since_ms:
            return found, False
        found.append(decided)
    return found, len(found) == DECISIONS_MAX


def _word(text: str) -> str:
    return text.replace("_", " ").lower()


def _strip(node: str, holder: _Holder, window: _Window) -> Strip:
    since_ms, until_ms = window.since_ms, window.until_ms
    valid = list(_joined_up(holder.leases))
    away = [*holder.absences]
    if holder.away_since_ms is not None:
        away.append((holder.away_since_ms, window.known_ms))
    explained = [*valid, *away, *holder.joins]
    gaps = list(_without(explained, window.began_ms, window.known_ms))
    unknown = list(_without([*explained, *gaps], since_ms, until_ms))
    unheard_ms = sum(end - start for start, end in unknown if start >= window.known_ms)
    coloured = {"away": away, "unknown": unknown, "gap": gaps, "valid": valid}
    times_ms = [time_ms for time_ms in holder.times_ms if time_ms >= since_ms]
    events = [event for event in holder.events if event[0] >= since_ms]
    return Strip(
        node=node,
        bands=tuple(band for colour, spans in coloured.items() for band in _bands(spans, colour, window)),
        ticks=tuple(_spread(window.x(time_ms) for time_ms in times_ms)),
        events=tuple(Event(window.x(time_ms), what, position) for time_ms, what, position in events),
        words=_words(times_ms, gaps, unheard_ms, events, is_member=holder.away_since_ms is None),
        gap_ms=sum(end - start for start, end in gaps),
        is_overlapping=_overlap(holder.renewed_ms),
    )


def _bands(spans: Iterable[Span], colour: str, window: _Window) -> Iterator[Band]:
    for start, end in spans:
        if end > window.since_ms:
            x = window.x(start)
            yield Band(x, max(_LEAST, round(window.x(end) - x, 1)), colour)


def _joined_up(spans: Iterable[Span]) -> Iterator[Span]:
    """The same without overlaps."""
    found: Span | None = None
    for start, end in sorted(spans):
        if found is not None and start <= found[1]:
            found = (found[0], max(found[1], end))
            continue
        if found is not None:
            yield found
        found = (start, end)
    if found is not None:
        yield found


def _without(explained: Iterable[Span], since_ms: int, until_ms: int) -> Iterator[Span]:
    """What these spans leave of the time from `since_ms` to `until_ms`."""
    at = since_ms
    for start, end in sorted(explained):
        if at < min(start, until_ms):
            yield at, min(start, until_ms)
        at = max(at, end)
    if at < until_ms:
        yield at, until_ms


def _spread(ticks: Iterable[float]) -> Iterator[float]:
    """Those that can be told apart."""
    last = -_TICK_STEP
    for x in ticks:
        if x - last >= _TICK_STEP:
            yield x
            last = x


def _overlap(renewed_ms: Mapping[Slot, list[int]]) -> bool:
    """Whether two incarnations were renewed at the same time, which must never be."""
    spans = sorted((min(times), max(times)) for times in renewed_ms.values())
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def _words(
    times_ms: list[int],
    gaps: list[Span],
    unheard_ms: int,
    events: list[tuple[int, str, int]],
    *,
    is_member: bool,
) -> str:
    parts = [f"{len(times_ms)} renewal{'' if len(times_ms) == 1 else 's'}"]
    if len(times_ms) > 1:
        parts[0] += f", every {(times_ms[-1] - times_ms[0]) / (len(times_ms) - 1) / 1000:.1f} s"
    if gaps:
        longest = max(end - start for start, end in gaps)
        parts.append(f"{len(gaps)} gap{'' if len(gaps) == 1 else 's'}, the longest {ago(longest)}")
    elif is_member:
        parts.append("no gap")
    if unheard_ms:
        parts.append(f"the last {ago(unheard_ms)} are not known")
    parts += [f"{what} at {position}" for _, what, position in events]
    return "; ".join(parts)
