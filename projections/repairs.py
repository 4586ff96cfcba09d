"""What repairs move: rows from which replica to which, and how many of them are written."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from topolog.events.errors import NotFound
from topolog.events.repair_definition import SessionKind
from topolog.events.repair_tasks import TaskKind
from topolog.events.sessions import SegmentStatus, SessionRow
from topolog.projections import sessions, trees
from topolog.projections.repair_resources import Repair, RepairCopy, RepairTarget
from topolog.projections.session_totals import segments_of, totals
from topolog.projections.store import Reading


def repairs(reading: Reading, filters: Mapping[str, str], before: int | None = None) -> Iterator[Repair]:
    """Sessions that repair, with numbers below `before`, newest first. Filters: state, table."""
    rows = sorted((row for _, row in reading.rows(SessionRow)), key=lambda row: -row.number)
    for row in rows:
        about = {"state": row.status.value, "table": row.definition.table}
        is_fitting = all(filters.get(name) in (None, value) for name, value in about.items())
        is_repair = row.definition.kind is SessionKind.REPAIR
        if is_repair and is_fitting and (before is None or row.number < before):
            yield _shown(reading, row)


def repair(reading: Reading, name: str) -> Repair:
    """One session that repairs; raises NotFound for a preview."""
    row = sessions.surely(reading, name)
    if row.definition.kind is not SessionKind.REPAIR:
        raise NotFound(f"Session {name} repairs nothing: it is a preview.", hint=f"`topolog get session {name}`.")
    return _shown(reading, row)


def _shown(reading: Reading, row: SessionRow) -> Repair:
    sums = totals(reading, row)
    copies = sessions.copies(segments_of(reading, row))
    return Repair(
        number=row.number,
        table=row.definition.table,
        state=row.status.value,
        verdict=sums.verdict,
        policy=row.definition.policy.value,
        source=row.definition.source,
        preview=row.definition.preview,
        copies=copies,
        targets=_targets(reading, row, copies),
        rows=sum(each.rows for each in copies),
        deletes=sum(each.deletes for each in copies),
        written=sums.rows_written,
        skipped=sums.skipped,
        unresolved=sums.unresolved,
        segments=sums.segments,
        verified=sums.by_state.get(SegmentStatus.REPAIRED.value, 0) + sums.by_state.get(SegmentStatus.EQUAL.value, 0),
        code=row.code,
        message=row.message,
    )


def _targets(reading: Reading, row: SessionRow, copies: Sequence[RepairCopy]) -> tuple[RepairTarget, ...]:
    due: Counter[str] = Counter()
    for copy in copies:
        due[copy.target] += copy.rows
    written: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for segment, step in trees.steps_of(reading, row):
        for task in segment.tasks if step.kind is TaskKind.WRITE else ():
            written[task.replica] += task.result.rows if task.result else max(task.rows, task.rows_before)
            skipped[task.replica] += task.result.skipped if task.result else 0
    return tuple(RepairTarget(name, rows, written[name], skipped[name]) for name, rows in sorted(due.items()))
