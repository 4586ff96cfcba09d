"""The console: pages for people, made on the server; each is readable without a script. What they show is in `web/`.

`/` leads to the cluster, or lists them if there are several; `/clusters/{cluster}/{view}[/{name}]` are its views. The
address holds the whole state: `as_of` and the filters, which are those of the API and refused by name if unknown.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from topolog.events.errors import NotFound, TopologError
from topolog.projections.api import console_lists, problems
from topolog.projections.api.access.addresses import READ
from topolog.projections.api.access.grants import Asked as Needed
from topolog.projections.api.access.reads import AUDIT, principal_of, records_of
from topolog.projections.api.answers import Answers
from topolog.projections.api.listing import Listing
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.problems import parameter
from topolog.projections.api.served import all_served, served_of
from topolog.projections.cursors import Page
from topolog.projections.moments import reading_as_of
from topolog.projections.queries import cluster_row
from topolog.projections.store import Reading
from topolog.projections.web import outside, views
from topolog.projections.web.asking import May, PageRequest
from topolog.projections.web.frame import Frame
from topolog.projections.web.sliding import slider
from topolog.projections.web.templates import asset

SECURITY = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_REFRESH_S = 3
_ASSETS: Mapping[str, str] = {
    "frame.css": "text/css",
    "views.css": "text/css",
    **dict.fromkeys(
        ("theme.js", "console.js", "keys.js", "refresh.js", "slider.js", "times.js", "pointing.js"), "text/javascript"
    ),
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def get_clusters(request: Request) -> Response:
    """The one cluster that is served, else a list of them."""
    served = all_served(request)
    if len(served) == 1:
        return _to_overview(request, next(iter(served)))
    seen = [(each.projector, _may(request, name)) for name, each in served.items()]
    html = await run_in_threadpool(outside.clusters, seen)
    return HTMLResponse(html, headers=SECURITY)


@router.get("/clusters/{cluster}")
async def get_cluster(request: Request, cluster: str) -> Response:
    return _to_overview(request, cluster)


def _to_overview(request: Request, cluster: str) -> Response:
    """The moment that an address holds goes with it."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/clusters/{quote(cluster, safe='')}/{query}", HTTPStatus.TEMPORARY_REDIRECT)


@router.get("/clusters/{cluster}/")
async def get_overview(request: Request, cluster: str) -> Response:
    """The overview now, or as of a position or time."""
    return await _answer(request, cluster, "", lambda asked: views.many(asked, ""))


@router.get("/clusters/{cluster}/{view}")
async def get_view(request: Request, cluster: str, view: str) -> Response:
    """A list or a picture."""
    return await _answer(request, cluster, view, lambda asked: views.many(asked, view))


@router.get("/clusters/{cluster}/{view}/{name:path}")
async def get_thing(request: Request, cluster: str, view: str, name: str) -> Response:
    """One thing by its name."""
    if not name:
        return await get_view(request, cluster, view)
    return await _answer(request, cluster, f"{view}/{name}", lambda asked: views.one(asked, view, name))


@router.get("/assets/{name}")
async def get_asset(name: str) -> Response:
    if name not in _ASSETS:
        raise NotFound(f"There is no asset {name!r}.")
    headers = {"Cache-Control": "max-age=60", "X-Content-Type-Options": "nosniff"}
    return Response(asset(name), media_type=_ASSETS[name], headers=headers)


async def _answer(request: Request, cluster: str, path: str, make: Callable[[PageRequest], str]) -> Response:
    """The page; what goes wrong is a page too, for whoever asked for pages."""
    try:
        html = await run_in_threadpool(_made, request, cluster, path, make)
    except TopologError as error:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        status = problems.status_of(error)
        again_s = _REFRESH_S if status == HTTPStatus.SERVICE_UNAVAILABLE else None
        page = outside.error(cluster, error, int(status), again_s, hint=problems.hint_of(request, error))
        return HTMLResponse(page, status, headers=SECURITY)
    return HTMLResponse(html, headers={**SECURITY, "Cache-Control": "no-store"})


def _made(request: Request, cluster: str, path: str, make: Callable[[PageRequest], str]) -> str:
    served = served_of(request, cluster)
    answers, gallery = served.answers, served.gallery
    view, given = path.partition("/")[0], dict(request.query_params)
    choices = console_lists.filters_of(view if "/" not in path else "", given)
    filters = {each.name: each.value for each in choices if each.value}
    sort, behind = given.get("sort", ""), given.get("behind") or None
    with answers.reading(None) as newest:
        reading = newest
        if given.get("as_of"):
            with parameter("as_of"):
                reading = reading_as_of(newest, given["as_of"], answers.projector.wall_ms())
        frame = _frame(request, answers, newest, reading, path, {**filters, **({"sort": sort} if sort else {})})
        shown = reading if frame.has_past else newest
        now_ms = answers.projector.wall_ms()

        def listed() -> Page[Any]:
            return console_lists.page_of(
                _listing(request, view, cluster, filters), shown, frame.as_of.age_ms, now_ms, filters, sort, behind
            )

        may = _may(request, cluster)
        return make(PageRequest(answers.projector, gallery, newest, shown, frame, choices, listed, sort, behind, may))


def _may(request: Request, cluster: str) -> May:
    """What whoever asks may see beside what they ask for, by the table of the API's lists."""
    principal = principal_of(request)

    def may(resource: str, name: str | None = None) -> bool:
        return principal.may(Needed(READ[resource], cluster, resource, name))

    return may


def _listing(request: Request, view: str, cluster: str, filters: Mapping[str, str]) -> Listing[Any]:
    """The API's list of this name."""
    if view == AUDIT.name:
        try:
            return replace(AUDIT, find=records_of(request, cluster, filters.get("within")))
        except NotFound:
            return AUDIT  # which is empty, and says why
    return LISTINGS[view]


def _frame(
    request: Request, answers: Answers, newest: Reading, reading: Reading, path: str, query: Mapping[str, str]
) -> Frame:
    view = path.partition("/")[0]
    return Frame(
        cluster=answers.projector.cluster,
        path=path,
        query=query,
        as_of=answers.as_of(reading),
        is_current=reading.is_current,
        fence_ms=cluster_row(reading).fence_ms,
        slider=slider(newest, reading, names_decisions=_may(request, answers.projector.cluster)("decisions")),
        base=str(request.base_url).rstrip("/"),
        environment=request.app.state.environment,
        has_past=view not in views.WITHOUT_PAST,
        refresh_s=_REFRESH_S if view in views.REFRESHED else None,
    )
