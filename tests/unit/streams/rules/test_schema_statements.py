"""What each statement leads to, given the object as it is, and how that differs from IoTDB's table.

IoTDB's outcomes, by the status of the table: CREATE of one that is there or comes is refused, of one that goes with an
error of its own, which IF NOT EXISTS does not hide; DROP of one that goes is accepted again, of one that comes refused;
every other change of one that is in change is refused, and says wait or retry.

Documented differences, all for one reason, that changes of one object stand in line (`events/claims.py`): where IoTDB
says wait or retry, topolog waits. They are the entries QUEUED below. What such a change says at its turn is in
`test_schema_needs.py` and `test_schema_histories.py`.
"""

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
    outcome,
    rename,
    rename_column,
    retype,
    shop,
    show,
    table,
    view,
)

from topolog.events.errors import Refused
from topolog.events.object_definition import (
    COLUMNS_MAX,
    PROPERTIES_MAX,
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
from topolog.events.objects import ChangeStatus, ObjectStatus

TABLE, VIEW, DATABASE, GRANT = ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.DATABASE, ObjectKind.GRANT


# The table of TA5 and TA6.

PREPARATIONS: dict[str, tuple[Statement, ...]] = {
    "absent": (),
    "PRE_CREATE": (table(),),
    "USING": (table(),),
    "PRE_ALTER": (table(), alter("shop.orders", add("note"))),
    "PRE_RENAME": (table(), rename("shop.orders", "shop.sales")),
    "PRE_DELETE": (table(), drop()),
}

STATEMENTS: dict[str, Statement] = {
    "CREATE": table(),
    "CREATE IF NOT EXISTS": Statement(
        Verb.CREATE, TABLE, "shop.orders", Definition((Column("id", LONG),), "id"), if_needed=True
    ),
    "ALTER": alter("shop.orders", add("more")),
    "ALTER IF EXISTS": Statement(Verb.ALTER, TABLE, "shop.orders", columns=(add("more"),), if_needed=True),
    "RENAME": rename("shop.orders", "shop.bills"),
    "DROP": drop(),
    "DROP IF EXISTS": drop(if_needed=True),
    "CREATE VIEW": view("shop.v", "shop.orders"),
    "CREATE GRANT": grant("ada@shop.orders"),
}

EXPECTED = """
                        absent          PRE_CREATE  USING           PRE_ALTER  PRE_RENAME  PRE_DELETE
CREATE                  PREPARED        QUEUED      OBJECT_EXISTS   QUEUED     QUEUED      BEING_DELETED
CREATE IF NOT EXISTS    PREPARED        QUEUED      UNCHANGED       QUEUED     QUEUED      BEING_DELETED
ALTER                   OBJECT_UNKNOWN  QUEUED      PREPARED        QUEUED     QUEUED      BEING_DELETED
ALTER IF EXISTS         UNCHANGED       QUEUED      PREPARED        QUEUED     QUEUED      BEING_DELETED
RENAME                  OBJECT_UNKNOWN  QUEUED      PREPARED        QUEUED     QUEUED      BEING_DELETED
DROP                    OBJECT_UNKNOWN  QUEUED      PREPARED        QUEUED     QUEUED      UNCHANGED
DROP IF EXISTS          UNCHANGED       QUEUED      PREPARED        QUEUED     QUEUED      UNCHANGED
CREATE VIEW             OBJECT_UNKNOWN  QUEUED      PREPARED        QUEUED     QUEUED      BEING_DELETED
CREATE GRANT            OBJECT_UNKNOWN  QUEUED      PREPARED        QUEUED     QUEUED      BEING_DELETED
"""


def cases() -> list[tuple[str, str, str]]:
    head, *lines = EXPECTED.strip().splitlines()
    found = []
    for line in lines:
        name = next(each for each in sorted(STATEMENTS, key=len, reverse=True) if line.startswith(each + " "))
        outcomes = line.removeprefix(name).split()
        found += [(status, name, each) for status, each in zip(head.split(), outcomes, strict=True)]
    return found


@pytest.mark.parametrize(("status", "statement", "expected"), cases())
def test_what_a_statement_leads_to(status: str, statement: str, expected: str) -> None:
    """TA5, TA6, with the differences that are named above."""
    found = shop()
    *made, last = PREPARATIONS[status] or (None,)
    for each in made:
        assert each is not None
        found.make(each)
    if last is not None:
        found.ask(change(last))
        row = found.object("shop.orders")
        if status == "USING":
            found.apply()
            row = found.object("shop.orders")
        assert row.status is ObjectStatus[status]
    assert outcome(found, STATEMENTS[statement]).split()[0] == expected


def test_who_drops_again_is_told_which_change_does() -> None:
    """TA6: a re-drop is accepted, and its subject is the change that is under way."""
    found = shop()
    found.make(table())
    found.ask(change(drop()))
    assert outcome(found, drop()) == f"UNCHANGED change {found.position}"


def test_what_goes_with_its_database_is_dropped_already() -> None:
    """TA6: also while the drop of the database still waits, and its steps are not known."""
    found = shop()
    found.make(table(), grant("ada@shop.orders"), grant("bob@shop"))
    found.ask(change(alter("shop.other", add("more"))))
    found.ask(change(drop("shop", DATABASE)))
    number = found.position
    assert found.change(number).statements
    for each in (drop("shop", DATABASE), drop(), drop("ada@shop.orders", GRANT), drop("bob@shop", GRANT)):
        assert outcome(found, each) == f"UNCHANGED change {number}"
    found.apply()
    assert found.change(number).steps
    for each in (drop("shop", DATABASE), drop(), drop("ada@shop.orders", GRANT), drop("bob@shop", GRANT)):
        assert outcome(found, each) == f"UNCHANGED change {number}"
    for each in (table("shop.new"), grant("eve@shop"), alter("shop.other", add("b")), database()):
        assert outcome(found, each) == "BEING_DELETED"


def test_a_view_can_be_dropped_although_its_table_is_to_be_dropped_behind_it() -> None:
    """TA8: a view does not go with its table, so its drop is none of the table's."""
    found = shop()
    found.make(view("shop.v", "shop.other"))
    found.ask(change(alter("shop.other", add("more"))))
    found.ask(change(drop("shop.other")))
    assert outcome(found, drop("shop.v", VIEW)) == "QUEUED"


def test_a_drop_beside_other_statements_is_no_repetition() -> None:
    """TA6: half of a change cannot be unchanged."""
    found = shop()
    found.make(table())
    found.ask(change(drop()))
    assert outcome(found, drop(), table("shop.new")) == "BEING_DELETED"


# Refusals: each with its code, its rule and what it is about.

REFUSALS: dict[str, tuple[str, str, tuple[Statement, ...]]] = {
    "no statement": ("BAD_STATEMENT", "TA3", ()),
    "named twice": ("NAMED_TWICE", "TA4", (table(), drop())),
    "a new name named twice": ("NAMED_TWICE", "TA4", (rename("shop.other", "shop.a"), table("shop.a"))),
    "dropped with its database": ("NAMED_TWICE", "TA4", (table(), drop("shop", DATABASE))),
    "renamed, and dropped with it": ("NAMED_TWICE", "TA4", (rename("shop.other", "shop.a"), drop("shop", DATABASE))),
    "altered, and dropped with it": ("NAMED_TWICE", "TA4", (alter("shop.other", add("b")), drop("shop", DATABASE))),
    "a right of what is dropped": ("NAMED_TWICE", "TA4", (grant("ada@shop.other"), drop("shop.other"))),
    "a bad name": ("BAD_NAME", "TA1", (database("a-b"),)),
    "a table without database": ("BAD_NAME", "TA1", (table("orders"),)),
    "a name with a line feed": ("BAD_NAME", "TA1", (database("shop\n"),)),
    "a name that is too long": ("BAD_NAME", "TA1", (table("shop." + "t" * 65),)),
    "letters of another script": ("BAD_NAME", "TA1", (database("b\u00fcro"),)),
    "a right for nobody": ("BAD_NAME", "TA1", (grant("@shop"),)),
    "a bad name of a column": ("BAD_NAME", "TA1", (alter("shop.other", add("a b")),)),
    "a bad new name of a column": ("BAD_NAME", "TA1", (alter("shop.other", rename_column("a", "b-c")),)),
    "a view over no table's name": ("BAD_NAME", "TA1", (view("shop.v", "shop"),)),
    "a database is renamed": ("RENAME_NOT_ALLOWED", "TA1", (rename("shop", "mall", DATABASE),)),
    "out of its database": ("RENAME_NOT_ALLOWED", "TA1", (rename("shop.other", "mall.other"),)),
    "to its own name": ("RENAME_NOT_ALLOWED", "TA1", (rename("shop.other", "shop.other"),)),
    "nothing to alter": ("BAD_STATEMENT", "TA3", (alter("shop.other"),)),
    "more columns than a table has": (
        "BAD_STATEMENT",
        "TA3",
        (alter("shop.other", *(drop_column(f"c{each}") for each in range(COLUMNS_MAX + 1))),),
    ),
    "more properties than an object has": (
        "BAD_STATEMENT",
        "TA3",
        (Statement(Verb.ALTER, DATABASE, "shop", unset=tuple(map(str, range(PROPERTIES_MAX + 1)))),),
    ),
    "columns of a view": ("BAD_STATEMENT", "TA3", (alter("shop.v", add("b"), kind=VIEW),)),
    "properties in what a view shows": (
        "BAD_STATEMENT",
        "TA3",
        (Statement(Verb.ALTER, VIEW, "shop.v", Definition(over="shop.other", properties={"a": "b"})),),
    ),
    "a table is replaced": ("BAD_STATEMENT", "TA3", (Statement(Verb.ALTER, TABLE, "shop.other", Definition()),)),
    "a type that is unknown": ("BAD_STATEMENT", "TA3", (alter("shop.other", add("b", ColumnType.UNKNOWN)),)),
    "an unknown verb": ("BAD_STATEMENT", "TA3", (Statement(Verb.UNKNOWN, TABLE, "shop.other"),)),
    "an unknown kind": ("BAD_STATEMENT", "TA3", (Statement(Verb.DROP, ObjectKind.UNKNOWN, "shop.other"),)),
    "one column twice": ("COLUMN_NAMED_TWICE", "TA4", (alter("shop.other", drop_column("a"), add("a")),)),
    "a column exists": ("COLUMN_EXISTS", "TA7", (alter("shop.other", add("a")),)),
    "a column gets a name that is taken": ("COLUMN_EXISTS", "TA7", (alter("shop.other", rename_column("a", "id")),)),
    "a column is unknown": ("COLUMN_UNKNOWN", "TA7", (alter("shop.other", drop_column("b")),)),
    "the key is dropped": ("COLUMN_IS_KEY", "TA7", (alter("shop.other", drop_column("id")),)),
    "the key is renamed": ("COLUMN_IS_KEY", "TA7", (alter("shop.other", rename_column("id", "no")),)),
    "the key gets another type": ("COLUMN_IS_KEY", "TA7", (alter("shop.other", retype("id", TEXT)),)),
    "a narrower type": ("TYPE_CHANGE_NOT_ALLOWED", "TA7", (alter("shop.other", retype("a", ColumnType.BOOLEAN)),)),
    "INT32 to FLOAT loses digits": (
        "TYPE_CHANGE_NOT_ALLOWED",
        "TA7",
        (alter("shop.other", retype("a", ColumnType.FLOAT)),),
    ),
    "no key": (
        "BAD_DEFINITION",
        "TA3",
        (Statement(Verb.CREATE, TABLE, "shop.t", Definition((Column("id", LONG),))),),
    ),
    "a column twice in a new table": (
        "COLUMN_NAMED_TWICE",
        "TA4",
        (Statement(Verb.CREATE, TABLE, "shop.t", Definition((Column("id", LONG), Column("id", INT)), "id")),),
    ),
    "a database with columns": ("BAD_DEFINITION", "TA3", (database("d", columns=(Column("a", INT),)),)),
    "a right that expires": (
        "BAD_DEFINITION",
        "TA3",
        (Statement(Verb.CREATE, GRANT, "ada@shop", Definition(ttl_ms=0, privileges=(Privilege.READ,))),),
    ),
    "a right to nothing": (
        "BAD_DEFINITION",
        "TA3",
        (Statement(Verb.CREATE, GRANT, "ada@shop", Definition()),),
    ),
    "a negative time to live": ("BAD_DEFINITION", "TA3", (table("shop.t", ttl_ms=-1),)),
    "an object is unknown": ("OBJECT_UNKNOWN", "TA5", (drop(),)),
    "its database is unknown": ("OBJECT_UNKNOWN", "TA5", (table("mall.t"),)),
    "its table is unknown": ("OBJECT_UNKNOWN", "TA5", (view("shop.v", "shop.none"),)),
    "a right on what is unknown": ("OBJECT_UNKNOWN", "TA5", (grant("ada@mall"),)),
    "a view over a column that is not there": ("COLUMN_UNKNOWN", "TA7", (view("shop.v", "shop.other", "b"),)),
    "an object of another kind": ("OBJECT_OF_ANOTHER_KIND", "TA5", (drop("shop.other", VIEW),)),
    "another kind of that name exists": ("OBJECT_EXISTS", "TA5", (view("shop.other", "shop.other"),)),
    "a new name is taken": ("OBJECT_EXISTS", "TA5", (rename("shop.other", "shop.taken"),)),
}


@pytest.mark.parametrize(
    ("code", "rule", "statements"), [pytest.param(*each, id=name) for name, each in REFUSALS.items()]
)
def test_what_is_refused_says_why_and_changes_nothing(code: str, rule: str, statements: tuple[Statement, ...]) -> None:
    """TA1 to TA8: codes are stable, for programs compare them."""
    found = shop()
    before = found.state.hash()
    with pytest.raises(Refused) as caught:
        found.decide(change(*statements))
    assert (caught.value.code, caught.value.rule) == (code, rule)
    assert caught.value.facts.keys() & {"object", "name"} or not statements
    assert found.state.hash() == before


def of_column(verb: ColumnVerb, type_: ColumnType | None = None, new_name: str = "") -> Statement:
    return alter("shop.other", ColumnAction(verb, "a", type_, new_name))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (Statement(Verb.CREATE, TABLE, "shop.t"), "CREATE of 'shop.t' needs a `definition`"),
        (Statement(Verb.DROP, GRANT, "ada@shop", Definition()), "has a `definition`, which belongs to CREATE"),
        (Statement(Verb.RENAME, TABLE, "shop.other"), "RENAME of 'shop.other' needs a `new_name`"),
        (Statement(Verb.DROP, TABLE, "shop.other", new_name="shop.t"), "has a `new_name`, which belongs to RENAME"),
        (of_column(ColumnVerb.ADD), "ADD of column 'a' of 'shop.other' needs a `type`"),
        (of_column(ColumnVerb.RETYPE), "RETYPE of column 'a' of 'shop.other' needs a `type`"),
        (of_column(ColumnVerb.DROP, INT), "has a `type`, which belongs to ADD and RETYPE"),
        (of_column(ColumnVerb.RENAME), "RENAME of column 'a' of 'shop.other' needs a `new_name`"),
        (of_column(ColumnVerb.ADD, INT, "b"), "has a `new_name`, which belongs to RENAME"),
        (of_column(ColumnVerb.UNKNOWN), "says what this version does not know"),
    ],
)
def test_a_statement_that_lacks_what_it_needs_is_told_what(statement: Statement, said: str) -> None:
    """TA3: what is left out is another mistake than what is too much, and is not said in its words."""
    with pytest.raises(Refused) as caught:
        shop().decide(change(statement))
    assert said in caught.value.message
    assert (caught.value.code, caught.value.facts) == ("BAD_STATEMENT", {"object": statement.name})


TOO_MANY = {f"p{each}": "" for each in range(PROPERTIES_MAX + 1)}


@pytest.mark.parametrize(
    ("statement", "said", "hint"),
    [
        (table("shop." + "t" * 65), "a word of it has 65 characters, at most 64 are possible", "1 to 64 letters"),
        (grant("a" * 70 + "@shop"), "a word of it has 70 characters", "1 to 64 letters"),
        (database("1a"), "'1a' is no name of a database.", "begin with no digit"),
        (alter("shop.other", add("c" * 101)), "a word of it has 101 characters", "1 to 64 letters"),
        (database("d", properties=TOO_MANY), "'d' would have 101 properties, at most 100 are possible", ""),
        (database("d", properties={"a": "x" * 1_001}), "Property 'a' of 'd' has a value of 1001 characters", ""),
        (database("d", properties={"n" * 1_001: "x"}), "of 'd' has a name of 1001 characters, at most 1000", ""),
        (database("d", properties={"": "x"}), "A property of 'd' has no name", ""),
    ],
)
def test_what_is_too_long_is_told_how_long_it_may_be(statement: Statement, said: str, hint: str) -> None:
    """TA3: the limit and what was found, both as numbers."""
    with pytest.raises(Refused) as caught:
        shop().decide(change(statement))
    assert said in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("deadline_ms", [0, -1, 30 * 86_400_000 + 1])
def test_a_deadline_that_is_none_is_refused(deadline_ms: int) -> None:
    """TA20."""
    found = shop()
    with pytest.raises(Refused) as caught:
        found.decide(change(table(), deadline_ms=deadline_ms))
    assert (caught.value.code, caught.value.rule) == ("BAD_STATEMENT", "TA20")


def test_every_legal_type_change_and_no_other_is_done() -> None:
    """TA7: wider only, for every value must be one of the new type and sort as before."""
    legal = set()
    for old in ColumnType:
        for new in ColumnType:
            if ColumnType.UNKNOWN in (old, new):
                continue
            found = shop()
            found.make(table("shop.t", a=old))
            said = outcome(found, alter("shop.t", ColumnAction(ColumnVerb.RETYPE, "a", new)))
            assert said.split()[0] in ("PREPARED", "TYPE_CHANGE_NOT_ALLOWED", "UNCHANGED")
            assert (said == "UNCHANGED schema") is (old is new)
            if said == "PREPARED":
                legal.add((old.value, new.value))
    assert legal == {("INT32", "INT64"), ("INT32", "DOUBLE"), ("FLOAT", "DOUBLE"), ("DATE", "TIMESTAMP")}


def defined(found: Changing, name: str) -> Definition:
    definition = found.object(name).definition
    assert definition is not None
    return definition


def test_what_a_view_shows_can_be_replaced_and_its_grants_stay() -> None:
    """TA9: it took a drop and a new view, with a gap and without the rights."""
    found = shop()
    found.make(table(note=TEXT), table("shop.bills", sum=INT), view("shop.v", "shop.orders", "note"))
    found.make(grant("ada@shop.v"))
    found.make(show("shop.v", "shop.orders", "id", "note"))
    assert [each.name for each in defined(found, "shop.v").columns] == ["id", "note"]
    assert outcome(found, show("shop.v", "shop.orders")) == "UNCHANGED schema"
    found.make(show("shop.v", "shop.bills"))
    assert [each.name for each in defined(found, "shop.v").columns] == ["id", "sum"]
    assert defined(found, "shop.v").over == "shop.bills"
    assert defined(found, "ada@shop.v").privileges
    found.make(drop("shop.orders"))
    assert outcome(found, drop("shop.bills")) == "IN_USE"
    for wrong, code in (("shop.none", "OBJECT_UNKNOWN"), ("shop.v", "OBJECT_UNKNOWN")):
        assert outcome(found, show("shop.v", wrong)) == code
    assert outcome(found, show("shop.v", "shop.bills", "none")) == "COLUMN_UNKNOWN"


def test_a_view_that_is_to_show_another_table_holds_both() -> None:
    """TA12: neither is dropped or altered while it is open which of them it shows."""
    found = shop()
    found.make(table(note=TEXT), table("shop.bills", note=TEXT), view("shop.v", "shop.orders"))
    found.ask(change(show("shop.v", "shop.bills")))
    for each in ("shop.orders", "shop.bills"):
        assert outcome(found, alter(each, retype("note", TEXT))).split()[0] == "QUEUED"


def test_whose_turn_comes_waits_for_a_later_change_that_has_taken_its_view_along() -> None:
    """TA13: a renamed table's views go with it, so the change of one of them did not claim the table of that name
    when it came; the log could have held a decision that nobody can fold."""
    found = shop()
    found.make(table(note=INT), view("shop.v", "shop.orders"))
    for value in "12":
        found.ask(change(Statement(Verb.ALTER, TABLE, "shop.other", properties={"a": value})))
    before = found.position
    found.ask(change(rename("shop.orders", "shop.sales")))
    found.ask(change(Statement(Verb.ALTER, VIEW, "shop.v", properties={"a": "1"}), alter("shop.other", add("c"))))
    waiting = found.position
    found.ask(change(alter("shop.sales", retype("note", LONG))))
    found.apply()
    found.ask(cancellation(before))
    found.settle()
    assert found.change(waiting).status is ChangeStatus.QUEUED
    found.go_on(3)
    assert found.change(waiting).status is ChangeStatus.COMMITTED
    assert found.object("shop.v").definition == Definition(
        (Column("id", LONG, 1), Column("note", LONG, 2)), properties={"a": "1"}, over="shop.sales"
    )
