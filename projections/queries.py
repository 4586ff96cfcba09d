"""What can be asked of a store: lists, and one by name. Functions of a Reading, nothing else.

So an answer about the past is the answer of that time: the same function, given the reading at another position.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from topolog.events.asked import RequestId
from topolog.events.baseline import BaselineChanged, BaselineRow, ClusterStateRow, StateChangeStarted
from topolog.events.drains import DrainCancelled, DrainRow, DrainStarted
from topolog.events.errors import NotCaughtUp, NotFound
from topolog.events.exchange import ExchangeQueued, FullPartitionMap, PartitionStatesChanged, QueueRow
from topolog.events.fold import Event
from topolog.events.ids import Position
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.leases import LeaseRow, NodeKind, NodeRow, Standing
from topolog.events.membership import LeasesRenewed, NodeJoined, unpack_renewals
from topolog.events.metadata import MetadataRemoveProposed, MetadataUpdateRejected, ProposalRow, RemovalRow, TypeRow
from topolog.events.object_types import ObjectType, type_id
from topolog.events.objects import SchemaChangeRolledBack
from topolog.events.repair import SessionOpened, SessionQueued
from topolog.events.requests import OutcomeRow, RequestUnchanged, Status, outcome_key
from topolog.events.sessions import SessionRow, session_key
from topolog.events.state import Key
from topolog.events.terms import ClusterRow
from topolog.projections import change_rows, exchanges, forgotten_outcomes, silence, versions
from topolog.projections.cause_words import Kind, read_cause
from topolog.projections.layout import Decided
from topolog.projections.moments import iso, position_time
from topolog.projections.resources import Decision, Lease, Node, Request, Type, Waiting
from topolog.projections.store import Reading


def cluster_row(reading: Reading) -> ClusterRow:
    """The cluster's row; raises NotCaughtUp while this reader has seen no decision at all."""
    row = reading.row(ClusterRow, "")
    if row is None:
        raise NotCaughtUp(
            f"Nothing has been decided in cluster {reading.meta.cluster!r} yet, as far as this reader knows.",
            hint="A coordinator writes the first decision: is one running?",
        )
    return row


def nodes(reading: Reading, age_ms: int) -> list[Node]:
    """Every node the cluster has known, in the order in which they joined."""
    held = {each.node: each for each in leases(reading, age_ms)}
    rows = sorted((row for _, row in reading.rows(NodeRow)), key=lambda row: row.joined_at)
    current = reading.row(BaselineRow, "")
    return [
        _node(row, order, held.get(row.node), _role(reading, row, current)) for order, row in enumerate(rows, start=1)
    ]


def node(reading: Reading, age_ms: int, name: str) -> Node:
    """One node; of the others only the places in the order are read."""
    row = reading.row(NodeRow, name)
    if row is None:
        raise not_found(name, (key for key, _ in reading.rows(NodeRow)), "node")
    order = sum(each.joined_at <= row.joined_at for _, each in reading.rows(NodeRow))
    role = _role(reading, row, reading.row(BaselineRow, ""))
    return _node(row, order, lease(reading, age_ms, name) if row.holds_lease else None, role)


def _role(reading: Reading, row: NodeRow, current: BaselineRow | None) -> str | None:
    """How a server stands to the baseline."""
    if row.kind is not NodeKind.SERVER:
        return None
    drain = reading.row(DrainRow, row.node)
    if drain is not None:
        return "DRAINING" if drain.finished_at is None else "DRAINED"
    is_online = row.standing is Standing.MEMBER
    if current is None:
        return None
    if row.node in current.nodes:
        return "MEMBER" if is_online else "AWAY"
    return "OUTSIDER" if is_online else None


def _node(row: NodeRow, order: int, lease: Lease | None, role: str | None) -> Node:
    return Node(
        node=row.node,
        order=order,
        kind=row.kind.value,
        standing=row.standing.value,
        incarnation=row.incarnation,
        slot=row.slot,
        endpoint=row.endpoint,
        attributes=row.attributes,
        capabilities=row.capabilities,
        joined_at=row.joined_at,
        stopped_at=row.stopped_at,
        left_at=row.left_at,
        left_reason=row.left_reason.value if row.left_reason else None,
        lease=lease,
        role=role,
        kinship=row.kinship.value if row.kinship else None,
    )


def leases(reading: Reading, age_ms: int) -> list[Lease]:
    """The leases of all server members, by slot. Clients hold none."""
    clock = _clock(reading, age_ms)
    return [_lease(reading, row, clock) for row in sorted(_holders(reading), key=lambda row: row.slot)]


def lease(reading: Reading, age_ms: int, name: str) -> Lease:
    row = reading.row(NodeRow, name)
    if row is None or not row.holds_lease:
        raise not_found(name, (each.node for each in _holders(reading)), "member with a lease")
    return _lease(reading, row, _clock(reading, age_ms))


def _clock(reading: Reading, age_ms: int) -> silence.Clock | None:
    return silence.clock(reading, cluster_row(reading), age_ms)


def lease_row(reading: Reading, holder: NodeRow) -> LeaseRow | None:
    """The last renewal of a member; None as of the past, for renewals have no history."""
    return reading.row(LeaseRow, str(holder.slot)) if reading.is_current else None


def _holders(reading: Reading) -> Iterator[NodeRow]:
    return (row for _, row in reading.rows(NodeRow) if row.holds_lease)


def _lease(reading: Reading, holder: NodeRow, clock: silence.Clock | None) -> Lease:
    name, incarnation, slot = holder.node, holder.incarnation, holder.slot
    row = lease_row(reading, holder)
    if row is None or clock is None:
        return Lease(name, incarnation, slot, None, None, None, None, None)
    renewed_ms = reading.surely_decision(row.renewed_at).logged_at_ms
    age_ms = clock.now_ms - renewed_ms
    state, fenced_in_ms = silence.state_of(clock, row, renewed_ms), max(0, clock.cluster.fence_ms - age_ms)
    renewed = (row.sequence, row.renewed_at, iso(renewed_ms), age_ms)
    return Lease(name, incarnation, slot, *renewed, state, fenced_in_ms, clock.out_in_ms(renewed_ms))


def types(reading: Reading) -> list[Type]:
    """Every type, by name."""
    waiting: dict[int, list[ProposalRow]] = {}
    for _, proposal in reading.rows(ProposalRow):
        waiting.setdefault(proposal.type_id, []).append(proposal)
    rows = sorted((row for _, row in reading.rows(TypeRow)), key=lambda row: row.name)
    return [_type(reading, row, waiting.get(row.type_id, [])) for row in rows]


def types_touched(reading: Reading, rows: Iterable[Key]) -> Iterator[Type]:
    """The types that a change of these rows can have changed."""
    about = (TypeRow.KIND, ProposalRow.KIND, RemovalRow.KIND)
    for type_key in sorted({key.partition("/")[0] for kind, key in rows if kind in about}):
        if (row := reading.row(TypeRow, type_key)) is not None:
            yield _type(reading, row, [each for _, each in reading.rows(ProposalRow, f"{type_key}/")])


def type_ever(reading: Reading, name: str) -> TypeRow | None:
    """The newest row of the type of this name or this id, also of one that was removed; None if there never was one.

    Two names may have one id (ME4), so a row that is found by the id of a name must have that name.
    """
    for key in (str(type_id(name)), name):
        for _, row in reading.versions(TypeRow, key):
            if row is not None and name in (row.name, key):
                return row
    return None


def type_now(reading: Reading, name: str) -> TypeRow | None:
    """The row of the type of this name or this id; None if it was removed or never was."""
    known = type_ever(reading, name)
    row = reading.row(TypeRow, str(known.type_id)) if known else None
    return row if row and known and row.name == known.name else None


def type_named(reading: Reading, name: str) -> Type:
    """The type of this name or this id."""
    row = type_now(reading, name)
    if row is None:
        raise no_type(reading, name)
    versions = range(row.accepted_version + 1, row.pending_version + 1)
    proposals = (reading.row(ProposalRow, f"{row.type_id}/{version}") for version in versions)
    return _type(reading, row, [each for each in proposals if each is not None])


def no_type(reading: Reading, name: str) -> NotFound:
    """The error for a type that is not there."""
    return not_found(name, (row.name for _, row in reading.rows(TypeRow)), "type")


def _type(reading: Reading, row: TypeRow, proposals: Iterable[ProposalRow]) -> Type:
    accepted = row.accepted or ObjectType(row.name, {})
    return Type(
        name=row.name,
        type_id=row.type_id,
        accepted_version=row.accepted_version,
        pending_version=row.pending_version,
        removing=row.removing,
        fields=accepted.fields,
        affinity_key=accepted.affinity_key,
        is_enum=accepted.is_enum,
        enum=accepted.enum,
        schemas=accepted.schemas,
        pending=row.pending.to_dict() if row.pending != row.accepted else None,
        waiting=tuple(
            Waiting(each.version, each.position, position_time(reading, each.position), each.request)
            for each in sorted(proposals, key=lambda proposal: proposal.version)
        ),
        proposed_at=row.proposed_at,
        accepted_at=row.accepted_at,
        evidence=msgspec.structs.asdict(row.evidence) if row.evidence else None,
    )


def outcomes(reading: Reading) -> list[Request]:
    """The outcomes that are kept, newest first."""
    rows = sorted((row for _, row in reading.rows(OutcomeRow)), key=lambda row: (-row.position, row.requester))
    return [_request(reading, row) for row in rows]


def outcome(reading: Reading, request: RequestId) -> OutcomeRow | None:
    """The outcome of a request, also one that coordinators no longer keep; None while it has none."""
    versions = reading.versions(OutcomeRow, outcome_key(request.requester, request.sequence))
    return next((row for _, row in versions if row is not None), None)


def request(reading: Reading, name: RequestId) -> Request:
    row = outcome(reading, name)
    if row is None:
        raise forgotten_outcomes.no_outcome(reading, name)
    return _request(reading, row)


def conflict(reading: Reading, row: OutcomeRow) -> tuple[ObjectType, ObjectType] | None:
    """Both sides of the contradiction a proposal was refused for, (current, proposed); None for other outcomes."""
    event = reading.surely_decision(row.position).event
    return (event.current, event.proposed) if isinstance(event, MetadataUpdateRejected) else None


def has_taken_effect(reading: Reading, row: OutcomeRow) -> bool:
    """Whether what was granted holds everywhere: the version is accepted, the type or the node is out, the exchange is
    completed."""
    event = reading.surely_decision(row.position).event
    kind, _, name = row.subject.partition(" ")
    if row.status is Status.REFUSED:
        return False
    if kind == "change" and name.isdecimal():
        was_cancelled = isinstance(event, SchemaChangeRolledBack)
        return was_cancelled or change_rows.takes_effect(reading, int(name), row.position)
    return _is_in_force(reading, row, event)


def _is_in_force(reading: Reading, row: OutcomeRow, event: Event) -> bool:
    """Whether what was granted holds everywhere, of anything but a change of objects."""
    kind, _, name = row.subject.partition(" ")
    is_unchanged = isinstance(event, RequestUnchanged)
    is_of_cluster = row.subject in ("cluster state", "lease-terms")
    if isinstance(event, StateChangeStarted | LeaseTermsChanged) or (is_unchanged and is_of_cluster):
        begun = _under_way_since(reading, row.subject)
        return begun is None or begun > row.position
    if isinstance(event, SessionQueued | SessionOpened):
        session = reading.row(SessionRow, session_key(int(name)))
        return session is None or session.status.is_end
    if isinstance(event, BaselineChanged | DrainCancelled):
        return _is_shared_out(reading, row.position)
    if isinstance(event, DrainStarted) or (is_unchanged and kind == "node" and _is_served_by(reading, name)):
        drain = reading.row(DrainRow, name)
        return drain is None or drain.finished_at is not None or drain.started_at > row.position
    if kind == "node":
        return isinstance(event, NodeJoined) or _is_out(reading, name, row.position)
    if isinstance(event, ExchangeQueued):
        exchange = versions.exchange_row(reading, str(event.version))
        return exchange is not None and exchange.completed_at is not None
    if isinstance(event, MetadataRemoveProposed):
        removal = reading.row(RemovalRow, str(type_id(name)))
        return removal is None or removal.position != row.position
    known = reading.row(TypeRow, str(type_id(name))) if kind == "type" else None
    return known is None or known.accepted_version >= (row.version or 0)


def _under_way_since(reading: Reading, subject: str) -> Position | None:
    """Since when the cluster is on its way to another state, or to other terms of lease."""
    if subject == "lease-terms":
        former = cluster_row(reading).former
        return former.changed_at if former else None
    state = reading.row(ClusterStateRow, "")
    return state.started_at if state else None


def is_settled(reading: Reading, row: OutcomeRow) -> bool:
    """Whether nothing more will become of what was asked: it holds everywhere, was refused, or was rolled back."""
    kind, _, name = row.subject.partition(" ")
    if row.status is Status.REFUSED or has_taken_effect(reading, row):
        return True
    return kind == "change" and name.isdecimal() and change_rows.is_over(reading, int(name))


def _is_served_by(reading: Reading, node: str) -> bool:
    """Whether it is a member: what was unchanged is then its drain, or its join, and not that it goes."""
    row = reading.row(NodeRow, node)
    return row is not None and row.standing is Standing.MEMBER


def _is_shared_out(reading: Reading, asked_at: Position) -> bool:
    """Whether the exchange that a decision at that position asked for is completed; with no groups there is none."""
    queue, opened = reading.row(QueueRow, ""), exchanges.open_row(reading)
    pending = (*(queue.triggers if queue else ()), *(opened.triggers if opened else ()))
    return all(trigger.at != asked_at for trigger in pending)


def _is_out(reading: Reading, node: str, asked_at: Position) -> bool:
    """Whether the incarnation that was a member at that position has left: a new one has joined later than that."""
    row = reading.row(NodeRow, node)
    return row is None or row.standing is Standing.LEFT or row.joined_at > asked_at


def _request(reading: Reading, row: OutcomeRow) -> Request:
    decided = reading.surely_decision(row.position)
    return Request(
        id=f"{row.requester}/{row.sequence}",
        requester=row.requester,
        sequence=row.sequence,
        subject=row.subject,
        status=row.status.value,
        position=row.position,
        time=iso(decided.logged_at_ms),
        version=row.version,
        code=row.code,
        rule=row.rule,
        message=row.message,
        facts=row.facts,
        actor=decided.asked_by or row.requester,
        reason=decided.asked_for,
    )


def decisions(reading: Reading, filters: Mapping[str, str], before: int | None = None) -> Iterator[Decision]:
    """Decisions below `before`, newest first. Filters: event, subject, actor; renewals=true adds lease renewals."""
    event, subject, actor = (filters.get(name) for name in ("event", "subject", "actor"))
    with_renewals = filters.get("renewals") == "true" or event == LeasesRenewed.__name__
    found = reading.all_decisions(before) if with_renewals else reading.decisions(before, subject or "")
    leaders: dict[int, str] = {}
    for each in found:
        is_asked_for = event in (None, each.event_name) and subject in (None, each.subject)
        if is_asked_for and (actor is None or actor == each.asked_by):
            yield shown(reading, each, leaders)


def decision(reading: Reading, position: int) -> Decision:
    decided = reading.decision(position)
    if decided is None:
        raise NotFound(f"There is no decision at position {position}; the newest is {reading.position}.")
    return shown(reading, decided, {})


def decided_by(reading: Reading, decided: Decided, leaders: dict[int, str]) -> str:
    """Who made a decision: the coordinator that led then, or the operator who voided something. `leaders`: by term,
    those that are known already."""
    if read_cause(decided.cause).kind is not Kind.REQUEST:
        return decided.actor
    if decided.term not in leaders:
        leaders[decided.term] = cluster_row(reading.as_of(decided.position)).coordinator
    return leaders[decided.term]


def shown(reading: Reading, decided: Decided, leaders: dict[int, str]) -> Decision:
    """A stored decision as people see it; `leaders` as `decided_by` has them."""
    return Decision(
        position=decided.position,
        time=iso(decided.logged_at_ms),
        event=decided.event_name,
        subject=decided.subject,
        term=decided.term,
        sequence=decided.sequence,
        set_end=decided.set_end,
        cause=decided.cause,
        actor=decided.asked_by,
        decided_by=decided_by(reading, decided, leaders),
        reason=decided.reason,
        recorded_at=iso(decided.recorded_at_ms),
        content=_content(decided.event),
    )


def _content(event: Event) -> Mapping[str, Any]:
    if isinstance(event, FullPartitionMap | PartitionStatesChanged):
        return {**msgspec.structs.asdict(event), "changes": f"{len(event.changes)} bytes"}
    if isinstance(event, LeasesRenewed):
        return {"renewals": [{"slot": slot, "growth": growth} for slot, growth in unpack_renewals(event.renewals)]}
    content: Mapping[str, Any] = plain(event)
    return content


def plain(value: object) -> Any:
    """A row or an event as JSON's own kinds of values; bytes in hexadecimal."""
    return _hexed(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _hexed(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: _hexed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hexed(each) for each in value]
    return value


def not_found(name: str, known: Iterable[str], what: str) -> NotFound:
    """The error for a name that is not there, with the nearest names that are."""
    by_lower_case = {each.lower(): each for each in known}
    near = [by_lower_case[each] for each in get_close_matches(name.lower(), by_lower_case, n=3)]
    hint = f"Did you mean {' or '.join(near)}?" if near else ""
    return NotFound(f"There is no {what} {name!r}.", hint=hint)
