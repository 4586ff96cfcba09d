"""Groups through the API: asked for, decided by the real rules, read back as they are, as they were and why."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.topics import Topic
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
ORDERS: Json = {"kind": "create-group", "name": "orders", "partitions": 64, "backups": 1, "node_filter": {"rack": "r1"}}


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    chronicle.join("n1")
    projector.step()
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client


def post(client: Client, body: Json, **parameters: str) -> Response:
    return client.post(f"{MAIN}/requests", json=body, params=parameters)


def granted(client: Client, body: Json) -> Json:
    answer = post(client, body, wait="accepted")
    assert answer.status_code == 200, answer.text
    item: Json = answer.json()["item"]
    assert (item["status"], item["accepted"]) == ("GRANTED", True)
    return item


def get(client: Client, path: str, expected: int = 200, **parameters: str | int) -> Json:
    answer = client.get(f"{MAIN}{path}", params=parameters)
    assert answer.status_code == expected, answer.text
    body: Json = answer.json()
    return body


def test_a_group_is_asked_for_and_read_back(client: Client) -> None:
    """K7: the outcome's token is that of a read which sees the group; what was left out is as it usually is."""
    outcome = granted(client, ORDERS)
    assert outcome["subject"] == "group orders"
    item = get(client, "/groups/orders", at_least=outcome["token"])["item"]
    assert item == {
        "name": "orders",
        "number": 1,
        "partitions": 64,
        "backups": 1,
        "exclude_neighbours_by": "",
        "node_filter": {"rack": "r1"},
        "backup_filter": "",
        "loss_policy": "READ_WRITE_SAFE",
        "persistent": False,
        "created_at": outcome["position"],
        "altered_at": None,
    }
    assert get(client, "/groups")["items"] == [item]
    cluster = get(client, "/cluster")["item"]
    assert (cluster["groups"], cluster["topology_version"]) == (1, "1.1")
    assert "1 group;" in cluster["sentence"]


def test_the_past_of_a_group_is_kept(client: Client) -> None:
    """RD6: as of a position, by what, and from what to what; a dropped group leaves its history."""
    created = granted(client, ORDERS)
    granted(client, {"kind": "alter-group", "name": "orders", "backups": 2, "reason": "a third rack"})
    granted(client, {"kind": "drop-group", "name": "orders"})
    assert get(client, "/groups")["items"] == []
    assert get(client, "/groups/orders", as_of=created["position"])["item"]["backups"] == 1
    dropped, altered, first = get(client, "/groups/orders/history")["items"]
    assert [each["event"] for each in (dropped, altered, first)] == ["GroupDropped", "GroupAltered", "GroupCreated"]
    assert altered["reason"] == "a third rack"
    assert altered["changes"]["backups"] == [1, 2]
    assert {each["subject"] for each in get(client, "/decisions", subject="group orders")["items"]} == {"group orders"}


def test_groups_are_listed_by_name_and_policy(client: Client) -> None:
    for name, policy in (("b", "IGNORE"), ("a", "READ_ONLY_SAFE"), ("c", "IGNORE")):
        granted(client, {"kind": "create-group", "name": name, "loss_policy": policy})
    assert [each["name"] for each in get(client, "/groups")["items"]] == ["a", "b", "c"]
    assert [each["name"] for each in get(client, "/groups", loss_policy="IGNORE")["items"]] == ["b", "c"]
    first = get(client, "/groups", limit=2)
    assert [each["name"] for each in get(client, "/groups", cursor=first["next"])["items"]] == ["c"]


def test_a_group_that_is_not_there_is_answered_with_the_nearest(client: Client) -> None:
    granted(client, ORDERS)
    assert get(client, "/groups/order", 404)["hint"] == "Did you mean orders?"
    assert get(client, "/groups/order/explain", 404)["hint"] == "Did you mean orders?"
    assert "never a group order" in get(client, "/groups/order/history", 404)["detail"]


def test_the_same_again_is_unchanged_and_another_is_refused(client: Client) -> None:
    """A service declares its group at every start; one that differs learns in what."""
    granted(client, ORDERS)
    assert post(client, ORDERS).json()["item"]["status"] == "UNCHANGED"
    refused = post(client, {**ORDERS, "partitions": 128})
    assert (refused.status_code, refused.json()["code"]) == (409, "GROUP_EXISTS")
    assert refused.json()["facts"] == {"partitions": "64, asked for: 128"}
    fixed = post(client, {"kind": "alter-group", "name": "orders", "persistent": True})
    assert (fixed.status_code, fixed.json()["code"]) == (409, "GROUP_FIXED")
    assert post(client, {"kind": "drop-group", "name": "carts"}).json()["code"] == "GROUP_UNKNOWN"


def test_who_lacks_what_copies_are_kept_apart_by_is_named(client: Client) -> None:
    """EX7: such a node is like no other, so a name that is misspelt would keep nothing apart without a word."""
    granted(client, {**ORDERS, "backup_filter": "rakc"})
    facts = get(client, "/groups/orders/explain")["item"]["facts"]
    assert facts["without rakc"] == "n1: taken to be apart from every other"


def test_why_a_group_is_as_it_is(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """RD20: what it is, who may hold copies now, what was refused, and the chain of decisions."""
    granted(client, {**ORDERS, "backup_filter": "rack", "reason": "the shop opens"})
    post(client, {**ORDERS, "partitions": 128})
    item = get(client, "/groups/orders/explain")["item"]
    assert item["sentence"] == "Group orders exists since position 4: 64 partitions with 1 backup each."
    assert item["facts"]["copies go to"] == "servers with rack r1"
    assert item["facts"]["servers that fit now"] == "n1"
    assert item["facts"]["copies of one partition"] == "never on the same rack"
    assert "without rack" not in item["facts"]
    assert item["facts"]["warning"] == "1 server cannot hold 2 copies"
    assert "GROUP_EXISTS" in item["facts"]["refused at 5"]
    assert item["causes"][0]["reason"] == "the shop opens"
    chronicle.join("n2")
    projector.step()
    assert "warning" not in get(client, "/groups/orders/explain")["item"]["facts"]
    granted(client, {"kind": "drop-group", "name": "orders"})
    assert "was dropped at position" in get(client, "/groups/orders/explain")["item"]["sentence"]


def test_the_page_shows_groups_where_there_are_any(client: Client) -> None:
    """A name is somebody's text, not markup."""
    assert "<h2" in client.get("/").text
    assert "/groups/" not in client.get("/").text
    granted(client, {**ORDERS, "name": "a<b"})
    page = client.get("/").text
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert "created" in page
    group = client.get("/clusters/main/groups/a%3Cb").text
    assert "a&lt;b" in group
    assert "a<b" not in group
    assert "rack" in group
    assert client.get(f"{MAIN}/groups/a%3Cb/explain").status_code == 200


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"kind": "create-group"}, "body"),
        ({"kind": "create-group", "name": ""}, "group"),
        ({"kind": "create-group", "name": "a/b"}, "group"),
        ({"kind": "create-group", "name": "g", "partitions": 0}, "group"),
        ({"kind": "create-group", "name": "g", "partitions": 10**30}, "group"),
        ({"kind": "create-group", "name": "g", "partitions": "64"}, "partitions"),
        ({"kind": "create-group", "name": "g", "backups": -1}, "group"),
        ({"kind": "create-group", "name": "g", "loss_policy": "UNKNOWN"}, "loss_policy"),
        ({"kind": "create-group", "name": "g", "node_filter": ["zone"]}, "node_filter"),
        ({"kind": "create-group", "name": "g", "node_filter": {"": "eu"}}, "group"),
        ({"kind": "create-group", "name": "g", "backup_filter": "rack", "exclude_neighbours_by": "host"}, "group"),
        ({"kind": "create-group", "name": "g", "loss_policy": "IGNORE", "persistent": True}, "group"),
        ({"kind": "create-group", "name": "g", "partition": 64}, "body"),
        ({"kind": "alter-group", "name": "g", "partitions": 10**30}, "group"),
        ({"kind": "alter-group", "name": "g", "backups": -1}, "group"),
        ({"kind": "alter-group", "name": "a/b"}, "group"),
        ({"kind": "drop-group", "name": " "}, "name"),
    ],
)
def test_what_cannot_be_a_group_is_refused_here_and_never_sent(
    client: Client, chronicle: Chronicle, body: Json, parameter: str
) -> None:
    """K7: 400 with the member that is wrong and what to do."""
    answer = post(client, body)
    assert (answer.status_code, len(chronicle.log.entries(Topic.OPERATIONS))) == (400, 0), answer.text
    assert [invalid["name"] for invalid in answer.json()["invalid_params"]] == [parameter]
    assert answer.json()["hint"]
