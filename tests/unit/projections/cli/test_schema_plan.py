"""The plan of `apply`: what is wanted against what is there, and the file that says what is wanted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.events.object_definition import (
    ABSENT,
    STATEMENTS_MAX,
    Column,
    ColumnType,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Verb,
    check_statements,
)
from topolog.projections.cli.schema_file import read_schema
from topolog.projections.cli.schema_plan import Plan, PlanLine, Present, plan

SHOP = Present(ObjectKind.DATABASE, "shop", Definition(ttl_ms=0, properties={"team": "sales"}), 40)
ORDERS = Present(
    ObjectKind.TABLE,
    "shop.orders",
    Definition(
        columns=(
            Column("id", ColumnType.INT64, 1),
            Column("price", ColumnType.INT32, 2),
            Column("note", ColumnType.STRING, 3),
        ),
        key="id",
        ttl_ms=86_400_000,
    ),
    42,
)
PRICES = Present(
    ObjectKind.VIEW,
    "shop.prices",
    Definition(columns=(Column("price", ColumnType.INT32, 2),), over="shop.orders"),
    42,
)
ADA = Present(ObjectKind.GRANT, "ada@shop.orders", Definition(privileges=(Privilege.READ, Privilege.WRITE)), 42)
Planned = Callable[..., Plan]
ALL = (SHOP, ORDERS, PRICES, ADA)
SAME = """
databases: {shop: {properties: {team: sales}}}
tables:
  shop.orders:
    columns: {id: INT64, price: INT32, note: STRING}
    key: id
views: {shop.prices: {over: shop.orders, columns: [price]}}
grants: {ada@shop.orders: [WRITE, READ]}
"""


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    def planned(text: str, *present: Present, prune: bool = False) -> Plan:
        file = tmp_path / "schema.yaml"
        file.write_text(text)
        found = plan(read_schema(str(file)).wanted, present, prune=prune)
        if found.statements and not found.problems:
            check_statements(found.statements)
        return found

    return planned


def test_grants_and_views_follow_the_rename_of_their_table(planned: Planned) -> None:
    """One statement: what hangs on the table is not made anew, nor dropped where all else is."""
    renamed = SAME.replace("shop.orders", "shop.sales").replace(
        "    key: id", "    key: id\n    renamed_from: shop.orders"
    )
    found = planned(renamed, *ALL, prune=True)
    assert [(each.verb, each.name, each.new_name) for each in found.statements] == [
        (Verb.RENAME, "shop.orders", "shop.sales")
    ]
    assert (found.problems, found.kept) == ((), ())


def refused(tmp_path: Path, text: str) -> BadInput:
    file = tmp_path / "schema.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_schema(str(file))
    return caught.value


def test_what_is_as_the_file_says_needs_nothing(planned: Planned) -> None:
    """TA5: applying the same again is no change, whatever the order of columns and rights."""
    assert planned(SAME, *ALL) == Plan()
    assert planned(SAME, *ALL, prune=True) == Plan()


def test_what_is_not_there_is_created_and_rests_on_nothing(planned: Planned) -> None:
    found = planned(SAME)
    assert [(each.verb, each.name, each.planned_on) for each in found.statements] == [
        (Verb.CREATE, "shop", ABSENT),
        (Verb.CREATE, "shop.orders", ABSENT),
        (Verb.CREATE, "shop.prices", ABSENT),
        (Verb.CREATE, "ada@shop.orders", ABSENT),
    ]
    assert found.lines[1] == PlanLine("+", "table shop.orders", ("+ id INT64 (key)", "+ price INT32", "+ note STRING"))
    assert not found.loses_data


def test_an_object_is_altered_once_and_rests_on_what_was_seen(planned: Planned) -> None:
    text = """
    tables:
      shop.orders:
        columns: {id: INT64, price: INT64, remark: {type: STRING, renamed_from: note}, day: DATE}
        key: id
        ttl: 2d
        properties: {team: sales}
    """
    found = planned(text, *ALL)
    (statement,) = found.statements
    assert (statement.verb, statement.planned_on, statement.ttl_ms) == (Verb.ALTER, 42, 172_800_000)
    assert [(each.verb, each.name, each.new_name) for each in statement.columns] == [
        (ColumnVerb.RETYPE, "price", ""),
        (ColumnVerb.RENAME, "note", "remark"),
        (ColumnVerb.ADD, "day", ""),
    ]
    assert found.lines == (
        PlanLine(
            "~",
            "table shop.orders",
            (
                "~ price INT32 -> INT64",
                "~ note renamed to remark",
                "+ day DATE",
                "~ ttl 1d -> 2d",
                "+ team = sales",
            ),
        ),
    )


def test_what_the_file_leaves_out_stays_unless_it_is_pruned(planned: Planned) -> None:
    text = """
    databases: {shop: {properties: {}}}
    tables: {shop.orders: {columns: {id: INT64, price: INT32}, key: id}}
    """
    kept = planned(text, *ALL)
    assert kept.statements == ()
    assert kept.kept == (
        "property team of shop",
        "column note of shop.orders",
        "grant ada@shop.orders",
        "view shop.prices",
    )
    pruned = planned(text, *ALL, prune=True)
    assert [(each.verb, each.name, each.planned_on) for each in pruned.statements] == [
        (Verb.DROP, "ada@shop.orders", 42),
        (Verb.DROP, "shop.prices", 42),
        (Verb.ALTER, "shop", 40),
        (Verb.ALTER, "shop.orders", 42),
    ]
    assert pruned.loses_data
    assert pruned.lines[-1] == PlanLine("~", "table shop.orders", ("- note STRING",))


def test_nothing_is_pruned_of_a_database_that_the_file_does_not_name(planned: Planned) -> None:
    text = "tables: {shop.parts: {columns: {id: INT64}, key: id}}"
    found = planned(text, *ALL, prune=True)
    assert [each.verb for each in found.statements] == [Verb.CREATE]


def test_a_table_is_renamed_only_by_saying_from_what(planned: Planned) -> None:
    text = """
    databases: {shop: {}}
    tables:
      shop.sales: {columns: {id: INT64, price: INT32, note: STRING}, key: id, renamed_from: shop.orders}
    """
    found = planned(text, SHOP, ORDERS, prune=True)
    (statement,) = found.statements
    assert (statement.verb, statement.name, statement.new_name, statement.planned_on) == (
        Verb.RENAME,
        "shop.orders",
        "shop.sales",
        42,
    )
    sales = Present(ObjectKind.TABLE, "shop.sales", ORDERS.definition, 50)
    assert planned(text, SHOP, sales, prune=True) == Plan()  # it stays true when it is done
    both = planned(text.replace("price: INT32", "price: INT64"), SHOP, ORDERS)
    assert "two changes" in both.problems[0]
    mistyped = planned(text.replace("from: shop.orders", "from: shop.oders"), SHOP, ORDERS)
    assert not mistyped.statements
    assert "nor is shop.oders" in mistyped.problems[0]


def test_narrowing_a_right_is_shown_as_what_it_takes_away(planned: Planned) -> None:
    found = planned("grants: {ada@shop.orders: READ}", *ALL)
    assert found.lines == (PlanLine("~", "grant ada@shop.orders", ("- WRITE",)),)
    assert found.statements[0].privileges == (Privilege.READ,)
    assert not found.loses_data


def test_a_right_that_is_said_twice_is_given_once(planned: Planned) -> None:
    found = planned("grants: {ada@shop.orders: [READ, READ]}", SHOP, ORDERS)
    assert found.lines == (PlanLine("+", "grant ada@shop.orders", ("+ READ",)),)
    assert found.statements[0].definition == Definition(privileges=(Privilege.READ,))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tables: {shop.prices: {columns: {id: INT64}, key: id}}", "is there, and is a view"),
        ("tables: {shop.orders: {columns: {id: INT64, price: INT32}, key: price}}", "cannot change to price"),
        (
            "tables: {shop.orders: {columns: {id: INT64, cost: {type: INT64, renamed_from: price}}, key: id}}",
            "takes two changes",
        ),
        (
            "tables: {shop.orders: {columns: {id: INT64, cost: {type: INT32, renamed_from: prize}}, key: id}}",
            "shop.orders has no column cost, nor prize, from which it was renamed",
        ),
        (
            """tables: {shop.orders: {key: id, columns: {
                id: INT64, a: {type: INT32, renamed_from: price}, b: {type: INT32, renamed_from: price}}}}""",
            "column price of shop.orders would become a and b",
        ),
        (
            """tables: {shop.orders: {key: id, columns: {
                id: INT64, cost: {type: INT32, renamed_from: price}, price: INT32}}}""",
            "column price of shop.orders would become price and cost",
        ),
    ],
)
def test_what_cannot_be_reached_in_one_change_is_said(text: str, problem: str, planned: Planned) -> None:
    (said,) = planned(text, *ALL).problems
    assert problem in said


def test_a_file_that_takes_more_statements_than_a_change_has_is_told_so(planned: Planned) -> None:
    """OP16: before anything is shown or asked."""
    text = "databases: {" + ", ".join(f"d{each}: {{}}" for each in range(STATEMENTS_MAX + 1)) + "}"
    assert planned(text).problems == ("it takes 1001 statements, a change has at most 1000: apply it in parts",)


def test_what_is_being_dropped_is_not_taken_for_there(planned: Planned) -> None:
    """TA6: who wants it again waits until it is gone."""
    leaving = Present(ORDERS.kind, ORDERS.name, ORDERS.definition, 42, dropped_by=47)
    assert "`topolog wait change/47`" in planned(SAME, SHOP, leaving, PRICES, ADA).problems[0]


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("{}", "wants nothing", "One looks like"),
        ("[]", "holds a list", ""),
        ("table: {}", "it has no key 'table'", "Did you mean 'tables'?"),
        ("tables:\n  shop.orders: {colums: {id: INT64}}", "line 2: table shop.orders has no key 'colums'", "columns"),
        ("tables:\n  shop.orders:\n    columns: {id: INT46}", "line 3: shop.orders: 'INT46' is no type", "INT64?"),
        ("tables:\n  shop.orders:\n    columns: {id: {}}", "line 3: shop.orders: column id has no type", "INT64"),
        ("tables: {shop.orders: {columns: {id: INT64}}}", "needs a key that is one of its columns", ""),
        ("tables: {orders: {columns: {id: INT64}, key: id}}", "'orders' is no name of a table", "shop.orders"),
        ("tables: {shop.a: {columns: {id: INT64, ID: INT64, id: INT32}, key: id}}", "key 'id' stands there twice", ""),
        ("databases: {shop: {ttl: soon}}", "'soon' is no time to live", "forever"),
        ("databases: {shop: {ttl: no}}", "False is no time to live", "forever"),
        ("databases: {shop: {ttl: 0}}", "0 is no time to live", "forever"),
        ("databases: {shop: {ttl: 0d}}", "'0d' is no time to live: for ever is `forever`", "30d"),
        ("databases:\n  shop:\n    ttl: 0.0m", "line 3: shop: '0.0m' is no time to live", "forever"),
        ("databases: {shop: {properties: {size: 3}}}", "property size is a text, and not 3", "quotes"),
        ("databases: {shop: {renamed_from: mall}}", "database shop has no key 'renamed_from'", ""),
        ("grants: {ada@shop: [ALL]}", "'ALL' is no right", "READ, WRITE"),
        ("grants: {ada@shop: []}", "allows nothing", ""),
        ("views: {shop.a: {over: shop.b, columns: {id: INT64}}}", "a list of names", ""),
        (
            "views:\n  shop.a: {over: shop.b, columns: []}",
            "line 2: shop.a: a view without columns",
            "Leave `columns` out",
        ),
        (
            "tables: {shop.a: {columns: {id: INT64}, key: id}}\nviews:\n  shop.a: {over: shop.b}",
            "line 3: shop.a stands there twice",
            "",
        ),
        ("tables: {1: {}}", "a name in tables is a text, and not 1", ""),
    ],
)
def test_a_file_that_cannot_be_meant_so_is_refused_with_the_line(
    text: str, said: str, hint: str, tmp_path: Path
) -> None:
    error = refused(tmp_path, text)
    assert said in error.message
    assert hint in error.hint


def test_durations_and_types_are_read_as_people_write_them(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"databases": {"a": {"ttl": "90m"}, "b": {"ttl": "forever"}, "d": null}}')
    assert [each.definition.ttl_ms for each in read_schema(str(file)).wanted] == [5_400_000, 0, None]
    file.write_text('{"tables": {"a.b": {"columns": {"id": "int64"}, "key": "id"}}}')
    assert read_schema(str(file)).wanted[0].definition.columns == (Column("id", ColumnType.INT64),)


def test_what_a_view_shows_is_replaced_and_shown(planned: Planned) -> None:
    """A file that names no columns leaves those that there are, unless it names another table."""
    found = planned("views: {shop.prices: {over: shop.orders, columns: [id, note]}}", *ALL)
    (statement,), (line,) = found.statements, found.lines
    assert statement.definition is not None
    assert (statement.verb, [each.name for each in statement.definition.columns]) == (Verb.ALTER, ["id", "note"])
    assert (statement.planned_on, found.problems) == (42, ())
    assert line == PlanLine("~", "view shop.prices", ("+ id", "+ note", "- price"))
    assert planned("views: {shop.prices: {over: shop.orders}}", *ALL).statements == ()
    found = planned("views: {shop.prices: {over: shop.parts, properties: {a: b}}}", *ALL)
    details = ("~ over shop.orders -> shop.parts, all columns", "+ a = b")
    assert found.lines == (PlanLine("~", "view shop.prices", details),)
    assert (found.statements[0].properties, found.loses_data) == ({"a": "b"}, False)
