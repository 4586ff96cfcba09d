"""What waits in anti-entropy: sessions that are queued or run, schedules that are due and could not begin."""

import shlex
from collections.abc import Iterator

from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SessionRow, SessionStatus
from topolog.projections import explain_session, patience, sessions
from topolog.projections.durations import ago
from topolog.projections.pending_resources import Pending, PendingHolder
from topolog.projections.pending_view import PendingView, What


def of_sessions(view: PendingView) -> Iterator[Pending]:
    for row in sessions.opened(view.reading):
        yield _session(view, row)
    for _, schedule in view.reading.rows(ScheduleRow):
        if not schedule.paused:
            yield from _schedule(view, schedule)


def _session(view: PendingView, row: SessionRow) -> Pending:
    number = str(row.number)
    found = explain_session.explain_session(view.reading, number)
    asked = tuple(
        PendingHolder(task.replica, row.opened_at or row.number, task.silent_ms, None, task.at_most_ms)
        for task in sessions.tasks(view.reading, row)
        if task.state == "ASSIGNED"
    )
    deadline_ms = None
    if row.definition.deadline_ms is not None and row.opened_at is not None:
        deadline_ms = patience.span_since(view.reading, row.opened_at, row.definition.deadline_ms).left_ms
    ends = _ends(row, deadline_ms)
    pause = "resume" if row.paused else "pause"
    commands = (
        f"topolog explain session {number}",
        f"topolog repair {pause} {number}",
        f"topolog repair abort {number}",
    )
    since, about = row.number, f"session {number}"
    return view.item(What("SESSION", number, about, commands), found.sentence, since, asked, deadline_ms, ends)


def _ends(row: SessionRow, deadline_ms: int | None) -> str:
    if deadline_ms is not None:
        return f"in {ago(deadline_ms)} at the latest: that is its deadline"
    if row.status is SessionStatus.QUEUED:
        return "at no fixed time: it waits until those before it have ended, and then itself"
    if row.paused:
        return "at no fixed time, because it is paused"
    return "at no fixed time, because it has no deadline: a replica that comes further is never given up"


def _schedule(view: PendingView, row: ScheduleRow) -> Iterator[Pending]:
    """One that is overdue, or could not begin when it was due."""
    span = patience.span_since(view.reading, row.counted_from, row.wait_ms)
    if not row.code and span.left_ms:
        return
    said = f"Schedule {row.name} is due, and no session has begun yet."
    if row.code:
        said = f"Schedule {row.name} was due, and no session could begin ({row.code}): {row.message}"
    ends = (
        f"when it can begin; it is tried again in {ago(span.left_ms)}" if span.left_ms else "now, for its time has come"
    )
    name, commands = shlex.quote(row.name), []
    if row.session is not None and row.code == "STILL_RUNNING":
        commands.append(f"topolog explain session {row.session}")
    commands = [f"topolog explain schedule {name}", *commands, f"topolog history schedule {name}"]
    at_most_ms = None if row.code else span.left_ms
    about = f"schedule {row.name}"
    yield view.item(What("SCHEDULE", row.name, about, commands), said, row.counted_from, (), at_most_ms, ends)
