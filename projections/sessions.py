"""What can be asked of sessions of anti-entropy: all of them, newest first, one by its number, what it asks now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from topolog.events import token_range
from topolog.events.errors import BadInput, NotFound
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.repair_tasks import Purpose, Task, TaskKind, TaskStatus
from topolog.events.sessions import SegmentRow, SegmentStatus, SessionRow, rows_written, session_key
from topolog.events.token_range import FULL, Ranges
from topolog.projections import changes, queries
from topolog.projections.moments import iso, position_time
from topolog.projections.repair_resources import RepairCopy, Session, SessionSegment, SessionTask
from topolog.projections.session_totals import Totals, compared_by, segments_of, totals
from topolog.projections.store import Reading

_DIGITS_MAX = 18
_WHOLE = "FULL"


def sessions(reading: Reading, filters: Mapping[str, str], before: int | None = None) -> Iterator[Session]:
    """Sessions with numbers below `before`, newest first, as long as coordinators keep them. Filters: state, kind,
    table, verdict."""
    rows = sorted((row for _, row in reading.rows(SessionRow)), key=lambda row: -row.number)
    for row in rows:
        about = {"state": row.status.value, "kind": row.definition.kind.value, "table": row.definition.table}
        is_fitting = all(filters.get(name) in (None, value) for name, value in about.items())
        if is_fitting and (before is None or row.number < before):
            found = shown(reading, row)
            if filters.get("verdict") in (None, found.verdict):
                yield found


def session(reading: Reading, name: str) -> Session:
    """One session, however long ago, with its segments and what it asks now."""
    row = surely(reading, name)
    parts = segments_of(reading, row)
    spec = row.spec
    return msgspec.structs.replace(
        shown(reading, row),
        spec_id=spec.id.hex() if spec else None,
        columns=tuple(f"{each.name} {each.type}" for each in spec.columns) if spec else (),
        copies=copies(parts),
        parts=tuple(_part(each) for each in parts),
        tasks=tuple(tasks(reading, row)),
        definition=said(row.definition),
    )


def surely(reading: Reading, name: str) -> SessionRow:
    """The newest row of a session; raises BadInput for what is no number, NotFound if there is none."""
    if not (name.isascii() and name.isdecimal() and len(name) <= _DIGITS_MAX):
        raise BadInput(f"{name!r} is no number of a session.", hint="`topolog get sessions` lists them.")
    row = row_ever(reading, int(name))
    if row is None:
        raise NotFound(
            f"There is no session {name}.",
            hint="A session has the number of the position where it was granted: `topolog get sessions`.",
        )
    return row


def row_ever(reading: Reading, number: int) -> SessionRow | None:
    """The newest row of a session, also of one that coordinators no longer keep."""
    return next((row for _, row in reading.versions(SessionRow, session_key(number)) if row is not None), None)


def opened(reading: Reading) -> list[SessionRow]:
    """Queued and running sessions, the oldest first."""
    rows = (row for _, row in reading.rows(SessionRow) if not row.status.is_end)
    return sorted(rows, key=lambda row: row.number)


def shown(reading: Reading, row: SessionRow) -> Session:
    """A session as a list shows it."""
    sums = totals(reading, row)
    definition = row.definition
    granted = reading.surely_decision(row.number)
    ended = None if row.ended_at is None else reading.surely_decision(row.ended_at)
    end_ms = changes.now_ms(reading) if ended is None else ended.logged_at_ms
    covered = row.covered if row.ended_at is not None else _covered(segments_of(reading, row))
    return Session(
        number=row.number,
        table=definition.table,
        kind=definition.kind.value,
        state=row.status.value,
        verdict=_verdict(row, sums),
        paused=row.paused,
        policy=definition.policy.value,
        source=definition.source,
        replicas=compared_by(reading, row),
        node=definition.node,
        ranges=texts(definition.ranges),
        strength=definition.strength.value,
        bits=row.spec.bits if row.spec else None,
        segments=sums.segments,
        segments_done=sums.ended,
        segments_by_state=sums.by_state,
        rows_read=sums.rows_read,
        bytes_read=sums.bytes_read,
        rows_differ=sums.rows_differ,
        kinds=sums.kinds,
        to_copy=sums.to_copy,
        to_delete=sums.to_delete,
        unresolved=sums.unresolved,
        gone=sums.gone,
        rows_written=sums.rows_written,
        skipped=sums.skipped,
        percent=_percent(reading, row, sums),
        eta_ms=_eta_ms(reading, row, sums, end_ms),
        covered=texts(covered),
        covered_percent=percent_of(covered, definition.ranges),
        left=texts(row.left),
        differing=texts(row.differing),
        code=row.code,
        message=row.message,
        actor=granted.asked_by,
        reason=granted.asked_for,
        schedule=row.schedule,
        preview=definition.preview,
        intensity=definition.intensity,
        parallel=definition.parallel,
        time=iso(granted.logged_at_ms),
        age_ms=max(0, end_ms - granted.logged_at_ms),
        opened_at=row.opened_at,
        ended_at=row.ended_at,
        ended_time=None if row.ended_at is None else position_time(reading, row.ended_at),
    )


def copies(segments: Sequence[SegmentRow]) -> tuple[RepairCopy, ...]:
    """What a session's policy sends, by source and target."""
    rows: Counter[tuple[str, str]] = Counter()
    deletes: Counter[tuple[str, str]] = Counter()
    for copy in (copy for each in segments if each.found for copy in each.found.copies):
        rows[copy.source, copy.target] += copy.rows
        deletes[copy.source, copy.target] += copy.deletes
    return tuple(RepairCopy(*ends, count, deletes[ends]) for ends, count in sorted(rows.items()))


def tasks(reading: Reading, row: SessionRow) -> Iterator[SessionTask]:
    """What each replica is asked now, segment by segment; nothing of a session that has ended."""
    if row.status.is_end:
        return
    now_ms = changes.now_ms(reading)
    for segment in segments_of(reading, row):
        for task in segment.tasks if segment.step is not None else ():
            yield _task(reading, row, segment, task, now_ms)


def texts(ranges: Ranges) -> tuple[str, ...]:
    """Ranges as people read them."""
    return (_WHOLE,) if ranges == (FULL,) else tuple(map(str, ranges))


def percent_of(part: Ranges, whole: Ranges) -> int:
    """Rounded down: 100 is all of it."""
    cells = token_range.cells(whole)
    return token_range.cells(part) * 100 // cells if cells else 0


def _verdict(row: SessionRow, sums: Totals) -> str | None:
    """Of segments that differ it is sure at once; that all agree only when nothing is left of what was asked."""
    if row.status.is_end and row.left and sums.verdict not in ("DIFFER", "INCONCLUSIVE"):
        return None
    return sums.verdict


def _covered(segments: Sequence[SegmentRow]) -> Ranges:
    """The tokens whose segments have ended with something to say, so far."""
    said = (each for each in segments if each.status.is_end and each.status is not SegmentStatus.HALVED)
    return token_range.union(piece for each in said for piece in token_range.without(each.ranges, each.left))


def _part(row: SegmentRow) -> SessionSegment:
    step = row.step
    return SessionSegment(
        index=row.index,
        state=row.status.value,
        ranges=texts(row.ranges),
        replicas=row.replicas,
        absent=row.absent,
        step=step.number if step else 0,
        kind=step.kind.value if step else "",
        purpose=step.purpose.value if step else "",
        rows_read=row.rows_read,
        rows_found=row.found.rows if row.found else 0,
        rows_written=rows_written(row),
        skipped=row.skipped,
        left=texts(row.left),
        code=row.code,
        message=row.message,
    )


def _task(reading: Reading, row: SessionRow, segment: SegmentRow, task: Task, now_ms: int) -> SessionTask:
    step = segment.step
    assert step is not None, "asked only of a segment that is at a step"
    is_open = task.status is TaskStatus.ASSIGNED
    silent_ms = max(0, now_ms - reading.surely_decision(task.grown_at).logged_at_ms) if is_open else None
    wait_ms = row.definition.prepare_ms if step.kind is TaskKind.PREPARE else row.definition.stall_ms
    rows = task.result.rows if task.result else task.rows
    return SessionTask(
        segment=segment.index,
        step=step.number,
        kind=step.kind.value,
        purpose=step.purpose.value,
        replica=task.replica,
        attempt=task.attempt,
        state=task.status.value,
        rows=rows,
        bytes=task.result.bytes if task.result else task.bytes,
        rows_expected=task.rows_expected,
        percent=_task_percent(task),
        eta_ms=_task_eta_ms(reading, task, now_ms) if is_open else None,
        silent_ms=silent_ms,
        at_most_ms=None if silent_ms is None else max(0, wait_ms - silent_ms),
        code=task.code,
        message=task.message,
    )


def _task_percent(task: Task) -> int | None:
    """An estimate may be too low: 99 is all that can be said of a task that has not ended."""
    if task.status is TaskStatus.DONE:
        return 100
    return min(99, task.rows * 100 // task.rows_expected) if task.rows_expected else None


def _task_eta_ms(reading: Reading, task: Task, now_ms: int) -> int | None:
    """As long as the rest takes at the pace since it was asked for."""
    if not task.rows or not task.rows_expected:
        return None
    began_ms = reading.surely_decision(task.assigned_at).logged_at_ms
    return max(0, now_ms - began_ms) * max(0, task.rows_expected - task.rows) // task.rows


def _percent(reading: Reading, row: SessionRow, sums: Totals) -> int | None:
    """How much of it is over: whole segments, and of those under way what their replicas say."""
    if row.status.is_end:
        return 100
    if not sums.segments:
        return None
    under_way = (_segment_share(each) for each in segments_of(reading, row) if each.status is SegmentStatus.RUNNING)
    return min(99, int((sums.ended + sum(under_way)) * 100 / sums.segments))


_SHARES = {
    (Purpose.COMPARE, TaskKind.PREPARE): (0.0, 0.05),
    (Purpose.COMPARE, TaskKind.LEAVES): (0.05, 0.8),
    (Purpose.COMPARE, TaskKind.DIGESTS): (0.8, 0.9),
    (Purpose.RECHECK, TaskKind.PREPARE): (0.9, 0.91),
    (Purpose.RECHECK, TaskKind.DIGESTS): (0.91, 0.93),
    (Purpose.REPAIR, TaskKind.SEND): (0.93, 0.95),
    (Purpose.REPAIR, TaskKind.WRITE): (0.95, 0.97),
    (Purpose.VERIFY, TaskKind.PREPARE): (0.97, 0.98),
    (Purpose.VERIFY, TaskKind.LEAVES): (0.98, 1.0),
}
"""Where in a segment a step begins and ends, about: the scan of all leaves is nearly all of it. It never goes back, but
where finer leaves are asked for."""


def _segment_share(row: SegmentRow) -> float:
    if row.step is None:
        return 0.0
    begins, ends = _SHARES.get((row.step.purpose, row.step.kind), (0.0, 0.0))
    told = [(_task_percent(task) or 0) / 100 for task in row.tasks]
    return begins + ((ends - begins) * sum(told) / len(row.replicas) if row.replicas else 0.0)


def _eta_ms(reading: Reading, row: SessionRow, sums: Totals, now_ms: int) -> int | None:
    """At the pace since it was opened; None while it is paused, or too little of it is over to say."""
    percent = _percent(reading, row, sums)
    if row.status.is_end or row.paused or row.opened_at is None or not percent:
        return None
    elapsed_ms = max(0, now_ms - reading.surely_decision(row.opened_at).logged_at_ms)
    return elapsed_ms * (100 - percent) // percent


def said(definition: SessionDefinition) -> Mapping[str, Any]:
    """What was asked for, in short; what is as it usually is says nothing."""
    usual = queries.plain(SessionDefinition(definition.table, SessionKind.PREVIEW))
    return {
        name: texts(definition.ranges) if name == "ranges" else value
        for name, value in queries.plain(definition).items()
        if name in ("table", "kind", "policy") or value != usual[name]
    }
