"""The bodies of POST /requests that are about sessions of anti-entropy, schedules and replicas."""

from typing import Annotated, Literal

import msgspec

from topolog.events import token_range
from topolog.events.asked import RequestId
from topolog.events.errors import BadInput
from topolog.events.ids import Position
from topolog.events.repair_definition import (
    SEGMENTS_MAX,
    Order,
    Policy,
    Rendezvous,
    SessionDefinition,
    SessionKind,
)
from topolog.events.repair_requests import (
    RepairRequest,
    ReplicaWithdrawalRequested,
    ScheduleDropRequested,
    ScheduleRequested,
    SessionAbortRequested,
    SessionAlterationRequested,
    SessionRequested,
)
from topolog.events.repair_tasks import RANGES_MAX
from topolog.events.tree_spec import Strength, TokenMode
from topolog.projections.api.problems import InvalidParameter

_POSITION_MAX = 2**63 - 1
_CHARS_MAX = 1_000
_NAMES_MAX = 1_000

Number = Annotated[int, msgspec.Meta(ge=0, le=_POSITION_MAX)]
Ms = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Name = Annotated[str, msgspec.Meta(max_length=_CHARS_MAX)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=_NAMES_MAX)]
Range = Annotated[str, msgspec.Meta(max_length=40)]


class SessionForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a session is to do. Everything but `table` and `session` may be left out.

    `ranges`: FULL, or tokens in hexadecimal as `40000000..80000000`, which may wrap; the end is not included.
    """

    table: Annotated[str, msgspec.Meta(min_length=1, max_length=_CHARS_MAX)]
    session: Literal["PREVIEW", "REPAIR"] = "PREVIEW"
    policy: Literal["REPORT", "PULL", "UNION"] = "REPORT"
    source: Name = ""
    version_column: Name = ""
    tombstone_column: Name = ""
    grace_ms: Ms = 0
    reviewed_at_ms: Ms = 0
    deletes_extra: bool = False
    replicas: Names = ()
    node: Name = ""
    initiator: Name = ""
    datacenter: Name = ""
    ranges: Annotated[tuple[Range, ...], msgspec.Meta(max_length=RANGES_MAX)] = ()
    columns: Names = ()
    ignored: Names = ()
    strength: Literal["FAST", "STRONG", "PROOF"] = "FAST"
    mode: Literal["HASHED", "ORDERED"] = "HASHED"
    bits: Count = 0
    order: Literal["PARALLEL", "SEQUENTIAL", "DATACENTER_PARALLEL"] = "PARALLEL"
    rendezvous: Literal["EARLY", "ALL"] = "ALL"
    segments: Annotated[int, msgspec.Meta(ge=1, le=SEGMENTS_MAX)] = 1
    parallel: Count = 1
    intensity: Annotated[int, msgspec.Meta(ge=1, le=100)] = 100
    retries: Count = 2
    halves: bool = False
    recheck: bool = True
    allow_partial: bool = False
    queues: bool = False
    preview: Number | None = None
    prepare_ms: Ms = 60_000
    stall_ms: Ms = 120_000
    deadline_ms: Ms | None = None


class StartSession(SessionForm, frozen=True, tag_field="kind", tag="start-session", forbid_unknown_fields=True):
    """Compare the replicas of a table, or repair them. `session` is PREVIEW or REPAIR."""

    reason: str = ""


class AlterSession(msgspec.Struct, frozen=True, tag_field="kind", tag="alter-session", forbid_unknown_fields=True):
    """Pause or resume a session, or change its pace: what is null stays as it is."""

    session: Number
    paused: bool | None = None
    intensity: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    parallel: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    reason: str = ""


class AbortSessions(msgspec.Struct, frozen=True, tag_field="kind", tag="abort-sessions", forbid_unknown_fields=True):
    """End one session, or all with null: no row is written for it any more."""

    session: Number | None
    reason: str = ""


class SetSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="set-schedule", forbid_unknown_fields=True):
    """Open a session like this each `every_ms`; one of this name is replaced."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_CHARS_MAX)]
    definition: SessionForm
    every_ms: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    paused: bool = False
    reason: str = ""


class DropSchedule(msgspec.Struct, frozen=True, tag_field="kind", tag="drop-schedule", forbid_unknown_fields=True):
    """Open no more sessions by this schedule."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_CHARS_MAX)]
    reason: str = ""


class WithdrawReplica(
    msgspec.Struct, frozen=True, tag_field="kind", tag="withdraw-replica", forbid_unknown_fields=True
):
    """Ask this replica no more: nobody serves it. Its validator declares it again when it starts."""

    table: Annotated[str, msgspec.Meta(min_length=1, max_length=_CHARS_MAX)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=_CHARS_MAX)]
    reason: str = ""


RepairForm = StartSession | AlterSession | AbortSessions | SetSchedule | DropSchedule | WithdrawReplica


def to_request(form: RepairForm, name: RequestId, log_id: bytes, actor: str) -> RepairRequest:
    """The request a form asks for; raises BadInput for ranges that are none."""
    head = (name, log_id, actor, form.reason)
    match form:
        case StartSession():
            return SessionRequested(*head, _definition(form, "ranges"))
        case AlterSession():
            session = Position(form.session)
            return SessionAlterationRequested(*head, session, form.paused, form.intensity, form.parallel)
        case AbortSessions():
            return SessionAbortRequested(*head, None if form.session is None else Position(form.session))
        case SetSchedule():
            definition = _definition(form.definition, "definition.ranges")
            return ScheduleRequested(*head, form.name, definition, form.every_ms, form.paused)
        case DropSchedule():
            return ScheduleDropRequested(*head, form.name)
        case WithdrawReplica():
            return ReplicaWithdrawalRequested(*head, form.table, form.name)


def _definition(form: SessionForm, parameter: str) -> SessionDefinition:
    said = {name: getattr(form, name) for name in SessionForm.__struct_fields__ if name not in _TOLD_OTHERWISE}
    return SessionDefinition(
        kind=SessionKind(form.session),
        policy=Policy(form.policy),
        strength=Strength(form.strength),
        mode=TokenMode(form.mode),
        order=Order(form.order),
        rendezvous=Rendezvous(form.rendezvous),
        ranges=_ranges(form.ranges, parameter),
        preview=None if form.preview is None else Position(form.preview),
        **said,
    )


_TOLD_OTHERWISE = frozenset({"session", "policy", "strength", "mode", "order", "rendezvous", "ranges", "preview"})


def _ranges(given: tuple[str, ...], parameter: str) -> token_range.Ranges:
    if not given:
        return (token_range.FULL,)
    try:
        ranges = token_range.union(piece for text in given for piece in token_range.parse(text))
    except BadInput as error:
        raise InvalidParameter(parameter, error.message, hint=error.hint) from error
    if len(ranges) > RANGES_MAX:
        raise InvalidParameter(parameter, f"they are more than {RANGES_MAX}", hint="Ask for fewer, larger ones.")
    return ranges
