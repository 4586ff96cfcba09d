"""Rules of schema change: prepared, then committed or rolled back, one at a time per object (docs/design/tables.md)."""

from collections.abc import Sequence

from tests.unit.streams.rules.changing import (
    Changing,
    add,
    alter,
    cancellation,
    change,
    database,
    deletions,
    drop,
    table,
)

from topolog.events.claims import line
from topolog.events.objects import ChangeStatus, ObjectStatus, SchemaChangeCommitted, object_row


def shop(*servers: str) -> Changing:
    found = Changing(*(servers or ("n1", "n2", "n3")))
    found.make(database(), table())
    return found


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def test_a_change_is_committed_when_every_server_has_applied_it() -> None:
    """TA15: one round trip with all up."""
    found = shop()
    assert kinds(found.ask(change(alter("shop.orders", add("note"))))) == ["SchemaChangePrepared"]
    number = found.position
    assert found.object("shop.orders").status is ObjectStatus.PRE_ALTER
    assert found.apply("n1", "n2") == []
    assert kinds(found.apply("n3")) == ["SchemaChangeCommitted"]
    row = found.object("shop.orders")
    assert (row.status, row.version) == (ObjectStatus.USING, 2)
    assert row.definition is not None
    assert [column.number for column in row.definition.columns] == [1, 2]
    assert found.change(number).status is ChangeStatus.COMMITTED


def test_a_silent_server_costs_one_wait_for_all_changes_that_were_prepared_meanwhile() -> None:
    """TA17: batched behind one wait."""
    found = shop()
    for name in ("a", "b", "c"):
        found.ask(change(table(f"shop.{name}")))
    assert found.apply("n1", "n2") == []
    (committed,) = found.wait_out()
    assert isinstance(committed, SchemaChangeCommitted)
    assert len(committed.changes) == 3
    assert committed.evidence.presumed_fenced == ("n3",)
    assert line(found.state) == ()


def test_create_drop_create_of_one_name_waits_in_line_and_each_is_a_new_object() -> None:
    """TA12: create-drop-create of one name."""
    found = shop()
    first = found.object("shop.orders").incarnation
    found.ask(change(drop()))
    found.apply()
    found.ask(change(table()))
    found.apply()
    assert found.object("shop.orders").incarnation > first


def test_servers_confirm_what_they_have_deleted() -> None:
    """TA32: data of a dropped table is deleted after the commit, and each server says so."""
    found = shop()
    number = found.make(drop())
    assert object_row(found.state, "shop.orders") is None
    assert found.change(number).undeleted == ("n1", "n2", "n3")
    found.ask(deletions("n2", number))
    assert found.change(number).undeleted == ("n1", "n3")


def test_a_change_that_is_cancelled_leaves_everything_as_before() -> None:
    """TA22: a rollback needs nobody."""
    found = shop()
    found.ask(change(drop()))
    number = found.position
    found.ask(cancellation(number))
    row = found.object("shop.orders")
    assert (row.status, row.version, row.change) == (ObjectStatus.USING, 1, None)
    assert line(found.state) == ()
