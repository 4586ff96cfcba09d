"""What can be asked of views: each change of who is there or of what is shared out, newest first.

The state keeps the place of every view for ever, and the members of the last few; the history of rows has them all.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from topolog.events.errors import NotFound
from topolog.events.ids import Position
from topolog.events.views import Point, ViewRow
from topolog.projections.baseline_resources import View
from topolog.projections.moments import iso
from topolog.projections.store import Reading
from topolog.projections.versions import points_ever, version_at, view_index

NEWEST = "newest"


def views(reading: Reading, before: int | None = None) -> Iterator[View]:
    """All views from positions below `before`, the newest first."""
    points, members_at = points_ever(reading), MembersAt(reading)
    for index in range(len(points) - 1, -1, -1):
        if before is None or points[index].position < before:
            yield _view(reading, points, index, members_at)


def view(reading: Reading, version: str) -> View:
    """The view of this version; `newest` is the one in force. Raises as `view_index` does."""
    points = points_ever(reading)
    if not points:
        raise NotFound("There is no view yet.")
    if version == NEWEST:
        return _view(reading, points, len(points) - 1, MembersAt(reading))
    return _view(reading, points, view_index(reading, points, version), MembersAt(reading))


class MembersAt:
    """Which servers were members at a position; of long ago it is read from the history of rows."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._rows = _rows(reading)

    def __call__(self, position: Position) -> tuple[str, ...]:
        """Nobody before the first view that is known."""
        found = self._newest_before(position)
        if found is None:
            self._rows = _rows(self._reading.as_of(position))
            found = self._newest_before(position)
        return found.members if found else ()

    def _newest_before(self, position: Position) -> ViewRow | None:
        index = bisect_right(self._rows, position, key=lambda row: row.at.position)
        return self._rows[index - 1] if index else None


def _rows(reading: Reading) -> list[ViewRow]:
    return sorted((row for _, row in reading.rows(ViewRow)), key=lambda row: row.at)


def _view(reading: Reading, points: Sequence[Point], index: int, members_at: MembersAt) -> View:
    point = points[index]
    decided = reading.surely_decision(point.position)
    members = members_at(point.position)
    before = members_at(points[index - 1].position) if index else members
    return View(
        version=str(version_at(reading, point.position)),
        position=point.position,
        time=iso(decided.logged_at_ms),
        chain=point.chain.hex(),
        members=members,
        joined=tuple(node for node in members if node not in before),
        left=tuple(node for node in before if node not in members),
        event=decided.event_name,
        subject=decided.subject,
        actor=decided.asked_by,
        reason=decided.asked_for,
    )
