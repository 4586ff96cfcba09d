"""A value as a page shows it: text, where it leads, what it means for whoever looks for trouble.

Fields of the API's items have conventions in their names (`_at` is a position, `_ms` a span, `_time` a time), so that
the fields of any item can be shown without a word about each.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from topolog.projections import cause_words
from topolog.projections.durations import ago
from topolog.projections.tones import TONES
from topolog.projections.web.frame import Frame


class Value(msgspec.Struct, frozen=True):
    """`tone` (ok, busy, bad, quiet) makes a badge of it; `time`: ISO 8601, shown as the reader has chosen."""

    text: str = ""
    href: str = ""
    tone: str = ""
    time: str = ""
    note: str = ""
    is_code: bool = False


Shown = Value | str | int | None | tuple[Value, ...]
"""What a cell can hold; several values stand behind each other."""


def state(text: str | None, note: str = "") -> Value:
    """A state in capitals as a badge."""
    if not text:
        return Value("–")
    return Value(text.replace("_", " ").lower(), tone=TONES.get(text, "quiet"), note=note)


def time(text: str | None) -> Value:
    return Value(time=text) if text else Value("–")


def span(milliseconds: int | None) -> Value:
    return Value("–") if milliseconds is None else Value(ago(milliseconds))


def exact(milliseconds: int | None) -> str:
    """Down to the millisecond while it is short: `1,240 ms`."""
    if milliseconds is None:
        return "–"
    return f"{milliseconds:,} ms" if milliseconds < 100_000 else ago(milliseconds)


def position(frame: Frame, at: int | None) -> Value:
    """A position, which leads to the decision there."""
    return Value("–") if at is None else Value(str(at), frame.to("decisions", at))


def why(cause: str, reason: str) -> Value:
    """What for, in the words of who asked, and which request that was; where nobody did, what made the decision due."""
    return Value(cause_words.why(cause, reason) or "–", note=request_of(cause))


def request_of(cause: str) -> str:
    """`request cli-4f2a/3`; nothing where no request is answered."""
    request = cause_words.read_cause(cause).request
    return f"request {request}" if request else ""


def actor(frame: Frame, name: str) -> Value:
    """Who asked, and the way to all that they asked for."""
    return Value(name, frame.to("decisions", actor=name)) if name else Value("–")


def names(frame: Frame, view: str, listed: tuple[str, ...], at_most: int = 12) -> tuple[Value, ...]:
    found = tuple(Value(each, frame.to(view, *each.split("/"))) for each in listed[:at_most])
    more = len(listed) - len(found)
    return (*found, Value(f"and {more} more")) if more > 0 else found or (Value("–"),)


def fields(frame: Frame, item: msgspec.Struct, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, Shown]]:
    """Every field of an item that says anything, by the conventions of names."""
    for name in item.__struct_fields__:
        value = getattr(item, name)
        if name not in without and value not in (None, "", (), {}, []):
            yield _label(name), _field(frame, name, value)


def _label(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def _field(frame: Frame, name: str, value: Any) -> Shown:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if name.endswith("_at") or name in ("position", "since", "set_end", "token"):
            return position(frame, value)
        return exact(value) if name.endswith("_ms") else value
    if isinstance(value, str):
        if name == "time" or name.endswith("_time") or name == "recorded_at":
            return time(value)
        if name in ("state", "status", "standing", "verdict", "role", "health"):
            return state(value)
        if name in ("node", "primary"):
            return Value(value, frame.to("nodes", value))
        return value
    return plain(value)


def plain(value: Any) -> str:
    """Any value in a line: `a 1, b 2`."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, msgspec.Struct):
        value = {name.replace("_", " "): getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        said = {key: each for key, each in value.items() if each not in (None, "", (), [], {})}
        return ", ".join(f"{key} {_within(each)}" for key, each in said.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(_within(each) for each in value) or "–"
    return str(value)


def _within(value: Any) -> str:
    is_compound = isinstance(value, Mapping | msgspec.Struct | list | tuple)
    return f"({plain(value)})" if is_compound else plain(value)
