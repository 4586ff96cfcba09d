"""Who counts, and whether the cluster serves: the baseline and the cluster's state (DESIGN §4.4).

Threats. A node is away for a minute, and all of its data are moved; or it is away for good, and nothing is. An operator
stops the cluster for a repair, and a restart starts it again. Half of the nodes are back after a power cut, and what
they have is served as if it were all there is. A change is half done, and nobody can see it.

Invariant. Persistent groups are placed over the members of the baseline, present or not, and nothing but a decision
that says who asked, or which rule did, changes who these are. The state allows at each node no more than the lesser of
what it was and what it is to become, until everybody who may act has applied the change.

Argument. Both are rows, so every reader at one position knows the same ones. A change of the state is two decisions,
its start and its finish, and what lies between is the one verdict on the start (`streams/rules/verdict.py`): once it is
PROCEED, everybody has applied the start or is fenced, and nobody relies on what was before. Nothing is changed before
its decision is read back, so a change that was not logged has never been begun (A1.9, A2.5).

A baseline's branching points are places of the log: that which made it, and each activation, with the members that were
online (the seed's branching history). A set makes the next number and moves what was to the history. Which nodes may
join is not judged by these but by every view (`views.py`), for a member that is lost without an activation parts
histories as well (W3).

A cluster that has never had a baseline is ACTIVE, and every server counts.
"""

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

import msgspec

from topolog.events.ids import NodeId, Place, Position, TopologyVersion
from topolog.events.metadata import Evidence
from topolog.events.requests import RequestRef, grant
from topolog.events.state import Row, State
from topolog.events.terms import enter_view
from topolog.events.views import Point

DEFAULT_SOFT_MS = 300_000
DEFAULT_HARD_MS = 1_800_000


class ClusterState(Enum):
    """What the cluster serves: nothing, reads, or reads and writes."""

    INACTIVE = "INACTIVE"
    ACTIVE_READ_ONLY = "ACTIVE_READ_ONLY"
    ACTIVE = "ACTIVE"


_ORDER = (ClusterState.INACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.ACTIVE)


def lesser(one: ClusterState, other: ClusterState) -> ClusterState:
    return min(one, other, key=_ORDER.index)


class Cause(Enum):
    """Why a baseline or a state is what it is. REQUESTED: somebody asked; COMPLETE: all members of the baseline are
    online again; ADJUSTED: auto-adjust."""

    UNKNOWN = "UNKNOWN"
    REQUESTED = "REQUESTED"
    COMPLETE = "COMPLETE"
    ADJUSTED = "ADJUSTED"


class BaselineMember(msgspec.Struct, frozen=True):
    """A node that counts, and its attributes when it was taken in: filters hold for the absent too (A1.2)."""

    node: NodeId
    attributes: Mapping[str, str]


class BranchingPoint(msgspec.Struct, frozen=True):
    """Where a baseline was made or activated, and who of its members was online."""

    at: Point
    online: tuple[NodeId, ...]


class StateChangeStarted(msgspec.Struct, frozen=True):
    """The cluster is to be in `target`; `online` are the servers that were members."""

    request: RequestRef | None
    target: ClusterState
    cause: Cause
    online: tuple[NodeId, ...]
    version: TopologyVersion


class StateChangeFinished(msgspec.Struct, frozen=True):
    """The change that started at `started` is done: everybody who may act knows of it."""

    started: Position
    evidence: Evidence
    version: TopologyVersion


class BaselineChanged(msgspec.Struct, frozen=True):
    """These nodes count from here on."""

    request: RequestRef | None
    number: int
    members: tuple[BaselineMember, ...]
    online: tuple[NodeId, ...]
    cause: Cause
    version: TopologyVersion


class HoldChanged(msgspec.Struct, frozen=True):
    """An operator holds the cluster as it is, or lets it go: while it is held nothing activates or adjusts by itself."""

    request: RequestRef
    held: bool


class AutoAdjustConfigured(msgspec.Struct, frozen=True):
    """Whether the baseline follows the servers by itself: `soft_ms` after the last of their joins and leaves, and not
    later than `hard_ms` after the first."""

    request: RequestRef
    enabled: bool
    soft_ms: int
    hard_ms: int


class AutoAdjustSuppressed(msgspec.Struct, frozen=True):
    """An adjustment is due and cannot be made, for this reason; it is made once that is gone."""

    reason: str


BaselineEvent = (
    StateChangeStarted
    | StateChangeFinished
    | BaselineChanged
    | HoldChanged
    | AutoAdjustConfigured
    | AutoAdjustSuppressed
)


class ClusterStateRow(Row, frozen=True):
    """The one row about the state; without it the cluster is ACTIVE. `target` and `started_at` while a change runs."""

    KIND: ClassVar[str] = "cluster-state"

    state: ClusterState
    since: Position
    target: ClusterState | None = None
    started_at: Position | None = None
    held: bool = False

    @property
    def allowed(self) -> ClusterState:
        """What nodes may do now."""
        return self.state if self.target is None else lesser(self.state, self.target)


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


class FormerBaselineRow(Row, frozen=True):
    """A baseline that another one has followed, under its number."""

    KIND: ClassVar[str] = "former-baseline"

    number: int
    nodes: tuple[NodeId, ...]
    set_at: Position
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


def cluster_state(state: State) -> ClusterStateRow:
    return state.get(ClusterStateRow, "") or ClusterStateRow(ClusterState.ACTIVE, Position(0))


def baseline(state: State) -> BaselineRow | None:
    """None if there has never been one."""
    return state.get(BaselineRow, "")


def auto_adjust(state: State) -> AutoAdjustRow:
    return state.get(AutoAdjustRow, "") or AutoAdjustRow()


def evolve(state: State, event: BaselineEvent, place: Place) -> None:
    match event:
        case StateChangeStarted():
            _start(state, event, place)
        case StateChangeFinished():
            _finish(state, event, place)
        case BaselineChanged():
            _set(state, event, place)
        case HoldChanged():
            state.put("", msgspec.structs.replace(cluster_state(state), held=event.held))
            grant(state, event.request, place, "hold")
        case AutoAdjustConfigured():
            _configure(state, event, place)
        case AutoAdjustSuppressed():
            state.put("", msgspec.structs.replace(auto_adjust(state), suppressed=event.reason))


def note_servers(state: State, online: frozenset[NodeId], place: Place) -> None:
    """A server has joined or left: the baseline may be theirs again, or no longer."""
    current, adjust = baseline(state), auto_adjust(state)
    if current is None:
        return
    if frozenset(current.nodes) == online:
        changed = msgspec.structs.replace(adjust, first_at=None, last_at=None, suppressed="")
    else:
        first = place.position if adjust.first_at is None else adjust.first_at
        changed = msgspec.structs.replace(adjust, first_at=first, last_at=place.position)
    if changed != adjust:
        state.put("", changed)


def _start(state: State, event: StateChangeStarted, place: Place) -> None:
    row = cluster_state(state)
    assert row.target is None, "one change of the state runs at a time"
    enter_view(state, event.version)
    state.put("", msgspec.structs.replace(row, target=event.target, started_at=place.position))
    if event.request is not None:
        grant(state, event.request, place, "cluster state")
    current = baseline(state)
    if current is not None and row.state is ClusterState.INACTIVE:
        online = tuple(node for node in current.nodes if node in event.online)
        point = BranchingPoint(Point(place.position, place.chain), online)
        state.put("", msgspec.structs.replace(current, history=(*current.history, point)))


def _finish(state: State, event: StateChangeFinished, place: Place) -> None:
    row = cluster_state(state)
    assert row.started_at == event.started and row.target is not None, "the change that finishes is the one that runs"
    enter_view(state, event.version)
    finished = ClusterStateRow(row.target, place.position, held=row.held)
    state.put("", finished)


def _set(state: State, event: BaselineChanged, place: Place) -> None:
    current = baseline(state)
    assert event.number == (0 if current is None else current.number + 1), "baselines are numbered without a gap"
    enter_view(state, event.version)
    if current is not None:
        former = FormerBaselineRow(current.number, current.nodes, current.set_at, current.history, place.position)
        state.put(str(current.number), former)
    point = BranchingPoint(Point(place.position, place.chain), event.online)
    state.put("", BaselineRow(event.number, event.members, place.position, event.cause, (point,)))
    if event.request is not None:
        grant(state, event.request, place, "baseline")


def _configure(state: State, event: AutoAdjustConfigured, place: Place) -> None:
    row = auto_adjust(state)
    changed = msgspec.structs.replace(
        row, enabled=event.enabled, soft_ms=event.soft_ms, hard_ms=event.hard_ms, suppressed=""
    )
    state.put("", changed)
    grant(state, event.request, place, "auto-adjust")
