"""Baselines and views, the histories beside them, and what would become of a node that joined."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.events import past_file
from topolog.events.views import Past
from topolog.projections import baseline_resources, baselines, history, joins, resources, views
from topolog.projections.api import contract, parameters
from topolog.projections.api.list_routes import History
from topolog.projections.api.listings import HISTORY
from topolog.projections.api.problems import InvalidParameter
from topolog.projections.api.served import Here
from topolog.projections.api.writes import read_body

router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.get("/baselines/{name}", tags=["baselines"], responses=contract.one(baseline_resources.Baseline))
async def get_baseline(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One baseline by its number; `current` is the one in force."""
    return await here.one(request, given, "Baseline", lambda r, _: baselines.baseline(r, name))


@router.get("/baselines/{name}/history", tags=["baselines"], responses=contract.many(resources.Change, "History"))
async def get_baseline_history(request: Request, here: Here, name: str, given: History) -> Response:
    """How one baseline was set, activated and replaced; of `current` all changes of who counts. Newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_baseline(r, name))


@router.get("/views/{version}", tags=["views"], responses=contract.one(baseline_resources.View))
async def get_view(request: Request, here: Here, version: str, given: parameters.Read) -> Response:
    """One view by its version; `newest` is the one in force."""
    return await here.one(request, given, "View", lambda r, _: views.view(r, version))


@router.get("/views/{version}/history", tags=["views"], responses=contract.many(resources.Change, "History"))
async def get_view_history(request: Request, here: Here, version: str, given: History) -> Response:
    """What made the view: a view never changes."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_view(r, version))


@router.get("/nodes/{name}/join", tags=["nodes"], responses=contract.one(baseline_resources.Join))
async def get_join(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What would become of the node if it joined with an empty folder. Nothing is sent."""
    return await here.one(request, given, "Join", lambda r, _: joins.join(r, name, None), is_lasting=False)


@router.post(
    "/nodes/{name}/join",
    tags=["nodes"],
    responses=contract.one(baseline_resources.Join),
    openapi_extra=contract.PAST_BODY,
)
async def post_join(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What would become of the node if it joined with this past, the content of its `topolog-past.json`. Nothing is
    sent."""
    past = _past(await read_body(request))
    return await here.one(request, given, "Join", lambda r, _: joins.join(r, name, past), is_lasting=False)


def _past(body: bytes) -> Past:
    try:
        return past_file.decode(body)
    except ValueError as error:
        hint = f"Send the file {past_file.FILE_NAME} of the node's data folder as it is."
        raise InvalidParameter("body", f"this is no past of a node: {error}", hint=hint) from error
