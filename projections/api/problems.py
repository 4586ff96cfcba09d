"""Errors as RFC 9457 problem documents: one shape for everything that goes wrong, with a stable `code` and a `hint`."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.responses import Response

from topolog.events import telemetry
from topolog.events.errors import (
    BadInput,
    DamagedStore,
    Gone,
    LogDiverged,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    Poisoned,
    Refused,
    Retriable,
    TopologError,
)
from topolog.projections.api.access.admission import NotKnownNow
from topolog.projections.moments import ForeignToken

PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_S = 1

_STRICT = "/v1/"
_HINT = "/openapi.json lists what each address takes."

_LOGGER = logging.getLogger(__name__)
_STATUSES: Sequence[tuple[type[TopologError], HTTPStatus]] = (
    (BadInput, HTTPStatus.BAD_REQUEST),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Gone, HTTPStatus.GONE),
    (NotKnownNow, HTTPStatus.UNAUTHORIZED),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (Refused, HTTPStatus.CONFLICT),
    (ForeignToken, HTTPStatus.CONFLICT),
    (Retriable, HTTPStatus.SERVICE_UNAVAILABLE),
    (DamagedStore, HTTPStatus.SERVICE_UNAVAILABLE),
    (Poisoned, HTTPStatus.SERVICE_UNAVAILABLE),
    (LogDiverged, HTTPStatus.SERVICE_UNAVAILABLE),
)


class InvalidParameter(BadInput):
    """One part of a question or of a request cannot be understood; `parameter` is its name."""

    def __init__(self, parameter: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{parameter}: {reason}", hint=hint)
        self.parameter = parameter
        self.reason = reason


@contextmanager
def parameter(name: str, hint: str = "") -> Iterator[None]:
    """BadInput raised inside is about this parameter; `hint` is for those that have none of their own."""
    try:
        yield
    except BadInput as error:
        raise InvalidParameter(name, error.message, hint=error.hint or hint) from error


def problem(
    status: int, code: str, detail: str, *, hint: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """A problem document; `more` are members of its own, of which empty ones are left out."""
    body = {
        "type": f"urn:topolog:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "hint": hint,
        "trace_id": telemetry.trace_id(),
        **more,
    }
    content = msgspec.json.encode({key: value for key, value in body.items() if value not in ("", None, [])})
    retry = {"Retry-After": str(RETRY_AFTER_S)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Response(content, status, {**retry, **(headers or {})}, PROBLEM_JSON)


def status_of(error: TopologError) -> HTTPStatus:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def hint_of(request: Request, error: TopologError) -> str:
    """What to do about it; the nearest names there are only for whoever may list them."""
    names_others = isinstance(error, NotFound) and not request.state.may_list
    return "" if names_others else error.hint


def install(app: FastAPI) -> None:
    """Every failure of the app becomes a problem document."""
    app.add_exception_handler(TopologError, _on_topolog_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_parameters)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_defect)


async def _on_topolog_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TopologError)
    status = status_of(error)
    headers = dict(_of_reading(request))
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="topolog", error="invalid_token"'
    more: dict[str, Any] = {}
    if isinstance(error, InvalidParameter):
        more["invalid_params"] = [{"name": error.parameter, "reason": error.reason}]
    if isinstance(error, Refused):
        more |= {"rule": error.rule, "facts": error.facts}
    if isinstance(error, OutcomeUnknown):
        more["id"] = error.request_id
    return problem(status, error.code, error.message, hint=hint_of(request, error), headers=headers, **more)


def _of_reading(request: Request) -> Mapping[str, str]:
    """Which position the error reflects, if one was read: what is not there may be there later."""
    headers: Mapping[str, str] = getattr(request.state, "headers", {})
    return headers


async def _on_invalid_parameters(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid = [
        {"name": ".".join(str(part) for part in each["loc"][1:]), "reason": reason_of(each)} for each in error.errors()
    ]
    listed = "; ".join(f"{each['name']}: {each['reason']}" for each in invalid)
    return problem(
        HTTPStatus.BAD_REQUEST,
        BadInput.code,
        f"The question cannot be understood: {listed}.",
        hint=_HINT,
        invalid_params=invalid,
    )


def reason_of(wrong: Mapping[str, Any]) -> str:
    """Why a value cannot be; of a word that is none of several, which there are."""
    if wrong["type"] in ("literal_error", "enum"):
        return f"{wrong['input']!r} is none of {wrong['ctx']['expected'].replace(chr(39), '')}"
    return str(wrong["msg"]).removeprefix("Value error, ")


def refuse_unknown_parameters(request: Request) -> None:
    """Raise InvalidParameter for what the address does not take: a slip must neither widen a list nor do in earnest
    what was only to be tried."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    if dependant is None or not request.url.path.startswith(_STRICT):
        return
    known = sorted(_parameters_of(dependant))
    for name in request.query_params:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            listed = f"there are {', '.join(known)}" if known else "there is none"
            reason = f"there is no such parameter ({f'did you mean {near[0]}?' if near else listed})"
            raise InvalidParameter(name, reason, hint=_HINT)


def _parameters_of(dependant: Dependant) -> Iterator[str]:
    """The names of what an address takes in its query."""
    for field in dependant.query_params:
        fields: Mapping[str, FieldInfo] = getattr(field.field_info.annotation, "model_fields", {})
        yield from (each.alias or name for name, each in fields.items())
        if not fields:
            yield field.alias
    for each in dependant.dependencies:
        yield from _parameters_of(each)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: NotFound.code, 405: "method_not_allowed"}.get(error.status_code, "http_error")
    detail = f"{request.method} {request.url.path}: {error.detail}."
    hint = "/openapi.json lists all addresses."
    return problem(error.status_code, code, detail, hint=hint, headers=error.headers)


async def _on_defect(request: Request, error: Exception) -> Response:
    _LOGGER.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "defect", "This is a defect of topolog; its log has the details.")
