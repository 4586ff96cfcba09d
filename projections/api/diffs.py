"""GET /v1/clusters/<cluster>/diff/<list>: what of a list differs between two moments.

Only items that the sets in between can have changed are looked at, so it costs by what has happened, not by how much
there is. Both sides are as they are told for ever, without what is known of the present alone.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.state import Key
from topolog.projections import history, queries, resources, situation
from topolog.projections.api import contract
from topolog.projections.api.answers import API_VERSION, Answers, cursor_of, filters_of, headers_of, json_response
from topolog.projections.api.list_routes import asking
from topolog.projections.api.listing import Listing
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.parameters import LIMIT_MAX, KnowledgeParameters
from topolog.projections.api.problems import InvalidParameter, parameter
from topolog.projections.api.served import Here
from topolog.projections.api.watch.events import Items, Mark, Watched
from topolog.projections.cursors import Cursor, cut
from topolog.projections.moments import reading_as_of
from topolog.projections.resources import Diff
from topolog.projections.store import Reading

router = APIRouter(prefix="/v1/clusters/{cluster}/diff")

CLUSTER = Listing(
    name="cluster",
    tag="cluster",
    says="The cluster as a whole.",
    item=resources.Cluster,
    find=lambda r, asked: [situation.cluster(r, asked.age_ms)],
    key=lambda each: each.name,
)
COMPARED = (CLUSTER, *(each for each in LISTINGS.values() if not each.no_past))
_CHANGES = {"ADDED": "ADDED", "MODIFIED": "CHANGED", "DELETED": "REMOVED"}


class DiffParameters(KnowledgeParameters):
    """Between which moments, and which part of what differs."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    begin: Annotated[
        str | None, Field(alias="from", description="The earlier moment, as `as_of` takes it; needed without `cursor`.")
    ] = None
    end: Annotated[str | None, Field(alias="to", description="The later one; now unless it is given.")] = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="The most items of one page.")] = 100
    cursor: Annotated[
        str | None, Field(description="`next` of the page before; beside it `from` and `to` count for nothing.")
    ] = None


def differences(listing: Listing[Any], earlier: Reading, later: Reading, filters: Mapping[str, str]) -> Iterator[Diff]:
    """What of the list differs, by key; of a list that only grows what has come, in its order."""
    watched = Watched(listing, queries.cluster_row(later).log_id, filters)
    if watched.grows:
        for event in watched.events(later, Mark(earlier.position)):
            yield Diff(event.name or "", "ADDED", None, msgspec.json.decode(event.item or b"null"))
        return
    rows: set[Key] = set()
    for _, changed in later.sets(earlier.position):
        rows.update(changed)
    old, new = watched.touched(earlier, rows), watched.touched(later, rows)
    keys = {listing.title_of(item): key for key, (_, item) in {**old, **new}.items()}
    for event in watched.between(Mark(later.position), old, new):
        assert event.name is not None, "each event is about an item"
        yield _diff(event.name, _CHANGES[event.type], keys[event.name], old, new)


def _diff(name: str, change: str, key: str, old: Items, new: Items) -> Diff:
    before, after = (msgspec.to_builtins(held[key][1]) if key in held else None for held in (old, new))
    if before is None or after is None:
        return Diff(name, change, before, after)
    fields = history.changed_fields(before, after)
    return Diff(name, change, before, after, tuple(_told(field, *values) for field, values in fields.items()))


def _told(field: str, was: object, now: object) -> str:
    """`state OWNING → LOST`"""
    return f"{field} {_plain(was)} → {_plain(now)}"


def _plain(value: object) -> str:
    if value in (None, "", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _page(here: Answers, listing: Listing[Any], given: DiffParameters, path: str) -> Response:
    with here.reading(None) as newest:
        asked = _asked(here, newest, listing, given, path)
        earlier, later = newest.as_of(asked.since), newest.as_of(asked.position)
        found = differences(listing, earlier, later, asked.filters)
        page = cut(found, lambda each: each.name, asked.after or None, given.limit)
        following = None if page.last is None else str(msgspec.structs.replace(asked, after=page.last))
        stands = here.as_of(later)
        envelope = {"kind": "Diff", "apiVersion": API_VERSION, "asOf": stands, "since": here.as_of(earlier)}
        return json_response({**envelope, "items": page.items, "next": following}, headers=headers_of(stands))


def _asked(here: Answers, newest: Reading, listing: Listing[Any], given: DiffParameters, path: str) -> Cursor:
    """Both positions, and behind which item to go on; raises BadInput where they cannot be meant."""
    if given.cursor is not None:
        return cursor_of(given.cursor, path, listing, filters_of(listing, given), None, None)
    if given.begin is None:
        raise InvalidParameter("from", "it is needed to compare", hint="Say since when, as from=15m.")
    now_ms = here.projector.wall_ms()
    with parameter("from"):
        earlier = reading_as_of(newest, given.begin, now_ms)
    with parameter("to"):
        later = newest if given.end is None else reading_as_of(newest, given.end, now_ms)
    if earlier.position > later.position:
        raise InvalidParameter("from", f"position {earlier.position} lies behind {later.position}, which is `to`")
    filters = listing.resolved(newest, filters_of(listing, given), now_ms)
    return Cursor(path, later.position, "", filters, since=earlier.position)


def _add(listing: Listing[Any]) -> None:
    async def compare(request: Request, here: Here, given: DiffParameters) -> Response:
        await here.catch_up(request, given)
        return await run_in_threadpool(_page, here, listing, given, request.url.path)

    router.add_api_route(
        f"/{listing.name}",
        asking(compare, listing, DiffParameters),
        tags=[listing.tag],
        responses=contract.many(Diff, "Diff"),
        description=f"What differs between two moments. {listing.says}",
        name=f"compare {listing.name}",
    )


for _listing in COMPARED:
    _add(_listing)
