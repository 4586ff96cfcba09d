"""The stores of a process over HTTP: list, one, actions, /startupz, gauges."""

from collections.abc import Iterator

import httpx
import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.upkeep.conftest import Kept, MakeKept
from tests.unit.projections.upkeep.workshops import Idle

from topolog.projections.requester import Requester

LIST = "/v1/clusters/main/projections"
ACTIONS = f"{LIST}/actions"


@pytest.fixture
def client(chronicle: Chronicle, kept: Kept) -> Iterator[httpx.Client]:
    requester = Requester(AnsweringWriter(chronicle, kept.projector), "api-1", "broker:9092")
    with served(kept.projector, requester) as client:
        yield client


def test_what_is_asked_for_is_accepted_and_listed(client: httpx.Client, kept: Kept) -> None:
    answer = client.post(ACTIONS, json={"action": "rebuild", "reason": "weekly"}, headers={"X-Topolog-Actor": "ann"})
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"{LIST}/building"
    assert [each["name"] for each in answer.json()["items"]] == ["1", "building"]
    building = client.get(f"{LIST}/building").json()["item"]
    assert (building["state"], building["why"], building["by"]) == ("BUILDING", "weekly", "ann")
    kept.settle()
    items = {each["name"]: each for each in client.get(LIST).json()["items"]}
    assert {name: each["state"] for name, each in items.items()} == {"2": "SHOWN", "1": "FORMER"}
    assert items["2"]["compared"]["differences"] == 0
    assert items["2"]["hash"] == items["1"]["hash"]
    assert client.post(ACTIONS, json={"action": "drop-former"}).status_code == 200
    missing = client.get(f"{LIST}/1")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "body", [{"action": "explode"}, {"action": "rebuild", "rate": 0}, {"action": "pause", "for": "1h"}, {}]
)
def test_what_cannot_be_meant_is_refused(client: httpx.Client, body: dict[str, object]) -> None:
    answer = client.post(ACTIONS, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")


def test_what_makes_no_sense_now_is_a_conflict(client: httpx.Client) -> None:
    answer = client.post(ACTIONS, json={"action": "back"})
    assert (answer.status_code, answer.json()["code"]) == (409, "NO_FORMER")


def test_a_pause_is_said_by_every_answer_and_ends_readiness(client: httpx.Client, chronicle: Chronicle) -> None:
    assert client.get("/readyz").status_code == 200
    assert client.post(ACTIONS, json={"action": "pause", "reason": "the disk"}).status_code == 200
    stands = client.get("/v1/clusters/main/nodes").json()["asOf"]
    assert stands["stopped"] == "It is paused by api: the disk"
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "paused by api" in ready.json()["reasons"][0]
    client.post(ACTIONS, json={"action": "resume"})
    assert client.get("/readyz").status_code == 200


def test_a_start_is_over_when_the_end_of_the_log_was_reached(chronicle: Chronicle, make_kept: MakeKept) -> None:
    """RD18: how far and until when, for an orchestrator that would else kill what has to read for a while."""
    kept = make_kept(Idle(chronicle.log.reader))
    kept.batch_max = 5
    kept.restarted()
    requester = Requester(AnsweringWriter(chronicle, kept.projector), "api-1", "broker:9092")
    with served(kept.projector, requester) as client:
        kept.projector.step()
        kept.clock.s += 1
        kept.projector.step()
        answer = client.get("/startupz")
        (start,) = answer.json()["clusters"]
        assert (answer.status_code, start["started"]) == (503, False)
        assert start["of"] == chronicle.position
        assert 0 < start["percent"] < 100
        assert start["rate"] > 0
        assert start["eta_s"] is not None
        kept.settle()
        answer = client.get("/startupz")
        assert (answer.status_code, answer.json()["clusters"][0]["percent"]) == (200, 100.0)


def test_gauges_say_the_same(client: httpx.Client, kept: Kept) -> None:
    client.post(ACTIONS, json={"action": "rebuild"})
    text = client.get("/metrics").text
    assert 'topolog_projection_generations{cluster="main",state="building"} 1.0' in text
    assert 'topolog_projection_paused{cluster="main"} 0.0' in text
    kept.settle()
    assert 'topolog_projection_generations{cluster="main",state="former"} 1.0' in client.get("/metrics").text


def test_what_is_in_the_document_is_answered(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert "post" in paths["/v1/clusters/{cluster}/projections/actions"]
    example = paths["/v1/clusters/{cluster}/projections"]["get"]["responses"]["200"]["content"]["application/json"]
    found = client.get(LIST).json()["items"][0]
    assert example["example"]["items"][0].keys() == found.keys()
