"""The one outcome that each request gets, whichever protocol it asks (K7).

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

from topolog.events import forgotten
from topolog.events.asked import SEQUENCE_MAX, SUBJECT_CHARS_MAX, RequestId, RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.names import is_printable
from topolog.events.state import Row, State

REQUEST_BYTES_MAX = 850_000
"""Largest request: a decision that carries it must stay below the limit of a record."""

MESSAGE_CHARS_MAX = 2_000
"""What a request contains comes back in its refusal, quoted more than once, and that must fit a record too."""

FACTS_MAX = 50
"""So many facts of a refusal are kept: some name each group or member."""

OUTCOMES_KEPT = 64
IDLE_REQUESTER_MS = 24 * 3_600_000


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
