"""Rules of the baseline: who counts, and when it follows the servers by itself (docs/design/baseline.md).

What a request asks of a node names it by its id: an online server, or a member of the baseline that is away. Whatever
would drop a member that is online, or the last copy of a partition, is refused with what would be right.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from topolog.events import last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.baseline import (
    AutoAdjustConfigured,
    AutoAdjustRow,
    AutoAdjustSuppressed,
    BaselineChanged,
    BaselineMember,
    BaselineRow,
    Cause,
    adjusted,
    auto_adjust,
    baseline,
    cluster_state,
    online,
)
from topolog.events.baseline_requests import AutoAdjustRequested, BaselineChangeRequested, BaselineVerb
from topolog.events.cluster_state import ClusterState, Operation
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.ids import NodeId
from topolog.events.leases import NodeRow
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.events.views import view_of
from topolog.streams.rules.allowed import require
from topolog.streams.rules.deadlines import Deadline

MEMBERS_BYTES_MAX = 600_000
"""Of one baseline's members with their attributes: its record names who is online besides."""

_NAMES_MAX = 10

TIMEOUT_MS_MAX = 7 * 24 * 3_600_000
"""A week: whoever wants more wants it off."""


def decide(state: State, request: BaselineChangeRequested | AutoAdjustRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    match request:
        case BaselineChangeRequested():
            return [_change(state, request, ref)]
        case AutoAdjustRequested():
            return [_configure(state, request, ref)]


def settle(state: State, passed: Collection[str]) -> list[Decision]:
    """The baseline becomes that of the servers, once it is due and does no harm; else the reason is said, once.

    `passed`: keys of deadlines that have passed.
    """
    row, current = auto_adjust(state), baseline(state)
    if current is None or not any(deadline.key in passed for deadline in deadlines(row)):
        return []
    after = adjusted(state, current)
    if set(after) == set(current.nodes):
        return []
    if reason := why_not_adjusted(state, current, after):
        return [AutoAdjustSuppressed(reason)] if reason != row.suppressed else []
    return [_changed(state, None, after, Cause.ADJUSTED)]


def deadlines(row: AutoAdjustRow) -> list[Deadline]:
    """When the baseline is to follow the servers."""
    if not row.enabled or row.first_at is None or row.last_at is None:
        return []
    return [
        Deadline(f"adjust/soft/{row.last_at}", row.last_at, row.soft_ms),
        Deadline(f"adjust/hard/{row.first_at}", row.first_at, row.hard_ms),
    ]


def changed(state: State, ref: RequestRef | None, nodes: Collection[NodeId], cause: Cause) -> BaselineChanged:
    """The next baseline, of these nodes. Raises Refused if they do not fit one record."""
    size = members_bytes(state, nodes)
    if size > MEMBERS_BYTES_MAX:
        message = f"The members with their attributes have {size} bytes, the limit is {MEMBERS_BYTES_MAX}."
        hint = "Start them with fewer or shorter attributes, or name fewer."
        raise Refused("TOO_LARGE", "BA15", message, {"bytes": str(size)}, hint=hint)
    return _changed(state, ref, nodes, cause)


def members_bytes(state: State, nodes: Collection[NodeId]) -> int:
    """What a baseline of these nodes is about in a record: each of them is named twice."""
    return sum(
        2 * len(member.node.encode()) + sum(8 + len(name.encode()) + len(text.encode()) for name, text in attributes)
        for member in _members(state, nodes)
        for attributes in [member.attributes.items()]
    )


def _changed(state: State, ref: RequestRef | None, nodes: Collection[NodeId], cause: Cause) -> BaselineChanged:
    current, here = baseline(state), online(state)
    return BaselineChanged(
        ref,
        current.number + 1 if current else 0,
        _members(state, nodes),
        tuple(node for node in here if node in nodes),
        cause,
        changed_view(state),
    )


def why_not_adjusted(state: State, current: BaselineRow, after: Sequence[NodeId]) -> str:
    """What keeps the baseline from following the servers now, for people; empty if nothing does (BA20). It counts
    nothing that changes while copies move, for each other reason is a decision."""
    row = cluster_state(state)
    if row.held:
        return "an operator holds the cluster: `topolog baseline hold --off` lets it go"
    if row.target is not None or row.state is ClusterState.INACTIVE:
        return "the cluster is INACTIVE, or on its way to another state"
    if row.cold_at is not None:
        return "the cluster is cold: too many members are away"
    if not after:
        return "no server is online"
    lost = {row.group for _, row in state.rows(OwnershipRow) if 1 in row.lost}
    if lost:
        return f"partitions of {_listed(lost)} are lost: start who has them, or `topolog reset group`"
    if members_bytes(state, after) > MEMBERS_BYTES_MAX:
        return f"the members with their attributes have more than {MEMBERS_BYTES_MAX} bytes: start them with fewer"
    last = last_copies(state, [node for node in current.nodes if node not in after], after)
    return f"nobody else has a whole copy of partitions of {_listed(last)}" if last else ""


def last_copies(state: State, dropped: Collection[NodeId], after: Collection[NodeId]) -> Mapping[str, int]:
    """How many partitions, by group, have owners among the dropped nodes and none among the others."""
    numbers = {node: ownership.number_of(state, node) for node in (*dropped, *after)}
    gone = [number for node in dropped if (number := numbers[node]) is not None]
    kept = [number for node in after if (number := numbers[node]) is not None]
    rows: dict[str, list[OwnershipRow]] = {}
    for _, row in state.rows(OwnershipRow) if gone else ():
        rows.setdefault(row.group, []).append(row)
    counts = {group: last_owners.count_owned_only_by(of_it, gone, kept) for group, of_it in rows.items()}
    return {group: count for group, count in counts.items() if count}


def check_settled(state: State) -> None:
    """Raise Refused while the state is on its way to another."""
    row = cluster_state(state)
    if row.target is not None:
        message = f"The cluster is on its way to {row.target.value} since position {row.started_at}."
        facts = {"target": row.target.value, "started_at": str(row.started_at)}
        raise Refused("STATE_CHANGING", "BA3", message, facts, hint="Ask again once it is done.")


# What is asked for.


def _change(state: State, request: BaselineChangeRequested, ref: RequestRef) -> Decision:
    check_changeable(state)
    if auto_adjust(state).enabled:
        hint = "`topolog baseline auto-adjust --off` first."
        raise Refused("AUTO_ADJUSTED", "BA19", "The baseline follows the servers by itself.", hint=hint)
    current = baseline(state)
    if current is None and request.verb in (BaselineVerb.ADD, BaselineVerb.REMOVE):
        raise _without_baseline(())
    before = current.nodes if current else ()
    after = _asked_for(state, request, before)
    _check_known(state, after, before)
    if current is None and (left_out := [node for node in online(state) if node not in after]):
        raise _without_baseline(left_out)
    if current is not None and _members(state, after) == current.members:
        return RequestUnchanged(ref, request.subject, None)
    _check_dropped(state, before, after, accepts_loss=request.accepts_loss)
    return changed(state, ref, after, Cause.REQUESTED)


def _without_baseline(left_out: Sequence[NodeId]) -> Refused:
    """While every server counts, none that is online is dropped by not being named: all that it holds would move."""
    hint = "`topolog cluster activate` makes one of all servers; then `topolog baseline drain` takes one out."
    facts = {"online": _listed(left_out)} if left_out else {}
    return Refused("NO_BASELINE", "BA7", "There is no baseline yet: every server counts.", facts, hint=hint)


def check_changeable(state: State) -> None:
    """Raise Refused while nobody may change who counts."""
    check_settled(state)
    require(state, Operation.COUNT)


def _asked_for(state: State, request: BaselineChangeRequested, before: Sequence[NodeId]) -> Sequence[NodeId]:
    named = [NodeId(node) for node in dict.fromkeys(request.nodes)]
    if request.verb is BaselineVerb.VERSION:
        return _members_at(state, request)
    if not named:
        raise Refused("NO_NODES", "BA12", "No node is named.", hint="Name one or more: see `topolog get nodes`.")
    match request.verb:
        case BaselineVerb.SET:
            return named
        case BaselineVerb.ADD:
            return [*before, *named]
        case BaselineVerb.REMOVE:
            return _without(before, named)
    message = "This coordinator does not know how the baseline is to change."
    raise Refused("BAD_REQUEST", "BA4", message, hint="Upgrade the coordinators first.")


def _members_at(state: State, request: BaselineChangeRequested) -> Sequence[NodeId]:
    row = view_of(state, request.version) if request.version else None
    if row is None:
        view = str(request.version or "none")
        message = f"The servers of view {view} are not known: it is still to come, or long ago."
        raise Refused("VIEW_UNKNOWN", "BA12", message, {"view": view}, hint="See `topolog get views`.")
    if not row.members:
        message = f"View {request.version} has no servers, and a baseline has members."
        raise Refused(
            "BASELINE_EMPTY", "BA12", message, {"view": str(request.version)}, hint="See `topolog get views`."
        )
    return row.members


def _without(before: Sequence[NodeId], named: Sequence[NodeId]) -> Sequence[NodeId]:
    members = set(before)
    if strangers := [node for node in named if node not in members]:
        message = f"No members of the baseline: {_listed(strangers)}."
        hint = "`topolog get baseline` has the members."
        raise Refused("NOT_A_MEMBER", "BA12", message, {"strangers": _listed(strangers)}, hint=hint)
    gone = set(named)
    after = [node for node in before if node not in gone]
    if not after:
        message = "Without these the baseline would have no members."
        raise Refused("BASELINE_EMPTY", "BA12", message, hint="`topolog baseline set` names those that are to count.")
    return after


def _check_known(state: State, after: Iterable[NodeId], before: Collection[NodeId]) -> None:
    known = {*online(state), *before}
    if unknown := [node for node in after if node not in known]:
        message = f"Neither an online server nor a member of the baseline: {_listed(unknown)}."
        raise Refused(
            "NODE_UNKNOWN",
            "BA12",
            message,
            {"unknown": _listed(unknown)},
            hint="Start it first; see `topolog get nodes`.",
        )


def _check_dropped(state: State, before: Sequence[NodeId], after: Sequence[NodeId], *, accepts_loss: bool) -> None:
    kept = set(after)
    dropped = [node for node in before if node not in kept]
    if here := [node for node in dropped if (row := state.get(NodeRow, node)) and row.holds_lease]:
        message = f"Members that are online are not dropped: {_listed(here)}."
        hint = f"`topolog baseline drain {here[0]}` moves its copies away and takes it out; or stop it first."
        raise Refused("MEMBER_ONLINE", "BA13", message, {"online": _listed(here)}, hint=hint)
    last = last_copies(state, dropped, [node for node in after if node not in dropped])
    if last and not accepts_loss:
        message = f"Nobody else has a whole copy of {summed(last)}."
        hint = f"Start {_listed(dropped)} again; or accept the loss with --accept-loss."
        raise Refused("LAST_COPY", "BA14", message, {name: str(count) for name, count in last.items()}, hint=hint)
    if last:
        require(state, Operation.GROUP)


def _configure(state: State, request: AutoAdjustRequested, ref: RequestRef) -> Decision:
    row = auto_adjust(state)
    enabled = row.enabled if request.enabled is None else request.enabled
    soft_ms = row.soft_ms if request.soft_ms is None else request.soft_ms
    hard_ms = row.hard_ms if request.hard_ms is None else request.hard_ms
    if not 0 < soft_ms <= hard_ms <= TIMEOUT_MS_MAX:
        message = f"0 < soft ({soft_ms} ms) <= hard ({hard_ms} ms) <= a week has to hold."
        facts = {"soft_ms": str(soft_ms), "hard_ms": str(hard_ms)}
        raise Refused("BAD_TIMEOUT", "BA18", message, facts, hint="Name both where the other one does not fit.")
    if (enabled, soft_ms, hard_ms) == (row.enabled, row.soft_ms, row.hard_ms):
        return RequestUnchanged(ref, request.subject, None)
    return AutoAdjustConfigured(ref, enabled, soft_ms, hard_ms)


def _members(state: State, nodes: Collection[NodeId]) -> tuple[BaselineMember, ...]:
    """With the attributes that each has now, or was taken in with if it is away."""
    current = baseline(state)
    stored = {member.node: member for member in current.members} if current else {}
    return tuple(_member(state, node, stored) for node in sorted(set(nodes)))


def _member(state: State, node: NodeId, stored: Mapping[NodeId, BaselineMember]) -> BaselineMember:
    row = state.get(NodeRow, node)
    return BaselineMember(node, row.attributes) if row is not None and row.holds_lease else stored[node]


def summed(counts: Mapping[str, int]) -> str:
    """How many partitions of which groups, for people."""
    named = sorted(counts.items())[:_NAMES_MAX]
    said = ", ".join(f"{count} partition{'s' * (count > 1)} of {group}" for group, count in named)
    return said + _and_more(len(counts))


def _listed(names: Iterable[str]) -> str:
    found = sorted(set(names))
    return ", ".join(found[:_NAMES_MAX]) + _and_more(len(found))


def _and_more(count: int) -> str:
    """A reason is a record of its own, and a refusal quotes it."""
    return f" and {count - _NAMES_MAX} more" if count > _NAMES_MAX else ""
