"""The query API's reads: envelope, lists, pages, the past, waiting, errors."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.test_projector import eventful

from topolog.events.ids import Incarnation, NodeId
from topolog.events.leases import LeaveReason
from topolog.events.membership import LeaseStopped
from topolog.events.object_types import type_id
from topolog.projections.cursors import Cursor
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    """An API over an eventful cluster that has been read to its end."""
    eventful(chronicle)
    projector.step()
    with served(projector, requester(chronicle)) as client:
        yield client


def requester(chronicle: Chronicle) -> Requester:
    return Requester(chronicle.log.writer(), "api-1", "broker:9092")


def get(client: Client, path: str, expected: int = 200, **parameters: str | int) -> Json:
    answer = client.get(f"{MAIN}{path}", params=parameters)
    assert answer.status_code == expected, answer.text
    body: Json = answer.json()
    return body


def names(body: Json, field: str = "name") -> list[Any]:
    return [item[field] for item in body["items"]]


def test_metrics_of_a_store_that_has_read_nothing_damage_nothing(tmp_path: Path) -> None:
    """A scrape comes as soon as the process answers; what is not there yet was taken for a damaged store."""
    chronicle = Chronicle()
    with (
        closing(Projector(chronicle.log.reader(), tmp_path, "main")) as empty,
        served(empty, requester(chronicle)) as api,
    ):
        assert 'topolog_projection_position{cluster="main"} -1.0' in api.get("/metrics").text
        chronicle.start()
        empty.step()
        empty.step()
        assert empty.stopped is None
        assert 'topolog_projection_damaged{cluster="main"} 0.0' in api.get("/metrics").text


def test_every_answer_says_what_it_reflects(client: Client, chronicle: Chronicle) -> None:
    """RD3: every answer names the position it reflects and how old it is, in body and headers."""
    answer = client.get(f"{MAIN}/cluster")
    body = answer.json()
    assert (body["kind"], body["apiVersion"]) == ("Cluster", "topolog/v1")
    token = f"{LOG_ID.hex()}.{chronicle.position}"
    assert body["asOf"] == {
        "position": chronicle.position,
        "time": body["asOf"]["time"],
        "token": token,
        "age_ms": 0,
        "stopped": None,
    }
    assert body["asOf"]["time"].endswith("Z")
    assert (answer.headers["X-Topolog-Token"], answer.headers["X-Topolog-Age-Ms"]) == (token, "0")
    assert body["item"]["state_hash"] == chronicle.fold.state.hash().hex()


def test_the_cluster_in_one_sentence(client: Client) -> None:
    """OP20: the overview says in one sentence what is going on."""
    sentence = get(client, "/cluster")["item"]["sentence"]
    rest = "3 members, all leases valid; 1 type, pending: Order; coordinator c2 leads term 2."
    assert sentence == f"Waiting: proposal/Order/1 (5 s). {rest}"


def test_the_list_of_clusters(client: Client) -> None:
    assert client.get("/v1/clusters").json()["items"] == [{"name": "main", "log_id": LOG_ID.hex()}]


def test_nodes_come_in_the_order_they_joined(client: Client) -> None:
    body = get(client, "/nodes")
    assert body["kind"] == "NodeList"
    assert names(body, "node") == ["n1", "n2", "n3", "watcher"]
    assert [item["standing"] for item in body["items"]] == ["MEMBER", "LEFT", "MEMBER", "MEMBER"]
    assert body["items"][0]["lease"]["state"] == "VALID"
    assert body["items"][3]["lease"] is None, "clients hold no lease"


def test_filters_narrow_a_list(client: Client) -> None:
    assert names(get(client, "/nodes", standing="LEFT"), "node") == ["n2"]
    assert names(get(client, "/nodes", kind="CLIENT"), "node") == ["watcher"]
    assert names(get(client, "/types", status="PENDING")) == ["Order"]
    assert names(get(client, "/types", status="ACCEPTED")) == []
    assert {item["subject"] for item in get(client, "/decisions", subject="type Order")["items"]} == {"type Order"}
    assert {item["event"] for item in get(client, "/decisions", event="LeasesRenewed")["items"]} == {"LeasesRenewed"}


def test_leases_join_holder_and_renewal(client: Client, chronicle: Chronicle) -> None:
    lease = get(client, "/leases/n3")["item"]
    assert (lease["node"], lease["sequence"], lease["renewed_at"]) == ("n3", 2, chronicle.position)
    assert names(get(client, "/leases"), "node") == ["n1", "n3"]


def test_leases_of_the_past_omit_the_renewal(client: Client, chronicle: Chronicle) -> None:
    """RD6: leases as of the past omit the last renewal."""
    lease = get(client, "/leases/n2", as_of=6)["item"]
    assert lease["incarnation"] == 1
    assert [lease[field] for field in ("sequence", "renewed_at", "renewed_time", "age_ms", "state")] == [None] * 5


def test_a_lease_is_overdue_when_it_was_not_renewed_for_fence_ms(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    chronicle.now_ms += 20_000
    chronicle.renew("n1")
    projector.step()
    assert [item["state"] for item in get(client, "/leases")["items"]] == ["VALID", "OVERDUE"]
    assert "no valid lease: n3" in get(client, "/cluster")["item"]["sentence"]


def test_types_show_what_is_accepted_and_what_is_pending(client: Client, chronicle: Chronicle) -> None:
    order = get(client, "/types/Order")["item"]
    assert (order["accepted_version"], order["pending_version"], order["fields"]) == (0, 1, {})
    assert order["pending"]["fields"] == {"id": "long"}
    assert [waiting["version"] for waiting in order["waiting"]] == [1]
    assert get(client, f"/types/{type_id('Order')}")["item"] == order


def test_the_past_is_answered_as_it_was(client: Client, chronicle: Chronicle) -> None:
    """`as_of` takes a position, a time in several forms, or how long ago."""
    first = next(item for item in get(client, "/decisions")["items"] if item["event"] == "MetadataUpdateAccepted")
    before = get(client, "/decisions", subject="type Customer")["items"][-2]
    for moment in (before["position"], before["time"], "9s"):
        assert names(get(client, "/types", as_of=moment)) == ["Customer"], moment
    assert get(client, "/types", as_of=1)["items"] == []
    assert get(client, "/cluster", as_of=first["position"])["asOf"]["position"] == first["position"]


def test_pages_stay_at_the_position_of_the_first(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """RD15: a cursor is bound to a position and carries the filters; nothing is repeated or lost meanwhile."""
    first = get(client, "/nodes", limit=2, standing="MEMBER")
    chronicle.join("n9")
    chronicle.leave("n3")
    projector.step()
    second = get(client, "/nodes", limit=2, cursor=first["next"])
    assert names(first, "node") + names(second, "node") == ["n1", "n3", "watcher"]
    assert second["asOf"]["position"] == first["asOf"]["position"]
    assert second["next"] is None


def test_decisions_page_from_the_newest_to_the_first(client: Client, chronicle: Chronicle) -> None:
    """All pages together are all decisions, newest first; lease renewals only on request."""
    found: list[int] = []
    page = get(client, "/decisions", limit=7, renewals="true")
    while True:
        found += names(page, "position")
        if page["next"] is None:
            break
        page = get(client, "/decisions", limit=7, cursor=page["next"])
    assert found == list(range(chronicle.position, -1, -1))
    assert "LeasesRenewed" not in names(get(client, "/decisions"), "event")


def test_one_decision_with_its_stamp(client: Client) -> None:
    decision = get(client, "/decisions", subject="type Order")["items"][0]
    assert get(client, f"/decisions/{decision['position']}")["item"] == decision
    assert (decision["event"], decision["actor"]) == ("MetadataUpdateProposed", "ann")
    assert decision["content"]["definition"]["fields"] == {"id": "long"}


def test_history_says_what_each_decision_changed(client: Client) -> None:
    """RD11: each change with position, event, actor, reason and the fields before and after; removals too."""
    body = get(client, "/types/Customer/history")
    assert body["kind"] == "History"
    events = names(body, "event")
    assert events == [
        "MetadataRemoveAccepted",
        "MetadataRemoveProposed",
        "MetadataUpdateAccepted",
        "MetadataUpdateProposed",
        "MetadataUpdateAccepted",
        "MetadataUpdateProposed",
    ]
    second_proposal = body["items"][3]
    assert second_proposal["actor"] == "ann"
    assert second_proposal["changes"]["pending_version"] == [1, 2]
    assert second_proposal["changes"]["pending.fields.email"] == [None, "String"]
    assert body["items"][0]["changes"]["name"] == ["Customer", None]


def test_history_of_a_node_that_was_replaced_in_one_set(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """K2: what happens at once is one change."""
    chronicle.replace_in_one_set("n3", "n3")
    projector.step()
    newest = get(client, "/nodes/n3/history")["items"][0]
    assert newest["event"] == "NodeLeft + NodeJoined"
    assert newest["changes"]["slot"] == [2, 4]


def test_explain_a_pending_type(client: Client) -> None:
    """`explain`: a sentence, the chain of causes, and whom it waits for, for at most proceed_ms."""
    item = get(client, "/types/Order/explain")["item"]
    assert item["sentence"].startswith("Type Order: no version is accepted yet, version 1")
    assert [awaited["node"] for awaited in item["waiting_for"]] == ["n1", "n3"]
    assert "asked, not all have answered: n1, n3." in item["sentence"]
    since, left_ms = item["waiting_for"][0]["since"], item["waiting_for"][0]["at_most_ms"]
    assert 0 < left_ms < 25_000
    expected = f"25000 ms after position {since}, of which {left_ms} ms are left"
    assert item["facts"]["waits at most"] == expected
    assert [(cause["event"], cause["actor"]) for cause in item["causes"]] == [("MetadataUpdateProposed", "ann")]


def test_a_wait_goes_on_while_nothing_is_decided(client: Client, chronicle: Chronicle) -> None:
    """The time that is left runs by the time of day; as of a past position it is what was left then."""
    then = get(client, "/types/Order/explain")
    left_ms = then["item"]["waiting_for"][0]["at_most_ms"]
    chronicle.now_ms += 3_400
    item = get(client, "/types/Order/explain")["item"]
    assert item["waiting_for"][0]["at_most_ms"] == left_ms - 3_400
    assert f"of which {left_ms - 3_400} ms are left" in item["facts"]["waits at most"]
    since = item["waiting_for"][0]["since"]
    past = get(client, "/types/Order/explain", as_of=since)["item"]
    assert past["facts"]["waits at most"] == f"25000 ms after position {since}, of which 25000 ms are left"
    chronicle.now_ms += 60_000
    assert get(client, "/types/Order/explain")["item"]["waiting_for"][0]["at_most_ms"] == 0


def test_a_new_coordinator_begins_the_wait_again(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """LE17: a coordinator knows only of the time that it has waited itself."""
    chronicle.now_ms += 10_000
    chronicle.lead("c3")
    led_since = chronicle.position
    projector.step()
    facts = get(client, "/types/Order/explain")["item"]["facts"]
    assert (
        facts["waits at most"]
        == f"25000 ms after position {led_since}, of which {25_000 - chronicle.pace_ms} ms are left"
    )


def test_explain_a_node_that_is_being_removed(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """LE24: it is out at its own word, or proceed_ms after its last renewal."""
    renewed_at = get(client, "/leases/n1")["item"]["renewed_at"]
    chronicle.now_ms += 3_000
    asked = chronicle.ref("cli-8")
    chronicle.decide(LeaseStopped(asked, NodeId("n1"), Incarnation(1), LeaveReason.REMOVED))
    projector.step()
    item = get(client, "/nodes/n1/explain")["item"]
    assert "when it says that it has stopped, or when its lease is over" in item["sentence"]
    assert item["facts"]["waits for"] == "its word that it has stopped, or the end of its lease"
    assert item["facts"]["waits at most"].startswith(f"25000 ms after position {renewed_at}, of which ")
    assert [awaited["node"] for awaited in item["waiting_for"]] == ["n1"]
    assert item["waiting_for"][0]["at_most_ms"] <= 22_000
    request = get(client, f"/requests/cli-8/{asked.sequence}/explain")["item"]
    assert request["waiting_for"] == item["waiting_for"]


def test_a_node_that_is_out_is_not_imagined_to_die(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """What helps is whether it would be let in again."""
    chronicle.leave("n1")
    projector.step()
    helps = get(client, "/nodes/n1/explain")["item"]["next"]
    assert "topolog explain join n1" in helps
    assert "topolog explain node n1 --if dies" not in helps


def test_explain_a_join_that_waits(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """LE22: a process without the lock on the folder waits for the lease of the one before."""
    chronicle.wait_to_join("n1")
    projector.step()
    item = get(client, "/nodes/n1/explain")["item"]
    assert "waits until the lease of its former incarnation 1 is over" in item["sentence"]
    assert item["facts"]["waits for"] == "the end of incarnation 1's lease"
    assert 0 < item["waiting_for"][0]["at_most_ms"] < 25_000


def test_explain_a_removed_type_with_its_evidence(client: Client) -> None:
    item = get(client, "/types/Customer/explain")["item"]
    assert "was removed at position" in item["sentence"]
    assert "presumed fenced after proceed_ms n3" in item["facts"]["version 2"]
    assert "applied by n1, n2, n3" in item["facts"]["version 1"]


def test_explain_a_node_that_is_out(client: Client) -> None:
    item = get(client, "/nodes/n2/explain")["item"]
    assert item["sentence"].endswith("its lease ran out in silence.")
    assert item["causes"][-1]["cause"] == "deadline lease/n2"


def test_requests_are_found_by_requester_and_sequence(client: Client) -> None:
    first = get(client, "/requests", status="GRANTED")["items"][-1]
    assert first["id"] == "n1/1"
    assert get(client, "/requests/n1/1")["item"] == first
    assert "was granted at position" in get(client, "/requests/n1/1/explain")["item"]["sentence"]
    assert names(get(client, "/requests/n1/1/history"), "event") == ["NodeJoined"]


def test_an_unchanged_answer_is_not_sent_again(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """ETag: weak, by position."""
    etag = client.get(f"{MAIN}/types").headers["ETag"]
    again = client.get(f"{MAIN}/types", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    chronicle.renew("n1")
    projector.step()
    assert client.get(f"{MAIN}/types", headers={"If-None-Match": etag}).status_code == 200


def test_a_read_can_demand_what_a_write_gave(client: Client, chronicle: Chronicle) -> None:
    """`at_least`: reached, it answers; not reached, 503 with Retry-After after `wait`; of another log, 409."""
    token = f"{LOG_ID.hex()}.{chronicle.position}"
    assert get(client, "/nodes", at_least=token)["kind"] == "NodeList"
    late = client.get(f"{MAIN}/nodes", params={"at_least": chronicle.position + 1, "wait": "1ms"})
    assert (late.status_code, late.json()["code"]) == (503, "not_caught_up")
    assert late.headers["Retry-After"] == "1"
    foreign = get(client, "/nodes", 409, at_least=f"{'0' * 32}.1")
    assert foreign["code"] == "token_foreign"


@pytest.mark.parametrize(
    ("path", "parameters", "parameter"),
    [
        ("/nodes", {"nmae": "n1"}, "nmae"),
        ("/nodes", {"limit": "0"}, "limit"),
        ("/nodes", {"limit": "1001"}, "limit"),
        ("/nodes", {"standing": "HERE"}, "standing"),
        ("/nodes", {"cursor": "x"}, "cursor"),
        ("/nodes", {"as_of": "yesterday"}, "as_of"),
        ("/nodes", {"as_of": "2026-11-21T02:00"}, "as_of"),
        ("/nodes", {"as_of": "2999-01-01T00:00Z"}, "as_of"),
        ("/nodes", {"as_of": "9" * 5000}, "as_of"),
        ("/nodes", {"at_least": "a.b"}, "at_least"),
        ("/nodes", {"at_least": "1", "wait": "long"}, "wait"),
        ("/decisions/-1", {}, "position"),
        ("/requests/cli/0", {}, "sequence"),
    ],
)
def test_a_question_that_cannot_be_understood_names_the_parameter(
    client: Client, path: str, parameters: dict[str, str], parameter: str
) -> None:
    """Anything wrong with a question is 400 with the name of what is wrong; a typo never widens a list."""
    problem = get(client, path, 400, **parameters)
    assert [invalid["name"] for invalid in problem["invalid_params"]] == [parameter]
    assert problem["code"] == "bad_input"
    assert problem["detail"]


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/types/Odrer", 404, "Did you mean Order?"),
        ("/nodes/N1", 404, "Did you mean n1"),
        ("/leases/watcher", 404, ""),
        ("/types/Nothing/history", 404, ""),
        ("/requests/nobody/1", 404, "never sent"),
        ("/decisions/99999", 404, ""),
        ("/nothing", 404, "/openapi.json"),
        ("/nodes?as_of=-1", 410, ""),
        ("/nodes?as_of=99999", 404, "at_least"),
        ("/nodes?as_of=1000000000000", 410, "position"),
    ],
)
def test_what_is_not_there_is_a_problem_with_a_hint(client: Client, path: str, status: int, hint: str) -> None:
    answer = client.get(f"{MAIN}{path}")
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert hint in problem.get("hint", "")
    assert {"type", "title", "code", "detail"} <= problem.keys()


def test_another_cluster_is_not_found_here(client: Client) -> None:
    problem = client.get("/v1/clusters/mian/nodes").json()
    assert (problem["status"], problem["hint"]) == (404, "Did you mean main?")


def test_a_stopped_reader_answers_on_and_says_so(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """K8: position, fingerprint and reason are visible in every answer; reads go on, readiness does not."""
    chronicle.append_accepted(b"poison")
    projector.step()
    body = get(client, "/nodes")
    assert f"position {chronicle.position + 1}" in body["asOf"]["stopped"]
    assert names(body, "node") == ["n1", "n2", "n3", "watcher"]
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "cannot be folded" in ready.json()["reasons"][0]
    assert client.get("/livez").status_code == 200
    assert "has stopped" in client.get("/").text


def test_ready_only_when_caught_up(chronicle: Chronicle, projector: Projector) -> None:
    """/readyz is 503 before anything was read, and while the end of the log is not known."""
    with served(projector, requester(chronicle)) as client:
        assert "Nothing has been decided" in client.get("/readyz").json()["reasons"][0]
        assert get(client, "/nodes", 503)["code"] == "not_caught_up"
        assert "Nothing has been decided" in client.get("/").text
        projector.step()
        assert client.get("/readyz").json()["ready"] is True


def test_not_ready_when_older_than_a_lease(tmp_path: Path) -> None:
    """What is known may be as old as a lease of this cluster, not of some other: then nodes may be out by now."""
    chronicle, now = Chronicle(fence_ms=3_000).start(), [0.0]
    projector = Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: now[0])
    projector.step()
    with served(projector, requester(chronicle)) as client:
        for seconds, is_ready in ((3.0, True), (3.1, False)):
            now[0] = seconds
            assert client.get("/readyz").json()["ready"] is is_ready
    projector.close()


def test_metrics_for_prometheus(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    chronicle.append_raw(None, b"")
    chronicle.renew("n1")
    projector.step()
    client.get(f"{MAIN}/nodes")
    text = client.get("/metrics").text
    assert f'topolog_projection_position{{cluster="main"}} {chronicle.position}.0' in text
    assert 'topolog_projection_members{cluster="main"} 3.0' in text
    assert 'topolog_projection_pending_proposals{cluster="main"} 1.0' in text
    assert 'topolog_projection_ignored_records_total{cluster="main",reason="NO_STAMP"} 1.0' in text
    assert 'topolog_projection_decisions_total{cluster="main",event="NodeJoined"} 4.0' in text
    assert 'route="/v1/clusters/{cluster}/nodes",status="200"' in text


def test_the_page_shows_the_cluster_without_a_script(client: Client) -> None:
    """OP21: one plain overview page at /, readable without JavaScript, nothing from elsewhere."""
    answer = client.get("/")
    assert "3 members, all leases valid; 1 type, pending: Order; coordinator c2 leads term 2." in answer.text
    assert 'http-equiv="refresh"' in answer.text
    assert "https://" not in answer.text
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
    for path in ("/assets/frame.css", "/assets/views.css", "/assets/console.js"):
        assert client.get(path).status_code == 200
    past = client.get("/", params={"as_of": 6}).text
    assert "the past" in past
    assert 'http-equiv="refresh"' not in past
    assert "is no position, time, duration, view or exchange" in client.get("/", params={"as_of": "x"}).text


def test_names_are_shown_as_text(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """A hostile name is text on the page, never markup."""
    chronicle.propose("<script>alert(1)</script>", {"<b>": "int"}, reason="<i>")
    projector.step()
    page = client.get("/").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "<i>" not in page


@pytest.mark.parametrize(
    ("path", "position", "after", "filters"),
    [
        ("/decisions", 1, "x", {}),
        ("/decisions", 1, "-7", {}),
        ("/decisions", 1, "9" * 30, {}),
        ("/decisions", -5, "3", {}),
        ("/decisions", 1 << 62, "3", {}),
        ("/decisions", 1, "", {}),
        ("/decisions", 1, "²", {}),
        ("/nodes", 1, "no such node", {"no such filter": "x"}),
        ("/nodes", -(1 << 63), "n1", {}),
        ("/requests", 1, "x", {"requester": "\0"}),
        ("/dead-letters", 1, "x", {}),
        ("/dead-letters", 1, "9" * 30, {}),
    ],
)
def test_a_forged_cursor_is_refused_or_answered_and_never_an_error_of_ours(
    client: Client, path: str, position: int, after: str, filters: dict[str, str]
) -> None:
    """RD15: a cursor is text from outside, whatever we wrote into it once."""
    forged = Cursor(f"/v1/clusters/main{path}", position, after, filters)
    answer = client.get(f"/v1/clusters/main{path}", params={"cursor": str(forged)})
    assert answer.status_code in (200, 400, 404, 410), answer.text
