"""Rules of anti-entropy: what a request leads to, and what follows from reports and deadlines (docs/design/repair.md).

The argument stands in `events/repair.py`. Sessions as a whole are in `repair_sessions.py`, what they compare in
`repair_spec.py`, the steps of a segment in `repair_steps.py`, reports in `repair_reports.py`.
"""

from collections.abc import Collection

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Position
from topolog.events.repair_requests import (
    ComparisonReported,
    FindingsReported,
    RepairRequest,
    ReplicaDeclarationRequested,
    ReplicaWithdrawalRequested,
    ScheduleDropRequested,
    ScheduleRequested,
    SessionAbortRequested,
    SessionAlterationRequested,
    SessionRequested,
    TaskReported,
)
from topolog.events.repair_turns import occupied
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import (
    SegmentRow,
    SessionRow,
    SessionStatus,
    open_sessions,
    running,
    segment,
    session,
)
from topolog.events.state import State
from topolog.streams.rules import repair_reports, repair_sessions, repair_steps, replicas, schedules
from topolog.streams.rules.allowed import stands_still
from topolog.streams.rules.deadlines import Deadline


def decide(state: State, request: RepairRequest, ref: RequestRef, end: Position, asked_at_ms: int) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing. `end`: the last that is decided."""
    match request:
        case SessionRequested():
            return repair_sessions.requested(state, request, ref, end, asked_at_ms)
        case SessionAlterationRequested():
            return repair_sessions.altered(state, request, ref)
        case SessionAbortRequested():
            return repair_sessions.aborted(state, request, ref)
        case ScheduleRequested() | ScheduleDropRequested():
            return schedules.decide(state, request, ref)
        case ReplicaDeclarationRequested() | ReplicaWithdrawalRequested():
            return replicas.decide(state, request, ref)
        case TaskReported() | ComparisonReported() | FindingsReported():
            return repair_reports.decide(state, request, ref)


def deadlines(state: State, row: SessionRow | SegmentRow | ScheduleRow) -> list[Deadline]:
    """What is looked at if nothing comes: a session's end, its pauses, tasks that do not move, schedules."""
    match row:
        case ScheduleRow():
            return schedules.deadlines(row)
        case SegmentRow():
            owner = session(state, row.session)
            return repair_steps.deadlines(owner, row) if owner else []
    found = []
    if row.status is SessionStatus.RUNNING and row.opened_at is not None:
        if row.definition.deadline_ms is not None:
            found.append(Deadline(_deadline_key(row), row.opened_at, row.definition.deadline_ms))
        rest_ms = _rest_ms(row)
        if rest_ms and row.rested_at is not None:
            found.append(Deadline(_rest_key(row), row.rested_at, rest_ms))
    return found


def settle(state: State, passed: Collection[str], end: Position, at_ms: int) -> list[Decision]:
    """What follows for sessions and schedules. `passed`: keys of deadlines; folded, the result may make more due.

    `at_ms`: wall time, by which a session that begins now judges what is forgotten (RE23).
    """
    busy = occupied(state)
    for row in open_sessions(state):
        decided = _of_session(state, row, passed, busy, at_ms)
        if decided:
            return decided
    return schedules.settle(state, passed, end, at_ms)


def _of_session(
    state: State, row: SessionRow, passed: Collection[str], busy: Collection[str], at_ms: int
) -> list[Decision]:
    if row.status is SessionStatus.QUEUED:
        return [] if stands_still(state, row) else repair_sessions.from_queue(state, row, at_ms)
    if _deadline_key(row) in passed:
        message = f"It took longer than its deadline of {row.definition.deadline_ms} ms."
        return [repair_sessions.concluded(state, row, SessionStatus.EXPIRED, "DEADLINE", message)]
    for part in running(state, row):
        decided = repair_steps.settle(state, row, part, passed, busy)
        if decided:
            return decided
    pending = segment(state, row.number, row.begun)
    if pending is None:
        return [] if row.running else repair_sessions.settle(state, row)
    if stands_still(state, row) or len(row.running) >= row.definition.parallel or _rests(row, passed):
        return []
    return repair_steps.begun(pending)


def _rests(row: SessionRow, passed: Collection[str]) -> bool:
    """Whether the pause behind the last segments is not over yet (RE26)."""
    return _rest_ms(row) > 0 and row.rested_at is not None and _rest_key(row) not in passed


def _rest_ms(row: SessionRow) -> int:
    """Behind segments of d ms at an intensity of i: d / i - d (RE26)."""
    return row.worked_ms * 100 // row.definition.intensity - row.worked_ms


def _deadline_key(row: SessionRow) -> str:
    return f"session/{row.number}/deadline"


def _rest_key(row: SessionRow) -> str:
    return f"session/{row.number}/rest/{row.rested_at}/{row.definition.intensity}"
