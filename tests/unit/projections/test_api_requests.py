"""POST /requests: outcomes, refusals with both sides, repeats, what is never sent, a broker that is away."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.serving import served

from topolog.events import asking
from topolog.events.asked import SEQUENCE_MAX
from topolog.events.codec import CODEC
from topolog.events.errors import Unreachable
from topolog.events.log import Headers, OnDelivery
from topolog.events.metadata import UpdateRequested
from topolog.events.object_types import schema_id
from topolog.events.requests import OUTCOMES_KEPT, REQUEST_BYTES_MAX, RequestersForgotten
from topolog.events.topics import Topic
from topolog.projections.api import desk
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
REQUESTS = "/v1/clusters/main/requests"


@pytest.fixture
def writer(chronicle: Chronicle, projector: Projector) -> AnsweringWriter:
    chronicle.join("n1")
    projector.step()
    return AnsweringWriter(chronicle, projector)


@pytest.fixture
def client(projector: Projector, writer: AnsweringWriter) -> Iterator[Client]:
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield client


def customer(**fields: str) -> Json:
    return {"kind": "propose", "definition": {"name": "Customer", "fields": fields}, "reason": "needed"}


def post(client: Client, body: Json, key: str | None = None, **parameters: str) -> Response:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(REQUESTS, json=body, params=parameters, headers=headers)


def sent(chronicle: Chronicle) -> int:
    return len(chronicle.log.entries(Topic.OPERATIONS))


def test_a_proposal_gets_its_outcome(client: Client, chronicle: Chronicle) -> None:
    """K7: the outcome carries the id, the version, and a token with which the next read sees it."""
    answer = post(client, customer(id="long"), wait="accepted")
    item = answer.json()["item"]
    assert (answer.status_code, answer.json()["kind"]) == (200, "Outcome")
    assert item == {
        "id": "api-1/1",
        "subject": "type Customer",
        "status": "GRANTED",
        "accepted": True,
        "version": 1,
        "position": item["position"],
        "token": f"{LOG_ID.hex()}.{chronicle.position}",
    }
    read = client.get("/v1/clusters/main/types/Customer", params={"at_least": item["token"]}).json()
    assert read["item"]["fields"] == {"id": "long"}
    assert client.get(answer.headers["Location"]).json()["item"]["status"] == "GRANTED"


def test_what_is_sent_is_keyed_by_its_subject_and_says_who_and_why(client: Client, chronicle: Chronicle) -> None:
    """OP8: requests are keyed by subject; actor and reason reach the log's stamp."""
    client.post(REQUESTS, json=customer(id="long"), headers={"X-Topolog-Actor": "ann"})
    entry = chronicle.log.entries(Topic.OPERATIONS)[0]
    request = CODEC.decode(entry.value)
    assert isinstance(request, UpdateRequested)
    assert (entry.key, request.actor, request.reason) == ("type Customer", "ann", "needed")
    assert request.log_id == LOG_ID
    assert request.definition.schemas == {str(schema_id(["id"])): ("id",)}
    history = client.get("/v1/clusters/main/types/Customer/history").json()["items"]
    assert {("ann", "needed")} == {(item["actor"], item["reason"]) for item in history if item["actor"]}


def test_the_same_proposal_again_changes_nothing(client: Client) -> None:
    post(client, customer(id="long"))
    item = post(client, customer(id="long")).json()["item"]
    assert (item["id"], item["status"], item["version"], item["accepted"]) == ("api-1/2", "UNCHANGED", 1, True)


def test_a_conflict_shows_both_sides(client: Client) -> None:
    """ME8: 409 with code, rule, facts, and both definitions."""
    post(client, customer(id="long"))
    answer = post(client, customer(id="String"))
    problem = answer.json()
    assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/problem+json")
    assert (problem["code"], problem["rule"], problem["id"]) == ("METADATA_CONFLICT", "ME8", "api-1/2")
    assert problem["facts"] == {"what": "field id", "current": "long", "proposed": "String"}
    assert (problem["current"]["fields"], problem["proposed"]["fields"]) == ({"id": "long"}, {"id": "String"})
    explained = client.get(f"{REQUESTS}/api-1/2/explain").json()["item"]
    assert explained["facts"]["current definition"] == "id long"


@pytest.mark.parametrize(
    ("resource", "name", "code"), [("type", "Nothing", "TYPE_UNKNOWN"), ("node", "n9", "NODE_UNKNOWN")]
)
def test_a_removal_of_what_is_not_there_is_refused_by_the_cluster(
    client: Client, resource: str, name: str, code: str
) -> None:
    answer = post(client, {"kind": "remove", "resource": resource, "name": name})
    assert (answer.status_code, answer.json()["code"]) == (409, code)


def test_a_removal_is_accepted_when_the_type_is_out(client: Client) -> None:
    post(client, customer(id="long"))
    item = post(client, {"kind": "remove", "resource": "type", "name": "Customer"}, wait="accepted").json()["item"]
    assert (item["status"], item["accepted"]) == ("GRANTED", True)
    assert client.get("/v1/clusters/main/types/Customer").status_code == 404


def test_a_node_is_out_only_when_its_lease_is_over(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """LE24: a removed member stays until its lease is provably over; the outcome says which it is."""
    item = post(client, {"kind": "remove", "resource": "node", "name": "n1"}, wait="accepted", timeout="50ms").json()
    assert (item["item"]["status"], item["item"]["accepted"]) == ("GRANTED", False)
    explained = client.get("/v1/clusters/main/nodes/n1/explain").json()["item"]
    assert [awaited["node"] for awaited in explained["waiting_for"]] == ["n1"]


def test_removing_a_node_twice_is_accepted_when_it_is_out(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """K7: the second removal changes nothing, but what it asks for holds only when the node has left."""
    removal = {"kind": "remove", "resource": "node", "name": "n1"}
    post(client, removal, key="cli-7/1")
    item = post(client, removal, key="cli-7/2", wait="accepted", timeout="50ms").json()["item"]
    assert (item["status"], item["accepted"]) == ("UNCHANGED", False)
    chronicle.leave("n1")
    projector.step()
    for key in ("cli-7/1", "cli-7/2"):
        assert post(client, removal, key=key).json()["item"]["accepted"], key
    chronicle.join("n1")
    projector.step()
    assert post(client, removal, key="cli-7/2").json()["item"]["accepted"], "another incarnation was not meant"


def test_an_undecided_request_can_be_asked_about_later(client: Client, writer: AnsweringWriter) -> None:
    """K7: 202, UNKNOWN, and the place where the outcome will be; it is not sent again."""
    writer.mute = True
    answer = post(client, customer(id="long"), timeout="20ms")
    assert (answer.status_code, answer.json()["item"]["status"]) == (202, "UNKNOWN")
    assert client.get(answer.headers["Location"]).status_code == 404
    writer.decide(writer._log.entries(Topic.OPERATIONS)[0].value)
    assert client.get(answer.headers["Location"]).json()["item"]["status"] == "GRANTED"


def test_wait_none_answers_as_soon_as_the_log_has_it(client: Client, chronicle: Chronicle) -> None:
    answer = post(client, customer(id="long"), wait="none")
    assert (answer.status_code, answer.json()["item"]["id"]) == (202, "api-1/1")
    assert sent(chronicle) == 1


def test_a_repeat_under_its_key_has_one_effect(client: Client, chronicle: Chronicle) -> None:
    """K7: the same id and bytes get the first outcome; other content under the same id is refused."""
    first = post(client, customer(id="long"), key="cli-7/1").json()["item"]
    again = post(client, customer(id="long"), key="cli-7/1").json()["item"]
    assert (first["id"], first["position"]) == ("cli-7/1", again["position"])
    assert sent(chronicle) == 1
    other = post(client, customer(id="long", email="String"), key="cli-7/1")
    assert (other.status_code, other.json()["code"]) == (409, "REQUEST_ID_REUSED")
    assert sent(chronicle) == 1


@pytest.mark.parametrize("wait", ["decided", "accepted"])
def test_nobody_is_told_the_outcome_of_another_request_under_the_same_key(
    client: Client, writer: AnsweringWriter, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    """K7: two requests under one key, both sent before either was decided: the second learns that it is not the one."""
    writer.mute, writer.accepts = True, False
    assert post(client, customer(id="long"), key="cli-7/1", wait="none").status_code == 202
    first, decide = writer._log.entries(Topic.OPERATIONS)[0].value, writer.decide
    monkeypatch.setattr(writer, "decide", lambda _: decide(first))
    writer.mute = False
    other = post(client, customer(id="String"), key="cli-7/1", wait=wait)
    assert (other.status_code, other.json()["code"]) == (409, "REQUEST_ID_REUSED")


def test_a_repeat_of_an_undecided_request_sends_the_same_bytes(client: Client, writer: AnsweringWriter) -> None:
    writer.mute = True
    for _ in range(2):
        assert post(client, customer(id="long"), key="cli-7/1", timeout="10ms").status_code == 202
    first, second = writer._log.entries(Topic.OPERATIONS)
    assert first.value == second.value


def test_an_id_older_than_what_is_kept_is_refused_here(client: Client, chronicle: Chronicle) -> None:
    """K7: nobody could say whether it had an outcome, so nobody would ever answer it."""
    post(client, customer(id="long"), key=f"cli-7/{OUTCOMES_KEPT + 5}")
    answer = post(client, customer(id="long"), key="cli-7/3")
    assert (answer.status_code, answer.json()["code"], sent(chronicle)) == (409, "OUTCOME_FORGOTTEN", 1)
    assert f"cli-7/{OUTCOMES_KEPT + 6} is the next" in answer.json()["hint"]
    post(client, customer(id="long"), key=f"cli-8/{SEQUENCE_MAX}")
    assert (
        "use another requester: this one has no higher number" in post(client, customer(), key="cli-8/3").json()["hint"]
    )


def test_a_repeat_of_a_forgotten_requester_is_not_carried_out_again(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """K7: a pipeline sends again after a weekend what had its outcome before. It gets that, and nothing is sent; of
    what was never heard of here nobody could say, and higher numbers go on."""
    first = post(client, customer(id="long"), key="ci/nightly/2")
    chronicle.decide(RequestersForgotten(("ci/nightly",)))
    projector.step()
    again = post(client, customer(id="long"), key="ci/nightly/2")
    assert again.json()["item"]["position"] == first.json()["item"]["position"]
    before = post(client, customer(id="long"), key="ci/nightly/1").json()
    assert (before["code"], before["rule"], before["facts"]) == ("OUTCOME_FORGOTTEN", "K19", {"forgotten_to": "2"})
    assert "ci/nightly/3 is the next" in before["hint"]
    assert sent(chronicle) == 1
    assert post(client, customer(id="long"), key="ci/nightly/3").json()["item"]["status"] == "UNCHANGED"


def test_a_repeat_that_is_forgotten_on_its_way_is_not_waited_for(client: Client, chronicle: Chronicle) -> None:
    """K7: this API had not read yet that the requester is forgotten when it sent what nobody answers."""
    post(client, customer(id="long"), key="ci/2")
    chronicle.decide(RequestersForgotten(("ci",)))
    answer = post(client, customer(id="long"), key="ci/1", timeout="1m")
    assert (answer.status_code, answer.json()["code"], sent(chronicle)) == (409, "OUTCOME_FORGOTTEN", 2)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        (b"{", "body"),
        (b"\xff", "body"),
        (b"[]", "body"),
        (b"{}", "body"),
        ({"kind": "destroy"}, "kind"),
        ({"kind": "propose"}, "body"),
        ({"kind": "propose", "definition": []}, "definition"),
        ({"kind": "propose", "definition": {"name": "", "fields": {}}}, "definition"),
        ({"kind": "propose", "definition": {"name": "A", "feilds": {}}}, "definition"),
        ({"kind": "propose", "definition": {"name": "A", "fields": {"id": 1}}}, "definition"),
        ({"kind": "propose", "definition": {"name": "A", "fields": {"": "int"}}}, "definition"),
        ({"kind": "propose", "definition": {"name": "A"}, "based_on": "1"}, "based_on"),
        ({"kind": "propose", "definition": {"name": "A"}, "based_on": -1}, "based_on"),
        ({"kind": "propose", "definition": {"name": "A"}, "why": "x"}, "body"),
        ({"kind": "remove", "resource": "lease", "name": "n1"}, "resource"),
        ({"kind": "remove", "resource": "type", "name": " "}, "name"),
        ({"kind": "remove", "resource": "type", "name": 1}, "name"),
        ({"kind": "remove", "resource": "type", "name": "A", "reason": None}, "reason"),
    ],
)
def test_what_is_malformed_is_refused_here_and_never_sent(
    client: Client, chronicle: Chronicle, body: bytes | Json, parameter: str
) -> None:
    """K7: 400 with the member that is wrong and what to do; nothing is appended, no id is used."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(REQUESTS, content=content, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, sent(chronicle)) == (400, 0)
    assert [invalid["name"] for invalid in problem["invalid_params"]] == [parameter]
    assert problem["hint"]


@pytest.mark.parametrize(
    "key",
    [
        "cli",
        "cli/x",
        "/1",
        "cli/0",
        "cli/9223372036854775808",
        f"cli/{'9' * 5000}",
        "api-1/1",
        "api-1.1/1",
        "ci/build-0a1b2c3d4e5f6071/1",
        "n1-0a1b2c3d4e5f6071.join/1",
        f"{'c' * 201}/1",
    ],
)
def test_a_key_that_is_no_request_id_is_refused(client: Client, chronicle: Chronicle, key: str) -> None:
    answer = post(client, customer(id="long"), key=key)
    assert (answer.status_code, sent(chronicle)) == (400, 0)
    assert answer.json()["invalid_params"][0]["name"] == "Idempotency-Key"


@pytest.mark.parametrize("parameters", [{"wait": "long"}, {"timeout": "soon"}, {"wiat": "none"}])
def test_unknown_parameters_are_refused(client: Client, chronicle: Chronicle, parameters: dict[str, str]) -> None:
    assert post(client, customer(id="long"), **parameters).status_code == 400
    assert sent(chronicle) == 0


def test_a_request_too_big_for_a_record_is_refused(client: Client, chronicle: Chronicle) -> None:
    """OP7: records stay below 900 kB."""
    answer = post(client, {**customer(id="long"), "reason": "x" * (REQUEST_BYTES_MAX + 1)})
    assert (answer.status_code, sent(chronicle)) == (413, 0)
    wide = {f"f{number:05}": "int" for number in range(50_000)}
    answer = post(client, customer(**wide))
    assert (answer.status_code, sent(chronicle)) == (400, 0)


def test_a_broker_that_is_away_is_named_in_time(
    client: Client, writer: AnsweringWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OP9: broker unreachable is a clear error within 10 s naming the address, and says how to repeat safely."""
    assert desk.DELIVERY_TIMEOUT_S < 10
    monkeypatch.setattr(desk, "DELIVERY_TIMEOUT_S", 0.05)
    writer.lost = True
    answer = post(client, customer(id="long"), timeout="1s")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["id"]) == (503, "outcome_unknown", "api-1/1")
    assert answer.headers["Retry-After"]
    assert "broker:9092" in problem["detail"]
    assert "Idempotency-Key: api-1/1" in problem["hint"]
    assert client.get("/v1/clusters/main/types").status_code == 200, "reads ask nothing of the broker"


def test_a_request_that_never_left_says_so(
    client: Client, writer: AnsweringWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`unreachable` promises that nothing was sent, so it is kept for a producer that takes nothing."""

    def append(
        topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        raise Unreachable("requests takes no more records: queue full.")

    monkeypatch.setattr(writer, "append", append)
    answer = post(client, customer(id="long"))
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "unreachable")
    assert "broker:9092" in problem["detail"]
    assert "Nothing was sent" in problem["hint"]


def test_too_many_undecided_requests_are_told_to_wait(
    projector: Projector, writer: AnsweringWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: no id falls out of the window; what was never sent takes no place in it, what is decided leaves it."""
    monkeypatch.setattr(asking, "LANES", 1)
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        assert post(client, {"kind": "propose", "definition": {"name": ""}}).status_code == 400
        writer.mute = True
        for _ in range(OUTCOMES_KEPT):
            assert post(client, customer(id="long"), wait="none").status_code == 202
        answer = post(client, customer(id="long"))
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        assert answer.headers["Retry-After"]
        assert post(client, customer(id="long"), key="cli-7/1", wait="none").status_code == 202, "not one of ours"
        for entry in writer._log.entries(Topic.OPERATIONS):
            writer.decide(entry.value)
        writer.mute = False
        assert post(client, customer(id="long")).json()["item"]["status"] == "UNCHANGED"


def test_a_stopped_reader_takes_no_requests(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """It could not tell what became of them."""
    chronicle.append_accepted(b"poison")
    projector.step()
    answer = post(client, customer(id="long"))
    assert (answer.status_code, answer.json()["code"], sent(chronicle)) == (503, "stopped", 0)


@pytest.mark.parametrize("kind", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""])
def test_what_another_sites_page_can_make_a_browser_send_is_no_request(
    client: Client, chronicle: Chronicle, kind: str
) -> None:
    """Without a question of the browser's own only such types are sent; nothing of them reaches the log."""
    body = b'{"kind": "remove", "resource": "node", "name": "n1"}'
    answer = client.post(REQUESTS, content=body, headers={"Content-Type": kind})
    assert (answer.status_code, sent(chronicle)) == (400, 0)
    assert "Content-Type" in answer.json()["hint"]


def test_the_address_of_an_odd_id_is_an_address(client: Client) -> None:
    """An id is a caller's own choice; what it holds must neither end the header nor lead elsewhere."""
    answer = post(client, customer(id="long"), "../a b?#%/x/3")
    assert answer.headers["Location"] == "/v1/clusters/main/requests/..%2Fa%20b%3F%23%25%2Fx/3"
