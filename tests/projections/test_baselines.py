"""Who counts, through the API: asked for, decided by the real rules, read back as it is, as it was and why."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from tests.projections.answering import AnsweringWriter
from tests.projections.chronicle import Chronicle
from tests.projections.serving import served

from topolog.events.baseline import StateChangeFinished
from topolog.events.metadata import Evidence
from topolog.events.terms import changed_view
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
ACTIVATE: Json = {"kind": "cluster-state", "state": "ACTIVE", "reason": "the shop opens"}
ORDERS: Json = {"kind": "create-group", "name": "orders", "partitions": 64, "backups": 1, "persistent": True}


class Stage:
    """A cluster behind an API: what happens to it, and what is asked of it."""

    def __init__(self, chronicle: Chronicle, projector: Projector, client: Client) -> None:
        self.chronicle, self.projector, self.client = chronicle, projector, client

    def join(self, *nodes: str) -> None:
        for node in nodes:
            self.chronicle.join(node)
        self.projector.step()

    def leave(self, *nodes: str) -> None:
        for node in nodes:
            self.chronicle.leave(node)
        self.projector.step()

    def finish(self) -> None:
        """Everybody has applied the change of the state."""
        state = self.chronicle.fold.state
        row = situation_row(state)
        self.chronicle.decide(StateChangeFinished(row, Evidence(applied=("n1",)), changed_view(state)))
        self.projector.step()

    def post(self, body: Json, **parameters: str) -> Response:
        return self.client.post(f"{MAIN}/requests", json=body, params=parameters)

    def granted(self, body: Json) -> Json:
        answer = self.post(body)
        assert answer.status_code == 200, answer.text
        item: Json = answer.json()["item"]
        assert item["status"] == "GRANTED"
        return item

    def get(self, path: str, expected: int = 200, **parameters: str | int) -> Any:
        answer = self.client.get(f"{MAIN}{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body.get("item", body.get("items", body))


def situation_row(state: Any) -> Any:
    from topolog.events.baseline import cluster_state

    return cluster_state(state).started_at


@pytest.fixture
def stage(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with served(projector, requester) as client:
        stage = Stage(chronicle, projector, client)
        stage.join("n1", "n2", "n3")
        yield stage


def test_the_first_activation_makes_a_baseline(stage: Stage) -> None:
    """A4.1: of all servers that are online, and its change of the state is to be seen while it runs."""
    stage.granted(ACTIVATE)
    changing = stage.get("/cluster")
    assert (changing["target"], [each["node"] for each in changing["awaited"]]) == ("ACTIVE", ["n1", "n2", "n3"])
    assert changing["sentence"].startswith("Its baseline is being activated since position")
    stage.finish()
    (baseline,) = stage.get("/baselines")
    assert (baseline["number"], baseline["state"], baseline["members"]) == (0, "CURRENT", ["n1", "n2", "n3"])
    assert [point["why"] for point in baseline["points"]] == ["SET"]
