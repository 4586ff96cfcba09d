"""What a task's end changes in its segment: read points, counts, and rows that could not be sent (see `repair.py`)."""

import msgspec

from topolog.events.repair_tasks import ROW_TOO_LARGE, Result, Task, TaskKind, TaskStatus
from topolog.events.sessions import SegmentRow


def completed(row: SegmentRow, task: Task, result: Result) -> SegmentRow:
    row = _with(row, msgspec.structs.replace(task, status=TaskStatus.DONE, result=result))
    cuts = dict(row.cuts)
    assert row.step is not None
    if result.cut is not None and row.step.kind is TaskKind.PREPARE:
        cuts[task.replica] = result.cut
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


def failed(row: SegmentRow, task: Task, code: str, message: str, rows: int) -> SegmentRow:
    """`rows`: how far it came, as far as its failure says."""
    told = {"code": code, "message": message, "rows": max(rows, task.rows)}
    return _with(row, msgspec.structs.replace(task, status=TaskStatus.FAILED, **told))


def _with(row: SegmentRow, task: Task) -> SegmentRow:
    tasks = tuple(task if each.replica == task.replica else each for each in row.tasks)
    return msgspec.structs.replace(row, tasks=tasks)
