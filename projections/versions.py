"""Versions of the topology as places in the log: where the view `4.1` came into force, where exchange `4.0` ended."""

import re
from bisect import bisect_right
from heapq import merge

from topolog.events.errors import BadInput, NotFound
from topolog.events.exchange import AffinitySwitched, ExchangeRow, ExchangeStarted
from topolog.events.ids import Position, TopologyVersion
from topolog.events.terms import ClusterRow
from topolog.events.views import Point, PointsRow, points_of
from topolog.projections.layout import Decided
from topolog.projections.store import Reading

_VERSION = re.compile(r"(\d{1,15})\.(\d{1,15})")

ABOUT_EXCHANGES = ("exchange", "hand-over")
"""The subjects of the decisions about exchanges."""


def parsed(text: str) -> TopologyVersion:
    """The version in `4.1`; raises BadInput for anything else."""
    found = _VERSION.fullmatch(text)
    if not found:
        raise BadInput(
            f"{text!r} is no version of the topology.", hint="One looks like 4.0; views and exchanges are named so."
        )
    return TopologyVersion(int(found[1]), int(found[2]))


def points_ever(reading: Reading) -> list[Point]:
    """The places of all views, oldest first."""
    rows = {int(key): row for key, row in reading.rows(PointsRow)}
    return [point for number in sorted(rows) for point in points_of(rows[number])]


def version_at(reading: Reading, position: Position) -> TopologyVersion:
    """The version that the decision at this position has made, which made a view."""
    event = reading.surely_decision(position).event
    for field in ("topology_version", "version"):
        found = getattr(event, field, None)
        if isinstance(found, TopologyVersion):
            return found
    row = reading.as_of(position).row(ClusterRow, "")
    assert row is not None, "a log begins with its cluster"
    return row.topology_version


def view_index(reading: Reading, points: list[Point], text: str) -> int:
    """Which of `points` is that of the view of this version; raises BadInput for no version, NotFound for none."""
    sought = parsed(text)
    index = bisect_right(points, sought, key=lambda point: version_at(reading, point.position)) - 1
    if index >= 0 and version_at(reading, points[index].position) == sought:
        return index
    newest = f"the newest is {version_at(reading, points[-1].position)}" if points else "none is kept yet"
    raise NotFound(
        f"There is no view {text} at position {reading.position}: {newest}.", hint="`topolog get views` lists them."
    )


def in_force_at(reading: Reading, text: str) -> Position:
    """Where the view of this version came into force; raises as `view_index` does."""
    points = points_ever(reading)
    return points[view_index(reading, points, text)].position


def completed_at(reading: Reading, text: str) -> Position:
    """Where the exchange about the view of this version was completed; raises BadInput for no version, NotFound for one
    that there is not, or that is open."""
    found = exchange_about(reading, parsed(text))
    if found is None:
        raise no_exchange(reading, text)
    end = found.completed_at if isinstance(found, ExchangeRow) else found.position
    if end is None:
        raise NotFound(
            f"Exchange {text} is not completed at position {reading.position}.",
            hint=f"`topolog explain exchange {text}` says what it waits for.",
        )
    return end


def no_exchange(reading: Reading, text: str) -> NotFound:
    return NotFound(
        f"There is no exchange about view {text} at position {reading.position}.",
        hint="`topolog get exchanges` lists them. Views that concern no server and no group have none.",
    )


def exchange_row(reading: Reading, key: str) -> ExchangeRow | None:
    """The newest row of the exchange whose first view is `key`, also of one that the state no longer remembers."""
    return next((row for _, row in reading.versions(ExchangeRow, key) if row is not None), None)


def exchange_about(reading: Reading, sought: TopologyVersion) -> ExchangeRow | Decided | None:
    """The exchange that is about this view, by its first or by one that it has taken in; or the decision that ended the
    hand-over which made it."""
    row = exchange_row(reading, str(sought))
    if row is not None:
        return row
    for position in merge(*(reading.positions(None, about) for about in ABOUT_EXCHANGES), reverse=True):
        decided = reading.surely_decision(position)
        event = decided.event
        first = last = None
        if isinstance(event, AffinitySwitched):
            first = last = event.version
        elif isinstance(event, ExchangeStarted):
            row = exchange_row(reading, str(event.triggers[0].version))
            first, last = (row.version, row.result) if row else (None, None)
        if first is None or last is None:
            continue
        if first <= sought <= last:
            return row if isinstance(event, ExchangeStarted) else decided
        if last < sought:
            return None
    return None
