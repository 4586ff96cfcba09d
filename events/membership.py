"""Membership: who is a member, and what makes one leave at once (docs/design/leases.md).

A lease alone (`leases.py` has the argument) makes every crash cost proceed_ms. A death certificate (NodeDied, of a
sentinel process that has seen the service's process gone) ends the lease at once: a dead process cannot act, and its
forked children hold no lease (`streams/node/guards.py` compares process ids). So does a release, and the join of a
process that holds the lock on the dead one's folder. Each of the three shows the secret of the life that it ends
(`proof.py`); what does not is no proof, whoever has written it, and the lease is waited for. Heartbeats of the dead may
still be under way and their renewals in flight; they stand in the log before NodeLeft or are ignored, and nobody is
left to rely on them.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.groups import GroupRow
from topolog.events.ids import Incarnation, NodeId, Place, Position, Slot, TopologyVersion
from topolog.events.leases import LeaseRow, LeaveReason, NodeKind, NodeRow, Standing
from topolog.events.object_types import DeclaredType
from topolog.events.requests import Status, conclude, grant
from topolog.events.state import Row, State
from topolog.events.terms import cluster
from topolog.events.varints import put_varint, varints
from topolog.events.views import Kinship, Past, note_end_of_life, note_lost


class Joiner(msgspec.Struct, frozen=True):
    """A process that wants to be a member.

    `folder` is the id of the data folder whose exclusive lock it holds, empty for none; `replaces` is the member that
    it read of while it held the lock, so that a dead process's join that lands late replaces nobody, and `proof` is
    that one's secret. `seal` is that of its own (`proof.py`).
    """

    node: str
    incarnation: int
    kind: NodeKind
    endpoint: str
    attributes: Mapping[str, str]
    capabilities: tuple[str, ...]
    folder: str = ""
    replaces: int | None = None
    types: tuple[DeclaredType, ...] = ()
    seal: bytes = b""
    proof: bytes = b""


class JoinRequested(Request, frozen=True):
    """`past`: where the node has written before, as its disk says; None if that says nothing."""

    SUBJECT: ClassVar[str] = "node {0.joiner.node}"

    joiner: Joiner
    past: Past | None = None


class NodeRemovalRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "node {0.node}"

    node: str


MembershipRequest = JoinRequested | NodeRemovalRequested


class WaitingJoinRow(Row, frozen=True):
    """A join that waits for the lease of the node's former incarnation, under the node's id."""

    KIND: ClassVar[str] = "join"

    request: RequestRef
    joiner: Joiner
    former: Incarnation
    requested_at_ms: int
    position: Position
    past: Past | None = None


class Applied(msgspec.Struct, frozen=True):
    """How far a node has applied: the end of its last whole set, hooks done, and the chain hash there (K9)."""

    log_id: bytes
    position: Position
    chain: bytes


class Blocked(msgspec.Struct, frozen=True):
    """The node cannot apply the decision at `position`."""

    position: Position
    code: str
    message: str


class Heartbeat(msgspec.Struct, frozen=True):
    """Sign of life, acknowledgement and release in one; `sequence` counts from 1 within the incarnation.

    `fenced`: the sender holds no valid lease now and asks for its echo at once. `secret` is shown by a release, which
    says that this incarnation has stopped serving for good and nothing of it follows; it is empty in all others.
    """

    node: NodeId
    incarnation: Incarnation
    sequence: int
    applied: Applied
    drained: Position
    blocked: Blocked | None
    capabilities: tuple[str, ...]
    fenced: bool
    secret: bytes

    @property
    def is_release(self) -> bool:
        return bool(self.secret)


class NodeDied(msgspec.Struct, frozen=True):
    """Death certificate: nothing of this incarnation acts any more, whatever of it still arrives.

    Its process has died, as its sentinel has seen, or it gave up before it was a member. A dead process cannot act, so
    the certificate stands for the release of the whole incarnation and no sequence takes it back. `secret` proves it.
    """

    node: NodeId
    incarnation: Incarnation
    secret: bytes


class NodeJoined(Decision, frozen=True):
    request: RequestRef
    joiner: Joiner
    slot: Slot
    topology_version: TopologyVersion
    kinship: Kinship | None = None


class JoinWaiting(Decision, frozen=True):
    """`waiting` is no outcome: the request gets one when its row is removed."""

    waiting: RequestRef
    joiner: Joiner
    former: Incarnation
    requested_at_ms: int
    past: Past | None = None


class JoinWithdrawn(Decision, frozen=True):
    """A waiting join is over without a member: its refusal stands in the same set."""

    node: NodeId


class LeasesRenewed(Decision, frozen=True):
    """The newest heartbeat of each member whose sequence grew, packed by `pack_renewals`."""

    renewals: bytes


class LeaseStopped(Decision, frozen=True):
    """No renewal of this incarnation follows; it leaves when its lease is provably over.

    `request` is the operator's, None if the cluster's own policy stops it.
    """

    request: RequestRef | None
    node: NodeId
    incarnation: Incarnation
    reason: LeaveReason


class NodeLeft(Decision, frozen=True):
    """The incarnation's lease is over: `last_sequence` was its last renewal, read back at `renewed_at`."""

    node: NodeId
    incarnation: Incarnation
    reason: LeaveReason
    last_sequence: int
    renewed_at: Position
    topology_version: TopologyVersion


MembershipEvent = NodeJoined | JoinWaiting | JoinWithdrawn | LeasesRenewed | LeaseStopped | NodeLeft


def known_seal(state: State, node: NodeId, incarnation: Incarnation) -> bytes | None:
    """That of a life which is a member, was the last of its node, or waits to join; None for any other."""
    row, waiting = state.get(NodeRow, node), state.get(WaitingJoinRow, node)
    if row is not None and row.incarnation == incarnation:
        return row.seal
    if waiting is not None and waiting.joiner.incarnation == incarnation:
        return waiting.joiner.seal
    return None


def evolve(state: State, event: MembershipEvent, place: Place) -> None:
    match event:
        case NodeJoined():
            _join(state, event, place)
        case JoinWaiting():
            _wait(state, event, place)
        case JoinWithdrawn():
            state.drop(WaitingJoinRow, event.node)
        case LeasesRenewed():
            _renew(state, event, place)
        case LeaseStopped():
            _stop(state, event, place)
        case NodeLeft():
            _leave(state, event, place)


def _join(state: State, event: NodeJoined, place: Place) -> None:
    joiner = event.joiner
    node = NodeRow(
        node=NodeId(joiner.node),
        incarnation=Incarnation(joiner.incarnation),
        kind=joiner.kind,
        standing=Standing.MEMBER,
        slot=event.slot,
        endpoint=joiner.endpoint,
        attributes=joiner.attributes,
        capabilities=joiner.capabilities,
        folder=joiner.folder,
        seal=joiner.seal,
        joined_at=place.position,
        kinship=event.kinship,
    )
    state.put(node.node, node)
    state.put(str(node.slot), LeaseRow(node.node, node.incarnation, node.slot, 0, place.position))
    state.drop(WaitingJoinRow, node.node)
    if event.kinship is not None and event.kinship.has_lost_it and state.count(GroupRow):
        note_lost(state, node.node, lost=True)
    next_slot = Slot(event.slot + 1)
    state.put("", msgspec.structs.replace(cluster(state), next_slot=next_slot, topology_version=event.topology_version))
    if joiner.kind is NodeKind.CLIENT:
        conclude(state, event.request, place, Status.GRANTED, f"node {node.node}")
    else:
        grant(state, event.request, place, f"node {node.node}")


def _wait(state: State, event: JoinWaiting, place: Place) -> None:
    row = WaitingJoinRow(event.waiting, event.joiner, event.former, event.requested_at_ms, place.position, event.past)
    state.put(event.joiner.node, row)


def _renew(state: State, event: LeasesRenewed, place: Place) -> None:
    for slot, growth in unpack_renewals(event.renewals):
        lease = state.get(LeaseRow, str(slot))
        assert lease is not None, f"a renewal names slot {slot}, which no member holds"
        renewed = msgspec.structs.replace(lease, sequence=lease.sequence + growth, renewed_at=place.position)
        state.put(str(slot), renewed)


def _stop(state: State, event: LeaseStopped, place: Place) -> None:
    row = state.get(NodeRow, event.node)
    assert row is not None and row.incarnation == event.incarnation
    stopping = msgspec.structs.replace(
        row, standing=Standing.STOPPING, stopped_at=place.position, left_reason=event.reason
    )
    state.put(event.node, stopping)
    if event.request is not None:
        grant(state, event.request, place, f"node {event.node}")


def _leave(state: State, event: NodeLeft, place: Place) -> None:
    row = state.get(NodeRow, event.node)
    assert row is not None and row.incarnation == event.incarnation
    if row.holds_lease and row.folder:
        bare = row.kinship is None
        note_end_of_life(state, row.node, row.incarnation, event.last_sequence, event.renewed_at, bare=bare)
    left = msgspec.structs.replace(row, standing=Standing.LEFT, left_at=place.position, left_reason=event.reason)
    state.put(event.node, left)
    state.drop(LeaseRow, str(row.slot))
    state.put("", msgspec.structs.replace(cluster(state), topology_version=event.topology_version))


def pack_renewals(growths: Iterable[tuple[Slot, int]]) -> bytes:
    """(slot, growth of the sequence) pairs as varint deltas: about two bytes a member. Slots must ascend."""
    packed = bytearray()
    before = -1
    for slot, growth in growths:
        assert slot > before and growth > 0
        put_varint(packed, slot - before)
        put_varint(packed, growth)
        before = slot
    return bytes(packed)


def unpack_renewals(packed: bytes) -> list[tuple[Slot, int]]:
    """The pairs that `pack_renewals` packed."""
    numbers = list(varints(packed))
    slot, pairs = -1, []
    for delta, growth in zip(numbers[::2], numbers[1::2], strict=True):
        slot += delta
        pairs.append((Slot(slot), growth))
    return pairs
