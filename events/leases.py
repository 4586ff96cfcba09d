"""Leases: which member may still act (docs/design/leases.md).

Threats. A node that is silent may be dead, cut off, or stopped in the middle of an answer; nobody can tell which. If
the cluster goes on without it, it must not answer from what it knew before; if the cluster waits for it, one dead node
stops everything. Heartbeats may be late, answers may be lost, clocks are set by hand, coordinators change.

Invariant. Let decision e be in the log by time w. A node that passes its lease check after w + fence_ms has applied e.

Argument. A lease runs fence_ms from the node's *own* reading of its clock, taken before it handed a heartbeat to the
producer, and counts only once the node has read back from the log the echo (LeasesRenewed) of exactly that heartbeat,
and therefore applied everything before the echo. A check that passes after w + fence_ms rests on a heartbeat sent after
w; its echo was decided after the heartbeat was read, hence stands in the log behind e; the node has read up to the
echo, hence applied e. No acknowledgement, no contact time, no symmetric network and no bound on delays is used, only
that clocks run at nearly the same rate, which is a part of what margin_ms pays for. So whoever waits proceed_ms =
fence_ms + margin_ms from its own read-back of e knows: every node has applied e or refuses to serve. Acknowledgements
only shorten the wait. NodeLeft is logged only when the lease is provably over, so no node outside ever holds one.

The waiting side is `streams/rules/verdict.py`, the holding side `streams/node/lease.py`. How both terms are changed
while leases run stands in `lease_terms.py`.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import ClassVar

from topolog.events.ids import Incarnation, NodeId, Position, Slot
from topolog.events.state import Row, State
from topolog.events.views import Kinship

FENCING = "fencing"
"""Capability of a node that stops by itself when its lease is over; without it a verdict never presumes."""


class NodeKind(Enum):
    """A SERVER holds a lease and counts for verdicts; a CLIENT only reads and asks."""

    UNKNOWN = "UNKNOWN"
    SERVER = "SERVER"
    CLIENT = "CLIENT"


class LeaveReason(Enum):
    """Why a node is out. LEFT: it said so. FENCED: its lease ran out in silence. REMOVED: an operator's request.
    REPLACED: a new process holds the exclusive lock on the very data folder it had locked itself. DIED: its process is
    gone, as its death certificate says. STUCK: it kept an exchange waiting for too long."""

    UNKNOWN = "UNKNOWN"
    LEFT = "LEFT"
    FENCED = "FENCED"
    REMOVED = "REMOVED"
    REPLACED = "REPLACED"
    DIED = "DIED"
    STUCK = "STUCK"


class Standing(Enum):
    MEMBER = "MEMBER"
    STOPPING = "STOPPING"
    LEFT = "LEFT"


class NodeRow(Row, frozen=True):
    """A node the cluster has known. `joined_at` orders nodes; the rest is that of its last incarnation.

    `kinship`: how its past agreed with the log when it joined, None for a node without a disk of its own.
    """

    KIND: ClassVar[str] = "node"

    node: NodeId
    incarnation: Incarnation
    kind: NodeKind
    standing: Standing
    slot: Slot
    endpoint: str
    attributes: Mapping[str, str]
    capabilities: tuple[str, ...]
    folder: str
    seal: bytes
    joined_at: Position
    stopped_at: Position | None = None
    left_at: Position | None = None
    left_reason: LeaveReason | None = None
    kinship: Kinship | None = None

    @property
    def is_member(self) -> bool:
        return self.standing is not Standing.LEFT

    @property
    def holds_lease(self) -> bool:
        """Whether the node may hold a lease, so that verdicts about metadata ask it."""
        return self.is_member and self.kind is NodeKind.SERVER


class LeaseRow(Row, frozen=True):
    """The last renewal of one incarnation: `sequence` 0 means none since it joined at `renewed_at`."""

    KIND: ClassVar[str] = "lease"
    VOLATILE: ClassVar[bool] = True

    node: NodeId
    incarnation: Incarnation
    slot: Slot
    sequence: int
    renewed_at: Position


def members(state: State) -> Iterator[NodeRow]:
    return (row for _, row in state.rows(NodeRow) if row.is_member)


def lease_of(state: State, node: NodeRow) -> LeaseRow:
    row = state.get(LeaseRow, str(node.slot))
    assert row is not None, f"member {node.node} has no lease row"
    return row
