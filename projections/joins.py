"""What would become of a node that joined: the judgement of the coordinator's rules, and nothing is sent (BA27).

The rules judge when the node's former life is over; of one that is a member they are asked as if it had just ended.
"""

from collections.abc import Iterator, Mapping

from topolog.events.errors import Refused
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Position
from topolog.events.leases import LeaseRow, NodeRow
from topolog.events.ownership import RosterRow
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import LastGrantedRow, OutcomeRow, Status
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.views import (
    REFUSED_KINSHIPS,
    DiskRow,
    Kinship,
    Past,
    Point,
    PointsRow,
    ViewRow,
    after_life,
    is_point,
    newest_view,
    view_at,
)
from topolog.projections import queries, versions
from topolog.projections.baseline_resources import Branch, Join, Place
from topolog.projections.moments import position_time
from topolog.projections.store import Reading
from topolog.streams.rules.past import Judged, check, judge

_JUDGED_BY = (
    ClusterRow,
    PointsRow,
    ViewRow,
    DiskRow,
    NodeRow,
    LeaseRow,
    GroupRow,
    LastGrantedRow,
    RosterRow,
    OwnershipRow,
)
_PARTED = (Kinship.AHEAD.value, Kinship.FORKED.value)


def join(reading: Reading, name: str, past: Past | None) -> Join:
    """The judgement of a node with this past, None for an empty folder."""
    state = reading.state(*_JUDGED_BY)
    node, log_id = NodeId(name), bytes.fromhex(queries.cluster_row(reading).log_id)
    known = _disk(reading, state, node)
    judged = judge(state, log_id, node, past, known)
    refusal = _refusal(state, log_id, reading.position, node, past, judged)
    common = judged.common.position if judged.common else Position(-1)
    is_foreign = judged.kinship is Kinship.FOREIGN
    return Join(
        node=name,
        kinship=judged.kinship.value,
        is_admitted=refusal is None,
        sentence=refusal.message if refusal else _sentence(state, name, judged),
        remedy=refusal.hint if refusal else _REMEDIES[judged.kinship],
        common=_place(reading, state, judged.common),
        theirs=_place(reading, state, judged.theirs),
        ours=_place(reading, state, judged.ours),
        their_points=() if past is None or is_foreign else _behind(reading, state, past, judged, common),
        members_since=() if judged.common is None else _members_since(state, common),
        facts={**_facts(state, node, past, known, reading.position), **(refusal.facts if refusal else {})},
    )


def _disk(reading: Reading, state: State, node: NodeId) -> DiskRow | None:
    """What the log knows of the node's disk once the life is over that it has now, if any."""
    row, known = state.get(NodeRow, node), state.get(DiskRow, node)
    if row is None or not (row.holds_lease and row.folder):
        return known
    lease = queries.lease_row(reading, row)
    if lease is None:
        return known
    return after_life(known, lease.incarnation, lease.sequence, lease.renewed_at, bare=row.kinship is None)


def _refusal(
    state: State, log_id: bytes, end: Position, node: NodeId, past: Past | None, judged: Judged
) -> Refused | None:
    try:
        check(state, log_id, end, node, past, judged)
    except Refused as refusal:
        return refusal
    return None


def _sentence(state: State, node: str, judged: Judged) -> str:
    view = newest_view(state)
    newest = f" {view.version}" if view else ""
    match judged.kinship:
        case Kinship.NEW:
            return f"Node {node} is new here: it joins with nothing, and loads what it is to hold."
        case Kinship.WIPED:
            return (
                f"Node {node} has been a member, and an empty folder says nothing of that: it joins, loads all anew, "
                "and the copies that the log lists of it are nobody's."
            )
        case Kinship.RESTORED:
            return (
                f"The folder is older than the last life of node {node}: it joins, loads all anew, and the copies that "
                "the log lists of it are nobody's."
            )
        case Kinship.EQUAL:
            return f"Node {node} has written up to the newest view{newest}: it joins with what it has."
        case _:
            at = judged.common.position if judged.common else 0
            since = " and ".join(_members_since(state, Position(at))) or "nobody"
            return (
                f"Node {node} has written up to position {at} and in no other history: it joins, and what {since} "
                "wrote since is loaded."
            )


_REMEDIES: Mapping[Kinship, str] = {
    Kinship.NEW: "Start it.",
    Kinship.WIPED: "If its folder is still somewhere, start it with that; else start it as it is.",
    Kinship.RESTORED: "If there is a newer copy of its folder, start it with that; else start it as it is.",
    Kinship.EQUAL: "Start it.",
    Kinship.BEHIND: "Start it.",
}


def _facts(state: State, node: NodeId, past: Past | None, known: DiskRow | None, end: Position) -> dict[str, str]:
    facts = {"judged at": f"position {end}"}
    row = state.get(NodeRow, node)
    if row is not None and row.holds_lease:
        facts["it is a member now"] = "judged as if that life had just ended"
    if row is not None and not row.folder:
        facts["it has joined"] = "without a data folder: of such a life nothing is judged, it joins with nothing"
    if known is None:
        facts["the log knows of its disk"] = "nothing: no life of it has ended"
    elif known.renewed is None:
        facts["the log knows of its disk"] = "no life of it has had a renewal"
    else:
        facts["the log knows of its disk"] = f"life {known.renewed} was renewed up to heartbeat {known.sequence}"
    if past is None:
        facts["its disk says"] = "nothing (no --past was given): as an empty folder"
    else:
        echo = past.echo
        facts["its disk says"] = (
            f"{len(past.points)} views, the newest at position {past.points[-1].position}; life {echo.incarnation} has "
            f"relied on heartbeat {echo.sequence}, at position {echo.at.position}, and reserved {past.reserved}"
        )
    return facts


def _behind(reading: Reading, state: State, past: Past, judged: Judged, common: Position) -> tuple[Place, ...]:
    """Where it has written behind the last common place, if that is in another history."""
    if judged.theirs is None:
        return ()
    points = {point for point in (*past.points, past.echo.at, judged.theirs) if point.position > common}
    places = (_place(reading, state, point) for point in sorted(points))
    return tuple(place for place in places if place is not None)


def _members_since(state: State, position: Position) -> tuple[str, ...]:
    rows = [row for _, row in state.rows(ViewRow) if row.at.position > position]
    return tuple(sorted({node for row in rows for node in row.members}))


def _place(reading: Reading, state: State, point: Point | None) -> Place | None:
    """With its view, if it is a place of this log."""
    if point is None:
        return None
    if not is_point(state, point):
        return Place(point.position, point.chain.hex(), None, None)
    row = view_at(state, point.position)
    version = str(versions.version_at(reading, point.position))
    return Place(point.position, point.chain.hex(), version, row.members if row else None)


def refused(reading: Reading) -> Iterator[OutcomeRow]:
    """The last refusal of each node whose disk is of another history and that has not joined since; newest first."""
    rows = [row for _, row in reading.rows(OutcomeRow) if row.status is Status.REFUSED and row.code in REFUSED_KINSHIPS]
    seen: set[str] = set()
    for row in sorted(rows, key=lambda each: -each.position):
        node = row.subject.removeprefix("node ")
        now = reading.row(NodeRow, node)
        if node not in seen and (now is None or now.joined_at < row.position):
            seen.add(node)
            yield row


def branches(reading: Reading) -> Iterator[Branch]:
    """Where the history of each node parts from the log's whose last try to join was refused for it; newest first."""
    for row in refused(reading):
        if row.code not in _PARTED or "theirs_position" not in row.facts:
            continue
        yield Branch(
            node=row.subject.removeprefix("node "),
            kinship=row.code,
            common=int(row.facts["common_position"]) if "common_position" in row.facts else None,
            places=(Place(int(row.facts["theirs_position"]), row.facts.get("theirs_chain", ""), None, None),),
            places_in_all=int(row.facts.get("theirs_views", "1")),
            refused_at=row.position,
            time=position_time(reading, row.position),
            request=f"{row.requester}/{row.sequence}",
        )
