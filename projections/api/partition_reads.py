"""GET /v1/…: partitions, what nodes hold of groups, exchanges, and what would happen if a node went."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from topolog.projections import (
    exchanges,
    explain_exchange,
    explain_partition,
    forecast,
    partition_history,
    partition_resources,
    partitions,
    resources,
    single_maps,
)
from topolog.projections.api import contract, parameters
from topolog.projections.api.list_routes import History
from topolog.projections.api.listings import HISTORY, SINGLE_MAPS
from topolog.projections.api.served import Here

Number = Annotated[int, Path(ge=0)]
router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.get(
    "/partitions/{group}/{partition}", tags=["partitions"], responses=contract.one(partition_resources.Partition)
)
async def get_partition(
    request: Request, here: Here, group: str, partition: Number, given: parameters.Read
) -> Response:
    """One partition."""
    return await here.one(
        request, given, "Partition", lambda r, _: partitions.partition(r, group, partition), is_lasting=True
    )


@router.get(
    "/partitions/{group}/{partition}/history",
    tags=["partitions"],
    responses=contract.many(resources.Change, "History"),
)
async def get_partition_history(
    request: Request, here: Here, group: str, partition: Number, given: History
) -> Response:
    """Every change of one partition, newest first, and the decision that made it; also of a group that was dropped."""
    return await here.page(request, given, HISTORY, lambda r, _: partition_history.of_partition(r, group, partition))


@router.get(
    "/partitions/{group}/{partition}/explain",
    tags=["partitions"],
    responses=contract.one(resources.Explanation),
)
async def explain_one_partition(
    request: Request, here: Here, group: str, partition: Number, given: parameters.Read
) -> Response:
    """Why it is where it is: what the affinity wants and why, who acts since when, who before, what it waits for."""
    return await here.one(
        request,
        given,
        "Explanation",
        lambda r, age_ms: explain_partition.explain_partition(r, age_ms, group, partition),
    )


@router.get(
    "/maps/{group}/{node}",
    tags=["partitions"],
    responses=contract.one(partition_resources.NodeMapDetail, "NodeMap"),
)
async def get_map(request: Request, here: Here, group: str, node: str, given: parameters.Read) -> Response:
    """What one node holds of one group, partition by partition."""
    return await here.one(request, given, "NodeMap", lambda r, _: partitions.node_map(r, group, node), is_lasting=True)


@router.get(
    "/single-maps/{name}",
    tags=["exchanges"],
    responses=contract.one(partition_resources.SingleMapDetail, "SingleMap"),
)
async def get_single_map(request: Request, here: Here, name: str, given: parameters.Read) -> Response:
    """What one server says itself that it holds, group by group, beside what the log says. It has no past."""
    SINGLE_MAPS.check_past(given.as_of)
    return await here.one(request, given, "SingleMap", lambda r, age_ms: single_maps.single_map(r, age_ms, name))


@router.get(
    "/exchanges/{version}",
    tags=["exchanges"],
    responses=contract.one(partition_resources.ExchangeDetail, "Exchange"),
)
async def get_exchange(request: Request, here: Here, version: str, given: parameters.Read) -> Response:
    """One exchange, by any view that it is about; `newest` is the open one, else the last."""
    return await here.one(request, given, "Exchange", lambda r, age_ms: exchanges.exchange(r, age_ms, version))


@router.get("/exchanges/{version}/history", tags=["exchanges"], responses=contract.many(resources.Change, "History"))
async def get_exchange_history(request: Request, here: Here, version: str, given: History) -> Response:
    """How an exchange began, what it took in, and how it ended; newest first."""
    return await here.page(request, given, HISTORY, lambda r, _: partition_history.of_exchange(r, version))


@router.get("/exchanges/{version}/explain", tags=["exchanges"], responses=contract.one(resources.Explanation))
async def explain_one_exchange(request: Request, here: Here, version: str, given: parameters.Read) -> Response:
    """What an exchange is about, whom it waits for or has waited for, what to do."""
    return await here.one(
        request, given, "Explanation", lambda r, age_ms: explain_exchange.explain_exchange(r, age_ms, version)
    )


@router.get("/nodes/{name}/forecast", tags=["nodes"], responses=contract.one(partition_resources.Forecast))
async def get_forecast(request: Request, here: Here, name: str, given: parameters.Forecast) -> Response:
    """What would happen to partitions if the node died or was removed, as the coordinator would decide it now."""
    what = forecast.What(given.event)
    return await here.one(request, given, "Forecast", lambda r, _: forecast.forecast(r, name, what))
