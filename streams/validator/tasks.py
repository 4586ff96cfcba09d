"""What the log asks of the replicas of one validator: a function of the folded state.

Threats. A task is done that nobody asks for any more, or for a session that has ended; a task is done by a process
whose replica another one serves by now; rows are written from pages that no answer in the log vouches for.

Invariant. A task is due only while the log lists it as assigned, in a session that runs, to a replica that the log
says this very life serves. Whatever else a task needs to know is part of what is due, and comes from the log.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from topolog.events.repair_plan import Direction, direction
from topolog.events.repair_tasks import Findings, Result, Step, Task, TaskId, TaskKind, TaskStatus
from topolog.events.replica import Cut
from topolog.events.replicas import replica, replica_key
from topolog.events.sessions import (
    SegmentRow,
    SegmentStatus,
    SessionRow,
    SessionStatus,
    open_sessions,
    running,
    segment,
    segments,
    session,
    task_of,
)
from topolog.events.state import State
from topolog.events.tree_spec import TreeSpec
from topolog.streams.rules.repair_steps import present

Served = Mapping[str, tuple[str, str]]
"""The replicas of one validator: table and name of each, by id (`<table>@<name>`)."""


class Sent(msgspec.Struct, frozen=True):
    """What one source has sent: the attempt whose pages these are, and what its answer in the log says of them."""

    task: TaskId
    result: Result


class Work(msgspec.Struct, frozen=True):
    """A task, with all that is needed to do it. `replica` is its id; `way` says which way rows may go.

    `cut`: the replica's read point, None if it has none; of the first PREPARE one that it may share.
    `findings` belong to SEND, `sources` to WRITE.
    """

    task: TaskId
    replica: str
    step: Step
    way: Direction
    cut: Cut | None = None
    findings: Findings | None = None
    sources: tuple[Sent, ...] = ()

    @property
    def spec(self) -> TreeSpec:
        return self.way.spec


def due(state: State, served: Served, life: int) -> list[Work]:
    """All that is asked of these replicas now, the oldest session first."""
    return [
        _work(state, each, row, task)
        for each, row in _running(state)
        for task in row.tasks
        if _is_asked(state, each, task, served, life)
    ]


def is_listed(state: State, task: TaskId, served: Served, life: int) -> bool:
    """Whether the log asks for just this attempt, of this life."""
    each, row = session(state, task.session), segment(state, task.session, task.segment)
    if each is None or row is None or each.status is not SessionStatus.RUNNING or row.status.is_end:
        return False
    found = task_of(row, task)
    return found is not None and _is_asked(state, each, found, served, life)


def cuts_needed(state: State, served: Served) -> set[tuple[str, Cut]]:
    """(id of the replica, read point) that somebody may still ask to read at.

    While new ones are fixed, those before are kept: a replica may give the same again. And as long as segments are to
    come, that of the newest is kept for them.
    """
    kept = {
        (replica_key(each.definition.table, name), cut)
        for each in open_sessions(state)
        if each.status is SessionStatus.RUNNING
        for name in _beginning(state, each)
        if replica_key(each.definition.table, name) in served and (cut := _shared_cut(state, each, name)) is not None
    }
    return kept | {
        (replica_key(each.definition.table, name), cut)
        for each, row in _running(state)
        for name, cut in (*row.cuts.items(), *_former_cuts(row))
        if replica_key(each.definition.table, name) in served
    }


def _beginning(state: State, each: SessionRow) -> set[str]:
    """The replicas of segments that have not fixed a read point yet."""
    return {
        name
        for row in segments(state, each)
        if row.status is SegmentStatus.PENDING or (row.status is SegmentStatus.RUNNING and _begins(row))
        for name in present(row)
    }


def _begins(row: SegmentRow) -> bool:
    return row.step is not None and row.step.number == 1 and row.step.kind is TaskKind.PREPARE


def _shared_cut(state: State, each: SessionRow, name: str) -> Cut | None:
    """The read point at which the newest segment of the session reads this replica: a copy of the table may have been
    made for it, and what has changed since then is found out by the look that is taken again."""
    found = (row.cuts[name] for row in reversed(segments(state, each)) if name in row.cuts)
    return next(found, None)


def counted_on(state: State, served: Served) -> set[str]:
    """The ids of the replicas that sessions which run have still to do with."""
    return {
        id_
        for each in open_sessions(state)
        for row in segments(state, each)
        if not row.status.is_end
        for name in present(row)
        if (id_ := replica_key(each.definition.table, name)) in served
    }


def _running(state: State) -> Iterator[tuple[SessionRow, SegmentRow]]:
    for each in open_sessions(state):
        if each.status is SessionStatus.RUNNING:
            yield from ((each, row) for row in running(state, each))


def _former_cuts(row: SegmentRow) -> Collection[tuple[str, Cut]]:
    is_prepared_anew = row.step is not None and row.step.kind is TaskKind.PREPARE
    return row.former_cuts.items() if is_prepared_anew else ()


def _is_asked(state: State, each: SessionRow, task: Task, served: Served, life: int) -> bool:
    if task.status is not TaskStatus.ASSIGNED:
        return False
    if replica_key(each.definition.table, task.replica) not in served:
        return False
    declared = replica(state, each.definition.table, task.replica)
    return declared is not None and declared.life == life


def _work(state: State, each: SessionRow, row: SegmentRow, task: Task) -> Work:
    assert row.step is not None, "a task is asked for outside of a step"
    id_ = replica_key(each.definition.table, task.replica)
    work = Work(_id(row, row.step.number, task), id_, row.step, direction(state, each, row), row.cuts.get(task.replica))
    if _begins(row):
        return msgspec.structs.replace(work, cut=_shared_cut(state, each, task.replica))
    if row.step.kind is TaskKind.SEND:
        return msgspec.structs.replace(work, findings=row.found)
    if row.step.kind is TaskKind.WRITE:
        return msgspec.structs.replace(work, sources=tuple(_sent(row, row.step.of)))
    return work


def _sent(row: SegmentRow, step: int) -> Iterator[Sent]:
    for task in sorted(row.sent, key=lambda each: each.replica):
        if task.result is not None:
            yield Sent(_id(row, step, task), task.result)


def _id(row: SegmentRow, step: int, task: Task) -> TaskId:
    return TaskId(row.session, row.index, step, task.replica, task.attempt)
