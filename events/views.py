"""Views: each change of who is there or of what is shared out, where it stands in the log, and a node's past (BA22).

Threats. A log is restored from a backup, or a copy of it goes live beside the original: two histories grow under one
log id. A node that has written in one of them joins the other, and nothing in its data says so. Or a node comes back
with a disk that is older than its last life, and is taken for the owner that it was.

Invariant. No member has written in another history than the log's, but for writes under the one lease that ran when the
histories parted, which are those of a crash; nor has it lost what it stored in its last life.

Argument. The chain hash behind a decision covers all before it, so histories agree in no place behind their first
difference. A node's *past* says in which places it has written: the *points* of the views under which it did, and the
last *echo* of its lease that it relied on. It is synced to the node's disk before the first write under each of them,
and before the first heartbeat. So whoever has written behind the difference has either a point there, which the log has
not; or an echo of its own that this log has never given, for the log knows how far it has renewed each node's last
life. A life that has joined and relied on no renewal has written nothing, wherever that was: the disk goes on saying
what the one before had relied on. And a disk which has not reserved what the log has renewed is an older one, put in
the place of that which was.

A copy may have come with the heartbeats that stood beside the log. Were these renewed in both histories, both would
know the echo's number, and a node that had written under the one would pass for one that has under the other. So a term
renews only those who have applied its start (`streams/rules/membership.py`): whoever leads on the copy begins a term,
and who lives in the original never reads of it.

Views alone do not do: a copy is made of the log, the original goes on under the view of before,
a node writes there and joins the copy with no point behind the difference. `tests/unit/streams/rules/test_past.py` has
that schedule; the echo is there for it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

import msgspec

from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, TopologyVersion
from topolog.events.state import Row, State
from topolog.events.terms import cluster

POINTS_PER_ROW = 64
VIEWS_KEPT = 256
"""Changes of the members that the state remembers with their names; a projection's history has them all."""

CHAIN_BYTES = 16
_POSITION_BYTES = 8
_POINT_BYTES = _POSITION_BYTES + CHAIN_BYTES


class Point(msgspec.Struct, frozen=True, order=True):
    """A place of the log where the view changed: the position of the decision, and the chain hash behind it."""

    position: Position
    chain: bytes


class Echo(msgspec.Struct, frozen=True):
    """The last renewal that a life of a node has relied on: that of its heartbeat `sequence`, applied at `at`."""

    incarnation: Incarnation
    sequence: int
    at: Point


class Relied(msgspec.Struct, frozen=True):
    """What a disk said at the end of a life that had relied on a renewal: its last echo, and the numbers reserved."""

    echo: Echo
    reserved: int


class Past(msgspec.Struct, frozen=True):
    """Where `node` has written, as its disk says: views of log `log_id` by their points, ascending, and the last echo.

    There is one point at least, that of the view in which it joined. Of long ago not every one is kept
    (`streams/node/past.py`). The echo of a life that has joined and not yet relied on any has sequence 0, and stands
    where it joined; `before` is then the last life that had relied on one, None if none had. No heartbeat of the echo's
    life with a number above `reserved` has been sent since the disk was so, but for a release, which is never renewed.
    """

    log_id: bytes
    node: NodeId
    points: tuple[Point, ...]
    echo: Echo
    reserved: int
    before: Relied | None = None


def relied_on(past: Past) -> Past | None:
    """The same without a life that has relied on no renewal, for it has written nothing; None if there was no other."""
    if past.echo.sequence > 0:
        return past
    if past.before is None:
        return None
    points = tuple(point for point in past.points if point.position < past.echo.at.position)
    return Past(past.log_id, past.node, points, past.before.echo, past.before.reserved)


class Kinship(Enum):
    """How a node's past agrees with the log (`streams/rules/past.py`).

    NEW: no life of it has had a lease. WIPED: one has had, and the disk says nothing of it. RESTORED: the disk is older
    than the node's last life. EQUAL: it has written under the newest view. BEHIND: only under former ones. AHEAD: it
    has written where this log does not go, and nothing was granted nor anybody served in this log since. FORKED: it has
    written in another history, and this one has gone on as well. FOREIGN: in another log, or it is another node's disk.
    Who is one of the last three does not join.
    """

    UNKNOWN = "UNKNOWN"
    NEW = "NEW"
    WIPED = "WIPED"
    RESTORED = "RESTORED"
    EQUAL = "EQUAL"
    BEHIND = "BEHIND"
    AHEAD = "AHEAD"
    FORKED = "FORKED"
    FOREIGN = "FOREIGN"

    @property
    def has_lost_it(self) -> bool:
        """Whether the node has not what the log lists of its former lives, whatever its service says."""
        return self in (Kinship.WIPED, Kinship.RESTORED)


REFUSED_KINSHIPS = tuple(kinship.value for kinship in (Kinship.AHEAD, Kinship.FORKED, Kinship.FOREIGN))
"""With these nobody joins; the refusal has one as its code."""


class DiskRow(Row, frozen=True):
    """What the log knows of a node's disk: the last life that had a renewal, which was the last one; the newest life.

    A life reserves the numbers of its heartbeats on its disk before it sends them, so a renewal proves that they are
    reserved there. A life without one may have ended before it could. One that is `bare` was a
    client's, which notes no past: its disk may well say nothing.

    `renewed_at`: where that renewal stands.

    `lost`: a life has joined without what the log lists of its former ones, and no exchange has heard one since. Its
    disk says of itself what a disk says that is whole, and whoever comes back with it brings as little.
    """

    KIND: ClassVar[str] = "disk"

    renewed: Incarnation | None
    sequence: int
    newest: Incarnation
    bare: bool = False
    lost: bool = False
    renewed_at: Position = NOWHERE


class ViewRow(Row, frozen=True):
    """The servers that are members from this view on, in the order of their joining, under its version.

    Views in which only ownership changes have no row of their own, for their members are those of the view before.
    """

    KIND: ClassVar[str] = "view"

    version: TopologyVersion
    at: Point
    members: tuple[NodeId, ...]


class PointsRow(Row, frozen=True):
    """64 points in the order of the log, 24 bytes each, under the number of the row."""

    KIND: ClassVar[str] = "points"

    points: bytes


def note_view(state: State, version: TopologyVersion, members: tuple[NodeId, ...], place: Place) -> None:
    """The decision at `place` has made this view."""
    at = Point(place.position, place.chain)
    before = newest_view(state)
    if before is None or before.members != members:
        state.put(str(version), ViewRow(version, at, members))
    if state.count(ViewRow) > VIEWS_KEPT:
        oldest, _ = min(state.rows(ViewRow), key=lambda each: each[1].at)
        state.drop(ViewRow, oldest)
    _append(state, at)


def newest_view(state: State) -> ViewRow | None:
    return max((row for _, row in state.rows(ViewRow)), key=lambda row: row.at, default=None)


def view_at(state: State, position: Position) -> ViewRow | None:
    """The view in force behind a position, None if its members are no longer kept."""
    rows = (row for _, row in state.rows(ViewRow) if row.at.position <= position)
    return max(rows, key=lambda row: row.at, default=None)


def view_of(state: State, version: TopologyVersion) -> ViewRow | None:
    """The members of that version; None if they are no longer kept, or it is still to come."""
    rows = (row for _, row in state.rows(ViewRow) if row.version <= version)
    found = max(rows, key=lambda row: row.at, default=None)
    return found if found is not None and version <= cluster(state).topology_version else None


def note_end_of_life(
    state: State,
    node: NodeId,
    incarnation: Incarnation,
    last_sequence: int,
    renewed_at: Position,
    *,
    bare: bool = False,
) -> None:
    """A life of the node is over; `last_sequence` was its last renewal, at `renewed_at`, 0 if it had none."""
    state.put(node, after_life(state.get(DiskRow, node), incarnation, last_sequence, renewed_at, bare=bare))


def after_life(
    before: DiskRow | None,
    incarnation: Incarnation,
    last_sequence: int,
    renewed_at: Position,
    *,
    bare: bool = False,
) -> DiskRow:
    """What is known of a node's disk when this life of it is over."""
    lost = before is not None and before.lost
    if last_sequence:
        return DiskRow(incarnation, last_sequence, incarnation, bare, lost, renewed_at)
    if before is None:
        return DiskRow(None, 0, incarnation, bare)
    return msgspec.structs.replace(before, newest=incarnation)


def note_lost(state: State, node: NodeId, *, lost: bool) -> None:
    """A life has joined without what it had, or an exchange has heard that."""
    known = state.get(DiskRow, node)
    if known is not None and known.lost is not lost:
        state.put(node, msgspec.structs.replace(known, lost=lost))


def lost_disks(state: State) -> list[NodeId]:
    """The nodes whose disks have lost something that the log lists, as far as no exchange has accounted for it."""
    return [NodeId(node) for node, row in state.rows(DiskRow) if row.lost]


def newest_point(state: State) -> Point | None:
    count = state.count(PointsRow)
    return _unpack(_row(state, count - 1).points[-_POINT_BYTES:])[0] if count else None


def point_after(state: State, position: Position) -> Point | None:
    """The first point behind a position. A past of hundreds is judged by it among 100,000 of the log: nothing is
    unpacked but what is compared."""
    numbers = range(state.count(PointsRow))
    number = bisect_right(numbers, position, key=lambda each: _position_in(_row(state, each).points, -1))
    if number == len(numbers):
        return None
    packed = _row(state, number).points
    places = range(len(packed) // _POINT_BYTES)
    at = bisect_right(places, position, key=lambda each: _position_in(packed, each))
    return _unpack(packed[at * _POINT_BYTES : (at + 1) * _POINT_BYTES])[0]


def is_point(state: State, point: Point) -> bool:
    """Whether the log has this point."""
    found = point_after(state, Position(point.position - 1))
    return found == point


def points_of(row: PointsRow) -> Sequence[Point]:
    """The points of one row, oldest first."""
    return _unpack(row.points)


def _append(state: State, point: Point) -> None:
    number = state.count(PointsRow) - 1
    packed = _row(state, number).points if number >= 0 else b""
    if not packed or len(packed) == POINTS_PER_ROW * _POINT_BYTES:
        number, packed = number + 1, b""
    state.put(str(number), PointsRow(packed + point.position.to_bytes(_POSITION_BYTES, "big") + point.chain))


def _row(state: State, number: int) -> PointsRow:
    row = state.get(PointsRow, str(number))
    assert row is not None, "rows of points are numbered without a gap"
    return row


def _unpack(packed: bytes) -> Sequence[Point]:
    return [
        Point(
            Position(int.from_bytes(packed[first : first + _POSITION_BYTES], "big")),
            packed[first + _POSITION_BYTES : first + _POINT_BYTES],
        )
        for first in range(0, len(packed), _POINT_BYTES)
    ]


def _position_in(packed: bytes, number: int) -> Position:
    """The position of one point of a row, from the end if the number is negative."""
    first = number * _POINT_BYTES + (len(packed) if number < 0 else 0)
    return Position(int.from_bytes(packed[first : first + _POSITION_BYTES], "big"))
