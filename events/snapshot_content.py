"""The bytes of a snapshot: a state and the fold's header as frames, cut into pieces, and back again.

A frame is 4 bytes of length, big-endian, and MessagePack: the header first, for without it a reader could not judge the
next record (K3) nor resume the inputs (K4), then (kind, key, row) of every row in the order in which the keys first
appeared. A piece ends where it is full, in the middle of a row if need be: one row may be larger than a record.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from topolog.events.errors import Undecodable
from topolog.events.fold import Header
from topolog.events.rows import ROWS
from topolog.events.state import HASH_MODULUS, Row, State, row_hash

PIECE_BYTES_MAX = 512 << 10
"""Well below the limit of a record: while one is on its way, decisions on the same connection wait behind it."""

_LENGTH_BYTES = 4
_DIGEST_BYTES = 32
_encode = msgspec.msgpack.Encoder().encode
_header_decoder = msgspec.msgpack.Decoder(Header)
_frame_decoder = msgspec.msgpack.Decoder(tuple[str, str, msgspec.Raw])
_row_decoders: Mapping[str, msgspec.msgpack.Decoder[Any]] = {row.KIND: msgspec.msgpack.Decoder(row) for row in ROWS}


class Cut(msgspec.Struct, frozen=True):
    """A state at the end of a set: rows are frozen, so copies of the maps that hold them are a consistent cut."""

    header: Header
    rows: Mapping[str, Mapping[str, Row]]


class Content:
    """The content of one cut, made piece by piece; `rows` to `state_hash` are right when all pieces are made."""

    def __init__(self, cut: Cut, piece_bytes: int = PIECE_BYTES_MAX) -> None:
        self._cut = cut
        self._piece_bytes = piece_bytes
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._hash = 0
        self.rows = 0
        self.size = 0

    @property
    def digest(self) -> bytes:
        return self._digest.digest()

    @property
    def state_hash(self) -> bytes:
        return self._hash.to_bytes(16, "big")

    def pieces(self) -> Iterator[bytes]:
        """The pieces in order, and b"" after every row, so that whoever makes them can do other things in between."""
        rest = bytearray(_framed(self._cut.header))
        for kind, rows in self._cut.rows.items():
            for key, row in rows.items():
                self._count((kind, key), row)
                rest += _framed((kind, key, row))
                while len(rest) >= self._piece_bytes:
                    yield self._piece(rest[: self._piece_bytes])
                    del rest[: self._piece_bytes]
                yield b""
        if rest:
            yield self._piece(rest)

    def _count(self, key: tuple[str, str], row: Row) -> None:
        self.rows += 1
        if not row.VOLATILE:
            self._hash = (self._hash + row_hash(key, row)) % HASH_MODULUS

    def _piece(self, piece: bytearray) -> bytes:
        self._digest.update(piece)
        self.size += len(piece)
        return bytes(piece)


class Loader:
    """The way back: pieces in, a header and a state out. Raises Undecodable for what `Content` never makes."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._rest = b""
        self._header: Header | None = None
        self._state = State()

    def feed(self, piece: bytes) -> None:
        self._digest.update(piece)
        data, start = self._rest + piece, 0
        while start + _LENGTH_BYTES <= len(data):
            end = start + _LENGTH_BYTES + int.from_bytes(data[start : start + _LENGTH_BYTES], "big")
            if end > len(data):
                break
            self._take(data[start + _LENGTH_BYTES : end])
            start = end
        self._rest = data[start:]

    def finish(self, digest: bytes, state_hash: bytes) -> tuple[Header, State]:
        """The header and the state of the content with this digest."""
        if self._rest or self._header is None or self._digest.digest() != digest:
            raise Undecodable("The content is not the one that was announced.")
        if self._state.hash() != state_hash:
            raise Undecodable("The rows do not have the state hash that was announced.")
        self._state.drain()
        return self._header, self._state

    def _take(self, frame: bytes) -> None:
        try:
            if self._header is None:
                self._header = _header_decoder.decode(frame)
                return
            kind, key, raw = _frame_decoder.decode(frame)
            self._state.put(key, _row_decoders[kind].decode(raw))
        except (msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
            raise Undecodable(f"A row cannot be read: {error!r}.") from error


def _framed(value: object) -> bytes:
    encoded = _encode(value)
    return len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded
