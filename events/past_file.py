"""How a node's past stands in the file of its data folder: JSON for people, with a checksum. Pure.

The node writes it, and whoever wants to know what would become of its joining reads it.
"""

import hashlib
import itertools

import msgspec

from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.views import CHAIN_BYTES, Echo, Past, Point

FILE_NAME = "topolog-past.json"

_FORMAT = 1


class _PointText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    position: int
    chain: str


class _EchoText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: int
    sequence: int
    at: _PointText


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`checksum` is over all the rest."""

    format: int
    log_id: str
    node: str
    echo: _EchoText
    reserved: int
    points: tuple[_PointText, ...]
    checksum: str = ""


def encode(past: Past) -> bytes:
    """The content of the file."""
    echo = past.echo
    content = _Content(
        format=_FORMAT,
        log_id=past.log_id.hex(),
        node=past.node,
        echo=_EchoText(echo.incarnation, echo.sequence, _text(echo.at)),
        reserved=past.reserved,
        points=tuple(_text(point) for point in past.points),
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
    points = tuple(_point(text) for text in content.points)
    if not points or any(one.position >= next_.position for one, next_ in itertools.pairwise(points)):
        raise ValueError("its points do not ascend")
    echo = Echo(Incarnation(content.echo.incarnation), content.echo.sequence, _point(content.echo.at))
    return Past(bytes.fromhex(content.log_id), NodeId(content.node), points, echo, content.reserved)


def _checksum(content: _Content) -> str:
    """Over the values, so that it does not matter how they are laid out."""
    bare = msgspec.structs.replace(content, checksum="")
    return hashlib.blake2b(msgspec.json.encode(bare), digest_size=8).hexdigest()


def _text(point: Point) -> _PointText:
    return _PointText(point.position, point.chain.hex())


def _point(text: _PointText) -> Point:
    chain = bytes.fromhex(text.chain)
    if len(chain) != CHAIN_BYTES:
        raise ValueError(f"a chain hash has {CHAIN_BYTES} bytes")
    return Point(Position(text.position), chain)
