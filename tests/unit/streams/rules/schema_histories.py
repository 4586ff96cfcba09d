"""Histories of changes of objects, and what must be so at every point of any of them."""

from collections.abc import Iterator

from tests.unit.streams.rules.changing import Changing, deletions
from tests.unit.streams.rules.cluster import LOG_ID

from topolog.events import claims
from topolog.events.asked import Request
from topolog.events.claims import Claims, ClaimsRow, LineRow, UsersRow
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.fold import Header
from topolog.events.ids import Position, Term
from topolog.events.leases import members
from topolog.events.object_definition import ObjectKind, Step, database_of, object_of
from topolog.events.objects import (
    ChangeRow,
    ChangeStatus,
    ObjectRow,
    ObjectStatus,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
    object_row,
)
from topolog.events.snapshot_content import Content, Cut, Loader
from topolog.events.state import State


class Chronicle(Changing):
    """Notes what has been given ever: numbers of columns, versions and ends."""

    def __init__(self, *servers: str) -> None:
        self.columns: dict[int, int] = {}
        self.versions: dict[int, int] = {}
        self.begun: dict[Position, int] = {}
        self.ended: dict[Position, int] = {}
        super().__init__(*servers)

    def log(self, *events: Decision) -> Position:
        for event in events:
            super().log(event)
            self._note(event)
        return self.position

    def try_ask(self, request: Request) -> str:
        """Gives the code if it is refused."""
        try:
            self.ask(request)
        except Refused as refusal:
            return refusal.code
        self.settle()
        return ""

    def finish(self) -> None:
        """Everybody who is here applies all there is, and has deleted what is closed."""
        self.blocks.clear()
        while self.open():
            before = self.open(), self.position
            self.apply()
            assert (self.open(), self.position) != before, "nothing goes on although everybody has applied everything"
        for row in members(self.state):
            closed = [change.number for _, change in self.state.rows(ChangeRow) if row.node in change.undeleted]
            if closed:
                self.ask(deletions(row.node, *closed, incarnation=row.incarnation))

    def copy(self) -> State:
        """The state as a snapshot would give it."""
        content = Content(Cut(Header(LOG_ID, Term(1)), self.state.copies()))
        loader = Loader()
        for piece in content.pieces():
            if piece:
                loader.feed(piece)
        _, state = loader.finish(content.digest, content.state_hash)
        return state

    def _note(self, event: Decision) -> None:
        match event:
            case SchemaChangeQueued():
                self.begun[self.position] = 1
            case SchemaChangePrepared(change=None):
                self.begun[self.position] = 1
                self._note_steps(event.steps)
            case SchemaChangePrepared():
                self._note_steps(event.steps)
            case SchemaChangeCommitted():
                for number in event.changes:
                    self.ended[number] = self.ended.get(number, 0) + 1
            case SchemaChangeRolledBack():
                self.ended[event.change] = self.ended.get(event.change, 0) + 1

    def _note_steps(self, steps: tuple[Step, ...]) -> None:
        """No number of a column and no version is given twice in one incarnation."""
        for step in steps:
            row = self.object(step.name)
            given, highest = row.incarnation, self.columns.get(row.incarnation, 0)
            known = {each.number for each in row.definition.columns} if row.definition else set()
            numbers = [each.number for each in step.definition.columns] if step.definition else []
            if step.kind is ObjectKind.TABLE:
                assert all(each > highest for each in numbers if each not in known), "a column has another's number"
            assert row.pending_version > self.versions.get(given, 0), "a version is given again"
            self.columns[given] = max([highest, *numbers])
            self.versions[given] = row.pending_version


def check(found: Chronicle) -> None:
    """What is so at every point."""
    _check_indexes(found.state)
    _check_claims(found.state)
    for name, row in found.state.rows(ObjectRow):
        _check_object(found.state, name, row)
    assert all(count == 1 for count in found.ended.values()), "a change has ended twice"
    assert sorted(found.begun) == sorted({*found.ended, *found.open()}), "a change is neither open nor over"


def _check_indexes(state: State) -> None:
    """They are what the rows of changes and objects say."""
    open_ = [row for _, row in state.rows(ChangeRow) if row.is_open]
    expected = State()
    for row in sorted(open_, key=lambda row: row.number):
        claims.claim(expected, row.claims, row.number)
    assert dict(expected.rows(ClaimsRow)) == dict(state.rows(ClaimsRow))
    assert all(row.claims == Claims() for _, row in state.rows(ChangeRow) if not row.is_open)
    line = claims.line_row(state)
    prepared = sorted((row.prepared_at or 0, row.number) for row in open_ if row.status is ChangeStatus.PREPARED)
    assert line.changes == tuple(sorted(row.number for row in open_))
    assert line.prepared == tuple(number for _, number in prepared)
    queued = [row for row in open_ if row.status is ChangeStatus.QUEUED]
    assert {row.number for row in queued if not claims.must_wait(state, row.claims, row.number)} <= {*line.ready}
    assert {*line.ready} <= {row.number for row in queued}
    for row in open_:
        assert claims.must_wait(state, row.claims, row.number) is bool(claims.before(state, row.claims, row.number))
    assert (state.count(LineRow) == 1) is bool(open_)
    users: dict[str, set[str]] = {}
    for name, each in state.rows(ObjectRow):
        for needed in _uses(each):
            users.setdefault(needed, set()).add(name)
    assert users == {name: set(row.names) for name, row in state.rows(UsersRow)}


def _uses(row: ObjectRow) -> Iterator[str]:
    if row.definition is None:
        return
    if row.kind is ObjectKind.GRANT:
        yield object_of(row.name)
    if row.definition.over:
        yield row.definition.over


def _check_claims(state: State) -> None:
    """No two prepared changes claim one object alone, and each step is of what its change claims."""
    held: dict[str, Position] = {}
    for _, row in state.rows(ChangeRow):
        if row.status is ChangeStatus.PREPARED:
            for name in row.claims.alone:
                assert name not in held, f"{name} is claimed by {held[name]} and {row.number}"
                held[name] = row.number
            touched = {name for step in row.steps for name in (step.name, step.new_name) if name}
            assert touched == {*row.claims.alone}
    for name, each in state.rows(ObjectRow):
        assert each.change == held.get(name), f"{name} belongs to change {each.change}"


def _check_object(state: State, name: str, row: ObjectRow) -> None:
    """It is at rest or belongs to a change, and all that it needs is there."""
    assert row.name == name
    assert (row.status is ObjectStatus.USING) is (row.change is None)
    assert (row.definition is None) is (row.status is ObjectStatus.PRE_CREATE)
    assert row.pending is None or row.change is not None
    if row.definition is None:
        return
    assert len({each.number for each in row.definition.columns}) == len(row.definition.columns)
    needs = {object_of(name)} if row.kind is ObjectKind.GRANT else {database_of(name)} if "." in name else set()
    for needed in needs | ({row.definition.over} if row.definition.over else set()):
        found = object_row(state, needed)
        assert found is not None, f"{name} needs {needed}, which is gone"
        assert found.definition is not None, f"{name} needs {needed}, which is not there yet"
    if row.definition.over:
        table = object_row(state, row.definition.over)
        assert table is not None
        assert table.definition is not None
        assert {*row.definition.columns} <= {*table.definition.columns}, f"{name} shows other columns than its table"
