"""Metadata agreement: one definition of each type, the same everywhere (docs/design/metadata.md).

Threats. Two services write rows of one type with contradicting fields; a reader meets a schema that nobody has told it
of; a proposer is told "accepted" while some node still answers from the definition before; a node that returns brings
back a type that was removed.

Invariant. Each type has a pending version P and an accepted version A, A <= P. A version, once proposed, is never taken
back and belongs to one proposal. Accepted at A means: every server that may answer has applied A.

Argument. A proposal is merged into the *pending* content by the coordinator and logged merged, so versions follow the
order of the log, every reader holds identical content at each version, and a conflict is refused before it gets a
number. Acceptance is the verdict of `streams/rules/verdict.py` at the proposal's position: each server holding a lease
has applied it, or provably serves nothing. Numbers never restart: a removal leaves its last version as a floor, and
content based on a version at or below the floor is refused.
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.ids import Place, Position, TypeId, Version
from topolog.events.object_types import ObjectType, field_id, merge, schema_id, type_id
from topolog.events.requests import Status, conclude, grant
from topolog.events.state import Row, State

__all__ = [
    "FloorRow",
    "MetadataEvent",
    "MetadataRemoveAccepted",
    "MetadataRemoveProposed",
    "MetadataUpdateAccepted",
    "MetadataUpdateProposed",
    "MetadataUpdateRejected",
    "ObjectType",
    "ProposalRow",
    "RemovalRow",
    "TypeRow",
    "evolve",
    "field_id",
    "floor_of",
    "merge",
    "removal_of",
    "schema_id",
    "type_id",
    "type_row",
]


class TypeRow(Row, frozen=True):
    """One type, under its id. `accepted` is None until its first version is accepted."""

    KIND: ClassVar[str] = "type"

    type_id: TypeId
    name: str
    accepted_version: Version
    accepted: ObjectType | None
    accepted_at: Position | None
    evidence: Evidence | None
    pending_version: Version
    pending: ObjectType
    proposed_at: Position
    removing: bool = False


class ProposalRow(Row, frozen=True):
    """A version that is proposed and not yet accepted, under `<type id>/<version>`."""

    KIND: ClassVar[str] = "proposal"

    type_id: TypeId
    name: str
    version: Version
    definition: ObjectType
    position: Position
    request: str


class RemovalRow(Row, frozen=True):
    """A removal that is proposed and not yet accepted, under the type's id."""

    KIND: ClassVar[str] = "removal"

    type_id: TypeId
    name: str
    position: Position


class FloorRow(Row, frozen=True):
    """A removed type: content based on `version` or lower never comes back (ME26)."""

    KIND: ClassVar[str] = "type-floor"

    name: str
    version: Version
    removed_at: Position


class UpdateRequested(Request, frozen=True):
    """Proposal to add `definition` to the type of its name, built on `based_on`, the version its maker had seen."""

    SUBJECT: ClassVar[str] = "type {0.definition.name}"

    definition: ObjectType
    based_on: int
    node: str | None = None
    incarnation: int | None = None


class TypeRemovalRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "type {0.type_name}"

    type_name: str


MetadataRequest = UpdateRequested | TypeRemovalRequested


class MetadataUpdateProposed(Decision, frozen=True):
    """`definition` is the merged content of `version`. `request` is None for a type that a joining node declared."""

    request: RequestRef | None
    type_name: str
    version: Version
    definition: ObjectType


class MetadataUpdateRejected(Decision, frozen=True):
    """Both sides of the contradiction: `current` is the pending content."""

    request: RequestRef
    type_name: str
    code: str
    rule: str
    message: str
    facts: Mapping[str, str]
    current: ObjectType
    proposed: ObjectType


class MetadataUpdateAccepted(Decision, frozen=True):
    """Cumulative: every pending version of the type up to `version` is accepted."""

    type_name: str
    version: Version
    evidence: Evidence


class MetadataRemoveProposed(Decision, frozen=True):
    request: RequestRef
    type_name: str
    version: Version


class MetadataRemoveAccepted(Decision, frozen=True):
    type_name: str
    floor: Version
    evidence: Evidence


MetadataEvent = (
    MetadataUpdateProposed
    | MetadataUpdateRejected
    | MetadataUpdateAccepted
    | MetadataRemoveProposed
    | MetadataRemoveAccepted
)


def type_row(state: State, name: str) -> TypeRow | None:
    """The row of the type whose id is that of `name`; its own name may differ (two names with one hash, ME4)."""
    return state.get(TypeRow, str(type_id(name)))


def removal_of(state: State, name: str) -> RemovalRow:
    """The removal that is under way of a type that is being removed."""
    row = state.get(RemovalRow, str(type_id(name)))
    assert row is not None, "what is being removed has been proposed to be"
    return row


def floor_of(state: State, name: str) -> Version:
    """The highest version of a removed type of this name, 0 if there was none."""
    row = state.get(FloorRow, str(type_id(name)))
    return row.version if row else Version(0)


def evolve(state: State, event: MetadataEvent, place: Place) -> None:
    match event:
        case MetadataUpdateProposed():
            _propose(state, event, place)
        case MetadataUpdateRejected():
            _reject(state, event, place)
        case MetadataUpdateAccepted():
            _accept(state, event, place)
        case MetadataRemoveProposed():
            _start_removal(state, event, place)
        case MetadataRemoveAccepted():
            _remove(state, event, place)


def _propose(state: State, event: MetadataUpdateProposed, place: Place) -> None:
    key, position = type_id(event.type_name), place.position
    before = state.get(TypeRow, str(key))
    if before is None:
        row = TypeRow(key, event.type_name, Version(0), None, None, None, event.version, event.definition, position)
    else:
        row = msgspec.structs.replace(
            before, pending_version=event.version, pending=event.definition, proposed_at=position
        )
    state.put(str(key), row)
    request = str(event.request or "")
    proposal = ProposalRow(key, event.type_name, event.version, event.definition, position, request)
    state.put(f"{key}/{event.version}", proposal)
    if event.request:
        grant(state, event.request, place, f"type {event.type_name}", event.version)


def _reject(state: State, event: MetadataUpdateRejected, place: Place) -> None:
    refusal = {name: getattr(event, name) for name in ("code", "rule", "message", "facts")}
    conclude(state, event.request, place, Status.REFUSED, f"type {event.type_name}", **refusal)


def _accept(state: State, event: MetadataUpdateAccepted, place: Place) -> None:
    row = type_row(state, event.type_name)
    assert row is not None and row.accepted_version < event.version <= row.pending_version
    proposal = state.get(ProposalRow, f"{row.type_id}/{event.version}")
    assert proposal is not None
    accepted = msgspec.structs.replace(
        row,
        accepted_version=event.version,
        accepted=proposal.definition,
        accepted_at=place.position,
        evidence=event.evidence,
    )
    state.put(str(row.type_id), accepted)
    for version in range(row.accepted_version + 1, event.version + 1):
        state.drop(ProposalRow, f"{row.type_id}/{version}")


def _start_removal(state: State, event: MetadataRemoveProposed, place: Place) -> None:
    row = type_row(state, event.type_name)
    assert row is not None
    state.put(str(row.type_id), msgspec.structs.replace(row, removing=True))
    state.put(str(row.type_id), RemovalRow(row.type_id, row.name, place.position))
    grant(state, event.request, place, f"type {row.name}", event.version)


def _remove(state: State, event: MetadataRemoveAccepted, place: Place) -> None:
    key = str(type_id(event.type_name))
    state.drop(TypeRow, key)
    state.drop(RemovalRow, key)
    state.put(key, FloorRow(event.type_name, event.floor, place.position))
