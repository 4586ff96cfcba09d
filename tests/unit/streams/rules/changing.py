"""A cluster whose objects change, for tests: statements in few words, and the verdict as its nodes report it."""

import itertools
from collections.abc import Mapping, Sequence

from tests.unit.streams.rules.cluster import LOG_ID, Cluster, join_request, joiner

from topolog.events import requests as q
from topolog.events.asked import RequestId
from topolog.events.claims import ClaimsRow, LineRow, line, must_wait
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.fold import evolve
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Term
from topolog.events.leases import FENCING, members
from topolog.events.membership import Blocked
from topolog.events.object_definition import (
    Column,
    ColumnAction,
    ColumnType,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Verb,
)
from topolog.events.object_requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.objects import (
    ChangeRow,
    ObjectRow,
    SchemaChangePrepared,
    SchemaChangeQueued,
    change_row,
    object_row,
)
from topolog.events.proof import Life
from topolog.streams.rules import membership, metadata, objects

INT, LONG, TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.STRING
NONE: Mapping[str, ColumnType] = {}
_numbers = itertools.count(1)


def database(name: str = "shop", **rest: object) -> Statement:
    return Statement(Verb.CREATE, ObjectKind.DATABASE, name, Definition(**rest))  # type: ignore[arg-type]


def table(name: str = "shop.orders", /, *, ttl_ms: int | None = None, **columns: ColumnType) -> Statement:
    """A table with the key `id`, a number, and these columns."""
    found = (Column("id", LONG), *(Column(each, type_) for each, type_ in columns.items()))
    return Statement(Verb.CREATE, ObjectKind.TABLE, name, Definition(found, "id", ttl_ms))


def view(name: str, over: str, *columns: str) -> Statement:
    shown = tuple(Column(each, ColumnType.UNKNOWN) for each in columns)
    return Statement(Verb.CREATE, ObjectKind.VIEW, name, Definition(shown, over=over))


def show(name: str, over: str, *columns: str) -> Statement:
    """A view that is there shows this from now on."""
    shown = tuple(Column(each, ColumnType.UNKNOWN) for each in columns)
    return Statement(Verb.ALTER, ObjectKind.VIEW, name, Definition(shown, over=over))


def grant(name: str, *privileges: Privilege) -> Statement:
    return Statement(Verb.CREATE, ObjectKind.GRANT, name, Definition(privileges=privileges or (Privilege.READ,)))


def alter(name: str = "shop.orders", *columns: ColumnAction, kind: ObjectKind = ObjectKind.TABLE) -> Statement:
    return Statement(Verb.ALTER, kind, name, columns=columns)


def drop(name: str = "shop.orders", kind: ObjectKind = ObjectKind.TABLE, *, if_needed: bool = False) -> Statement:
    return Statement(Verb.DROP, kind, name, if_needed=if_needed)


def rename(name: str, new_name: str, kind: ObjectKind = ObjectKind.TABLE) -> Statement:
    return Statement(Verb.RENAME, kind, name, new_name=new_name)


def add(column: str, type_: ColumnType = TEXT) -> ColumnAction:
    return ColumnAction(ColumnVerb.ADD, column, type_)


def retype(column: str, type_: ColumnType) -> ColumnAction:
    return ColumnAction(ColumnVerb.RETYPE, column, type_)


def drop_column(column: str) -> ColumnAction:
    return ColumnAction(ColumnVerb.DROP, column)


def rename_column(column: str, new_name: str) -> ColumnAction:
    return ColumnAction(ColumnVerb.RENAME, column, new_name=new_name)


def change(*statements: Statement, deadline_ms: int | None = None) -> SchemaChangeRequested:
    return SchemaChangeRequested(
        RequestId("changes", next(_numbers)), LOG_ID, "ada", "why not", statements, deadline_ms
    )


def cancellation(number: int) -> ChangeCancellationRequested:
    return ChangeCancellationRequested(RequestId("changes", next(_numbers)), LOG_ID, "ada", "", number)


def deletions(node: str, *numbers: int, incarnation: int = 1) -> DeletionsConfirmed:
    return DeletionsConfirmed(RequestId("changes", next(_numbers)), LOG_ID, node, "", node, incarnation, numbers)


class Changing(Cluster):
    """Servers that apply what is decided when a test says so."""

    def __init__(self, *servers: str) -> None:
        super().__init__()
        self.applied: dict[NodeId, tuple[Incarnation, Position]] = {}
        self.blocks: dict[NodeId, tuple[Incarnation, Blocked]] = {}
        self.waited_through = NOWHERE
        self.late: set[str] = set()
        for name in servers:
            self.join(name)

    def join(self, name: str, incarnation: int = 1, *, fences: bool = True) -> None:
        self.ask(join_request(joiner(name, incarnation, capabilities=(FENCING,) if fences else ())))

    def leave(self, node: str, *, settle: bool = True) -> list[Decision]:
        """It is dead, and certified to be."""
        self.applied.pop(NodeId(node), None)
        self.blocks.pop(NodeId(node), None)
        dead = {Life(NodeId(node), self.node(node).incarnation, self.node(node).seal)}
        self.log(*membership.settle(self.state, {}, (), dead, end=self.position, joins=metadata.declare))
        return self.settle() if settle else []

    def begin(self, *statements: Statement) -> Position:
        """Ask for a change; gives its number."""
        self.ask(change(*statements))
        return self.position

    def apply(self, *nodes: str, quickly: bool = False) -> list[Decision]:
        """These servers, or all, have applied all there is; gives what follows."""
        for node in nodes or [row.node for row in members(self.state)]:
            self.applied[NodeId(node)] = self.node(node).incarnation, self.position
        return self.settle(quickly=quickly)

    def go_on(self, times: int) -> None:
        """All servers apply what there is, and then what follows from that, as often."""
        for _ in range(times):
            self.apply(quickly=True)

    def block(
        self, node: str, position: Position, code: str = "NO_CODEC", message: str = "cannot", incarnation: int = 1
    ) -> list[Decision]:
        """The server says that it cannot apply the decision at the position."""
        self.blocks[NodeId(node)] = Incarnation(incarnation), Blocked(position, code, message)
        return self.settle()

    def unblock(self, node: str) -> list[Decision]:
        del self.blocks[NodeId(node)]
        return self.settle()

    def wait_out(self) -> list[Decision]:
        """All that is decided by now was read back proceed_ms ago."""
        self.waited_through = self.position
        return self.settle()

    def pass_deadline(self, number: int) -> list[Decision]:
        (deadline,) = objects.deadlines(self.change(number))
        self.late.add(deadline.key)
        return self.settle()

    def settle(self, *, quickly: bool = False) -> list[Decision]:
        """Decide and fold until nothing more follows; `quickly`: without the bytes."""
        followed: list[Decision] = []
        while decided := objects.settle(self.state, self.applied, self.blocks, self.waited_through, self.late):
            followed += decided
            (self.take if quickly else self.log_all)(decided)
        return followed

    def log_all(self, decided: Sequence[Decision]) -> None:
        self.log(*decided)

    def take(self, decided: Sequence[Decision]) -> None:
        """Fold without the bytes."""
        for event in decided:
            self.position = Position(self.position + 1)
            evolve(self.state, event, Place(self.position, self.chain, Term(1)))

    def open(self) -> tuple[Position, ...]:
        """The changes that are not over."""
        return line(self.state)

    def is_over(self) -> bool:
        """Nothing is open, and nothing that belongs to open changes is left."""
        return not any(self.state.count(kind) for kind in (LineRow, ClaimsRow))

    def waits(self, number: Position) -> bool:
        """It is in line behind another one."""
        return must_wait(self.state, self.change(number).claims, number)

    def undeleted(self, node: str) -> list[Position]:
        """The changes of which this server has closed data to delete."""
        return [row.number for _, row in self.state.rows(ChangeRow) if node in row.undeleted]

    def names(self) -> list[str]:
        return sorted(name for name, _ in self.state.rows(ObjectRow))

    def make(self, *statements: Statement) -> Position:
        """Change, and let all servers apply it; gives the number of the change."""
        self.ask(change(*statements))
        number = self.position
        self.apply()
        assert number not in line(self.state)
        return number

    def object(self, name: str) -> ObjectRow:
        row = object_row(self.state, name)
        assert row is not None, f"there is no {name}"
        return row

    def change(self, number: int) -> ChangeRow:
        row = change_row(self.state, number)
        assert row is not None, f"there is no change {number}"
        return row


def shop() -> Changing:
    """Two servers, and a database with two tables."""
    found = Changing("n1", "n2")
    found.make(database(), table("shop.other", a=INT), table("shop.taken"))
    return found


def outcome(found: Changing, *statements: Statement) -> str:
    """PREPARED, QUEUED, UNCHANGED, or the code of the refusal."""
    try:
        (decided,) = found.decide(change(*statements))
    except Refused as refusal:
        return refusal.code
    match decided:
        case SchemaChangePrepared():
            return "PREPARED"
        case SchemaChangeQueued():
            return "QUEUED"
        case q.RequestUnchanged():
            return f"UNCHANGED {decided.subject}"
    raise AssertionError(decided)
