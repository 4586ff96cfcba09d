"""Takes requests in, appends them to the log's topic and follows them to their outcome in the projection.

The API writes no projection and decides nothing. What it sends has an id, so that a caller who heard nothing can repeat
it without harm.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.asked import Request as AnyRequest
from topolog.events.asked import RequestId
from topolog.events.errors import NotCaughtUp, Overloaded, Retriable, TopologError
from topolog.events.ids import NOWHERE
from topolog.events.metadata import MetadataUpdateRejected
from topolog.events.object_types import ObjectType
from topolog.events.requests import OutcomeRow, Status
from topolog.projections import dry_run, forgotten_outcomes, queries
from topolog.projections.api.answers import API_VERSION, Answers, headers_of, json_response
from topolog.projections.api.problems import problem
from topolog.projections.requester import Requester
from topolog.projections.resources import Outcome
from topolog.projections.store import Reading

DELIVERY_TIMEOUT_S = 9.0
"""How long the broker may take to accept a request: the caller is told within 10 s that it cannot be reached."""

Sees = Callable[[str], bool]
"""Whether whoever asks may read the type of this name."""
Sides = tuple[ObjectType, ObjectType]

T = TypeVar("T")
R = TypeVar("R")

_SERVE_PAUSE_S = 0.001


class Stopped(Retriable):
    """The projector reads no further, so no outcome would ever be seen here."""

    code = "stopped"


class Desk:
    """Takes requests in and follows them. Everything runs in the event loop's thread, but for what `_read` is given."""

    def __init__(self, answers: Answers, requester: Requester) -> None:
        self.requester = requester
        self._answers = answers

    @property
    def cluster(self) -> str:
        return self._answers.projector.cluster

    async def new_id(self) -> RequestId:
        """An id of this process's own; raises Overloaded while too many of its requests are undecided.

        Who asked for the others may be gone, so their outcomes are looked for when they stand in the way.
        """
        self.requester.serve()
        try:
            return self.requester.next_id()
        except Overloaded:
            for name in await self._read(self._decided, self.requester.open):
                self.requester.close(name)
        return self.requester.next_id()

    async def known_outcome(self, name: RequestId) -> OutcomeRow | None:
        """The outcome of an id that a caller has chosen; raises Refused if coordinators would not answer it."""
        return await self._read(self._known_outcome, name)

    async def send(self, request: AnyRequest, value: bytes, timeout_s: float) -> None:
        """Append the request; raises Unreachable if nothing left, OutcomeUnknown unless the broker says it has it."""
        patience_s = max(1.0, min(DELIVERY_TIMEOUT_S, timeout_s))
        overdue = self.requester.outcome_unknown(request.id, f"No answer within {patience_s:g} s.")
        await self.delivered(self.requester.send(request, value), patience_s, overdue)

    async def delivered(self, delivery: Future[R], patience_s: float, overdue: TopologError) -> R:
        """What the broker says of what was handed to the producer; raises `overdue` if it says nothing in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        self.requester.serve()
        while not delivery.done():
            if loop.time() > deadline_s:
                raise overdue
            await asyncio.sleep(_SERVE_PAUSE_S)
            self.requester.serve()
        return delivery.result()

    async def follow(self, name: RequestId, digest: bytes, wait: str, timeout_s: float) -> OutcomeRow | None:
        """The outcome as soon as it is what the caller waits for, or what is known after `timeout_s`.

        The outcome of another request under the same id is what nobody waits for, so it comes at once. Raises Refused
        if there will be none: coordinators have forgotten so old ones.
        """

        def look() -> OutcomeRow | None:
            def is_enough(reading: Reading, row: OutcomeRow) -> bool:
                return row.digest != digest or wait != "accepted" or queries.is_settled(reading, row)

            return self._look(is_enough, name)

        row = await self._answers.commits.until(look, timeout_s) or self._look(lambda _, __: True, name)
        if row is not None:
            self.requester.close(name)
        return row

    def _look(self, is_enough: Callable[[Reading, OutcomeRow], bool], name: RequestId) -> OutcomeRow | None:
        with self._answers.projector.reading() as reading:
            row = self._known_outcome(reading, name)
            return row if row is not None and is_enough(reading, row) else None

    async def _read(self, ask: Callable[[Reading, T], R], asked: T) -> R:
        """What `ask` finds in the store, in a thread of its own: a disk may be slow."""

        def read() -> R:
            with self._answers.projector.reading() as reading:
                return ask(reading, asked)

        return await run_in_threadpool(read)

    @staticmethod
    def _decided(reading: Reading, names: Sequence[RequestId]) -> list[RequestId]:
        return [name for name in names if queries.outcome(reading, name) is not None]

    @staticmethod
    def _known_outcome(reading: Reading, name: RequestId) -> OutcomeRow | None:
        row = queries.outcome(reading, name)
        if row is None and forgotten_outcomes.is_forgotten(reading, name):
            raise forgotten_outcomes.refusal(reading, name)
        return row

    def log_id(self) -> bytes:
        """The log to which requests are addressed; raises Retriable while nothing can be asked of it."""
        projector = self._answers.projector
        if projector.stopped:
            raise Stopped(
                "This API no longer reads the log, so it could not tell what became of a request.",
                hint=projector.stopped,
            )
        if projector.meta.header.log_id is None or projector.meta.position == NOWHERE:
            raise NotCaughtUp("Nothing has been decided yet: there is no log to address a request to.")
        return projector.meta.header.log_id

    async def dry_run(self, request: Request, asked: AnyRequest, sees: Sees) -> Response:
        """What would become of what is asked for; raises Refused as the rules do."""

        def answer(reading: Reading, asked: AnyRequest) -> Response:
            stands = self._answers.as_of(reading)
            request.state.headers = headers_of(stands)
            try:
                found = dry_run.dry_run(reading, asked, self._answers.projector.wall_ms())
            except dry_run.Contradiction as error:
                return _contradiction(error.refusal, sees, headers_of(stands))
            envelope = {"kind": "DryRun", "apiVersion": API_VERSION, "asOf": stands, "item": found}
            return json_response(envelope, headers=headers_of(stands))

        return await self._read(answer, asked)

    async def answer(self, asked: AnyRequest, row: OutcomeRow | None, sees: Sees) -> Response:
        """The outcome as HTTP: 200, 409 for a refusal, 202 while it is unknown."""
        name, subject = asked.id, asked.subject

        def answer(reading: Reading, row: OutcomeRow | None) -> Response:
            stands = self._answers.as_of(reading)
            if row is not None and row.status is Status.REFUSED:
                return _refusal(name, row, queries.conflict(reading, row), sees, headers_of(stands))
            if row is None:
                outcome, status = Outcome(str(name), subject, "UNKNOWN"), HTTPStatus.ACCEPTED
            else:
                outcome, status = _outcome(reading, name, row, stands.token), HTTPStatus.OK
            requester = quote(name.requester, safe="")  # a caller's own choice, and this is a header
            address = f"/v1/clusters/{self.cluster}/requests/{requester}/{name.sequence}"
            envelope = {"kind": "Outcome", "apiVersion": API_VERSION, "asOf": stands, "item": outcome}
            return json_response(envelope, status, {"Location": address, **headers_of(stands)})

        return await self._read(answer, row)


def _outcome(reading: Reading, name: RequestId, row: OutcomeRow, token: str) -> Outcome:
    accepted = queries.has_taken_effect(reading, row)
    return Outcome(str(name), row.subject, row.status.value, accepted, row.version, row.position, token)


def _contradiction(refusal: MetadataUpdateRejected, sees: Sees, headers: Mapping[str, str]) -> Response:
    said, both = _of_both(_Said(refusal.message, refusal.facts), (refusal.current, refusal.proposed), sees)
    return problem(
        HTTPStatus.CONFLICT,
        refusal.code,
        said.message,
        headers=headers,
        rule=refusal.rule,
        facts=dict(said.facts),
        **both,
    )


def _refusal(name: RequestId, row: OutcomeRow, sides: Sides | None, sees: Sees, headers: Mapping[str, str]) -> Response:
    plainly = _Said(row.message, row.facts)
    said, both = (plainly, {}) if sides is None else _of_both(plainly, sides, sees)
    return problem(
        HTTPStatus.CONFLICT,
        row.code,
        said.message,
        headers=headers,
        id=str(name),
        subject=row.subject,
        position=row.position,
        rule=row.rule,
        facts=dict(said.facts),
        **both,
    )


class _Said(NamedTuple):
    message: str
    facts: Mapping[str, str]


def _of_both(said: _Said, sides: Sides, sees: Sees) -> tuple[_Said, dict[str, Any]]:
    """What is said of a contradiction, and its sides as far as whoever asks may read them: the one that stands has
    another name where two names have one id (ME4)."""
    current, proposed = sides
    if sees(current.name):
        return said, {"current": current.to_dict(), "proposed": proposed.to_dict()}
    message = f"There is another type with the id of {proposed.name!r}, which cannot be told from it."
    return _Said(message, {}), {"proposed": proposed.to_dict()}
