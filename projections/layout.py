"""How a store lies in keys and values: what `store.py` writes and reads.

Keys, by first byte; a position is 8 bytes, big-endian, and `~` inverts it, so that the newest comes first and "as of"
is one seek:

    m                                        Meta
    r kind 00 key                            the row as it is now
    h kind 00 escaped key 00 01 ~position    the row as a set left it, empty if the set removed it; no volatile rows
    d position                               the decision, as Decided
    c position                               the rows that the set ending there changed, as Changed; no volatile ones
    s escaped subject 00 01 ~position        empty: a decision about that subject; subject "" has all but renewals
    x kind 00 key                            a row of a side family (`sides.py`), which has no history
    y topic 00 partition                     the offset of the side topic's next record

Values are msgpack. Which fields they have is digested into the name of the store's folder, so a version whose rows have
other fields makes a store of its own beside the old one, and nobody has to remember to raise a number.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from topolog.events.codec import DECISIONS
from topolog.events.errors import DamagedStore
from topolog.events.fold import Event, Folded, Header
from topolog.events.ids import Offset, Position, Term
from topolog.events.log import Partition
from topolog.events.membership import LeasesRenewed
from topolog.events.rows import ROWS, shape_of
from topolog.events.state import Key, Row
from topolog.events.voiding import LeftOut
from topolog.projections.cause_words import Kind, read_cause
from topolog.projections.sides import SIDE_ROWS
from topolog.projections.subjects import subject_of

META_KEY = b"m"
PAST_ALL_POSITIONS = b"\xff" * 9
"""Behind a stem: the place after the oldest version of a row."""
DECISIONS_SPAN = (b"d", b"e")
"""From the first key of a decision to before what follows the last."""

_VOLATILE = frozenset(row.KIND for row in ROWS if row.VOLATILE)
_KEYS_KEPT = 1 << 16
"""The keys of rows and subjects come again and again; so many are not made anew."""

EVENTS: tuple[type, ...] = (*DECISIONS, LeftOut)
_EVENTS_BY_NAME = {event.__name__: event for event in EVENTS}
_LAST = (1 << 63) - 1


class Meta(msgspec.Struct, frozen=True):
    """Where the store stands. Record `last_offset` of `decisions` is the last one that is stored, None before any.

    `logged_at_ms` is the running maximum of LogAppendTime (UTC), so that time never runs backwards over positions;
    `ignored` counts, by the name of the `Ignored`, the records up to there that do not count.
    """

    cluster: str
    header: Header = Header()
    last_offset: Offset | None = None
    state_hash: bytes = bytes(16)
    logged_at_ms: int = 0
    ignored: Mapping[str, int] = {}

    @property
    def position(self) -> Position:
        return self.header.position


class WholeSet(msgspec.Struct, frozen=True):
    """One accepted set, folded: its decisions, the rows it left (None: removed), and where that brings the store."""

    meta: Meta
    decisions: Sequence[Folded]
    rows: Mapping[Key, Row | None]


class Decided(msgspec.Struct, frozen=True, array_like=True):
    """One decision as it is stored: its event, and of its stamp what people ask for.

    `logged_at_ms` and `state_hash` are those of its whole set: a set happens at once.
    """

    position: Position
    event_name: str
    body: bytes
    subject: str
    term: Term
    sequence: int
    index: int
    size: int
    cause: str
    actor: str
    reason: str
    recorded_at_ms: int
    logged_at_ms: int
    chain: bytes
    state_hash: bytes

    @property
    def event(self) -> Event:
        event: Event = decode(self.body, _EVENTS_BY_NAME[self.event_name])
        return event

    @property
    def asked_by(self) -> str:
        """Who asked for it, nobody where it followed by itself: a coordinator that decides has asked for nothing."""
        return self.actor if read_cause(self.cause).kind in (Kind.REQUEST, Kind.OPERATOR) else ""

    @property
    def asked_for(self) -> str:
        """What for, in the words of who asked."""
        return self.reason if self.asked_by else ""

    @property
    def is_renewal(self) -> bool:
        return self.event_name == LeasesRenewed.__name__

    @property
    def set_start(self) -> Position:
        return Position(self.position - self.index)

    @property
    def set_end(self) -> Position:
        return Position(self.set_start + self.size - 1)


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """Which rows a set has put or removed, sorted. A set of lease renewals alone has changed none, and has no entry."""

    rows: tuple[Key, ...]


def decided(folded: Folded, meta: Meta) -> Decided:
    """What is stored of one decision of the set that brings the store to `meta`."""
    place, stamp, event = folded.place, folded.stamp, folded.event
    return Decided(
        place.position,
        type(event).__name__,
        encode(event),
        subject_of(event),
        stamp.term,
        stamp.sequence,
        stamp.index,
        stamp.size,
        stamp.cause,
        stamp.actor,
        stamp.reason,
        stamp.recorded_at_ms,
        meta.logged_at_ms,
        place.chain,
        meta.state_hash,
    )


def is_volatile(key: Key) -> bool:
    return key[0] in _VOLATILE


@lru_cache(_KEYS_KEPT)
def row_key(key: Key) -> bytes:
    return f"r{key[0]}\0{key[1]}".encode()


def side_key(key: Key) -> bytes:
    return f"x{key[0]}\0{key[1]}".encode()


def side_offset_key(partition: Partition) -> bytes:
    return f"y{partition[0].short_name}\0{partition[1]}".encode()


def history_family(kind: str, prefix: str = "") -> bytes:
    """What the histories of all rows of a kind begin with whose keys have this prefix."""
    return f"h{kind}\0".encode() + _escaped_prefix(prefix)


@lru_cache(_KEYS_KEPT)
def history_stem(key: Key) -> bytes:
    """What all versions of one row begin with; `inverted(position)` follows."""
    return history_family(key[0]) + _escaped(key[1])


def key_of_stem(stem: bytes, kind: str) -> str:
    """The row's key in the stem of its history."""
    return stem[len(history_family(kind)) : -2].replace(b"\x00\xff", b"\x00").decode()


@lru_cache(_KEYS_KEPT)
def subject_stem(subject: str) -> bytes:
    return b"s" + _escaped(subject)


def decision_key(position: Position) -> bytes:
    return b"d" + position.to_bytes(8, "big")


def changed_key(position: Position) -> bytes:
    return b"c" + position.to_bytes(8, "big")


def inverted(position: Position) -> bytes:
    return (_LAST - position).to_bytes(8, "big")


def position_of(key: bytes) -> Position:
    """The position that a key of a history or of a subject ends with."""
    return Position(_LAST - int.from_bytes(key[-8:], "big"))


def _escaped(text: str) -> bytes:
    """The text and an end mark that sorts before all that could follow it: no text is a prefix of another."""
    return _escaped_prefix(text) + b"\x00\x01"


def _escaped_prefix(text: str) -> bytes:
    return text.encode().replace(b"\x00", b"\x00\xff")


encode = msgspec.msgpack.Encoder().encode

_DECODERS: dict[type, msgspec.msgpack.Decoder[Any]] = {
    type_: msgspec.msgpack.Decoder(type_) for type_ in (*ROWS, *SIDE_ROWS, *EVENTS, Decided, Changed, Meta)
}


def decode(data: bytes, type_: type[Any]) -> Any:
    """The stored value as its type; raises DamagedStore for bytes that are none."""
    try:
        return _DECODERS[type_].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedStore(f"A stored {type_.__name__} cannot be read: {error}.") from error


@cache
def shape() -> str:
    """A digest (12 hex digits) of every field that is stored, texts for people left out."""
    return shape_of([*ROWS, *SIDE_ROWS, *EVENTS, Decided, Changed, Meta])
