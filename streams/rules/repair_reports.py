"""Rules of what validators and the rendezvous report: what counts, what is a repeat, what comes too late (RE5, RE6).

Whoever reports may be a process that was given up long ago, or say the same twice. A report counts if it is on the task
as it stands, in its newest attempt, by the process that serves the replica now; the first one wins. An equal repeat is
unchanged; another tree under the same attempt is a conflict, for one read point has one tree (RE5); all others
are late facts: they are in the log as refusals, and change nothing (RE6).
"""

from collections.abc import Collection

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.repair import PairCompared, RowsCompared, TaskCompleted, TaskFailed, TaskProgressed
from topolog.events.repair_definition import Policy
from topolog.events.repair_requests import ComparisonReported, FindingsReported, TaskReported
from topolog.events.repair_tasks import (
    COPIES_MAX,
    PAGES_DAMAGED,
    RANGES_MAX,
    ROW_TOO_LARGE,
    Copy,
    Findings,
    Purpose,
    Result,
    Task,
    TaskId,
    TaskKind,
    TaskStatus,
)
from topolog.events.repair_turns import SCANS
from topolog.events.replica import REPLICAS_MAX
from topolog.events.replicas import replica
from topolog.events.requests import RequestUnchanged, shortened
from topolog.events.sessions import SegmentRow, SessionRow, segment, session, task_of
from topolog.events.state import State
from topolog.events.token_range import RING, Ranges, contains, union
from topolog.streams.rules.repair_steps import pairs, present

CODE_CHARS_MAX = 40
CUT_CHARS_MAX = 1_000
COUNT_MAX = 1 << 50
"""Of rows, bytes and milliseconds of a segment: what a session adds up of them is still a number of 64 bits."""

TOLD_MAX = COUNT_MAX // (2 * REPLICAS_MAX)
"""Rows that a task tells of on its way: those of all replicas may be added up."""

_DIGEST_BYTES = 32
_PAGED = (TaskKind.LEAVES, TaskKind.DIGESTS, TaskKind.SEND)
_KINDS_MAX = 40


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
    """A validator on its task, or the rendezvous on what was sent for one that is done."""
    _, row = _current(state, request.task.session, request.task.segment, request.task.step)
    task = task_of(row, request.task)
    if task is None:
        raise _late("This is not the newest attempt at the task.")
    if _is_refused(row, task, request):
        return [TaskFailed(ref, request.task, request.code, shortened(request.message), task.rows)]
    _check_life(state, request)
    if task.status is not TaskStatus.ASSIGNED:
        return [_repeated(request, ref, row, task)]
    told_rows = min(request.rows, TOLD_MAX)
    if request.code:
        return [TaskFailed(ref, request.task, request.code[:CODE_CHARS_MAX], shortened(request.message), told_rows)]
    if request.result is not None:
        _check_result(row, request.task.replica, request.result)
        return [TaskCompleted(ref, request.task, request.result)]
    if told_rows <= task.rows and request.bytes <= task.bytes:
        return [RequestUnchanged(ref, request.subject, None)]
    return [TaskProgressed(ref, request.task, max(told_rows, task.rows), max(request.bytes, task.bytes))]


def _is_refused(row: SegmentRow, task: Task, request: TaskReported) -> bool:
    """The rendezvous, which no replica's life has, on an answer that it cannot compare."""
    assert row.step is not None
    is_answered = task.status is TaskStatus.DONE and row.step.kind in SCANS
    return is_answered and request.code in (PAGES_DAMAGED, ROW_TOO_LARGE) and request.result is None


def _repeated(request: TaskReported, ref: RequestRef, row: SegmentRow, task: Task) -> Decision:
    assert row.step is not None
    if request.result is not None and task.result is not None:
        if request.result == task.result:
            return RequestUnchanged(ref, request.subject, None)
        if row.step.kind is TaskKind.LEAVES and request.result.digest != task.result.digest:
            message = "Two trees were sent for one attempt at one read point, and they differ."
            return TaskFailed(ref, request.task, "TREE_CONFLICT", message, task.rows)
    raise _late("The task has its answer already.")


def _check_life(state: State, request: TaskReported) -> None:
    owner = session(state, request.task.session)
    assert owner is not None
    row = replica(state, owner.definition.table, request.task.replica)
    if row is None or row.life != request.life:
        raise Refused("SUPERSEDED", "RE9", "This process does not serve the replica any more.")


def _check_result(row: SegmentRow, name: str, result: Result) -> None:
    """A digest of all that is on pages, and read points from PREPARE only; counts that can be summed up."""
    assert row.step is not None
    kind, cut = row.step.kind, result.cut
    numbers = (result.pages, result.rows, result.bytes, result.skipped, result.worked_ms)
    worked_ms = row.worked_ms + sum(task.result.worked_ms for task in row.tasks if task.result)
    sums = (result.pages, max(row.rows_read, row.rows_written), row.bytes_read, row.skipped, worked_ms)
    counts = all(0 <= number <= COUNT_MAX - before for number, before in zip(numbers, sums, strict=True))
    has_digest = len(result.digest) == (_DIGEST_BYTES if kind in _PAGED else 0)
    is_cut = cut is None or (kind is TaskKind.PREPARE and len(cut.name) <= CUT_CHARS_MAX and len(cut.schema) <= 64)
    if not (counts and has_digest and (is_cut or cut == row.cuts.get(name))):
        raise Refused("BAD_REPORT", "RE6", "The result of the task cannot be right.")


def _compared(state: State, request: ComparisonReported, ref: RequestRef) -> list[Decision]:
    """The rendezvous on two trees: the first report on each pair counts."""
    owner, row = _current(state, request.session, request.segment, request.step)
    pair = request.pair
    _check_attempts(row, request.attempts, TaskKind.LEAVES, (pair.left, pair.right))
    known = next((each for each in row.pairs if (each.left, each.right) == (pair.left, pair.right)), None)
    if known is not None:
        if known == pair:
            return [RequestUnchanged(ref, request.subject, None)]
        raise _late("This pair has been compared already.")
    is_asked = (pair.left, pair.right) in pairs(owner, row)
    counts = 0 <= pair.leaves <= pair.leaves_compared <= RING and 0 <= pair.leaf_rows_max <= pair.rows <= COUNT_MAX
    if not is_asked or not counts or bool(pair.ranges) is not bool(pair.leaves):
        raise Refused("BAD_REPORT", "RE6", "The comparison is not one of those that are asked for.")
    _check_ranges(row, pair.ranges)
    return [PairCompared(ref, request.session, request.segment, request.step, pair)]


def _found(state: State, request: FindingsReported, ref: RequestRef) -> list[Decision]:
    """The rendezvous on the rows of all replicas."""
    owner, row = _current(state, request.session, request.segment, request.step)
    _check_attempts(row, request.attempts, TaskKind.DIGESTS, present(row))
    findings = request.findings
    if row.found_in == request.step:
        if row.found == findings:
            return [RequestUnchanged(ref, request.subject, None)]
        raise _late("These rows have been compared already.")
    if not (_are_sound(row, findings) and all(_may_be_sent(owner, row, copy) for copy in findings.copies)):
        raise Refused("BAD_REPORT", "RE6", "The findings cannot be right.")
    _check_ranges(row, findings.ranges)
    return [RowsCompared(ref, request.session, request.segment, request.step, findings)]


def _are_sound(row: SegmentRow, findings: Findings) -> bool:
    """A recheck looks at the rows that were found before, and at no others."""
    assert row.step is not None
    before = row.found.rows if row.found and row.step.purpose is Purpose.RECHECK else None
    told = {**findings.kinds, **findings.unresolved}
    numbers = (findings.pages, findings.purged, *findings.kinds.values(), *findings.unresolved.values())
    ends = {(copy.source, copy.target) for copy in findings.copies}
    return (
        0 <= findings.rows <= COUNT_MAX
        and findings.gone == (0 if before is None else before - findings.rows)
        and findings.gone >= 0
        and all(0 <= number <= COUNT_MAX for number in numbers)
        and all(len(name) <= CODE_CHARS_MAX for name in told)
        and len(findings.kinds) + len(findings.unresolved) <= _KINDS_MAX
        and len(ends) == len(findings.copies) <= COPIES_MAX
        and len(findings.digest) == _DIGEST_BYTES
        and bool(findings.ranges) is bool(findings.rows)
    )


def _may_be_sent(owner: SessionRow, row: SegmentRow, copy: Copy) -> bool:
    """Whether the session's policy allows such a copy, whoever has planned it (RE2)."""
    definition, names = owner.definition, present(row)
    is_right = definition.policy is not Policy.PULL or copy.source == definition.source
    return (
        copy.source != copy.target
        and {copy.source, copy.target} <= {*names}
        and definition.policy is not Policy.REPORT
        and is_right
        and 0 <= copy.deletes <= copy.rows <= COUNT_MAX
        and copy.rows > 0
        and (definition.deletes_extra or not copy.deletes)
    )


def _current(state: State, number: Position, index: int, step: int) -> tuple[SessionRow, SegmentRow]:
    """The session and the segment whose present step this is."""
    owner = session(state, number)
    if owner is None:
        raise Refused("UNKNOWN_SESSION", "RE6", f"There is no session {number}.")
    row = segment(state, number, index)
    if row is None or row.step is None:
        raise _late("The session or its segment has ended.")
    if row.step.number != step:
        raise _late(f"Segment {index} is at step {row.step.number}.")
    return owner, row


def _check_attempts(row: SegmentRow, attempts: tuple[TaskId, ...], kind: TaskKind, replicas: Collection[str]) -> None:
    """Only what the log has as the answers of the present step may have been compared, of just these replicas."""
    assert row.step is not None
    done = {
        TaskId(row.session, row.index, row.step.number, task.replica, task.attempt)
        for task in row.tasks
        if task.status is TaskStatus.DONE
    }
    wanted = {each for each in done if each.replica in replicas}
    if row.step.kind is not kind or len(wanted) < len(replicas) or sorted(attempts) != sorted(wanted):
        raise _late("What was compared are not the answers that count.")


def _check_ranges(row: SegmentRow, ranges: Ranges) -> None:
    """No range lies outside the request (CASSANDRA-13052)."""
    assert row.step is not None
    is_set = union(ranges) == ranges and len(ranges) <= max(RANGES_MAX, len(row.step.ranges))
    if not is_set or not contains(row.step.ranges, ranges):
        raise Refused("BAD_REPORT", "RE12", "The report names tokens that were not asked for.")


def _late(message: str) -> Refused:
    return Refused("LATE_FACT", "RE6", message)
