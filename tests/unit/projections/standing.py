"""A cluster behind an API, for tests of who counts: what happens to it, and what is asked of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.sharing import Sharing

from topolog.events.baseline import StateChangeFinished, cluster_state
from topolog.events.evidence import Evidence
from topolog.events.leases import NodeRow
from topolog.events.terms import changed_view
from topolog.events.topics import Topic
from topolog.events.views import Kinship
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
ACTIVATE: Json = {"kind": "cluster-state", "state": "ACTIVE", "reason": "the shop opens"}


class Stage:
    """Requests are decided by the real rules at once; what follows from them happens when the test says so."""

    def __init__(self, chronicle: Chronicle, projector: Projector, client: Client) -> None:
        self.chronicle, self.projector, self.client = chronicle, projector, client

    @property
    def requests_sent(self) -> int:
        return len(self.chronicle.log.entries(Topic.OPERATIONS))

    def step(self) -> None:
        while self.projector.step():
            pass

    def join(self, *nodes: str) -> None:
        for node in nodes:
            self.chronicle.join(node, folder=f"disk of {node}", kinship=Kinship.NEW, renewed=False)
            self.chronicle.renew(*(row.node for _, row in self.chronicle.fold.state.rows(NodeRow) if row.holds_lease))
        self.step()

    def leave(self, *nodes: str) -> None:
        for node in nodes:
            self.chronicle.leave(node)
        self.step()

    def finish(self) -> None:
        """Everybody has applied the change of the state."""
        state = self.chronicle.fold.state
        started = cluster_state(state).started_at
        assert started is not None
        self.chronicle.decide(StateChangeFinished(started, Evidence(applied=("n1",)), changed_view(state)))
        self.step()

    def follow(self, cluster: Sharing) -> None:
        """`cluster`, which writes the same log, goes on behind what was decided here."""
        cluster.position = self.chronicle.position

    def post(self, body: Json, **parameters: str) -> Response:
        return self.client.post(f"{MAIN}/requests", json=body, params=parameters)

    def granted(self, body: Json) -> Json:
        answer = self.post(body)
        assert answer.status_code == 200, answer.text
        item: Json = answer.json()["item"]
        assert item["status"] == "GRANTED"
        return item

    def imagined(self, body: Json) -> Json:
        """What a dry run says."""
        answer = self.post(body, dry_run="true")
        assert answer.status_code == 200, answer.text
        item: Json = answer.json()["item"]
        return item

    def get(self, path: str, expected: int = 200, **parameters: str | int) -> Any:
        """The item, the items, or the problem."""
        answer = self.client.get(f"{MAIN}{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body.get("item", body.get("items", body))

    def page(self, view: str = "") -> str:
        """A view of the console as HTML."""
        return self.client.get(f"/clusters/main/{view}").text


@contextmanager
def staged(chronicle: Chronicle, projector: Projector) -> Iterator[Stage]:
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    with served(projector, requester) as client:
        stage = Stage(chronicle, projector, client)
        stage.step()
        yield stage
