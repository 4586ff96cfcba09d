"""Rules of the cluster's state: when it serves, when it waits for its members (docs/design/baseline.md).

A change of the state is done when everybody who may act has applied its start. A cluster is *cold* when so many members
of its baseline are away that less than a quorum is left, and a partition of a persistent group has lost its last owner:
then nothing is lost, and no exchange ends, until a quorum is back or an operator says so. What still has an owner goes
on being served.
"""

from collections.abc import Iterable

from topolog.events import last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.baseline import (
    BaselineRow,
    Cause,
    ClusterCold,
    ClusterWarmed,
    HoldChanged,
    StateChangeFinished,
    StateChangeStarted,
    baseline,
    cluster_state,
    online,
    placed_by,
)
from topolog.events.baseline_requests import ClusterStateRequested, HoldRequested, WarmRequested
from topolog.events.cluster_state import ClusterState
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.exchange import PartitionsLost, open_exchange, queued
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import NodeId, Position, TopologyVersion
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.streams.rules import baseline as rules_of_baseline
from topolog.streams.rules.verdict import Reports, verdict

StateRequest = ClusterStateRequested | HoldRequested | WarmRequested


def decide(state: State, request: StateRequest, ref: RequestRef) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing."""
    match request:
        case ClusterStateRequested():
            return _change(state, request, ref)
        case HoldRequested():
            return [_hold(state, request, ref)]
        case WarmRequested():
            if cluster_state(state).cold_at is None:
                return [RequestUnchanged(ref, request.subject, None)]
            return [_warmed(state, Cause.REQUESTED, ref)]


def _hold(state: State, request: HoldRequested, ref: RequestRef) -> Decision:
    row = cluster_state(state)
    if row.held is request.held:
        return RequestUnchanged(ref, request.subject, None)
    if request.harmless and not request.held and not row.is_active:
        message = "The cluster is not as it was when this was asked: by now it is not active, and would go on by this."
        raise Refused("PLAN_IS_OLD", "BA9", message)
    return HoldChanged(ref, request.held)


def settle(state: State, reports: Reports, waited_through: Position) -> list[Decision]:
    """What follows; call again until nothing does."""
    row, current = cluster_state(state), baseline(state)
    if row.started_at is not None:
        found = verdict(state, row.started_at, reports, waited=waited_through >= row.started_at)
        if found.proceed:
            return [StateChangeFinished(row.started_at, found.evidence, changed_view(state))]
    if current is None:
        return []
    if row.cold_at is not None:
        return [_warmed(state, Cause.QUORUM, None)] if current.has_quorum(online(state)) else []
    if row.allowed is ClusterState.INACTIVE:
        if row.target is not None:
            return []
        is_complete = not row.held and set(current.nodes) <= set(online(state))
        return _started(state, row.resumes, Cause.COMPLETE, None) if is_complete else []
    return _cooled(state, current) if queued(state) or open_exchange(state) else []


def cooled_by(state: State, decided: Iterable[Decision]) -> list[Decision]:
    """The cluster is cold where the end of an exchange would give up what they own who are away.

    `settle` looks at what the log says of the owners. One that has returned with an empty disk is listed until an
    exchange has heard it, so only the end of that exchange shows that the last owner is away.
    """
    row, current = cluster_state(state), baseline(state)
    if current is None or row.goes_on or current.has_quorum(online(state)):
        return []
    is_torn = any(_gives_up(state, each) for each in decided if isinstance(each, PartitionsLost))
    return [ClusterCold(awaited(state, current), current.quorum)] if is_torn else []


def awaited(state: State, current: BaselineRow) -> tuple[NodeId, ...]:
    """The members of the baseline that are away."""
    here = set(online(state))
    return tuple(node for node in current.nodes if node not in here)


def _gives_up(state: State, lost: PartitionsLost) -> bool:
    """Whether somebody may come back with what is called lost here, and was not before."""
    group = group_row(state, lost.group)
    if group is None or not placed_by(state, group) or not lost.awaited:
        return False
    rows = ownership.rows_of(state, group.name, group.partitions)
    return not set(lost.partitions) <= {partition for row in rows for partition in ownership.lost_in(row)}


def _change(state: State, request: ClusterStateRequested, ref: RequestRef) -> list[Decision]:
    target, row = request.target, cluster_state(state)
    if target is ClusterState.UNKNOWN:
        message = "This coordinator does not know the state that is asked for."
        raise Refused("BAD_REQUEST", "BA4", message, hint="Upgrade the coordinators first.")
    if row.target is target:
        return [RequestUnchanged(ref, request.subject, None)]
    rules_of_baseline.check_settled(state)
    is_first = target is ClusterState.ACTIVE and baseline(state) is None
    if row.state is target and not is_first:
        is_to_hold = target is ClusterState.INACTIVE and not row.held
        return [HoldChanged(ref, held=True) if is_to_hold else RequestUnchanged(ref, request.subject, None)]
    return _started(state, target, Cause.REQUESTED, ref)


def _started(state: State, target: ClusterState, cause: Cause, ref: RequestRef | None) -> list[Decision]:
    """The first activation makes baseline 0 of all servers that are online (BA7)."""
    here, view = online(state), changed_view(state)
    if target is not ClusterState.ACTIVE or baseline(state) is not None:
        return [StateChangeStarted(ref, target, cause, here, view)]
    if not here:
        message = "No server is online, so there is nobody who could count."
        raise Refused("NO_SERVERS", "BA7", message, hint="Start a node first.")
    first = rules_of_baseline.changed(state, None, here, cause)
    later = TopologyVersion(view.major, view.minor + 1)
    return [first, StateChangeStarted(ref, target, cause, here, later)]


def _warmed(state: State, cause: Cause, ref: RequestRef | None) -> Decision:
    current, here = baseline(state), online(state)
    assert current is not None, "only a cluster with a baseline is ever cold"
    back = tuple(node for node in current.nodes if node in here)
    return ClusterWarmed(ref, cause, back, changed_view(state))


def _cooled(state: State, current: BaselineRow) -> list[Decision]:
    """Looked at where an exchange is about to say what is lost."""
    row, here = cluster_state(state), online(state)
    if row.goes_on or current.has_quorum(here):
        return []
    numbers = [number for node in here if (number := ownership.number_of(state, node)) is not None]
    groups = [group for _, group in state.rows(GroupRow) if placed_by(state, group)]
    is_torn = any(
        last_owners.is_any_owned_by_none_of(list(ownership.rows_of(state, group.name, group.partitions)), numbers)
        for group in groups
    )
    return [ClusterCold(awaited(state, current), current.quorum)] if is_torn else []
