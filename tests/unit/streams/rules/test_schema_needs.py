"""What a change rests on: the object as it was seen, and what objects need of each other (docs/design/tables.md)."""

from typing import Any

import pytest
from tests.unit.streams.rules.changing import (
    INT,
    LONG,
    TEXT,
    add,
    alter,
    cancellation,
    change,
    database,
    drop,
    drop_column,
    grant,
    outcome,
    rename,
    rename_column,
    retype,
    shop,
    table,
    view,
)

from topolog.events.errors import Refused
from topolog.events.object_definition import (
    ABSENT,
    Column,
    ColumnAction,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Verb,
)
from topolog.events.objects import SchemaChangePrepared, object_row

TABLE, VIEW, DATABASE, GRANT = ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.DATABASE, ObjectKind.GRANT


# What it was planned on.


def test_a_plan_that_is_old_is_refused() -> None:
    """TA11: who has looked at the object acts on what he saw, or not at all."""
    found = shop()
    seen = found.object("shop.other").committed_at
    fresh = Statement(Verb.ALTER, TABLE, "shop.other", columns=(add("b"),), planned_on=seen)
    assert outcome(found, fresh) == "PREPARED"
    found.make(alter("shop.other", add("c")))
    assert outcome(found, fresh) == "PLAN_IS_OLD"
    definition = Definition((Column("id", LONG),), "id")
    assert outcome(found, Statement(Verb.CREATE, TABLE, "shop.t", definition, planned_on=ABSENT)) == "PREPARED"
    assert outcome(found, Statement(Verb.DROP, TABLE, "shop.other", planned_on=ABSENT)) == "PLAN_IS_OLD"


def test_a_plan_that_has_become_old_in_line_is_refused_at_its_turn() -> None:
    """TA13: a change is planned again when its turn comes."""
    found = shop()
    seen = found.object("shop.other").committed_at
    found.ask(change(alter("shop.other", add("b"))))
    found.ask(change(Statement(Verb.ALTER, TABLE, "shop.other", columns=(add("c"),), planned_on=seen)))
    number = found.position
    found.apply()
    assert found.change(number).code == "PLAN_IS_OLD"


def test_an_object_of_the_same_name_is_not_the_one_that_was_planned_on() -> None:
    """TA11, create-drop-create: a position, and not a version, says which object was seen."""
    found = shop()
    found.make(table())
    seen = found.object("shop.orders").committed_at
    found.make(drop())
    found.make(table())
    assert outcome(found, Statement(Verb.DROP, TABLE, "shop.orders", planned_on=seen)) == "PLAN_IS_OLD"


# What is to do no harm.


def harmless(verb: Verb, kind: ObjectKind, name: str, **rest: Any) -> Statement:
    return Statement(verb, kind, name, harmless=True, **rest)


def test_what_is_to_do_no_harm_makes_no_time_to_live_shorter() -> None:
    """Who asks had looked at another table of that name, or at this one as it was before."""
    found = shop()
    found.make(table(ttl_ms=1_000))
    ttls = (0, 1_001, 1_000, 999)
    outcomes = [outcome(found, harmless(Verb.ALTER, TABLE, "shop.orders", ttl_ms=each)) for each in ttls]
    assert outcomes == ["PREPARED", "PREPARED", "UNCHANGED schema", "PLAN_IS_OLD"]
    assert outcome(found, harmless(Verb.ALTER, TABLE, "shop.other", ttl_ms=1)) == "PLAN_IS_OLD"
    assert outcome(found, Statement(Verb.ALTER, TABLE, "shop.other", ttl_ms=1)) == "PREPARED"


def test_what_is_to_do_no_harm_is_refused_at_its_turn_for_what_stands_then() -> None:
    found = shop()
    found.make(table("shop.short", ttl_ms=1))
    for statement in (rename("shop.short", "shop.x"), rename("shop.other", "shop.short")):
        found.ask(change(statement))
    found.ask(change(harmless(Verb.ALTER, TABLE, "shop.short", ttl_ms=1)))
    number = found.position
    found.apply()
    found.apply()
    assert found.change(number).code == "PLAN_IS_OLD"


def test_what_is_to_do_no_harm_ends_no_grant() -> None:
    found = shop()
    found.make(view("shop.v", "shop.other"))
    assert outcome(found, harmless(Verb.DROP, VIEW, "shop.v")) == "PREPARED"
    found.make(grant("ada@shop.v", Privilege.READ))
    assert outcome(found, harmless(Verb.DROP, VIEW, "shop.v")) == "PLAN_IS_OLD"
    assert outcome(found, drop("shop.v", VIEW)) == "PREPARED"


# What objects need each other for.


def test_a_table_that_a_view_shows_is_not_dropped() -> None:
    """TA8: IN_USE names the view."""
    found = shop()
    found.make(view("shop.v", "shop.other", "a"))
    with pytest.raises(Refused) as caught:
        found.decide(change(drop("shop.other")))
    assert (caught.value.code, caught.value.facts["used_by"]) == ("IN_USE", "shop.v")
    assert outcome(found, drop("shop.v", VIEW), drop("shop.other")) == "PREPARED"


def test_grants_and_views_follow_a_table_that_gets_another_name() -> None:
    """TA9: nobody's right is taken away for it, nor given to anybody while the change is open."""
    found = shop()
    found.make(database("mall"), view("shop.v", "shop.other", "a"), view("mall.w", "shop.other"))
    found.make(grant("ada@shop.other", Privilege.READ), grant("bob@shop.v"), grant("eve@shop"))
    before = found.object("ada@shop.other").incarnation
    found.ask(change(rename("shop.other", "shop.more")))
    number = found.position
    opened = {
        "ada@shop.other": "PRE_RENAME",
        "ada@shop.more": "PRE_CREATE",
        "shop.v": "PRE_ALTER",
        "bob@shop.v": "USING",
    }
    assert {name: found.object(name).status.value for name in opened} == opened
    found.apply()
    assert found.change(number).status.value == "COMMITTED"
    assert object_row(found.state, "ada@shop.other") is None
    moved = found.object("ada@shop.more")
    assert moved.definition is not None
    assert (moved.incarnation, moved.definition.privileges) == (before, (Privilege.READ,))
    for name in ("shop.v", "mall.w"):
        shown = found.object(name).definition
        assert shown is not None
        assert shown.over == "shop.more"
    assert outcome(found, drop("shop.more")) == "IN_USE", "the views hang on the new name"
    found.make(table("shop.other"))
    found.make(drop("shop.v", VIEW), drop("mall.w", VIEW), drop("shop.more"))
    assert object_row(found.state, "ada@shop.more") is None, "grants go with their table"
    assert object_row(found.state, "eve@shop") is not None


def test_a_rename_that_is_rolled_back_leaves_grants_and_views_as_they_were() -> None:
    found = shop()
    found.make(view("shop.v", "shop.other", "a"))
    found.make(grant("ada@shop.other"), grant("ada@shop.v"))
    before = {name: found.object(name).definition for name in ("shop.v", "ada@shop.other", "ada@shop.v")}
    found.ask(change(rename("shop.other", "shop.more")))
    found.ask(cancellation(found.position))
    assert {name: found.object(name).definition for name in before} == before
    assert object_row(found.state, "ada@shop.more") is None
    found.make(rename("shop.v", "shop.w", VIEW))
    assert object_row(found.state, "ada@shop.w") is not None


def test_views_go_with_a_column_that_becomes_wider() -> None:
    """TA9: a view says of its columns what its table does, so they change in one."""
    found = shop()
    found.make(alter("shop.other", add("free", INT)))
    found.make(view("shop.v", "shop.other", "a"))
    found.make(view("shop.w", "shop.other", "free"))
    number = found.make(alter("shop.other", retype("a", LONG)))
    assert [step.name for step in found.change(number).steps] == ["shop.other", "shop.v"]
    shown = found.object("shop.v").definition
    assert shown is not None
    assert [column.type for column in shown.columns] == [LONG]
    assert found.object("shop.w").version == 1
    found.make(Statement(Verb.ALTER, DATABASE, "shop", ttl_ms=5_000))
    assert found.object("shop.v").version == 2


@pytest.mark.parametrize("action", [drop_column("a"), rename_column("a", "b")])
def test_a_column_that_a_view_shows_keeps_its_name(action: ColumnAction) -> None:
    """TA8: whoever reads the view by that name finds it; the refusal says which view."""
    found = shop()
    found.make(alter("shop.other", add("free", INT)))
    found.make(view("shop.v", "shop.other", "a"))
    assert outcome(found, alter("shop.other", action)) == "IN_USE"
    for free in (drop_column("free"), rename_column("free", "b"), retype("free", LONG)):
        assert outcome(found, alter("shop.other", free)) == "PREPARED"
    assert outcome(found, drop("shop.v", VIEW), alter("shop.other", action)) == "PREPARED"
    assert outcome(found, view("shop.w", "shop.other", "free"), alter("shop.other", drop_column("free"))) == "IN_USE"


def test_a_view_shows_its_columns_as_the_table_has_them() -> None:
    """TA9: with numbers and types, in the table's order; all if it names none."""
    found = shop()
    found.make(alter("shop.other", add("b", TEXT)))
    found.make(view("shop.v", "shop.other", "b", "id"), view("shop.w", "shop.other"))
    shown = found.object("shop.v").definition
    whole = found.object("shop.w").definition
    assert shown is not None
    assert whole is not None
    assert shown.columns == (Column("id", LONG, 1), Column("b", TEXT, 3))
    assert [each.number for each in whole.columns] == [1, 2, 3]


def test_a_database_that_a_view_of_another_shows_is_not_dropped() -> None:
    """TA8: nothing outside goes with it."""
    found = shop()
    found.make(database("mall"))
    found.make(view("mall.v", "shop.other"))
    assert outcome(found, drop("shop", DATABASE)) == "IN_USE"
    assert outcome(found, drop("mall", DATABASE)) == "PREPARED"


def test_a_database_takes_all_that_is_in_it_along_and_all_rights_on_any_of_it() -> None:
    """TA10: rights never come back with a new object of the same name."""
    found = shop()
    found.make(table(), view("shop.v", "shop.orders"))
    found.make(*(grant(f"ada@{each}") for each in ("shop", "shop.orders", "shop.v", "shop.other")))
    found.make(database("shop2"), grant("ada@shop2"))
    (prepared,) = found.ask(change(drop("shop", DATABASE)))
    assert isinstance(prepared, SchemaChangePrepared)
    order = [each.kind for each in prepared.steps]
    assert order == sorted(order, key=[GRANT, VIEW, TABLE, DATABASE].index)
    found.apply()
    assert found.names() == ["ada@shop2", "shop2"]
    found.make(database(), table())
    assert object_row(found.state, "ada@shop.orders") is None


def test_a_new_object_of_the_name_has_no_right_that_was_given_on_the_former() -> None:
    """TA10: the rights on a table go with it."""
    found = shop()
    found.make(table(), grant("ada@shop.orders", Privilege.WRITE))
    found.make(drop())
    found.make(table())
    assert object_row(found.state, "ada@shop.orders") is None
    found.make(grant("ada@shop.orders"))
    row = found.object("ada@shop.orders")
    assert row.definition is not None
    assert row.definition.privileges == (Privilege.READ,)


def test_a_table_takes_the_time_to_live_of_its_database_as_it_is_now() -> None:
    """TA5, CREATE: it inherits the database's TTL, and keeps it."""
    found = shop()
    found.make(Statement(Verb.ALTER, DATABASE, "shop", ttl_ms=5_000))
    found.make(table())
    found.make(Statement(Verb.ALTER, DATABASE, "shop", ttl_ms=6_000))
    orders = found.object("shop.orders").definition
    assert orders is not None
    assert orders.ttl_ms == 5_000
