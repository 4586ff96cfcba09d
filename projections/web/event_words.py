"""Events in plain words, and which of them are no good news."""

from collections.abc import Mapping

_WORDS: Mapping[str, str] = {
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
_BAD = frozenset(
    {
        "RequestRefused",
        "MetadataUpdateRejected",
        "PartitionsLost",
        "ExchangeOverdue",
        "TaskFailed",
        "NodeLeft",
        "ClusterCold",
    }
)
STEPS_OF_SESSIONS = frozenset(
    {"StepStarted", "TaskAssigned", "TaskProgressed", "TaskCompleted", "PairCompared", "RowsCompared", "SegmentEnded"}
)
"""What anti-entropy does at each turn: too much to be news."""

_BUSY = frozenset({"ExchangeStarted", "NodeJoined", "TermStarted", "BaselineChanged", "SchemaChangeRolledBack"})


def words(event: str) -> str:
    """An event in plain words."""
    return _WORDS.get(event, event)


def tone_of(event: str) -> str:
    """bad, busy or nothing: the colour of its mark."""
    return "bad" if event in _BAD else "busy" if event in _BUSY else ""
