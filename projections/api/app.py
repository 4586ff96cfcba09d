"""The API as one ASGI app, made of its parts; `server.py` runs it, tests call it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from topolog.projections.api import (
    baseline_reads,
    contract,
    health,
    lists,
    metrics,
    objects_reads,
    pages,
    partition_reads,
    problems,
    reads,
    repair_reads,
    replays,
    writes,
)
from topolog.projections.api.served import Served

DESCRIPTION = """
What a cluster's log of decisions says, for every moment of its past. Every answer names the position it reflects
(`asOf.position`), how old that knowledge is (`asOf.age_ms`) and, if this reader has stopped, why (`asOf.stopped`).
Errors are problem documents (RFC 9457) with a stable `code`. Reads ask nothing of the broker.
"""


def make_app(served: Sequence[Served]) -> FastAPI:
    """The app over clusters whose projectors somebody else runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for each in served:
            each.commits.attach(asyncio.get_running_loop())
        yield
        for each in served:
            each.commits.detach()

    app = FastAPI(
        title="topolog", version="v1", description=DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    registry = CollectorRegistry()
    registry.register(metrics.Together([metrics.ProjectionMetrics(each.projector) for each in served]))
    app.state.served = {each.projector.cluster: each for each in served}
    app.state.registry = registry
    app.add_middleware(metrics.Latency, registry=registry)
    for router in (
        reads.clusters,
        reads.router,
        lists.router,
        writes.router,
        replays.router,
        health.router,
        partition_reads.router,
        baseline_reads.router,
        objects_reads.router,
        repair_reads.router,
        metrics.router,
        pages.router,
    ):
        app.include_router(router)
    problems.install(app)
    contract.install(app)
    return app
