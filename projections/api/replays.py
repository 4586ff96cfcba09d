"""POST /v1/…/dead-letters/<id>/replay: a dead letter is appended to the topic it was meant for, to the byte.

A coordinator of a newer version may read what the one before could not. Repeating it is harmless: a request that has
its outcome keeps it, one that is too old to have it kept is not carried out (K19), and what still cannot be read dies
again, as a letter that says which one it replays.
"""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.asked import RequestId
from topolog.events.errors import Unreachable
from topolog.events.topics import BY_SHORT_NAME
from topolog.projections import letters, resources
from topolog.projections.api import contract, parameters
from topolog.projections.api.answers import API_VERSION, headers_of, json_response
from topolog.projections.api.desk import DELIVERY_TIMEOUT_S
from topolog.projections.api.problems import InvalidParameter
from topolog.projections.api.served import AtDesk, Here
from topolog.projections.api.writes import read_body
from topolog.projections.baseline_resources import DryRun
from topolog.projections.sides import LetterBodyRow, LetterRow

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **contract.one(resources.Replay),
    409: {"description": "Not replayed: TRUNCATED, OUTCOME_FORGOTTEN, or NOT_REPLAYABLE where it makes no sense."},
}

router = APIRouter(prefix="/v1/clusters/{cluster}")


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str = ""


@router.post(
    "/dead-letters/{name}/replay",
    tags=["dead letters"],
    responses=_RESPONSES,
    openapi_extra=contract.REPLAY_BODY,
)
async def replay_dead_letter(
    request: Request,
    name: str,
    here: Here,
    desk: AtDesk,
    given: parameters.Replay,
    x_topolog_actor: Annotated[str, Header(description="Who asks; kept with the record.", max_length=1_000)] = "api",
) -> Response:
    """Append a dead letter to the topic it was meant for once more. A repeat is harmless without a key of its own."""
    form = _read_form(await read_body(request))
    desk.log_id()

    def find() -> tuple[LetterRow, LetterBodyRow, resources.AsOf]:
        with here.reading(None) as reading:
            stands = here.as_of(reading)
            request.state.headers = headers_of(stands)
            return *letters.replayable(reading, name), stands

    row, body, stands = await run_in_threadpool(find)
    if given.dry_run == "true":
        return _answer("DryRun", stands, _imagined(name, row, letters.request_in(body.value)))
    headers = letters.headers_again(row, body, x_topolog_actor, form.reason)
    topic = BY_SHORT_NAME[row.topic]
    key = body.key.decode("utf-8", "surrogateescape")
    overdue = Unreachable(f"The broker did not confirm the replay of dead letter {name}.", hint="It may still come.")
    delivery = desk.requester.send_again(topic, key, body.value, headers)
    offset = await desk.delivered(delivery, DELIVERY_TIMEOUT_S, overdue)
    asked = letters.request_in(body.value)
    item = resources.Replay(name, row.topic, offset or 0, str(asked) if asked else None)
    return _answer("Replay", stands, item)


def _imagined(name: str, row: LetterRow, asked: RequestId | None) -> DryRun:
    holds = f"It holds request {asked}." if asked else "This version cannot read what it holds."
    sentence = f"It would be appended to the topic {row.topic} once more, {row.size} bytes. {holds}"
    return DryRun(f"dead letter {name}", "GRANTED", sentence, (), None, ())


def _answer(kind: str, stands: resources.AsOf, item: msgspec.Struct) -> Response:
    envelope = {"kind": kind, "apiVersion": API_VERSION, "asOf": stands, "item": item}
    return json_response(envelope, headers=headers_of(stands))


def _read_form(body: bytes) -> Form:
    try:
        return msgspec.json.decode(body, type=Form)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParameter("body", str(error), hint='Send {"reason": "why"}.') from error
