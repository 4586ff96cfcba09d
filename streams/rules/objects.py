"""Rules of schema change: what a request leads to, and when a change is committed or rolled back (TA14, TA15).

The argument stands in `events/objects.py`, the line in which changes wait in `events/claims.py`.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from topolog.events.asked import RequestRef
from topolog.events.claims import claims_on, clashes, line, line_row, must_wait
from topolog.events.cluster_state import Operation
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.evidence import Evidence
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.leases import NodeRow
from topolog.events.membership import Blocked
from topolog.events.object_definition import (
    ObjectKind,
    Statement,
    Step,
    Verb,
    check_statements,
    database_of,
    object_of,
    size_bytes,
)
from topolog.events.object_requests import (
    ChangeCancellationRequested,
    DeletionsConfirmed,
    ObjectRequest,
    SchemaChangeRequested,
)
from topolog.events.objects import (
    CHANGES_KEPT,
    ChangeRow,
    ChangeStatus,
    DataDeletionConfirmed,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
    change_row,
    claims_of,
)
from topolog.events.requests import RequestUnchanged, shortened, told_of
from topolog.events.state import State
from topolog.streams.rules.allowed import CODE, RULE, is_allowed, only_revokes, sentence
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.object_plan import plan
from topolog.streams.rules.verdict import Reports, Verdict, verdict

CHANGES_OPEN_MAX = 4_096
"""Changes that are not over; whoever asks for more is to wait."""

STEPS_BYTES_MAX = 700_000
"""What one change may touch, with all that goes with it: its steps must fit a record."""

DEADLINE_MS_MAX = 30 * 86_400_000

ENDED_MAX = CHANGES_KEPT
"""Changes that are given up in one set, none of which that set forgets; the rest follow in the next."""

Blocks = Mapping[NodeId, tuple[Incarnation, Blocked]]
"""What each node has last said that it cannot apply."""

_KEY = "change/"


def decide(state: State, request: ObjectRequest, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    match request:
        case SchemaChangeRequested():
            return [_begin(state, request, ref)]
        case ChangeCancellationRequested():
            return [_cancel(state, request, ref)]
        case DeletionsConfirmed():
            return [_confirm(state, request, ref)]


def deadlines(row: ChangeRow) -> list[Deadline]:
    """The asker's own: when the change is given up."""
    if not row.is_open or row.deadline_ms is None:
        return []
    return [Deadline(f"{_KEY}{row.number}/deadline", row.number, row.deadline_ms)]


def settle(
    state: State, reports: Reports, blocks: Blocks, waited_through: Position, late: Collection[str]
) -> list[Decision]:
    """What follows from what was reported and waited for: what the state of the cluster ends, then commits, then what
    is given up, then who is next in line.

    `late`: keys of deadlines that have passed. Folded, the result may make more due.
    """
    waiting = line_row(state)
    if not waiting.changes:
        return []
    return (
        _forbidden(state, waiting.changes)
        or _blocked(state, waiting.prepared, blocks)
        or _committed(state, waiting.prepared, reports, blocks, waited_through)
        or _out_of_time(state, late)
        or _next_in_line(state, waiting.ready)
    )


def verdict_on(state: State, row: ChangeRow, reports: Reports, blocks: Blocks, waited_through: Position) -> Verdict:
    """Whether a prepared change may be committed. Who is blocked at an earlier one may be by this one too, and says so
    when that one is over. It reads the log and is renewed, so no wait proves that it is fenced: it is open until it
    says more, or has left."""
    assert row.prepared_at is not None, "only a change that is prepared has a verdict"
    position = row.prepared_at
    unable = {(node, said[0]) for node, said in blocks.items() if said[1].position <= position}
    return verdict(state, position, reports, waited=position <= waited_through, unable=unable)


def _begin(state: State, request: SchemaChangeRequested, ref: RequestRef) -> Decision:
    statements, deadline_ms = request.statements, request.deadline_ms
    check_statements(statements)
    if deadline_ms is not None and not 1 <= deadline_ms <= DEADLINE_MS_MAX:
        message = f"A deadline is 1 to {DEADLINE_MS_MAX} ms, and not {deadline_ms}."
        raise Refused("BAD_STATEMENT", "TA20", message, {"deadline_ms": str(deadline_ms)})
    if (dropping := _dropped_already(state, statements)) is not None:
        return RequestUnchanged(ref, f"change {dropping}", None)
    if len(line(state)) >= CHANGES_OPEN_MAX:
        message = f"{CHANGES_OPEN_MAX} changes are under way. Ask again when some of them are over."
        raise Refused("TOO_MANY_CHANGES", "TA34", message)
    for statement in statements:
        _check_not_dropped(state, statement)
    if must_wait(state, claims_of(state, statements), _LATEST):
        return SchemaChangeQueued(ref, statements, deadline_ms)
    steps = _planned(state, statements)
    return SchemaChangePrepared(ref, None, steps, deadline_ms) if steps else RequestUnchanged(ref, "schema", None)


_LATEST = Position((1 << 63) - 1)
"""The number of a change that is only asked for: all that are open come before it."""


def _planned(state: State, statements: tuple[Statement, ...]) -> tuple[Step, ...]:
    steps = plan(state, statements)
    size = sum(map(size_bytes, steps))
    if size > STEPS_BYTES_MAX:
        message = f"The change would touch {len(steps)} objects, whose definitions are {size} bytes."
        message += f" At most {STEPS_BYTES_MAX} are possible: make it in several."
        raise Refused("TOO_LARGE", "TA34", message, {"objects": str(len(steps)), "bytes": str(size)})
    return steps


def _dropped_already(state: State, statements: tuple[Statement, ...]) -> Position | None:
    """Who drops what is being dropped, or goes with what is, has what he asks for (TA6)."""
    if len(statements) > 1 or statements[0].verb is not Verb.DROP:
        return None
    found = (_dropping(state, name) for name in _going_with(statements[0]))
    return next((number for number in found if number is not None), None)


def _going_with(statement: Statement) -> tuple[str, ...]:
    """The object, and those whose end is its own."""
    match statement.kind:
        case ObjectKind.GRANT:
            over = object_of(statement.name)
            return statement.name, over, database_of(over)
        case _:
            return statement.name, database_of(statement.name)


def _check_not_dropped(state: State, statement: Statement) -> None:
    """Raise Refused if a change before this one drops the object, or what it needs."""
    claimed = claims_of(state, (statement,))
    needed = _going_with(statement) if statement.verb is Verb.DROP else (*claimed.alone, *claimed.leaning)
    for name in needed:
        if (dropping := _dropping(state, name)) is not None:
            facts = {"object": name, "change": str(dropping)}
            message = f"{name!r} is being deleted by change {dropping}."
            hint = f"`topolog wait change/{dropping}`, then try again; `topolog cancel change/{dropping}` keeps it."
            raise Refused("BEING_DELETED", "TA6", message, facts, hint=hint)


def _dropping(state: State, name: str) -> Position | None:
    """The newest change that has to do with the object, if it drops it."""
    alone = claims_on(state, name).alone
    row = change_row(state, alone[-1]) if alone else None
    actions: tuple[Step | Statement, ...] = (*row.steps, *row.statements) if row else ()
    is_dropped = any(each.name == name and each.verb is Verb.DROP for each in actions)
    return row.number if row and is_dropped else None


def _cancel(state: State, request: ChangeCancellationRequested, ref: RequestRef) -> Decision:
    row = change_row(state, request.change)
    if row is None:
        message = f"There is no change {request.change}, or it is long over."
        raise Refused("CHANGE_UNKNOWN", "TA21", message, {"change": str(request.change)})
    if row.status is ChangeStatus.ROLLED_BACK:
        return RequestUnchanged(ref, request.subject, None)
    if not row.is_open:
        message = f"Change {row.number} is committed; what it has done can be changed back, and not taken back."
        raise Refused("CHANGE_COMMITTED", "TA21", message, {"change": str(row.number)})
    message = shortened(f"Change {row.number} was cancelled by {request.actor or ref.requester}.")
    return SchemaChangeRolledBack(ref, row.number, "CANCELLED", "TA21", message, {})


def _confirm(state: State, request: DeletionsConfirmed, ref: RequestRef) -> Decision:
    node = state.get(NodeRow, request.node)
    if node is None or not node.is_member or node.incarnation != request.incarnation:
        message = f"Incarnation {request.incarnation} of node {request.node!r} is not a member."
        raise Refused("STALE_INCARNATION", "ME31", message, {"incarnation": str(request.incarnation)})
    rows = [change_row(state, number) for number in dict.fromkeys(request.changes)]
    numbers = tuple(row.number for row in rows if row and node.node in row.undeleted)
    if not numbers:
        return RequestUnchanged(ref, request.subject, None)
    return DataDeletionConfirmed(ref, node.node, node.incarnation, numbers)


def _forbidden(state: State, changes: Sequence[Position]) -> list[Decision]:
    """Changes that are open while the state of the cluster does not allow them end: `allowed.py` says why."""
    if is_allowed(state, Operation.DEFINE):
        return []
    rows = (row for number in changes if (row := change_row(state, number)))
    ended = [row for row in rows if not only_revokes(state, row.steps or row.statements)]
    message = f"{sentence(state)} What was open when that began was not committed: ask for it again when it is ACTIVE."
    return [SchemaChangeRolledBack(None, row.number, CODE, RULE, message, {}) for row in ended[:ENDED_MAX]]


def _blocked(state: State, prepared: Sequence[Position], blocks: Blocks) -> list[Decision]:
    """A member that cannot apply a change ends it, whoever else has applied it (TA19)."""
    for node, (incarnation, said) in blocks.items():
        row, member = _prepared_at(state, prepared, said.position), state.get(NodeRow, node)
        if row and member and member.holds_lease and member.incarnation == incarnation:
            facts = {"node": node, "code": said.code, "message": said.message}
            kept, message = told_of(facts, f"Node {node!r} cannot apply it: {said.message}")
            return [SchemaChangeRolledBack(None, row.number, "BLOCKED", "TA19", message, kept)]
    return []


def _prepared_at(state: State, prepared: Sequence[Position], position: Position) -> ChangeRow | None:
    """The open change that was prepared there; `prepared` are in the order of their preparation."""
    index = bisect_left(prepared, position, key=lambda number: _prepared(state, number).prepared_at or number)
    row = _prepared(state, prepared[index]) if index < len(prepared) else None
    return row if row and row.prepared_at == position else None


def _prepared(state: State, number: Position) -> ChangeRow:
    row = change_row(state, number)
    assert row is not None and row.prepared_at is not None, f"change {number} is prepared"
    return row


def _committed(
    state: State, prepared: Sequence[Position], reports: Reports, blocks: Blocks, waited_through: Position
) -> list[Decision]:
    """All that may be committed now and has the same evidence; the rest follow in the next set, for a second decision
    may forget what the first has ended. Verdicts are monotone in the position: the first that waits ends the pass."""
    found: list[Position] = []
    evidence = Evidence()
    for number in prepared:
        each = verdict_on(state, _prepared(state, number), reports, blocks, waited_through)
        if not each.proceed or (found and each.evidence != evidence):
            break
        evidence = each.evidence
        found.append(number)
    return [SchemaChangeCommitted(tuple(found), evidence)] if found else []


def _out_of_time(state: State, late: Collection[str]) -> list[Decision]:
    """The open changes whose deadlines have passed, in the order of the line."""
    numbers = sorted(int(key.split("/")[1]) for key in late)
    rows = [row for number in numbers if (row := change_row(state, number)) and row.is_open]
    return [_given_up(row) for row in rows[:ENDED_MAX]]


def _given_up(row: ChangeRow) -> Decision:
    message = f"Change {row.number} was not committed within {row.deadline_ms} ms."
    return SchemaChangeRolledBack(None, row.number, "DEADLINE", "TA20", message, {"deadline_ms": str(row.deadline_ms)})


def _next_in_line(state: State, ready: Sequence[Position]) -> list[Decision]:
    """The first of them: prepared, refused by what the objects have become, or nothing to do."""
    for number in ready:
        row = change_row(state, number)
        assert row is not None and row.status is ChangeStatus.QUEUED, f"change {number} is queued"
        if must_wait(state, row.claims, number):
            continue
        try:
            steps = _planned(state, row.statements)
        except Refused as refusal:
            facts, message = told_of(refusal.facts, str(refusal))
            return [SchemaChangeRolledBack(None, number, refusal.code, refusal.rule, message, facts)]
        if not steps:
            return [SchemaChangeCommitted((number,), Evidence())]
        if clashes(state, claims_of(state, steps), number):
            continue
        return [SchemaChangePrepared(None, number, steps, row.deadline_ms)]
    return []
