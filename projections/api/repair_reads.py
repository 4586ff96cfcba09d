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
from topolog.projections.api.reads import check_no_past, number, position_key
from topolog.projections.api.served import Here

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["anti-entropy"])


@router.get("/sessions", responses=contract.many(repair_resources.Session))
async def list_sessions(request: Request, here: Here, given: parameters.Sessions) -> Response:
    """Sessions that compare or repair the replicas of a table, newest first; all that are open, and the last that have
    ended."""
    return await here.page(
        request,
        given,
        "SessionList",
        lambda r, asked: sessions.sessions(r, asked.filters, number(asked.after)),
        lambda each: str(each.number),
        begins_after=True,
        is_lasting=False,
    )


@router.get("/sessions/{name}", responses=contract.one(repair_resources.Session))
async def get_session(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One session by its number, however long ago, with its segments and what it asks now."""
    return await here.one(request, given, "Session", lambda r, _: sessions.session(r, name), is_lasting=False)


@router.get("/sessions/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_session_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
    """How one session was queued, opened, altered and ended. Newest first."""
    return await here.page(request, given, "History", lambda r, _: history.of_session(r, name), position_key)


@router.get("/sessions/{name}/explain", responses=contract.one(resources.Explanation))
async def explain_one_session(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """Whom a session waits for, how far they are; why it ended so, what it covers, what helps."""
    return await here.one(
        request, given, "Explanation", lambda r, _: explain_session.explain_session(r, name), is_lasting=False
    )


@router.get("/trees", responses=contract.many(repair_resources.Tree))
async def list_trees(request: Request, here: Here, given: parameters.Trees) -> Response:
    """The steps of sessions: who was asked for what, and how trees compared. Sessions newest first."""
    return await here.page(
        request,
        given,
        "TreeList",
        lambda r, asked: trees.trees(r, asked.filters, asked.after),
        lambda each: each.name,
        begins_after=True,
    )


@router.get("/trees/{session}/{segment}/{step}", responses=contract.one(repair_resources.Tree))
async def get_tree(
    request: Request, here: Here, session: str, segment: str, step: str, given: parameters.Read
) -> Response:
    """One step of a segment of a session."""
    return await here.one(request, given, "Tree", lambda r, _: trees.tree(r, f"{session}/{segment}/{step}"))


@router.get("/differences", responses=contract.many(repair_resources.RowDifference, "DifferenceList"))
async def list_differences(request: Request, here: Here, given: parameters.Differences) -> Response:
    """The keys that differ, of the 20 newest sessions that have found any, 10,000 each at most. It has no past."""
    check_no_past(given, differences.NO_PAST)
    return await here.page(
        request,
        given,
        "DifferenceList",
        lambda r, asked: differences.differences(r, asked.filters, asked.after),
        lambda each: each.name,
        begins_after=True,
        is_lasting=False,
    )


@router.get(
    "/differences/{session}/{segment}/{key}", responses=contract.one(repair_resources.RowDifference, "Difference")
)
async def get_difference(
    request: Request, here: Here, session: str, segment: str, key: str, given: parameters.Read
) -> Response:
    """One key that differs. It has no past."""
    check_no_past(given, differences.NO_PAST)
    return await here.one(
        request,
        given,
        "Difference",
        lambda r, _: differences.difference(r, f"{session}/{segment}/{key}"),
        is_lasting=False,
    )


@router.get("/repairs", responses=contract.many(repair_resources.Repair))
async def list_repairs(request: Request, here: Here, given: parameters.Repairs) -> Response:
    """What sessions that repair have moved, newest first."""
    return await here.page(
        request,
        given,
        "RepairList",
        lambda r, asked: repairs.repairs(r, asked.filters, number(asked.after)),
        lambda each: str(each.number),
        begins_after=True,
    )


@router.get("/repairs/{name}", responses=contract.one(repair_resources.Repair))
async def get_repair(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What one session moves, by its number."""
    return await here.one(request, given, "Repair", lambda r, _: repairs.repair(r, name))


@router.get("/replicas", responses=contract.many(repair_resources.Replica))
async def list_replicas(request: Request, here: Here, given: parameters.Replicas) -> Response:
    """The replicas that validators have declared, by name."""
    return await here.page(
        request,
        given,
        "ReplicaList",
        lambda r, asked: replicas.replicas(r, asked.filters, asked.after or ""),
        lambda each: each.name,
        begins_after=True,
    )


@router.get("/replicas/{name}", responses=contract.one(repair_resources.Replica))
async def get_replica(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One replica by `table@name`."""
    return await here.one(request, given, "Replica", lambda r, _: replicas.replica(r, name))


@router.get("/replicas/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_replica_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
    """Every declaration of a replica, newest first."""
    return await here.page(request, given, "History", lambda r, _: history.of_replica(r, name), position_key)


@router.get("/schedules", responses=contract.many(repair_resources.Schedule))
async def list_schedules(request: Request, here: Here, given: parameters.Schedules) -> Response:
    """Sessions that are opened again and again, by name."""
    return await here.page(
        request,
        given,
        "ScheduleList",
        lambda r, asked: replicas.schedules(r, asked.filters, asked.after or ""),
        lambda each: each.name,
        begins_after=True,
        is_lasting=False,
    )


@router.get("/schedules/{name}", responses=contract.one(repair_resources.Schedule))
async def get_schedule(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One schedule: when it is due, what it opened last, and why not if it did not."""
    return await here.one(request, given, "Schedule", lambda r, _: replicas.schedule(r, name), is_lasting=False)


@router.get("/schedules/{name}/history", responses=contract.many(resources.Change, "History"))
async def get_schedule_history(request: Request, here: Here, name: str, given: parameters.History) -> Response:
    """Each time a schedule was due: what was opened, or why nothing was. Newest first."""
    return await here.page(request, given, "History", lambda r, _: history.of_schedule(r, name), position_key)
