"""Any history of changes: statements, applies, refusals by servers, cancels, deadlines, joins and leaves in any order
(docs/design/tables.md, `events/claims.py`). What is checked stands in `schema_histories.py`."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.streams.rules.changing import (
    add,
    alter,
    cancellation,
    change,
    database,
    drop,
    drop_column,
    grant,
    rename,
    rename_column,
    retype,
    table,
    view,
)
from tests.unit.streams.rules.schema_histories import Chronicle, check

from topolog.events.claims import LineRow, line_row
from topolog.events.leases import members
from topolog.events.object_definition import ColumnAction, ColumnType, ObjectKind, Statement, Verb
from topolog.events.objects import ChangeStatus

DATABASES = st.sampled_from(["a", "b"])
TABLES = st.sampled_from(["a.s", "a.t", "b.t"])
VIEWS = st.sampled_from(["a.v", "b.v"])
GRANTS = st.sampled_from(["x@a", "x@a.t", "y@a.t", "x@a.v", "x@b.t"])
COLUMNS = st.sampled_from(["c", "d", "e"])
NODES = st.sampled_from(["n1", "n2", "n3"])


def actions() -> st.SearchStrategy[ColumnAction]:
    return st.one_of(
        st.builds(add, COLUMNS, st.just(ColumnType.INT32)),
        st.builds(drop_column, COLUMNS),
        st.builds(rename_column, COLUMNS, COLUMNS),
        st.builds(retype, COLUMNS, st.just(ColumnType.INT64)),
    )


def alters() -> st.SearchStrategy[Statement]:
    return st.builds(lambda name, some: alter(name, *some), TABLES, st.lists(actions(), min_size=1, max_size=2))


def drops() -> st.SearchStrategy[Statement]:
    return st.one_of(
        st.builds(drop, TABLES, if_needed=st.booleans()),
        st.builds(drop, VIEWS, st.just(ObjectKind.VIEW)),
        st.builds(drop, GRANTS, st.just(ObjectKind.GRANT)),
        st.builds(drop, DATABASES, st.just(ObjectKind.DATABASE)),
    )


def statements() -> st.SearchStrategy[Statement]:
    return st.one_of(
        st.builds(database, DATABASES),
        TABLES.map(lambda name: table(name, c=ColumnType.INT32)),
        st.builds(view, VIEWS, TABLES),
        st.builds(lambda name, over: view(name, over, "id"), VIEWS, TABLES),
        st.builds(grant, GRANTS),
        alters(),
        alters(),
        st.builds(rename, TABLES, TABLES),
        st.just(rename("a.v", "a.w", ObjectKind.VIEW)),
        VIEWS.map(lambda name: Statement(Verb.ALTER, ObjectKind.VIEW, name, properties={"p": "q"})),
        drops(),
    )


class Histories(RuleBasedStateMachine):
    """Three servers, of which any may be silent, blocked, or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Chronicle("n1", "n2", "n3")
        self.lives = 1
        for made in ((database("a"), database("b")), (table("a.t", c=ColumnType.INT32), table("b.t"))):
            self.found.make(*made)
        self.found.make(view("a.v", "a.t", "id"), grant("x@a.t"), grant("x@a"))

    @rule(some=st.lists(statements(), min_size=1, max_size=3), has_deadline=st.booleans())
    def ask(self, some: list[Statement], has_deadline: bool) -> None:
        self.found.try_ask(change(*some, deadline_ms=1_000 if has_deadline else None))

    @rule(node=NODES)
    def apply(self, node: str) -> None:
        if self.found.node(node).is_member:
            self.found.apply(node)

    @rule()
    def apply_all(self) -> None:
        self.found.apply()

    @precondition(lambda self: bool(self.found.open()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.found.try_ask(cancellation(data.draw(st.sampled_from(self.found.open()))))

    @precondition(lambda self: bool(self.found.open()))
    @rule(data=st.data())
    def pass_deadline(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.found.open()))
        if self.found.change(number).deadline_ms is not None:
            self.found.pass_deadline(number)

    @precondition(lambda self: bool(line_row(self.found.state).prepared))
    @rule(node=NODES, data=st.data())
    def block(self, node: str, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(line_row(self.found.state).prepared))
        position = self.found.change(number).prepared_at
        assert position is not None
        self.found.block(node, position, incarnation=self.found.node(node).incarnation)

    @rule()
    def unblock(self) -> None:
        self.found.blocks.clear()
        self.found.settle()

    @rule()
    def wait_out(self) -> None:
        self.found.wait_out()

    @rule(node=NODES)
    def leave_or_come(self, node: str) -> None:
        if self.found.node(node).is_member:
            self.found.leave(node)
        else:
            self.lives += 1
            self.found.join(node, self.lives)

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        check(self.found)
        assert all(
            self.found.change(number).status is not ChangeStatus.QUEUED or self.found.waits(number)
            for number in self.found.open()
        ), "a change that need not wait has not begun"

    def teardown(self) -> None:
        """Everything ends, and nothing is left of it."""
        restored = self.found.copy()
        assert restored.hash() == self.found.state.hash()
        assert list(restored.rows(LineRow)) == list(self.found.state.rows(LineRow))
        self.found.finish()
        check(self.found)
        assert self.found.is_over()
        for row in members(self.found.state):
            assert self.found.undeleted(row.node) == []


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
