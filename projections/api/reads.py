"""GET /v1/…: every address of the query API. What each finds is in `queries.py` and `explain.py`."""

from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from topolog.events.asked import RequestId
from topolog.projections import (
    explain,
    groups,
    health,
    history,
    letters,
    queries,
    resources,
    situation,
    status,
    status_resources,
    told_changes,
    topic_resources,
    topics,
)
from topolog.projections import explain_cluster as cluster_explained
from topolog.projections.api import contract, parameters
from topolog.projections.api.answers import API_VERSION, json_response
from topolog.projections.api.list_routes import History
from topolog.projections.api.listings import DEAD_LETTERS, HISTORY, LEASE_HEALTH, TOPICS
from topolog.projections.api.served import Everything, Here
from topolog.projections.explain_request import explain_request as explain_request_of

T = TypeVar("T")

Sequence = Annotated[int, Path(ge=1)]
Position = Annotated[int, Path(ge=0)]


clusters = APIRouter(tags=["clusters"])
router = APIRouter(prefix="/v1/clusters/{cluster}")


@clusters.get("/v1/clusters", responses=contract.many(resources.ClusterRef, "ClusterList"))
async def list_clusters(everything: Everything, _: parameters.Nothing) -> Response:
    """The clusters this API serves."""
    log_ids = {name: served.projector.meta.header.log_id for name, served in everything.items()}
    items = [resources.ClusterRef(name, log_id.hex() if log_id else None) for name, log_id in log_ids.items()]
    return json_response({"kind": "ClusterList", "apiVersion": API_VERSION, "items": items})


@router.get("/cluster", tags=["cluster"], responses=contract.one(resources.Cluster))
async def get_cluster(request: Request, here: Here, given: parameters.Read) -> Response:
    """The cluster as a whole, in a sentence and in figures."""
    return await here.one(request, given, "Cluster", situation.cluster)


@router.get("/status", tags=["cluster"], responses=contract.one(status_resources.Status))
async def get_status(request: Request, here: Here, given: parameters.Read) -> Response:
    """The cluster at a glance: whether it is well, why not, who is silent and what hangs on it, what went wrong
    last."""
    return await here.one(request, given, "Status", status.status)


@router.get("/cluster/history", tags=["cluster"], responses=contract.many(resources.Change, "History"))
async def get_cluster_history(request: Request, here: Here, given: History) -> Response:
    """Every change of leadership, topology version and state, newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_cluster(r))


@router.get("/cluster/explain", tags=["cluster"], responses=contract.one(resources.Explanation))
async def explain_cluster(request: Request, here: Here, given: parameters.Read) -> Response:
    """Who leads and since when; what the state and the baseline wait for, and what ends that."""
    return await here.one(request, given, "Explanation", cluster_explained.explain_cluster)


@router.get("/nodes/{name}", tags=["nodes"], responses=contract.one(resources.Node))
async def get_node(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One node in its last incarnation, with its lease."""
    return await here.one(request, given, "Node", lambda r, age_ms: health.node(r, age_ms, name))


@router.get("/nodes/{name}/history", tags=["nodes"], responses=contract.many(resources.Change, "History"))
async def get_node_history(request: Request, here: Here, name: str, given: History) -> Response:
    """Every change of one node, newest first; lease renewals have no history."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_node(r, name))


@router.get("/nodes/{name}/explain", tags=["nodes"], responses=contract.one(resources.Explanation))
async def explain_node(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """Whether the node is a member, what its lease says, why it is out."""
    return await here.one(request, given, "Explanation", lambda r, age_ms: explain.explain_node(r, age_ms, name))


@router.get("/leases/{name}", tags=["leases"], responses=contract.one(resources.Lease))
async def get_lease(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """The lease of one member, by the node's name."""
    return await here.one(request, given, "Lease", lambda r, age_ms: queries.lease(r, age_ms, name))


@router.get("/lease-health/{name}", tags=["leases"], responses=contract.one(resources.LeaseHealth))
async def get_lease_health(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """How punctual the heartbeats of one member are. It has no past."""
    LEASE_HEALTH.check_past(given.as_of)
    return await here.one(request, given, "LeaseHealth", lambda r, age_ms: health.lease_health_of(r, age_ms, name))


@router.get("/types/{name}", tags=["types"], responses=contract.one(resources.Type))
async def get_type(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One type, by its name or its id."""
    return await here.one(request, given, "Type", lambda r, _: queries.type_named(r, name), is_lasting=True)


@router.get("/types/{name}/history", tags=["types"], responses=contract.many(resources.Change, "History"))
async def get_type_history(request: Request, here: Here, name: str, given: History) -> Response:
    """Every change of one type, newest first; also of one that was removed."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_type(r, name))


@router.get("/types/{name}/explain", tags=["types"], responses=contract.one(resources.Explanation))
async def explain_type(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What is accepted and on what evidence, what is pending and whom it waits for, what was refused."""
    return await here.one(request, given, "Explanation", lambda r, _: explain.explain_type(r, name))


@router.get("/groups/{name}", tags=["groups"], responses=contract.one(resources.Group))
async def get_group(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One group."""
    return await here.one(request, given, "Group", lambda r, _: groups.group(r, name), is_lasting=True)


@router.get("/groups/{name}/history", tags=["groups"], responses=contract.many(resources.Change, "History"))
async def get_group_history(request: Request, here: Here, name: str, given: History) -> Response:
    """Every change of the groups of this name, newest first; also of one that was dropped."""
    return await here.page(request, given, HISTORY, lambda r, _: history.of_group(r, name))


@router.get("/groups/{name}/explain", tags=["groups"], responses=contract.one(resources.Explanation))
async def explain_group(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What is shared out and by what rules, which servers may hold copies, what was refused."""
    return await here.one(request, given, "Explanation", lambda r, _: explain.explain_group(r, name))


@router.get("/decisions/{position}", tags=["decisions"], responses=contract.one(resources.Decision))
async def get_decision(request: Request, here: Here, position: Position, given: parameters.Read) -> Response:
    """The decision at one position."""
    return await here.one(request, given, "Decision", lambda r, _: told_changes.decision(r, position), is_lasting=True)


@router.get("/topics/{name}", tags=["topics"], responses=contract.one(topic_resources.ClusterTopic, "Topic"))
async def get_topic(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One topic, by its short name or the broker's. It has no past."""
    TOPICS.check_past(given.as_of)
    return await here.one(request, given, "Topic", lambda r, age_ms: topics.topic(r, age_ms, name))


@router.get(
    "/requests/{requester:path}/{sequence}/history",
    tags=["requests"],
    responses=contract.many(resources.Change, "History"),
)
async def get_request_history(
    request: Request, here: Here, requester: str, sequence: Sequence, given: History
) -> Response:
    """When the request got its outcome, and when coordinators stopped keeping it."""
    name = RequestId(requester, sequence)
    return await here.page(request, given, HISTORY, lambda r, _: history.of_request(r, name))


@router.get(
    "/requests/{requester:path}/{sequence}/explain", tags=["requests"], responses=contract.one(resources.Explanation)
)
async def explain_request(
    request: Request, here: Here, requester: str, sequence: Sequence, given: parameters.Read
) -> Response:
    """What became of the request, by which rule, and whether its effect is complete."""
    name = RequestId(requester, sequence)
    return await here.one(request, given, "Explanation", lambda r, age_ms: explain_request_of(r, age_ms, name))


@router.get("/requests/{requester:path}/{sequence}", tags=["requests"], responses=contract.one(resources.Request))
async def get_request(
    request: Request, here: Here, requester: str, sequence: Sequence, given: parameters.Read
) -> Response:
    """One request and its outcome, however long ago."""
    name = RequestId(requester, sequence)
    return await here.one(request, given, "Request", lambda r, _: queries.request(r, name), is_lasting=True)


@router.get(
    "/dead-letters/{name}", tags=["dead letters"], responses=contract.one(resources.DeadLetterDetail, "DeadLetter")
)
async def get_dead_letter(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """One dead letter with its headers, its first bytes, and what became of its replays. It has no past."""
    DEAD_LETTERS.check_past(given.as_of)
    return await here.one(request, given, "DeadLetter", lambda r, _: letters.letter(r, name))
