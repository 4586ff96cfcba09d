"""Rules of sessions: what is opened, queued, refused, altered and aborted, and how a session ends (RE1, RE28).

The argument stands in `events/repair.py`, what is compared in `repair_spec.py`, what a segment does in
`repair_steps.py`.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from topolog.events.asked import SUBJECT_CHARS_MAX, RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.repair import (
    AbortGranted,
    SessionAltered,
    SessionEnded,
    SessionOpened,
    SessionQueued,
)
from topolog.events.repair_definition import SEGMENTS_MAX, Policy, SessionDefinition, SessionKind
from topolog.events.repair_requests import SessionAbortRequested, SessionAlterationRequested, SessionRequested
from topolog.events.repair_tasks import RANGES_MAX
from topolog.events.replica import REPLICAS_MAX, ReplicaDefinition
from topolog.events.replicas import replica, replicas_of
from topolog.events.requests import RequestUnchanged, shortened
from topolog.events.sessions import (
    SegmentRow,
    SegmentStatus,
    SessionRow,
    SessionStatus,
    open_sessions,
    segments,
    session,
)
from topolog.events.state import State
from topolog.events.token_range import FULL, Ranges, coarsened, overlap, union, without
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.events.tree_spec import BITS_MAX, BITS_MIN, TreeSpec
from topolog.streams.rules import repair_spec

SESSIONS_OPEN_MAX = 64
PARALLEL_MAX = 64
RETRIES_MAX = 10
WAIT_MS_MAX = 30 * 86_400_000
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""

COLUMNS_MAX = 1_000
OPENED_BYTES_MAX = RECORD_BYTES_MAX - 10_000
"""Of the decision that opens a session, its stamp apart."""

_LIMITS = {
    "segments": (1, SEGMENTS_MAX),
    "parallel": (1, PARALLEL_MAX),
    "intensity": (1, 100),
    "retries": (0, RETRIES_MAX),
    "prepare_ms": (1, WAIT_MS_MAX),
    "stall_ms": (1, WAIT_MS_MAX),
    "grace_ms": (0, WAIT_MS_MAX * 12),
    "reviewed_at_ms": (0, TIME_MS_MAX),
}


def requested(
    state: State, request: SessionRequested, ref: RequestRef, end: Position, asked_at_ms: int
) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing."""
    definition = reviewed(effective(state, request.definition), asked_at_ms)
    check_room(state)
    others = in_the_way(state, definition, before=None)
    if others and not definition.queues:
        hint = "--queue waits for it."
        raise Refused(
            "OVERLAP", "RE27", overlap_with(others[0], definition), {"session": str(others[0].number)}, hint=hint
        )
    if others:
        return [SessionQueued(ref, definition)]
    return opened(state, definition, request=ref, number=Position(end + 1))


def check_room(state: State) -> None:
    if len(open_sessions(state)) >= SESSIONS_OPEN_MAX:
        raise Refused("TOO_MANY_SESSIONS", "RE28", f"{SESSIONS_OPEN_MAX} sessions are open already.")


def reviewed(definition: SessionDefinition, at_ms: int) -> SessionDefinition:
    """By the later of both clocks: what began to wait long ago, or was asked for by a clock that is behind, knows
    nothing of what has been forgotten meanwhile (RE23)."""
    return msgspec.structs.replace(definition, reviewed_at_ms=max(definition.reviewed_at_ms, at_ms))


def from_queue(state: State, row: SessionRow, at_ms: int) -> list[Decision]:
    """A queued session that nobody stands in the way of any more; empty while somebody does."""
    if in_the_way(state, row.definition, before=row.number):
        return []
    try:
        definition = _named(state, _placed(state, row.definition))
        if in_the_way(state, definition, before=row.number):
            return []
        return opened(state, reviewed(definition, at_ms), number=row.number, is_queued=True)
    except Refused as refusal:
        message = shortened(refusal.message)
        return [_ended(row.number, SessionStatus.FAILED, refusal.code, message, (), row.definition.ranges)]


def in_the_way(state: State, definition: SessionDefinition, before: Position | None) -> list[SessionRow]:
    """Repairs that may be of some of these tokens and are open, or were queued earlier; none stands in the way of a
    preview. Ranges say who is who only where rows get their tokens in one way."""
    if definition.kind is not SessionKind.REPAIR:
        return []
    return [
        row
        for row in open_sessions(state)
        if row.definition.table == definition.table
        and row.definition.kind is SessionKind.REPAIR
        and (before is None or row.number < before)
        and (row.definition.tokens != definition.tokens or overlap(row.definition.ranges, definition.ranges))
    ]


def overlap_with(row: SessionRow, definition: SessionDefinition) -> str:
    """The sentence on a session that stands in the way."""
    if row.definition.tokens == definition.tokens:
        return f"Session {row.number} repairs some of these tokens."
    return f"Session {row.number} repairs this table, and its rows get their tokens in another way."


def opened(
    state: State,
    definition: SessionDefinition,
    *,
    number: Position,
    request: RequestRef | None = None,
    is_queued: bool = False,
    schedule: str = "",
) -> list[Decision]:
    """A session as it begins; one that has nothing to compare, or cannot compare it, ends in the same set."""
    chosen = participants(state, definition)
    queued = number if is_queued else None
    try:
        spec = repair_spec.tree_spec(definition, chosen)
    except Refused as refusal:
        if refusal.code != "SCHEMA_MISMATCH":
            raise
        message = f"{refusal.message} {'; '.join(f'{name}: {fact}' for name, fact in refusal.facts.items())}"
        bare = TreeSpec(definition.table, (), (), BITS_MIN)
        begun = SessionOpened(request, queued, definition, bare, (), schedule)
        return [begun, _ended(number, SessionStatus.FAILED, refusal.code, shortened(message), (), definition.ranges)]
    definition = _by_tokens(definition, spec.tokens)
    plans = repair_spec.segments(definition, chosen, spec.bits)
    begun = SessionOpened(request, queued, definition, spec, plans, schedule)
    _check_size(begun)
    if plans:
        return [begun]
    message = "Only one replica holds these tokens, so there is nothing to compare it with."
    return [begun, _ended(number, SessionStatus.SKIPPED, "NO_NEIGHBOURS", message, (), definition.ranges)]


def _check_size(begun: SessionOpened) -> None:
    """All of a session stands in one record."""
    if (size := len(CODEC.encode(begun))) > OPENED_BYTES_MAX:
        message = f"The session would take {size} bytes, the limit is {OPENED_BYTES_MAX}."
        hint = "Fewer segments, columns or ranges make it smaller."
        raise Refused("TOO_LARGE", "RE28", message, {"bytes": str(size)}, hint=hint)


def effective(state: State, definition: SessionDefinition) -> SessionDefinition:
    """The definition with all that stands elsewhere put in: a node's tokens, those that a preview found to differ, and
    what tokens they are."""
    _check(definition)
    definition = _placed(state, msgspec.structs.replace(definition, ranges=union(definition.ranges) or (FULL,)))
    if definition.preview is not None:
        seen = _preview(state, definition, definition.preview)
        definition = msgspec.structs.replace(definition, ranges=seen.differing, tokens=seen.definition.tokens)
    return _named(state, definition)


def _named(state: State, definition: SessionDefinition) -> SessionDefinition:
    """With the name of its tokens; without, if the replicas do not go together, which is the end of a session."""
    try:
        return _by_tokens(definition, repair_spec.tree_spec(definition, participants(state, definition)).tokens)
    except Refused as refusal:
        if refusal.code != "SCHEMA_MISMATCH":
            raise
        return definition


def _placed(state: State, definition: SessionDefinition) -> SessionDefinition:
    """With what the node is to hold now."""
    if not definition.node:
        return definition
    held = replica(state, definition.table, definition.node)
    if held is None:
        raise _unknown(definition.node)
    return msgspec.structs.replace(definition, ranges=held.definition.ranges, tokens="")


def _by_tokens(definition: SessionDefinition, tokens: str) -> SessionDefinition:
    """The definition with the name of the tokens that its ranges speak of; all of them are all of any other kind."""
    if definition.tokens not in ("", tokens) and definition.ranges != (FULL,):
        message = "The ranges are of other tokens: rows get theirs by another key, another mode or other boundaries."
        hint = "Ask with the mode and the columns of the preview, or make a new one."
        raise Refused("OTHER_TOKENS", "RE15", message, {"ranges": definition.tokens, "session": tokens}, hint=hint)
    return msgspec.structs.replace(definition, tokens=tokens)


def _preview(state: State, definition: SessionDefinition, number: Position) -> SessionRow:
    row = session(state, number)
    if row is None or row.definition.table != definition.table or row.definition.kind is not SessionKind.PREVIEW:
        message = f"There is no preview {number} of table {definition.table!r}."
        raise Refused("NO_PREVIEW", "RE29", message, hint="`topolog get sessions` lists them.")
    if not row.status.is_end:
        raise Refused("NOT_ENDED", "RE29", f"Preview {number} has not ended yet.")
    if not row.differing:
        raise Refused("NOTHING_DIFFERS", "RE29", f"Preview {number} has found no row that differs.")
    return row


def participants(state: State, definition: SessionDefinition) -> list[ReplicaDefinition]:
    """The replicas that the session asks, the initiator first; raises Refused."""
    rows = {row.definition.name: row.definition for row in replicas_of(state, definition.table)}
    if not rows:
        message = f"No replica of a table {definition.table!r} is declared."
        hint = "`topolog run validator --replica TABLE@NAME=SOURCE` declares one."
        raise Refused("UNKNOWN_TABLE", "RE28", message, hint=hint)
    initiator = definition.initiator or definition.source or definition.node
    for name in (*definition.replicas, *filter(None, (initiator, definition.source))):
        if name not in rows:
            raise _unknown(name)
    chosen = [
        each
        for name, each in rows.items()
        if (not definition.replicas or name in definition.replicas)
        and (not definition.datacenter or each.datacenter == definition.datacenter)
    ]
    if not chosen or len(chosen) > REPLICAS_MAX:
        where = f" in datacenter {definition.datacenter!r}" if definition.datacenter else ""
        message = f"{len(chosen)} replicas{where} would be compared: it takes 1 to {REPLICAS_MAX}."
        hint = f"`topolog get replicas {definition.table}` shows what there is, and in which datacenter."
        raise Refused("BAD_REPLICAS", "RE28", message, hint=hint)
    for name in filter(None, (definition.node, definition.initiator)):
        if all(each.name != name for each in chosen):
            message = f"Replica {name!r} would not be compared: it is not one of those that are asked for."
            hint = "The names of the replicas, and the datacenter, must leave it in."
            raise Refused("BAD_REPLICAS", "RE28", message, hint=hint)
    _check_policy(definition, chosen)
    return sorted(chosen, key=lambda each: (each.name != initiator, each.name))


def _check_policy(definition: SessionDefinition, chosen: Sequence[ReplicaDefinition]) -> None:
    names = [each.name for each in chosen]
    policy, is_repair = definition.policy, definition.kind is SessionKind.REPAIR
    wrong = {
        "A repair needs to know which way rows go: --policy pull or union.": is_repair and policy is Policy.REPORT,
        "PULL needs the replica that is right: --source.": policy is Policy.PULL and definition.source not in names,
        "UNION needs the column that says which row is newer: --version-column.": (
            policy is Policy.UNION and not definition.version_column
        ),
        "Only PULL may delete what the source lacks.": definition.deletes_extra and policy is not Policy.PULL,
        "A table without a key can only be compared: nobody can say which row is which.": (
            is_repair and not chosen[0].key
        ),
        "None of these replicas can be written to.": is_repair and not any(each.is_writable for each in chosen),
    }
    for message, holds in wrong.items():
        if holds:
            raise Refused("BAD_POLICY", "RE2", message)


def _check(definition: SessionDefinition) -> None:
    enums = (definition.kind, definition.policy, definition.order, definition.rendezvous, definition.strength)
    for each in (*enums, definition.mode):
        if each.value == "UNKNOWN":
            raise Refused("BAD_DEFINITION", "RE28", f"The session's {type(each).__name__.lower()} is not known here.")
    for name, (least, most) in _LIMITS.items():
        _check_number(name, getattr(definition, name), least, most)
    if definition.bits:
        _check_number("bits", definition.bits, BITS_MIN, BITS_MAX)
    if definition.deadline_ms is not None:
        _check_number("deadline_ms", definition.deadline_ms, 1, WAIT_MS_MAX)
    texts = (definition.table, definition.source, definition.node, definition.initiator, definition.datacenter)
    names = (*texts, definition.tokens, *definition.replicas, *definition.columns, *definition.ignored)
    too_long = any(len(name) > SUBJECT_CHARS_MAX for name in names)
    if too_long or len(names) > COLUMNS_MAX or len(definition.ranges) > RANGES_MAX or not definition.table:
        raise Refused("BAD_DEFINITION", "RE28", "The session's names or ranges are too long, or too many, or missing.")
    twice = [name for name, count in Counter(definition.columns).items() if count > 1]
    if twice:
        raise Refused("BAD_DEFINITION", "RE28", f"Column {twice[0]!r} is asked for more than once.")


def _check_number(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Refused("BAD_DEFINITION", "RE28", f"{name} is {value}, and must be {least} to {most}.")


def _unknown(name: str) -> Refused:
    hint = "`topolog get replicas` lists those that are declared."
    return Refused("UNKNOWN_REPLICA", "RE28", f"No replica {name!r} of this table is declared.", hint=hint)


def altered(state: State, request: SessionAlterationRequested, ref: RequestRef) -> list[Decision]:
    """Pause, resume, another pace."""
    row = _open(state, request.session)
    for name in ("intensity", "parallel"):
        value = getattr(request, name)
        if value is not None:
            _check_number(name, value, *_LIMITS[name])
    asked = (request.paused, request.intensity, request.parallel)
    now = (row.paused, row.definition.intensity, row.definition.parallel)
    if all(new is None or new == old for new, old in zip(asked, now, strict=True)):
        return [RequestUnchanged(ref, request.subject, None)]
    return [SessionAltered(ref, row.number, *asked)]


def aborted(state: State, request: SessionAbortRequested, ref: RequestRef) -> list[Decision]:
    """An end of its own, never a success; a second abort changes nothing (RE3)."""
    if request.session is None:
        rows = open_sessions(state)
        if not rows:
            return [RequestUnchanged(ref, request.subject, None)]
    else:
        row = session(state, request.session)
        if row is not None and row.status is SessionStatus.ABORTED:
            return [RequestUnchanged(ref, request.subject, None)]
        rows = [_open(state, request.session)]
    said = request.reason or "asked for"
    ends = [concluded(state, row, SessionStatus.ABORTED, "ABORTED", shortened(f"Aborted: {said}")) for row in rows]
    return [*ends, AbortGranted(ref, tuple(row.number for row in rows))]


def _open(state: State, number: Position) -> SessionRow:
    row = session(state, number)
    if row is None:
        raise Refused("UNKNOWN_SESSION", "RE28", f"There is no session {number}.", hint="See `topolog get sessions`.")
    if row.status.is_end:
        raise Refused("SESSION_ENDED", "RE1", f"Session {number} has ended: {row.status.value}.")
    return row


def settle(state: State, row: SessionRow) -> list[Decision]:
    """The end of a session whose segments have all ended."""
    parts = segments(state, row)
    covered = _covered(parts)
    left = without(row.definition.ranges, covered)
    worst = next((each for each in parts if each.status is SegmentStatus.FAILED), None)
    told = worst or next((each for each in parts if each.code and (each.left or each.absent)), None)
    code, message = (told.code, told.message) if told else ("", "")
    if not covered and worst is not None:
        return [concluded(state, row, SessionStatus.FAILED, code, message)]
    if left or any(each.absent for each in parts):
        code = code or "NO_NEIGHBOURS"
        return [concluded(state, row, SessionStatus.PARTIAL, code, message or "Some of it has only one replica.")]
    return [concluded(state, row, SessionStatus.SUCCEEDED, "", "")]


def concluded(state: State, row: SessionRow, status: SessionStatus, code: str, message: str) -> SessionEnded:
    """The end of a session as it stands: what it covers is computed from its segments."""
    parts = segments(state, row)
    asked = row.definition.ranges
    left = coarsened(without(asked, _covered(parts)), RANGES_MAX, asked)
    covered = without(asked, left)
    differing = coarsened((each for part in parts for each in _differing_in(part)), RANGES_MAX, asked)
    return _ended(row.number, status, code, message, covered, left, differing)


def _covered(parts: Sequence[SegmentRow]) -> Ranges:
    """The tokens of which the end of the session is true."""
    done = (part for part in parts if part.status.is_end and part.status is not SegmentStatus.HALVED)
    return union(each for part in done for each in without(part.ranges, part.left))


def _differing_in(part: SegmentRow) -> Ranges:
    """Of its rows, or of its leaves if it has not come as far as rows; nothing that nobody can say."""
    if part.status in (SegmentStatus.EQUAL, SegmentStatus.INCONCLUSIVE):
        return ()
    return part.found.ranges if part.found else union(each for pair in part.pairs for each in pair.ranges)


def _ended(
    number: Position,
    status: SessionStatus,
    code: str,
    message: str,
    covered: Ranges,
    left: Ranges,
    differing: Ranges = (),
) -> SessionEnded:
    return SessionEnded(None, number, status, code, message, covered, left, differing)
