"""How the past of a node that wants to join agrees with the log (BA23; why, stands in `events/views.py`).

It is judged when the node's former life has ended in the log, and its disk is locked by the one that joins. Whoever has
written where the log does not go is refused, with what both sides did and what to do about it; nothing is ever wiped.

AHEAD and FORKED are told apart by what became of this log, not by its length: a log that was put back grows by itself,
by terms, beats and the removal of members that are silent. None of these is anybody's work. So it is an older one as
long as nothing was granted in it and no member served under it behind the last place where the node was renewed here.
Where it cannot be known on which side of the parting a grant stands, it counts for FORKED: nobody is to put another
log in the place of one that somebody has gone on with.
"""

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from topolog.events import ownership
from topolog.events.baseline import online
from topolog.events.errors import Refused
from topolog.events.groups import group_row
from topolog.events.ids import NOWHERE, NodeId, Position
from topolog.events.leases import LeaseRow, NodeRow
from topolog.events.past_file import FILE_NAME
from topolog.events.requests import LastGrantedRow
from topolog.events.state import State
from topolog.events.terms import cluster
from topolog.events.views import (
    DiskRow,
    Kinship,
    Past,
    Point,
    ViewRow,
    is_point,
    newest_point,
    point_after,
    relied_on,
    view_at,
)
from topolog.streams.rules.baseline import last_copies, summed

PAST_POINTS_MAX = 1_000
"""More than any node notes (`streams/node/past.py`); each is looked up in the log."""


class Judged(msgspec.Struct, frozen=True):
    """`common`: the last place where both agree, as far as the node's points tell. `theirs`, `ours`: the first place
    behind it that only the node has, and only the log. `since`: up to where both agree for sure, if they part: the
    common place, or the node's last renewal in this log."""

    kinship: Kinship
    common: Point | None = None
    theirs: Point | None = None
    ours: Point | None = None
    since: Position = NOWHERE


def judge(state: State, log_id: bytes, node: NodeId, past: Past | None, ended: DiskRow | None = None) -> Judged:
    """`past`: what the node's disk says, None if that says nothing; `ended`: what is known of that disk once a life is
    over whose end is decided and not folded yet. A life that joined elsewhere and was never renewed wrote nothing: the
    one before it counts."""
    known = ended or state.get(DiskRow, node)
    if past is None:
        has_had_a_past = known is not None and known.renewed is not None and not known.bare
        return Judged(Kinship.WIPED if has_had_a_past else Kinship.NEW)
    if (past.log_id, past.node) != (log_id, node):
        return Judged(Kinship.FOREIGN)
    if past.echo.sequence == 0 and not is_point(state, past.echo.at):
        return judge(state, log_id, node, relied_on(past), ended)
    common, theirs = _parting(state, past, known)
    if theirs is not None:
        at = common.position if common else NOWHERE
        since = max(at, known.renewed_at) if known and known.renewed == past.echo.incarnation else at
        kinship = Kinship.FORKED if _has_gone_on(state, since, theirs.position) else Kinship.AHEAD
        return Judged(kinship, common, theirs, point_after(state, at), since)
    if known is not None and (known.lost or not _is_of_last_life(past, known)):
        return Judged(Kinship.RESTORED, common)
    return Judged(Kinship.EQUAL if common == newest_point(state) else Kinship.BEHIND, common)


def check(state: State, log_id: bytes, end: Position, node: NodeId, past: Past | None, judged: Judged) -> None:
    """Raise Refused for a node that must not join."""
    check_shape(node, past)
    match judged.kinship, past:
        case Kinship.FOREIGN, Past():
            raise _foreign(log_id, node, past)
        case Kinship.AHEAD, Past():
            copies = _copies(state, node)
            facts = {"end": str(end), **_parted(state, past, judged), **copies}
            message = (
                f"Node {node!r} has written at position {facts['theirs_position']}, which this log has not. It ends at "
                f"{end}, and since {_since(judged)} nothing was granted in it and nobody has served: it was cut "
                "short, or is an older copy."
            )
            hint = f"Start it with the log that it comes from, which has what it wrote. {_empty_folder(judged, copies)}"
            raise Refused(judged.kinship.value, "BA23", message, facts, hint=hint)
        case Kinship.FORKED, Past():
            copies = _copies(state, node)
            facts = {**_parted(state, past, judged), **copies}
            message = (
                f"Node {node!r} has written in another history of this log. Both have {_common(facts)}; then the node "
                f"has position {facts['theirs_position']} (chain {facts['theirs_chain']}), and this log {_ours(facts)}."
            )
            hint = f"Start it in the cluster that it comes from. {_empty_folder(judged, copies)}"
            raise Refused(judged.kinship.value, "BA23", message, facts, hint=hint)


def check_shape(node: NodeId, past: Past | None) -> None:
    """Raise Refused for a past that no node has noted, before each of its points is looked up: a life notes the view in
    which it joined, so there is one at least."""
    if past is None:
        return
    if len(past.points) > PAST_POINTS_MAX:
        message = (
            f"The past that node {node!r} has sent names {len(past.points)} places, the limit is {PAST_POINTS_MAX}."
        )
        hint = f"Its library or its {FILE_NAME} is at fault. Start it with an empty folder: it loads all anew."
        raise Refused("BAD_PAST", "BA28", message, {"points": str(len(past.points))}, hint=hint)
    if not past.points or any(one.position >= other.position for one, other in pairwise(past.points)):
        message = f"The past that node {node!r} has sent names no places, or not in the order of the log."
        facts = {"points": ", ".join(str(point.position) for point in past.points)}
        hint = f"Its library or its {FILE_NAME} is at fault. Start it with an empty folder: it loads all anew."
        raise Refused("BAD_PAST", "BA28", message, facts, hint=hint)


def _foreign(log_id: bytes, node: NodeId, past: Past) -> Refused:
    """Another cluster's disk, or another node's."""
    facts = {"node": past.node, "log_id": past.log_id.hex(), "expected": log_id.hex()}
    if past.log_id != log_id:
        message = f"The folder of node {node!r} belongs to node {past.node!r} of another cluster's log."
    else:
        message = f"The folder of node {node!r} is that of node {past.node!r}."
    hint = "Give the node its own folder, or an empty one; start that folder's node where it belongs."
    return Refused(Kinship.FOREIGN.value, "BA23", message, facts, hint=hint)


def _parted(state: State, past: Past, judged: Judged) -> dict[str, str]:
    """What both sides did: where they are at one for the last time, and what each has had since."""
    assert judged.theirs is not None, "they part where the node has a place that the log has not"
    since = judged.common.position if judged.common else Position(-1)
    facts = {
        "theirs_position": str(judged.theirs.position),
        "theirs_chain": judged.theirs.chain.hex(),
        "theirs_views": str(sum(point.position > since for point in past.points)),
    }
    if judged.common is not None:
        facts |= {"common_position": str(since), **_described("common", view_at(state, since))}
    if judged.ours is not None:
        facts |= {"ours_position": str(judged.ours.position), "ours_chain": judged.ours.chain.hex()}
        facts |= _described("ours", view_at(state, judged.ours.position))
        here = {node for _, row in state.rows(ViewRow) if row.at.position > since for node in row.members}
        facts["ours_members_since"] = ", ".join(sorted(here))
    granted = state.get(LastGrantedRow, "")
    if granted is not None and granted.at > judged.since:
        facts["ours_granted_position"] = str(granted.at)
    return facts


def _described(side: str, view: ViewRow | None) -> Mapping[str, str]:
    if view is None:
        return {}
    return {f"{side}_view": str(view.version), f"{side}_members": ", ".join(view.members) or "nobody"}


def _common(facts: Mapping[str, str]) -> str:
    if "common_position" not in facts:
        return "nothing in common"
    view = f" (view {facts['common_view']}: {facts['common_members']})" if "common_view" in facts else ""
    return f"position {facts['common_position']}{view} in common"


def _ours(facts: Mapping[str, str]) -> str:
    if "ours_position" not in facts:
        return "has no other view"
    view = f" (view {facts['ours_view']}: {facts['ours_members']})" if "ours_view" in facts else ""
    return f"has position {facts['ours_position']}{view}"


def _since(judged: Judged) -> str:
    return f"position {judged.since}" if judged.since != NOWHERE else "its beginning"


def _copies(state: State, node: NodeId) -> Mapping[str, str]:
    """Of what the node has a whole copy on its disk as this log lists it, which nobody who is online has, and nobody at
    all."""
    others = [NodeId(other) for other in ownership.names(state) if other != node]
    here = [other for other in online(state) if other != node]
    return {
        name: summed(last)
        for name, kept in (("copies", list[NodeId]()), ("last_copies_online", here), ("last_copies", others))
        if (last := _on_disk(state, last_copies(state, [node], kept)))
    }


def _on_disk(state: State, counts: Mapping[str, int]) -> Mapping[str, int]:
    """Without those groups whose copies end with their process."""
    rows = {name: group_row(state, name) for name in counts}
    return {name: count for name, count in counts.items() if (row := rows[name]) is not None and row.persistent}


def _empty_folder(judged: Judged, copies: Mapping[str, str]) -> str:
    """What would become of its data if it were started with an empty folder."""
    lost = f"what it wrote behind {_since(judged)} and nobody else has is lost"
    match copies:
        case {"last_copies": last}:
            return f"Never start it with an empty folder: nobody else has a whole copy of {last}."
        case {"last_copies_online": last}:
            away = "who has one besides is away. Start those first, and see whether they are let in"
            return f"Do not start it with an empty folder: nobody who is online has a whole copy of {last}, {away}."
        case {"copies": copied}:
            return f"Or start it with an empty folder: who is online has a whole copy of its {copied}, and {lost}."
    return f"Or start it with an empty folder: this log lists no whole copy there, and {lost}."


def _has_gone_on(state: State, since: Position, theirs: Position) -> bool:
    """Whether somebody has gone on with this log behind `since`; behind `theirs` nothing in it is common."""
    granted = state.get(LastGrantedRow, "")
    if granted is not None and granted.at > since:
        return True
    if any(row.renewed_at >= theirs for _, row in state.rows(DiskRow)):
        return True
    return any(
        lease.renewed_at > since and lease.renewed_at >= min(theirs, cluster(state).led_since)
        for _, lease in state.rows(LeaseRow)
        if lease.sequence and (row := state.get(NodeRow, lease.node)) and row.holds_lease
    )


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
