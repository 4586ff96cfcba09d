"""What can be asked of the cluster, and the one outcome each request gets (K7).

Threat: a caller that never hears back and asks again. A request therefore has an id, (requester, sequence), chosen by
the caller before it is sent; the first decision about it is its outcome for ever, a repeat gets that outcome and no
second effect, and other content under an id that has its outcome changes nothing (its sender sees by the digest).
Kept are, per requester, the highest sequence and the outcomes of the last 64 sequences; a requester that has been idle
for a day is forgotten by a decision, but for its highest sequence (`forgotten.py`).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, ClassVar

import msgspec

from topolog.events import forgotten
from topolog.events import repair_requests as r
from topolog.events.asked import SEQUENCE_MAX, SUBJECT_CHARS_MAX, Request, RequestId, RequestRef
from topolog.events.cluster_state import ClusterState
from topolog.events.decision import Decision
from topolog.events.group_definition import GroupDefinition, LossPolicy
from topolog.events.ids import Place, Position, TopologyVersion
from topolog.events.names import is_printable
from topolog.events.object_definition import Statement
from topolog.events.object_types import ObjectType
from topolog.events.repair_requests import RepairRequest
from topolog.events.state import Row, State
from topolog.events.views import Past

REQUEST_BYTES_MAX = 850_000
"""Largest request: a decision that carries it must stay below the limit of a record."""

MESSAGE_CHARS_MAX = 2_000
"""What a request contains comes back in its refusal, quoted more than once, and that must fit a record too."""

FACTS_MAX = 50
"""So many facts of a refusal are kept: some name each group or member."""

OUTCOMES_KEPT = 64
IDLE_REQUESTER_MS = 24 * 3_600_000


class NodeKind(Enum):
    """A SERVER holds a lease and counts for verdicts; a CLIENT only reads and asks."""

    UNKNOWN = "UNKNOWN"
    SERVER = "SERVER"
    CLIENT = "CLIENT"


class DeclaredType(msgspec.Struct, frozen=True):
    """A type a joining node already knows, and the version it knew it at; 0 when it defines the type anew."""

    definition: ObjectType
    version: int


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

    joiner: Joiner
    past: Past | None = None


class NodeRemovalRequested(Request, frozen=True):
    node: str


class UpdateRequested(Request, frozen=True):
    """Proposal to add `definition` to the type of its name, built on `based_on`, the version its maker had seen."""

    definition: ObjectType
    based_on: int
    node: str | None = None
    incarnation: int | None = None


class TypeRemovalRequested(Request, frozen=True):
    type_name: str


class LevelRaiseRequested(Request, frozen=True):
    level: int


class GroupCreationRequested(Request, frozen=True):
    group: GroupDefinition


class GroupAlterationRequested(Request, frozen=True):
    """What is None stays as it is; a node filter that is given stands in place of the one before. `harmless`: it is
    refused where, once it is decided, copies or what they hold could be lost by it."""

    name: str
    partitions: int | None = None
    backups: int | None = None
    exclude_neighbours_by: str | None = None
    node_filter: Mapping[str, str] | None = None
    backup_filter: str | None = None
    loss_policy: LossPolicy | None = None
    persistent: bool | None = None
    harmless: bool | None = None


class GroupDropRequested(Request, frozen=True):
    name: str


class LossResetRequested(Request, frozen=True):
    """Give up what is lost of group `name` (EX19)."""

    name: str


class ExchangeRequested(Request, frozen=True):
    """Ask all servers for their maps although nothing has changed."""


class BaselineVerb(Enum):
    """How a baseline is to change. VERSION: to the servers of a former view."""

    UNKNOWN = "UNKNOWN"
    SET = "SET"
    ADD = "ADD"
    REMOVE = "REMOVE"
    VERSION = "VERSION"


class ClusterStateRequested(Request, frozen=True):
    target: ClusterState


class BaselineChangeRequested(Request, frozen=True):
    """`version` belongs to VERSION, `nodes` to the others; `accepts_loss`: the last copies of partitions may go."""

    verb: BaselineVerb
    nodes: tuple[str, ...]
    accepts_loss: bool
    version: TopologyVersion | None = None


class HoldRequested(Request, frozen=True):
    """`harmless`: it is refused where, once it is decided, it would let a cluster go on that is not active."""

    held: bool
    harmless: bool | None = None


class AutoAdjustRequested(Request, frozen=True):
    """What is None stays as it is."""

    enabled: bool | None = None
    soft_ms: int | None = None
    hard_ms: int | None = None


class WarmRequested(Request, frozen=True):
    """Go on with those that are here, though the cluster is cold."""


class DrainRequested(Request, frozen=True):
    """A server is to hand over all it holds, and to count no more; `cancelled` takes that back."""

    node: str
    cancelled: bool


class LeaseTermsRequested(Request, frozen=True):
    """What is None stays as it is."""

    fence_ms: int | None = None
    margin_ms: int | None = None


class SchemaChangeRequested(Request, frozen=True):
    """Change definitions, all of them or none; given up after `deadline_ms`, None for as long as it takes."""

    statements: tuple[Statement, ...]
    deadline_ms: int | None = None


class ChangeCancellationRequested(Request, frozen=True):
    """Give up a change that is not committed yet."""

    change: int


class DeletionsConfirmed(Request, frozen=True):
    """This life of a server has deleted all data that these changes have closed."""

    node: str
    incarnation: int
    changes: tuple[int, ...]


AnyRequest = (
    JoinRequested
    | NodeRemovalRequested
    | UpdateRequested
    | TypeRemovalRequested
    | LevelRaiseRequested
    | GroupCreationRequested
    | GroupAlterationRequested
    | GroupDropRequested
    | LossResetRequested
    | ExchangeRequested
    | ClusterStateRequested
    | BaselineChangeRequested
    | HoldRequested
    | AutoAdjustRequested
    | WarmRequested
    | DrainRequested
    | LeaseTermsRequested
    | SchemaChangeRequested
    | ChangeCancellationRequested
    | DeletionsConfirmed
    | RepairRequest
)


class RequestRefused(Decision, frozen=True):
    request: RequestRef
    subject: str
    code: str
    rule: str
    message: str
    facts: Mapping[str, str]


class RequestUnchanged(Decision, frozen=True):
    """Nothing to do: what was asked holds already. `version` is the type's pending version, if a type was meant."""

    request: RequestRef
    subject: str
    version: int | None


class RequestersForgotten(Decision, frozen=True):
    requesters: tuple[str, ...]


RequestEvent = RequestRefused | RequestUnchanged | RequestersForgotten


def shortened(text: str) -> str:
    """A text out of a request, short enough to be repeated in a refusal."""
    return text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + "..."


def told_of(facts: Mapping[str, str], message: str) -> tuple[dict[str, str], str]:
    """A refusal's facts and message, as many and as long as fit a record."""
    kept = {shortened(name): shortened(fact) for name, fact in islice(facts.items(), FACTS_MAX)}
    return kept, shortened(message)


class Status(Enum):
    GRANTED = "GRANTED"
    REFUSED = "REFUSED"
    UNCHANGED = "UNCHANGED"


class OutcomeRow(Row, frozen=True):
    """The one outcome of one request. `subject` is what it was about, as `type Customer`; `version` a type's."""

    KIND: ClassVar[str] = "request"

    requester: str
    sequence: int
    digest: bytes
    subject: str
    status: Status
    position: Position
    version: int | None = None
    code: str = ""
    rule: str = ""
    message: str = ""
    facts: Mapping[str, str] = {}


class RequesterRow(Row, frozen=True):
    """How far one requester has come: `highest` sequence seen and the position of its last outcome. `floor`: up to
    which its outcomes are forgotten since it was idle for a day, 0 for one that never was."""

    KIND: ClassVar[str] = "requester"

    highest: int
    last_at: Position
    floor: int = 0


class LastGrantedRow(Row, frozen=True):
    """Where the newest decision stands that grants a request, but for the joining of a client, which changes nothing
    that a disk could hold: so far somebody has gone on with this log (`streams/rules/past.py`)."""

    KIND: ClassVar[str] = "last-granted"

    at: Position


def is_valid(request: RequestId) -> bool:
    """Whether outcomes can be kept under this id, and shown."""
    is_known = 0 < len(request.requester) <= SUBJECT_CHARS_MAX and is_printable(request.requester)
    return is_known and 1 <= request.sequence <= SEQUENCE_MAX


_SUBJECTS: Mapping[type[Request], str] = {
    JoinRequested: "node {0.joiner.node}",
    NodeRemovalRequested: "node {0.node}",
    UpdateRequested: "type {0.definition.name}",
    TypeRemovalRequested: "type {0.type_name}",
    LevelRaiseRequested: "feature-level {0.level}",
    GroupCreationRequested: "group {0.group.name}",
    GroupAlterationRequested: "group {0.name}",
    GroupDropRequested: "group {0.name}",
    LossResetRequested: "group {0.name}",
    ExchangeRequested: "exchange",
    ClusterStateRequested: "cluster state",
    BaselineChangeRequested: "baseline",
    HoldRequested: "hold",
    AutoAdjustRequested: "auto-adjust",
    WarmRequested: "cluster state",
    DrainRequested: "node {0.node}",
    LeaseTermsRequested: "lease-terms",
    SchemaChangeRequested: "schema",
    ChangeCancellationRequested: "change {0.change}",
    DeletionsConfirmed: "node {0.node}",
    r.ReplicaDeclarationRequested: "replica {0.replica.id}",
    r.ReplicaWithdrawalRequested: "replica {0.table}@{0.name}",
    r.SessionRequested: "table {0.definition.table}",
    r.SessionAlterationRequested: "session {0.session}",
    r.SessionAbortRequested: "sessions",
    r.TaskReported: "session {0.task.session}",
    r.ComparisonReported: "session {0.session}",
    r.FindingsReported: "session {0.session}",
    r.ScheduleRequested: "schedule {0.name}",
    r.ScheduleDropRequested: "schedule {0.name}",
}


def subject_of(request: AnyRequest) -> str:
    """What a request is about, in the words of the CLI: `node n3`, `type Customer`."""
    return _SUBJECTS[type(request)].format(request)


def outcome_key(requester: str, sequence: int) -> str:
    return f"{requester}/{sequence:019d}"


def outcome_of(state: State, request: RequestId | RequestRef) -> OutcomeRow | None:
    return state.get(OutcomeRow, outcome_key(request.requester, request.sequence))


def is_forgotten(state: State, request: RequestId | RequestRef) -> bool:
    """Whether an outcome for this request would no longer be kept, so that nobody can say if there was one."""
    return request.sequence <= forgotten_to(state, request.requester)


def forgotten_to(state: State, requester: str) -> int:
    """Up to which sequence a requester's outcomes are no longer kept; 0 or less if that is true of none."""
    row = state.get(RequesterRow, requester)
    return max(row.highest - OUTCOMES_KEPT, row.floor) if row else forgotten.highest_remembered(state, requester)


def conclude(state: State, ref: RequestRef, place: Place, status: Status, subject: str, **rest: Any) -> None:
    """Keep the first outcome of a request, and drop those that fall out of its requester's window; a joining that has
    waited may be out of it already.

    `rest`: the fields of OutcomeRow that depend on the status (version; code, rule, message, facts).
    """
    key = outcome_key(ref.requester, ref.sequence)
    assert state.get(OutcomeRow, key) is None, f"a second outcome for request {ref}"
    outcome = OutcomeRow(ref.requester, ref.sequence, ref.digest, subject, status, place.position, **rest)
    before = state.get(RequesterRow, ref.requester)
    floor = before.floor if before else forgotten.highest_remembered(state, ref.requester)
    was = before.highest if before else floor
    highest = max(was, ref.sequence)
    if ref.sequence > highest - OUTCOMES_KEPT:
        state.put(key, outcome)
    state.put(ref.requester, RequesterRow(highest, place.position, floor))
    state.drop(forgotten.ForgottenRow, ref.requester)
    for sequence in range(max(1, was - OUTCOMES_KEPT + 1), min(was, highest - OUTCOMES_KEPT) + 1):
        state.drop(OutcomeRow, outcome_key(ref.requester, sequence))


def grant(state: State, ref: RequestRef, place: Place, subject: str, version: int | None = None) -> None:
    """Record that the decision at `place` grants the request."""
    conclude(state, ref, place, Status.GRANTED, subject, version=version)
    state.put("", LastGrantedRow(place.position))


def evolve(state: State, event: RequestEvent, place: Place) -> None:
    match event:
        case RequestRefused():
            refusal = {name: getattr(event, name) for name in ("code", "rule", "message", "facts")}
            conclude(state, event.request, place, Status.REFUSED, event.subject, **refusal)
        case RequestUnchanged():
            conclude(state, event.request, place, Status.UNCHANGED, event.subject, version=event.version)
        case RequestersForgotten():
            _forget(state, event.requesters, place)


def _forget(state: State, requesters: Iterable[str], place: Place) -> None:
    highest: dict[str, int] = {}
    for requester in requesters:
        row = state.get(RequesterRow, requester)
        if row is not None:
            highest[requester] = row.highest
            _drop_all(state, requester, row)
    forgotten.remember(state, highest, place.position)


def _drop_all(state: State, requester: str, row: RequesterRow) -> None:
    for sequence in range(max(1, row.highest - OUTCOMES_KEPT + 1), row.highest + 1):
        state.drop(OutcomeRow, outcome_key(requester, sequence))
    state.drop(RequesterRow, requester)
