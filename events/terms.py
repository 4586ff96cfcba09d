"""The beginning of a log and the terms of its coordinators: who may append decisions, and on what terms of lease.

Threat: two coordinators that both believe they lead, and a log that is not the one a reader knows. LogStarted gives the
log its identity once, as record 0; a TermStarted, accepted only if its term is the highest so far, deposes whoever led
before. Which record is accepted is judged in `fold.py`; this file says what the accepted ones change.
"""

from typing import ClassVar

import msgspec

from topolog.events.decision import Decision
from topolog.events.ids import Place, Position, Slot, Term, TopologyVersion
from topolog.events.state import Row, State


class FormerTerms(msgspec.Struct, frozen=True):
    """What leases may still rest on since the terms were changed at `changed_at` (`lease_terms.py`): the smallest
    fence_ms and the largest proceed_ms of those before."""

    changed_at: Position
    fence_ms: int
    proceed_ms: int


class ClusterRow(Row, frozen=True):
    """The one row about the cluster itself. `fence_ms`, `margin_ms`, `heartbeat_ms` are the lease's terms,
    `feature_level` says which schemas may be written (`levels.py`), `life` is that of the coordinator process that
    leads, 0 if none does; `next_group` and `next_object` are the numbers of the next ones, counted from 1. `former`:
    the terms that were changed and may still be in force somewhere, None once the change is confirmed."""

    KIND: ClassVar[str] = "cluster"

    name: str
    log_id: str
    fence_ms: int
    margin_ms: int
    heartbeat_ms: int
    term: Term
    coordinator: str
    led_since: Position
    topology_version: TopologyVersion
    next_slot: Slot
    feature_level: int
    life: int = 0
    next_group: int = 1
    next_object: int = 1
    former: FormerTerms | None = None

    @property
    def proceed_ms(self) -> int:
        """The longest wait in force before a coordinator presumes a silent holder fenced (LE37)."""
        own_ms = self.fence_ms + self.margin_ms
        return max(own_ms, self.former.proceed_ms) if self.former else own_ms

    @property
    def fence_min_ms(self) -> int:
        """The smallest fence in force: what must come often enough for every lease comes often enough for this one."""
        return min(self.fence_ms, self.former.fence_ms) if self.former else self.fence_ms


class LogStarted(Decision, frozen=True):
    log_id: bytes
    cluster: str
    fence_ms: int
    margin_ms: int
    heartbeat_ms: int
    feature_level: int


class TermStarted(Decision, frozen=True):
    """`life` tells two processes of one name apart: only its own claim makes a coordinator lead."""

    term: int
    instance: str
    life: int


class TermEnded(Decision, frozen=True):
    term: int


class CoordinatorDied(msgspec.Struct, frozen=True):
    """Death certificate of a coordinator process: a stand-by need not wait for its silence.

    Only a hint. Who leads is decided by the log alone (K5), so a false or a late one costs time and nothing else.
    """

    instance: str
    life: int


TermEvent = LogStarted | TermStarted | TermEnded


def cluster(state: State) -> ClusterRow:
    """The cluster's row; there is one in every state that has folded LogStarted."""
    row = state.get(ClusterRow, "")
    assert row is not None, "a decision stands before LogStarted"
    return row


def changed_view(state: State) -> TopologyVersion:
    """The view that follows from a change of groups, a switch, a reset or a request: the next minor number (EX21)."""
    view = cluster(state).topology_version
    return TopologyVersion(view.major, view.minor + 1)


def enter_view(state: State, view: TopologyVersion) -> None:
    """What follows is decided under this view."""
    row = cluster(state)
    assert view > row.topology_version, "a view follows that is not newer"
    state.put("", msgspec.structs.replace(row, topology_version=view))


def evolve(state: State, event: TermEvent, place: Place) -> None:
    match event:
        case LogStarted():
            state.put("", _first_row(event))
        case TermStarted():
            row = cluster(state)
            led = msgspec.structs.replace(
                row,
                term=Term(event.term),
                coordinator=event.instance,
                led_since=place.position,
                life=event.life,
            )
            state.put("", led)
        case TermEnded():
            state.put("", msgspec.structs.replace(cluster(state), coordinator="", life=0))


def _first_row(event: LogStarted) -> ClusterRow:
    return ClusterRow(
        name=event.cluster,
        log_id=event.log_id.hex(),
        fence_ms=event.fence_ms,
        margin_ms=event.margin_ms,
        heartbeat_ms=event.heartbeat_ms,
        term=Term(0),
        coordinator="",
        led_since=Position(0),
        topology_version=TopologyVersion(0, 0),
        next_slot=Slot(0),
        feature_level=event.feature_level,
    )
