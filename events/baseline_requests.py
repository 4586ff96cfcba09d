"""What can be asked of the state of the cluster, its baseline and the hold."""

from enum import Enum
from typing import ClassVar

from topolog.events.asked import Request
from topolog.events.cluster_state import ClusterState
from topolog.events.ids import TopologyVersion


class BaselineVerb(Enum):
    """How a baseline is to change. VERSION: to the servers of a former view."""

    UNKNOWN = "UNKNOWN"
    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"
    VERSION = "VERSION"


class ClusterStateRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "cluster state"

    target: ClusterState


class BaselineChangeRequested(Request, frozen=True):
    """`version` belongs to VERSION, `nodes` to the others; `accepts_loss`: the last copies of partitions may go."""

    SUBJECT: ClassVar[str] = "baseline"

    verb: BaselineVerb
    nodes: tuple[str, ...]
    accepts_loss: bool
    version: TopologyVersion | None = None


class HoldRequested(Request, frozen=True):
    """`harmless`: it is refused where, once it is decided, it would let a cluster go on that is not active."""

    SUBJECT: ClassVar[str] = "hold"

    held: bool
    harmless: bool | None = None


class AutoAdjustRequested(Request, frozen=True):
    """What is None stays as it is."""

    SUBJECT: ClassVar[str] = "auto-adjust"

    enabled: bool | None = None
    soft_ms: int | None = None
    hard_ms: int | None = None


class WarmRequested(Request, frozen=True):
    """Go on with those that are here, though the cluster is cold."""

    SUBJECT: ClassVar[str] = "cluster state"


BaselineRequest = ClusterStateRequested | BaselineChangeRequested | HoldRequested | AutoAdjustRequested | WarmRequested
