"""Databases, tables, views and grants as a node may use them now (docs/design/tables.md).

Whoever serves looks at one immutable value, `Published`: any thread reads it without a lock, and what it has in hand
never changes. The thread that applies the log puts another one in its place behind each set that touches objects.

Between SchemaChangePrepared and the end of the change everything here is right whichever end comes (the argument stands
in `events/objects.py`): reads go by the pending definition, writes must suit both, data expires by the longer time to
live, a right is given only if both give it, and what is created, dropped or renamed is not served.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from topolog.events.errors import BadInput, BeingAltered, BeingCreated, BeingDeleted, NotFound
from topolog.events.ids import Position, Version
from topolog.events.object_definition import FOREVER, WIDER, Column, ColumnType, Definition, ObjectKind, Privilege
from topolog.events.objects import ObjectRow, ObjectStatus
from topolog.events.state import State
from topolog.events.terms import ClusterRow

READABLE = (ObjectStatus.USING, ObjectStatus.PRE_ALTER)


class Token(msgspec.Struct, frozen=True, order=True):
    """What a write carries: which table it is meant for, and by which version of it. A store drops what carries an
    incarnation that is closed."""

    incarnation: int
    version: Version


class Database(msgspec.Struct, frozen=True):
    """`age_ms`: how old the answer may be, None if it is proven to be of now."""

    name: str
    incarnation: int
    version: Version
    properties: Mapping[str, str]
    ttl_ms: int
    age_ms: int | None = None


class Table(msgspec.Struct, frozen=True):
    """A table as reads and writes are to take it.

    `columns` are those that a read shows, by number: one that was added has no value in older rows. `writable` are
    those that a write may set, each with a type that its values must fit; while nothing is prepared they are the same.
    `changing`: names that can be written again once the open change is over, or not any more.
    `ttl_ms` is FOREVER, or for how long rows are to be kept at least. `age_ms`: how old the answer may be, None if it
    is proven to be of now.
    """

    name: str
    incarnation: int
    version: Version
    columns: tuple[Column, ...]
    writable: tuple[Column, ...]
    key: str
    properties: Mapping[str, str]
    ttl_ms: int
    status: ObjectStatus
    changing: frozenset[str] = frozenset()
    age_ms: int | None = None

    @property
    def token(self) -> Token:
        return Token(self.incarnation, self.version)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All that must be as it was for a read to count."""
        return (self.token,)

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)

    def writable_column(self, name: str, *, retry_after_ms: int = 1_000) -> Column:
        """The column that a write may set under this name. Raises BeingAltered while a change of the column is under
        way, BadInput if there is none."""
        for each in self.writable:
            if each.name == name:
                return each
        if name in self.changing:
            raise BeingAltered(
                f"Column {name!r} of {self.name!r} is being changed.", retry_after_ms=retry_after_ms, hint="Try again."
            )
        raise BadInput(f"Table {self.name!r} has no column {name!r}.")


class View(msgspec.Struct, frozen=True):
    """A view with its table; `columns` are the table's, with its types."""

    name: str
    incarnation: int
    version: Version
    table: Table
    columns: tuple[Column, ...]
    properties: Mapping[str, str]
    age_ms: int | None = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All that must be as it was for a read to count."""
        return (Token(self.incarnation, self.version), self.table.token)


class Published:
    """All objects at one position. Raises NotFound for what is not there, BeingCreated, BeingDeleted or BeingAltered
    for what cannot be used now; `retry_after_ms` goes into these."""

    def __init__(
        self,
        rows: Mapping[str, ObjectRow],
        tables: Mapping[str, Table],
        names: Mapping[int, tuple[str, ...]],
        blocked: frozenset[Position] = frozenset(),
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        """`tables` that can be read, by name; `names` by incarnation. Nobody uses what the changes `blocked` would
        alter, nor what is `withheld`."""
        self.rows = rows
        self._tables = tables
        self.names = names
        self.blocked = blocked
        self.withheld = withheld

    def table(self, name: str, retry_after_ms: int) -> Table:
        return self._tables[self._usable(ObjectKind.TABLE, name, retry_after_ms).name]

    def view(self, name: str, retry_after_ms: int) -> View:
        row = self._usable(ObjectKind.VIEW, name, retry_after_ms)
        shown = _read_by(row)
        table = self.table(shown.over, retry_after_ms)
        before = shown if row.definition is None else row.definition
        if before.over != shown.over:
            message = f"View {name!r} is to show another table by change {row.change}."
            raise BeingAltered(message, retry_after_ms=retry_after_ms, hint=_wait_for(row))
        numbers = {each.number for each in shown.columns} & {each.number for each in before.columns}
        columns = tuple(each for each in table.columns if each.number in numbers)
        return View(row.name, row.incarnation, _version(row), table, columns, shown.properties)

    def database(self, name: str, retry_after_ms: int) -> Database:
        row = self._usable(ObjectKind.DATABASE, name, retry_after_ms)
        read_by = _read_by(row)
        return Database(row.name, row.incarnation, _version(row), read_by.properties, _ttl_ms(row))

    def privileges(self, grant: str) -> frozenset[Privilege]:
        """What a grant gives now, whatever becomes of an open change; nothing if there is none."""
        row = self.rows.get(grant)
        if row is None or row.kind is not ObjectKind.GRANT or row.definition is None or row.status not in READABLE:
            return frozenset()
        given = frozenset(row.definition.privileges)
        return given if row.pending is None else given & frozenset(row.pending.privileges)

    def usable_table(self, name: str) -> Table | None:
        """The table, None if it cannot be used now."""
        found = self._tables.get(name)
        return found if found and self._is_free(self.rows[name]) else None

    def tables(self) -> Iterator[Table]:
        """All that can be used now."""
        return (found for name, found in self._tables.items() if self._is_free(self.rows[name]))

    def table_of(self, incarnation: int) -> Table | None:
        """The table of this incarnation if it can be used now, whatever its name."""
        found = (self.usable_table(name) for name in self.names.get(incarnation, ()))
        return next((table for table in found if table), None)

    def is_closed(self, state: State, incarnation: int, column: int | None) -> bool:
        """Whether there was such a table, or column of a table, and will never be again.

        `state` may be ahead of what is published here, by the set that is being applied.
        """
        if not 0 < incarnation < _given(state):
            return False
        rows = [state.get(ObjectRow, name) for name in self.names.get(incarnation, ())]
        alive = [row for row in rows if row and row.incarnation == incarnation]
        alive = alive or [row for _, row in state.rows(ObjectRow) if row.incarnation == incarnation]
        if not alive or column is None:
            return not alive
        columns = [each.number for row in alive for each in _columns(row)]
        return 0 < column <= max(row.columns_ever for row in alive) and column not in columns

    def without(self, withheld: frozenset[str]) -> "Published":
        """The same, but nobody uses these."""
        return Published(self.rows, self._tables, self.names, self.blocked, withheld)

    def adopting(self, state: State, touched: Sequence[str], blocked: frozenset[Position]) -> "Published":
        """What is to follow behind a set that has touched these objects."""
        if not touched and blocked == self.blocked:
            return self
        rows, tables, names = dict(self.rows), dict(self._tables), dict(self.names)
        for name in touched:
            _unname(names, rows.pop(name, None))
            tables.pop(name, None)
        for name in touched:
            row = state.get(ObjectRow, name)
            if row is None:
                continue
            rows[name] = row
            names[row.incarnation] = (*names.get(row.incarnation, ()), name)
            if row.kind is ObjectKind.TABLE and row.status in READABLE:
                tables[name] = _table(row)
        return Published(rows, tables, names, blocked)

    def _is_free(self, row: ObjectRow) -> bool:
        return row.change not in self.blocked and row.name not in self.withheld

    def _usable(self, kind: ObjectKind, name: str, retry_after_ms: int) -> ObjectRow:
        row = self.rows.get(name)
        if row is None:
            raise NotFound(f"There is no {kind.value.lower()} {name!r}.")
        if row.kind is not kind:
            raise NotFound(f"{name!r} is no {kind.value.lower()}, it is a {row.kind.value.lower()}.")
        if row.status not in READABLE:
            _refuse(row, retry_after_ms)
        if row.change in self.blocked:
            message = f"{name!r} is being changed by change {row.change}, which this node cannot apply."
            raise BeingAltered(message, retry_after_ms=retry_after_ms, hint="It will be rolled back.")
        if name in self.withheld:
            message = f"{name!r} was changed a moment ago."
            raise BeingAltered(message, retry_after_ms=retry_after_ms, hint="Try again: this node is applying that.")
        return row


EMPTY = Published({}, {}, {})


def _unname(names: dict[int, tuple[str, ...]], row: ObjectRow | None) -> None:
    if row is not None:
        rest = tuple(each for each in names[row.incarnation] if each != row.name)
        names[row.incarnation] = rest
        if not rest:
            del names[row.incarnation]


def _given(state: State) -> int:
    row = state.get(ClusterRow, "")
    return row.next_object if row else 1


def _columns(row: ObjectRow) -> Iterator[Column]:
    for definition in filter(None, (row.definition, row.pending)):
        yield from definition.columns


def _read_by(row: ObjectRow) -> Definition:
    found = row.definition if row.pending is None else row.pending
    assert found is not None, f"{row.name} can be read"
    return found


def _version(row: ObjectRow) -> Version:
    return row.version if row.pending is None else row.pending_version


def _table(row: ObjectRow) -> Table:
    read_by, before = _read_by(row), row.definition
    assert before is not None, f"{row.name} is there"
    writable = tuple(_common(before, read_by)) if row.pending is not None else read_by.columns
    both = {each.name for each in (*before.columns, *read_by.columns)}
    return Table(
        row.name,
        row.incarnation,
        _version(row),
        read_by.columns,
        writable,
        read_by.key,
        read_by.properties,
        _ttl_ms(row),
        row.status,
        frozenset(both - {each.name for each in writable}),
    )


def _common(before: Definition, after: Definition) -> Iterator[Column]:
    """The columns that both have, by number and by name, each with the narrower type."""
    for each in after.columns:
        held = before.column(each.name)
        if held is not None and held.number == each.number:
            yield msgspec.structs.replace(each, type=_narrower(held.type, each.type))


def _narrower(one: ColumnType, other: ColumnType) -> ColumnType:
    return one if other in WIDER.get(one, ()) else other


def _ttl_ms(row: ObjectRow) -> int:
    """The longer time to live of both definitions."""
    both = [each.ttl_ms or FOREVER for each in (row.definition, row.pending) if each is not None]
    return FOREVER if FOREVER in both else max(both)


def _wait_for(row: ObjectRow) -> str:
    return f"`topolog wait change/{row.change}`, then try again."


def _refuse(row: ObjectRow, retry_after_ms: int) -> NoReturn:
    noun = f"{row.kind.value.capitalize()} {row.name!r}"
    hint = _wait_for(row)
    match row.status:
        case ObjectStatus.PRE_CREATE:
            message = f"{noun} is being created by change {row.change}."
            raise BeingCreated(message, retry_after_ms=retry_after_ms, hint=hint)
        case ObjectStatus.PRE_RENAME:
            message = f"{noun} is getting another name by change {row.change}."
            raise BeingDeleted(message, retry_after_ms=retry_after_ms, hint=hint)
        case _:
            message = f"{noun} is being deleted by change {row.change}."
            raise BeingDeleted(message, retry_after_ms=retry_after_ms, hint=hint)
