"""How a node's past stands in its `topolog-past.json`: JSON for people, with a checksum. Pure.

The node writes it, and whoever wants to know what would become of its joining reads it.
"""

import hashlib
import itertools

import msgspec

from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.views import Echo, Past, Point

_FORMAT = 1
_CHAIN_BYTES = 16


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    position: int
    chain: str


class _Renewal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: int
    sequence: int
    at: _Place


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`checksum` is over all the rest."""

    format: int
    log_id: str
    node: str
    echo: _Renewal
    reserved: int
    points: tuple[_Place, ...]
    checksum: str = ""


def encode(past: Past) -> bytes:
    """JSON for people."""
    echo = past.echo
    content = _Content(
        format=_FORMAT,
        log_id=past.log_id.hex(),
        node=past.node,
        echo=_Renewal(echo.incarnation, echo.sequence, _place(echo.at)),
        reserved=past.reserved,
        points=tuple(_place(point) for point in past.points),
    )
    whole = msgspec.structs.replace(content, checksum=_checksum(content))
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def decode(data: bytes) -> Past:
    """What `encode` has written; raises ValueError with the reason."""
    content = msgspec.json.decode(data, type=_Content)
    if content.format != _FORMAT:
        raise ValueError(f"its format is {content.format}, this build reads {_FORMAT}")
    if content.checksum != _checksum(content):
        raise ValueError("its checksum is wrong")
    points = tuple(_point(place) for place in content.points)
    if not points or any(one.position >= next_.position for one, next_ in itertools.pairwise(points)):
        raise ValueError("its points do not ascend")
    echo = Echo(Incarnation(content.echo.incarnation), content.echo.sequence, _point(content.echo.at))
    return Past(bytes.fromhex(content.log_id), NodeId(content.node), points, echo, content.reserved)


def _checksum(content: _Content) -> str:
    """Over the values, so that it does not matter how they are laid out."""
    bare = msgspec.structs.replace(content, checksum="")
    return hashlib.blake2b(msgspec.json.encode(bare), digest_size=8).hexdigest()


def _place(point: Point) -> _Place:
    return _Place(point.position, point.chain.hex())


def _point(place: _Place) -> Point:
    chain = bytes.fromhex(place.chain)
    if len(chain) != _CHAIN_BYTES:
        raise ValueError(f"a chain hash has {_CHAIN_BYTES} bytes")
    return Point(Position(place.position), chain)
