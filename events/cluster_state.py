"""What a cluster serves (A3)."""

from enum import Enum


class ClusterState(Enum):
    """What the cluster serves: nothing, reads, or reads and writes."""

    UNKNOWN = "UNKNOWN"
    INACTIVE = "INACTIVE"
    ACTIVE_READ_ONLY = "ACTIVE_READ_ONLY"
    ACTIVE = "ACTIVE"


_ORDER = (ClusterState.UNKNOWN, ClusterState.INACTIVE, ClusterState.ACTIVE_READ_ONLY, ClusterState.ACTIVE)


def lesser(one: ClusterState, other: ClusterState) -> ClusterState:
    """What both allow; a state that is not known allows nothing."""
    return min(one, other, key=_ORDER.index)
