"""What a change has closed is deleted by every server in its own time, which says so when it has (TA31).

A life of a node owes what was closed while it was a member. What was closed before is no debt of it: nobody waits for
that, and its service finds it on its disk when it joins, for an incarnation of a table or a number of a column that is
no more is told by `is_closed`.
"""

from collections.abc import Iterator

import msgspec

from topolog.events.ids import Position
from topolog.events.object_definition import ObjectKind
from topolog.events.objects import ChangeRow, ObjectRow, ObjectStatus
from topolog.streams.node.objects import Published

SAID_AT_ONCE_MAX = 1_000


class ClosedTable(msgspec.Struct, frozen=True):
    """All rows of this incarnation are to be deleted; `name` may be another table's by now."""

    name: str
    incarnation: int


class ClosedColumn(msgspec.Struct, frozen=True):
    """All values under this number in rows of this incarnation of a table are to be deleted."""

    table: str
    incarnation: int
    number: int
    name: str


class Deletion(msgspec.Struct, frozen=True):
    """What the commit of a change has closed."""

    change: Position
    tables: tuple[ClosedTable, ...]
    columns: tuple[ClosedColumn, ...]


def closed_by(change: ChangeRow, before: Published) -> Deletion:
    """What the commit closes; `before` has its objects as they were prepared."""
    rows = [row for step in change.steps if (row := before.rows.get(step.name)) and row.kind is ObjectKind.TABLE]
    tables = tuple(ClosedTable(row.name, row.incarnation) for row in rows if row.status is ObjectStatus.PRE_DELETE)
    return Deletion(change.number, tables, tuple(column for row in rows for column in _dropped(row)))


def _dropped(row: ObjectRow) -> Iterator[ClosedColumn]:
    if row.status is not ObjectStatus.PRE_ALTER or row.definition is None or row.pending is None:
        return
    kept = {column.number for column in row.pending.columns}
    for column in row.definition.columns:
        if column.number not in kept:
            yield ClosedColumn(row.name, row.incarnation, column.number, column.name)


class Deletions:
    """The debts of one life, by number of the change. Any thread may say that one is done; the rest is for the one that
    applies the log."""

    def __init__(self) -> None:
        self._owed: dict[Position, None] = {}
        self._done: set[int] = set()

    def begin(self) -> None:
        """Another life has other debts."""
        self._owed.clear()
        self._done.clear()

    def owe(self, number: Position) -> bool:
        """Whether it is a new debt."""
        is_new = number not in self._owed
        self._owed[number] = None
        return is_new

    def done(self, number: int) -> None:
        """Nothing is left of it; what is no debt of this life is passed over."""
        if number in self._owed:
            self._done.add(number)

    def forget(self, number: Position) -> None:
        """The log has taken note, or nobody waits for it."""
        self._owed.pop(number, None)
        self._done.discard(number)

    def due(self) -> tuple[Position, ...]:
        """What is done and to be said, the oldest first."""
        return tuple(number for number in self._owed if number in self._done)[:SAID_AT_ONCE_MAX]
