"""A simulated service that keeps rows in tables, behind the node's real class and its real guards.

A read lasts some turns and looks at the disk in one of them; a write is admitted, is checked again some turns later,
and its row comes to a disk, its own or another node's, whenever that is.

What a turn has done is told in `reads`, `admitted`, `allowed`, `expired`, `deleted` and `confirmed`: whoever looks from
outside knows the true order of these, which no node does.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

import msgspec

from topolog.events.errors import CannotApply, NotFound, Retriable
from topolog.events.ids import Incarnation, Position
from topolog.events.object_definition import FOREVER, WIDER, Column, ColumnType, ObjectKind, Privilege
from topolog.events.objects import ChangeRow, ObjectRow
from topolog.events.state import State
from topolog.streams.node.core import NodeCore
from topolog.streams.node.deletions import Deletion
from topolog.streams.node.objects import READABLE, Published, Table, View
from topolog.streams.node.schema import Schema
from topolog.streams.simulation.store import Cell, Store, StoredRow
from topolog.streams.simulation.timeline import NS_PER_MS, Timeline

USERS = ("u0", "u1")
_OPERATION_TURNS = (0, 25)
_OPERATIONS_MAX = 6
_READS = 0.6
_ASKS = 0.4
"""How often, in a turn, somebody asks whether he may."""

_EXPIRES = 0.1
"""How often, in a turn, a table is looked through for what has expired."""

_CANNOT = 0.03
"""How often a service cannot apply a change."""

_CLEARS = 0.05
"""How often, in a turn, what is closed is deleted: late."""


class Read(msgspec.Struct):
    """One answered read, or `is_unknown`: the answer that there is no such object. Times are true ones.

    `table` is what the rows are of: another one than `name` if that is a view. `owed`: rows that were there when the
    read began, of the incarnation that is shown.
    """

    name: str
    kind: ObjectKind
    began_ns: int
    incarnation: int = 0
    columns: tuple[Column, ...] = ()
    is_unknown: bool = False
    table: str = ""
    of: int = 0
    owed: Sequence[StoredRow] = ()
    shown: Sequence[Mapping[int, Cell]] = ()
    ended_ns: int = 0


class Admitted(msgspec.Struct, frozen=True):
    """A write that has been admitted and is acknowledged; its cells by column number."""

    name: str
    incarnation: int
    cells: Mapping[int, Cell]
    began_ns: int
    ended_ns: int


class Allowed(msgspec.Struct, frozen=True):
    """The answer to who asked for a right."""

    principal: str
    privilege: Privilege
    name: str
    is_allowed: bool


class Expired(msgspec.Struct, frozen=True):
    """Rows were deleted for their age: `ttl_ms` is what was said of the table."""

    name: str
    ttl_ms: int


class Deleted(msgspec.Struct, frozen=True):
    """What was deleted because it was closed: of a `column` its cells, of None whole rows."""

    table: str
    incarnation: int
    column: int | None


class _Running(msgspec.Struct):
    turns: int
    table: Table
    guard: ExitStack
    began_ns: int
    looks_at: int
    read: Read | None = None
    cells: Mapping[int, Cell] = {}


Sender = Callable[[StoredRow], None]
"""Carries a row to a disk, of whichever node, in whatever time."""


class SimulatedTables:
    """`schema` is the node's own; `send` carries what is written to a disk; `store` is this node's.

    `blocked`: changes that the service cannot apply.
    """

    def __init__(
        self,
        chance: random.Random,
        timeline: Timeline,
        schema: Schema,
        store: Store,
        send: Sender,
    ) -> None:
        self.store = store
        self.schema = schema
        self.reads: list[Read] = []
        self.admitted: list[Admitted] = []
        self.allowed: list[Allowed] = []
        self.expired: list[Expired] = []
        self.deleted: list[Deleted] = []
        self.confirmed: list[Position] = []
        self.blocked: set[Position] = set()
        self._chance = chance
        self._timeline = timeline
        self._send = send
        self._debts: list[Deletion] = []
        self._swept = Incarnation(0)
        schema.on_change(self._on_change)
        schema.on_deletion(self._debts.append)
        self._running: list[_Running] = []

    def begin_turn(self) -> None:
        """Nothing is done yet in this turn."""
        for each in (self.reads, self.admitted, self.allowed, self.expired, self.deleted, self.confirmed):
            each.clear()

    def ask(self, core: NodeCore) -> None:
        """All that a client's turn is: it is asked for every right."""
        with suppress(Retriable):
            for name, _ in _names(core.state):
                for principal in USERS:
                    for privilege in (Privilege.READ, Privilege.WRITE):
                        self._ask_for(principal, privilege, name)

    def turn(self, core: NodeCore) -> None:
        """Go on with what is under way, begin more, ask for rights, delete what has expired or is closed."""
        for each in list(self._running):
            self._go_on(each)
        if self._chance.random() < _CLEARS:
            with suppress(Retriable), self.schema.deleting():
                self._clear(core)
        names = _names(core.state)
        if not names:
            return
        if len(self._running) < _OPERATIONS_MAX:
            with suppress(Retriable):
                self._begin(*self._chance.choice(names))
        if self._chance.random() < _ASKS:
            with suppress(Retriable):
                self._ask(self._chance.choice(names)[0])
        if self._chance.random() < _EXPIRES:
            self._expire(self._chance.choice(names)[0])

    def receive(self, row: StoredRow) -> None:
        """A row has come to this node's disk; what is known to be closed is not stored."""
        if not self.schema.is_closed(row.incarnation):
            self.store.put(row)

    def _begin(self, name: str, kind: ObjectKind) -> None:
        entered, writes = ExitStack(), kind is ObjectKind.TABLE and self._chance.random() > _READS
        try:
            view = self.schema.view(name) if kind is ObjectKind.VIEW else None
            guard = self.schema.writing(name) if writes else self.schema.using(view.table.name if view else name)
            table = entered.enter_context(guard)
        except NotFound:
            now_ns = self._timeline.now_ns
            self.reads.append(Read(name, kind, now_ns, is_unknown=True, ended_ns=now_ns))
            return
        if not writes:
            self._run(table, entered, read=self._read(table, view))
        elif cells := self._cells(table):
            self._run(table, entered, cells=cells)

    def _run(
        self, table: Table, entered: ExitStack, *, read: Read | None = None, cells: Mapping[int, Cell] | None = None
    ) -> None:
        turns = self._chance.randint(*_OPERATION_TURNS)
        looks_at = self._chance.randint(0, turns)
        self._running.append(_Running(turns, table, entered, self._timeline.now_ns, looks_at, read, cells or {}))

    def _read(self, table: Table, view: View | None) -> Read:
        found = view or table
        kind = ObjectKind.VIEW if view else ObjectKind.TABLE
        return Read(
            found.name,
            kind,
            self._timeline.now_ns,
            found.incarnation,
            found.columns,
            table=table.name,
            of=table.incarnation,
            owed=self.store.of(table.incarnation),
        )

    def _cells(self, table: Table) -> Mapping[int, Cell]:
        """Values for some of the columns that a read shows; raises Retriable if they are not taken now."""
        found = {}
        for each in table.columns:
            if self._chance.random() < 0.6:
                column = table.writable_column(each.name)
                found[column.number] = Cell(self._chance.getrandbits(40), self._narrower(column))
        return found

    def _narrower(self, column: Column) -> ColumnType:
        return self._chance.choice([column.type, *(each for each, wider in WIDER.items() if column.type in wider)])

    def _go_on(self, running: _Running) -> None:
        if running.turns == running.looks_at and running.read is not None:
            running.read.shown = list(self._shown(running.read))
        running.turns -= 1
        if running.turns >= 0:
            return
        self._running.remove(running)
        with suppress(Retriable):
            running.guard.close()
            self._end(running)

    def _shown(self, read: Read) -> Iterator[Mapping[int, Cell]]:
        """What the disk has of the table and its columns, and nothing of what is closed."""
        for row in self.store.of(read.of):
            yield {each.number: row.cells[each.number] for each in read.columns if each.number in row.cells}

    def _end(self, running: _Running) -> None:
        now_ns, table = self._timeline.now_ns, running.table
        if running.read is not None:
            running.read.ended_ns = now_ns
            self.reads.append(running.read)
            return
        self.admitted.append(Admitted(table.name, table.incarnation, running.cells, running.began_ns, now_ns))
        number = self._chance.getrandbits(40)
        self._send(StoredRow(number, table.name, table.token.incarnation, running.cells, now_ns))

    def _ask(self, name: str) -> None:
        self._ask_for(self._chance.choice(USERS), self._chance.choice((Privilege.READ, Privilege.WRITE)), name)

    def _ask_for(self, principal: str, privilege: Privilege, name: str) -> None:
        self.allowed.append(Allowed(principal, privilege, name, self.schema.allows(principal, privilege, name)))

    def _expire(self, name: str) -> None:
        ttl_ms = self.schema.ttl_ms(name)
        if ttl_ms is None or ttl_ms == FOREVER:
            return
        self.expired.append(Expired(name, ttl_ms))
        incarnation, oldest_ns = self._published.rows[name].incarnation, self._timeline.now_ns - ttl_ms * NS_PER_MS
        self.store.expire(lambda row: row.incarnation == incarnation and row.at_ns < oldest_ns)

    def _clear(self, core: NodeCore) -> None:
        """Delete what changes have closed, and say so; behind a join whatever is found closed on the disk."""
        if self._swept != core.incarnation and core.has_joined:
            self._swept = core.incarnation
            self._sweep()
        for debt in self._debts:
            for table in debt.tables:
                self._delete(Deleted(table.name, table.incarnation, None))
            for column in debt.columns:
                self._delete(Deleted(column.table, column.incarnation, column.number))
            self.confirmed.append(debt.change)
            self.schema.deleted(debt.change)
        self._debts.clear()

    def _sweep(self) -> None:
        for row in list(self.store.rows):
            for column in (None, *row.cells):
                if self.schema.is_closed(row.incarnation, column):
                    self._delete(Deleted(row.table, row.incarnation, column))

    def _delete(self, deleted: Deleted) -> None:
        self.deleted.append(deleted)
        self.store.delete(deleted.incarnation, deleted.column)

    def _on_change(self, change: ChangeRow) -> None:
        """Some changes some services cannot apply."""
        if self._chance.random() < _CANNOT:
            self.blocked.add(change.number)
            raise CannotApply("NO_CODEC", "This build has no such codec.")

    def in_use(self) -> Iterator[tuple[str, int, int]]:
        """What this node answers from if it answers now: name, incarnation and version."""
        for row in self._published.rows.values():
            if row.status in READABLE and row.change not in self._published.blocked:
                yield row.name, row.incarnation, row.version if row.pending is None else row.pending_version

    @property
    def _published(self) -> Published:
        return self.schema._published


def _names(state: State) -> list[tuple[str, ObjectKind]]:
    """Tables and views that somebody may ask for: those that are there, and a few that may not be."""
    found: dict[str, ObjectKind] = {}
    found |= {row.name: row.kind for _, row in state.rows(ObjectRow) if row.kind in (ObjectKind.TABLE, ObjectKind.VIEW)}
    if found:
        found = {"d0.t0": ObjectKind.TABLE} | found
    return list(found.items())
