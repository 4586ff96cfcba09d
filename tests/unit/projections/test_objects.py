"""Databases, tables, views, grants and their changes through the API: asked for, decided by the rules, read back."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import START_MS, Chronicle
from tests.unit.projections.serving import served

from topolog.projections.moments import iso
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
SHOP: Json = {"verb": "CREATE", "kind": "DATABASE", "name": "shop", "definition": {"ttl_ms": 86_400_000}}
ORDERS: Json = {
    "verb": "CREATE",
    "kind": "TABLE",
    "name": "shop.orders",
    "definition": {"columns": [{"name": "id", "type": "INT64"}, {"name": "price", "type": "INT32"}], "key": "id"},
}
PRICES: Json = {
    "verb": "CREATE",
    "kind": "VIEW",
    "name": "shop.prices",
    "definition": {"over": "shop.orders", "columns": ["price"]},
}
ADA: Json = {
    "verb": "CREATE",
    "kind": "GRANT",
    "name": "ada@shop.orders",
    "definition": {"privileges": ["READ", "WRITE"]},
}
NOTE: Json = {
    "verb": "ALTER",
    "kind": "TABLE",
    "name": "shop.orders",
    "columns": [{"verb": "ADD", "name": "note", "type": "STRING"}],
}
DROP: Json = {"verb": "DROP", "kind": "TABLE", "name": "shop.orders"}
UNGRANT: Json = {"verb": "DROP", "kind": "GRANT", "name": "ada@shop.orders"}


class Shop:
    """An API over a cluster of three servers, whose answers to changes a test gives."""

    def __init__(self, client: Client, writer: AnsweringWriter, chronicle: Chronicle, projector: Projector) -> None:
        self.client, self.writer, self.chronicle, self.projector = client, writer, chronicle, projector

    def post(self, *statements: Json, **rest: Any) -> Response:
        return self.client.post(f"{MAIN}/requests", json={"kind": "schema-change", "statements": statements, **rest})

    def make(self, *statements: Json) -> int:
        """Change, and every server applies it; the number of the change."""
        self.writer.accepts = True
        answer = self.post(*statements)
        self.writer.accepts = False
        assert answer.status_code == 200, answer.text
        return int(answer.json()["item"]["subject"].removeprefix("change "))

    def begin(self, *statements: Json, **rest: Any) -> int:
        """Change, and no server has applied it yet; the number of the change."""
        answer = self.post(*statements, **rest)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["item"]["subject"].removeprefix("change "))

    def settle(self, *applied: str, **rest: Any) -> None:
        self.chronicle.settle_changes(*applied, **rest)
        self.projector.step()

    def cancel(self, number: int) -> Response:
        return self.client.post(f"{MAIN}/requests", json={"kind": "cancel-change", "change": number})

    def get(self, path: str, expected: int = 200, **parameters: str | int) -> Json:
        answer = self.client.get(f"{MAIN}{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body

    def item(self, path: str, **parameters: Any) -> Json:
        item: Json = self.get(path, **parameters)["item"]
        return item

    def names(self, path: str, **parameters: Any) -> list[Any]:
        return [each.get("name") or each["number"] for each in self.get(path, **parameters)["items"]]


@pytest.fixture
def shop(chronicle: Chronicle, projector: Projector) -> Iterator[Shop]:
    for node in ("n1", "n2", "n3"):
        chronicle.join(node)
    projector.step()
    writer = AnsweringWriter(chronicle, projector)
    writer.accepts = False
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield Shop(client, writer, chronicle, projector)


def test_a_change_of_several_objects_is_asked_for_and_read_back(shop: Shop) -> None:
    """TA2: one change, all of it or nothing; what is left out is the database's; columns have numbers."""
    number = shop.make(SHOP, ORDERS, PRICES, ADA)
    assert shop.item("/tables/shop.orders") == {
        "name": "shop.orders",
        "kind": "TABLE",
        "state": "USING",
        "incarnation": 2,
        "version": 1,
        "definition": {
            "columns": [
                {"name": "id", "type": "INT64", "number": 1},
                {"name": "price", "type": "INT32", "number": 2},
            ],
            "key": "id",
            "ttl_ms": 86_400_000,
            "properties": {},
            "over": "",
            "privileges": [],
        },
        "committed_at": number + 1,
        "pending": None,
        "pending_version": None,
        "change": None,
        "queue": [],
        "actions": ["alter", "rename", "drop"],
    }
    assert shop.item("/table-views/shop.prices")["definition"]["over"] == "shop.orders"
    assert shop.names("/databases") == ["shop"]
    assert shop.names("/grants", principal="ada", database="shop") == ["ada@shop.orders"]
    assert shop.names("/grants", principal="bob") == []
    change = shop.item(f"/changes/{number}")
    assert (change["state"], change["age_ms"]) == ("COMMITTED", 1_000)
    assert change["does"] == "create database shop, create table shop.orders, create view shop.prices and 1 more"
    assert [step["name"] for step in change["steps"]] == ["shop", "shop.orders", "shop.prices", "ada@shop.orders"]
    assert change["evidence"]["applied"] == ["n1", "n2", "n3"]
    assert "1 table;" in shop.item("/cluster")["sentence"]


def test_what_is_being_created_is_hidden_and_what_is_being_dropped_is_shown(shop: Shop) -> None:
    """TA24: a half-made table is in no list, a half-deleted one is, with the change that owns it and what can be
    done."""
    shop.make(SHOP)
    number = shop.begin(ORDERS)
    assert shop.names("/tables") == []
    assert shop.names("/tables", state="PRE_CREATE") == ["shop.orders"]
    assert shop.item("/tables/shop.orders")["actions"] == [f"wait change/{number}", f"cancel change/{number}"]
    shop.settle("n1", "n2", "n3")
    dropping = shop.begin(DROP)
    (shown,) = shop.get("/tables")["items"]
    assert (shown["state"], shown["change"]) == ("PRE_DELETE", dropping)
    assert shown["actions"] == [f"wait change/{dropping}", f"cancel change/{dropping}"]
    assert "is being dropped" in shop.item("/tables/shop.orders/explain")["sentence"]
    shop.settle("n1", "n2", "n3")
    assert "is no more since position" in shop.item("/tables/shop.orders/explain")["sentence"]
    assert shop.names("/tables", as_of=dropping - 1) == ["shop.orders"]


def test_who_is_silent_is_named_and_until_when_it_is_waited_for(shop: Shop) -> None:
    """TA17: «waiting 14 s for n3, last heard 15 s ago, proceeds at the latest in 11 s»."""
    shop.make(SHOP, ORDERS)
    number = shop.begin(NOTE)
    for _ in range(3):
        shop.chronicle.now_ms += 4_000
        shop.chronicle.renew("n1", "n2")
    shop.projector.step()
    item = shop.item(f"/changes/{number}/explain")
    waits = f"Change {number} (alter table shop.orders) waits 16 s for n3, last heard 18 s ago"
    assert item["sentence"] == f"{waits}, proceeds in 9 s at the latest."
    assert item["facts"]["alter table shop.orders"] == "+ note STRING"
    assert "not since the change was prepared" in item["facts"]["n3 was last heard"]
    assert [each["node"] for each in item["waiting_for"]] == ["n1", "n2", "n3"]
    shown = shop.item(f"/changes/{number}")
    assert (shown["asked"], shown["silent"], shown["at_most_ms"]) == (["n1", "n2", "n3"], ["n3"], 9_000)
    assert shop.item("/cluster")["open_changes"] == 1
    assert f"change {number} is open" in shop.item("/cluster")["sentence"]


def test_a_change_in_line_names_what_is_before_it(shop: Shop) -> None:
    """TA12: changes of one object come one at a time, changes of others side by side."""
    shop.make(SHOP, ORDERS)
    first, second = shop.begin(NOTE), shop.begin(DROP)
    change = shop.item(f"/changes/{second}")
    assert (change["state"], change["behind"], change["at_most_ms"]) == ("QUEUED", [first], None)
    item = shop.item(f"/changes/{second}/explain")
    assert item["sentence"].endswith(f"behind change {first}.")
    assert item["facts"]["waits for shop.orders"] == f"which change {first} (alter table shop.orders) has"
    assert shop.item(f"/changes/{first}/explain")["facts"]["waits behind it"] == f"change {second}"
    assert shop.item("/tables/shop.orders")["queue"] == [second]
    assert shop.names("/changes", state="QUEUED") == [second]
    past = shop.get("/changes", as_of=second)["items"]
    assert [(each["number"], each["behind"]) for each in past[:2]] == [(second, [first]), (first, [])]


def test_a_revocation_says_when_it_is_in_force_everywhere(shop: Shop) -> None:
    """TA26: who is cut off has no valid lease any more at a time that is known when the revocation is prepared."""
    shop.make(SHOP, ORDERS, ADA)
    prepared_ms = shop.chronicle.now_ms
    number = shop.begin(UNGRANT)
    latest = iso(prepared_ms + 25_000)
    assert shop.item(f"/changes/{number}")["in_force_by"] == latest
    facts = shop.item(f"/changes/{number}/explain")["facts"]
    assert facts["takes away"] == "ada@shop.orders"
    assert latest in facts["in force everywhere"]
    shop.chronicle.now_ms += 3_000
    closed_ms = shop.chronicle.now_ms
    shop.settle("n1", "n2", "n3")
    assert shop.item(f"/changes/{number}")["in_force_by"] == iso(closed_ms)
    assert iso(closed_ms) in shop.item(f"/changes/{number}/explain")["facts"]["in force on servers since"]
    assert iso(START_MS) not in str(facts)


def test_what_widens_a_right_promises_nothing_about_revocation(shop: Shop) -> None:
    shop.make(SHOP, ORDERS, {**ADA, "definition": {"privileges": ["READ"]}})
    wider = {"verb": "ALTER", "kind": "GRANT", "name": "ada@shop.orders", "privileges": ["READ", "WRITE"]}
    assert shop.item(f"/changes/{shop.make(wider)}")["in_force_by"] is None
    narrower = {**wider, "privileges": ["READ"]}
    assert shop.item(f"/changes/{shop.make(narrower)}")["in_force_by"] is not None


def test_a_change_is_given_up_and_everything_is_as_before(shop: Shop) -> None:
    """TA21, TA22: cancelled while it is prepared or queued; once committed it is refused."""
    shop.make(SHOP, ORDERS)
    first, second = shop.begin(NOTE), shop.begin(DROP)
    assert shop.cancel(second).json()["item"]["accepted"] is True
    assert shop.cancel(first).json()["item"]["accepted"] is True
    assert shop.item("/tables/shop.orders")["state"] == "USING"
    item = shop.item(f"/changes/{second}/explain")
    assert "(drop table shop.orders) was rolled back" in item["sentence"]
    assert item["facts"]["effect"] == "none: everything is as it was before"
    done = shop.make(NOTE)
    late = shop.cancel(done)
    assert (late.status_code, late.json()["code"]) == (409, "CHANGE_COMMITTED")
    assert shop.cancel(first).json()["item"]["status"] == "UNCHANGED"


def test_a_change_says_why_it_was_rolled_back(shop: Shop) -> None:
    """TA20: its own deadline; the outcome of the request stands, and says that what it granted does not hold."""
    shop.make(SHOP, ORDERS)
    number = shop.begin(NOTE, deadline_ms=3_000)
    assert "is given up" in shop.item(f"/changes/{number}/explain")["facts"]
    shop.settle(late=[f"change/{number}/deadline"])
    shown = shop.item(f"/changes/{number}")
    assert (shown["state"], shown["code"], shown["rule"]) == ("ROLLED_BACK", "DEADLINE", "TA20")
    request = shop.get("/requests")["items"][0]
    assert request["subject"] == f"change {number}"
    events = [each["event"] for each in shop.get(f"/changes/{number}/history")["items"]]
    assert events == ["SchemaChangeRolledBack", "SchemaChangePrepared"]


def test_the_history_of_a_table_tells_what_changed_in_it(shop: Shop) -> None:
    shop.make(SHOP, ORDERS)
    shop.make(NOTE)
    committed, prepared, *_ = shop.get("/tables/shop.orders/history")["items"]
    assert prepared["changes"]["pending.columns.note"] == [None, "STRING"]
    assert committed["changes"]["columns.note"] == [None, "STRING"]
    assert committed["changes"]["status"] == ["PRE_ALTER", "USING"]


def test_who_has_not_deleted_yet_is_named(shop: Shop) -> None:
    """TA31, TA32: the name is free at the commit, the data goes later, and that is never out of sight."""
    shop.make(SHOP, ORDERS)
    number = shop.make(DROP)
    shown = shop.item(f"/changes/{number}")
    assert shown["undeleted"] == ["n1", "n2", "n3"]
    assert shop.names("/changes", node="n2") == [number]
    assert "not deleted yet" in shop.item(f"/changes/{number}/explain")["facts"]
    assert shop.item("/cluster")["undeleted"] == 1
    metrics = shop.client.get("/metrics").text
    assert 'topolog_projection_undeleted_changes{cluster="main"} 1.0' in metrics
    assert 'topolog_projection_open_changes{cluster="main"} 0.0' in metrics


@pytest.mark.parametrize(
    ("statement", "at"),
    [
        ({**SHOP, "verb": "MAKE"}, "statements[0].verb"),
        ({**SHOP, "colour": "red"}, "statements[0]"),
        ({**ORDERS, "definition": {"columns": ["id"], "key": "id"}}, "statements[0].definition.columns"),
        ({**PRICES, "definition": {"columns": [{"name": "id", "type": "INT64"}]}}, "statements[0].definition.columns"),
        ({**ADA, "definition": {"privileges": ["ALL"]}}, "statements[0].definition.privileges[0]"),
        ({**DROP, "planned_on": -2}, "statements[0].planned_on"),
    ],
)
def test_what_is_malformed_is_never_sent(statement: Json, at: str, shop: Shop) -> None:
    before = shop.chronicle.position
    answer = shop.post(statement)
    assert answer.status_code == 400, answer.text
    assert answer.json()["invalid_params"][0]["name"] == at
    assert shop.chronicle.position == before


def test_a_plan_that_has_become_old_is_refused(shop: Shop) -> None:
    shop.make(SHOP, ORDERS)
    seen = shop.item("/tables/shop.orders")["committed_at"]
    shop.make(NOTE)
    refused = shop.post({**DROP, "planned_on": seen})
    assert (refused.status_code, refused.json()["code"]) == (409, "PLAN_IS_OLD")


@pytest.mark.parametrize(
    ("count", "name", "status", "hint"),
    [
        (0, "shop", 400, "A change has 1 to 1000 statements"),
        (1_001, "shop", 400, "A change has 1 to 1000 statements"),
        (1, "s" * 850_000, 413, "a schema change in several"),
    ],
)
def test_a_change_beyond_a_limit_is_told_the_limit_and_not_sent(
    shop: Shop, count: int, name: str, status: int, hint: str
) -> None:
    """OP7: in words about changes, whatever else the API takes."""
    answer = shop.post(*[{"verb": "DROP", "kind": "DATABASE", "name": name}] * count)
    assert answer.status_code == status
    assert hint in answer.json()["hint"]


def test_what_a_change_would_lead_to_is_told_and_not_sent(shop: Shop) -> None:
    """RD21: what goes with it, what is lost, behind whom it would wait; a refusal is the same as if sent."""
    shop.make(SHOP, ORDERS, PRICES, ADA)

    def imagined(*statements: Json, expected: int = 200) -> Json:
        body = {"kind": "schema-change", "statements": statements}
        answer = shop.client.post(f"{MAIN}/requests", json=body, params={"dry_run": "true"})
        assert answer.status_code == expected, answer.text
        found: Json = answer.json()
        return found

    before = shop.chronicle.position
    item = imagined({"verb": "DROP", "kind": "DATABASE", "name": "shop"})["item"]
    assert item["steps"] == [
        "drop grant ada@shop.orders",
        "drop view shop.prices",
        "drop table shop.orders",
        "drop database shop",
    ]
    assert item["warnings"] == ["all data of shop.orders is deleted"]
    assert imagined(DROP, expected=409)["code"] == "IN_USE"
    assert imagined({**SHOP, "if_needed": True})["item"]["status"] == "UNCHANGED"
    assert shop.chronicle.position == before
    first = shop.begin(NOTE)
    assert f"wait behind change {first} (which has shop.orders)" in imagined(UNGRANT)["item"]["sentence"]


def test_the_page_lists_who_a_change_waits_for(shop: Shop) -> None:
    shop.make(SHOP, ORDERS)
    number = shop.begin(NOTE)
    shop.chronicle.now_ms += 12_000
    shop.chronicle.renew("n1", "n2")
    shop.projector.step()
    page = shop.client.get("/clusters/main/changes").text
    assert "alter table shop.orders" in page
    assert "n3, not heard since" in page
    assert f"/clusters/main/changes/{number}" in page


def test_what_is_not_there_is_answered_with_the_nearest(shop: Shop) -> None:
    shop.make(SHOP, ORDERS, PRICES)
    assert shop.get("/tables/shop.order", 404)["hint"] == "Did you mean shop.orders?"
    assert shop.get("/tables/shop.prices", 404)["hint"] == "`topolog get table-view shop.prices`"
    assert shop.get("/changes/999", 404)["hint"].endswith("`topolog get changes`.")
    assert shop.get("/changes/x", 400)["detail"] == "'x' is no number of a change."


def test_what_was_dropped_is_told_from_what_never_was(shop: Shop) -> None:
    """RD11: its history knows more than that it is not there."""
    shop.make(SHOP, ORDERS, PRICES)
    shop.make({"verb": "DROP", "kind": "VIEW", "name": "shop.prices"}, DROP)
    for path, resource in (("tables/shop.orders", "table"), ("table-views/shop.prices", "table-view")):
        hint = shop.get(f"/{path}", 404)["hint"]
        name = path.partition("/")[2]
        assert hint == f"There was one: `topolog history {resource} {name}` tells what became of it."
        assert shop.get(f"/{path}/history")["items"]
    assert "hint" not in shop.get("/tables/shop.parts", 404)
