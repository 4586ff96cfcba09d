"""How a question becomes an answer: wait if asked to, take one reading, name its position and age.

All rows of an answer come from one reading, hence from one position. RocksDB is read in a worker thread, waiting is
done in the event loop, so that slow lists and patient callers do not stand in each other's way. Nothing here asks the
broker anything.
"""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.errors import BadInput, NotCaughtUp
from topolog.projections.api.parameters import PageParameters, ReadParameters
from topolog.projections.api.problems import parameter
from topolog.projections.api.waiting import Commits
from topolog.projections.cursors import Cursor, cut
from topolog.projections.durations import duration_ms
from topolog.projections.moments import Token, position_time, reading_as_of
from topolog.projections.projector import Projector
from topolog.projections.queries import cluster_row
from topolog.projections.resources import AsOf
from topolog.projections.store import Reading

API_VERSION = "topolog/v1"
WAIT_MS_MAX = 60_000

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """What a list is asked for. `age_ms` is that of what the reader knows; `after` is where a list that can begin
    anywhere begins."""

    age_ms: int
    filters: Mapping[str, str]
    after: str | None


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
        is_lasting: bool = True,
    ) -> Response:
        """An envelope with the one item that `ask` finds; its second argument is the age (ms) of the answer.

        `is_lasting`: what is found at one position stays the same, so that a caller who has it need not get it again.
        """

        def body(reading: Reading, age_ms: int) -> Mapping[str, Any]:
            return {"item": ask(reading, age_ms)}

        return await self._answer(request, parameters, kind, parameters.as_of, body, is_lasting)

    async def page(
        self,
        request: Request,
        parameters: PageParameters,
        kind: str,
        ask: Callable[[Reading, Asked], Iterable[T]],
        key: Callable[[T], str],
        *,
        begins_after: bool = False,
        is_lasting: bool = True,
    ) -> Response:
        """An envelope with one page of what `ask` lists; `key` tells the items of the list apart.

        `begins_after`: `ask` heeds `after` itself, as a list of any length should.
        """
        path = request.url.path
        cursor = _cursor(parameters, path)
        filters = cursor.filters if cursor else parameters.filters

        def body(reading: Reading, age_ms: int) -> Mapping[str, Any]:
            after = cursor.after if cursor else None
            found = ask(reading, Asked(age_ms, filters, after))
            page = cut(found, key, None if begins_after else after, parameters.limit)
            following = None if page.last is None else str(Cursor(path, reading.position, page.last, filters))
            return {"items": page.items, "next": following}

        as_of = str(cursor.position) if cursor else parameters.as_of
        return await self._answer(request, parameters, kind, as_of, body, is_lasting)

    def as_of(self, reading: Reading) -> AsOf:
        token = Token(reading.position, cluster_row(reading).log_id)
        time = position_time(reading, reading.position)
        return AsOf(reading.position, time, str(token), self.projector.age_ms, self.projector.stopped)

    async def _answer(
        self,
        request: Request,
        parameters: ReadParameters,
        kind: str,
        as_of: str | None,
        body: Callable[[Reading, int], Mapping[str, Any]],
        is_lasting: bool,
    ) -> Response:
        await self._catch_up(parameters)
        return await run_in_threadpool(self._read, request, kind, as_of, body, is_lasting)

    async def _catch_up(self, parameters: ReadParameters) -> None:
        """Wait until `at_least` is reached; raises NotCaughtUp if that takes longer than `wait`."""
        if parameters.at_least is None:
            return
        with parameter("at_least"):
            token = Token.parse(parameters.at_least)
        with parameter("wait"):
            wait_ms = min(duration_ms(parameters.wait), WAIT_MS_MAX)
        log_id = self.projector.meta.header.log_id
        token.check(log_id.hex() if log_id else token.log_id)
        if not await self.commits.until(lambda: self.projector.meta.position >= token.position or None, wait_ms / 1000):
            raise NotCaughtUp(
                f"This reader is at position {self.projector.meta.position}, {token.position} was asked for.",
                hint=self.projector.stopped or f"It did not come within {wait_ms} ms; ask again.",
            )

    def _read(
        self,
        request: Request,
        kind: str,
        as_of: str | None,
        body: Callable[[Reading, int], Mapping[str, Any]],
        is_lasting: bool,
    ) -> Response:
        with self.projector.reading() as newest:
            cluster_row(newest)
            reading = newest
            if as_of is not None:
                with parameter("as_of"):
                    reading = reading_as_of(newest, as_of, self.projector.wall_ms())
            stands = self.as_of(reading)
            headers = _headers(stands, reading.is_current)
            if not is_lasting:
                del headers["ETag"]
            elif request.headers.get("if-none-match") == headers["ETag"]:
                return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
            envelope = {"kind": kind, "apiVersion": API_VERSION, "asOf": stands, **body(reading, stands.age_ms)}
        return json_response(envelope, headers=headers)


def json_response(content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, dict(headers or {}), "application/json")


def _headers(stands: AsOf, is_current: bool) -> dict[str, str]:
    """The ETag is weak: equal rows, though the age of the answer differs."""
    state = f"{stands.token}{'' if is_current else '-past'}{'-stopped' if stands.stopped else ''}"
    return {"X-Topolog-Token": stands.token, "X-Topolog-Age-Ms": str(stands.age_ms), "ETag": f'W/"{state}"'}


def _cursor(parameters: PageParameters, path: str) -> Cursor | None:
    """The cursor, if one is given back; raises BadInput if what is given beside it contradicts it."""
    if parameters.cursor is None:
        return None
    with parameter("cursor"):
        cursor = Cursor.parse(parameters.cursor, path)
        if parameters.filters not in ({}, cursor.filters):
            raise BadInput("The cursor belongs to other filters.", hint="Give back the cursor alone.")
    return cursor
