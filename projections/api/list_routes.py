"""GET /v1/clusters/<cluster>/<list>: the pages of every list that `listings.py` declares."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import create_model
from starlette.responses import Response

from topolog.projections.api import contract, filters
from topolog.projections.api.listing import Listing
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.parameters import KnowledgeParameters, ListParameters, PageParameters
from topolog.projections.api.served import There
from topolog.projections.api.watch.asking import changes_of_list, watched_list

router = APIRouter(prefix="/v1/clusters/{cluster}")

Endpoint = Callable[..., Awaitable[Response]]


class HistoryParameters(filters.History, PageParameters):
    pass


History = Annotated[HistoryParameters, Query()]


def asking(endpoint: Endpoint, listing: Listing[Any], base: type[KnowledgeParameters]) -> Endpoint:
    """The endpoint, whose parameter `given` takes those of `base` and the filters of the list."""
    title = "".join(part.title() for part in listing.name.split("-"))
    model = create_model(f"{title}{base.__name__}", __base__=(listing.filters, base))
    endpoint.__annotations__["given"] = Annotated[model, Query()]
    return endpoint


def _add(listing: Listing[Any]) -> None:
    async def list_items(request: Request, there: There, given: ListParameters) -> Response:
        if given.watch != "false":
            shown = replace(listing, shows_present=listing.shows_present or given.watch == "present")
            return await watched_list(request, there.answers, there.feeds, given, shown)
        if given.changes_since is not None:
            return await changes_of_list(request, there.answers, there.feeds, given, listing)
        return await there.answers.page(request, given, listing)

    router.add_api_route(
        f"/{listing.name}",
        asking(list_items, listing, ListParameters),
        tags=[listing.tag],
        responses=contract.many(listing.item, listing.list_kind),
        description=listing.says,
        name=f"list {listing.name}",
    )


for _listing in LISTINGS.values():
    _add(_listing)
