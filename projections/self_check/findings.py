"""One row that is not as it should be: where it stands, in names that people know, and which of its fields differ."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from topolog.events.errors import DamagedStore
from topolog.events.rows import ROWS
from topolog.projections import layout
from topolog.projections.layout import Changed, Decided, Meta
from topolog.projections.sides import SIDE_ROWS

_ROWS_BY_KIND: Mapping[str, type] = {row.KIND: row for row in ROWS}
_SIDES_BY_KIND: Mapping[str, type] = {row.KIND: row for row in SIDE_ROWS}
_RAW_BYTES_SHOWN = 48


class Family(StrEnum):
    """What a key of the store is for (`layout.py`)."""

    HEADER = "header"
    ROW = "row"
    HISTORY = "history"
    DECISION = "decision"
    CHANGED = "changed"
    SUBJECT = "subject"
    SIDE = "side"
    SIDE_OFFSET = "side-offset"
    UNKNOWN = "unknown"


class What(StrEnum):
    """CHANGED: other fields, or the same in other bytes. UNDECODABLE: no row at all."""

    CHANGED = "CHANGED"
    LOST = "LOST"
    EXTRA = "EXTRA"
    UNDECODABLE = "UNDECODABLE"


class RowPlace(msgspec.Struct, frozen=True):
    """Where a row stands; `position` is that of a decision, a version of a row, an entry of a subject."""

    family: Family
    kind: str = ""
    key: str = ""
    position: int | None = None

    def __str__(self) -> str:
        """As `history node/n1@12`."""
        name = f"{self.kind}/{self.key}" if self.kind else self.key
        at = "" if self.position is None else f"@{self.position}"
        return f"{self.family} {name}{at}".strip()


class Difference(msgspec.Struct, frozen=True):
    """One field, dotted, in plain values; the field "" is the whole row. None: it is not there."""

    field: str
    expected: object
    found: object


class Finding(msgspec.Struct, frozen=True):
    what: What
    place: RowPlace
    differences: tuple[Difference, ...] = ()
    why: str = ""


def place_of(key: bytes) -> RowPlace:
    """What a key of the store is for; never raises, whatever was stored."""
    body = key[1:]
    match key[:1]:
        case b"m" if not body:
            return RowPlace(Family.HEADER)
        case b"r" | b"x" if b"\0" in body:
            kind, _, name = body.partition(b"\0")
            return RowPlace(Family.ROW if key[:1] == b"r" else Family.SIDE, _text(kind), _text(name))
        case b"h" if b"\0" in body[:-10] and body[-10:-8] == b"\0\1":
            kind, _, name = body[:-10].partition(b"\0")
            return RowPlace(Family.HISTORY, _text(kind), _unescaped(name), layout.position_of(key))
        case b"d" if len(body) == 8:
            return RowPlace(Family.DECISION, position=int.from_bytes(body, "big"))
        case b"c" if len(body) == 8:
            return RowPlace(Family.CHANGED, position=int.from_bytes(body, "big"))
        case b"s" if body[-10:-8] == b"\0\1":
            return RowPlace(Family.SUBJECT, key=_unescaped(body[:-10]), position=layout.position_of(key))
        case b"y" if b"\0" in body:
            topic, _, partition = body.partition(b"\0")
            return RowPlace(Family.SIDE_OFFSET, _text(topic), _text(partition))
    return RowPlace(Family.UNKNOWN, key=_text(key))


def finding(key: bytes, expected: bytes | None, found: bytes | None) -> Finding:
    """Why these two values of one key are not the same; None is no value."""
    place = place_of(key)
    (wanted, flaw), (held, damage) = _told(place, expected), _told(place, found)
    whole = (Difference("", wanted, held),)
    if flaw or damage:
        return Finding(What.UNDECODABLE, place, whole, damage or flaw)
    if expected is None or found is None:
        return Finding(What.EXTRA if expected is None else What.LOST, place, whole)
    differing = tuple(_differing(wanted, held))
    if not differing:
        return Finding(What.CHANGED, place, (Difference("", _raw(expected), _raw(found)),), "the same in other bytes")
    return Finding(What.CHANGED, place, differing)


def _told(place: RowPlace, value: bytes | None) -> tuple[Any, str]:
    """What stands there, and why it is only bytes if that is all it is."""
    if value is None:
        return None, ""
    try:
        return contents(place, value), ""
    except DamagedStore as error:
        return _raw(value), error.message


def contents(place: RowPlace, value: bytes) -> Any:
    """The value as plain data; None for a version that says «removed», hex digits where nothing is known of it.

    Raises DamagedStore for bytes that cannot be what stands at such a place.
    """
    match place.family:
        case Family.HEADER:
            return _plain(layout.decode(value, Meta))
        case Family.DECISION:
            return _decided(layout.decode(value, Decided))
        case Family.CHANGED:
            return _plain(layout.decode(value, Changed))
        case Family.HISTORY if not value:
            return None
        case Family.ROW | Family.HISTORY if place.kind in _ROWS_BY_KIND:
            return _plain(layout.decode(value, _ROWS_BY_KIND[place.kind]))
        case Family.SIDE if place.kind in _SIDES_BY_KIND:
            return _plain(layout.decode(value, _SIDES_BY_KIND[place.kind]))
        case Family.SUBJECT if value:
            raise DamagedStore("An entry of a subject holds bytes, and is empty by rule.")
        case Family.SIDE_OFFSET if not (value.isascii() and value.isdigit()):
            raise DamagedStore("A stored offset is no number.")
    return value.hex()


def _decided(decided: Decided) -> Any:
    fields = msgspec.structs.asdict(decided)
    try:
        event = decided.event
    except KeyError:
        raise DamagedStore(f"There is no event {decided.event_name!r}.") from None
    return {**{name: _plain(value) for name, value in fields.items() if name != "body"}, "event": _plain(event)}


def _plain(value: object) -> Any:
    return _without_bytes(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _without_bytes(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {str(key): _without_bytes(held) for key, held in value.items()}
        case list() | tuple():
            return [_without_bytes(held) for held in value]
        case _:
            return value


def _differing(expected: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """The innermost fields that are not the same."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in dict.fromkeys([*expected, *found]):
            yield from _differing(expected.get(name), found.get(name), f"{path}.{name}" if path else name)
    elif _is_list(expected) and _is_list(found) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differing(one, other, f"{path}[{number}]")
    elif expected != found or type(expected) is not type(found):
        yield Difference(path, expected, found)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _raw(value: bytes) -> str:
    shown = value[:_RAW_BYTES_SHOWN].hex()
    return shown if len(value) <= _RAW_BYTES_SHOWN else f"{shown}… ({len(value)} bytes)"


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _unescaped(name: bytes) -> str:
    return _text(name.replace(b"\0\xff", b"\0"))
