"""From an HTTP error answer (problem+json, RFC 9457) to the one error tree of topolog."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from topolog.events.errors import (
    BadInput,
    Fenced,
    Gone,
    MergeConflict,
    NotAllowed,
    NotCaughtUp,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    Refused,
    Retriable,
    TopologError,
    Unreachable,
)

Json = dict[str, Any]

DEFAULT_API = "http://127.0.0.1:8642"

_OPTIONS = {"at_least": "--at-least", "as_of": "--as-of"}
"""The API's parameters that are options here."""


def bad_api(url: str) -> BadInput:
    """What is raised for what is no URL of an API."""
    return BadInput(f"{url!r} is no address of an API.", hint=f"One looks like {DEFAULT_API}.")


def problem_error(status: int, body: Json) -> TopologError:
    """The error that a problem document of this HTTP status stands for.

    The text is the server's `detail`, the hint its `hint`, in which parameters are called as
    the options of the command line; rejected ones are named one by one, unless the text does so.
    """
    message = str(body.get("detail") or body.get("title") or f"The API answered {status}.")
    hint = _in_options(str(body.get("hint") or ""))
    match status:
        case HTTPStatus.BAD_REQUEST | HTTPStatus.UNPROCESSABLE_ENTITY:
            return BadInput(_with_reasons(message, body), hint=hint)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return NotAllowed(message, hint=hint)
        case HTTPStatus.NOT_FOUND:
            return NotFound(message, hint=hint)
        case HTTPStatus.CONFLICT:
            return _refused(message, body, hint)
        case HTTPStatus.GONE:
            return Gone(message, hint=hint)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return _unavailable(message, body, hint)
        case _:
            return TopologError(message, hint=hint)


_STATUS_OF_CODE = {
    BadInput.code: HTTPStatus.BAD_REQUEST,
    "unauthenticated": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    NotAllowed.code: HTTPStatus.FORBIDDEN,
    NotFound.code: HTTPStatus.NOT_FOUND,
    "token_foreign": HTTPStatus.BAD_REQUEST,
    Gone.code: HTTPStatus.GONE,
}


def watch_error(event: Json) -> TopologError:
    """The error that an ERROR event of a watch stands for; of a code that says nothing else, one that passes."""
    status = event.get("status") or _STATUS_OF_CODE.get(str(event.get("code")), HTTPStatus.SERVICE_UNAVAILABLE)
    return problem_error(int(status), event)


def is_transient(error: TopologError) -> bool:
    """Whether the same question may be answered a moment later."""
    return isinstance(error, Retriable) or type(error) is TopologError


def how_to_ask_again(request_id: str) -> str:
    """What to do about a request whose outcome is unknown: the question, and the repeat that makes nothing twice."""
    return (
        f"Ask again with `topolog get request {request_id}`, or repeat the same command with "
        f"--request-id {request_id}: it is applied once or not at all."
    )


def is_problem(body: object) -> bool:
    """Whether a decoded JSON body reads like one of our problem documents, and not like another server's answer."""
    return isinstance(body, Mapping) and ("detail" in body or "title" in body)


def _in_options(hint: str) -> str:
    """The hint for who types options; names of things that are proposed stay as they are."""
    if hint.startswith("Did you mean"):
        return hint
    return re.sub(rf"\b({'|'.join(_OPTIONS)})\b", lambda found: _OPTIONS[found[0]], hint)


def _with_reasons(message: str, body: Json) -> str:
    for rejected in body.get("invalid_params") or []:
        if not isinstance(rejected, Mapping):
            continue
        name, reason = str(rejected.get("name", "?")), str(rejected.get("reason", "not valid"))
        if reason in message:
            message = message.replace(f"{name}: ", f"{_OPTIONS.get(name, name)}: ")
        else:
            message += f" {_OPTIONS.get(name, name)}: {reason}."
    return message if message.endswith(".") else f"{message}."


def _refused(message: str, body: Json, hint: str) -> Refused:
    rule, facts = str(body.get("rule") or ""), body.get("facts") or {}
    if "current" not in body or "proposed" not in body:
        return Refused(str(body.get("code") or "REFUSED"), rule, message, facts, hint=hint)
    conflict = MergeConflict(rule, message, facts)
    conflict.hint = hint
    return conflict


def _unavailable(message: str, body: Json, hint: str) -> TopologError:
    match body.get("code"):
        case "not_caught_up":
            return NotCaughtUp(message, hint=hint or "Try again, or read without --at-least and with --no-session.")
        case OutcomeUnknown.code:
            request_id = str(body.get("id") or "")
            again = how_to_ask_again(request_id) if request_id else hint
            return OutcomeUnknown(message, request_id=request_id, hint=again)
        case Overloaded.code:
            return Overloaded(message, hint=hint or "Nothing was sent: wait a moment, then try again.")
        case "fenced":
            return Fenced(message, retry_after_ms=int(body.get("retry_after_ms") or 0), hint=hint)
        case _:
            return Unreachable(message, hint=hint)
