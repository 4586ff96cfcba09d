"""Sessions of anti-entropy: do the replicas of a table agree, and if not, make them (docs/design/repair.md).

Threats. A tree that never comes, or twice, or late, or other than before; a replica that dies while it is asked; an end
that looks like success and covered half; rows that are written after somebody has ended the session; a coordinator that
dies between two trees and forgets the first.

Invariant. A session has exactly one end, and says of which tokens it is true. No row is written for a session that has
ended by what its writer has read. What was answered once is never asked again.

Argument. All there is to a session is in the log: what was asked of whom and in which attempt (`StepStarted`,
`TaskAssigned`), the first answer to it (`TaskCompleted`), what was compared. Waiting is a fold of that: a step waits
for the tasks that have no answer, so a coordinator that takes over waits for just the same. Later answers change
nothing, and are refused or told unchanged. Each task has one way to end: an answer, its own failure, or a deadline,
which starts anew only while its progress grows. The end of a session drops its tasks, and every validator looks for its
task in the log before each effect. What an end covers is computed from the segments, never claimed.
"""

import msgspec

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.repair_definition import SessionDefinition
from topolog.events.repair_tasks import (
    ROW_TOO_LARGE,
    Findings,
    Pair,
    Purpose,
    Result,
    Step,
    Task,
    TaskId,
    TaskKind,
    TaskStatus,
    assigned,
)
from topolog.events.repair_turns import worked_ms
from topolog.events.requests import grant
from topolog.events.sessions import (
    SegmentRow,
    SegmentStatus,
    SessionRow,
    SessionStatus,
    rows_written,
    segment,
    segment_key,
    segments,
    session,
    session_key,
    task_of,
)
from topolog.events.state import State
from topolog.events.token_range import Ranges
from topolog.events.tree_spec import TreeSpec

ENDED_KEPT = 100
"""So many sessions that have ended stay in the state; the projections keep all."""


class SegmentPlan(msgspec.Struct, frozen=True):
    """Tokens, and the replicas that hold all of them, the initiator first."""

    ranges: Ranges
    replicas: tuple[str, ...]


class SessionQueued(Decision, frozen=True):
    """Granted, and waits until no session repairs any of its tokens (RE27)."""

    request: RequestRef
    definition: SessionDefinition


class SessionOpened(Decision, frozen=True):
    """The session begins. `session` is None for one that was not queued: its number is the position of this decision.

    `request` is None for one that was queued or that a schedule has started.
    """

    request: RequestRef | None
    session: Position | None
    definition: SessionDefinition
    spec: TreeSpec
    segments: tuple[SegmentPlan, ...]
    schedule: str


class StepStarted(Decision, frozen=True):
    """A segment goes on to its next step, without those that are `absent`; nothing is asked yet."""

    session: Position
    segment: int
    step: Step
    absent: tuple[str, ...]


class TaskAssigned(Decision, frozen=True):
    """A replica is asked for its part of the present step; `rows_expected` is an estimate."""

    task: TaskId
    rows_expected: int


class TaskProgressed(Decision, frozen=True):
    """It has come further than before."""

    request: RequestRef
    task: TaskId
    rows: int
    bytes: int


class TaskCompleted(Decision, frozen=True):
    request: RequestRef
    task: TaskId
    result: Result


class TaskFailed(Decision, frozen=True):
    """`request` is None if a deadline has passed. `rows`: how far it has come."""

    request: RequestRef | None
    task: TaskId
    code: str
    message: str
    rows: int


class PairCompared(Decision, frozen=True):
    request: RequestRef
    session: Position
    segment: int
    step: int
    pair: Pair


class RowsCompared(Decision, frozen=True):
    request: RequestRef
    session: Position
    segment: int
    step: int
    found: Findings


class SegmentHalved(Decision, frozen=True):
    """It fails again and again; two others cover just its ranges (RE31)."""

    session: Position
    segment: int
    halves: tuple[SegmentPlan, ...]


class SegmentEnded(Decision, frozen=True):
    """Nothing more is asked for it. `left`: its tokens of which the session's end is not true."""

    session: Position
    segment: int
    status: SegmentStatus
    code: str
    message: str
    left: Ranges


class SessionAltered(Decision, frozen=True):
    """What is None stays as it is; in force from the next segment on, a pause from the next step on."""

    request: RequestRef
    session: Position
    paused: bool | None = None
    intensity: int | None = None
    parallel: int | None = None


class SessionEnded(Decision, frozen=True):
    """The one end. `covered` was compared (PREVIEW) or is equal now (REPAIR); `left` is the rest of what was asked.

    `differing`: tokens of the rows that were found to differ.
    """

    request: RequestRef | None
    session: Position
    status: SessionStatus
    code: str
    message: str
    covered: Ranges
    left: Ranges
    differing: Ranges


class AbortGranted(Decision, frozen=True):
    """All sessions that stand before this in its set are aborted."""

    request: RequestRef
    sessions: tuple[Position, ...]


RepairEvent = (
    SessionQueued
    | SessionOpened
    | StepStarted
    | TaskAssigned
    | TaskProgressed
    | TaskCompleted
    | TaskFailed
    | PairCompared
    | RowsCompared
    | SegmentHalved
    | SegmentEnded
    | SessionAltered
    | SessionEnded
    | AbortGranted
)


def evolve(state: State, event: RepairEvent, place: Place) -> None:
    match event:
        case SessionQueued() | SessionOpened() | SessionAltered() | SessionEnded() | AbortGranted():
            _evolve_session(state, event, place)
        case StepStarted() | SegmentHalved() | SegmentEnded():
            _evolve_segment(state, event, place)
        case PairCompared() | RowsCompared():
            _compared(state, event)
            grant(state, event.request, place, f"session {event.session}")
        case TaskAssigned() | TaskProgressed() | TaskCompleted() | TaskFailed():
            _evolve_task(state, event, place)


def _evolve_session(
    state: State,
    event: SessionQueued | SessionOpened | SessionAltered | SessionEnded | AbortGranted,
    place: Place,
) -> None:
    match event:
        case SessionQueued():
            row = SessionRow(place.position, event.definition, SessionStatus.QUEUED)
            state.put(session_key(row.number), row)
            grant(state, event.request, place, f"session {row.number}")
        case SessionOpened():
            _open(state, event, place)
        case SessionAltered():
            _alter(state, event)
            grant(state, event.request, place, f"session {event.session}")
        case SessionEnded():
            _end(state, event, place)
        case AbortGranted():
            grant(state, event.request, place, "sessions")


def _open(state: State, event: SessionOpened, place: Place) -> None:
    number = place.position if event.session is None else event.session
    row = SessionRow(
        number,
        event.definition,
        SessionStatus.RUNNING,
        event.spec,
        len(event.segments),
        opened_at=place.position,
        schedule=event.schedule,
    )
    state.put(session_key(number), row)
    for index, plan in enumerate(event.segments):
        each = SegmentRow(number, index, plan.ranges, plan.replicas, SegmentStatus.PENDING)
        state.put(segment_key(number, index), each)
    if event.request is not None:
        grant(state, event.request, place, f"session {number}")


def _alter(state: State, event: SessionAltered) -> None:
    row = _session(state, event.session)
    given = {name: getattr(event, name) for name in ("intensity", "parallel")}
    changed = {name: value for name, value in given.items() if value is not None}
    definition = msgspec.structs.replace(row.definition, **changed)
    paused = row.paused if event.paused is None else event.paused
    state.put(session_key(row.number), msgspec.structs.replace(row, definition=definition, paused=paused))


def _end(state: State, event: SessionEnded, place: Place) -> None:
    row = _session(state, event.session)
    assert not row.status.is_end, "a session ends twice"
    for each in segments(state, row):
        row = _with_counts(row, msgspec.structs.replace(each, rows_written=rows_written(each)))
        state.drop(SegmentRow, segment_key(row.number, each.index))
    told = {name: getattr(event, name) for name in ("status", "code", "message", "covered", "left", "differing")}
    state.put(session_key(row.number), msgspec.structs.replace(row, ended_at=place.position, running=(), **told))
    if event.request is not None:
        grant(state, event.request, place, f"session {row.number}")
    ended = sorted((each.ended_at, key) for key, each in state.rows(SessionRow) if each.ended_at is not None)
    for _, key in ended[: max(0, len(ended) - ENDED_KEPT)]:
        state.drop(SessionRow, key)


def _with_counts(row: SessionRow, ended: SegmentRow) -> SessionRow:
    """What a session has come to stays when its segments go."""
    found = ended.found.rows if ended.found else 0
    counts = {name: getattr(row, name) + getattr(ended, name) for name in ("rows_read", "bytes_read", "rows_written")}
    return msgspec.structs.replace(row, rows_found=row.rows_found + found, **counts)


def _evolve_segment(state: State, event: StepStarted | SegmentHalved | SegmentEnded, place: Place) -> None:
    row = _segment(state, event.session, event.segment)
    match event:
        case StepStarted():
            if row.status is SegmentStatus.PENDING:
                _work(state, row)
            row = _stepped(_spent(state, row), event)
        case SegmentHalved():
            row = _spent(state, row)
            row = msgspec.structs.replace(row, status=SegmentStatus.HALVED, step=None, tasks=())
            _add_halves(state, event)
            _rest(state, row, place)
        case SegmentEnded():
            row = _spent(state, row)
            told = {name: getattr(event, name) for name in ("status", "code", "message", "left")}
            row = msgspec.structs.replace(row, step=None, tasks=(), **told)
            _rest(state, row, place)
    state.put(segment_key(row.session, row.index), row)


def _spent(state: State, row: SegmentRow) -> SegmentRow:
    """The present step is over."""
    spent_ms = worked_ms(state, _session(state, row.session), row)
    return msgspec.structs.replace(row, worked_ms=row.worked_ms + spent_ms, rows_written=rows_written(row))


def _stepped(row: SegmentRow, event: StepStarted) -> SegmentRow:
    """Read points are fixed anew by PREPARE; those before stay known, for what is read twice at one is the same."""
    step, began = event.step, row.step is not None
    sent = tuple(task for task in row.tasks if task.status is TaskStatus.DONE) if step.kind is TaskKind.WRITE else ()
    failed = [task for task in row.tasks if task.status is TaskStatus.FAILED and _is_copying(row)]
    told = {"step": step, "absent": event.absent, "sent": sent, "uncopied": (*row.uncopied, *failed)}
    row = msgspec.structs.replace(row, status=SegmentStatus.RUNNING, tasks=(), pairs=(), **told)
    if step.kind is not TaskKind.PREPARE:
        return row
    row = msgspec.structs.replace(row, former_cuts=row.cuts, cuts={})
    if step.purpose is not Purpose.COMPARE:
        return row
    return msgspec.structs.replace(row, found=None, found_in=0, uncopied=(), restarts=row.restarts + int(began))


def _is_copying(row: SegmentRow) -> bool:
    return row.step is not None and row.step.purpose is Purpose.REPAIR


def _add_halves(state: State, event: SegmentHalved) -> None:
    row = _session(state, event.session)
    for index, plan in enumerate(event.halves, start=row.segments):
        half = SegmentRow(row.number, index, plan.ranges, plan.replicas, SegmentStatus.PENDING)
        state.put(segment_key(row.number, index), half)
    state.put(session_key(row.number), msgspec.structs.replace(row, segments=row.segments + len(event.halves)))


def _work(state: State, begun: SegmentRow) -> None:
    """The pause is over. Segments begin in their order."""
    row = _session(state, begun.session)
    assert begun.index == row.begun, "a segment begins before its turn"
    told = {"worked_ms": 0, "rested_at": None, "begun": row.begun + 1, "running": (*row.running, begun.index)}
    state.put(session_key(row.number), msgspec.structs.replace(row, **told))


def _rest(state: State, ended: SegmentRow, place: Place) -> None:
    """A pause for all that has ended since the last one: several segments may be under way at a time."""
    row = _session(state, ended.session)
    running = tuple(index for index in row.running if index != ended.index)
    told = {"worked_ms": row.worked_ms + ended.worked_ms, "rested_at": place.position, "running": running}
    state.put(session_key(row.number), msgspec.structs.replace(row, **told))


def _evolve_task(state: State, event: TaskAssigned | TaskProgressed | TaskCompleted | TaskFailed, place: Place) -> None:
    row = _segment(state, event.task.session, event.task.segment)
    task = task_of(row, event.task)
    match event:
        case TaskAssigned():
            before = next((each for each in row.tasks if each.replica == event.task.replica), None)
            rest = tuple(each for each in row.tasks if each is not before)
            new = assigned(event.task, place.position, event.rows_expected, before)
            row = msgspec.structs.replace(row, tasks=(*rest, new))
        case TaskProgressed():
            assert task is not None, "progress of a task that nobody has"
            row = _with(row, msgspec.structs.replace(task, rows=event.rows, bytes=event.bytes, grown_at=place.position))
        case TaskCompleted():
            assert task is not None, "a task is completed that nobody has"
            told = {"status": TaskStatus.DONE, "result": event.result, "grown_at": place.position}
            row = _counted(_with(row, msgspec.structs.replace(task, **told)), event)
        case TaskFailed():
            assert task is not None, "a task fails that nobody has"
            told = {
                "status": TaskStatus.FAILED,
                "code": event.code,
                "message": event.message,
                "grown_at": place.position,
                "rows": max(event.rows, task.rows),
            }
            row = _with(row, msgspec.structs.replace(task, **told))
    state.put(segment_key(row.session, row.index), row)
    if not isinstance(event, TaskAssigned) and event.request is not None:
        grant(state, event.request, place, f"session {row.session}")


def _with(row: SegmentRow, task: Task) -> SegmentRow:
    tasks = tuple(task if each.replica == task.replica else each for each in row.tasks)
    return msgspec.structs.replace(row, tasks=tasks)


def _counted(row: SegmentRow, event: TaskCompleted) -> SegmentRow:
    result, cuts = event.result, dict(row.cuts)
    assert row.step is not None
    if result.cut is not None and row.step.kind is TaskKind.PREPARE:
        cuts[event.task.replica] = result.cut
    is_write = row.step.kind is TaskKind.WRITE
    if row.step.kind is TaskKind.SEND and result.skipped:
        assert row.found is not None, "rows are sent that nobody has found"
        row = msgspec.structs.replace(row, found=row.found.left_alone(ROW_TOO_LARGE, result.skipped))
    return msgspec.structs.replace(
        row,
        cuts=cuts,
        rows_read=row.rows_read + (0 if is_write else result.rows),
        bytes_read=row.bytes_read + (0 if is_write else result.bytes),
        rows_written=row.rows_written + (result.rows if is_write else 0),
        skipped=row.skipped + (result.skipped if is_write else 0),
    )


def _compared(state: State, event: PairCompared | RowsCompared) -> None:
    row = _segment(state, event.session, event.segment)
    assert row.step is not None, "a segment is compared that has no step"
    assert row.step.number == event.step, "another step is compared than the present one"
    match event:
        case PairCompared():
            row = msgspec.structs.replace(row, pairs=(*row.pairs, event.pair))
        case RowsCompared():
            row = msgspec.structs.replace(row, found=event.found, found_in=event.step)
    state.put(segment_key(row.session, row.index), row)


def _session(state: State, number: Position) -> SessionRow:
    row = session(state, number)
    assert row is not None, "a session that nobody has opened"
    return row


def _segment(state: State, number: Position, index: int) -> SegmentRow:
    row = segment(state, number, index)
    assert row is not None, "a segment that no session has"
    return row
