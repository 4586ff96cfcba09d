"""What a caller asks of a watch, read from the parameters and headers of a list."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from topolog.events.errors import BadInput, NotCaughtUp
from topolog.projections import queries
from topolog.projections.api.answers import API_VERSION, Answers, filters_of, json_response
from topolog.projections.api.listed import Asked, Listing
from topolog.projections.api.parameters import ListParameters
from topolog.projections.api.problems import parameter
from topolog.projections.api.watch.events import Mark, Watched
from topolog.projections.api.watch.feed import Feeds
from topolog.projections.api.watch.stream import Stream, Watch
from topolog.projections.durations import duration_ms
from topolog.projections.listing import chosen_fields

LAST_EVENT_ID = "Last-Event-ID"
LINES = ("application/jsonl", "application/x-ndjson")
WAIT_MS_MAX = 60_000
_NOT_WITH = ("as_of", "cursor", "sort")


async def watched_list(
    request: Request, answers: Answers, feeds: Feeds, given: ListParameters, listing: Listing[Any]
) -> Response:
    """What becomes of a list, told as it happens."""
    _check_alone(given, "watch")
    since = given.since or request.headers.get(LAST_EVENT_ID)
    await answers.catch_up(request, given)
    watched = _watched(answers, given, listing)
    mark = await _mark(answers, given, watched, since, "since" if given.since else LAST_EVENT_ID) if since else None
    watch = Watch(answers.projector, feeds, watched, None if listing.shows_present else mark, given.limit)
    accepted = request.headers.get("accept", "")
    request.state.is_stream = True
    return Stream(watch, as_lines=any(each in accepted for each in LINES))


async def changes_of_list(answers: Answers, feeds: Feeds, given: ListParameters, listing: Listing[Any]) -> Response:
    """What has become of a list behind a token, as soon as there is something to tell."""
    _check_alone(given, "changes_since")
    if listing.shows_present:
        raise BadInput(f"What becomes of {listing.name} is not in the log.", hint="Ask with watch=true, or list them.")
    assert given.changes_since is not None, "asked only behind a token"
    watched = _watched(answers, given, listing)
    mark = await _mark(answers, given, watched, given.changes_since, "changes_since")
    with parameter("wait"):
        wait_s = min(duration_ms(given.wait), WAIT_MS_MAX) / 1000
    told, mark = await Watch(answers.projector, feeds, watched, mark, given.limit).changes(wait_s, given.limit)
    content = {"kind": "ChangeList", "apiVersion": API_VERSION, "items": [each.told for each in told]}
    return json_response({**content, "next": mark.token(watched.log_id)}, headers={"Cache-Control": "no-store"})


def _watched(answers: Answers, given: ListParameters, listing: Listing[Any]) -> Watched:
    with parameter("fields"):
        fields = chosen_fields(given.fields, listing.item) if given.fields else ()
    with answers.reading(None) as reading:
        filters = listing.resolved(reading, filters_of(listing, given), answers.projector.wall_ms())
        next(listing.items(reading, Asked(0, filters)), None)  # refuses filters that name what is not there
        return Watched(listing, queries.cluster_row(reading).log_id, filters, fields)


async def _mark(answers: Answers, given: ListParameters, watched: Watched, text: str, name: str) -> Mark:
    """The place that a token names, once this reader has come there."""
    with parameter(name):
        mark = Mark.parse(text, watched.log_id)
    with parameter("wait"):
        wait_ms = min(duration_ms(given.wait), WAIT_MS_MAX)
    if not await answers.commits.until(
        lambda: answers.projector.meta.position >= mark.position or None, wait_ms / 1000
    ):
        raise NotCaughtUp(
            f"This reader is at position {answers.projector.meta.position}, {mark.position} was asked for.",
            hint=answers.projector.stopped or f"It did not come within {wait_ms} ms; ask again.",
        )
    if mark.told is not None or watched.grows:
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
