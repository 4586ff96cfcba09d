"""Sessions that are opened again and again, and why one was not (RE32).

Threat. A schedule that has not run for weeks, and nobody knows why.

Invariant. Each time a schedule is due, the log says that a session was opened, or why not.

Argument. When it is due is a deadline that counts from the last of these decisions, and both kinds start it anew.
"""

from typing import ClassVar

import msgspec

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.repair import SessionOpened
from topolog.events.repair_definition import SessionDefinition
from topolog.events.requests import grant
from topolog.events.state import Row, State


class ScheduleSet(Decision, frozen=True):
    """A session like this is opened each `every_ms`, first after that time."""

    request: RequestRef
    name: str
    definition: SessionDefinition
    every_ms: int
    paused: bool


class ScheduleDropped(Decision, frozen=True):
    request: RequestRef
    name: str


class SchedulePostponed(Decision, frozen=True):
    """It was due, and no session was opened; it is looked at again after `retry_ms`."""

    name: str
    code: str
    message: str
    retry_ms: int


ScheduleEvent = ScheduleSet | ScheduleDropped | SchedulePostponed


class ScheduleRow(Row, frozen=True):
    """A schedule, under its name. The next wait counts from `counted_from` and lasts `wait_ms`."""

    KIND: ClassVar[str] = "schedule"

    name: str
    definition: SessionDefinition
    every_ms: int
    paused: bool
    counted_from: Position
    wait_ms: int
    session: Position | None = None
    code: str = ""
    message: str = ""


def evolve(state: State, event: ScheduleEvent, place: Place) -> None:
    match event:
        case ScheduleSet():
            row = ScheduleRow(
                event.name, event.definition, event.every_ms, event.paused, place.position, event.every_ms
            )
            state.put(event.name, row)
            grant(state, event.request, place, f"schedule {event.name}")
        case ScheduleDropped():
            state.drop(ScheduleRow, event.name)
            grant(state, event.request, place, f"schedule {event.name}")
        case SchedulePostponed():
            row = _row(state, event.name)
            told = {"code": event.code, "message": event.message, "wait_ms": event.retry_ms}
            state.put(event.name, msgspec.structs.replace(row, counted_from=place.position, **told))


OTHERS = (SessionOpened,)


def evolve_others(state: State, event: SessionOpened, place: Place) -> None:
    """The wait for the next one begins when a session is opened."""
    row = state.get(ScheduleRow, event.schedule) if event.schedule else None
    if row is not None:
        told = {"code": "", "message": "", "wait_ms": row.every_ms, "session": place.position}
        state.put(row.name, msgspec.structs.replace(row, counted_from=place.position, **told))


def _row(state: State, name: str) -> ScheduleRow:
    row = state.get(ScheduleRow, name)
    assert row is not None, "a schedule that nobody has set"
    return row
