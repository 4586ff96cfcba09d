"""What was asked of this process: every change, and every attempt that was turned away. Records and their course. Pure.

A change has two lines: one before it is let through, on disk before anything happens, and one with its end. A crash
between the two leaves the first: such a record is BEGUN, and the log says by its request id what became of it. What was
turned away has one line.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

MASK = "******"
NOBODY = "-"
"""The principal of a record about somebody nobody knows."""
_SECRET = re.compile(r"password|secret|token|credential|authorization|api[_-]?key|private", re.IGNORECASE)
_SHOWN_CHARS = 4_000
_TEXT_CHARS = 500
_DEPTH_MAX = 20
_CUT = "cut"
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*")

DENIED, BEGUN, DONE, REFUSED, FAILED, UNKNOWN = "DENIED", "BEGUN", "DONE", "REFUSED", "FAILED", "UNKNOWN"


class Record(msgspec.Struct, frozen=True):
    """One attempt. `time` is this process's, for people; `count`: how often the same was turned away in a row.

    `what` is the operation and its subject, as `drop-group groups/orders`; `outcome` and `position` are the log's own,
    added when the record is read.
    """

    id: str
    time: str
    principal: str
    method: str
    client: str
    agent: str
    cluster: str
    what: str
    parameters: dict[str, Any]
    dry_run: bool
    reason: str
    result: str
    status: int = 0
    code: str = ""
    detail: str = ""
    request_id: str = ""
    trace_id: str = ""
    count: int = 1
    outcome: str = ""
    position: int | None = None


class End(msgspec.Struct, frozen=True):
    """What became of an attempt that was let through."""

    id: str
    result: str
    status: int
    code: str = ""
    detail: str = ""
    request_id: str = ""


def ended(record: Record, end: End | None) -> Record:
    if end is None:
        return record
    given = msgspec.structs.asdict(end)
    return msgspec.structs.replace(record, **{**given, "request_id": end.request_id or record.request_id})


def result_of(status: int, code: str) -> str:
    """An HTTP status as people read it: 409 is the cluster's word, 202 and `outcome_unknown` are nobody's."""
    if status == 202 or code == "outcome_unknown":
        return UNKNOWN
    if status < 400:
        return DONE
    return REFUSED if status == 409 else FAILED


def parameters(query: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """What was asked with, masked and short enough to be kept for every attempt."""
    shown: dict[str, Any] = dict(masked(query))
    try:
        given = json.loads(body) if body else None
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        shown["body"] = masked({key: value for key, value in given.items() if key != "reason"})
    text = json.dumps(shown)
    return shown if len(text) <= _SHOWN_CHARS else {_CUT: text[:_SHOWN_CHARS]}


def masked(value: Any, depth: int = 0) -> Any:
    """The value without what is called a secret, and without what stands deeper than anything that is asked here."""
    if isinstance(value, str):
        return _writable(value)
    if isinstance(value, Mapping | list) and depth == _DEPTH_MAX:
        return _CUT
    if isinstance(value, Mapping):
        return {
            _writable(str(key)): MASK if _SECRET.search(str(key)) else masked(held, depth + 1)
            for key, held in value.items()
        }
    if isinstance(value, list):
        return [masked(each, depth + 1) for each in value]
    return value


def text_in(body: bytes, name: str) -> str:
    """A text of the body, nothing if it holds none of this name."""
    try:
        given = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return ""
    text = given.get(name) if isinstance(given, dict) else None
    return short(text) if isinstance(text, str) else ""


def trace_id(traceparent: str) -> str:
    """The trace of W3C's header, nothing if there is none."""
    found = _TRACE.fullmatch(traceparent.strip())
    return found[1] if found else ""


def short(text: str) -> str:
    return _writable(text[:_TEXT_CHARS])


def _writable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def end_of(record_id: str, status: int, body: bytes) -> End:
    """The end of an attempt, from the answer it got."""
    try:
        told = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        told = {}
    told = told if isinstance(told, dict) else {}
    item = told.get("item")
    name = item.get("id") if isinstance(item, dict) else told.get("id")
    code = str(told.get("code") or "")
    return End(record_id, result_of(status, code), status, code, short(str(told.get("detail") or "")), str(name or ""))
