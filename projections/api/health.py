"""/livez: the process answers. /readyz: its answers are worth something. An orchestrator restarts by the first only."""

from http import HTTPStatus

import msgspec
from fastapi import APIRouter, Request
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
async def readyz(request: Request, everything: Everything) -> Response:
    """200 if the reader of every cluster is caught up and reads on, else 503 with the reasons."""
    served = request.app.state.served
    clusters = [_readiness(each.projector, in_words=name not in everything) for name, each in served.items()]
    reasons = [reason for each in clusters for reason in each.reasons]
    stopped = next((each.stopped for each in clusters if each.stopped), None)
    content = {"ready": not reasons, "reasons": reasons, "stopped": stopped}
    content["clusters"] = [each for each in clusters if each.cluster in everything]
    return json_response(content, HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)


@router.get("/startupz", responses={503: {"description": "Some reader is still on its way; how far, and until when."}})
async def startupz(request: Request, everything: Everything) -> Response:
    """200 once the reader of every cluster has been at the end of its log since this process started, or says why not.

    Until then an orchestrator waits, instead of killing what has to read for a while.
    """
    has_started = all(served.projector.has_started for served in request.app.state.served.values())
    clusters = [_start(served.projector) for served in everything.values()]
    content = {"started": has_started, "clusters": clusters}
    return json_response(content, HTTPStatus.OK if has_started else HTTPStatus.SERVICE_UNAVAILABLE)


class Start(msgspec.Struct, frozen=True):
    """How far the reader of one cluster has come since the process started; None is what nobody knows yet."""

    cluster: str
    started: bool
    position: int
    of: int | None
    percent: float | None
    rate: float
    eta_s: int | None


def _start(projector: Projector) -> Start:
    told = projector.recovering
    percent = None if told.of is None else round(100 * (told.position + 1) / max(1, told.of + 1), 1)
    return Start(projector.cluster, projector.has_started, told.position, told.of, percent, told.rate, told.eta_s)


class Readiness(msgspec.Struct, frozen=True):
    """Whether the reader of one cluster is worth asking."""

    cluster: str
    ready: bool
    reasons: list[str]
    stopped: str | None
    position: int
    age_ms: int


def _readiness(projector: Projector, *, in_words: bool) -> Readiness:
    """`in_words`: a reason is `paused`, `stopped` or `behind`, and no more, as for who may not know of the cluster."""
    reasons, stopped = why_not_ready(projector), projector.stopped
    if in_words and stopped:
        stopped = "paused" if projector.is_paused else "stopped"
    if in_words and reasons:
        reasons = [stopped or "behind"]
    return Readiness(projector.cluster, not reasons, reasons, stopped, projector.meta.position, projector.age_ms)


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
