"""The rows of changes as a reading has them: open ones, their order in line, and those that coordinators forgot."""

from collections.abc import Sequence

from topolog.events import claims
from topolog.events.claims import LineRow
from topolog.events.ids import Position
from topolog.events.object_definition import ObjectKind, Statement, Step, Verb
from topolog.events.objects import (
    ChangeRow,
    ChangeStatus,
    ObjectRow,
    SchemaChangePrepared,
    SchemaChangeQueued,
)
from topolog.events.state import State
from topolog.projections.store import Reading


def row_ever(reading: Reading, number: int) -> ChangeRow | None:
    """The newest row of a change, also of one that coordinators no longer keep."""
    return next((row for _, row in reading.versions(ChangeRow, str(number)) if row is not None), None)


def opened(reading: Reading) -> list[ChangeRow]:
    """The changes that are not over, oldest first."""
    if reading.is_current:
        line = reading.row(LineRow, "")
        found = (reading.row(ChangeRow, str(number)) for number in (line.changes if line else ()))
        return [row for row in found if row is not None]
    rows = (row for _, row in reading.rows(ChangeRow) if row.is_open)  # the line is an index, which has no past
    return sorted(rows, key=lambda row: row.number)


def undeleted(reading: Reading) -> int:
    """How many changes have closed data that somebody still deletes."""
    return sum(bool(row.undeleted) for _, row in reading.rows(ChangeRow))


class Line:
    """Who waits for whom among the changes that are open."""

    def __init__(self, rows: Sequence[ChangeRow]) -> None:
        self.rows = rows
        self._state = State()
        for row in rows:
            claims.claim(self._state, row.claims, row.number)

    def behind(self, row: ChangeRow) -> dict[str, Position]:
        """By object the newest change that a queued one waits for; empty for one that waits for none."""
        return claims.before(self._state, row.claims, row.number) if row.status is ChangeStatus.QUEUED else {}

    def waiting_for(self, name: str) -> tuple[Position, ...]:
        """The changes that are queued and will change this object or need it, in their order."""
        held = claims.claims_on(self._state, name)
        queued = {row.number for row in self.rows if row.status is ChangeStatus.QUEUED}
        return tuple(number for number in sorted({*held.alone, *held.leaning}) if number in queued)


def takes_effect(reading: Reading, number: int, asked_at: Position) -> bool:
    """Whether what was asked at that position of a change holds everywhere: it is committed, or was to be undone.

    Who asks twice to cancel it, and who drops what is being dropped, has its outcome too.
    """
    row = row_ever(reading, number)
    if row is None or row.is_open:
        return row is None
    return row.status is ChangeStatus.COMMITTED or (row.closed_at is not None and row.closed_at <= asked_at)


def is_over(reading: Reading, number: int) -> bool:
    row = row_ever(reading, number)
    return row is None or not row.is_open


def steps_of(reading: Reading, row: ChangeRow) -> tuple[Step, ...]:
    """The steps with what they make of each object, which a change that is over no longer has among the rows."""
    if row.prepared_at is None:
        return row.steps
    event = reading.surely_decision(row.prepared_at).event
    return event.steps if isinstance(event, SchemaChangePrepared) else row.steps


def actions_of(reading: Reading, row: ChangeRow) -> tuple[Step, ...] | tuple[Statement, ...]:
    """What a change does, also of one that was given up before its turn came."""
    if row.steps or row.statements:
        return row.steps or row.statements
    event = reading.surely_decision(row.number).event
    return event.statements if isinstance(event, SchemaChangeQueued) else ()


def before_steps(reading: Reading, row: ChangeRow) -> Reading:
    """The reading in which objects are as they were when the change was prepared."""
    assert row.prepared_at is not None, "asked only of a change that was prepared"
    return reading.as_of(reading.surely_decision(row.prepared_at).set_start - 1)


def revoked(reading: Reading, row: ChangeRow) -> tuple[str, ...]:
    """The grants that a change, prepared now or once, takes away or narrows."""
    if row.prepared_at is None or all(step.kind is not ObjectKind.GRANT for step in row.steps):
        return ()
    steps = [step for step in steps_of(reading, row) if step.kind is ObjectKind.GRANT]
    before = before_steps(reading, row)
    return tuple(step.name for step in steps if _narrows(before, step))


def _narrows(before: Reading, step: Step) -> bool:
    if step.verb is Verb.DROP:
        return True
    held = before.row(ObjectRow, step.name)
    if step.verb is not Verb.ALTER or step.definition is None or held is None or held.definition is None:
        return False
    return not set(held.definition.privileges) <= set(step.definition.privileges)
