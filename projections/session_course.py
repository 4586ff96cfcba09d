"""How a session went, as far as its rows no longer say it: its segments go when it ends, their steps as they go on.

The course is folded anew from the session's own decisions, by the fold that everybody has, into a state of its own. So
it is the same for a session that runs, for one of last year and as of any moment in between.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from topolog.events import repair
from topolog.events.ids import Place, Position
from topolog.events.repair import (
    RepairEvent,
    SegmentEnded,
    SegmentHalved,
    SessionEnded,
    StepStarted,
    TaskAssigned,
)
from topolog.events.repair_tasks import Task
from topolog.events.sessions import SegmentRow, SessionRow, grown, progress, segment, segments, session, task_of
from topolog.events.state import State
from topolog.projections.store import Reading


class StepTaken(msgspec.Struct, frozen=True):
    """One step of a segment. `row` is the segment as the step left it; `failed` are earlier attempts of its tasks."""

    row: SegmentRow
    started_at: Position
    failed: tuple[Task, ...]
    is_over: bool


class Course(msgspec.Struct, frozen=True):
    """The segments of a session as they are, of one that has ended as they were just before, and all steps taken."""

    segments: tuple[SegmentRow, ...] = ()
    steps: tuple[StepTaken, ...] = ()


def course(reading: Reading, row: SessionRow) -> Course:
    """The course of a session up to what is read; empty for one that was never opened."""
    if row.opened_at is None:
        return Course()
    replay = _Replay(reading, row)
    for place, event in _events(reading, row):
        replay.apply(event, place)
    return replay.course()


def _events(reading: Reading, row: SessionRow) -> Iterator[tuple[Place, RepairEvent]]:
    """The decisions about the session from its opening to its end, which is not among them."""
    assert row.opened_at is not None, "asked only of a session that was opened"
    about = [each for each in reading.positions(subject=f"session {row.number}") if each > row.opened_at]
    for position in (row.opened_at, *reversed(about)):
        decided = reading.surely_decision(position)
        event = decided.event
        if isinstance(event, SessionEnded):
            return
        if isinstance(event, RepairEvent):
            yield Place(decided.position, decided.chain, decided.term), event


class _Replay:
    def __init__(self, reading: Reading, row: SessionRow) -> None:
        self._number = row.number
        self._state = State()
        self._begun: dict[int, Position] = {}
        self._failed: dict[int, list[Task]] = {}
        self._steps: list[StepTaken] = []

    def apply(self, event: RepairEvent, place: Place) -> None:
        if isinstance(event, StepStarted | SegmentEnded | SegmentHalved):
            self._close(event.segment, is_over=True)
        if isinstance(event, TaskAssigned):
            self._keep_failed(event)
        repair.evolve(self._state, event, place)
        if isinstance(event, StepStarted):
            self._begun[event.segment] = place.position
            self._failed[event.segment] = []

    def course(self) -> Course:
        for index in sorted(self._begun):
            self._close(index, is_over=False)
        row = session(self._state, self._number)
        assert row is not None, "a course begins with its session's opening"
        parts = (grown(each, partial(progress, self._state)) for each in segments(self._state, row))
        return Course(tuple(parts), tuple(self._steps))

    def _close(self, index: int, *, is_over: bool) -> None:
        """The step that a segment is at is as it will be seen."""
        row = segment(self._state, self._number, index)
        if row is not None and row.step is not None:
            failed = tuple(self._failed.get(index, ()))
            row = grown(row, partial(progress, self._state))
            self._steps.append(StepTaken(row, self._begun[index], failed, is_over))

    def _keep_failed(self, event: TaskAssigned) -> None:
        row = segment(self._state, self._number, event.task.segment)
        former = msgspec.structs.replace(event.task, attempt=event.task.attempt - 1)
        task = task_of(row, former) if row is not None else None
        if task is not None:
            self._failed[event.task.segment].append(task)
