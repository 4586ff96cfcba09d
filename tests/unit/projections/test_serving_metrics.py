"""What the API tells of those whom it answers: watchers, open requests, and how long answers take."""

import asyncio
from collections.abc import Iterator

import pytest
from httpx import Client
from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send
from tests.broker.conftest import eventually
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.errors import Retriable
from topolog.projections.api import metrics
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.store import Reading


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    chronicle.join("n1")
    projector.step()
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def told(client: Client, name: str) -> float:
    line = next(line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name}{{"))
    return float(line.rpartition(" ")[2])


def test_watchers_are_counted_while_they_watch(client: Client) -> None:
    """A watcher that goes is no watcher any more."""
    assert told(client, "topolog_api_watchers") == 0
    with client.stream("GET", "/v1/clusters/main/nodes", params={"watch": "true"}) as stream:
        assert stream.status_code == 200
        eventually(lambda: told(client, "topolog_api_watchers") == 1, "the watcher to be there")
    eventually(lambda: told(client, "topolog_api_watchers") == 0, "the watcher to be gone")


@pytest.mark.parametrize(("kind", "took_s"), [("application/json", 100.0), ("text/event-stream; charset=utf-8", 1.0)])
def test_a_stream_is_timed_to_its_beginning(kind: str, took_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lasts as long as its reader likes: one watcher of an hour would make all answers look slow."""
    now_s = 0.0
    monkeypatch.setattr("topolog.projections.api.metrics.time.perf_counter", lambda: now_s)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal now_s
        now_s = 1.0
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        now_s = 100.0
        await send({"type": "http.response.body", "body": b""})

    async def taken(_: Message) -> None:
        pass

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    registry = CollectorRegistry()
    asyncio.run(metrics.Latency(app, registry)({"type": "http", "method": "GET"}, nothing, taken))
    labels = {"method": "GET", "route": "other", "status": "200"}
    assert registry.get_sample_value("topolog_api_request_seconds_sum", labels) == took_s


def test_while_a_store_cannot_be_read_there_is_what_its_projector_knows_of_itself(
    client: Client, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of one cluster do not go with the store of another, and an alert on `stopped` needs its figure."""

    def broken() -> Reading:
        raise Retriable("The store is being opened again.")

    monkeypatch.setattr(projector, "reading", broken)
    assert told(client, "topolog_projection_stopped") == 0
    assert told(client, "topolog_projection_position") == projector.meta.position
    assert told(client, "topolog_projection_age_seconds") >= 0
    assert "topolog_projection_members" not in client.get("/metrics").text
