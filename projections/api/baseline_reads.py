"""GET /v1/…: baselines and views."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.projections import baseline_resources, baselines, history, resources, views
from topolog.projections.api import contract, parameters
from topolog.projections.api.reads import Here, number, position_key

router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.get("/baselines", tags=["baselines"], responses=contract.many(baseline_resources.Baseline))
async def list_baselines(request: Request, here: Here, given: parameters.History) -> Response:
    """The baseline in force and all former ones, newest first."""
    return await here.page(
        request,
        given,
        "BaselineList",
        lambda r, asked: baselines.baselines(r, number(asked.after)),
        lambda each: str(each.number),
        begins_after=True,
    )


@router.get("/baselines/{name}", tags=["baselines"], responses=contract.one(baseline_resources.Baseline))
async def get_baseline(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One baseline by its number; `current` is the one in force."""
    return await here.one(request, given, "Baseline", lambda r, _: baselines.baseline(r, name))


@router.get("/baselines/{name}/history", tags=["baselines"], responses=contract.many(resources.Change, "History"))
async def get_baseline_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
    """How one baseline was set, activated and replaced; of `current` all changes of who counts. Newest first."""
    return await here.page(request, given, "History", lambda r, _: history.of_baseline(r, name), position_key)


@router.get("/views", tags=["views"], responses=contract.many(baseline_resources.View))
async def list_views(request: Request, here: Here, given: parameters.History) -> Response:
    """Every change of who is there or of what is shared out, newest first."""
    return await here.page(
        request,
        given,
        "ViewList",
        lambda r, asked: views.views(r, number(asked.after)),
        lambda each: str(each.position),
        begins_after=True,
    )


@router.get("/views/{version}", tags=["views"], responses=contract.one(baseline_resources.View))
async def get_view(request: Request, here: Here, version: str, given: parameters.Read) -> Response:
    """One view by its version; `newest` is the one in force."""
    return await here.one(request, given, "View", lambda r, _: views.view(r, version))


@router.get("/views/{version}/history", tags=["views"], responses=contract.many(resources.Change, "History"))
async def get_view_history(request: Request, here: Here, version: str, given: parameters.History) -> Response:
    """What made the view: a view never changes."""
    return await here.page(request, given, "History", lambda r, _: history.of_view(r, version), position_key)
