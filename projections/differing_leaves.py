"""How many leaves differ between the replicas of a table, as its newest session that has ended left them."""

from collections.abc import Mapping

from topolog.events.repair_tasks import TaskKind
from topolog.events.sessions import SessionRow
from topolog.projections.remembered import Remembered
from topolog.projections.session_course import course
from topolog.projections.store import Reading


def differing_leaves(reading: Reading) -> Mapping[str, int]:
    """By table, as far as coordinators keep sessions; nothing of a table of which none has compared trees."""
    newest: dict[str, SessionRow] = {}
    for _, row in reading.rows(SessionRow):
        known = newest.get(row.definition.table)
        if row.ended_at is not None and row.opened_at is not None and (known is None or row.number > known.number):
            newest[row.definition.table] = row
    return {table: _of(reading, row) for table, row in newest.items()}


def _of(reading: Reading, row: SessionRow) -> int:
    """Worked out once: to do it means to fold all of the session anew, and Prometheus asks every few seconds."""
    assert row.ended_at is not None, "asked only of a session that has ended"
    name = reading.surely_decision(row.ended_at).chain, row.number
    return _ENDED.get(name, lambda: _left(reading, row))


def _left(reading: Reading, row: SessionRow) -> int:
    """By the last comparison of trees in each segment: behind a repair that is the one which verifies it."""
    last: dict[int, int] = {}
    for taken in course(reading, row).steps:
        if taken.row.step is not None and taken.row.step.kind is TaskKind.LEAVES:
            last[taken.row.index] = sum(pair.leaves for pair in taken.row.pairs)
    return sum(last.values())


_ENDED: Remembered[int] = Remembered()
