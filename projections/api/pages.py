"""The pages for people: the overview at the address that one opens first, and one of each session."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from topolog.events.errors import TopologError
from topolog.projections.api.answers import Answers
from topolog.projections.api.served import Served, all_served
from topolog.projections.moments import reading_as_of
from topolog.projections.web import session_picture
from topolog.projections.web.heat import Gallery
from topolog.projections.web.overview import SCRIPT, STYLE, Overview, empty_page, overview, page

SECURITY = {
    "Content-Security-Policy": "default-src 'self'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def get_overview(request: Request, as_of: Annotated[str | None, Query()] = None) -> Response:
    """The overview now, or as of a position or time."""
    served = _only(request)
    answers = served.answers
    try:
        html = await run_in_threadpool(_rendered, answers, served.gallery, as_of)
    except TopologError as error:
        html = empty_page(answers.projector.cluster, error)
    return HTMLResponse(html, headers=SECURITY)


@router.get("/sessions/{name}")
async def get_session(request: Request, name: str, as_of: Annotated[str | None, Query()] = None) -> Response:
    """One session of anti-entropy: where replicas differ. Raises what the API says of such a session."""
    html = await run_in_threadpool(_session, _only(request).answers, name, as_of)
    return HTMLResponse(html, headers=SECURITY)


@router.get("/style.css")
async def get_style() -> Response:
    return Response(STYLE, media_type="text/css", headers={"Cache-Control": "max-age=60"})


@router.get("/refresh.js")
async def get_script() -> Response:
    return Response(SCRIPT, media_type="text/javascript", headers={"Cache-Control": "max-age=60"})


def _only(request: Request) -> Served:
    return next(iter(all_served(request).values()))


def _rendered(answers: Answers, gallery: Gallery, as_of: str | None) -> str:
    projector = answers.projector
    with projector.reading() as newest:
        reading = reading_as_of(newest, as_of, projector.wall_ms()) if as_of else newest
        shown: Overview = overview(reading, answers.as_of(reading), gallery)
    return page(shown)


def _session(answers: Answers, name: str, as_of: str | None) -> str:
    projector = answers.projector
    with projector.reading() as newest:
        reading = reading_as_of(newest, as_of, projector.wall_ms()) if as_of else newest
        return session_picture.page(session_picture.picture(reading, answers.as_of(reading), name))
