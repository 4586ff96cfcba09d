"""…/projections: the stores of the process that answers, and what can be asked of it about them.

Nothing here is about the cluster: no decision is read or made, another process of the same cluster has stores of its
own. It answers also while the store that is shown cannot.
"""

import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from topolog.projections.api import contract
from topolog.projections.api.answers import API_VERSION, json_response
from topolog.projections.api.problems import InvalidParameter
from topolog.projections.api.served import There
from topolog.projections.api.writes import read_body
from topolog.projections.patience import wall_ms
from topolog.projections.projection_resources import Generation
from topolog.projections.projector import Projector
from topolog.projections.queries import not_found
from topolog.projections.upkeep.orders import Action, UpkeepOrder
from topolog.projections.upkeep.stores import BUILDING, listed

router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["projections"])

_LASTING = (Action.REBUILD, Action.BACK, Action.SCRUB)
"""What takes its time."""

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["action"],
                    "properties": {
                        "action": {"enum": [each.value for each in Action]},
                        "reason": {"type": "string"},
                        "rate": {"type": "number", "description": "At most so many records per second."},
                    },
                },
                "example": {"action": "rebuild", "reason": "a new disk"},
            }
        },
    }
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    **contract.many(Generation, "ProjectionList"),
    202: {"description": "It is on the disk and will be done; `projections` shows how far it is."},
    409: {"description": "It makes no sense now; `code` says why."},
}


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Action
    reason: str = ""
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None


@router.get("/projections", responses=contract.many(Generation, "ProjectionList"))
async def list_projections(there: There) -> Response:
    """Every store of this process: what it shows, builds, has shown before and keeps, and what came to nothing."""
    return json_response(_list(await run_in_threadpool(_generations, there.projector)))


@router.get("/projections/{name}", responses=contract.one(Generation, "Projection"))
async def get_projection(there: There, name: str) -> Response:
    """One of them: by its number, or `building`, `refused`."""
    found = {each.name: each for each in await run_in_threadpool(_generations, there.projector)}
    if name not in found:
        raise not_found(name, list(found), "projection")
    return json_response({"kind": "Projection", "apiVersion": API_VERSION, "item": found[name]})


@router.post("/projections/actions", responses=_RESPONSES, openapi_extra=_BODY)
async def act_on_projections(
    request: Request,
    there: There,
    x_topolog_actor: Annotated[str, Header(description="Who asks; kept with it.", max_length=1_000)] = "api",
) -> Response:
    """Rebuild the store beside the one that is shown, go back to the former, cancel that, pause, resume, drop the
    former, or read all of it."""
    form = _read_form(await read_body(request))
    order = UpkeepOrder(secrets.token_hex(8), form.action, x_topolog_actor, form.reason, wall_ms(), form.rate)
    await run_in_threadpool(there.projector.act, order)
    found = await run_in_threadpool(_generations, there.projector)
    if form.action not in _LASTING:
        return json_response(_list(found))
    headers = {"Location": f"{request.url.path.removesuffix('/actions')}/{BUILDING}"}
    return json_response(_list(found), HTTPStatus.ACCEPTED, headers)


def _generations(projector: Projector) -> list[Generation]:
    return list(projector.told(listed))


def _list(found: Sequence[Generation]) -> Mapping[str, object]:
    return {"kind": "ProjectionList", "apiVersion": API_VERSION, "items": found, "next": None}


def _read_form(body: bytes) -> Form:
    try:
        return msgspec.json.decode(body, type=Form)
    except (msgspec.DecodeError, RecursionError) as error:
        actions = ", ".join(Action)
        raise InvalidParameter("body", str(error), hint=f"An action is one of {actions}.") from error
