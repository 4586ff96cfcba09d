"""Leases over time, by node: renewals as ticks, validity as a band, gaps, joins and fences, as the log tells of them.

A renewal is in the log when the coordinator has read a newer heartbeat; it is valid for `fence_ms` by the log's time.
The node itself may have stopped earlier, never later.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise

import msgspec

from topolog.events.ids import NodeId, Slot
from topolog.events.membership import LeasesRenewed, LeaseStopped, NodeJoined, NodeLeft, NodeRow, unpack_renewals
from topolog.projections.durations import ago
from topolog.projections.layout import Decided
from topolog.projections.queries import cluster_row
from topolog.projections.store import Reading

WIDTH = 1000
DECISIONS_MAX = 6_000
NODES_MAX = 48
_TICKS_MAX = 200
_LEAST = 2.0
_INCARNATIONS = 6


class Band(msgspec.Struct, frozen=True):
    """Part of a strip: `colour` is valid, gap, or away."""

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


class _Holder:
    """What the log tells of one node within the window."""

    def __init__(self) -> None:
        self.renewed_ms: dict[Slot, list[int]] = {}
        self.events: list[tuple[int, str, int]] = []

    def renew(self, slot: Slot, time_ms: int) -> None:
        self.renewed_ms.setdefault(slot, []).append(time_ms)


def strips(reading: Reading, age_ms: int, window_ms: int, only: str | None = None) -> Strips:
    """The strips of all who held a lease within `window_ms` before the reading's moment, those with gaps first."""
    fence_ms = cluster_row(reading).fence_ms
    until_ms = reading.surely_decision(reading.position).logged_at_ms + (age_ms if reading.is_current else 0)
    decided, is_cut = _within(reading, until_ms - window_ms - fence_ms)
    since_ms = decided[-1].logged_at_ms if is_cut and decided else until_ms - window_ms
    holders = _holders(reading, decided, since_ms)
    present = {row.node for _, row in reading.rows(NodeRow) if row.holds_lease}
    drawn = [
        _strip(node, holder, since_ms, until_ms, fence_ms, is_present=node in present)
        for node, holder in holders.items()
        if only in (None, node)
    ]
    drawn.sort(key=lambda strip: (not strip.is_overlapping, -strip.gap_ms, strip.node))
    return Strips(since_ms, until_ms, tuple(drawn[:NODES_MAX]), max(0, len(drawn) - NODES_MAX), is_cut)


def _within(reading: Reading, since_ms: int) -> tuple[list[Decided], bool]:
    """The decisions since then, newest first, and whether there were too many."""
    found: list[Decided] = []
    for decided in islice(reading.all_decisions(), DECISIONS_MAX):
        if decided.logged_at_ms < since_ms:
            return found, False
        found.append(decided)
    return found, len(found) == DECISIONS_MAX


def _holders(reading: Reading, newest_first: Iterable[Decided], since_ms: int) -> dict[str, _Holder]:
    by_slot = _nodes_by_slot(reading)
    found: dict[str, _Holder] = {row.node: _Holder() for _, row in reading.rows(NodeRow) if row.holds_lease}
    for decided in reversed(list(newest_first)):
        match decided.event:
            case LeasesRenewed(renewals=renewals):
                for slot, _ in unpack_renewals(renewals):
                    if node := by_slot.get(slot):
                        found.setdefault(node, _Holder()).renew(slot, decided.logged_at_ms)
            case NodeJoined(joiner=joiner, slot=slot):
                if by_slot.get(slot) == joiner.node:
                    _note(found, joiner.node, decided, "joined", since_ms)
            case LeaseStopped(node=node, reason=reason):
                _note(found, node, decided, f"stopped: {_word(reason.value)}", since_ms)
            case NodeLeft(node=node, reason=reason):
                _note(found, node, decided, f"left: {_word(reason.value)}", since_ms)
            case _:
                pass
    return found


def _note(found: dict[str, _Holder], node: str, decided: Decided, what: str, since_ms: int) -> None:
    if decided.logged_at_ms >= since_ms:
        found.setdefault(node, _Holder()).events.append((decided.logged_at_ms, what, decided.position))


def _word(text: str) -> str:
    return text.replace("_", " ").lower()


def _nodes_by_slot(reading: Reading) -> Mapping[Slot, NodeId]:
    """Who has, or had not long ago, which slot; a slot is of one incarnation for ever."""
    found: dict[Slot, NodeId] = {}
    for node, _ in reading.rows(NodeRow):
        for _, row in islice(reading.versions(NodeRow, node), _INCARNATIONS):
            if row is not None:
                found.setdefault(row.slot, row.node)
    return found


def _strip(node: str, holder: _Holder, since_ms: int, until_ms: int, fence_ms: int, *, is_present: bool) -> Strip:
    scale = WIDTH / max(1, until_ms - since_ms)

    def x(time_ms: int) -> float:
        return round(min(WIDTH, max(0.0, (time_ms - since_ms) * scale)), 1)

    times = sorted({each for renewed in holder.renewed_ms.values() for each in renewed})
    valid = list(_valid(times, fence_ms, until_ms))
    absent = list(_absent(holder.events, since_ms, until_ms, is_present=is_present))
    begun = [(start, next((each for each in times if each >= start), until_ms)) for _, start in absent]
    gaps = list(_without([*valid, *absent, *begun], since_ms, until_ms))
    bands = [
        *(Band(x(start), max(_LEAST, x(end) - x(start)), "away") for start, end in absent),
        *(Band(x(start), max(_LEAST, x(end) - x(start)), "gap") for start, end in gaps),
        *(Band(x(start), max(_LEAST, x(end) - x(start)), "valid") for start, end in valid if end > since_ms),
    ]
    shown = [each for each in times if each >= since_ms]
    gap_ms = sum(end - start for start, end in gaps)
    return Strip(
        node=node,
        bands=tuple(bands),
        ticks=tuple(x(each) for each in shown[-_TICKS_MAX:]),
        events=tuple(Event(x(time_ms), what, position) for time_ms, what, position in holder.events),
        words=_words(shown, gaps, holder.events, is_present=is_present),
        gap_ms=gap_ms,
        is_overlapping=_overlap(holder.renewed_ms),
    )


def _valid(times: list[int], fence_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    """The spans in which a renewal is valid, joined."""
    start = end = None
    for time_ms in times:
        if end is not None and start is not None and time_ms > end:
            yield start, end
            start = time_ms
        start = time_ms if start is None else start
        end = min(time_ms + fence_ms, until_ms)
    if start is not None and end is not None:
        yield start, end


def _without(explained: list[tuple[int, int]], since_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    """What is left of the window: who is no member has no lease to renew, and the first renewal takes a beat."""
    at = since_ms
    for start, end in sorted(explained):
        if start > at:
            yield at, start
        at = max(at, end)
    if at < until_ms:
        yield at, until_ms


def _absent(
    events: list[tuple[int, str, int]], since_ms: int, until_ms: int, *, is_present: bool
) -> Iterator[tuple[int, int]]:
    """When it was no member: before it joined, after it left."""
    at, is_in = since_ms, not (events and events[0][1] == "joined") and (bool(events) or is_present)
    for time_ms, what, _ in events:
        if what == "joined" and not is_in:
            yield at, time_ms
            is_in = True
        elif what.startswith("left") and is_in:
            at, is_in = time_ms, False
    if not is_in:
        yield at, until_ms


def _overlap(renewed_ms: Mapping[Slot, list[int]]) -> bool:
    """Whether two incarnations were renewed at the same time, which must never be."""
    spans = sorted((min(times), max(times)) for times in renewed_ms.values())
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def _words(
    times: list[int], gaps: list[tuple[int, int]], events: list[tuple[int, str, int]], *, is_present: bool
) -> str:
    told = [f"{len(times)} renewal{'' if len(times) == 1 else 's'}"]
    if len(times) > 1:
        told[0] += f", every {(times[-1] - times[0]) / (len(times) - 1) / 1000:.1f} s"
    if gaps:
        longest = max(end - start for start, end in gaps)
        told.append(f"{len(gaps)} gap{'' if len(gaps) == 1 else 's'}, the longest {ago(longest)}")
    elif is_present:
        told.append("no gap")
    told += [f"{what} at {position}" for _, what, position in events]
    return "; ".join(told)
