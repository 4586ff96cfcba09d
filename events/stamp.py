"""The stamp: what is judged about a record of `decisions` before its value is decoded (K2, K3).

Threat: a deposed coordinator's late sends, a foreign program, a log restored from a copy. None of them may be decoded
on trust, so everything the fold needs to accept or refuse a record travels beside the value, in one Kafka header, in a
layout that costs 0.2 µs to read. The layout is fixed for ever; a new one takes a new first byte.

    head    version, log id, term, sequence, index in set, size of set, chain before, recorded_at_ms,
            number of inputs, lengths of the texts
    inputs  (input, partition, next offset, digest of the record before that) of every input partition read through
    tail    cause, actor, reason in UTF-8
"""

import hashlib
import struct

import msgspec

from topolog.events.errors import Undecodable
from topolog.events.ids import Offset, Term

HEADER_NAME = "topolog-stamp"
LAYOUT = 1
NO_DIGEST = bytes(8)
NO_CHAIN = bytes(16)
"""The chain hash before LogStarted, and the empty place in a TermStarted's stamp."""

TERM_MAX = (1 << 63) - 1
"""The last term that fits: honest coordinators count up to it by one, only a forged record can be near it."""

TEXT_BYTES_MAX = 10_000
"""Texts are cut here: with the largest value they must stay below the limit of a record."""

_HEAD = struct.Struct(">B16sqqHH16sqBHHH")
_INPUT = struct.Struct(">BHq8s")
HEAD_BYTES, INPUT_BYTES = _HEAD.size, _INPUT.size


class InputOffset(msgspec.Struct, frozen=True):
    """One partition of an input topic is read through up to, not including, `next_offset`.

    `digest`, 8 bytes, tells the value of the record before that from any other, for an offset says nothing in a topic
    that was made anew; NO_DIGEST if it is not known.
    """

    topic: int
    partition: int
    next_offset: Offset
    digest: bytes = NO_DIGEST


class Stamp(msgspec.Struct, frozen=True):
    """The envelope of one decision.

    `index` of `size` is the record's place in its set; `chain` is the chain hash before this record, empty in a
    TermStarted, whose writer need not know it. `cause` says what the record answers, as `operations@17 cli-4f/3`,
    `heartbeats/2@88 n3` or `deadline lease/n3/…`. `recorded_at_ms` (UTC) is for people only, nothing decides by it.
    """

    log_id: bytes
    term: Term
    sequence: int
    index: int
    size: int
    chain: bytes
    recorded_at_ms: int
    inputs: tuple[InputOffset, ...] = ()
    cause: str = ""
    actor: str = ""
    reason: str = ""


def encode_stamp(stamp: Stamp) -> bytes:
    """The stamp's bytes. Texts are cut at TEXT_BYTES_MAX each."""
    texts = [text.encode()[:TEXT_BYTES_MAX] for text in (stamp.cause, stamp.actor, stamp.reason)]
    head = _HEAD.pack(
        LAYOUT,
        stamp.log_id,
        stamp.term,
        stamp.sequence,
        stamp.index,
        stamp.size,
        stamp.chain,
        stamp.recorded_at_ms,
        len(stamp.inputs),
        *map(len, texts),
    )
    inputs = b"".join(_INPUT.pack(each.topic, each.partition, each.next_offset, each.digest) for each in stamp.inputs)
    return head + inputs + b"".join(texts)


def decode_stamp(data: bytes) -> Stamp:
    """The stamp in these bytes; raises Undecodable for anything that is not exactly one stamp."""
    if len(data) < _HEAD.size or data[0] != LAYOUT:
        raise Undecodable(f"{len(data)} bytes are no stamp of layout {LAYOUT}.")
    _, log_id, term, sequence, index, size, chain, recorded_at_ms, count, *lengths = _HEAD.unpack_from(data)
    texts_start = _HEAD.size + count * _INPUT.size
    if len(data) != texts_start + sum(lengths) or not 0 <= index < size or term < 0 or sequence < 0:
        raise Undecodable(f"The stamp's {len(data)} bytes do not agree with the lengths and counts it states.")
    inputs = tuple(InputOffset(*fields) for fields in _INPUT.iter_unpack(data[_HEAD.size : texts_start]))
    cause, actor, reason = _texts(data, texts_start, lengths)
    return Stamp(log_id, Term(term), sequence, index, size, chain, recorded_at_ms, inputs, cause, actor, reason)


def opens_term(data: bytes) -> bool:
    """Whether these bytes, which are a stamp, are the first of their term: the only one that no chain goes before."""
    return bool(_HEAD.unpack_from(data)[3] == 0)


def _texts(data: bytes, start: int, lengths: list[int]) -> list[str]:
    texts = []
    for length in lengths:
        texts.append(data[start : start + length].decode("utf-8", "replace"))
        start += length
    return texts


def chain_after(chain: bytes, stamp: bytes, value: bytes) -> bytes:
    """The chain hash after one more accepted record: 16 bytes over the hash before it, its stamp and its value (K3)."""
    digest = hashlib.blake2b(chain, digest_size=16)
    digest.update(len(stamp).to_bytes(4, "big"))
    digest.update(stamp)
    digest.update(value)
    return digest.digest()
