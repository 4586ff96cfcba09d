"""OpenTelemetry: how one trace goes through a request, the decision about it, and the projection of that.

    API request ──▶ record on `requests` ──▶ decision on `decisions` ──▶ projection
     (traceparent in)      traceparent header       the same header           a span that links to it

What travels is a W3C `traceparent` in a Kafka header. It is no part of a stamp or of the chain hash, no rule sees it,
and readers who do not know it lose nothing. A header that is not one is not passed on: whoever may write requests must
not make the log carry what they like.

The only file that imports opentelemetry, and only its API: spans cost nothing unless the process has an SDK (`is_on`);
then spans and metrics bear the names of the semantic conventions for messaging. Without one, a context that came in is
passed on all the same. (The spans of HTTP requests are FastAPI's own.)
"""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, ProxyTracerProvider, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from topolog.events.log import Headers
from topolog.events.topics import Topic, topic_name

HEADER = "traceparent"
"""The name of the Kafka header, as of the one in HTTP."""

LINKS_MAX = 128
"""What an SDK keeps of one span unless it is told otherwise."""

_SCOPE = "topolog"
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_W3C = TraceContextTextMapPropagator()
_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()
_KINDS = {"send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER}
_COUNTED = {"send": "messaging.client.sent.messages", "process": "messaging.client.consumed.messages"}
_TIMED = {"send": "messaging.client.operation.duration", "process": "messaging.process.duration"}
_METRIC_LABELS = ("messaging.system", "messaging.operation.name", "messaging.destination.name")
_OF_RECORD = {
    "partition": "messaging.destination.partition.id",
    "offset": "messaging.kafka.offset",
    "key": "messaging.kafka.message.key",
    "request": "messaging.message.conversation_id",
    "size": "messaging.message.body.size",
    "records": "messaging.batch.message_count",
}


def is_on() -> bool:
    """Whether this process has an SDK, so that a span is more than nothing."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


def trace_id() -> str | None:
    """The trace under way in this thread or task, None if there is none."""
    found = trace.get_current_span().get_span_context()
    return trace.format_trace_id(found.trace_id) if found.is_valid else None


def headers() -> Headers:
    """What a record takes along of the trace under way: nothing if there is none."""
    if not trace.get_current_span().get_span_context().is_valid:
        return ()
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return ((HEADER, carrier[HEADER].encode()),)


def carried(found: Iterable[tuple[str, bytes]]) -> bytes | None:
    """The traceparent among headers, of Kafka or of HTTP; None if there is none or it is not one."""
    for name, value in found:
        if name == HEADER:
            return value if _TRACEPARENT.fullmatch(value) else None
    return None


def within(traceparent: bytes | None) -> AbstractContextManager[None]:
    """What is done inside belongs to that trace; without one, to the one that is under way."""
    return _NOTHING if traceparent is None else _within(traceparent)


def messaging(
    operation: str,
    topic: Topic,
    cluster: str,
    *,
    parent: bytes | None = None,
    links: Iterable[bytes] = (),
    **record: str | int | None,
) -> AbstractContextManager[None]:
    """A span around sending to a topic ("send") or working on what came from one ("process").

    It is of `parent`'s trace if there is one, and stands beside those of `links`. `record` says what is known of the
    record: partition, offset, key, request, size, or how many `records` there are. Without an SDK only the trace of
    `parent` is taken on.
    """
    return _messaging(operation, topic, cluster, parent, links, record) if is_on() else within(parent)


def calling(name: str, **attributes: str | int) -> AbstractContextManager[None]:
    """A span around a call of ours that waits for the cluster; nothing without an SDK."""
    return _calling(name, attributes) if is_on() else _NOTHING


@contextlib.contextmanager
def _within(traceparent: bytes) -> Iterator[None]:
    token = context.attach(_context(traceparent) or Context())
    try:
        yield
    finally:
        context.detach(token)


@contextlib.contextmanager
def _messaging(
    operation: str,
    topic: Topic,
    cluster: str,
    parent: bytes | None,
    links: Iterable[bytes],
    record: Mapping[str, str | int | None],
) -> Iterator[None]:
    destination = topic_name(cluster, topic) if cluster else topic.short_name
    attributes: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }
    for name, value in record.items():
        if value is not None:
            attributes[_OF_RECORD[name]] = str(value) if name == "partition" else value
    name, others = f"{operation} {destination}", [Link(_span_context(each)) for each in links]
    began_s, failure = time.perf_counter(), {}
    try:
        with trace.get_tracer(_SCOPE).start_as_current_span(
            name, _context(parent), _KINDS[operation], attributes, others
        ):
            yield
    except Exception as error:  # counted by its kind, and raised as it is
        failure = {"error.type": type(error).__name__}
        raise
    finally:
        labels = {**{key: attributes[key] for key in _METRIC_LABELS}, **failure}
        meter, count = metrics.get_meter(_SCOPE), record.get("records")
        took = meter.create_histogram(_TIMED[operation], unit="s")
        took.record(time.perf_counter() - began_s, labels)
        meter.create_counter(_COUNTED[operation], unit="{message}").add(int(count or 1), labels)


@contextlib.contextmanager
def _calling(name: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
    named = {f"topolog.{key}": value for key, value in attributes.items()}
    with trace.get_tracer(_SCOPE).start_as_current_span(f"topolog {name}", None, SpanKind.CLIENT, named):
        yield


def _context(traceparent: bytes | None) -> Context | None:
    return None if traceparent is None else _W3C.extract({HEADER: traceparent.decode()}, Context())


def _span_context(traceparent: bytes) -> trace.SpanContext:
    return trace.get_current_span(_context(traceparent)).get_span_context()
