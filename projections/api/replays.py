"""POST /v1/…/dead-letters/<id>/replay: a dead letter is appended to the topic it was meant for, to the byte.

A coordinator of a newer version may read what the one before could not. Repeating it is harmless: a request that has
its outcome keeps it (K7), and what still cannot be read dies again, as a letter that says which one it replays.
"""

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.events.errors import Unreachable
from topolog.events.topics import BY_SHORT_NAME
from topolog.projections import letters, resources
from topolog.projections.api import contract
from topolog.projections.api.answers import API_VERSION, json_response
from topolog.projections.api.desk import DELIVERY_TIMEOUT_S, SERVE_PAUSE_S
from topolog.projections.api.problems import InvalidParameter
from topolog.projections.api.served import AtDesk, Here
from topolog.projections.api.writes import read_body

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **contract.one(resources.Replay),
    409: {"description": "Not replayed: TRUNCATED, or NOT_REPLAYABLE for a topic where it makes no sense."},
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
    x_topolog_actor: Annotated[str, Header(description="Who asks; kept with the record.", max_length=1_000)] = "api",
) -> Response:
    """Append a dead letter to the topic it was meant for once more."""
    form = _read_form(await read_body(request))
    desk.log_id()

    def find() -> tuple[Any, Any, resources.AsOf]:
        with here.projector.reading() as reading:
            return *letters.replayable(reading, name), here.as_of(reading)

    row, body, stands = await run_in_threadpool(find)
    headers = letters.headers_again(row, body, x_topolog_actor, form.reason)
    topic = BY_SHORT_NAME[row.topic]
    key = body.key.decode("utf-8", "surrogateescape")
    delivered = desk.requester.send_again(topic, key, body.value, headers)
    deadline = asyncio.get_running_loop().time() + DELIVERY_TIMEOUT_S
    while not delivered.done():
        if asyncio.get_running_loop().time() > deadline:
            raise Unreachable(
                f"The broker did not confirm the replay of dead letter {name}.", hint="It may still come."
            )
        await asyncio.sleep(SERVE_PAUSE_S)
        desk.requester.serve()
    asked = letters.request_in(body.value)
    item = resources.Replay(name, row.topic, delivered.result() or 0, str(asked) if asked else None)
    return json_response({"kind": "Replay", "apiVersion": API_VERSION, "asOf": stands, "item": item})


def _read_form(body: bytes) -> Form:
    try:
        return msgspec.json.decode(body, type=Form)
    except msgspec.DecodeError as error:
        raise InvalidParameter("body", str(error), hint='Send {"reason": "why"}.') from error
