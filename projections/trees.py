"""The steps of sessions: who was asked for a tree, its digests or its rows, and how trees compared.

A step is named by `session/segment/step`. Leaves and digests travel on the topic `trees`, which the projector does not
keep; what is here is what the log says of them: roots, read points, and what differs.
"""

from collections.abc import Iterator, Mapping

from topolog.events.errors import BadInput, NotFound
from topolog.events.repair_tasks import Pair, Step, Task, TaskKind, TaskStatus
from topolog.events.sessions import SegmentRow, SessionRow
from topolog.projections import sessions
from topolog.projections.moments import position_time
from topolog.projections.repair_resources import Tree, TreePair, TreeTask
from topolog.projections.session_course import StepTaken, course
from topolog.projections.sessions import texts
from topolog.projections.store import Reading
from topolog.streams.rules import repair_steps

_PARTS = 3


def trees(reading: Reading, filters: Mapping[str, str], after: str | None = None) -> Iterator[Tree]:
    """Steps, sessions newest first, each session's in their order. Filters: session, segment, kind.

    Without `session` those of the sessions that coordinators keep. `after`: the name of the step before the first.
    """
    behind = None if after is None else _parsed(after)
    for row in _rows(reading, filters.get("session")):
        if behind is not None and row.number > behind[0]:
            continue
        for taken in _in_order(reading, row):
            place = (taken.row.index, _step(taken).number)
            is_behind = behind is None or row.number < behind[0] or place > behind[1:]
            about = {"segment": str(taken.row.index), "kind": _step(taken).kind.value}
            if is_behind and all(filters.get(name) in (None, value) for name, value in about.items()):
                yield _tree(reading, row, taken)


def tree(reading: Reading, name: str) -> Tree:
    """One step; raises BadInput for what is no such name, NotFound if there is none."""
    number, segment, step = _parsed(name)
    row = sessions.surely(reading, str(number))
    for taken in course(reading, row).steps:
        if (taken.row.index, _step(taken).number) == (segment, step):
            return _tree(reading, row, taken)
    raise NotFound(f"Session {number} has no step {step} of segment {segment}.", hint=f"See trees --session {number}.")


def _rows(reading: Reading, number: str | None) -> list[SessionRow]:
    if number is not None:
        return [sessions.surely(reading, number)]
    return sorted((row for _, row in reading.rows(SessionRow)), key=lambda row: -row.number)


def _in_order(reading: Reading, row: SessionRow) -> list[StepTaken]:
    return sorted(course(reading, row).steps, key=lambda taken: (taken.row.index, _step(taken).number))


def _parsed(name: str) -> tuple[int, int, int]:
    parts = name.split("/")
    if len(parts) != _PARTS or not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise BadInput(f"{name!r} names no step.", hint="One looks like 47/0/2: session, segment, step.")
    session, segment, step = map(int, parts)
    return session, segment, step


def _step(taken: StepTaken) -> Step:
    assert taken.row.step is not None, "a step that was taken is one"
    return taken.row.step


def _tree(reading: Reading, row: SessionRow, taken: StepTaken) -> Tree:
    step, segment = _step(taken), taken.row
    is_compared = step.kind is TaskKind.DIGESTS and segment.found is not None and segment.found_in == step.number
    done = [task for task in segment.tasks if task.status is TaskStatus.DONE]
    roots = {task.result.digest for task in done if task.result} if step.kind is TaskKind.LEAVES else None
    asked = tuple(repair_steps.asked(segment))
    answered = {task.replica for task in segment.tasks if task.status is not TaskStatus.ASSIGNED}
    return Tree(
        name=f"{row.number}/{segment.index}/{step.number}",
        session=row.number,
        table=row.definition.table,
        segment=segment.index,
        step=step.number,
        kind=step.kind.value,
        purpose=step.purpose.value,
        bits=step.bits or None,
        ranges=texts(step.ranges),
        asked=asked,
        awaited=() if taken.is_over else tuple(name for name in asked if name not in answered),
        absent=segment.absent,
        roots=None if roots is None else len(roots),
        pairs_compared=len(segment.pairs),
        leaves=sum(pair.leaves for pair in segment.pairs),
        rows_differ=segment.found.rows if is_compared and segment.found else None,
        is_over=taken.is_over,
        started_at=taken.started_at,
        started_time=position_time(reading, taken.started_at),
        tasks=tuple(_task(task) for task in (*taken.failed, *segment.tasks)),
        pairs=tuple(_pair(pair) for pair in segment.pairs),
    )


def _task(task: Task) -> TreeTask:
    result = task.result
    return TreeTask(
        replica=task.replica,
        attempt=task.attempt,
        state=task.status.value,
        root=result.digest.hex() if result else "",
        cut=result.cut.name if result and result.cut else "",
        pages=result.pages if result else 0,
        rows=result.rows if result else task.rows,
        bytes=result.bytes if result else task.bytes,
        skipped=result.skipped if result else 0,
        worked_ms=result.worked_ms if result else 0,
        code=task.code,
        message=task.message,
    )


def _pair(pair: Pair) -> TreePair:
    return TreePair(
        pair.left, pair.right, pair.leaves, pair.leaves_compared, pair.rows, pair.leaf_rows_max, texts(pair.ranges)
    )


def steps_of(reading: Reading, row: SessionRow) -> list[tuple[SegmentRow, Step]]:
    """Each step with its segment as the step left it, in their order."""
    return [(taken.row, _step(taken)) for taken in _in_order(reading, row)]
