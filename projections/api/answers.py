"""How a question becomes an answer: wait if asked to, take one reading, name its position and age.

All rows of an answer come from one reading, hence from one position. RocksDB is read in a worker thread, waiting is
done in the event loop, so that slow lists and patient callers do not stand in each other's way. Nothing here asks the
broker anything.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from fastapi import Request
from msgspec.structs import replace as replaced
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.errors import BadInput, NotCaughtUp, Retriable
from topolog.projections.api.listing import Find, Listing, ListQuery
from topolog.projections.api.parameters import (
    AT_LEAST,
    KnowledgeParameters,
    NoParameters,
    PageParameters,
    ReadParameters,
)
from topolog.projections.api.problems import parameter
from topolog.projections.api.waiting import Commits
from topolog.projections.cursors import Cursor
from topolog.projections.durations import duration_ms
from topolog.projections.moments import Token, position_time, reading_as_of
from topolog.projections.ordering import chosen_fields, with_fields
from topolog.projections.projector import Projector
from topolog.projections.queries import cluster_row
from topolog.projections.resources import AsOf
from topolog.projections.store import Reading

API_VERSION = "topolog/v1"
WAIT_MS_MAX = 60_000

T = TypeVar("T", bound=msgspec.Struct)


class Stale(Retriable):
    """What this reader knows is older than the caller wants it to be."""

    code = "stale"


class Answers:
    """Answers questions about the one cluster that `projector` reads."""

    def __init__(self, projector: Projector, commits: Commits) -> None:
        self.projector = projector
        self.commits = commits

    async def one(
        self,
        request: Request,
        parameters: ReadParameters,
        kind: str,
        ask: Callable[[Reading, int], Any],
        *,
        is_lasting: bool = False,
    ) -> Response:
        """An envelope with the one item that `ask` finds; its second argument is the age (ms) of the answer.

        `is_lasting`: what is found at one position stays the same, so that who has it need not wait for it again.
        """

        def body(reading: Reading, age_ms: int) -> Mapping[str, Any]:
            return {"item": ask(reading, age_ms)}

        return await self._answer(request, parameters, kind, parameters.as_of, body, is_lasting)

    async def page(
        self, request: Request, parameters: PageParameters, listing: Listing[T], find: Find[T] | None = None
    ) -> Response:
        """An envelope with one page of a list; `find` finds its items in the place of the listing's own."""
        listing = listing if find is None else replace(listing, find=find)
        path, given, cursor = request.url.path, filters_of(listing, parameters), None
        if parameters.cursor is not None:
            cursor = cursor_of(parameters.cursor, path, listing, given, parameters.sort, parameters.fields)
        listing.check_past(parameters.as_of)
        wanted = cursor or Cursor(path, 0, "", given, parameters.sort or "", parameters.fields or "")
        order = listing.order(wanted.sort)
        with parameter("fields"):
            fields = chosen_fields(wanted.fields, listing.item) if wanted.fields else None

        def body(reading: Reading, age_ms: int) -> Mapping[str, Any]:
            filters = wanted.filters if cursor else listing.resolved(reading, wanted.filters, self.projector.wall_ms())
            asked = ListQuery(age_ms, filters, cursor.after if cursor else None)
            page = listing.page(reading, asked, order, parameters.limit)
            items = page.items if fields is None else [with_fields(each, fields) for each in page.items]
            following = None
            if page.last is not None:
                following = str(replaced(wanted, position=reading.position, after=page.last, filters=filters))
            return {"items": items, "next": following}

        as_of = str(cursor.position) if cursor else parameters.as_of
        return await self._answer(request, parameters, listing.list_kind, as_of, body, listing.is_lasting)

    def as_of(self, reading: Reading) -> AsOf:
        token = Token(reading.position, cluster_row(reading).log_id)
        time = position_time(reading, reading.position)
        return AsOf(reading.position, time, str(token), self.projector.age_ms, self.projector.stopped)

    async def catch_up(self, request: Request, parameters: KnowledgeParameters) -> None:
        """Wait until `at_least` is reached; raises NotCaughtUp if that takes longer than `wait`, and Stale if what is
        known is older than `max_age` then."""
        at_least = parameters.at_least or request.headers.get(AT_LEAST)
        if at_least is not None:
            with parameter("at_least" if parameters.at_least else AT_LEAST):
                token = Token.parse(at_least)
            await self.reach(token, patience_ms(request, parameters))
        if parameters.max_age is not None:
            with parameter("max_age"):
                max_age_ms = duration_ms(parameters.max_age)
            self._check_age(max_age_ms)

    @contextmanager
    def reading(self, as_of: str | None) -> Iterator[Reading]:
        """A reading of the moment that `as_of` names, None for now; raises NotCaughtUp while nothing is known."""
        with self.projector.reading() as newest:
            cluster_row(newest)
            if as_of is None:
                yield newest
                return
            with parameter("as_of"):
                reading = reading_as_of(newest, as_of, self.projector.wall_ms())
            yield reading

    async def reach(self, token: Token, wait_ms: int) -> None:
        """Wait until the token's position is reached; raises NotCaughtUp if that takes longer, ForeignToken for one of
        another log."""
        log_id = self.projector.meta.header.log_id
        token.check(log_id.hex() if log_id else token.log_id)
        if not await self.commits.until(lambda: self.projector.meta.position >= token.position or None, wait_ms / 1000):
            raise NotCaughtUp(
                f"This reader is at position {self.projector.meta.position}, {token.position} was asked for.",
                hint=self.projector.stopped or f"It did not come within {wait_ms} ms; ask again.",
            )

    def _check_age(self, max_age_ms: int) -> None:
        age_ms = self.projector.age_ms
        if age_ms > max_age_ms:
            raise Stale(
                f"This reader last knew the end of the log {age_ms} ms ago, {max_age_ms} ms were asked for.",
                hint=self.projector.stopped or "It is catching up, or cut off: ask again, or ask another server.",
            )

    async def _answer(
        self,
        request: Request,
        parameters: ReadParameters,
        kind: str,
        as_of: str | None,
        body: Callable[[Reading, int], Mapping[str, Any]],
        is_lasting: bool,
    ) -> Response:
        await self.catch_up(request, parameters)
        return await run_in_threadpool(self._read, request, kind, as_of, body, is_lasting)

    def _read(
        self,
        request: Request,
        kind: str,
        as_of: str | None,
        body: Callable[[Reading, int], Mapping[str, Any]],
        is_lasting: bool,
    ) -> Response:
        with self.reading(as_of) as reading:
            stands = self.as_of(reading)
            headers = headers_of(stands)
            request.state.headers = headers
            if is_lasting and _has(request, tag := _tag_of_position(stands, reading)):
                return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={**headers, "ETag": tag})
            found = body(reading, stands.age_ms)
            if not is_lasting and _has(request, tag := _tag_of_content(stands, found)):
                return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={**headers, "ETag": tag})
            envelope = {"kind": kind, "apiVersion": API_VERSION, "asOf": stands, **found}
        return json_response(envelope, headers={**headers, "ETag": tag, "Cache-Control": "no-cache"})


def json_response(content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, dict(headers or {}), "application/json")


def headers_of(stands: AsOf) -> dict[str, str]:
    """What every answer says of the position that it reflects."""
    return {"X-Topolog-Token": stands.token, "X-Topolog-Age-Ms": str(stands.age_ms)}


def filters_of(listing: Listing[Any], parameters: NoParameters) -> dict[str, str]:
    """The filters of this list that were given, by name."""
    given = parameters.model_dump(exclude_none=True, include=set(listing.filters.model_fields))
    return {name: str(value) for name, value in given.items()}


def _tag_of_position(stands: AsOf, reading: Reading) -> str:
    """Weak: equal rows, though the age of the answer differs."""
    return f'W/"{stands.token}{"" if reading.is_current else "-past"}{"-stopped" if stands.stopped else ""}"'


def _tag_of_content(stands: AsOf, found: Mapping[str, Any]) -> str:
    """Of what changes by itself, with time or with what has no position."""
    content = msgspec.json.encode([found, stands.stopped])
    return f'W/"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'


def _has(request: Request, tag: str) -> bool:
    """Whether the caller has the answer with this tag."""
    had = request.headers.get("if-none-match", "")
    return tag in (each.strip() for each in had.split(","))


def patience_ms(request: Request, parameters: KnowledgeParameters) -> int:
    """By `wait`, else by `Prefer: wait=5`, which is in seconds (RFC 7240)."""
    preferred = re.search(r"\bwait=(\d{1,5})\b", request.headers.get("prefer", ""))
    if preferred and "wait" not in parameters.model_fields_set:
        return min(int(preferred[1]) * 1_000, WAIT_MS_MAX)
    with parameter("wait"):
        return min(duration_ms(parameters.wait), WAIT_MS_MAX)


def cursor_of(
    text: str, path: str, listing: Listing[Any], given: Mapping[str, str], sort: str | None, fields: str | None
) -> Cursor:
    """The cursor that is given back; raises BadInput if the filters, the order or the fields beside it are others."""
    with parameter("cursor"):
        cursor = Cursor.parse(text, path)
        listing.checked(cursor.filters)
        others = ((sort, cursor.sort), (fields, cursor.fields))
        if given not in ({}, cursor.filters) or any(text not in (None, held) for text, held in others):
            raise BadInput(
                "The cursor belongs to other filters, or to another order.", hint="Give back the cursor alone."
            )
    return cursor
