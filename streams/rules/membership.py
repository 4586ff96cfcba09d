"""Rules of membership and leases: who joins, whose lease is renewed, who is out (docs/design/leases.md)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from topolog.events.asked import SUBJECT_CHARS_MAX, RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import BadInput, Refused
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position, Slot, TopologyVersion
from topolog.events.leases import FENCING, LeaseRow, LeaveReason, NodeKind, NodeRow, Standing, lease_of, members
from topolog.events.membership import (
    Blocked,
    Joiner,
    JoinRequested,
    JoinWaiting,
    JoinWithdrawn,
    LeasesRenewed,
    LeaseStopped,
    MembershipRequest,
    NodeJoined,
    NodeLeft,
    NodeRemovalRequested,
    WaitingJoinRow,
    pack_renewals,
)
from topolog.events.names import is_name, is_printable, node_id
from topolog.events.object_types import DeclaredType
from topolog.events.proof import Life, seal_of
from topolog.events.requests import RequestRefused, RequestUnchanged, shortened, told_of
from topolog.events.state import State
from topolog.events.terms import cluster
from topolog.events.views import DiskRow, Kinship, Past, after_life
from topolog.streams.rules import levels
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.past import check, check_shape, judge

DECLARED_TYPES_MAX = 10_000
"""Most types one join declares: all their proposals stand in the join's own set, which a stamp counts in 16 bits."""

JOINER_CHARS_MAX = 10_000
"""Of the endpoint, the folder, the attributes and the capabilities of one node: every process holds those of all."""


class Heard(msgspec.Struct, frozen=True):
    """The newest heartbeat of an incarnation. `applied` is its position as far as the log's chain confirms it.

    `drained`: up to which position every hand-over has drained there. `blocked`: the first decision that it cannot
    apply.
    """

    incarnation: Incarnation
    sequence: int
    applied: Position
    fenced: bool
    release: bool
    appended_at_ms: int
    drained: Position = NOWHERE
    blocked: Blocked | None = None


Hearing = Mapping[NodeId, Heard]

Joins = Callable[[State, Iterable[DeclaredType]], list[Decision]]
"""What the types that a joining node declares lead to; raises Refused. Types stand above members and leases, so whoever
asks these rules hands it in."""


def decide(
    state: State,
    request: MembershipRequest,
    ref: RequestRef,
    appended_at_ms: int,
    dead: Collection[Life] = (),
    *,
    end: Position,
    joins: Joins,
) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing.

    `appended_at_ms` is the broker's time of the request: heartbeats appended later prove a former incarnation alive.
    `dead`: lives whose death certificate has been heard, with the seal of the secret that it showed; where that is the
    life's own, it does not act, and never will. `end`: the last position that is decided. `joins`: the rules of types.
    """
    match request:
        case JoinRequested():
            if _is_dead(request.joiner, dead):
                raise Refused("PROCESS_DIED", "LE35", _died(request.joiner), _identity(request.joiner))
            return _join(state, request, ref, appended_at_ms, end, joins)
        case NodeRemovalRequested():
            return [_stop(state, request.node, ref)]


def renew(state: State, hearing: Hearing, waited_through: Position) -> LeasesRenewed:
    """The echo of every member whose sequence grew, except those that lag: whoever has not applied what was read back
    proceed_ms ago, `waited_through`, must stop.

    Nor of one that has not applied the start of this term. What it sent before may stand in a copy of the heartbeats
    beside a copy of the log, and has been renewed by another leader in another place: then both histories would have
    renewed the same heartbeat, and the node's past could not say on which it has relied (`events/views.py`).
    """
    grown = _grown(state, hearing, members(state), waited_through)
    growths = [(lease.slot, heard.sequence - lease.sequence) for lease, heard in grown]
    return LeasesRenewed(pack_renewals(sorted(growths)))


def is_urgent(
    state: State, hearing: Hearing, news: Iterable[NodeId], waited_through: Position, lapsed: Collection[str]
) -> bool:
    """Whether a member without a valid echo, or one whose lease would end now, waits for its renewal.

    `news`: of whom something was heard, or checked, since this was last asked. The others cannot have come to need one,
    unless it is their deadline that has passed: what a member must have applied only grows.
    """
    found = (state.get(NodeRow, node) for node in news)
    nodes = members(state) if lapsed else (node for node in found if node is not None and node.is_member)
    return any(
        heard.fenced or not lease.sequence or _is_due(lease, lapsed)
        for lease, heard in _grown(state, hearing, nodes, waited_through)
    )


def settle(
    state: State, hearing: Hearing, lapsed: Iterable[str], dead: Collection[Life] = (), *, end: Position, joins: Joins
) -> list[Decision]:
    """What follows from deaths, releases, leases whose deadline has passed and joins that need wait no longer.

    `lapsed`: keys of lease deadlines that have passed; `dead`, `end`, `joins`: as for `decide`. Folded, the result
    may make more due; call until it is empty.
    """
    due = frozenset(lapsed)
    for node in members(state):
        heard, is_dead = hearing.get(node.node), Life(node.node, node.incarnation, node.seal) in dead
        if not (is_dead or due or (heard and heard.release)):
            continue
        lease = lease_of(state, node)
        if is_dead:
            # No wait, not even for renewals in flight: they stand in the log before NodeLeft, and the process that
            # could have relied on them is gone (LE26, with the whole incarnation in place of a sequence).
            return [_left(state, node, lease, LeaveReason.DIED)]
        if heard and heard.incarnation == node.incarnation and heard.release and heard.sequence > lease.sequence:
            return [_left(state, node, lease, LeaveReason.LEFT)]
        if _ends_in_silence(node) and _is_due(lease, due):
            return [_left(state, node, lease, LeaveReason.FENCED)]
    return _settle_waiting(state, hearing, end, dead, joins)


def _is_dead(joiner: Joiner, dead: Collection[Life]) -> bool:
    return Life(NodeId(joiner.node), Incarnation(joiner.incarnation), joiner.seal) in dead


def _died(joiner: Joiner) -> str:
    return f"The process that asked to join as node {joiner.node!r} has died since."


def _identity(joiner: Joiner) -> Mapping[str, str]:
    return {"incarnation": str(joiner.incarnation)}


def _ends_in_silence(node: NodeRow) -> bool:
    """Silence proves a lease over only if the node stops by itself; for another one an operator vouches (LE18)."""
    return node.kind is NodeKind.CLIENT or FENCING in node.capabilities or node.standing is Standing.STOPPING


def deadlines(state: State, lease: LeaseRow, gaps: int) -> list[Deadline]:
    """A lease is over proceed_ms after the read-back of its last renewal; a client is gone after fence_ms of silence.

    `gaps` counts how often the coordinator was not hearing: silence must be heard to count, so a gap makes a new key.
    """
    node = state.get(NodeRow, lease.node)
    assert node is not None, f"a lease without its node {lease.node}"
    terms = cluster(state)
    after_ms = terms.proceed_ms if node.kind is NodeKind.SERVER else terms.fence_ms
    return [Deadline(f"{_lease_key(lease)}{gaps}", lease.renewed_at, after_ms)]


def _is_due(lease: LeaseRow, lapsed: Iterable[str]) -> bool:
    return any(key.startswith(_lease_key(lease)) for key in lapsed)


def _lease_key(lease: LeaseRow) -> str:
    return f"lease/{lease.node}/{lease.incarnation}/{lease.renewed_at}/"


def _grown(
    state: State, hearing: Hearing, nodes: Iterable[NodeRow], waited_through: Position
) -> Iterator[tuple[LeaseRow, Heard]]:
    """Those of these members whose heartbeats have gone on since their last echo, and may have another."""
    needed = max(waited_through, cluster(state).led_since)
    for node in nodes:
        heard, lease = hearing.get(node.node), lease_of(state, node)
        if heard is None or node.standing is not Standing.MEMBER or heard.incarnation != node.incarnation:
            continue
        if heard.sequence > lease.sequence and not heard.release and heard.applied >= needed:
            yield lease, heard


def _join(
    state: State, request: JoinRequested, ref: RequestRef, appended_at_ms: int, end: Position, joins: Joins
) -> list[Decision]:
    joiner = request.joiner
    _check_joiner(state, joiner)
    joins(state, joiner.types)
    row, view = state.get(NodeRow, joiner.node), cluster(state).topology_version
    if row is None or not row.is_member:
        kinship = _kinship(state, joiner, request.past, end)
        return [*_withdraw(state, joiner), *_joined(state, joiner, ref, view, kinship, joins)]
    if row.incarnation == joiner.incarnation and row.seal != joiner.seal:
        message = f"Another process of node {joiner.node!r} has joined as incarnation {joiner.incarnation}."
        raise Refused("STALE_INCARNATION", "LE21", message, _identity(joiner), hint="It must join as a new one.")
    if row.incarnation == joiner.incarnation:
        return [RequestUnchanged(ref, f"node {joiner.node}", None)]
    if _proves_it_gone(joiner, row):
        left = _left(state, row, lease_of(state, row), LeaveReason.REPLACED)
        before = state.get(DiskRow, row.node)
        bare = row.kinship is None
        ended = after_life(before, row.incarnation, left.last_sequence, left.renewed_at, bare=bare)
        kinship = _kinship(state, joiner, request.past, end, ended)
        return [left, *_withdraw(state, joiner), *_joined(state, joiner, ref, left.topology_version, kinship, joins)]
    # What waits is copied into `decisions`, which all read, and the proof is yet to be of use.
    silent = msgspec.structs.replace(joiner, proof=b"")
    waiting = JoinWaiting(ref, silent, row.incarnation, appended_at_ms, request.past)
    return [*_withdraw(state, joiner), waiting]


def _kinship(
    state: State, joiner: Joiner, past: Past | None, end: Position, ended: DiskRow | None = None
) -> Kinship | None:
    """How a server's past agrees with the log, None for one without a disk of its own; raises Refused."""
    if not joiner.folder or joiner.kind is not NodeKind.SERVER:
        return None
    log_id, node = bytes.fromhex(cluster(state).log_id), NodeId(joiner.node)
    check_shape(node, past)
    judged = judge(state, log_id, node, past, ended)
    check(state, log_id, end, node, past, judged)
    return judged.kinship


def _proves_it_gone(joiner: Joiner, former: NodeRow) -> bool:
    """The joining process read of this very incarnation while it held the lock that this incarnation had held, and
    shows its secret, which the folder has.

    Another folder, or none on either side, proves nothing: the former process may live on another machine.
    """
    held_same_lock = bool(joiner.folder) and joiner.folder == former.folder
    return held_same_lock and joiner.replaces == former.incarnation and seal_of(joiner.proof) == former.seal


def _check_joiner(state: State, joiner: Joiner) -> None:
    _check_names(joiner)
    if len(joiner.types) > DECLARED_TYPES_MAX:
        message = f"Node {joiner.node!r} declares {len(joiner.types)} types, the limit is {DECLARED_TYPES_MAX}."
        raise Refused("TOO_LARGE", "K23", message)
    if (chars := _chars_of(joiner)) > JOINER_CHARS_MAX:
        message = f"Node {joiner.node!r} says {chars} characters of itself, the limit is {JOINER_CHARS_MAX}."
        raise Refused("TOO_LARGE", "LE20", message)
    if joiner.kind is NodeKind.UNKNOWN:
        raise Refused("BAD_NODE", "LE20", f"Node {joiner.node!r} is neither SERVER nor CLIENT.")
    levels.check_joiner(state, joiner)
    row = state.get(NodeRow, joiner.node)
    if row and not row.is_member and row.incarnation == joiner.incarnation:
        message = f"Incarnation {joiner.incarnation} of node {joiner.node!r} has left; it must join as a new one."
        raise Refused("STALE_INCARNATION", "LE21", message, {"left_at": str(row.left_at)})


def _chars_of(joiner: Joiner) -> int:
    """What it says of itself that stands in the state of everybody."""
    texts = (joiner.endpoint, joiner.folder, *joiner.capabilities, *chain.from_iterable(joiner.attributes.items()))
    return sum(map(len, texts))


def _check_names(joiner: Joiner) -> None:
    """Raise Refused for what cannot be a node's id, and for what it says of itself and nobody could show."""
    try:
        node_id(joiner.node)
    except BadInput as error:
        raise Refused("BAD_NODE", "LE20", error.message) from error
    for attribute, value in joiner.attributes.items():
        if not is_name(attribute, SUBJECT_CHARS_MAX) or not is_printable(value):
            limit = "An attribute has a name without blanks, and name and value can be printed"
            message = f"Node {joiner.node!r}: {limit}: {shortened(f'{attribute!r}: {value!r}')} cannot be one."
            raise Refused("BAD_NODE", "LE20", message)
    if not all(map(is_printable, (joiner.endpoint, joiner.folder, *joiner.capabilities))):
        message = f"Node {joiner.node!r}: its endpoint, folder and capabilities need characters that can be printed."
        raise Refused("BAD_NODE", "LE20", message)


def _withdraw(state: State, joiner: Joiner) -> list[Decision]:
    """End the wait of an older process of the same node: a newer one has come."""
    waiting = state.get(WaitingJoinRow, joiner.node)
    if waiting is None:
        return []
    message = f"A newer process of node {joiner.node!r} has asked to join since."
    facts = {"newer": str(joiner.incarnation)}
    return _refused(waiting, "SUPERSEDED", message, facts)


def _refused(
    waiting: WaitingJoinRow, code: str, message: str, facts: Mapping[str, str], rule: str = "LE22"
) -> list[Decision]:
    node = waiting.joiner.node
    return [
        JoinWithdrawn(NodeId(node)),
        RequestRefused(waiting.request, f"node {node}", code, rule, message, facts),
    ]


def _joined(
    state: State, joiner: Joiner, ref: RequestRef, view: TopologyVersion, kinship: Kinship | None, joins: Joins
) -> list[Decision]:
    slot = Slot(cluster(state).next_slot)
    bare = msgspec.structs.replace(joiner, types=(), proof=b"")
    joined = NodeJoined(ref, bare, slot, _raised(view, joiner.kind), kinship)
    return [joined, *joins(state, joiner.types)]


def _left(state: State, node: NodeRow, lease: LeaseRow, reason: LeaveReason) -> NodeLeft:
    stopped = node.left_reason if node.standing is Standing.STOPPING else None
    view = _raised(cluster(state).topology_version, node.kind)
    return NodeLeft(node.node, node.incarnation, stopped or reason, lease.sequence, lease.renewed_at, view)


def _raised(view: TopologyVersion, kind: NodeKind) -> TopologyVersion:
    """Joins and leaves of servers make a new view; clients raise nothing."""
    return TopologyVersion(view.major + 1, 0) if kind is NodeKind.SERVER else view


def _settle_waiting(
    state: State, hearing: Hearing, end: Position, dead: Collection[Life], joins: Joins
) -> list[Decision]:
    for _, waiting in state.rows(WaitingJoinRow):
        if _is_dead(waiting.joiner, dead):
            return _refused(waiting, "PROCESS_DIED", _died(waiting.joiner), _identity(waiting.joiner))
        node = state.get(NodeRow, waiting.joiner.node)
        assert node is not None, "a join waits for a node that was never there"
        if not node.is_member:
            return _admit(state, waiting, end, joins)
        if _is_alive(state, node, waiting, hearing):
            message = (
                f"Node {node.node!r} is a member and alive: its incarnation {node.incarnation} was renewed while "
                f"this process waited to join. Stop that process or choose another node id."
            )
            facts = {"incarnation": str(node.incarnation), "endpoint": node.endpoint}
            return _refused(waiting, "DUPLICATE_ID", message, facts)
    return []


def _admit(state: State, waiting: WaitingJoinRow, end: Position, joins: Joins) -> list[Decision]:
    try:
        kinship = _kinship(state, waiting.joiner, waiting.past, end)
        return _joined(state, waiting.joiner, waiting.request, cluster(state).topology_version, kinship, joins)
    except Refused as refusal:  # its types contradict the cluster's by now, or its past is another one
        facts, message = told_of(refusal.facts, str(refusal))
        return _refused(waiting, refusal.code, message, facts, refusal.rule)


def _is_alive(state: State, node: NodeRow, waiting: WaitingJoinRow, hearing: Hearing) -> bool:
    """Renewed since the join began to wait, by a process that has applied the very decision to wait."""
    heard = hearing.get(node.node)
    if heard is None or heard.incarnation != node.incarnation or heard.applied < waiting.position:
        return False
    return lease_of(state, node).renewed_at > waiting.position


def _stop(state: State, name: str, ref: RequestRef) -> Decision:
    row = state.get(NodeRow, name)
    if row is None:
        raise Refused("NODE_UNKNOWN", "LE28", f"There is no node {name!r}.", hint="See `topolog get nodes`.")
    if row.standing is not Standing.MEMBER:
        return RequestUnchanged(ref, f"node {name}", None)
    return LeaseStopped(ref, row.node, row.incarnation, LeaveReason.REMOVED)
