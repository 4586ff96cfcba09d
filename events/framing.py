"""Confluent's framing of a record: `00`, the 4-byte id that a schema registry gave the schema, the Avro body.

Why: consumers of others find a schema by that id and know nothing of single-object encoding.

Threat: an id means something to one registry only. A log whose truth could be read with its registry alone would be
lost with it, and a node that does not reach the registry could not read its own log.

So what is hashed, compared, folded and kept is always the single-object encoding, and the framing exists on the wire
only. A framed record names its schema a second time, by fingerprint, in a header; with it every reader puts the
single-object bytes back together and needs neither the registry nor a setting. The chain hash is over those bytes: it
covers the fingerprint, wherever that stood, and stays the same when a log is mirrored to a place with other ids.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

MARKER: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10
"""Single-object encoding begins with the marker and the 8-byte fingerprint of the writer's schema."""

SCHEMA_HEADER: Final = "topolog-schema"
"""Its content is the 8-byte fingerprint of single-object encoding."""

_HEAD = struct.Struct(">BI")
_FINGERPRINT_BYTES = PREFIX_BYTES - len(MARKER)


def framed(value: bytes, ids: Mapping[bytes, int]) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """The record in Confluent's framing and the header to add; as it is, and none, if its schema has no id in `ids`.

    `ids` are by prefix: the marker and fingerprint that a value in single-object encoding begins with.
    """
    prefix = value[:PREFIX_BYTES]
    if prefix not in ids:
        return value, ()
    return _HEAD.pack(0, ids[prefix]) + value[PREFIX_BYTES:], ((SCHEMA_HEADER, prefix[len(MARKER) :]),)


def unframed(value: bytes, headers: Iterable[tuple[str, bytes]]) -> bytes:
    """The single-object encoding of a record that `framed` has made; any other value as it is."""
    if not value.startswith(b"\0"):
        return value
    fingerprint = next((content for name, content in headers if name == SCHEMA_HEADER), b"")
    return with_prefix(value, MARKER + fingerprint) if len(fingerprint) == _FINGERPRINT_BYTES else value


def schema_id(value: bytes) -> int | None:
    """The id that a value in Confluent's framing begins with; None for a value that is in another."""
    if not value.startswith(b"\0") or len(value) < _HEAD.size:
        return None
    number: int = _HEAD.unpack_from(value)[1]
    return number


def with_prefix(value: bytes, prefix: bytes) -> bytes:
    """The single-object encoding of a value in Confluent's framing whose schema's prefix is known."""
    return prefix + value[_HEAD.size :]
