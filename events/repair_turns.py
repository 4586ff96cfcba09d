"""Whose turn it is: how many replicas of a session scan at a time, and how long that took (RE25, RE26).

Threats. Two trees of a session that wants one at a time, because they belong to different segments; a task that waits
behind another one of its replica, is given up meanwhile and makes a replica that works look dead; a pause that is
shorter than the work, or many times longer, because the work of replicas that scan at one time is added up.

Invariant. A replica has one open task at most, of all sessions together, so that its deadline counts from when its work
begins. In each place of a session at most one task scans.

Argument. Both are functions of the tasks that the log has as assigned. Such a task waits for nobody: it ends by its
answer, its failure or its deadline, and then its replica and its place are free, so that nobody waits in a circle.
"""

from collections.abc import Iterator

from topolog.events.repair_definition import Order
from topolog.events.repair_tasks import Task, TaskKind, TaskStatus
from topolog.events.replicas import replica, replica_key
from topolog.events.sessions import SegmentRow, SessionRow, SessionStatus, open_sessions, running
from topolog.events.state import State

SCANS = (TaskKind.LEAVES, TaskKind.DIGESTS)
"""What reads a table through, and is asked for in the order that the session wants."""


def place_of(state: State, owner: SessionRow, row: SegmentRow, name: str) -> str:
    """The place of a replica in the present step: those of one place are asked one after the other."""
    assert row.step is not None, "there are no turns without a step"
    order = owner.definition.order if row.step.kind in SCANS else Order.PARALLEL
    if order is Order.SEQUENTIAL:
        return ""
    if order is Order.DATACENTER_PARALLEL:
        declared = replica(state, owner.definition.table, name)
        return f"datacenter {declared.definition.datacenter}" if declared else ""
    return f"replica {name}"


def worked_ms(state: State, owner: SessionRow, row: SegmentRow) -> int:
    """How long the present step has taken: places work at one time, the tasks of a place one after the other."""
    spent: dict[str, int] = {}
    for task in row.tasks:
        if task.result is not None:
            place = place_of(state, owner, row, task.replica)
            spent[place] = spent.get(place, 0) + task.result.worked_ms
    return max(spent.values(), default=0)


def occupied(state: State) -> set[str]:
    """The ids of the replicas that have an open task."""
    found = ((each, running(state, each)) for each in open_sessions(state) if each.status is SessionStatus.RUNNING)
    return {
        replica_key(each.definition.table, task.replica) for each, rows in found for row in rows for task in _open(row)
    }


def places_taken(state: State, owner: SessionRow) -> set[str]:
    """Where a task of the session scans now, in whichever segment."""
    return {
        place_of(state, owner, row, task.replica)
        for row in running(state, owner)
        if row.step is not None and row.step.kind in SCANS
        for task in _open(row)
    }


def _open(row: SegmentRow) -> Iterator[Task]:
    """One that has failed, and rests before it is asked for again, keeps nobody waiting."""
    return (task for task in row.tasks if task.status is TaskStatus.ASSIGNED)
