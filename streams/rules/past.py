"""How the past of a node that wants to join agrees with the log (DESIGN §4.4; why, stands in `events/views.py`).

It is judged when the node's former life has ended in the log, and its disk is locked by the one that joins.
"""

from enum import Enum

import msgspec

from topolog.events.ids import NodeId, Position
from topolog.events.state import State
from topolog.events.views import DiskRow, Past, Point, is_point, newest_point, point_after


class Kinship(Enum):
    """NEW: no life of it has had a lease. WIPED: one has had, and the disk says nothing of it. RESTORED: the disk is
    older than the node's last life. EQUAL: it has written under the newest view. BEHIND: only under former ones. AHEAD:
    it has written where the log has not come to. FORKED: in another history of this log. FOREIGN: in another log, or it
    is another node's disk."""

    NEW = "NEW"
    WIPED = "WIPED"
    RESTORED = "RESTORED"
    EQUAL = "EQUAL"
    BEHIND = "BEHIND"
    AHEAD = "AHEAD"
    FORKED = "FORKED"
    FOREIGN = "FOREIGN"


class Judged(msgspec.Struct, frozen=True):
    """`common`: the last place where both agree, as far as the node's points tell. `theirs`, `ours`: the first place
    behind it that only the node has, and only the log."""

    kinship: Kinship
    common: Point | None = None
    theirs: Point | None = None
    ours: Point | None = None


def judge(state: State, log_id: bytes, end: Position, node: NodeId, past: Past | None) -> Judged:
    """`end` is the last position of the log, `past` what the node's disk says; None if that says nothing."""
    known = state.get(DiskRow, node)
    if past is None:
        return Judged(Kinship.WIPED if known and known.renewed is not None else Kinship.NEW)
    if (past.log_id, past.node) != (log_id, node):
        return Judged(Kinship.FOREIGN)
    common, theirs = _parting(state, past, known)
    if theirs is not None:
        kinship = Kinship.AHEAD if theirs.position > end else Kinship.FORKED
        return Judged(kinship, common, theirs, point_after(state, common.position if common else Position(-1)))
    if known is not None and not _is_of_last_life(past, known):
        return Judged(Kinship.RESTORED, common)
    return Judged(Kinship.EQUAL if common == newest_point(state) else Kinship.BEHIND, common)


def _parting(state: State, past: Past, known: DiskRow | None) -> tuple[Point | None, Point | None]:
    """The last place that is common, and the first one that is not, if the node has one."""
    common: Point | None = None
    for point in past.points:
        if not is_point(state, point):
            return common, point
        common = point
    return common, past.echo.at if _was_renewed_elsewhere(past, known) else None


def _is_of_last_life(past: Past, known: DiskRow) -> bool:
    life = past.echo.incarnation
    return life == known.newest != known.renewed or (life == known.renewed and past.reserved >= known.sequence)


def _was_renewed_elsewhere(past: Past, known: DiskRow | None) -> bool:
    """Whether its life relied on a renewal that this log has never given."""
    if known is None or past.echo.incarnation == known.newest != known.renewed:
        return past.echo.sequence > 0
    return past.echo.incarnation == known.renewed and past.echo.sequence > known.sequence
