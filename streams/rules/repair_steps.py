"""Rules of a segment: who is asked next, when a step is over, what comes then, and what becomes of failures (RE21).

A segment goes through one line of steps:

    PREPARE, LEAVES (refined while it pays), DIGESTS of what differs          what differs?
    PREPARE, DIGESTS of the same                                              does it last? (recheck)
    SEND, WRITE                                                               a repair only
    PREPARE, LEAVES of what was written                                       is it equal now?

Each wait has an owner: a task that its replica does not end, or a comparison that the rendezvous does not send, is
given up when it has not moved for `stall_ms`. A task that fails is asked for again, as often as `retries` says, under a
new attempt; what fails for good ends the segment, or halves it, so that one bad leaf ends up alone (RE31).
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from topolog.events.decision import Decision
from topolog.events.repair import SegmentEnded, SegmentHalved, SegmentPlan, StepStarted, TaskAssigned, TaskFailed
from topolog.events.repair_definition import SEGMENTS_MAX, Rendezvous, SessionKind
from topolog.events.repair_tasks import RANGES_MAX, Copy, Pair, Purpose, Step, Task, TaskId, TaskKind, TaskStatus
from topolog.events.repair_turns import SCANS, place_of, places_taken
from topolog.events.replicas import replica, replica_key
from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow
from topolog.events.state import State
from topolog.events.token_range import RING_BITS, Ranges, cells, coarsened, split, union
from topolog.events.tree_spec import LEAF_ROWS, REFINE_BITS, TreeSpec
from topolog.streams.rules.allowed import stands_still
from topolog.streams.rules.deadlines import Deadline
from topolog.streams.rules.repair_words import compared_without, final, full_copy, hot_key, unresolved

REFINED_PERCENT_MAX = 20
"""If more of the leaves differ, finer leaves would differ too: their rows are looked at right away (RE21)."""

REFINED_ROWS = 100_000
"""So many rows in leaves that differ are too many to make a digest of each, where finer leaves leave out most."""

DIGESTS_MAX = 5_000_000
"""Digests of a segment that are sent at most, by all replicas together: what the rendezvous has room for. If more rows
stand where something differs, a full copy is what helps (RE21)."""

HOT_LEAVES_MAX = 16
"""So few leaves are refined however full they are: they may hold many rows of one key (RE21)."""

RETRY_MS, RETRY_MS_MAX = 1_000, 60_000
"""How long a task that has failed rests before it is asked for again; twice as long each time."""

RETRYABLE = frozenset({"STALLED", "IO", "INTERRUPTED"})
CUT_LOST = "CUT_LOST"
"""The read point is no longer there, or the schema has changed behind it: the segment begins anew (RE14)."""

_ABSENT = ("REPLICA_DOWN", "WITHDRAWN")
_WHOLE = ("WITHDRAWN", "SCHEMA_MISMATCH", "RANGE", "UNSUPPORTED", "TREE_CONFLICT", CUT_LOST, "RENDEZVOUS_DOWN")
"""What is no matter of how many tokens are asked for."""


def deadlines(session: SessionRow, row: SegmentRow) -> list[Deadline]:
    """One for each task that is under way, or for the rendezvous once all have answered."""
    step = row.step
    if step is None:
        return []
    wait_ms = session.definition.prepare_ms if step.kind is TaskKind.PREPARE else session.definition.stall_ms
    open_tasks = [task for task in row.tasks if task.status is TaskStatus.ASSIGNED]
    if not open_tasks and step.kind in SCANS and len(_done(row)) == len(asked(row)):
        newest = max(task.grown_at for task in row.tasks)
        return [Deadline(_compare_key(row), newest, session.definition.stall_ms)]
    waits = [Deadline(_task_key(row, task), task.grown_at, wait_ms) for task in open_tasks]
    rests = [task for task in row.tasks if _may_retry(session, row, task) and task.code != "STALLED"]
    return waits + [Deadline(_retry_key(row, task), task.grown_at, _retry_ms(task)) for task in rests]


def _task_key(row: SegmentRow, task: Task) -> str:
    return f"task/{row.session}/{row.index}/{task.grown_at}/{task.attempt}/{task.replica}"


def _retry_key(row: SegmentRow, task: Task) -> str:
    return f"retry/{row.session}/{row.index}/{task.grown_at}/{task.attempt}/{task.replica}"


def _retry_ms(failed: Task) -> int:
    return min(RETRY_MS << (failed.attempt - 1), RETRY_MS_MAX)


def _compare_key(row: SegmentRow) -> str:
    """The wait begins anew with each pair."""
    newest = max(task.grown_at for task in row.tasks)
    return f"task/{row.session}/{row.index}/{newest}/compare/{len(row.pairs)}"


def begun(row: SegmentRow) -> list[Decision]:
    """The first step of a segment that is pending."""
    return [_start(row, TaskKind.PREPARE, Purpose.COMPARE, row.ranges)]


def settle(
    state: State, session: SessionRow, row: SegmentRow, passed: Collection[str], occupied: Collection[str]
) -> list[Decision]:
    """What follows for a segment that runs. `passed`: keys of deadlines; `occupied`: ids of replicas that work."""
    assert row.step is not None, "a segment runs that has no step"
    stalled = _given_up(state, session, row, passed)
    if stalled:
        return stalled
    lost = [task for task in row.tasks if _is_lost(session, row, task)]
    ended = _failed(session, row, lost) if lost else []
    if ended or stands_still(state, session):
        return ended
    assigned = _assigned(state, session, row, passed, occupied)
    if assigned:
        return assigned
    if any(_is_open(session, row, task) for task in row.tasks) or len(row.tasks) < len(asked(row)):
        return []
    if row.step.kind is TaskKind.LEAVES and len(row.pairs) < len(pairs(session, row)):
        return _uncompared(session, row, passed)
    if row.step.kind is TaskKind.DIGESTS and row.found_in != row.step.number:
        return _uncompared(session, row, passed)
    return _next(session, row)


def present(row: SegmentRow) -> list[str]:
    """The replicas that are compared, the initiator first."""
    return [name for name in row.replicas if name not in row.absent]


def asked(row: SegmentRow) -> list[str]:
    """Whom the present step asks."""
    assert row.step is not None
    match row.step.kind:
        case TaskKind.SEND:
            return sorted({copy.source for copy in _copies(row)})
        case TaskKind.WRITE:
            return sorted({copy.target for copy in _copies(row)})
    return present(row)


def _copies(row: SegmentRow) -> list[Copy]:
    """What is to be copied; what could not be sent is not written (RE24)."""
    unsent = {task.replica for task in row.uncopied}
    return [copy for copy in (row.found.copies if row.found else ()) if copy.source not in unsent]


def pairs(session: SessionRow, row: SegmentRow) -> list[tuple[str, str]]:
    """Which trees are compared with each other (RE22): EARLY each with the initiator's, ALL every two."""
    names = present(row)
    if session.definition.rendezvous is Rendezvous.EARLY:
        return [(names[0], name) for name in names[1:]]
    return list(combinations(names, 2))


def _done(row: SegmentRow) -> list[Task]:
    return [task for task in row.tasks if task.status is TaskStatus.DONE]


def _task_id(row: SegmentRow, name: str, attempt: int) -> TaskId:
    assert row.step is not None
    return TaskId(row.session, row.index, row.step.number, name, attempt)


def _given_up(state: State, session: SessionRow, row: SegmentRow, passed: Collection[str]) -> list[Decision]:
    """Tasks whose time has passed, and those of replicas that nobody serves any more."""
    found: list[Decision] = []
    for task in row.tasks:
        if task.status is not TaskStatus.ASSIGNED:
            continue
        named = _task_id(row, task.replica, task.attempt)
        if replica(state, session.definition.table, task.replica) is None:
            message = f"Nobody serves replica {task.replica} any more."
            found.append(TaskFailed(None, named, "WITHDRAWN", message, task.rows))
        elif _task_key(row, task) in passed:
            found.append(TaskFailed(None, named, "STALLED", "No progress for too long.", task.rows))
    return found


def _is_open(session: SessionRow, row: SegmentRow, task: Task) -> bool:
    """Whether something may still come of a task."""
    return task.status is TaskStatus.ASSIGNED or _may_retry(session, row, task)


def _is_lost(session: SessionRow, row: SegmentRow, task: Task) -> bool:
    """Whether a task has failed for good."""
    return task.status is TaskStatus.FAILED and not _may_retry(session, row, task)


def _may_retry(session: SessionRow, row: SegmentRow, task: Task) -> bool:
    """Whether a task has failed and may be asked for again. A replica that does not even prepare is down; what is wrong
    with its data stays wrong."""
    assert row.step is not None
    is_down = row.step.kind is TaskKind.PREPARE and task.code == "STALLED"
    may = task.code in RETRYABLE and not is_down and task.attempt <= session.definition.retries
    return task.status is TaskStatus.FAILED and may


def _has_rested(session: SessionRow, row: SegmentRow, task: Task, passed: Collection[str]) -> bool:
    """Whether a task that has failed is to be asked for again now; one that has stalled has waited long enough."""
    return _may_retry(session, row, task) and (task.code == "STALLED" or _retry_key(row, task) in passed)


def _assigned(
    state: State, session: SessionRow, row: SegmentRow, passed: Collection[str], occupied: Collection[str]
) -> list[Decision]:
    """The tasks that may be asked for now (see `events/repair_turns.py`)."""
    assert row.step is not None
    tasks = {task.replica: task for task in row.tasks}
    waiting = [name for name in asked(row) if name not in tasks or _has_rested(session, row, tasks[name], passed)]
    is_free = {name: replica_key(session.definition.table, name) not in occupied for name in waiting}
    taken = places_taken(state, session) if any(is_free.values()) and row.step.kind in SCANS else set()
    found: list[Decision] = []
    for name in waiting:
        place = place_of(state, session, row, name)
        if is_free[name] and place not in taken:
            taken.add(place)
            attempt = tasks[name].attempt + 1 if name in tasks else 1
            found.append(TaskAssigned(_task_id(row, name, attempt), _expected(state, session, row, name)))
    return found


def _expected(state: State, session: SessionRow, row: SegmentRow, name: str) -> int:
    """About how many rows the task has to do with, for progress."""
    assert row.step is not None
    declared = replica(state, session.definition.table, name)
    match row.step.kind:
        case TaskKind.PREPARE:
            return 0
        case TaskKind.SEND | TaskKind.WRITE:
            side = "source" if row.step.kind is TaskKind.SEND else "target"
            return sum(copy.rows for copy in _copies(row) if getattr(copy, side) == name)
    return declared.definition.rows if declared else 0


def _uncompared(session: SessionRow, row: SegmentRow, passed: Collection[str]) -> list[Decision]:
    if _compare_key(row) not in passed:
        return []
    message = "The rendezvous has not compared what was sent. Is `topolog run rendezvous` running?"
    return _ended_or_halved(session, row, "RENDEZVOUS_DOWN", message)


def _next(session: SessionRow, row: SegmentRow) -> list[Decision]:
    """All that the present step waits for is there."""
    assert row.step is not None
    match row.step.kind, row.step.purpose:
        case TaskKind.PREPARE, Purpose.COMPARE:
            return [_start(row, TaskKind.LEAVES, Purpose.COMPARE, row.ranges, bits=_spec(session).bits)]
        case TaskKind.PREPARE, Purpose.RECHECK:
            return _recheck(session, row)
        case TaskKind.PREPARE, Purpose.VERIFY:
            bits = _spec(session).bits
            return [_start(row, TaskKind.LEAVES, Purpose.VERIFY, _found(row), bits=bits)]
        case TaskKind.LEAVES, Purpose.COMPARE:
            return _behind_leaves(session, row, differing(row.pairs))
        case TaskKind.LEAVES, Purpose.VERIFY:
            return [_verified(row, differing(row.pairs))]
        case TaskKind.DIGESTS, purpose:
            return _behind_digests(session, row, purpose)
        case TaskKind.SEND, _:
            return [_start(row, TaskKind.WRITE, Purpose.REPAIR, _found(row), of=row.step.number)]
    return [_start(row, TaskKind.PREPARE, Purpose.VERIFY, _found(row))]


def _behind_leaves(session: SessionRow, row: SegmentRow, ranges: Ranges) -> list[Decision]:
    """Equal; or without read points nobody can say; or finer leaves; or the rows themselves."""
    assert row.step is not None
    if not ranges:
        is_refined = row.step.bits > _spec(session).bits
        return [_unstable(row) if is_refined else _ended(row, SegmentStatus.EQUAL)]
    if _blind(row):
        return [_inconclusive(row)]
    finer = min(row.step.bits + REFINE_BITS, RING_BITS)
    if _pays(row) and finer > row.step.bits:
        return [_start(row, TaskKind.LEAVES, Purpose.COMPARE, ranges, bits=finer)]
    if (rows := _rows_in(row, coarsened(ranges, RANGES_MAX, row.ranges))) * len(present(row)) > DIGESTS_MAX:
        told = hot_key(_fullest(row)) if _is_hot(row) and row.step.bits == RING_BITS else full_copy(rows)
        left = ranges if session.definition.kind is SessionKind.REPAIR else ()
        return [_ended(row, SegmentStatus.DIFFERENT, *told, left)]
    return [_start(row, TaskKind.DIGESTS, Purpose.COMPARE, ranges)]


def _rows_in(row: SegmentRow, ranges: Ranges) -> int:
    """About how many rows each replica has there: as many to a token as where a pair differs."""
    return max(-(-pair.rows * cells(ranges) // cells(pair.ranges)) for pair in row.pairs if pair.ranges)


def _is_hot(row: SegmentRow) -> bool:
    """Whether a single leaf has more rows than can be compared."""
    return _fullest(row) * len(present(row)) > DIGESTS_MAX


def _fullest(row: SegmentRow) -> int:
    return max(pair.leaf_rows_max for pair in row.pairs)


def _blind(row: SegmentRow) -> list[str]:
    """The replicas that have no read point, so that nothing can be called different (RE19)."""
    return [name for name in present(row) if name not in row.cuts]


def _inconclusive(row: SegmentRow) -> Decision:
    message = f"It differs, but {', '.join(_blind(row))} had no read point, so rows may have changed meanwhile."
    return _ended(row, SegmentStatus.INCONCLUSIVE, "NO_CUT", message, row.ranges)


def _unstable(row: SegmentRow) -> Decision:
    """Leaves that differ have rows that do, at the same read points."""
    message = (
        "Leaves differ, and none of what they hold does: a replica does not read the same twice at one read point."
    )
    return _ended(row, SegmentStatus.INCONCLUSIVE, "UNSTABLE", message, row.ranges)


def _pays(row: SegmentRow) -> bool:
    """Whether finer leaves would leave out most of the rows, or show that they are all of one key."""
    is_few = all(pair.leaves * 100 <= pair.leaves_compared * REFINED_PERCENT_MAX for pair in row.pairs if pair.leaves)
    is_hot = _is_hot(row) and max(pair.leaves for pair in row.pairs) <= HOT_LEAVES_MAX
    is_much = _fullest(row) > LEAF_ROWS or max(pair.rows for pair in row.pairs) > REFINED_ROWS
    return (is_much and is_few) or is_hot


def _behind_digests(session: SessionRow, row: SegmentRow, purpose: Purpose) -> list[Decision]:
    assert row.found is not None
    if not row.found.rows and row.found.purged:
        message = f"{row.found.purged} tombstones are older than they are kept, and some replicas have removed them."
        return [_ended(row, SegmentStatus.EQUAL, "PURGED", message)]
    if not row.found.rows and purpose is Purpose.COMPARE:
        return [_unstable(row)]
    if not row.found.rows:
        message = f"{row.found.gone} rows differed and no longer do." if row.found.gone else ""
        return [_ended(row, SegmentStatus.EQUAL, "TRANSIENT" if message else "", message)]
    if purpose is Purpose.COMPARE and session.definition.recheck:
        return [_start(row, TaskKind.PREPARE, Purpose.RECHECK, _found(row))]
    return _behind_findings(session, row)


def _recheck(session: SessionRow, row: SegmentRow) -> list[Decision]:
    """What is read at the same points again is the same."""
    if _blind(row):
        return [_inconclusive(row)]
    if row.cuts == row.former_cuts:
        return _behind_findings(session, row)
    return [_start(row, TaskKind.DIGESTS, Purpose.RECHECK, _found(row), of=row.found_in)]


def _behind_findings(session: SessionRow, row: SegmentRow) -> list[Decision]:
    assert row.found is not None
    if session.definition.kind is SessionKind.PREVIEW:
        return [_ended(row, SegmentStatus.DIFFERENT)]
    if not row.found.copies:
        return [_ended(row, SegmentStatus.DIFFERENT, "UNRESOLVED", unresolved(row), _found(row))]
    return [_start(row, TaskKind.SEND, Purpose.REPAIR, _found(row), of=row.found_in)]


def _verified(row: SegmentRow, ranges: Ranges) -> Decision:
    assert row.found is not None
    if not ranges:
        return _ended(row, SegmentStatus.REPAIRED)
    if row.uncopied:
        return _ended(row, SegmentStatus.DIFFERENT, *final(row, row.uncopied[0]), ranges)
    if row.found.unresolved:
        return _ended(row, SegmentStatus.DIFFERENT, "UNRESOLVED", unresolved(row), ranges)
    message = f"{row.rows_written} rows were written, {row.skipped} had changed since, and it still differs."
    return _ended(row, SegmentStatus.DIFFERENT, "STILL_DIFFERENT", message, ranges)


def _failed(session: SessionRow, row: SegmentRow, lost: Sequence[Task]) -> list[Decision]:
    """Tasks have failed for good. Others go on where they can (RE30, RE24)."""
    assert row.step is not None
    down = [task.replica for task in lost if final(row, task)[0] in _ABSENT]
    worst = next((task for task in lost if task.replica not in down), lost[0])
    code, message = final(row, worst)
    if code == CUT_LOST and row.restarts < session.definition.retries:
        return [_start(row, TaskKind.PREPARE, Purpose.COMPARE, row.ranges)]
    is_prepare = row.step.kind is TaskKind.PREPARE and row.step.purpose is Purpose.COMPARE
    others = [name for name in present(row) if name not in down]
    may_go_on = session.definition.allow_partial and session.definition.kind is SessionKind.PREVIEW
    if is_prepare and may_go_on and len(others) >= 2 and len(down) == len(lost):
        return [_start(row, TaskKind.PREPARE, Purpose.COMPARE, row.ranges, absent=(*row.absent, *down))]
    if row.step.purpose is Purpose.REPAIR and _go_on(row, lost):
        return []
    if row.step.purpose in (Purpose.REPAIR, Purpose.VERIFY):
        if row.uncopied:
            code, message = final(row, row.uncopied[0])
        return [_ended(row, SegmentStatus.DIFFERENT, code, message, _found(row))]
    return _ended_or_halved(session, row, code, message)


def _go_on(row: SegmentRow, lost: Sequence[Task]) -> bool:
    """Whether others still copy, or have: then what is left is what differs behind that."""
    return len(_done(row)) + len(lost) < len(asked(row)) or bool(_done(row))


def _ended_or_halved(session: SessionRow, row: SegmentRow, code: str, message: str) -> list[Decision]:
    """Only a scan can have less to do; what is wrong with a whole replica is as wrong with half of it."""
    assert row.step is not None
    halves = split(row.ranges, 2, _spec(session).bits)
    may_help = session.definition.halves and row.step.kind in SCANS and code not in _WHOLE
    if not may_help or len(halves) < 2 or session.segments + len(halves) > SEGMENTS_MAX:
        return [_ended(row, SegmentStatus.FAILED, code, message, row.ranges)]
    return [SegmentHalved(row.session, row.index, tuple(SegmentPlan(half, row.replicas) for half in halves))]


def _start(
    row: SegmentRow,
    kind: TaskKind,
    purpose: Purpose,
    ranges: Ranges,
    *,
    bits: int = 0,
    of: int = 0,
    absent: Sequence[str] | None = None,
) -> StepStarted:
    number = row.step.number + 1 if row.step else 1
    step = Step(number, kind, purpose, coarsened(ranges, RANGES_MAX, row.ranges), bits, of)
    return StepStarted(row.session, row.index, step, row.absent if absent is None else tuple(absent))


def _ended(
    row: SegmentRow, status: SegmentStatus, code: str = "", message: str = "", left: Ranges = ()
) -> SegmentEnded:
    if row.absent and not code:
        code, message = compared_without(row)
    return SegmentEnded(row.session, row.index, status, code, message, coarsened(left, RANGES_MAX, row.ranges))


def _found(row: SegmentRow) -> Ranges:
    assert row.found is not None, "a step behind findings needs them"
    return row.found.ranges


def differing(compared: Iterable[Pair]) -> Ranges:
    return union(each for pair in compared for each in pair.ranges)


def _spec(session: SessionRow) -> TreeSpec:
    assert session.spec is not None, "a session runs that has no spec"
    return session.spec
