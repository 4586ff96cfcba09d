"""What a caller asks of a watch, read from the parameters and headers of a list."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from topolog.events.errors import BadInput
from topolog.projections import queries
from topolog.projections.api.answers import API_VERSION, Answers, filters_of, json_response, patience_ms
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.parameters import ListParameters
from topolog.projections.api.problems import parameter
from topolog.projections.api.watch.events import Mark, Watched
from topolog.projections.api.watch.feed import Feeds
from topolog.projections.api.watch.stream import Stream, Watch
from topolog.projections.moments import Token
from topolog.projections.ordering import chosen_fields

LAST_EVENT_ID = "Last-Event-ID"
LINES = ("application/jsonl", "application/x-ndjson")
_NOT_WITH = ("as_of", "cursor", "sort")


async def watched_list(
    request: Request, answers: Answers, feeds: Feeds, given: ListParameters, listing: Listing[Any]
) -> Response:
    """What becomes of a list, told as it happens."""
    _check_alone(given, "watch")
    since = given.since or request.headers.get(LAST_EVENT_ID)
    await answers.catch_up(request, given)
    watched = _watched(answers, given, listing)
    mark = None
    if since:
        name = "since" if given.since else LAST_EVENT_ID
        mark = await _mark(answers, watched, since, name, patience_ms(request, given))
    behind = None if listing.shows_present else mark
    watch = Watch(answers.projector, feeds, watched, behind, given.limit, request.state.admission)
    accepted = request.headers.get("accept", "")
    request.state.is_stream = True
    return Stream(watch, as_lines=any(each in accepted for each in LINES))


async def changes_of_list(
    request: Request, answers: Answers, feeds: Feeds, given: ListParameters, listing: Listing[Any]
) -> Response:
    """What has become of a list behind a token, as soon as there is something to tell."""
    _check_alone(given, "changes_since")
    if listing.shows_present:
        raise BadInput(f"What becomes of {listing.name} is not in the log.", hint="Ask with watch=true, or list them.")
    assert given.changes_since is not None, "asked only behind a token"
    watched = _watched(answers, given, listing)
    wait_ms = patience_ms(request, given)
    mark = await _mark(answers, watched, given.changes_since, "changes_since", wait_ms)
    watch = Watch(answers.projector, feeds, watched, mark, given.limit, request.state.admission)
    told, mark = await watch.changes(wait_ms / 1000, given.limit)
    content = {"kind": "ChangeList", "apiVersion": API_VERSION, "items": [each.told for each in told]}
    return json_response({**content, "next": mark.token(watched.log_id)}, headers={"Cache-Control": "no-store"})


def _watched(answers: Answers, given: ListParameters, listing: Listing[Any]) -> Watched:
    with parameter("fields"):
        fields = chosen_fields(given.fields, listing.item) if given.fields else ()
    with answers.reading(None) as reading:
        filters = listing.resolved(reading, filters_of(listing, given), answers.projector.wall_ms())
        next(listing.items(reading, ListQuery(0, filters)), None)  # refuses filters that name what is not there
        return Watched(listing, queries.cluster_row(reading).log_id, filters, fields)


async def _mark(answers: Answers, watched: Watched, text: str, name: str, wait_ms: int) -> Mark:
    """The place that a token names, once this reader has come there."""
    with parameter(name):
        mark = Mark.parse(text, watched.log_id)
    await answers.reach(Token(mark.position, watched.log_id), wait_ms)
    if not mark.is_whole or watched.grows:
        return mark
    with answers.reading(None) as reading:  # a position inside a set stands for all of it
        return Mark(reading.as_of(mark.position).position)


def _check_alone(given: ListParameters, name: str) -> None:
    for other in _NOT_WITH:
        if getattr(given, other) is not None:
            with parameter(other):
                raise BadInput(
                    f"{name} tells what becomes of the newest list, in the order of the log.", hint="Leave it out."
                )
