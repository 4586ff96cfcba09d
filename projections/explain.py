"""Why something is as it is, in plain words: one sentence, the facts, the chain of causes, who is waited for.

The chain comes from stamps: each decision names what it answers (`cause`), who asked (`actor`) and why (`reason`). Who
is waited for comes from the rules the coordinator decides by (`streams/rules/verdict.py`), at the same position.
"""

from collections.abc import Iterable, Iterator

from topolog.events.codec import Decision as Event
from topolog.events.errors import NotFound
from topolog.events.ids import Position
from topolog.events.membership import FENCING, NodeRow, WaitingJoinRow
from topolog.events.metadata import (
    Evidence,
    FloorRow,
    MetadataRemoveAccepted,
    MetadataUpdateAccepted,
    MetadataUpdateRejected,
    RemovalRow,
    TypeRow,
)
from topolog.events.object_types import type_id
from topolog.events.requests import OutcomeRow, RequestId, RequestRefused, Status
from topolog.events.state import State
from topolog.projections import queries
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Awaited, Cause, Explanation, Node
from topolog.projections.store import Reading
from topolog.streams.rules.verdict import holders

_CAUSES_MAX = 20
"""Decisions in a chain: what stands now follows from the last few; `history` and `get decisions` have them all."""


def explain_cluster(reading: Reading, age_ms: int) -> Explanation:
    """Who leads and since when, and how the last terms followed each other."""
    cluster = queries.cluster(reading, age_ms)
    facts = {
        "term": f"{cluster.term}, led by {cluster.coordinator or 'nobody'} since position {cluster.led_since}",
        "lease": f"a node stops {cluster.fence_ms} ms after its last confirmed heartbeat; others go on without it "
        f"after {cluster.proceed_ms} ms",
        "topology version": cluster.topology_version,
    }
    return Explanation(cluster.sentence, facts, _causes(reading, "cluster"))


def explain_type(reading: Reading, name: str) -> Explanation:
    """What is accepted and why it could be, what is pending and whom it waits for, what was refused."""
    row = reading.row(TypeRow, str(type_id(name))) or reading.row(TypeRow, name)
    if row is None:
        return _removed_type(reading, name)
    decided = list(reading.decisions(subject=f"type {row.name}"))
    facts = dict(_type_facts(decided))
    waiting = _awaited_for_type(reading, row)
    return Explanation(_type_sentence(row, waiting), facts, _chain(decided), waiting)


def explain_node(reading: Reading, age_ms: int, name: str) -> Explanation:
    """Whether the node is a member, what its lease says, why it is out."""
    waiting = reading.row(WaitingJoinRow, name)
    causes = _causes(reading, f"node {name}")
    if waiting is not None:
        at_most_ms = _remaining_ms(reading, waiting.position)
        sentence = (
            f"Node {name} asked to join at position {waiting.position} and waits until the lease of its former "
            f"incarnation {waiting.former} is over."
        )
        awaited = (Awaited(name, waiting.position, at_most_ms),)
        return Explanation(sentence, {"request": str(waiting.request)}, causes, awaited)
    node = queries.node(reading, age_ms, name)
    facts = {
        "incarnation": str(node.incarnation),
        "joined at": f"position {node.joined_at}, number {node.order} by age",
        "kind": node.kind,
        "endpoint": node.endpoint,
    }
    if node.lease and node.lease.state:
        facts["lease"] = f"{node.lease.state}, heartbeat {node.lease.sequence} confirmed {node.lease.age_ms} ms ago"
    return Explanation(_node_sentence(node), facts, causes, _awaited_for_node(reading, node))


def explain_request(reading: Reading, name: RequestId) -> Explanation:
    """What became of a request, by which rule, and whether its effect is complete."""
    row = queries.outcome(reading, name)
    if row is None:
        return _undecided_request(reading, name)
    decided = reading.surely_decision(row.position)
    facts = {"subject": row.subject, "decided": f"at position {row.position} ({iso(decided.logged_at_ms)})"}
    if row.status is Status.REFUSED:
        facts |= {"code": row.code, "rule": row.rule, **row.facts, **_both_sides(decided.event)}
    waiting = _awaited_for_request(reading, row)
    return Explanation(_request_sentence(name, row), facts, _chain(_behind(reading, row)), waiting)


def _type_sentence(row: TypeRow, waiting: tuple[Awaited, ...]) -> str:
    accepted = (
        f"version {row.accepted_version} is accepted since position {row.accepted_at}"
        if row.accepted_version
        else "no version is accepted yet"
    )
    if row.removing:
        rest = "and it is being removed"
    elif row.pending_version > row.accepted_version:
        rest = f"version {row.pending_version}, proposed at position {row.proposed_at}, is pending"
    else:
        rest = "and nothing is pending"
    names = ", ".join(each.node for each in waiting)
    return f"Type {row.name}: {accepted}, {rest}{f'; it waits for {names}' if names else ''}."


def _type_facts(decided: Iterable[Decided]) -> Iterator[tuple[str, str]]:
    """One fact per accepted version and per refusal, newest first."""
    for each in decided:
        event = each.event
        match event:
            case MetadataUpdateAccepted():
                yield f"version {event.version}", f"accepted at position {each.position}: {_words(event.evidence)}"
            case MetadataRemoveAccepted():
                fact = f"at position {each.position}, floor {event.floor}: {_words(event.evidence)}"
                yield f"removed at {each.position}", fact
            case MetadataUpdateRejected() | RequestRefused():
                yield f"refused at {each.position}", f"{event.code} ({event.rule}): {event.message}"


def _words(evidence: Evidence) -> str:
    said = {
        "applied by": evidence.applied,
        "left before": evidence.left,
        "presumed fenced after proceed_ms": evidence.presumed_fenced,
    }
    parts = [f"{what} {', '.join(names)}" for what, names in said.items() if names]
    return "; ".join(parts) or "no server had to be asked"


def _both_sides(event: Event) -> dict[str, str]:
    if not isinstance(event, MetadataUpdateRejected):
        return {}
    sides = {"current definition": event.current, "proposed definition": event.proposed}
    return {
        side: ", ".join(f"{field} {type_name}" for field, type_name in (definition.fields or definition.enum).items())
        for side, definition in sides.items()
    }


def _removed_type(reading: Reading, name: str) -> Explanation:
    floor = reading.row(FloorRow, str(type_id(name))) or reading.row(FloorRow, name)
    if floor is None:
        raise queries.not_found(name, [row.name for _, row in reading.rows(TypeRow)], "type")
    decided = list(reading.decisions(subject=f"type {floor.name}"))
    sentence = (
        f"Type {floor.name} was removed at position {floor.removed_at}; content based on version {floor.version} "
        f"or lower never comes back."
    )
    return Explanation(sentence, dict(_type_facts(decided)), _chain(decided))


def _awaited_for_type(reading: Reading, row: TypeRow) -> tuple[Awaited, ...]:
    removal = reading.row(RemovalRow, str(row.type_id))
    if removal is not None:
        return _awaited(reading, removal.position)
    return _awaited(reading, row.proposed_at) if row.pending_version > row.accepted_version else ()


def _awaited(reading: Reading, position: Position) -> tuple[Awaited, ...]:
    """Servers whose answer the verdict at this position asks for. The log does not say which of them have answered."""
    state: State = reading.state(NodeRow)
    at_most_ms = _remaining_ms(reading, position)
    return tuple(
        Awaited(row.node, position, at_most_ms if FENCING in row.capabilities else None)
        for row in holders(state, position)
    )


def _remaining_ms(reading: Reading, position: Position) -> int:
    """What is left of proceed_ms since the decision at this position, by the time of the log."""
    proceed_ms = queries.cluster_row(reading).proceed_ms
    newest, since = (reading.surely_decision(each).logged_at_ms for each in (reading.position, position))
    return max(0, proceed_ms - (newest - since))


def _node_sentence(node: Node) -> str:
    match node.standing:
        case "LEFT":
            why = {
                "LEFT": "it said that it stopped",
                "FENCED": "its lease ran out in silence",
                "REMOVED": "it was removed by a request and its lease is over",
                "REPLACED": "a new process holds the lock on its data folder",
            }.get(node.left_reason or "", "for a reason this version does not know")
            return f"Node {node.node} is out of the membership since position {node.left_at}: {why}."
        case "STOPPING":
            return (
                f"Node {node.node} is being removed since position {node.stopped_at}: it leaves when its lease is over."
            )
        case _:
            state = node.lease.state if node.lease else None
            about = {
                "VALID": "its lease is renewed",
                "NONE": "none of its heartbeats has been confirmed yet",
                "OVERDUE": "its lease is overdue, so it must have stopped serving",
            }.get(state or "", "it holds no lease" if node.kind == "CLIENT" else "renewals of the past are not kept")
            return f"Node {node.node} is a member since position {node.joined_at}, and {about}."


def _awaited_for_node(reading: Reading, node: Node) -> tuple[Awaited, ...]:
    if node.standing != "STOPPING" or node.stopped_at is None:
        return ()
    return (Awaited(node.node, node.stopped_at, _remaining_ms(reading, Position(node.stopped_at))),)


def _request_sentence(name: RequestId, row: OutcomeRow) -> str:
    match row.status:
        case Status.GRANTED:
            version = f" as version {row.version}" if row.version is not None else ""
            return f"Request {name} about {row.subject} was granted at position {row.position}{version}."
        case Status.UNCHANGED:
            return f"Request {name} about {row.subject} changed nothing: what it asked for held already."
        case Status.REFUSED:
            return f"Request {name} about {row.subject} was refused at position {row.position}: {row.message}"


def _undecided_request(reading: Reading, name: RequestId) -> Explanation:
    for node, row in reading.rows(WaitingJoinRow):
        if (row.request.requester, row.request.sequence) == (name.requester, name.sequence):
            waiting = (Awaited(node, row.position, _remaining_ms(reading, row.position)),)
            sentence = f"Request {name} waits: node {node} may join when its former incarnation's lease is over."
            return Explanation(sentence, {"subject": f"node {node}"}, _causes(reading, f"node {node}"), waiting)
    raise NotFound(
        f"Request {name} has no outcome at position {reading.position}.",
        hint="It was never sent, is not decided yet, or was sent to another cluster.",
    )


def _awaited_for_request(reading: Reading, row: OutcomeRow) -> tuple[Awaited, ...]:
    """Who is still waited for until what was granted holds everywhere."""
    kind, _, name = row.subject.partition(" ")
    if kind != "type" or row.status is Status.REFUSED:
        return ()
    subject = reading.row(TypeRow, str(type_id(name)))
    if subject is None or (subject.accepted_version >= (row.version or 0) and not subject.removing):
        return ()
    return _awaited_for_type(reading, subject)


def _behind(reading: Reading, row: OutcomeRow) -> list[Decided]:
    """Decisions about the request's subject from its outcome on: what followed from it. Newest first."""
    return [each for each in reading.decisions(subject=row.subject) if each.position >= row.position][-_CAUSES_MAX:]


def _causes(reading: Reading, subject: str) -> tuple[Cause, ...]:
    return _chain(reading.decisions(subject=subject))


def _chain(newest_first: Iterable[Decided]) -> tuple[Cause, ...]:
    """The newest few of these decisions as a chain, oldest first."""
    newest = [each for each, _ in zip(newest_first, range(_CAUSES_MAX), strict=False)]
    return tuple(
        Cause(each.position, each.event_name, each.cause, each.actor, each.reason, iso(each.logged_at_ms))
        for each in reversed(newest)
    )
