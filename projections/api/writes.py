"""POST /v1/…/requests: a request is appended to the log's topic, and its outcome read from the projection.

What is malformed is refused here, with 400, and nothing is sent.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from topolog.events.asked import RequestId
from topolog.events.asking import digest_of, encode_request
from topolog.events.errors import BadInput, NotAllowed, Refused
from topolog.events.requests import REQUEST_BYTES_MAX
from topolog.projections.api import contract, forms, parameters
from topolog.projections.api.access import asked_changes
from topolog.projections.api.access.authn import OPEN
from topolog.projections.api.access.grants import Asked, Right
from topolog.projections.api.access.reads import principal_of
from topolog.projections.api.problems import parameter
from topolog.projections.api.served import AtDesk
from topolog.projections.durations import duration_ms
from topolog.projections.requester import Requester
from topolog.projections.resources import Outcome

_IMAGINED = RequestId("dry-run", 1)
"""The id of requests that are not sent."""

_RESPONSES: dict[int | str, dict[str, Any]] = {
    **contract.one(Outcome),
    202: {"description": "Sent, and not decided within `timeout`: `Location` has the outcome later."},
    409: {
        "description": "Refused, with code, rule and facts; a contradiction shows both sides, `current` and `proposed`."
    },
}

router = APIRouter(prefix="/v1/clusters/{cluster}")


@router.post("/requests", tags=["requests"], responses=_RESPONSES, openapi_extra=contract.REQUEST_BODY)
async def post_request(
    request: Request,
    desk: AtDesk,
    given: parameters.Write,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="`requester/sequence`, chosen by the caller; makes a repeat harmless. Where callers are known "
            "the requester is called as they are, or so with `/…` behind it."
        ),
    ] = None,
    x_topolog_actor: Annotated[str, Header(description="Who asks, as the log will show it.", max_length=1_000)] = "api",
) -> Response:
    """Ask for a change and follow it: of a type, a group, the members, the baseline, the state or the feature level."""
    with parameter("timeout"):
        timeout_s = duration_ms(given.timeout) / 1000
    form = forms.read_form(await read_body(request))
    principal = principal_of(request)

    def sees(name: str) -> bool:
        return principal.may(Asked(Right.READ, desk.cluster, "types", name))

    log_id = desk.log_id()
    if given.dry_run == "true":
        asked = forms.to_request(form, _IMAGINED, log_id, x_topolog_actor)
        encode_request(asked)
        return await desk.dry_run(request, asked, sees)
    name = _chosen(request, idempotency_key, desk.requester) if idempotency_key else await desk.new_id()
    try:
        asked = forms.to_request(form, name, log_id, x_topolog_actor)
        asked = asked_changes.restrained(asked, form, principal, desk.cluster)
        value = encode_request(asked)
        row = await desk.known_outcome(name) if idempotency_key else None
        if row is None:
            await desk.send(asked, value, timeout_s)
    finally:
        desk.requester.close_unsent(name)
    row = row if given.wait == "none" else await desk.follow(name, digest_of(value), given.wait, timeout_s)
    if row is not None and row.digest != digest_of(value):
        raise Refused(
            "REQUEST_ID_REUSED", "K7", f"Request {name} asked for something else.", hint="Use the next sequence."
        )
    return await desk.answer(asked, row, sees)


def _chosen(request: Request, key: str, requester: Requester) -> RequestId:
    """The id that a caller has chosen, of a requester of their own; raises BadInput, and NotAllowed for another's.

    Numbers of one requester ascend, so that one far ahead would have all refused that its owner has yet to ask. An id
    that was given out here is repeated by whoever heard nothing of it.
    """
    name = forms.request_id(key, requester)
    principal = principal_of(request)
    if principal.method != OPEN and not principal.owns(name.requester) and not requester.has_issued(name):
        raise NotAllowed(
            f"{principal.name} ({principal.method}) may not use up the numbers of requester {name.requester!r}.",
            hint=f"Idempotency-Key: {principal.requester}/1, or {principal.requester}/a-name/1.",
        )
    return name


async def read_body(request: Request) -> bytes:
    """The request's body; raises BadInput once it has more bytes than a record may have, or if it is not called JSON.

    A browser sends what another site's page makes it send without asking only if it is no JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadInput("A request is JSON.", hint="Send it with the header Content-Type: application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > REQUEST_BYTES_MAX:
            raise forms.too_big()
    return bytes(body)
