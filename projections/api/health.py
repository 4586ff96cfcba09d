"""/livez: the process answers. /readyz: its answers are worth something. An orchestrator restarts by the first only."""

from http import HTTPStatus

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from topolog.events.ids import NOWHERE
from topolog.projections.api.answers import json_response
from topolog.projections.api.served import Everything
from topolog.projections.projector import Projector

router = APIRouter(tags=["health"])


@router.get("/livez")
async def livez() -> Response:
    """200 as long as this process answers at all; a broker that is away does not change it."""
    return json_response({"alive": True})


@router.get("/readyz", responses={503: {"description": "Not ready; `reasons` says why."}})
async def readyz(everything: Everything) -> Response:
    """200 if the reader of every cluster is caught up and reads on, else 503 with the reasons."""
    clusters = [_readiness(served.projector) for served in everything.values()]
    reasons = [reason for each in clusters for reason in each.reasons]
    stopped = next((each.stopped for each in clusters if each.stopped), None)
    content = {"ready": not reasons, "reasons": reasons, "stopped": stopped, "clusters": clusters}
    return json_response(content, HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)


class Readiness(msgspec.Struct, frozen=True):
    """Whether the reader of one cluster is worth asking."""

    cluster: str
    ready: bool
    reasons: list[str]
    stopped: str | None
    position: int
    age_ms: int


def _readiness(projector: Projector) -> Readiness:
    reasons = why_not_ready(projector)
    return Readiness(
        projector.cluster, not reasons, reasons, projector.stopped, projector.meta.position, projector.age_ms
    )


def why_not_ready(projector: Projector) -> list[str]:
    """What keeps this reader's answers from being the present; empty if nothing does.

    A reader whose knowledge is older than a lease may show a node as serving that has long been out.
    """
    reasons = []
    if projector.stopped:
        reasons.append(f"It reads no further: {projector.stopped}")
    if projector.meta.position == NOWHERE:
        reasons.append("Nothing has been decided yet: no coordinator has written to this log.")
    elif projector.age_ms > projector.fence_ms:
        reasons.append(f"It last knew the end of the log {projector.age_ms} ms ago: it is catching up, or cut off.")
    return reasons
