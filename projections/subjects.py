"""What a decision is about, in the words of the CLI: `node n3`, `type Customer`, `cluster`, `leases`."""

from topolog.events.baseline import (
    AutoAdjustConfigured,
    AutoAdjustSuppressed,
    BaselineChanged,
    ClusterCold,
    ClusterWarmed,
    HoldChanged,
    StateChangeFinished,
    StateChangeStarted,
)
from topolog.events.drains import DrainCancelled, DrainFinished, DrainStarted
from topolog.events.exchange import (
    AffinitySwitched,
    ExchangeCompleted,
    ExchangeMerged,
    ExchangeOverdue,
    ExchangeQueued,
    ExchangeStarted,
    FullPartitionMap,
    HandOverPrepared,
    PartitionsLost,
    PartitionStatesChanged,
)
from topolog.events.fold import Event
from topolog.events.groups import GroupAltered, GroupCreated, GroupDropped
from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed
from topolog.events.levels import FeatureLevelRaised
from topolog.events.membership import JoinWaiting, JoinWithdrawn, LeasesRenewed, LeaseStopped, NodeJoined, NodeLeft
from topolog.events.metadata import (
    MetadataRemoveAccepted,
    MetadataRemoveProposed,
    MetadataUpdateAccepted,
    MetadataUpdateProposed,
    MetadataUpdateRejected,
)
from topolog.events.objects import (
    DataDeletionConfirmed,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
)
from topolog.events.repair import (
    AbortGranted,
    PairCompared,
    RowsCompared,
    SegmentEnded,
    SegmentHalved,
    SessionAltered,
    SessionEnded,
    SessionOpened,
    SessionQueued,
    StepStarted,
    TaskAssigned,
    TaskCompleted,
    TaskFailed,
    TaskProgressed,
)
from topolog.events.replicas import ReplicaDeclared, ReplicaWithdrawn
from topolog.events.requests import RequestersForgotten, RequestRefused, RequestUnchanged
from topolog.events.schedules import ScheduleDropped, SchedulePostponed, ScheduleSet
from topolog.events.snapshots import SnapshotTaken
from topolog.events.terms import LogStarted, TermEnded, TermStarted
from topolog.events.voiding import LeftOut, RecordVoided


def subject_of(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 (one for each kind of subject)
    match event:
        case LeftOut() | RecordVoided():
            return f"position {event.position}"
        case LogStarted() | TermStarted() | TermEnded() | SnapshotTaken() | LeaseTermsChanged() | LeaseTermsConfirmed():
            return "cluster"
        case FeatureLevelRaised():
            return f"feature-level {event.level}"
        case LeasesRenewed():
            return "leases"
        case NodeJoined() | JoinWaiting():
            return f"node {event.joiner.node}"
        case JoinWithdrawn() | LeaseStopped() | NodeLeft():
            return f"node {event.node}"
        case RequestRefused() | RequestUnchanged():
            return event.subject
        case ExchangeQueued() if event.subject:
            return f"group {event.subject}"
        case ExchangeQueued() | ExchangeStarted() | ExchangeMerged() | ExchangeOverdue() | ExchangeCompleted():
            return "exchange"
        case HandOverPrepared() | AffinitySwitched():
            return "hand-over"
        case FullPartitionMap() | PartitionsLost() | PartitionStatesChanged():
            return f"group {event.group}"
        case RequestersForgotten():
            return "requesters"
        case StateChangeStarted() | StateChangeFinished() | HoldChanged() | ClusterCold() | ClusterWarmed():
            return "cluster state"
        case BaselineChanged() | AutoAdjustConfigured() | AutoAdjustSuppressed():
            return "baseline"
        case DrainStarted() | DrainCancelled() | DrainFinished():
            return f"node {event.node}"
        case (
            MetadataUpdateProposed()
            | MetadataUpdateRejected()
            | MetadataUpdateAccepted()
            | MetadataRemoveProposed()
            | MetadataRemoveAccepted()
        ):
            return f"type {event.type_name}"
        case SchemaChangeQueued(statements=actions) | SchemaChangePrepared(steps=actions):
            return f"{actions[0].kind.value.lower()} {actions[0].name}" if len(actions) == 1 else "schema"
        case SchemaChangeCommitted() | DataDeletionConfirmed():
            return f"change {event.changes[0]}" if len(event.changes) == 1 else "changes"
        case SchemaChangeRolledBack():
            return f"change {event.change}"
        case GroupCreated():
            return f"group {event.group.name}"
        case GroupAltered() | GroupDropped():
            return f"group {event.name}"
        case _:
            return _of_repair(event)


def _of_repair(event: Event) -> str:
    match event:
        case ReplicaDeclared(replica=replica):
            return f"replica {replica.id}"
        case ReplicaWithdrawn():
            return f"replica {event.table}@{event.name}"
        case SessionQueued(definition=definition) | SessionOpened(definition=definition):
            return f"table {definition.table}"
        case AbortGranted():
            return "sessions"
        case ScheduleSet() | ScheduleDropped() | SchedulePostponed():
            return f"schedule {event.name}"
        case TaskAssigned() | TaskProgressed() | TaskCompleted() | TaskFailed():
            return f"session {event.task.session}"
        case PairCompared() | RowsCompared() | SegmentHalved() | SegmentEnded() | StepStarted():
            return f"session {event.session}"
        case SessionAltered() | SessionEnded():
            return f"session {event.session}"
        case _:
            raise AssertionError(f"nobody has said what a {type(event).__name__} is about")
