"""What a node notes of its own past (why, stands in `events/views.py`). Pure."""

import msgspec

from topolog.events.ids import NodeId
from topolog.events.views import Echo, Past, Point

RESERVED_AT_ONCE = 64
"""Numbers of heartbeats. A disk put back that is older by less than these may pass for the newest."""

_SPARE = RESERVED_AT_ONCE // 2
"""With fewer left, whatever is noted next reserves more: so the thread that beats hardly ever waits for the disk."""

POINTS_MAX = 300
_NEWEST_KEPT = 200


def noted(past: Past | None, log_id: bytes, node: NodeId, newest: Point, echo: Echo, sent: int) -> Past:
    """The past of a life that now relies on this echo, under the view of this newest point.

    `past`: what was noted so far, also of former lives; `sent`: the number of its last heartbeat.
    """
    before, reserved = (past.points, past.reserved) if past else ((), 0)
    points = before if before and before[-1] == newest else thinned((*before, newest))
    is_same_life = past is not None and past.echo.incarnation == echo.incarnation
    if not is_same_life or reserved - sent < _SPARE:
        reserved = sent + RESERVED_AT_ONCE
    return Past(log_id, node, points, echo, reserved)


def with_reserve(past: Past, sent: int) -> Past:
    return msgspec.structs.replace(past, reserved=sent + RESERVED_AT_ONCE)


def thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The newest as they are, and ever fewer of the older ones; the oldest stays.

    Histories that part agree in nothing behind that place, so the newest point tells alone whether they have; older
    ones only tell where.
    """
    if len(points) <= POINTS_MAX:
        return points
    return (*points[:-_NEWEST_KEPT:2], *points[-_NEWEST_KEPT:])
