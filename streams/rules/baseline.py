"""Rules of the baseline and the cluster's state: who counts, when the cluster serves (DESIGN §4.4, A3 to A7).

What a request asks of a node names it by its id: an online server, or a member of the baseline that is away. Whatever
would drop a member that is online, or the last copy of a partition, is refused with what would be right.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from topolog.events import ownership
from topolog.events.baseline import (
    AutoAdjustConfigured,
    AutoAdjustRow,
    AutoAdjustSuppressed,
    BaselineChanged,
    BaselineMember,
    BaselineRow,
    Cause,
    ClusterState,
    HoldChanged,
    StateChangeFinished,
    StateChangeStarted,
    auto_adjust,
    baseline,
    cluster_state,
)
from topolog.events.codec import Decision
from topolog.events.errors import Refused
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Position
from topolog.events.membership import NodeRow, Standing
from topolog.events.ownership import OwnershipRow
from topolog.events.requests import RequestRef, RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.exchange import servers
from topolog.streams.rules.verdict import Reports, verdict


class BaselineVerb(Enum):
    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"


class StateAsked(msgspec.Struct, frozen=True):
    target: ClusterState


class BaselineAsked(msgspec.Struct, frozen=True):
    """`accepts_loss`: partitions may be lost that nobody else holds."""

    verb: BaselineVerb
    nodes: tuple[NodeId, ...]
    accepts_loss: bool = False


class HoldAsked(msgspec.Struct, frozen=True):
    held: bool


class AutoAdjustAsked(msgspec.Struct, frozen=True):
    """What is None stays as it is."""

    enabled: bool | None = None
    soft_ms: int | None = None
    hard_ms: int | None = None


Asked = StateAsked | BaselineAsked | HoldAsked | AutoAdjustAsked


def decide(state: State, asked: Asked, ref: RequestRef) -> list[Decision]:
    """The decisions that answer; raises Refused and changes nothing."""
    match asked:
        case StateAsked():
            return _change_state(state, asked.target, ref)
        case BaselineAsked():
            return _change_baseline(state, asked, ref)
        case HoldAsked():
            if cluster_state(state).held == asked.held:
                return [RequestUnchanged(ref, "hold", None)]
            return [HoldChanged(ref, asked.held)]
        case AutoAdjustAsked():
            return _configure(state, asked, ref)


def settle(state: State, reports: Reports, waited_through: Position, passed: Collection[str]) -> list[Decision]:
    """What follows; call again until nothing does. `passed`: keys of deadlines that have passed."""
    row = cluster_state(state)
    if row.started_at is not None:
        found = verdict(state, row.started_at, reports, waited=waited_through >= row.started_at)
        return [StateChangeFinished(row.started_at, found.evidence, changed_view(state))] if found.proceed else []
    if row.held:
        return []
    if row.state is ClusterState.INACTIVE:
        return _activate_if_complete(state)
    return _adjust(state, passed)


def deadlines(row: AutoAdjustRow) -> list[Deadline]:
    """When the baseline is to follow the servers."""
    if not row.enabled or row.first_at is None or row.last_at is None:
        return []
    return [
        Deadline(f"adjust/soft/{row.last_at}", row.last_at, row.soft_ms),
        Deadline(f"adjust/hard/{row.first_at}", row.first_at, row.hard_ms),
    ]


# The state.


def _change_state(state: State, target: ClusterState, ref: RequestRef) -> list[Decision]:
    row = cluster_state(state)
    if row.target is not None:
        if row.target is target:
            return [RequestUnchanged(ref, "cluster state", None)]
        message = f"The cluster is on its way to {row.target.value} since position {row.started_at}."
        raise Refused(
            "STATE_CHANGING", "A3.3", message, {"target": row.target.value}, hint="Ask again once it is done."
        )
    if row.state is target and (target is ClusterState.INACTIVE or baseline(state) is not None):
        return [RequestUnchanged(ref, "cluster state", None)]
    return _started(state, target, Cause.REQUESTED, ref)


def _started(state: State, target: ClusterState, cause: Cause, ref: RequestRef | None) -> list[Decision]:
    """The first activation makes baseline 0 of all servers that are online (A4.1)."""
    online = _online(state)
    first: list[Decision] = []
    if baseline(state) is None and target is not ClusterState.INACTIVE:
        if not online:
            raise Refused("NO_SERVERS", "A4.1", "No server is online, so there is nobody who could count.")
        first = [BaselineChanged(None, 0, _members(state, online), online, cause, changed_view(state))]
    version = changed_view(state)
    later = msgspec.structs.replace(version, minor=version.minor + len(first))
    return [*first, StateChangeStarted(ref, target, cause, online, later)]


def _activate_if_complete(state: State) -> list[Decision]:
    """All members of the baseline are back (A4.2): whoever comes first or last makes no difference."""
    current = baseline(state)
    if current is None or not set(current.nodes) <= set(_online(state)):
        return []
    return _started(state, ClusterState.ACTIVE, Cause.COMPLETE, None)


# The baseline.


def _change_baseline(state: State, asked: BaselineAsked, ref: RequestRef) -> list[Decision]:
    _check_settled(state)
    if auto_adjust(state).enabled:
        hint = "`topolog baseline auto-adjust --off` first."
        raise Refused("AUTO_ADJUSTED", "A6", "The baseline follows the servers by itself.", hint=hint)
    current = baseline(state)
    before = current.nodes if current else ()
    after = _asked_for(state, asked, before)
    members = _members(state, after)
    if current is not None and members == current.members:
        return [RequestUnchanged(ref, "baseline", None)]
    _check_change(state, before, after, accepts_loss=asked.accepts_loss)
    number = current.number + 1 if current else 0
    online = tuple(node for node in after if node in _online(state))
    return [BaselineChanged(ref, number, members, online, Cause.REQUESTED, changed_view(state))]


def _check_settled(state: State) -> None:
    row = cluster_state(state)
    if row.target is not None:
        message = f"The cluster is on its way to {row.target.value} since position {row.started_at}."
        raise Refused(
            "STATE_CHANGING", "A3.3", message, {"target": row.target.value}, hint="Ask again once it is done."
        )
    if row.state is ClusterState.INACTIVE:
        message = "The cluster is INACTIVE, and its baseline does not change while it is."
        raise Refused("CLUSTER_INACTIVE", "A6", message, hint="`topolog cluster activate` first.")


def _asked_for(state: State, asked: BaselineAsked, before: Sequence[NodeId]) -> tuple[NodeId, ...]:
    known = {*_online(state), *before}
    unknown = [node for node in asked.nodes if node not in known]
    if unknown:
        message = f"Neither an online server nor a member of the baseline: {_listed(unknown)}."
        raise Refused("NODE_UNKNOWN", "A6", message, {"unknown": _listed(unknown)}, hint="See `topolog get nodes`.")
    if asked.verb is BaselineVerb.REMOVE and (strangers := [node for node in asked.nodes if node not in before]):
        message = f"No members of the baseline: {_listed(strangers)}."
        raise Refused("NOT_A_MEMBER", "A6", message, {"strangers": _listed(strangers)})
    match asked.verb:
        case BaselineVerb.SET:
            after = tuple(dict.fromkeys(asked.nodes))
        case BaselineVerb.ADD:
            after = tuple(dict.fromkeys((*before, *asked.nodes)))
        case BaselineVerb.REMOVE:
            after = tuple(node for node in before if node not in asked.nodes)
    if not after:
        raise Refused("BASELINE_EMPTY", "A6", "A baseline has members.", hint="Name those that are to count.")
    return after


def _check_change(state: State, before: Sequence[NodeId], after: Sequence[NodeId], *, accepts_loss: bool) -> None:
    dropped = [node for node in before if node not in after]
    if online := [node for node in dropped if node in _online(state)]:
        message = f"Members that are online are not dropped: {_listed(online)}."
        hint = f"`topolog baseline drain {online[0]}` moves its copies away and takes it out, or stop it first."
        raise Refused("MEMBER_ONLINE", "A6", message, {"online": _listed(online)}, hint=hint)
    last = _last_copies(state, dropped, after)
    if last and not accepts_loss:
        message = f"Nobody else has a whole copy of {_summed(last)}."
        hint = "Start them again; or accept the loss with --accept-loss."
        raise Refused("LAST_COPY", "N16", message, {name: str(count) for name, count in last.items()}, hint=hint)


def _last_copies(state: State, dropped: Collection[NodeId], after: Collection[NodeId]) -> dict[str, int]:
    """How many partitions, by group, have owners among the dropped nodes and none among the others."""
    names = ownership.names(state)
    found: dict[str, int] = {}
    for _, row in state.rows(OwnershipRow):
        for each in ownership.ownerships(row, range(row.first, row.first + row.count)):
            owners = {names[number] for number in each.owners}
            if owners & set(dropped) and not owners & set(after):
                found[row.group] = found.get(row.group, 0) + 1
    return found


# Auto-adjust.


def _configure(state: State, asked: AutoAdjustAsked, ref: RequestRef) -> list[Decision]:
    row = auto_adjust(state)
    enabled = row.enabled if asked.enabled is None else asked.enabled
    soft_ms = row.soft_ms if asked.soft_ms is None else asked.soft_ms
    hard_ms = row.hard_ms if asked.hard_ms is None else asked.hard_ms
    if not 0 < soft_ms <= hard_ms:
        message = f"The soft timeout, {soft_ms} ms, is to be above 0 and not above the hard one, {hard_ms} ms."
        raise Refused("BAD_TIMEOUT", "A7", message)
    if (enabled, soft_ms, hard_ms) == (row.enabled, row.soft_ms, row.hard_ms):
        return [RequestUnchanged(ref, "auto-adjust", None)]
    return [AutoAdjustConfigured(ref, enabled, soft_ms, hard_ms)]


def _adjust(state: State, passed: Collection[str]) -> list[Decision]:
    """The baseline becomes that of the servers, once it is due and does no harm; else the reason is said, once."""
    row, current = auto_adjust(state), baseline(state)
    if current is None or not any(deadline.key in passed for deadline in deadlines(row)):
        return []
    after = _online(state)
    reason = _why_not(state, current, after)
    if reason:
        return [AutoAdjustSuppressed(reason)] if reason != row.suppressed else []
    members = _members(state, after)
    return [BaselineChanged(None, current.number + 1, members, after, Cause.ADJUSTED, changed_view(state))]


def _why_not(state: State, current: BaselineRow, after: Sequence[NodeId]) -> str:
    if not after:
        return "no server is online"
    lost = sum(len(ownership.lost_in(row)) for _, row in state.rows(OwnershipRow))
    if lost:
        return f"{lost} partitions are lost"
    last = _last_copies(state, [node for node in current.nodes if node not in after], after)
    return f"nobody else has a whole copy of {_summed(last)}" if last else ""


# Who is there.


def _online(state: State) -> tuple[NodeId, ...]:
    return tuple(row.node for row in servers(state) if row.standing is Standing.MEMBER)


def _members(state: State, nodes: Iterable[NodeId]) -> tuple[BaselineMember, ...]:
    """With the attributes that each has now, or was taken in with if it is away."""
    current = baseline(state)
    stored = {member.node: member for member in current.members} if current else {}
    return tuple(_member(state, node, stored) for node in sorted(nodes))


def _member(state: State, node: NodeId, stored: Mapping[NodeId, BaselineMember]) -> BaselineMember:
    row = state.get(NodeRow, node)
    if row is not None and row.is_member:
        return BaselineMember(node, row.attributes)
    return stored[node]


def is_persistent(group: GroupRow) -> bool:
    """Whether the baseline decides who may hold copies of it."""
    return group.persistent


def _summed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} partitions of {group}" for group, count in sorted(counts.items()))


def _listed(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes))
