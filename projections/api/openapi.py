"""What is the same at all addresses of /openapi.json: said once, among its components, and referred to.

FastAPI repeats each parameter and each error at every address, and tells of an error of its own kind that we never
give; headers that every read heeds it does not know.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]

_SHARED_FROM = 3
"""What is said as often as this is said once."""

_TAKEN: Mapping[str, Mapping[str, Any]] = {
    "TopologAtLeast": {
        "name": "Topolog-At-Least",
        "in": "header",
        "description": "As the parameter `at_least`.",
        "schema": {"type": "string"},
    },
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "description": "`wait=5`: as the parameter `wait`, in seconds (RFC 7240).",
        "schema": {"type": "string"},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "ETags of answers that the caller has: 304 if the answer is still one of them.",
        "schema": {"type": "string"},
    },
}
"""Headers that every read heeds."""

_GIVEN: Mapping[str, Mapping[str, Any]] = {
    "X-Topolog-Token": {
        "description": "The position that the answer reflects, for `at_least`.",
        "schema": {"type": "string"},
    },
    "X-Topolog-Age-Ms": {"description": "How old that knowledge is.", "schema": {"type": "integer"}},
    "ETag": {"description": "Names this answer, for `If-None-Match`.", "schema": {"type": "string"}},
}
"""Headers that every answer has; errors too, but for the last, once a position has been read."""


def completed(document: Json) -> Json:
    """The document of a FastAPI app, with what it does not know, and without what it repeats."""
    components = document["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for method, operation in _operations(document):
        _complete(method, operation)
    components["headers"] = dict(_GIVEN)
    components["parameters"] = {**_TAKEN, **_shared(document, "parameters")}
    components["responses"] = _shared(document, "responses")
    return document


def wrapped(example: object) -> str:
    """An example on its way through FastAPI, which drops what is null."""
    return msgspec.json.encode(example).decode()


def _unwrap(content: Json) -> None:
    for each in content.get("application/json", {}), *content.get("application/json", {}).get("examples", {}).values():
        for name in ("example", "value"):
            if isinstance(each.get(name), str):
                each[name] = msgspec.json.decode(each[name])


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for methods in document["paths"].values():
        yield from methods.items()


def _complete(method: str, operation: Json) -> None:
    responses: Json = operation["responses"]
    for never_given in ("422",) if method == "get" else ("422", "304"):
        responses.pop(never_given, None)
    for part in (operation.get("requestBody", {}), *responses.values()):
        _unwrap(part.get("content", {}))
    names = {each["name"] for each in operation.get("parameters", ())}
    if method == "get" and "at_least" in names:
        operation["parameters"] += [_ref("parameters", name) for name in _TAKEN]
    if "cluster" not in names:
        return
    for status, response in responses.items():
        has_tag = method == "get" and status in ("200", "304")
        given = {name: _ref("headers", name) for name in _GIVEN if has_tag or name != "ETag"}
        response["headers"] = {**given, **response.get("headers", {})}


def _shared(document: Json, part: str) -> Json:
    """What is said often, by a name of its own; where it was, refers to it now."""
    said = [(text, name) for _, operation in _operations(document) for text, name, _ in _parts(operation, part)]
    names: dict[str, str] = {}
    for (text, name), count in Counter(said).most_common():
        if count >= _SHARED_FROM and text not in names:
            taken = sum(other == name or other.startswith(f"{name}.") for other in names.values())
            names[text] = f"{name}.{taken + 1}" if taken else name
    for _, operation in _operations(document):
        for text, _, place in list(_parts(operation, part)):
            if text in names:
                operation[part][place] = _ref(part, names[text])
    return {name: msgspec.json.decode(text) for text, name in names.items()}


def _parts(operation: Json, part: str) -> Iterator[tuple[str, str, Any]]:
    """(what is said, what to call it, where) of each part that is no reference."""
    held = operation.get(part, ())
    for place, each in held.items() if isinstance(held, dict) else enumerate(held):
        if "$ref" not in each:
            name = _response_name(str(place), each) if isinstance(held, dict) else each["name"]
            yield msgspec.json.encode(each, order="sorted").decode(), name, place


def _response_name(status: str, response: Json) -> str:
    if status == "304":
        return "NotModified"
    return re.sub(r"\W+", "", str(response["description"])) if status < "300" else f"Problem{status}"


def _ref(part: str, name: str) -> Json:
    return {"$ref": f"#/components/{part}/{name}"}
