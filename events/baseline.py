"""Who counts, and whether the cluster serves: the baseline and the cluster's state (docs/design/baseline.md).

Threats. A node is away for a minute, and all of its data are moved; or it is away for good, and nothing is. An operator
stops the cluster for a repair, and a restart starts it again. The power fails, two of five nodes are back first, and
all that the other three hold is given up. A change is half done, and nobody can see it.

Invariant. Persistent groups are placed over the members of the baseline, present or not, and nothing but a decision
that says who asked, or which rule did, changes who these are. Each node serves no more than the lesser of what the
state was and what it is to become, until everybody who may act has applied the change. While the cluster is cold no
exchange ends, so nothing is given up.

Argument. All of it are rows, so every reader at one position knows the same. A change of the state is two decisions,
its start and its finish, and what lies between is the one verdict on the start (`streams/rules/verdict.py`): once it is
PROCEED, everybody has applied the start or is fenced, and nobody relies on what was before. Nothing is changed before
its decision is read back, so a change that was not logged has never been begun (BA10).

A baseline's branching points are places of the log: that which made it, and each activation, with the members that were
online (the seed's branching history). A set makes the next number and moves what was to the history. Which nodes may
join is not judged by these but by every view (`views.py`), for a member that is lost without an activation parts
histories as well (BA23).

A cluster that has never had a baseline is ACTIVE, and every server counts.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import ClassVar

import msgspec

from topolog.events import drains
from topolog.events.asked import RequestRef
from topolog.events.cluster_state import ClusterState, lesser
from topolog.events.decision import Decision
from topolog.events.drains import DrainCancelled, DrainStarted, is_drained
from topolog.events.evidence import Evidence
from topolog.events.exchange import TriggerType, queue
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Place, Position, TopologyVersion
from topolog.events.leases import NodeKind, NodeRow, Standing
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.requests import grant
from topolog.events.state import Row, State
from topolog.events.terms import enter_view
from topolog.events.views import Point

DEFAULT_SOFT_MS = 300_000
DEFAULT_HARD_MS = 1_800_000


class Cause(Enum):
    """Why a baseline or a state is what it is. REQUESTED: somebody asked. COMPLETE: all members of the baseline are
    online again. QUORUM: more than half of them are. ADJUSTED: auto-adjust. DRAINED: a member has handed over all."""

    UNKNOWN = "UNKNOWN"
    REQUESTED = "REQUESTED"
    COMPLETE = "COMPLETE"
    QUORUM = "QUORUM"
    ADJUSTED = "ADJUSTED"
    DRAINED = "DRAINED"


class BaselineMember(msgspec.Struct, frozen=True):
    """A node that counts, and its attributes when it was taken in: filters hold for the absent too (BA11)."""

    node: NodeId
    attributes: Mapping[str, str]


class BranchingPoint(msgspec.Struct, frozen=True):
    """Where a baseline was made or activated, and who of its members was online."""

    at: Point
    online: tuple[NodeId, ...]


class StateChangeStarted(Decision, frozen=True):
    """The cluster is to be in `target`; `online` are the servers that were members."""

    request: RequestRef | None
    target: ClusterState
    cause: Cause
    online: tuple[NodeId, ...]
    version: TopologyVersion


class StateChangeFinished(Decision, frozen=True):
    """The change that started at `started` is done: everybody who may act knows of it."""

    started: Position
    evidence: Evidence
    version: TopologyVersion


class BaselineChanged(Decision, frozen=True):
    """These nodes count from here on; `online` are those of them that are members."""

    request: RequestRef | None
    number: int
    members: tuple[BaselineMember, ...]
    online: tuple[NodeId, ...]
    cause: Cause
    version: TopologyVersion


class HoldChanged(Decision, frozen=True):
    """An operator holds the cluster as it is, or lets it go: while held, nothing activates or adjusts by itself."""

    request: RequestRef
    held: bool


class AutoAdjustConfigured(Decision, frozen=True):
    """Whether the baseline follows the servers by itself: `soft_ms` after the last of their joins and leaves, and not
    later than `hard_ms` after the first."""

    request: RequestRef
    enabled: bool
    soft_ms: int
    hard_ms: int


class AutoAdjustSuppressed(Decision, frozen=True):
    """An adjustment is due and cannot be made, for this reason; it is made once that is gone."""

    reason: str


class ClusterCold(Decision, frozen=True):
    """So many have left together that partitions would lose their last owner: no exchange ends until `quorum` members
    of the baseline are back; `awaited` are away."""

    awaited: tuple[NodeId, ...]
    quorum: int


class ClusterWarmed(Decision, frozen=True):
    """The cluster goes on with the members of the baseline that are `online`."""

    request: RequestRef | None
    cause: Cause
    online: tuple[NodeId, ...]
    version: TopologyVersion


BaselineEvent = (
    StateChangeStarted
    | StateChangeFinished
    | BaselineChanged
    | HoldChanged
    | AutoAdjustConfigured
    | AutoAdjustSuppressed
    | ClusterCold
    | ClusterWarmed
)


class ClusterStateRow(Row, frozen=True):
    """The one row about the state; without it the cluster is ACTIVE. `target` and `started_at` while a change runs,
    `cold_at` while the cluster is cold; `goes_on`: an operator has ended that, and it does not begin again before a
    quorum has been back. `resumes`: what an INACTIVE cluster becomes by itself, as it was before."""

    KIND: ClassVar[str] = "cluster-state"

    state: ClusterState
    since: Position
    target: ClusterState | None = None
    started_at: Position | None = None
    held: bool = False
    cold_at: Position | None = None
    goes_on: bool = False
    resumes: ClusterState = ClusterState.ACTIVE

    @property
    def allowed(self) -> ClusterState:
        """What nodes may serve now."""
        return self.state if self.target is None else lesser(self.state, self.target)

    @property
    def is_active(self) -> bool:
        """Whether it is, and is to stay so."""
        return self.state is ClusterState.ACTIVE and self.target in (None, ClusterState.ACTIVE)

    @property
    def shares_out(self) -> bool:
        """Whether exchanges may end: not while nothing is served, nor while too few are here to say what is lost."""
        return self.cold_at is None and self.allowed in (ClusterState.ACTIVE, ClusterState.ACTIVE_READ_ONLY)


class BaselineRow(Row, frozen=True):
    """The baseline in force. `history` ends with the newest point."""

    KIND: ClassVar[str] = "baseline"

    number: int
    members: tuple[BaselineMember, ...]
    set_at: Position
    cause: Cause
    history: tuple[BranchingPoint, ...]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(member.node for member in self.members)

    @property
    def quorum(self) -> int:
        return quorum_of(self.members)

    def has_quorum(self, here: Collection[NodeId]) -> bool:
        """Whether enough of the members are among these."""
        return sum(node in here for node in self.nodes) >= self.quorum


class FormerBaselineRow(Row, frozen=True):
    """A baseline that another one has followed, under its number."""

    KIND: ClassVar[str] = "former-baseline"

    number: int
    nodes: tuple[NodeId, ...]
    set_at: Position
    cause: Cause
    history: tuple[BranchingPoint, ...]
    replaced_at: Position


class AutoAdjustRow(Row, frozen=True):
    """`first_at`, `last_at`: the first and last join or leave since the baseline was that of the servers, None if it
    is. `suppressed` says why an adjustment that is due is not made."""

    KIND: ClassVar[str] = "auto-adjust"

    enabled: bool = False
    soft_ms: int = DEFAULT_SOFT_MS
    hard_ms: int = DEFAULT_HARD_MS
    first_at: Position | None = None
    last_at: Position | None = None
    suppressed: str = ""


FORMER_KEPT = 256
"""Former baselines that the state remembers; a projection's history has them all."""


def quorum_of(members: Collection[object]) -> int:
    """More than half."""
    return len(members) // 2 + 1


def cluster_state(state: State) -> ClusterStateRow:
    return state.get(ClusterStateRow, "") or ClusterStateRow(ClusterState.ACTIVE, Position(0))


def baseline(state: State) -> BaselineRow | None:
    """None if there has never been one."""
    return state.get(BaselineRow, "")


def auto_adjust(state: State) -> AutoAdjustRow:
    return state.get(AutoAdjustRow, "") or AutoAdjustRow()


def online(state: State) -> tuple[NodeId, ...]:
    """The servers that are members and are not being stopped, in the order of their joining."""
    rows = [row for _, row in state.rows(NodeRow) if row.holds_lease and row.standing is Standing.MEMBER]
    return tuple(row.node for row in sorted(rows, key=lambda row: row.joined_at))


def placed_by(state: State, group: GroupRow) -> BaselineRow | None:
    """The baseline that decides who may hold copies of a group, None where all servers may."""
    return baseline(state) if group.persistent else None


def evolve(state: State, event: BaselineEvent, place: Place) -> None:
    match event:
        case StateChangeStarted() | StateChangeFinished() | HoldChanged() | ClusterCold() | ClusterWarmed():
            _evolve_state(state, event, place)
        case BaselineChanged():
            _set(state, event, place)
        case AutoAdjustConfigured():
            _configure(state, event, place)
        case AutoAdjustSuppressed():
            state.put("", msgspec.structs.replace(auto_adjust(state), suppressed=event.reason))


def _evolve_state(
    state: State,
    event: StateChangeStarted | StateChangeFinished | HoldChanged | ClusterCold | ClusterWarmed,
    place: Place,
) -> None:
    match event:
        case StateChangeStarted():
            _start(state, event, place)
        case StateChangeFinished():
            _finish(state, event, place)
        case HoldChanged():
            state.put("", msgspec.structs.replace(cluster_state(state), held=event.held))
            grant(state, event.request, place, "hold")
        case ClusterCold():
            state.put("", msgspec.structs.replace(cluster_state(state), cold_at=place.position))
        case ClusterWarmed():
            _warm(state, event, place)


OTHERS = (NodeJoined, NodeLeft, DrainStarted, DrainCancelled)
"""Decisions of other protocols that mean something for the baseline."""


def evolve_others(state: State, event: NodeJoined | NodeLeft | DrainStarted | DrainCancelled, place: Place) -> None:
    """A server comes or goes: the baseline may be that of the servers again, or no longer."""
    node = state.get(NodeRow, event.joiner.node if isinstance(event, NodeJoined) else event.node)
    if node is not None and node.kind is NodeKind.SERVER:
        _note_servers(state, place)


def adjusted(state: State, current: BaselineRow) -> tuple[NodeId, ...]:
    """Who would count if the baseline followed the servers now: all that are here, but no outsider that is stopped or
    drained."""
    here = sorted(row.node for _, row in state.rows(NodeRow) if row.holds_lease)
    able = {node for node in online(state) if not is_drained(state, node)}
    return tuple(node for node in here if node in current.nodes or node in able)


def _note_servers(state: State, place: Place) -> None:
    current, adjust = baseline(state), auto_adjust(state)
    if current is None:
        return
    row = cluster_state(state)
    if row.goes_on and current.has_quorum(online(state)):
        state.put("", msgspec.structs.replace(row, goes_on=False))
    if set(current.nodes) == set(adjusted(state, current)):
        changed = msgspec.structs.replace(adjust, first_at=None, last_at=None, suppressed="")
    else:
        first = place.position if adjust.first_at is None else adjust.first_at
        changed = msgspec.structs.replace(adjust, first_at=first, last_at=place.position)
    if changed != adjust:
        state.put("", changed)


def _start(state: State, event: StateChangeStarted, place: Place) -> None:
    """Whoever deactivates holds the cluster too, and whoever activates it lets it go (BA9); to make an active one
    READ_ONLY, or no longer, does neither."""
    row = cluster_state(state)
    assert row.target is None, "one change of the state runs at a time"
    enter_view(state, event.version)
    held = row.held
    if event.cause is Cause.REQUESTED and ClusterState.INACTIVE in (row.state, event.target):
        held = event.target is ClusterState.INACTIVE
    resumes = row.resumes if row.state is ClusterState.INACTIVE else row.state
    changed = msgspec.structs.replace(row, target=event.target, started_at=place.position, held=held, resumes=resumes)
    state.put("", changed)
    if event.request is not None:
        grant(state, event.request, place, "cluster state")
    if row.state is ClusterState.INACTIVE:
        _branch(state, event.online, place)


def _branch(state: State, servers: tuple[NodeId, ...], place: Place) -> None:
    """The baseline goes on with those of its members that are online."""
    current = baseline(state)
    if current is not None:
        here = tuple(node for node in current.nodes if node in servers)
        point = BranchingPoint(Point(place.position, place.chain), here)
        state.put("", msgspec.structs.replace(current, history=(*current.history, point)))


def _finish(state: State, event: StateChangeFinished, place: Place) -> None:
    row = cluster_state(state)
    assert row.started_at == event.started and row.target is not None, "the change that finishes is the one that runs"
    enter_view(state, event.version)
    state.put("", msgspec.structs.replace(row, state=row.target, since=place.position, target=None, started_at=None))


def _warm(state: State, event: ClusterWarmed, place: Place) -> None:
    enter_view(state, event.version)
    current = baseline(state)
    goes_on = event.cause is Cause.REQUESTED and not (current is not None and current.has_quorum(event.online))
    state.put("", msgspec.structs.replace(cluster_state(state), cold_at=None, goes_on=goes_on))
    _branch(state, event.online, place)
    if event.request is not None:
        grant(state, event.request, place, "cluster state")


def _set(state: State, event: BaselineChanged, place: Place) -> None:
    current = baseline(state)
    assert event.number == (0 if current is None else current.number + 1), "baselines are numbered without a gap"
    enter_view(state, event.version)
    if current is not None:
        former = FormerBaselineRow(
            current.number, current.nodes, current.set_at, current.cause, current.history, place.position
        )
        state.put(str(current.number), former)
        state.drop(FormerBaselineRow, str(current.number - FORMER_KEPT))
    point = BranchingPoint(Point(place.position, place.chain), event.online)
    state.put("", BaselineRow(event.number, event.members, place.position, event.cause, (point,)))
    for node in (member.node for member in event.members if current is None or member.node not in current.nodes):
        drains.take_in(state, node, is_first=current is None)
    if event.request is not None:
        grant(state, event.request, place, "baseline")
    _note_servers(state, place)
    queue(state, TriggerType.BASELINE_CHANGED, "", place)


def _configure(state: State, event: AutoAdjustConfigured, place: Place) -> None:
    """Switched on, it looks at whoever is here by now (BA18)."""
    row = auto_adjust(state)
    changed = msgspec.structs.replace(
        row, enabled=event.enabled, soft_ms=event.soft_ms, hard_ms=event.hard_ms, suppressed=""
    )
    state.put("", changed)
    grant(state, event.request, place, "auto-adjust")
