"""The API as one ASGI app, made of its parts; `server.py` runs it, tests call it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from prometheus_client import CollectorRegistry

from topolog.projections.api import (
    baseline_reads,
    contract,
    diffs,
    explain_reads,
    export,
    heads,
    health,
    list_routes,
    metrics,
    objects_reads,
    pages,
    partition_reads,
    problems,
    projection_metrics,
    projection_routes,
    reads,
    repair_reads,
    replays,
    tracing,
    writes,
)
from topolog.projections.api.access import reads as access_reads
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.guard import Guard
from topolog.projections.api.served import Served

DESCRIPTION = """
What a cluster's log of decisions says, for every moment of its past. Every answer names the position it reflects
(`asOf.position`), how old that knowledge is (`asOf.age_ms`) and, if this reader has stopped, why (`asOf.stopped`).
Errors are problem documents (RFC 9457) with a stable `code`. Reads ask nothing of the broker.
"""


_ROUTERS = (
    reads.clusters,
    reads.router,
    list_routes.router,
    diffs.router,
    export.router,
    writes.router,
    replays.router,
    health.router,
    partition_reads.router,
    projection_routes.router,
    baseline_reads.router,
    objects_reads.router,
    repair_reads.router,
    explain_reads.router,
    metrics.router,
    access_reads.known,
    access_reads.router,
    pages.router,
)


def make_app(served: Sequence[Served], access: Access | None = None, environment: str = "") -> FastAPI:
    """The app over clusters whose projectors somebody else runs; without `access` it is open to whoever reaches it.

    `environment` is the word that stands on every page.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for each in served:
            each.commits.attach(asyncio.get_running_loop())
        yield
        for each in served:
            each.feeds.end()
            each.commits.detach()

    app = FastAPI(
        title="topolog",
        version="v1",
        description=DESCRIPTION,
        lifespan=lifespan,
        dependencies=[Depends(problems.refuse_unknown_parameters)],
        docs_url=None,
        redoc_url=None,
    )
    app.state.environment = environment
    registry = CollectorRegistry()
    registry.register(metrics.Together([metrics.ProjectionMetrics(each.projector) for each in served]))
    serving = [metrics.ServingMetrics(each.projector.cluster, each.feeds, each.desk.requester) for each in served]
    registry.register(metrics.Together(serving))
    registry.register(metrics.Together([projection_metrics.GenerationMetrics(each.projector) for each in served]))
    app.state.served = {each.projector.cluster: each for each in served}
    app.state.registry = registry
    app.state.access = access or Access()
    app.add_middleware(
        Guard,
        access=app.state.access,
        clusters=lambda: list(app.state.served),
        standing=lambda cluster: app.state.served[cluster].standing(),
    )
    app.add_middleware(metrics.Latency, registry=registry)
    app.add_middleware(tracing.Traced)
    app.add_middleware(heads.Heads)
    for router in _ROUTERS:
        app.include_router(router)
    problems.install(app)
    contract.install(app)
    return app
