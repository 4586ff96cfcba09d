"""Exchanges: how long they took, and of one a lane for each node, from the event to the full map.

What a lane shows is what the log tells: when the event was decided, when the exchange began, how long it has waited for
the map of each node, what it took in, when its outcome was whole. When nodes have applied that, the log does not tell.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from topolog.events.exchange import FullPartitionMap
from topolog.events.membership import NodeLeft
from topolog.events.terms import TermStarted
from topolog.projections import exchanges, explain_exchange, partition_history, paused
from topolog.projections.layout import Decided
from topolog.projections.partition_resources import Exchange, ExchangeDetail
from topolog.projections.store import Reading
from topolog.projections.versions import exchange_row
from topolog.projections.web import listing, things, values
from topolog.projections.web.asking import PageRequest
from topolog.projections.web.frame import Frame
from topolog.projections.web.listing import Column, Listing
from topolog.projections.web.templates import rendered
from topolog.projections.web.values import Shown, Value

WIDTH = 1000
_MEASURED = 200
_DRAWN = 60
_BAR_HEIGHT = 60
_LEAST = 3


class Figures(msgspec.Struct, frozen=True):
    """Of the last `count` that are over: half took at most `p50_ms`, 19 of 20 at most `p95_ms`."""

    what: str
    count: int
    p50_ms: int
    p95_ms: int
    longest_ms: int


class Pillar(msgspec.Struct, frozen=True):
    """One exchange in the picture of all; the words are what its height says."""

    x: float
    width: float
    height: float
    tone: str
    href: str
    words: str


class Bar(msgspec.Struct, frozen=True):
    x: float
    width: float
    colour: str


class Tick(msgspec.Struct, frozen=True):
    x: float
    colour: str


class Lane(msgspec.Struct, frozen=True):
    """One line of the picture and the same in words. `is_culprit`: nobody was waited for longer."""

    name: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    words: str
    href: str = ""
    is_culprit: bool = False


def many(asked: PageRequest) -> str:
    """All exchanges, newest first, with the picture of how long the last ones took."""
    newest = list(islice(exchanges.exchanges(asked.reading, asked.age_ms, {}), _MEASURED))
    over = [each for each in newest if each.state == "COMPLETED"]
    measured = [
        figures("exchanges", [each.duration_ms for each in over if not each.is_switch]),
        figures("hand-overs", [each.duration_ms for each in over if each.is_switch]),
    ]
    drawn = list(_pillars(asked.frame, list(reversed(newest[:_DRAWN]))))
    return listing.page(
        EXCHANGES, asked, "exchanges.html", figures=[each for each in measured if each], drawn=drawn, height=_BAR_HEIGHT
    )


def one(asked: PageRequest, name: str) -> str:
    """One exchange, by the view it is about or `newest`: lanes, why, history."""
    found = exchanges.exchange(asked.reading, asked.age_ms, name)
    told = things.explained(lambda: explain_exchange.explain_exchange(asked.reading, asked.age_ms, name))
    drawn = lanes(asked.reading, found, asked.frame)
    return rendered(
        "exchange.html",
        asked.frame,
        exchange=found,
        title=f"Exchange {found.version}",
        lanes=drawn,
        culprit=next((each for each in drawn if each.is_culprit), None),
        explanation=told,
        turns=list(things.turns(asked, partition_history.of_exchange(asked.reading, found.version))),
        fields=list(values.fields(asked.frame, found, _SHOWN_ELSEWHERE)),
        links=(),
        commands=things.commands(asked, "exchange", found.version),
        api=asked.frame.api("exchanges", found.version),
    )


_SHOWN_ELSEWHERE = frozenset({"phases", "waited", "triggers"})


def lanes(reading: Reading, found: ExchangeDetail, frame: Frame) -> list[Lane]:
    """A lane for what it is about, one for the coordinator, one for each server that was asked."""
    triggers = list(_triggers(reading, found))
    began_ms = _time_ms(reading, found.started_at)
    end_ms = began_ms + found.duration_ms
    first_ms = min([began_ms, *(time_ms for _, time_ms, _ in triggers)])
    scale = _Scale(first_ms, max(end_ms, first_ms + 1))
    taken = [_of_coordinator(reading, found, scale, began_ms, end_ms)]
    if triggers:
        taken.insert(0, _of_triggers(triggers, scale, began_ms))
    return [*taken, *_of_nodes(reading, found, scale, frame, began_ms, end_ms)]


class _Scale:
    """Times to places in the picture."""

    def __init__(self, first_ms: int, last_ms: int) -> None:
        self._first_ms, self._span_ms = first_ms, last_ms - first_ms

    def x(self, time_ms: float) -> float:
        return round(WIDTH * (time_ms - self._first_ms) / self._span_ms, 1)

    def bar(self, since_ms: float, until_ms: float, colour: str) -> Bar:
        since = min(self.x(since_ms), WIDTH - _LEAST)
        return Bar(since, max(_LEAST, self.x(until_ms) - since), colour)

    def tick(self, time_ms: float, colour: str) -> Tick:
        return Tick(min(self.x(time_ms), WIDTH - _LEAST), colour)


def _triggers(reading: Reading, found: ExchangeDetail) -> Iterator[tuple[str, int, int]]:
    """(what, log time, position) of each event it is about."""
    row = exchange_row(reading, found.version)
    for trigger in row.triggers if row else ():
        what = f"{trigger.type.value.replace('_', ' ').lower()} {trigger.subject}".strip()
        yield what, _time_ms(reading, trigger.at), trigger.at


def _of_triggers(triggers: Sequence[tuple[str, int, int]], scale: _Scale, began_ms: int) -> Lane:
    told = (f"{what} at {position}, {_since(began_ms, time_ms)}" for what, time_ms, position in triggers)
    first_ms = min(time_ms for _, time_ms, _ in triggers)
    return Lane(
        "what happened",
        (scale.bar(first_ms, began_ms, "queued"),) if first_ms < began_ms else (),
        tuple(scale.tick(time_ms, "event") for _, time_ms, _ in triggers),
        "; ".join(told),
    )


def _since(began_ms: int, time_ms: int) -> str:
    if time_ms == began_ms:
        return "at its beginning"
    return f"{abs(time_ms - began_ms):,} ms {'before' if time_ms < began_ms else 'after'} it began"


def _of_coordinator(reading: Reading, found: ExchangeDetail, scale: _Scale, began_ms: int, end_ms: int) -> Lane:
    ticks, told = [], []
    for phase in found.phases:
        colour = {"OVERDUE": "late", "MERGED": "event"}.get(phase.phase, "step")
        ticks.append(scale.tick(began_ms + phase.after_ms, colour))
        told.append(f"{phase.phase.lower()} after {phase.after_ms:,} ms")
    for decided in _between(reading, found, "cluster"):
        if isinstance(decided.event, TermStarted):
            ticks.append(scale.tick(decided.logged_at_ms, "takeover"))
            told.append(f"{decided.event.instance} took over after {decided.logged_at_ms - began_ms:,} ms")
    maps = sum(isinstance(each.event, FullPartitionMap) for each in _of_outcome(reading, found))
    if maps:
        told.append(f"full map of {maps} group{'' if maps == 1 else 's'} with its end")
    colour = "waits" if found.state == "OPEN" else "whole"
    return Lane("coordinator", (scale.bar(began_ms, end_ms, colour),), tuple(ticks), "; ".join(told))


def _of_nodes(
    reading: Reading, found: ExchangeDetail, scale: _Scale, frame: Frame, began_ms: int, end_ms: int
) -> Iterator[Lane]:
    answered = {each.node: each.waited_ms for each in found.waited}
    slowest = max(answered.values(), default=0)
    is_open = found.state == "OPEN"
    if is_open:
        came_ms = paused.Missed(reading, frame.as_of.age_ms).answered
        answered = {node: max(0, came_ms[node] - began_ms) for node in found.asked if node in came_ms}
    for node in dict.fromkeys((*found.asked, *found.unheard)):
        href = frame.to("nodes", node)
        if node in answered and node not in found.unheard:
            took_ms = answered[node]
            is_last = took_ms == slowest and len(answered) > 1 and not is_open and not found.unheard
            bars = (
                scale.bar(began_ms, began_ms + took_ms, "slow" if is_last else "answered"),
                *((scale.bar(began_ms + took_ms, end_ms, "known"),) if began_ms + took_ms < end_ms else ()),
            )
            yield Lane(node, bars, (), f"it answered after {took_ms:,} ms", href, is_last)
            continue
        left_ms = _left_ms(reading, found, node)
        until_ms = end_ms if left_ms is None else left_ms
        waited_ms = until_ms - began_ms
        is_unheard = node in found.unheard
        what = "left" if left_ms is not None else _SILENT[is_open, is_unheard]
        bar = scale.bar(began_ms, until_ms, "late" if is_unheard else "waits")
        late = ", overdue since" if node in found.overdue else ""
        yield Lane(node, (bar,), (), f"{what} after {waited_ms:,} ms{late}", href, is_unheard and left_ms is None)


_SILENT = {
    (True, False): "not answered yet",
    (True, True): "not answered yet",
    (False, False): "was needed no more",
    (False, True): "was not heard, and it was completed without it",
}
"""Of an exchange that is open or not, of a server that it was completed without or not."""


def _left_ms(reading: Reading, found: ExchangeDetail, node: str) -> int | None:
    return next(
        (each.logged_at_ms for each in _between(reading, found, f"node {node}") if isinstance(each.event, NodeLeft)),
        None,
    )


def _between(reading: Reading, found: ExchangeDetail, subject: str) -> Iterator[Decided]:
    """Decisions about something while the exchange was open, newest first."""
    end = reading.position if found.completed_at is None else found.completed_at
    for decided in reading.decisions(end + 1, subject):
        if decided.position < found.started_at:
            return
        yield decided


def _of_outcome(reading: Reading, found: ExchangeDetail) -> Sequence[Decided]:
    if found.completed_at is None:
        return ()
    return reading.decisions_of_set(reading.surely_decision(found.completed_at).set_end)


def _time_ms(reading: Reading, position: int) -> int:
    return reading.surely_decision(position).logged_at_ms


def figures(what: str, taken_ms: Sequence[int]) -> Figures | None:
    """Of so many spans; None without any."""
    if not taken_ms:
        return None
    durations = sorted(taken_ms)
    return Figures(what, len(durations), _quantile(durations, 50), _quantile(durations, 95), durations[-1])


def _quantile(ascending: Sequence[int], percent: int) -> int:
    """The least value that so many of a hundred do not exceed."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


def _pillars(frame: Frame, found: Sequence[Exchange]) -> Iterator[Pillar]:
    longest = max((each.duration_ms for each in found), default=0) or 1
    width = WIDTH / max(12, len(found))
    for at, each in enumerate(found):
        height = max(2.0, round(_BAR_HEIGHT * each.duration_ms / longest, 1))
        tone = "late" if each.unheard else "waits" if each.state == "OPEN" else "whole"
        without = f", without {', '.join(each.unheard)}" if each.unheard else ""
        words = f"{each.version}: {each.duration_ms:,} ms{without}"
        yield Pillar(
            round(at * width, 1), round(width * 0.8, 1), height, tone, frame.to("exchanges", each.version), words
        )


def _slowest(_: Frame, each: Exchange) -> Shown:
    if each.state == "OPEN":
        return Value(f"asked: {', '.join(each.awaited) or 'nobody'}", tone="busy")
    if each.unheard:
        return Value(f"without {', '.join(each.unheard)}", tone="bad" if each.overdue else "busy")
    if not each.waited:
        return "–"
    last = each.waited[-1]
    return Value(last.node, note=f"after {last.waited_ms:,} ms, {len(each.waited)} asked")


def _about(_: Frame, each: Exchange) -> Shown:
    return ", ".join(
        f"{trigger.type.replace('_', ' ').lower()} {trigger.subject}".strip() for trigger in each.triggers[:8]
    )


EXCHANGES = Listing(
    view="exchanges",
    title="Exchanges",
    about="Each time the members had to agree anew who holds what, newest first.",
    columns=(
        Column("View", lambda f, each: Value(each.version, f.to("exchanges", each.version))),
        Column("About", _about, is_wide=True),
        Column("State", lambda _, each: values.state(each.state), sort="state"),
        Column("Began", lambda _, each: values.time(each.started_time)),
        Column("Took", lambda _, each: values.exact(each.duration_ms), is_number=True, sort="duration_ms"),
        Column("The slowest", _slowest, is_wide=True),
        Column("Result", lambda _, each: each.result),
        Column("Began at", lambda f, each: values.position(f, each.started_at), is_number=True, sort="started_at"),
    ),
    empty="There has been no exchange: the first one begins with the first group, `topolog create group orders`.",
    told=frozenset({"state", "type"}),
)
