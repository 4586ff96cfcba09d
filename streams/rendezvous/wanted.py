"""Which pages the log asks for, or may ask for yet: a function of the folded state. Pure.

A page may be here before the decision that it answers has been folded (CASSANDRA-3400), so what is not known yet is
waited for: numbers of sessions, steps and attempts only grow, and what is behind the newest is over for good.
"""

from topolog.events.ids import Position
from topolog.events.repair_definition import SEGMENTS_MAX
from topolog.events.repair_tasks import TaskId, TaskKind, TaskStatus
from topolog.events.sessions import SegmentRow, segment, session
from topolog.events.state import State
from topolog.events.tree_answers import Aside
from topolog.events.tree_pages import PageKind

ANSWERS = {TaskKind.LEAVES: PageKind.LEAVES, TaskKind.DIGESTS: PageKind.DIGESTS}
"""The tasks whose answers are compared."""


def unwanted(state: State, position: Position, task: TaskId) -> Aside | None:
    """Why the log does not ask for this, and never will; None if it does, or may yet (RE5, RE6)."""
    owner = session(state, task.session)
    if owner is None:
        return None if task.session > position else Aside.UNKNOWN_SESSION
    if owner.status.is_end or not 0 <= task.segment < SEGMENTS_MAX:
        return Aside.LATE
    row = segment(state, task.session, task.segment)
    if row is None:
        return None if task.segment >= owner.segments else Aside.LATE
    return Aside.LATE if row.status.is_end or _is_over(row, task) else None


def _is_over(row: SegmentRow, task: TaskId) -> bool:
    """Whether the segment has gone on without this attempt."""
    if row.step is None or task.step > row.step.number:
        return False
    if not task.replica:
        return task.step not in (row.step.number, row.found_in)
    if task.step < row.step.number or task.replica not in row.replicas:
        return True
    newest = next((each for each in row.tasks if each.replica == task.replica), None)
    if newest is None or newest.attempt < task.attempt:
        return False
    return newest.attempt > task.attempt or newest.status is TaskStatus.FAILED


def unfit(state: State, task: TaskId, spec_id: bytes, kind: PageKind) -> Aside | None:
    """Why this is no answer to the question, as far as that is known (RE13)."""
    owner = session(state, task.session)
    if owner is not None and owner.spec is not None and owner.spec.id != spec_id:
        return Aside.OTHER_SPEC
    row = segment(state, task.session, task.segment)
    if (kind is PageKind.FINDINGS) is not (not task.replica):
        return Aside.OTHER_KIND
    is_present = row is not None and row.step is not None and row.step.number == task.step
    if row is None or row.step is None or not is_present or kind is PageKind.FINDINGS:
        return None
    return None if ANSWERS.get(row.step.kind) is kind else Aside.OTHER_KIND
