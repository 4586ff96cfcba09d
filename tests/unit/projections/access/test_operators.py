"""What somebody with all the rights of an operator, and without `administer`, tries all the same."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from httpx import Client, Response
from tests.unit.projections.access.door import Door
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.groups import GroupRow
from topolog.events.objects import ObjectRow
from topolog.events.topics import Topic
from topolog.projections.api.access.authz import check_reason
from topolog.projections.api.access.principals import Denied
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
REQUESTS = f"{MAIN}/requests"
DATABASE = {"verb": "CREATE", "kind": "DATABASE", "name": "shop", "definition": {"ttl_ms": 0}}


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    (tmp_path / "door").mkdir()
    made = Door(tmp_path / "door")
    yield made
    made.access.close()


@pytest.fixture
def writer(chronicle: Chronicle, projector: Projector) -> AnsweringWriter:
    chronicle.join("n1")
    projector.step()
    return AnsweringWriter(chronicle, projector)


class Asking:
    """Requests of somebody; of those that are asked `in_flight` the outcome is awaited by nobody."""

    def __init__(self, client: Client, door: Door, writer: AnsweringWriter, chronicle: Chronicle) -> None:
        self._client, self._door, self._writer, self._chronicle = client, door, writer, chronicle

    def ask(self, who: str, body: Json, *, key: str = "", **params: str) -> Response:
        headers = {**self._door.of(who), **({"Idempotency-Key": key} if key else {})}
        return self._client.post(REQUESTS, json=body, headers=headers, params=params)

    def done(self, who: str, body: Json) -> None:
        answer = self.ask(who, {"reason": "it has to be", **body})
        assert answer.status_code == 200, answer.text

    def in_flight(self, *asked: tuple[str, Json]) -> list[int]:
        """All are sent before the coordinator decides the first of them."""
        before = len(self._chronicle.log.entries(Topic.OPERATIONS))
        self._writer.mute = True
        statuses = [self.ask(who, {"reason": "x", **body}, wait="none").status_code for who, body in asked]
        self._writer.mute = False
        for entry in self._chronicle.log.entries(Topic.OPERATIONS)[before:]:
            self._writer.decide(entry.value)
        self._writer.accept_all()
        return statuses


@pytest.fixture
def desk(projector: Projector, writer: AnsweringWriter, door: Door, chronicle: Chronicle) -> Iterator[Asking]:
    with served(projector, Requester(writer, "api-1", "broker:9092"), door.access) as client:
        yield Asking(client, door, writer, chronicle)


def schema(*statements: Json) -> Json:
    return {"kind": "schema-change", "statements": list(statements)}


def table(name: str, ttl_ms: int) -> Json:
    definition = {"columns": [{"name": "id", "type": "INT64"}], "key": "id", "ttl_ms": ttl_ms}
    return {"verb": "CREATE", "kind": "TABLE", "name": name, "definition": definition}


def ttl(name: str, ttl_ms: int) -> Json:
    return schema({"verb": "ALTER", "kind": "TABLE", "name": name, "ttl_ms": ttl_ms})


def rename(name: str, new_name: str) -> Json:
    return schema({"verb": "RENAME", "kind": "TABLE", "name": name, "new_name": new_name})


# What stands when it is decided, and not when the door looked.


@pytest.mark.parametrize("in_line", [False, True], ids=["each is decided at once", "each waits for the one before"])
def test_a_table_that_takes_anothers_name_before_it_is_decided_keeps_its_rows(
    desk: Asking, writer: AnsweringWriter, chronicle: Chronicle, in_line: bool
) -> None:
    """OP11: the door saw the operator's own table under the name, the coordinator another one."""
    desk.done("admin", schema(DATABASE, table("shop.orders", 0)))
    desk.done("operator", schema(table("shop.decoy", 1)))
    orders = chronicle.fold.state.get(ObjectRow, "shop.orders")
    writer.accepts = not in_line
    sent = desk.in_flight(
        ("operator", rename("shop.decoy", "shop.x")),
        ("operator", rename("shop.orders", "shop.decoy")),
        ("operator", ttl("shop.decoy", 1)),
        ("operator", rename("shop.decoy", "shop.orders")),
    )
    assert sent == [202] * 4
    found = chronicle.fold.state.get(ObjectRow, "shop.orders")
    assert orders is not None
    assert found is not None
    assert found.definition is not None
    assert (found.incarnation, found.definition.ttl_ms) == (orders.incarnation, 0)


@pytest.mark.parametrize(("who", "ends_at"), [("operator", 3), ("admin", 2)])
def test_a_group_that_got_more_copies_before_it_is_decided_keeps_them(
    desk: Asking, chronicle: Chronicle, who: str, ends_at: int
) -> None:
    """What was more when the door looked is fewer by now; who may give up copies is obeyed."""
    desk.done("admin", {"kind": "create-group", "name": "orders", "partitions": 4, "backups": 1})
    alter = {"kind": "alter-group", "name": "orders"}
    assert desk.in_flight(("admin", {**alter, "backups": 3}), (who, {**alter, "backups": 2})) == [202, 202]
    found = chronicle.fold.state.get(GroupRow, "orders")
    assert found is not None
    assert found.backups == ends_at


def test_a_repeat_of_what_an_operator_has_altered_gets_its_outcome(desk: Asking) -> None:
    """K7: what is sent does not change with what stands, so that it is the same request when it comes again."""
    desk.done("admin", schema(DATABASE, table("shop.t", 1_000)))
    longer = ttl("shop.t", 2_000)
    first, again = (desk.ask("operator", longer, key="operator/1") for _ in range(2))
    assert (first.status_code, again.json()["item"]["position"]) == (200, first.json()["item"]["position"])


def test_a_reader_that_hears_of_no_end_of_the_log_does_not_judge_losses(
    chronicle: Chronicle, door: Door, tmp_path: Path
) -> None:
    """OP11: one that had been at the end once judged by what had stood an hour ago."""
    now = [0.0]
    chronicle.join("n1")
    projector = Projector(chronicle.log.reader(), tmp_path / "late", "main", now_s=lambda: now[0])
    projector.step()
    writer = AnsweringWriter(chronicle, projector)
    with served(projector, Requester(writer, "api-1", "broker:9092"), door.access) as client:
        desk = Asking(client, door, writer, chronicle)
        desk.done("admin", {"kind": "create-group", "name": "orders", "partitions": 4, "backups": 1})
        more = {"kind": "alter-group", "name": "orders", "backups": 2}
        writer.mute = True
        asked = []
        for now[0] in (9.0, 11.0):
            asked.append(desk.ask("operator", more, wait="none").status_code)
        assert asked == [202, 403]
    projector.close()


# What is told of what one may not read.


def test_what_stands_under_another_name_with_the_same_id_is_told_to_whoever_may_read_that(
    desk: Asking, tmp_path: Path, projector: Projector, writer: AnsweringWriter
) -> None:
    """OP1: a name with the id of somebody else's type told all of its definition."""
    known = {"kind": "propose", "definition": {"name": "Gas", "fields": {"secret": "long"}}}
    squatting = {"kind": "propose", "definition": {"name": "Gc5", "fields": {}}}
    desk.done("admin", known)
    keeper = Doorkeeper(tmp_path)
    narrow, wide = keeper.let_in("narrow", "operator@main:types/Gc5"), keeper.let_in("wide", "operator@main:types/G*")
    with served(projector, Requester(writer, "api-2", "broker:9092"), keeper.access) as client:
        for params in ({"dry_run": "true"}, {}):
            told = [client.post(REQUESTS, json=squatting, params=params, headers=each) for each in (narrow, wide)]
            assert [each.status_code for each in told] == [409, 409]
            assert not {"current", "Gas", "secret"} & set(re.findall(r"\w+", told[0].text))
            assert told[1].json()["current"]["name"] == "Gas"


# What ends with something else.


def test_a_view_that_got_a_grant_before_it_is_decided_is_not_dropped(desk: Asking, chronicle: Chronicle) -> None:
    """What somebody was given ends by who may take it."""
    view = {"verb": "CREATE", "kind": "VIEW", "name": "shop.v", "definition": {"over": "shop.t"}}
    grant = {"verb": "CREATE", "kind": "GRANT", "name": "ada@shop.v", "definition": {"privileges": ["READ"]}}
    drop = schema({"verb": "DROP", "kind": "VIEW", "name": "shop.v"})
    desk.done("admin", schema(DATABASE, table("shop.t", 0), view))
    assert desk.in_flight(("admin", schema(grant)), ("operator", drop)) == [202, 202]
    assert chronicle.fold.state.get(ObjectRow, "ada@shop.v") is not None
    assert desk.ask("operator", {**drop, "reason": "x"}).status_code == 403
    assert desk.ask("admin", drop).json()["code"] == "reason_required"
    desk.done("admin", drop)


# What is said.


@pytest.mark.parametrize(
    ("reason", "is_one"),
    [
        *(
            (each, False)
            for each in ("", " \t", "...", "--", "\u200b", "\u2060", "\ufeff", "\u3164", "\0", "\u00a0", "🙂")
        ),
        *((each, True) for each in ("x", "7", "ε", "理由", "\u200bwhy", "#12")),
    ],
)
def test_a_reason_has_a_letter_or_a_digit_that_can_be_seen(reason: str, is_one: bool) -> None:
    """Who reads the log a year later must not find a dropped group without a word."""
    with nullcontext() if is_one else pytest.raises(Denied, match="takes a reason"):
        check_reason("drop-group groups/orders", reason)


NAMED = "x" * 400_000


@pytest.mark.parametrize(
    ("who", "body"),
    [
        ("viewer", {"kind": "drop-group", "name": "x", "reason": NAMED}),
        ("operator", {"kind": "alter-group", "name": NAMED, "backups": 0}),
        ("operator", schema({"verb": "DROP", "kind": "TABLE", "name": NAMED})),
        ("operator", schema(*({"verb": "DROP", "kind": "TABLE", "name": f"shop.t{each}"} for each in range(1_000)))),
        ("admin", schema({"verb": "DROP", "kind": "TABLE", "name": NAMED})),
        (
            "admin",
            schema({"verb": "ALTER", "kind": "TABLE", "name": "t", "columns": [{"verb": "DROP", "name": NAMED}]}),
        ),
    ],
)
def test_what_is_denied_is_not_repeated_at_length(desk: Asking, who: str, body: Json) -> None:
    """A 403 had the name three times; what is told of a request is as short as in any other refusal."""
    answer = desk.ask(who, body)
    assert answer.status_code in (400, 403, 404)
    assert len(answer.content) < 12_000
