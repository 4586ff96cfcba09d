"""/metrics for Prometheus: how far and how fresh this reader is, what it has seen, how long its answers take."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from topolog.events.errors import TopologError
from topolog.events.families import Families, Metric
from topolog.events.leases import NodeRow
from topolog.events.metadata import ProposalRow
from topolog.projections import change_rows, changes, exchanges, partitions, paused, queries, sessions, verified_tables
from topolog.projections.api import repair_metrics
from topolog.projections.api.watch.feed import Feeds
from topolog.projections.packed import CONDITIONS
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.sides import LetterRow
from topolog.projections.verified_tables import TableVerified

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LOGGER = logging.getLogger(__name__)
_STREAMS = (b"text/event-stream", b"application/jsonl", b"application/x-ndjson")
_LEASES = ("VALID", "SILENT", "OVERDUE", "NONE")
_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

router = APIRouter(tags=["health"])


class ProjectionMetrics(Collector):
    """Read from the projector when Prometheus asks, so that nothing is counted twice.

    While its store cannot be read there is all the same what the projector knows of itself, as that it has stopped.
    """

    def __init__(self, projector: Projector) -> None:
        self._projector = projector
        self._families = Families("topolog_projection", projector.cluster)

    def collect(self) -> Iterator[Metric]:
        yield from self._of_projector()
        try:
            found = list(self._of_store())
        except TopologError as error:
            _LOGGER.warning("There are no figures of what the store of %s holds: %s", self._projector.cluster, error)
        else:
            yield from found

    def _of_projector(self) -> Iterator[Metric]:
        projector, families = self._projector, self._families
        yield families.gauge("position", "Position of the newest decision that is projected.", projector.meta.position)
        yield families.gauge("age_seconds", "How long ago the end of the log was last known.", projector.age_ms / 1000)
        yield families.gauge("stopped", "1 if the projector reads no further.", int(projector.stopped is not None))
        ignored, decided = projector.meta.ignored, dict(tuple(projector.decided.items()))
        yield families.counters("ignored_records", "Records that do not count.", ignored, "reason")
        yield families.counters("decisions", "Decisions read since the start.", decided, "event")

    def _of_store(self) -> Iterator[Metric]:
        projector, families = self._projector, self._families
        with projector.reading() as reading:
            members = sum(row.is_member for _, row in reading.rows(NodeRow))
            proposals = sum(1 for _ in reading.rows(ProposalRow))
            conditions = partitions.condition_totals(reading)
            exchange = exchanges.open_row(reading)
            open_ms = 0 if exchange is None else exchanges.open_for_ms(reading, projector.age_ms, exchange)
            missed_ms = paused.silent_ms(reading)
            opened = change_rows.opened(reading)
            waited_ms = (
                changes.now_ms(reading) - reading.surely_decision(opened[0].number).logged_at_ms if opened else 0
            )
            undeleted = change_rows.undeleted(reading)
            open_sessions, tables = len(sessions.opened(reading)), verified_tables.tables(reading)
            leases = Counter(each.state for each in queries.leases(reading, projector.age_ms)) if members else Counter()
            letters = [row.appended_ms for _, row in reading.sides(LetterRow)]
            repair = tuple(repair_metrics.of_repair(reading, projector.cluster))
        oldest_s = max(0, projector.wall_ms() - min(letters)) / 1000 if letters else 0
        yield families.gauge("members", "Members of the cluster.", members)
        text = "For how long an exchange has been open; 0 while none is."
        yield families.gauge("open_exchange_seconds", text, open_ms / 1000)
        text = "For how long one is awaited that the last exchange was completed without; 0 if nobody is."
        yield families.gauge("unheard_seconds", text, missed_ms / 1000)
        text = "Changes of databases, tables, views and grants that are not over."
        yield families.gauge("open_changes", text, len(opened))
        text = "Since the oldest open change was asked for; 0 if none is."
        yield families.gauge("oldest_open_change_seconds", text, waited_ms / 1000)
        text = "Changes that are committed, whose data somebody still deletes."
        yield families.gauge("undeleted_changes", text, undeleted)
        yield families.gauge("open_sessions", "Comparisons and repairs of replicas that are not over.", open_sessions)
        yield families.gauge("dead_letters", "Input that nobody could read and that is kept.", len(letters))
        text = "Since the oldest of them was put aside; 0 if there is none."
        yield families.gauge("oldest_dead_letter_seconds", text, oldest_s)
        yield families.gauge("pending_proposals", "Versions that are proposed and not yet accepted.", proposals)
        by_state = {condition.name: conditions.get(condition, 0) for condition in CONDITIONS}
        yield families.gauges("partitions", "Partitions by the most urgent thing to say of them.", by_state, "state")
        held = {state: leases[state] for state in _LEASES}
        yield families.gauges("leases", "Members that hold a lease, by how it stands.", held, "state")
        yield from repair
        yield from self._of_tables(tables)

    def _of_tables(self, tables: Mapping[str, TableVerified]) -> Iterator[Metric]:
        differ = {table: each.rows_differ for table, each in tables.items()}
        text = "Rows that sessions have found to differ, and that none has found or made equal since."
        yield self._families.gauges("table_rows_differ", text, differ, "table")
        verified = {table: each.verified_ms / 1000 for table, each in tables.items() if each.verified_ms is not None}
        text = "Since all of the table was last found or made equal in all its replicas; none while it never was."
        yield self._families.gauges("table_verified_seconds", text, verified, "table")


class Together(Collector):
    """The metrics of several collectors that tell them apart by a label: each family once, with the samples of all."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for metric in chain.from_iterable(each.collect() for each in self._collectors):
            family = families.setdefault(metric.name, metric)
            if family is not metric:
                family.samples.extend(metric.samples)
        yield from families.values()


class ServingMetrics(Collector):
    """Of one cluster: who is being answered by it for long, and what it has asked for."""

    def __init__(self, cluster: str, feeds: Feeds, requester: Requester) -> None:
        self._families = Families("topolog_api", cluster)
        self._feeds = feeds
        self._requester = requester

    def collect(self) -> Iterator[Metric]:
        yield self._families.gauge("watchers", "Callers who watch a list.", self._feeds.readers)
        text = "Requests of this process without a known outcome."
        yield self._families.gauge("open_requests", text, len(self._requester.open))


class Latency:
    """ASGI middleware: observes how long each answer took, by its route and not by its address.

    A stream lasts as long as its reader likes: of one it is observed how long it took to begin.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._seconds = Histogram(
            "topolog_api_request_seconds",
            "Time from a request to the end of its answer, of a stream to its beginning.",
            ["method", "route", "status"],
            buckets=_BUCKETS_S,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s, status, took_s = time.perf_counter(), 500, 0.0

        async def observed_send(message: Message) -> None:
            nonlocal status, took_s
            if message["type"] == "http.response.start":
                status = message["status"]
                took_s = time.perf_counter() - started_s if _is_stream(message) else 0.0
            await send(message)

        try:
            await self._app(scope, receive, observed_send)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._seconds.labels(scope["method"], route, status).observe(took_s or time.perf_counter() - started_s)


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(_STREAMS) for name, value in message["headers"])


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """What Prometheus scrapes."""
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE)
