"""Rules of what validators and the rendezvous report: what counts, what is a repeat, what comes too late (D.6).

Whoever reports may be a process that was given up long ago, or say the same twice. A report counts if it is on the task
as it stands, in its newest attempt, by the process that serves the replica now; the first one wins. An equal repeat is
unchanged; another tree under the same attempt is a conflict, for one read point has one tree (scenario 17); all others
are late facts: they are in the log as refusals, and change nothing (scenario 18).
"""

from topolog.events.asked import RequestRef
from topolog.events.codec import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.repair import PairCompared, RowsCompared, TaskCompleted, TaskFailed, TaskProgressed
from topolog.events.repair_requests import ComparisonReported, FindingsReported, TaskReported
from topolog.events.repair_tasks import (
    COPIES_MAX,
    RANGES_MAX,
    Result,
    Task,
    TaskId,
    TaskKind,
    TaskStatus,
)
from topolog.events.replicas import replica
from topolog.events.requests import RequestUnchanged, shortened, subject_of
from topolog.events.sessions import SegmentRow, SessionRow, segment, session, task_of
from topolog.events.state import State
from topolog.events.token_range import Ranges, contains
from topolog.streams.rules.repair_steps import pairs

CODE_CHARS_MAX = 40
_DIGEST_BYTES = 32


def decide(
    state: State, request: TaskReported | ComparisonReported | FindingsReported, ref: RequestRef
) -> list[Decision]:
    """The decision that answers the report; raises Refused and changes nothing."""
    match request:
        case TaskReported():
            return _reported(state, request, ref)
        case ComparisonReported():
            return _compared(state, request, ref)
        case FindingsReported():
            return _found(state, request, ref)


def _reported(state: State, request: TaskReported, ref: RequestRef) -> list[Decision]:
    """A validator on its task."""
    _, row = _current(state, request.task.session, request.task.segment, request.task.step)
    task = task_of(row, request.task)
    if task is None:
        raise _late("This is not the newest attempt at the task.")
    if task.status is not TaskStatus.ASSIGNED:
        return [_repeated(request, ref, row, task)]
    _check_life(state, request)
    if request.code:
        return [TaskFailed(ref, request.task, request.code[:CODE_CHARS_MAX], shortened(request.message))]
    if request.result is not None:
        _check_result(row, request.result)
        return [TaskCompleted(ref, request.task, request.result)]
    if request.rows <= task.rows and request.bytes <= task.bytes:
        return [RequestUnchanged(ref, subject_of(request), None)]
    return [TaskProgressed(ref, request.task, max(request.rows, task.rows), max(request.bytes, task.bytes))]


def _repeated(request: TaskReported, ref: RequestRef, row: SegmentRow, task: Task) -> Decision:
    assert row.step is not None
    if request.result is not None and task.result is not None:
        if request.result == task.result:
            return RequestUnchanged(ref, subject_of(request), None)
        if row.step.kind is TaskKind.LEAVES and request.result.digest != task.result.digest:
            message = "Two trees were sent for one attempt at one read point, and they differ."
            return TaskFailed(ref, request.task, "TREE_CONFLICT", message)
    raise _late("The task has its answer already.")


def _check_life(state: State, request: TaskReported) -> None:
    owner = session(state, request.task.session)
    assert owner is not None
    row = replica(state, owner.definition.table, request.task.replica)
    if row is not None and row.life != request.life:
        raise Refused("SUPERSEDED", "D.6", "Another process serves this replica by now.")


def _check_result(row: SegmentRow, result: Result) -> None:
    assert row.step is not None
    numbers = (result.pages, result.rows, result.bytes, result.skipped, result.worked_ms)
    has_digest = len(result.digest) == _DIGEST_BYTES
    is_tree = row.step.kind is TaskKind.LEAVES
    if min(numbers) < 0 or (is_tree and not has_digest) or (result.digest and not has_digest):
        raise Refused("BAD_REPORT", "D.6", "The result of the task cannot be right.")


def _compared(state: State, request: ComparisonReported, ref: RequestRef) -> list[Decision]:
    """The rendezvous on two trees: the first report on each pair counts."""
    owner, row = _current(state, request.session, request.segment, request.step)
    _check_attempts(row, request.attempts, TaskKind.LEAVES)
    pair = request.pair
    known = next((each for each in row.pairs if (each.left, each.right) == (pair.left, pair.right)), None)
    if known is not None:
        if known == pair:
            return [RequestUnchanged(ref, subject_of(request), None)]
        raise _late("This pair has been compared already.")
    is_asked = (pair.left, pair.right) in pairs(owner, row)
    numbers = (pair.leaves, pair.leaves_compared, pair.rows, pair.leaf_rows_max)
    if not is_asked or min(numbers) < 0 or bool(pair.ranges) is not bool(pair.leaves):
        raise Refused("BAD_REPORT", "D.6", "The comparison is not one of those that are asked for.")
    _check_ranges(row, pair.ranges)
    return [PairCompared(ref, request.session, request.segment, request.step, pair)]


def _found(state: State, request: FindingsReported, ref: RequestRef) -> list[Decision]:
    """The rendezvous on the rows of all replicas."""
    _, row = _current(state, request.session, request.segment, request.step)
    _check_attempts(row, request.attempts, TaskKind.DIGESTS)
    findings = request.findings
    if row.found_in == request.step:
        if row.found == findings:
            return [RequestUnchanged(ref, subject_of(request), None)]
        raise _late("These rows have been compared already.")
    names = {name for copy in findings.copies for name in (copy.source, copy.target)}
    numbers = (findings.rows, findings.pages, findings.gone, *findings.kinds.values(), *findings.unresolved.values())
    sound = names <= set(row.replicas) and min(numbers) >= 0 and bool(findings.ranges) is bool(findings.rows)
    if not sound or len(findings.copies) > COPIES_MAX or len(findings.kinds) + len(findings.unresolved) > COPIES_MAX:
        raise Refused("BAD_REPORT", "D.6", "The findings cannot be right.")
    _check_ranges(row, findings.ranges)
    return [RowsCompared(ref, request.session, request.segment, request.step, findings)]


def _current(state: State, number: Position, index: int, step: int) -> tuple[SessionRow, SegmentRow]:
    """The session and the segment whose present step this is."""
    owner = session(state, number)
    if owner is None:
        raise Refused("UNKNOWN_SESSION", "scenario 18", f"There is no session {number}.")
    row = segment(state, number, index)
    if owner.status.is_end or row is None or row.step is None:
        raise _late("The session or its segment has ended.")
    if row.step.number != step:
        raise _late(f"Segment {index} is at step {row.step.number}.")
    return owner, row


def _check_attempts(row: SegmentRow, attempts: tuple[TaskId, ...], kind: TaskKind) -> None:
    """Only what the log has as the answers of the present step may have been compared."""
    assert row.step is not None
    tasks = [task_of(row, each) for each in attempts]
    if row.step.kind is not kind or any(task is None or task.status is not TaskStatus.DONE for task in tasks):
        raise _late("What was compared are not the answers that count.")


def _check_ranges(row: SegmentRow, ranges: Ranges) -> None:
    """No range lies outside the request (CASSANDRA-13052)."""
    assert row.step is not None
    if len(ranges) > RANGES_MAX or not contains(row.step.ranges, ranges):
        raise Refused("BAD_REPORT", "A.5", "The report names tokens that were not asked for.")


def _late(message: str) -> Refused:
    return Refused("LATE_FACT", "scenario 18", message)
