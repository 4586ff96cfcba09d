"""What a node may use of the objects, whatever becomes of an open change: no threads, only rows (TA23)."""

import pytest
from tests.unit.streams.rules.changing import (
    INT,
    LONG,
    TEXT,
    Changing,
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
    show,
    table,
    view,
)

from topolog.events.errors import BadInput, BeingAltered, BeingCreated, BeingDeleted, NotFound
from topolog.events.ids import Position
from topolog.events.object_definition import FOREVER, ColumnType, ObjectKind, Privilege, Statement, Verb
from topolog.events.objects import ObjectRow
from topolog.streams.node.deletions import ClosedColumn, ClosedTable, Deletions, closed_by
from topolog.streams.node.lazy import Lazy
from topolog.streams.node.objects import EMPTY, Published, Table, Token

MS = 7
ORDERS = "shop.orders"


class Node:
    """What a node publishes of a cluster's objects, behind each set that it applies."""

    def __init__(self) -> None:
        self.cluster = Changing("n1", "n2")
        self.now = EMPTY
        self.number = Position(0)
        self.cluster.make(database(ttl_ms=1_000), table(note=TEXT, count=INT))
        self.look()

    def look(self) -> Published:
        touched = [key for kind, key in self.cluster.state.drain() if kind == ObjectRow.KIND]
        self.now = self.now.adopting(self.cluster.state, touched, frozenset())
        return self.now

    def prepare(self, *statements: Statement) -> Published:
        self.cluster.ask(change(*statements))
        self.number = self.cluster.position
        return self.look()

    def commit(self) -> Published:
        self.cluster.apply()
        return self.look()

    def roll_back(self) -> Published:
        self.cluster.ask(cancellation(self.number))
        return self.look()

    def make(self, *statements: Statement) -> Published:
        self.prepare(*statements)
        return self.commit()


@pytest.fixture
def node() -> Node:
    return Node()


def shown(found: Table) -> dict[str, ColumnType]:
    return {each.name: each.type for each in found.columns}


def writable(found: Table) -> dict[str, ColumnType]:
    return {each.name: each.type for each in found.writable}


def alter_ttl(name: str, ttl_ms: int, kind: ObjectKind = ObjectKind.TABLE) -> Statement:
    return Statement(Verb.ALTER, kind, name, ttl_ms=ttl_ms)


def alter_grant(name: str, *privileges: Privilege) -> Statement:
    return Statement(Verb.ALTER, ObjectKind.GRANT, name, privileges=privileges)


def test_a_table_at_rest_is_read_and_written_by_one_definition(node: Node) -> None:
    """TA23: nothing is prepared, so one version is in use; the time to live is the database's."""
    found = node.now.table(ORDERS, MS)
    assert shown(found) == {"id": LONG, "note": TEXT, "count": INT}
    assert found.writable == found.columns
    assert (found.key, found.ttl_ms, found.version, found.age_ms) == ("id", 1_000, 1, None)
    assert found.token == Token(found.incarnation, found.version)
    assert node.now.database("shop", MS).ttl_ms == 1_000


def test_what_is_not_there_and_what_is_something_else_is_not_found(node: Node) -> None:
    """TA24: the error says what it is."""
    with pytest.raises(NotFound, match="no table"):
        node.now.table("shop.other", MS)
    with pytest.raises(NotFound, match="it is a database"):
        node.now.table("shop", MS)
    with pytest.raises(NotFound, match="it is a table"):
        node.now.view(ORDERS, MS)


def test_a_table_that_is_prepared_is_served_from_its_commit_on(node: Node) -> None:
    """TA24: PRE_CREATE is hidden behind an error that can be tried again, and says who creates it."""
    found = node.prepare(table("shop.new"))
    with pytest.raises(BeingCreated, match=f"change {node.number}") as caught:
        found.table("shop.new", MS)
    assert caught.value.retry_after_ms == MS
    assert node.commit().table("shop.new", MS).version == 1
    node.prepare(table("shop.newer"))
    with pytest.raises(NotFound):
        node.roll_back().table("shop.newer", MS)


def test_a_table_that_is_to_be_dropped_is_not_served_and_comes_back_if_it_is_not_dropped(node: Node) -> None:
    """TA24: BeingDeleted while it is open; a rollback needs nobody (TA22)."""
    before = node.now.table(ORDERS, MS)
    with pytest.raises(BeingDeleted, match="being deleted"):
        node.prepare(drop()).table(ORDERS, MS)
    assert node.roll_back().table(ORDERS, MS) == before
    node.prepare(drop())
    with pytest.raises(NotFound):
        node.commit().table(ORDERS, MS)


def test_while_a_table_is_altered_it_is_read_by_what_is_pending_and_written_by_both(node: Node) -> None:
    """TA23: an added column shows, a dropped one does not; only what is in both can be set, with the narrower type."""
    found = node.prepare(alter(ORDERS, add("city"), drop_column("note"), retype("count", LONG))).table(ORDERS, MS)
    assert shown(found) == {"id": LONG, "count": LONG, "city": TEXT}
    assert writable(found) == {"id": LONG, "count": INT}
    assert found.version == 2
    for name in ("city", "note"):
        with pytest.raises(BeingAltered):
            found.writable_column(name)
    with pytest.raises(BadInput):
        found.writable_column("never")
    assert found.writable_column("count").type is INT
    after = node.commit().table(ORDERS, MS)
    assert after.token == found.token
    assert after.writable == after.columns == found.columns


def test_a_rolled_back_alteration_leaves_the_version_before_and_uses_up_its_own(node: Node) -> None:
    """TA22: as before; a version is never given twice, so what began under the pending one is told apart."""
    before = node.now.table(ORDERS, MS)
    pending = node.prepare(alter(ORDERS, add("city"))).table(ORDERS, MS)
    assert node.roll_back().table(ORDERS, MS) == before
    again = node.prepare(alter(ORDERS, add("town"))).table(ORDERS, MS)
    assert before.token < pending.token < again.token


def test_a_renamed_column_keeps_its_number_and_is_written_by_neither_name_meanwhile(node: Node) -> None:
    """TA23: one column by number and by name in both, or none."""
    number = node.now.table(ORDERS, MS).writable_column("note").number
    found = node.prepare(alter(ORDERS, rename_column("note", "remark"))).table(ORDERS, MS)
    assert "note" not in shown(found)
    assert "note" not in writable(found)
    assert "remark" not in writable(found)
    assert node.commit().table(ORDERS, MS).writable_column("remark").number == number


@pytest.mark.parametrize(
    ("before", "after", "meanwhile"), [(1_000, 500, 1_000), (1_000, 2_000, 2_000), (1_000, FOREVER, FOREVER)]
)
def test_meanwhile_data_expires_by_the_longer_time_to_live(node: Node, before: int, after: int, meanwhile: int) -> None:
    """TA25: nothing is deleted that one of the definitions keeps; for ever is the longest."""
    assert node.now.table(ORDERS, MS).ttl_ms == before
    assert node.prepare(alter_ttl(ORDERS, after)).table(ORDERS, MS).ttl_ms == meanwhile
    assert node.commit().table(ORDERS, MS).ttl_ms == after
    assert node.prepare(alter_ttl(ORDERS, before)).table(ORDERS, MS).ttl_ms == meanwhile


def test_while_a_table_is_renamed_neither_name_is_served(node: Node) -> None:
    """TA2: then it is the same table under the new name: data is kept by incarnation."""
    incarnation = node.now.table(ORDERS, MS).incarnation
    found = node.prepare(rename(ORDERS, "shop.sales"))
    with pytest.raises(BeingDeleted, match="another name"):
        found.table(ORDERS, MS)
    with pytest.raises(BeingCreated):
        found.table("shop.sales", MS)
    assert found.table_of(incarnation) is None
    assert not found.is_closed(node.cluster.state, incarnation, None)
    after = node.commit()
    assert after.table("shop.sales", MS).incarnation == incarnation
    assert after.table_of(incarnation) == after.table("shop.sales", MS)
    with pytest.raises(NotFound):
        after.table(ORDERS, MS)


def test_a_view_shows_columns_as_its_table_has_them(node: Node) -> None:
    """TA9: by number, whatever else its table gets or loses; without its table there is no view."""
    found = node.make(view("shop.notes", ORDERS, "count")).view("shop.notes", MS)
    assert [(each.name, each.type) for each in found.columns] == [("count", INT)]
    altered = node.prepare(alter(ORDERS, drop_column("note"), add("city"))).view("shop.notes", MS)
    assert altered.columns == found.columns
    assert altered.table.version == 2
    node.commit()
    with pytest.raises(BeingDeleted):
        node.prepare(drop("shop.notes", ObjectKind.VIEW), drop()).view("shop.notes", MS)


def test_a_view_that_is_altered_shows_what_it_has_and_is_to_have(node: Node) -> None:
    """A rollback must not have shown what nobody may see; of two tables nothing suits both."""
    node.make(view("shop.notes", ORDERS, "count"))
    shown = node.prepare(show("shop.notes", ORDERS, "count", "note")).view("shop.notes", MS)
    assert [each.name for each in shown.columns] == ["count"]
    shown = node.commit().view("shop.notes", MS)
    assert {each.name for each in shown.columns} == {"count", "note"}
    shown = node.prepare(show("shop.notes", ORDERS, "note")).view("shop.notes", MS)
    assert [each.name for each in shown.columns] == ["note"]
    node.commit()
    node.make(table("shop.bills", sum=INT))
    found = node.prepare(show("shop.notes", "shop.bills"))
    with pytest.raises(BeingAltered, match="another table"):
        found.view("shop.notes", MS)
    assert [each.name for each in node.commit().view("shop.notes", MS).columns] == ["id", "sum"]


def test_a_right_is_in_force_from_the_commit_and_is_taken_away_with_the_preparation(node: Node) -> None:
    """TA26: only what committed and pending both give."""
    read, write, name = Privilege.READ, Privilege.WRITE, f"ada@{ORDERS}"
    assert node.prepare(grant(name, read)).privileges(name) == frozenset()
    assert node.commit().privileges(name) == {read}
    assert node.prepare(alter_grant(name, write)).privileges(name) == frozenset()
    assert node.commit().privileges(name) == {write}
    assert node.prepare(alter_grant(name, read, write)).privileges(name) == {write}
    assert node.commit().privileges(name) == {read, write}
    assert node.prepare(drop(name, ObjectKind.GRANT)).privileges(name) == frozenset()
    assert node.roll_back().privileges(name) == {read, write}
    assert node.prepare(drop()).privileges(name) == frozenset()


def test_a_former_table_of_the_name_is_closed_and_the_next_one_is_not(node: Node) -> None:
    """TA31: create-drop-create of one name; what nobody was given yet is not closed either."""
    first = node.now.table(ORDERS, MS).incarnation
    node.prepare(drop())
    assert not node.now.is_closed(node.cluster.state, first, None)
    node.commit()
    second = node.make(table()).table(ORDERS, MS).incarnation
    closed = {each: node.now.is_closed(node.cluster.state, each, None) for each in (0, first, second, second + 1)}
    assert closed == {0: False, first: True, second: False, second + 1: False}


def test_what_is_published_late_closes_nothing_that_lives(node: Node) -> None:
    """Hooks that ask in the middle of a set see what the whole set makes, also if it gave a table another name."""
    incarnation = node.now.table(ORDERS, MS).incarnation
    node.cluster.make(rename(ORDERS, "shop.sales"))
    assert not node.now.is_closed(node.cluster.state, incarnation, None)
    node.cluster.make(drop("shop.sales"))
    assert node.now.is_closed(node.cluster.state, incarnation, None)


def test_a_column_is_closed_by_the_commit_of_its_drop(node: Node) -> None:
    """TA31: a rollback brings it back, so nothing is deleted before."""
    found = node.now.table(ORDERS, MS)
    number = found.writable_column("note").number
    state = node.cluster.state
    assert not node.prepare(alter(ORDERS, drop_column("note"))).is_closed(state, found.incarnation, number)
    after = node.commit()
    assert after.is_closed(state, found.incarnation, number)
    assert not after.is_closed(state, found.incarnation, number + 1)
    assert not after.is_closed(state, found.incarnation, 99)
    node.make(alter(ORDERS, add("note")))
    assert node.now.table(ORDERS, MS).writable_column("note").number == 4


def test_a_commit_says_which_tables_and_columns_it_closes(node: Node) -> None:
    """TA31: what is to be deleted, by incarnation and number, for names are free again."""
    node.make(table("shop.other"))
    orders, other = node.now.table(ORDERS, MS), node.now.table("shop.other", MS)
    before = node.prepare(alter(ORDERS, drop_column("note"), add("city")), drop("shop.other"))
    node.commit()
    found = closed_by(node.cluster.change(node.number), before)
    assert found.change == node.number
    assert found.tables == (ClosedTable("shop.other", other.incarnation),)
    assert found.columns == (ClosedColumn(ORDERS, orders.incarnation, 2, "note"),)


def test_nobody_uses_what_a_change_alters_that_this_node_cannot_apply(node: Node) -> None:
    """TA19: until it is rolled back."""
    node.prepare(alter(ORDERS, add("city")))
    node.now = node.now.adopting(node.cluster.state, (), frozenset({node.number}))
    with pytest.raises(BeingAltered, match="cannot apply"):
        node.now.table(ORDERS, MS)
    assert list(node.now.tables()) == []
    assert node.roll_back().table(ORDERS, MS).version == 1


def test_a_published_value_never_changes(node: Node) -> None:
    """TA23: whoever reads has one position in hand, without a lock."""
    before = node.now
    node.make(drop())
    assert before.table(ORDERS, MS).version == 1
    assert before.usable_table(ORDERS) is not None
    assert node.now.usable_table(ORDERS) is None


def test_what_was_loaded_of_a_prepared_table_is_not_used_when_it_is_committed(node: Node) -> None:
    """A thread that is slow stores its value behind the commit; the version is the same, what is written is not."""
    codecs = Lazy(lambda found: {each.name for each in found.writable}, lambda: 1)
    before = node.prepare(alter(ORDERS, add("city"))).table(ORDERS, MS)
    after = node.commit().table(ORDERS, MS)
    assert "city" not in codecs.of(before)
    assert "city" in codecs.of(after)


def test_deletions_are_said_when_they_are_done_and_owed_once() -> None:
    """TA32: the debts of one life; another life has others."""
    debts, first, second = Deletions(), Position(5), Position(9)
    assert debts.owe(first)
    assert not debts.owe(first)
    assert debts.owe(second)
    assert debts.due() == ()
    debts.done(9)
    debts.done(77)
    assert debts.due() == (second,)
    debts.forget(second)
    assert debts.due() == ()
    debts.begin()
    debts.done(5)
    assert debts.due() == ()
