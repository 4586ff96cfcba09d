"""Rules of metadata agreement: what a proposal or a removal leads to, and when a version is accepted (ME11, ME15)."""

from collections.abc import Iterable

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import BadInput, MergeConflict, Refused
from topolog.events.ids import Position, TypeId, Version
from topolog.events.leases import NodeRow
from topolog.events.metadata import (
    MetadataRemoveAccepted,
    MetadataRemoveProposed,
    MetadataRequest,
    MetadataUpdateAccepted,
    MetadataUpdateProposed,
    MetadataUpdateRejected,
    ProposalRow,
    RemovalRow,
    TypeRemovalRequested,
    UpdateRequested,
    floor_of,
    type_row,
)
from topolog.events.object_types import DEFINITION_BYTES_MAX, DeclaredType, ObjectType, merge, size_bytes, validate
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.streams.rules.allowed import check
from topolog.streams.rules.verdict import Reports, proceeds, verdict

ACCEPTED_MAX = 1_000
"""Acceptances in one set; the rest follow in the next."""


def decide(state: State, request: MetadataRequest, ref: RequestRef) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing."""
    match request:
        case UpdateRequested():
            return [_propose(state, request, ref)]
        case TypeRemovalRequested():
            return [_remove(state, request, ref)]


def declare(state: State, declared: Iterable[DeclaredType]) -> list[Decision]:
    """The proposals that a joining node's own types lead to (ME28, ME29).

    Raises Refused if one of them contradicts the cluster's, is stale or is declared twice, or if the state of the
    cluster allows no new ones.
    """
    proposals: list[Decision] = []
    seen: set[TypeId] = set()
    for each in declared:
        definition = each.definition
        if definition.type_id in seen:
            raise Refused("BAD_DEFINITION", "ME28", f"Type {definition.name!r} is declared twice by one joining node.")
        seen.add(definition.type_id)
        merged = _merged(state, definition, each.version)
        if merged is not _pending(state, definition.name):
            version = _next_version(state, definition.name)
            proposals.append(MetadataUpdateProposed(None, definition.name, version, merged))
    check(state, proposals)
    return proposals


def settle(state: State, reports: Reports, waited_through: Position) -> list[Decision]:
    """The acceptances that what was reported and waited for leads to: one, cumulative, per type.

    `waited_through`: every decision up to it was read back at least proceed_ms ago. Verdicts are monotone in the
    position, so the first proposal that must wait ends the pass.
    """
    accepted: dict[str, Decision] = {}
    waiting = [row for _, row in state.rows(ProposalRow)] + [row for _, row in state.rows(RemovalRow)]
    for row in sorted(waiting, key=lambda row: row.position):
        waited = row.position <= waited_through
        if not proceeds(state, row.position, reports, waited=waited):
            break
        found = verdict(state, row.position, reports, waited=waited)
        if isinstance(row, ProposalRow):
            accepted[row.name] = MetadataUpdateAccepted(row.name, row.version, found.evidence)
        else:
            accepted[row.name] = MetadataRemoveAccepted(row.name, _last_version(state, row.name), found.evidence)
    return list(accepted.values())[:ACCEPTED_MAX]


def _propose(state: State, request: UpdateRequested, ref: RequestRef) -> Decision:
    definition = request.definition
    _check_proposer(state, request)
    try:
        merged = _merged(state, definition, request.based_on)
    except MergeConflict as conflict:
        return _rejected(state, definition, ref, conflict)
    if merged is _pending(state, definition.name):
        return RequestUnchanged(ref, f"type {definition.name}", _last_version(state, definition.name))
    return MetadataUpdateProposed(ref, definition.name, _next_version(state, definition.name), merged)


def _remove(state: State, request: TypeRemovalRequested, ref: RequestRef) -> Decision:
    row = type_row(state, request.type_name)
    if row is None or row.name != request.type_name:
        raise Refused(
            "TYPE_UNKNOWN", "ME23", f"There is no type {request.type_name!r}.", hint="See `topolog get types`."
        )
    if row.removing:
        raise Refused("TYPE_REMOVING", "ME23", f"Type {row.name!r} is being removed already.")
    if row.pending_version != row.accepted_version:
        facts = {"pending_version": str(row.pending_version), "accepted_version": str(row.accepted_version)}
        message = f"Type {row.name!r} is being updated: version {row.pending_version} is not accepted yet. Try again."
        raise Refused("TYPE_BUSY", "ME23", message, facts)
    return MetadataRemoveProposed(ref, row.name, row.pending_version)


def _check_proposer(state: State, request: UpdateRequested) -> None:
    if request.node is None:
        return
    row = state.get(NodeRow, request.node)
    if row is None or not row.is_member or row.incarnation != request.incarnation:
        facts = {"incarnation": str(request.incarnation), "member": str(row.incarnation if row else None)}
        message = f"Incarnation {request.incarnation} of node {request.node!r} is not a member; it must join again."
        raise Refused("STALE_INCARNATION", "ME31", message, facts)


def _merged(state: State, definition: ObjectType, based_on: int) -> ObjectType:
    """The type's pending content with the definition merged in; `based_on` is the version its maker had seen."""
    name = definition.name
    try:
        validate(definition)
    except BadInput as error:
        raise Refused("BAD_DEFINITION", "ME2", error.message) from error
    floor, newest = floor_of(state, name), _last_version(state, name)
    if not 0 <= based_on <= newest:
        facts = {"based_on": str(based_on), "newest": str(newest)}
        raise Refused("VERSION_UNKNOWN", "ME12", f"Type {name!r} never had version {based_on}.", facts)
    if 0 < based_on <= floor:
        facts = {"based_on": str(based_on), "floor": str(floor)}
        message = (
            f"Type {name!r} was removed at version {floor}; what was built on version {based_on} cannot come back."
        )
        raise Refused("STALE_METADATA", "ME26", message, facts)
    row = type_row(state, name)
    if row is not None and row.removing:
        raise Refused("TYPE_REMOVING", "ME24", f"Type {name!r} is being removed. Propose it again when that is done.")
    _check_size(definition)
    merged = merge(row.pending if row else None, definition)
    _check_size(merged)
    return merged


def _check_size(definition: ObjectType) -> None:
    if (size := size_bytes(definition)) > DEFINITION_BYTES_MAX:
        message = f"Type {definition.name!r} would take {size} bytes, the limit is {DEFINITION_BYTES_MAX}."
        raise Refused("TOO_LARGE", "ME30", message, {"bytes": str(size)})


def _rejected(state: State, definition: ObjectType, ref: RequestRef, conflict: MergeConflict) -> MetadataUpdateRejected:
    current = _pending(state, definition.name)
    assert current is not None, "nothing contradicts a type that is not there"
    return MetadataUpdateRejected(
        request=ref,
        type_name=definition.name,
        code=conflict.code,
        rule=conflict.rule,
        message=conflict.message,
        facts=conflict.facts,
        current=current,
        proposed=definition,
    )


def _pending(state: State, name: str) -> ObjectType | None:
    row = type_row(state, name)
    return row.pending if row else None


def _last_version(state: State, name: str) -> Version:
    row = type_row(state, name)
    return row.pending_version if row else floor_of(state, name)


def _next_version(state: State, name: str) -> Version:
    return Version(_last_version(state, name) + 1)
