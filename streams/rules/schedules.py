"""Rules of schedules: a session again and again, or the reason why not (RE32; see `events/schedules.py`)."""

from collections.abc import Collection

from topolog.events.asked import SUBJECT_CHARS_MAX, RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.names import is_name
from topolog.events.repair_requests import ScheduleDropRequested, ScheduleRequested
from topolog.events.requests import RequestUnchanged, shortened
from topolog.events.schedules import ScheduleDropped, SchedulePostponed, ScheduleRow, ScheduleSet
from topolog.events.sessions import open_sessions
from topolog.events.state import State
from topolog.streams.rules import repair_sessions
from topolog.streams.rules.allowed import check
from topolog.streams.rules.deadlines import Deadline

SCHEDULES_MAX = 256
EVERY_MS_MIN = 60_000
EVERY_MS_MAX = 366 * 86_400_000
RETRY_MS, RETRY_MS_MAX = 60_000, 6 * 3_600_000
"""A schedule that could not run is looked at again after a minute, and twice as long each time for the same reason, or
after its own interval if that is shorter: the log keeps each of these decisions for ever."""


def decide(state: State, request: ScheduleRequested | ScheduleDropRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    row = state.get(ScheduleRow, request.name)
    match request:
        case ScheduleDropRequested():
            return [ScheduleDropped(ref, request.name) if row else RequestUnchanged(ref, request.subject, None)]
        case ScheduleRequested():
            _check(state, request, is_new=row is None)
            asked = (request.definition, request.every_ms, request.paused)
            if row is not None and (row.definition, row.every_ms, row.paused) == asked:
                return [RequestUnchanged(ref, request.subject, None)]
            return [ScheduleSet(ref, request.name, *asked)]


def _check(state: State, request: ScheduleRequested, *, is_new: bool) -> None:
    if not is_name(request.name, SUBJECT_CHARS_MAX):
        limit = f"A schedule's name has 1 to {SUBJECT_CHARS_MAX} characters that can be printed, and no blank"
        raise Refused("BAD_SCHEDULE", "RE28", f"{limit}: {shortened(repr(request.name))} cannot be one.")
    if not EVERY_MS_MIN <= request.every_ms <= EVERY_MS_MAX:
        raise Refused("BAD_SCHEDULE", "RE28", "A schedule runs at most once a minute and at least once a year.")
    if is_new and state.count(ScheduleRow) >= SCHEDULES_MAX:
        raise Refused("TOO_MANY_SCHEDULES", "RE28", f"There are {SCHEDULES_MAX} schedules already.")
    if request.definition.preview is not None:
        raise Refused("BAD_SCHEDULE", "RE28", "A schedule cannot repair what one preview has found.")
    repair_sessions.effective(state, request.definition)


def deadlines(row: ScheduleRow) -> list[Deadline]:
    if row.paused:
        return []
    return [Deadline(f"schedule/{row.counted_from}/{row.name}", row.counted_from, row.wait_ms)]


def settle(state: State, passed: Collection[str], end: Position, at_ms: int) -> list[Decision]:
    """A session for each schedule that is due, or the reason why there is none."""
    for key in sorted(key for key in passed if key.startswith("schedule/")):
        row = state.get(ScheduleRow, key.split("/", 2)[2])
        if row is not None:
            return _run(state, row, end, at_ms)
    return []


def _run(state: State, row: ScheduleRow, end: Position, at_ms: int) -> list[Decision]:
    before = row.session
    if before is not None and any(each.number == before for each in open_sessions(state)):
        return [_postponed(row, "STILL_RUNNING", f"Session {before} of this schedule has not ended.")]
    try:
        repair_sessions.check_room(state)
        definition = repair_sessions.reviewed(repair_sessions.effective(state, row.definition), at_ms)
        others = repair_sessions.in_the_way(state, definition, before=None)
        if others:
            return [_postponed(row, "OVERLAP", repair_sessions.overlap_with(others[0], definition))]
        decided = repair_sessions.opened(state, definition, number=Position(end + 1), schedule=row.name)
        check(state, decided)
        return decided
    except Refused as refusal:
        return [_postponed(row, refusal.code, refusal.message)]


def _postponed(row: ScheduleRow, code: str, message: str) -> SchedulePostponed:
    wait_ms = min(row.wait_ms * 2, RETRY_MS_MAX) if row.code == code else RETRY_MS
    return SchedulePostponed(row.name, code, shortened(message), min(wait_ms, row.every_ms))
