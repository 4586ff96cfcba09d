"""Sessions of anti-entropy, their steps, the keys that differ, repairs; replicas and schedules."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from topolog.projections import (
    differences,
    explain_session,
    history,
    repair_resources,
    repairs,
    replicas,
    resources,
    sessions,
    trees,
)
from topolog.projections.api import contract, parameters
from topolog.projections.api.list_routes import History
from topolog.projections.api.listings import DIFFERENCES, HISTORY
from topolog.projections.api.served import Here

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["anti-entropy"])


@router.get("/sessions/{name}", responses=contract.one(repair_resources.Session))
async def get_session(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One session by its number, however long ago, with its segments and what it asks now."""
    return await here.one(request, given, "Session", lambda r, _: sessions.session(r, name))


@router.get("/sessions/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_session_history(request: Request, here: Here, name: str, given: History) -> Response:
    """How one session was queued, opened, altered and ended. Newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_session(r, name))


@router.get("/sessions/{name}/explain", responses=contract.one(resources.Explanation))
async def explain_one_session(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """Whom a session waits for, how far they are; why it ended so, what it covers, what helps."""
    return await here.one(request, given, "Explanation", lambda r, _: explain_session.explain_session(r, name))


@router.get("/trees/{session}/{segment}/{step}", responses=contract.one(repair_resources.Tree))
async def get_tree(
    request: Request, here: Here, session: str, segment: str, step: str, given: parameters.Read
) -> Response:
    """One step of a segment of a session."""
    return await here.one(request, given, "Tree", lambda r, _: trees.tree(r, f"{session}/{segment}/{step}"))


@router.get(
    "/differences/{session}/{segment}/{key}", responses=contract.one(repair_resources.RowDifference, "Difference")
)
async def get_difference(
    request: Request, here: Here, session: str, segment: str, key: str, given: parameters.Read
) -> Response:
    """One key that differs. It has no past."""
    DIFFERENCES.check_past(given.as_of)
    return await here.one(
        request,
        given,
        "Difference",
        lambda r, _: differences.difference(r, f"{session}/{segment}/{key}"),
    )


@router.get("/repairs/{name}", responses=contract.one(repair_resources.Repair))
async def get_repair(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What one session moves, by its number."""
    return await here.one(request, given, "Repair", lambda r, _: repairs.repair(r, name))


@router.get("/replicas/{name}", responses=contract.one(repair_resources.Replica))
async def get_replica(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One replica by `table@name`."""
    return await here.one(request, given, "Replica", lambda r, _: replicas.replica(r, name))


@router.get("/replicas/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_replica_history(request: Request, here: Here, name: str, given: History) -> Response:
    """Every declaration of a replica, newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_replica(r, name))


@router.get("/schedules/{name}", responses=contract.one(repair_resources.Schedule))
async def get_schedule(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One schedule: when it is due, what it opened last, and why not if it did not."""
    return await here.one(request, given, "Schedule", lambda r, _: replicas.schedule(r, name))


@router.get("/schedules/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_schedule_history(request: Request, here: Here, name: str, given: History) -> Response:
    """Each time a schedule was due: what was opened, or why nothing was. Newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_schedule(r, name))
