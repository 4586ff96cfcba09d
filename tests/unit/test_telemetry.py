"""One trace through a request, the decision about it, and its projection; nothing of it where no SDK is (OP27)."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import opentelemetry.trace
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import ProxyTracerProvider
from tests.unit.scenarios.world import TERMS, World

from topolog.events import telemetry
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.log import Entry
from topolog.events.metadata import MetadataUpdateAccepted, MetadataUpdateProposed, UpdateRequested
from topolog.events.object_types import ObjectType
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.projections.api.app import make_app
from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.tracing import TracedReader, traced
from topolog.streams.node.testing import LocalCluster

CUSTOMER = ObjectType("Customer", {"id": "long"})
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
BODY = {"kind": "propose", "definition": {"name": "Customer", "fields": {"id": "long"}}, "reason": "needed"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What this process's SDK has exported."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
    return exporter


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = (each for each in spans.get_finished_spans() if each.name == name)
    return found


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return trace.format_trace_id(span.context.trace_id)


def header_of(entry: Entry) -> str | None:
    return next((value.decode() for name, value in entry.headers if name == telemetry.HEADER), None)


def decided(world: World, kind: type) -> Entry:
    (found,) = (each for each in world.log.entries(Topic.DECISIONS) if CODEC.type_of(each.value) is kind)
    return found


@contextmanager
def api(world: World, folder: Path) -> Iterator[tuple[Projector, httpx.AsyncClient]]:
    projector = Projector(traced(world.log.reader(), "demo"), folder, "demo", wall_ms=world.clock.wall_ms)
    with closing(projector):
        projector.step()
        app = make_app([Served(projector, Requester(world.log.writer(), "api-1", "broker:9092", "demo"))])
        transport = httpx.ASGITransport(app)
        yield projector, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


def post(client: httpx.AsyncClient, **headers: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        async with client:
            return await client.post("/v1/clusters/demo/requests", json=BODY, params={"wait": "none"}, headers=headers)

    return asyncio.run(asked())


def test_a_trace_goes_from_the_api_through_the_decision_to_the_projection(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """HTTP traceparent -> API span -> Kafka header -> the coordinator's span and the decision's header -> a link."""
    world = World(["c1"], ["n1"])
    with api(world, tmp_path) as (projector, client):
        projector.step()
        spans.clear()  # of the node's own join
        assert post(client, traceparent=PARENT).status_code == 202
        world.settle()
        projector.step()
        projector.step()
    answered = named(spans, "POST /v1/clusters/{cluster}/requests")
    sent = named(spans, "send topolog.demo.operations")
    processed = named(spans, "process topolog.demo.operations")
    projected = named(spans, "process topolog.demo.decisions")
    assert [trace_of(each) for each in (answered, sent, processed)] == [TRACE] * 3
    assert answered.parent is not None
    assert answered.context is not None
    assert sent.context is not None
    assert trace.format_span_id(answered.parent.span_id) == "00f067aa0ba902b7"
    request = world.log.entries(Topic.OPERATIONS)[-1]
    assert header_of(request) == f"00-{TRACE}-{trace.format_span_id(sent.context.span_id)}-01"
    assert header_of(decided(world, MetadataUpdateProposed)) == header_of(request), "copied as it is"
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert [trace.format_trace_id(each.context.trace_id) for each in projected.links] == [TRACE]
    assert sent.attributes is not None
    assert dict(sent.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "topolog.demo.operations",
        "messaging.kafka.message.key": "type Customer",
        "messaging.message.conversation_id": "api-1/1",
        "messaging.message.body.size": len(request.value),
    }
    assert processed.attributes is not None
    assert processed.attributes["messaging.kafka.offset"] == request.offset
    assert processed.attributes["messaging.destination.partition.id"] == "0"


def test_without_an_sdk_the_trace_is_passed_on_and_nothing_else_happens(tmp_path: Path) -> None:
    """The log's records bear the caller's own traceparent; a problem document names the trace."""
    world = World(["c1"], ["n1"])
    assert not telemetry.is_on()
    with api(world, tmp_path) as (_, client):
        assert post(client, traceparent=PARENT).status_code == 202
    world.settle()
    assert header_of(world.log.entries(Topic.OPERATIONS)[-1]) == PARENT
    assert header_of(decided(world, MetadataUpdateProposed)) == PARENT
    with api(world, tmp_path) as (_, client):
        refused = post(client, traceparent=PARENT, **{"Idempotency-Key": "no id"})
    assert (refused.status_code, refused.json()["trace_id"]) == (400, TRACE)


def test_a_request_without_a_trace_leaves_no_header_anywhere(tmp_path: Path) -> None:
    world = World(["c1"], ["n1"])
    with api(world, tmp_path) as (_, client):
        answer = post(client)
    world.settle()
    assert answer.status_code == 202
    assert world.log.entries(Topic.OPERATIONS)[-1].headers == ()
    assert [name for name, _ in decided(world, MetadataUpdateProposed).headers] == [HEADER_NAME]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        PARENT.encode() + b"-x",
        b"x" * 10_000,
        b"ff" + PARENT[2:].encode(),
    ],
)
def test_what_is_no_traceparent_does_not_reach_the_decisions(value: bytes) -> None:
    """Whoever may write requests must not make the log carry what they like; the request itself counts."""
    world = World(["c1"], ["n1"])
    request = UpdateRequested(RequestId("x", 1), world.log_id, "ann", "", CUSTOMER, 0, None, None)
    world.log.put(Topic.OPERATIONS, "x", CODEC.encode(request), ((telemetry.HEADER, value),))
    world.settle()
    assert header_of(decided(world, MetadataUpdateProposed)) is None


def test_a_request_is_a_line_of_the_log_at_debug_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """OP27: logs have trace_id and the request; here as the record has them before it is rendered."""
    world, traces = World(["c1"], ["n1"]), list[str | None]()

    def noted(_: logging.LogRecord) -> bool:
        traces.append(telemetry.trace_id())
        return True

    caplog.handler.addFilter(noted)
    request = UpdateRequested(RequestId("x", 1), world.log_id, "ann", "", CUSTOMER, 0, None, None)
    with caplog.at_level(logging.DEBUG, "topolog.coordinator"):
        world.log.put(Topic.OPERATIONS, "x", CODEC.encode(request), ((telemetry.HEADER, PARENT.encode()),))
        world.settle()
    (record,) = (each for each in caplog.records if "MetadataUpdateProposed" in each.getMessage())
    assert record.__dict__["request"] == "x/1"
    assert record.__dict__["position"] == world.decisions()[-2].place.position
    assert TRACE in traces


def test_the_header_is_no_part_of_what_readers_fold() -> None:
    """Two logs, one with traces: the same stamps, chain hashes and states."""
    found = []
    for headers in ((), ((telemetry.HEADER, PARENT.encode()),)):
        world = World(["c1"], ["n1"])
        request = UpdateRequested(RequestId("x", 1), world.log_id, "ann", "", CUSTOMER, 0, None, None)
        world.log.put(Topic.OPERATIONS, "x", CODEC.encode(request), headers)
        world.run(2 * TERMS.heartbeat_ms)
        stamps = [(each.stamp, each.value) for each in world.log.entries(Topic.DECISIONS)]
        found.append((stamps, world.state.hash(), world.decisions()[-1].place.chain))
        assert world.events(MetadataUpdateAccepted)
    assert found[0] == found[1]


def test_a_proposal_of_a_node_is_traced_from_its_call_on(spans: InMemorySpanExporter) -> None:
    """node.propose: a span for the call, one for the sending, whose context is the record's header."""
    with LocalCluster() as cluster, cluster.node("n1") as node:
        node.propose(CUSTOMER)
        found = cluster.log.entries(Topic.REQUESTS)
        (entry,) = (each for each in found if CODEC.type_of(each.value) is UpdateRequested)
    called = named(spans, "topolog propose")
    sent = [each for each in spans.get_finished_spans() if each.name.startswith("send ") and each.parent]
    assert [each.parent for each in sent] == [called.context]
    assert header_of(entry) is not None
    assert trace_of(called) in str(header_of(entry))
    assert called.attributes is not None
    assert called.attributes["topolog.type"] == "Customer"


def test_an_error_is_told_by_the_span_and_by_the_metric(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """messaging.client.operation.duration with error.type, and messages counted (semantic conventions)."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    with pytest.raises(ValueError, match="gone"), telemetry.messaging("send", Topic.REQUESTS, "demo"):
        raise ValueError("gone")
    with telemetry.messaging("process", Topic.DECISIONS, "demo", records=7):
        pass
    assert named(spans, "send topolog.demo.requests").status.status_code is trace.StatusCode.ERROR
    data = reader.get_metrics_data()
    assert data is not None
    told = {each.name: each.data.data_points[0] for each in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(told) == {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.process.duration",
        "messaging.client.consumed.messages",
    }
    assert dict(told["messaging.client.operation.duration"].attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.destination.name": "topolog.demo.requests",
        "error.type": "ValueError",
    }
    provider.shutdown()


def test_a_reader_is_left_as_it_is_where_there_is_no_sdk() -> None:
    """Zero overhead on the projector's path."""
    world = World(["c1"])
    reader = world.log.reader()
    assert isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
    assert traced(reader, "demo") is reader
    assert isinstance(TracedReader(reader, "demo").poll(0), list)
