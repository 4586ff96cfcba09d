"""How a node's past stands in the file of its data folder: JSON for people, with a checksum. Pure.

The node writes it, and whoever wants to know what would become of its joining reads it.
"""

import hashlib
import itertools

import msgspec

from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.views import CHAIN_BYTES, Echo, Past, Point, Relied

FILE_NAME = "topolog-past.json"

_FORMAT = 1


class _PointText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    position: int
    chain: str


class _EchoText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    incarnation: int
    sequence: int
    at: _PointText


class _ReliedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    echo: _EchoText
    reserved: int


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`checksum` is over all the rest."""

    format: int
    log_id: str
    node: str
    echo: _EchoText
    reserved: int
    points: tuple[_PointText, ...]
    before: _ReliedText | None = None
    checksum: str = ""


def encode(past: Past) -> bytes:
    """The content of the file."""
    content = _Content(
        format=_FORMAT,
        log_id=past.log_id.hex(),
        node=past.node,
        echo=_echo_text(past.echo),
        reserved=past.reserved,
        points=tuple(_text(point) for point in past.points),
        before=_ReliedText(_echo_text(past.before.echo), past.before.reserved) if past.before else None,
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
    before = Relied(_echo(content.before.echo), content.before.reserved) if content.before else None
    log_id, node = bytes.fromhex(content.log_id), NodeId(content.node)
    return Past(log_id, node, points, _echo(content.echo), content.reserved, before)


def _checksum(content: _Content) -> str:
    """Over the values, so that it does not matter how they are laid out."""
    bare = msgspec.structs.replace(content, checksum="")
    return hashlib.blake2b(msgspec.json.encode(bare), digest_size=8).hexdigest()


def _echo_text(echo: Echo) -> _EchoText:
    return _EchoText(echo.incarnation, echo.sequence, _text(echo.at))


def _echo(text: _EchoText) -> Echo:
    return Echo(Incarnation(text.incarnation), text.sequence, _point(text.at))


def _text(point: Point) -> _PointText:
    return _PointText(point.position, point.chain.hex())


def _point(text: _PointText) -> Point:
    chain = bytes.fromhex(text.chain)
    if len(chain) != CHAIN_BYTES:
        raise ValueError(f"a chain hash has {CHAIN_BYTES} bytes")
    return Point(Position(text.position), chain)
