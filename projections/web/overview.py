"""The overview page: what is going on in one sentence, then who, what, and what happened last.

It is made on the server and works without a script: while the present is shown, the browser asks again by itself.
"""

from collections.abc import Mapping
from itertools import islice

import msgspec

from topolog.events.errors import TopologError
from topolog.projections import baselines, change_rows, changes, exchanges, joins, queries, situation
from topolog.projections.baseline_resources import Baseline
from topolog.projections.change_rows import Line
from topolog.projections.durations import ago
from topolog.projections.groups import groups
from topolog.projections.health import lease_health
from topolog.projections.object_resources import SchemaChange
from topolog.projections.partition_resources import Exchange
from topolog.projections.repair_resources import Session
from topolog.projections.resources import AsOf, Cluster, Decision, Group, Lease, LeaseHealth, Node, Type
from topolog.projections.store import Reading
from topolog.projections.web.branch_picture import LANE_HEIGHT, Drawn, drawn
from topolog.projections.web.heat import Gallery, HeatMaps
from topolog.projections.web.session_picture import recent
from topolog.projections.web.templates import TEMPLATES, text

_REFRESH_S = 3
_DECISIONS = 12
_EXCHANGES = 5
_BASELINES = 6
_OPEN_CHANGES = 20
_CHANGES = 5
_SESSIONS = 8
_LEFT_NODES_MAX = 5
_STRIP_WIDTH = 120
_LOOKED_THROUGH = 200
_STEPS_OF_SESSIONS = frozenset(
    {"StepStarted", "TaskAssigned", "TaskProgressed", "TaskCompleted", "PairCompared", "RowsCompared", "SegmentEnded"}
)
_WORDS = {
    "LogStarted": "log started",
    "TermStarted": "coordinator took over",
    "TermEnded": "coordinator stepped down",
    "NodeJoined": "joined",
    "NodeLeft": "left",
    "JoinWaiting": "waits to join",
    "JoinWithdrawn": "join withdrawn",
    "LeaseStopped": "is being removed",
    "MetadataUpdateProposed": "proposed",
    "MetadataUpdateAccepted": "accepted",
    "MetadataUpdateRejected": "conflict refused",
    "MetadataRemoveProposed": "removal proposed",
    "MetadataRemoveAccepted": "removed",
    "GroupCreated": "created",
    "GroupAltered": "altered",
    "GroupDropped": "dropped",
    "ExchangeQueued": "exchange asked for",
    "ExchangeStarted": "began",
    "ExchangeMerged": "took in what happened meanwhile",
    "ExchangeOverdue": "waits for too long",
    "ExchangeCompleted": "completed",
    "FullPartitionMap": "partitions assigned",
    "PartitionsLost": "partitions lost",
    "PartitionStatesChanged": "copies changed",
    "HandOverPrepared": "prepared",
    "AffinitySwitched": "primaries handed over",
    "StateChangeStarted": "is changing",
    "StateChangeFinished": "has changed",
    "BaselineChanged": "changed",
    "HoldChanged": "held or let go",
    "AutoAdjustConfigured": "auto-adjust set",
    "AutoAdjustSuppressed": "adjustment held back",
    "ClusterCold": "is cold: waits for a quorum",
    "ClusterWarmed": "goes on after a cold time",
    "DrainStarted": "hands over all copies",
    "DrainCancelled": "may hold copies again",
    "DrainFinished": "has handed over all copies",
    "FeatureLevelRaised": "raised",
    "LeaseTermsChanged": "other terms of lease",
    "LeaseTermsConfirmed": "no lease by former terms is left",
    "RequestRefused": "request refused",
    "SchemaChangeQueued": "change waits in line",
    "SchemaChangePrepared": "change prepared",
    "SchemaChangeCommitted": "committed",
    "SchemaChangeRolledBack": "rolled back",
    "DataDeletionConfirmed": "data deleted",
    "ReplicaDeclared": "declared",
    "ReplicaWithdrawn": "withdrawn",
    "SessionQueued": "repair waits for another",
    "SessionOpened": "session opened",
    "StepStarted": "goes on",
    "TaskAssigned": "a replica is asked",
    "TaskProgressed": "a replica comes further",
    "TaskCompleted": "a replica has answered",
    "TaskFailed": "a replica has failed",
    "PairCompared": "two trees compared",
    "RowsCompared": "rows compared",
    "SegmentHalved": "segment halved",
    "SegmentEnded": "segment ended",
    "SessionAltered": "paused, resumed or paced",
    "SessionEnded": "ended",
    "AbortGranted": "aborted",
    "ScheduleSet": "set",
    "ScheduleDropped": "dropped",
    "SchedulePostponed": "put off",
    "RequestUnchanged": "nothing to change",
    "RequestersForgotten": "idle requesters forgotten",
}


class Overview(msgspec.Struct, frozen=True):
    """Everything the page shows, all of one position."""

    as_of: AsOf
    is_current: bool
    cluster: Cluster
    nodes: list[Node]
    types: list[Type]
    groups: list[Group]
    decisions: list[Decision]
    health: Mapping[str, LeaseHealth]
    heat: HeatMaps | None
    exchanges: list[Exchange]
    baseline: Baseline | None
    changes: list[SchemaChange]
    graph: tuple[Drawn, ...]
    sessions: list[Session]

    @property
    def alarms(self) -> list[str]:
        """What lease health warns of, or why it cannot; each sentence once."""
        said = (each.sentence for each in self.health.values() if each.state not in ("OK", "RELEASED"))
        return list(dict.fromkeys(said))

    @property
    def tone(self) -> str:
        """ok, busy or bad: the colour of the sentence. The sentence itself says the same in words."""
        states = {node.lease.state for node in self.nodes if node.lease}
        is_bad = (
            self.as_of.stopped
            or self.cluster.cold
            or self.cluster.state == "INACTIVE"
            or not self.cluster.coordinator
            or states & {"OVERDUE", "NONE"}
        )
        conditions = self.heat.conditions if self.heat else {}
        if is_bad or self.as_of.age_ms > self.cluster.fence_ms or conditions.keys() & {"LOST", "PAUSED"}:
            return "bad"
        is_open = any(each.state == "OPEN" for each in self.exchanges)
        baseline, state = self.cluster.baseline, self.cluster.state
        is_changing = self.cluster.target or self.cluster.draining or (baseline and baseline.away) or state != "ACTIVE"
        is_busy = (
            is_changing
            or self.cluster.pending_types
            or self.cluster.waiting_joins
            or is_open
            or self.cluster.open_changes
            or self.cluster.open_sessions
            or conditions.keys() - {"OWNING"}
        )
        return "busy" if is_busy else "ok"

    @property
    def refresh_s(self) -> int | None:
        return _REFRESH_S if self.is_current else None


def overview(reading: Reading, as_of: AsOf, gallery: Gallery) -> Overview:
    """The overview at the reading's position; `gallery` is of this store."""
    everybody = queries.nodes(reading, as_of.age_ms)
    present = [node for node in everybody if node.standing != "LEFT"]
    shared_out, newest = groups(reading), list(islice(baselines.baselines(reading), _BASELINES))
    left = sorted((node for node in everybody if node.standing == "LEFT"), key=lambda node: -(node.left_at or 0))
    return Overview(
        as_of=as_of,
        is_current=reading.is_current,
        cluster=situation.cluster(reading, as_of.age_ms),
        nodes=present + left[:_LEFT_NODES_MAX],
        types=queries.types(reading),
        groups=shared_out,
        heat=gallery.of(reading) if shared_out else None,
        baseline=newest[0] if newest else None,
        graph=drawn(newest, list(joins.branches(reading))) if newest else (),
        exchanges=list(islice(exchanges.exchanges(reading, as_of.age_ms, {}), _EXCHANGES)),
        health={each.node: each for each in lease_health(reading, as_of.age_ms)} if reading.is_current else {},
        changes=_changes(reading, as_of.age_ms),
        sessions=recent(reading, _SESSIONS),
        decisions=_decisions(reading),
    )


def _decisions(reading: Reading) -> list[Decision]:
    """The last ones, but for what sessions do at each step, as long as there are others not long before."""
    newest = list(islice(queries.decisions(reading, {}), _LOOKED_THROUGH))
    telling = [each for each in newest if each.event not in _STEPS_OF_SESSIONS]
    return (telling or newest)[:_DECISIONS]


def _changes(reading: Reading, age_ms: int) -> list[SchemaChange]:
    """The changes that are open, the oldest first, then the last that are over."""
    opened = change_rows.opened(reading)
    line = Line(opened)
    over = (each for each in changes.changes(reading, age_ms, {}) if each.closed_at is not None)
    return [
        *(changes.shown(reading, age_ms, row, line) for row in opened[:_OPEN_CHANGES]),
        *islice(over, _CHANGES),
    ]


def page(shown: Overview) -> str:
    return TEMPLATES.get_template("overview.html").render(shown=shown)


def empty_page(cluster: str, error: TopologError) -> str:
    """The page while there is nothing to show, and why."""
    return TEMPLATES.get_template("empty.html").render(cluster=cluster, error=error, refresh_s=_REFRESH_S)


def words(event: str) -> str:
    """An event in plain words."""
    return _WORDS.get(event, event)


def strip_width(lease: Lease, fence_ms: int) -> int:
    """How much of a lease is left, as the width of its strip out of `_STRIP_WIDTH`."""
    left_ms = max(0, fence_ms - (lease.age_ms or 0)) if lease.state == "VALID" else 0
    return round(_STRIP_WIDTH * left_ms / fence_ms)


TEMPLATES.filters.update(words=words, ago=ago)
TEMPLATES.globals.update(strip_width=strip_width, lane_height=LANE_HEIGHT)
STYLE = text("style.css")
SCRIPT = text("refresh.js")
