"""OpenTelemetry: how one trace goes through a request, the decision about it, and the projection of that.

    API request ──▶ record on `requests` ──▶ decision on `decisions` ──▶ projection
     (traceparent in)      traceparent header       the same header           a span that links to it

What travels is a W3C `traceparent` in a Kafka header. It is no part of a stamp or of the chain hash, no rule sees it,
and readers who do not know it lose nothing. A header that is not one is not passed on: whoever may write requests must
not make the log carry what they like.

The only file that imports opentelemetry, and only its API: spans cost nothing unless the process has an SDK (`is_on`);
then they bear the names of the semantic conventions for messaging. Without one, a context that came in is passed on.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, ProxyTracerProvider, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from topolog.events.log import Headers

HEADER: str = "traceparent"
"""The name of the Kafka header, as of the one in HTTP."""

CLIENT, SERVER, PRODUCER, CONSUMER = SpanKind.CLIENT, SpanKind.SERVER, SpanKind.PRODUCER, SpanKind.CONSUMER

_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_W3C = TraceContextTextMapPropagator()
_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


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


def carried(found: Headers) -> bytes | None:
    """The traceparent among a record's headers, None if there is none or it is not one."""
    value = next((value for name, value in found if name == HEADER), None)
    return value if value is not None and _TRACEPARENT.fullmatch(value) else None


def within(traceparent: bytes | None) -> AbstractContextManager[None]:
    """What is done inside belongs to that trace; without one, to the one that is under way."""
    return _NOTHING if traceparent is None else _within(traceparent)


@contextlib.contextmanager
def _within(traceparent: bytes) -> Iterator[None]:
    token = context.attach(_context(traceparent))
    try:
        yield
    finally:
        context.detach(token)


def span(
    name: str,
    kind: SpanKind,
    attributes: Mapping[str, str | int | bool],
    *,
    parent: bytes | None = None,
    links: tuple[bytes, ...] = (),
) -> AbstractContextManager[None]:
    """A span around what is done inside: of `parent`'s trace if there is one, beside those of `links`.

    An error that leaves it is recorded in it. Nothing at all without an SDK.
    """
    return _span(name, kind, attributes, parent, links) if is_on() else _NOTHING


@contextlib.contextmanager
def _span(
    name: str,
    kind: SpanKind,
    attributes: Mapping[str, str | int | bool],
    parent: bytes | None,
    links: tuple[bytes, ...],
) -> Iterator[None]:
    tracer = trace.get_tracer("topolog")
    others = [Link(_span_context(each)) for each in links]
    within = None if parent is None else _context(parent)
    with tracer.start_as_current_span(name, within, kind, dict(attributes), others):
        yield


def say(**attributes: str | int | bool) -> None:
    """More of the span under way; names have `_` where the conventions have `.`."""
    if is_on():
        for name, value in attributes.items():
            trace.get_current_span().set_attribute(name.replace("_", "."), value)


def failed(why: str) -> None:
    """The span under way has come to nothing, though no error was raised."""
    if is_on():
        trace.get_current_span().set_status(Status(StatusCode.ERROR, why))


def messaging(operation: str, kind: str, destination: str, **more: str | int | None) -> dict[str, str | int | bool]:
    """The attributes of the conventions: what is done to which topic, and what is known of the record."""
    known: dict[str, str | int | None] = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
        "messaging.destination.partition.id": more.get("partition"),
        "messaging.kafka.offset": more.get("offset"),
        "messaging.kafka.message.key": more.get("key"),
        "messaging.message.conversation_id": more.get("request"),
        "messaging.message.body.size": more.get("size"),
        "topolog.position": more.get("position"),
        "topolog.event": more.get("event"),
    }
    return {name: str(value) if name.endswith(".id") else value for name, value in known.items() if value is not None}


def _context(traceparent: bytes) -> Context:
    return _W3C.extract({HEADER: traceparent.decode()}, Context())


def _span_context(traceparent: bytes) -> trace.SpanContext:
    return trace.get_current_span(_context(traceparent)).get_span_context()
