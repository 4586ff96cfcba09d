"""Rules of schema change: what a request leads to, and when a change is committed or rolled back (DESIGN §4.5, B4).

The argument stands in `events/objects.py`, the line in which changes wait in `events/claims.py`.
"""

from collections.abc import Collection, Mapping
from itertools import groupby

from topolog.events.claims import before, claims_on, line
from topolog.events.codec import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.levels import OBJECTS_LEVEL
from topolog.events.membership import Blocked, NodeRow
from topolog.events.metadata import Evidence
from topolog.events.object_definition import Statement, Step, Verb, check_statements, size_bytes
from topolog.events.objects import (
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
from topolog.events.requests import (
    ChangeCancellationRequested,
    DeletionsConfirmed,
    RequestRef,
    RequestUnchanged,
    SchemaChangeRequested,
    subject_of,
    told_of,
)
from topolog.events.state import State
from topolog.streams.rules import levels
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.object_plan import plan
from topolog.streams.rules.verdict import Reports, Verdict, verdict

CHANGES_OPEN_MAX = 4_096
"""Changes that are not over; whoever asks for more is to wait."""

STEPS_BYTES_MAX = 700_000
"""What one change may touch, with all that goes with it: its steps must fit a record."""

DEADLINE_MS_MAX = 30 * 86_400_000

Blocks = Mapping[NodeId, tuple[Incarnation, Blocked]]
"""What each node has last said that it cannot apply."""

_KEY = "change/"


def decide(
    state: State, request: SchemaChangeRequested | ChangeCancellationRequested | DeletionsConfirmed, ref: RequestRef
) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    levels.require(state, OBJECTS_LEVEL, "Databases, tables, views and grants")
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
    """What follows from what was reported and waited for: commits, then what is given up, then who is next in line.

    `late`: keys of deadlines that have passed. Folded, the result may make more due.
    """
    waiting = [row for number in line(state) if (row := change_row(state, number))]
    if not waiting:
        return []
    prepared = [row for row in waiting if row.status is ChangeStatus.PREPARED]
    return (
        _blocked(prepared, state, blocks)
        or _committed(prepared, state, reports, blocks, waited_through)
        or [_out_of_time(row) for row in waiting if f"{_KEY}{row.number}/deadline" in late]
        or _next_in_line(state, [row for row in waiting if row.status is ChangeStatus.QUEUED])
    )


def verdict_on(state: State, row: ChangeRow, reports: Reports, blocks: Blocks, waited_through: Position) -> Verdict:
    """Whether a prepared change may be committed. Who is blocked at an earlier one may be by this one too, and says so
    when that one is over."""
    assert row.prepared_at is not None, "only a change that is prepared has a verdict"
    position = row.prepared_at
    heard = {node: report for node, report in reports.items() if not _is_blocked(blocks, node, report[0], position)}
    return verdict(state, position, heard, waited=position <= waited_through)


def _is_blocked(blocks: Blocks, node: NodeId, incarnation: Incarnation, position: Position) -> bool:
    said = blocks.get(node)
    return said is not None and said[0] == incarnation and said[1].position <= position


def _begin(state: State, request: SchemaChangeRequested, ref: RequestRef) -> Decision:
    statements, deadline_ms = request.statements, request.deadline_ms
    check_statements(statements)
    if (dropping := _dropped_already(state, statements)) is not None:
        return RequestUnchanged(ref, f"change {dropping}", None)
    if deadline_ms is not None and not 1 <= deadline_ms <= DEADLINE_MS_MAX:
        message = f"A deadline is 1 to {DEADLINE_MS_MAX} ms, and not {deadline_ms}."
        raise Refused("BAD_STATEMENT", "V6", message, {"deadline_ms": str(deadline_ms)})
    if len(line(state)) >= CHANGES_OPEN_MAX:
        message = f"{CHANGES_OPEN_MAX} changes are under way. Ask again when some of them are over."
        raise Refused("TOO_MANY_CHANGES", "DESIGN 4.5", message)
    for statement in statements:
        _check_not_dropped(state, statement)
    if before(state, claims_of(state, statements), _NEWEST):
        return SchemaChangeQueued(ref, statements, deadline_ms)
    steps = _planned(state, statements)
    return SchemaChangePrepared(ref, None, steps, deadline_ms) if steps else RequestUnchanged(ref, "schema", None)


_NEWEST = Position((1 << 63) - 1)


def _planned(state: State, statements: tuple[Statement, ...]) -> tuple[Step, ...]:
    steps = plan(state, statements)
    size = sum(map(size_bytes, steps))
    if size > STEPS_BYTES_MAX:
        message = f"The change would touch {len(steps)} objects, whose definitions are {size} bytes. Make it smaller."
        raise Refused("TOO_LARGE", "DESIGN 1", message, {"objects": str(len(steps)), "bytes": str(size)})
    return steps


def _dropped_already(state: State, statements: tuple[Statement, ...]) -> Position | None:
    """Who drops what is being dropped has what he asks for (B4)."""
    if len(statements) > 1 or statements[0].verb is not Verb.DROP:
        return None
    return _dropping(state, statements[0].name)


def _check_not_dropped(state: State, statement: Statement) -> None:
    """Raise Refused if a change before this one drops the object, or what it needs."""
    claimed = claims_of(state, (statement,))
    for name in (*claimed.alone, *claimed.leaning):
        if (dropping := _dropping(state, name)) is not None:
            facts = {"object": name, "change": str(dropping)}
            message = f"{name!r} is being deleted by change {dropping}."
            hint = f"`topolog wait change/{dropping}`, then try again; `topolog cancel change/{dropping}` keeps it."
            raise Refused("BEING_DELETED", "B4", message, facts, hint=hint)


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
        raise Refused("CHANGE_UNKNOWN", "DESIGN 4.5", message, {"change": str(request.change)})
    if row.status is ChangeStatus.ROLLED_BACK:
        return RequestUnchanged(ref, subject_of(request), None)
    if not row.is_open:
        message = f"Change {row.number} is committed; what it has done can be changed back, and not taken back."
        raise Refused("CHANGE_COMMITTED", "I5", message, {"change": str(row.number)})
    message = f"Change {row.number} was cancelled by {request.actor or ref.requester}."
    return SchemaChangeRolledBack(ref, row.number, "CANCELLED", "DESIGN 4.5", message, {})


def _confirm(state: State, request: DeletionsConfirmed, ref: RequestRef) -> Decision:
    node = state.get(NodeRow, request.node)
    if node is None or not node.is_member or node.incarnation != request.incarnation:
        message = f"Incarnation {request.incarnation} of node {request.node!r} is not a member."
        raise Refused("STALE_INCARNATION", "K7", message, {"incarnation": str(request.incarnation)})
    rows = [change_row(state, number) for number in dict.fromkeys(request.changes)]
    numbers = tuple(row.number for row in rows if row and node.node in row.undeleted)
    if not numbers:
        return RequestUnchanged(ref, subject_of(request), None)
    return DataDeletionConfirmed(ref, node.node, node.incarnation, numbers)


def _blocked(prepared: list[ChangeRow], state: State, blocks: Blocks) -> list[Decision]:
    """A member that cannot apply a change ends it, whoever else has applied it (V2)."""
    by_position = {row.prepared_at: row for row in prepared}
    for node, (incarnation, said) in blocks.items():
        row, member = by_position.get(said.position), state.get(NodeRow, node)
        if row and member and member.holds_lease and member.incarnation == incarnation:
            facts = {"node": node, "code": said.code, "message": said.message}
            message = f"Node {node!r} cannot apply it: {said.message}"
            kept, text = told_of(facts, message)
            return [SchemaChangeRolledBack(None, row.number, "BLOCKED", "V2", text, kept)]
    return []


def _committed(
    prepared: list[ChangeRow], state: State, reports: Reports, blocks: Blocks, waited_through: Position
) -> list[Decision]:
    """All that may be committed now, those with the same evidence together. Verdicts are monotone in the position, so
    the first that waits ends the pass."""
    found: list[tuple[Evidence, Position]] = []
    for row in sorted(prepared, key=lambda row: row.prepared_at or row.number):
        each = verdict_on(state, row, reports, blocks, waited_through)
        if not each.proceed:
            break
        found.append((each.evidence, row.number))
    return [
        SchemaChangeCommitted(tuple(number for _, number in some), evidence)
        for evidence, some in groupby(found, key=lambda pair: pair[0])
    ]


def _out_of_time(row: ChangeRow) -> Decision:
    message = f"Change {row.number} was not committed within {row.deadline_ms} ms."
    return SchemaChangeRolledBack(None, row.number, "DEADLINE", "V6", message, {"deadline_ms": str(row.deadline_ms)})


def _next_in_line(state: State, queued: list[ChangeRow]) -> list[Decision]:
    """The first that need wait no longer: prepared, refused by what the objects have become, or nothing to do."""
    for row in queued:
        if before(state, row.claims, row.number):
            continue
        try:
            steps = _planned(state, row.statements)
        except Refused as refusal:
            facts, message = told_of(refusal.facts, str(refusal))
            return [SchemaChangeRolledBack(None, row.number, refusal.code, refusal.rule, message, facts)]
        if not steps:
            return [SchemaChangeCommitted((row.number,), Evidence())]
        return [SchemaChangePrepared(None, row.number, steps, row.deadline_ms)]
    return []
