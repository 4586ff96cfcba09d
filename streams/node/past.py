"""What a node notes of its own past (why, stands in `events/views.py`). Pure."""

import msgspec

from topolog.events.ids import NodeId
from topolog.events.views import Echo, Past, Point, Relied, relied_on

RESERVED_AT_ONCE = 16
"""Numbers of heartbeats, at least. A disk put back that is older by less than these may pass for the newest."""

POINTS_MAX = 300
_NEWEST_KEPT = 200


def noted(past: Past | None, log_id: bytes, node: NodeId, newest: Point, echo: Echo, sent: int) -> Past:
    """The past of a life that now relies on this echo, under the view of this newest point.

    `past`: what was noted so far, also of former lives; `sent`: the number of its last heartbeat.
    """
    is_same_life = past is not None and past.echo.incarnation == echo.incarnation
    known = past if past is None or is_same_life else relied_on(past)
    before = known.points if known else ()
    points = before if before and before[-1] == newest else thinned((*before, newest))
    if past is not None and (points, echo) == (past.points, past.echo):
        return past
    return Past(log_id, node, points, echo, _reserve(echo, sent), None if echo.sequence else _relied(known))


def _relied(known: Past | None) -> Relied | None:
    """What the last life that had relied on a renewal has left."""
    if known is None or known.echo.sequence == 0:
        return known.before if known else None
    return Relied(known.echo, known.reserved)


def with_reserve(past: Past, sent: int) -> Past:
    """As it is, and its life may send more heartbeats."""
    return msgspec.structs.replace(past, reserved=_reserve(past.echo, sent))


def _reserve(echo: Echo, sent: int) -> int:
    """Enough until the next renewal is noted, however many acknowledgements are sent in between: ever more of them."""
    return sent + max(RESERVED_AT_ONCE, 2 * (sent - echo.sequence))


def thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The newest as they are, and ever fewer of the older ones; the oldest stays.

    Histories that part agree in nothing behind that place, so the newest point tells alone whether they have; older
    ones only tell where.
    """
    if len(points) <= POINTS_MAX:
        return points
    return (*points[:-_NEWEST_KEPT:2], *points[-_NEWEST_KEPT:])
