"""Merkle trees over a table: leaves that one scan makes, digests bound to their place (RE17).

Threats. Rows that cancel each other out in a leaf (XOR does); two leaves exchanged; a leaf that was left out taken for
an empty one; a tree of another spec.

Invariant. Equal roots of one spec mean equal leaves, each at its own place, up to a collision of SHA-256.

Argument. A leaf is the count of its rows and four sums of 32-bit halves of two 64-bit hashes of each row, not reduced:
multiplicity counts, order does not, and rows can be added and taken away. Its digest covers the spec's id and its
number, an inner node's its level and index (1.2's XOR was bound to neither). A leaf that nobody names has no rows, and
the digest of that is defined.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping

import msgspec

from topolog.events.errors import BadInput

_LEAF = struct.Struct(">QQQQQQB")
_PLACE = struct.Struct(">BQ")
_DIGEST_BYTES = 32
LEAF_ROWS_MAX = (1 << 31) - 1
"""More rows than that could overflow a sum of limbs (RE17)."""

_FINER = "Compare with more bits: 8 more make leaves of a 256th."


class Leaf(msgspec.Struct, frozen=True):
    """One bucket: its number, how many rows, the sums of the halves of two hashes, and with PROOF a SHA-256 over the
    sorted digests of its rows."""

    bucket: int
    rows: int
    a0: int
    a1: int
    b0: int
    b1: int
    proof: bytes = b""

    def __add__(self, other: "Leaf") -> "Leaf":
        return self._with(other, 1)

    def __sub__(self, other: "Leaf") -> "Leaf":
        return self._with(other, -1)

    def _with(self, other: "Leaf", sign: int) -> "Leaf":
        """Leaves with a proof are no sums: they raise BadInput."""
        if self.bucket != other.bucket or self.proof or other.proof:
            raise BadInput("Only sums of one bucket can be added.")
        names = ("rows", "a0", "a1", "b0", "b1")
        rows, a0, a1, b0, b1 = (getattr(self, name) + sign * getattr(other, name) for name in names)
        return Leaf(self.bucket, rows, a0, a1, b0, b1)


def empty(bucket: int) -> Leaf:
    return Leaf(bucket, 0, 0, 0, 0, 0)


def encode(leaves: Iterable[Leaf]) -> bytes:
    """49 bytes a leaf that has rows, and 32 more with a proof, in the order of buckets; raises BadInput for a leaf that
    is none."""
    return b"".join(_packed(leaf) for leaf in sorted(leaves, key=lambda each: each.bucket) if leaf.rows)


def decode(data: bytes) -> list[Leaf]:
    """The leaves in their order; raises BadInput if `encode` has not made this."""
    leaves: list[Leaf] = []
    at = 0
    while at < len(data):
        leaf = _unpacked(data, at)
        if leaves and leaf.bucket <= leaves[-1].bucket:
            raise BadInput(f"A page of leaves has bucket {leaf.bucket} behind bucket {leaves[-1].bucket}.")
        leaves.append(leaf)
        at += _LEAF.size + len(leaf.proof)
    return leaves


def _packed(leaf: Leaf) -> bytes:
    numbers = (leaf.bucket, leaf.rows, leaf.a0, leaf.a1, leaf.b0, leaf.b1)
    if leaf.rows > LEAF_ROWS_MAX:
        raise BadInput(f"Leaf {leaf.bucket} has {leaf.rows} rows, at most {LEAF_ROWS_MAX} can be counted.", hint=_FINER)
    try:
        return _LEAF.pack(*numbers, len(leaf.proof)) + leaf.proof
    except struct.error as error:
        raise BadInput(f"Leaf {leaf.bucket} is none: {error}.") from error


def _unpacked(data: bytes, at: int) -> Leaf:
    try:
        bucket, rows, a0, a1, b0, b1, size = _LEAF.unpack_from(data, at)
    except struct.error as error:
        raise BadInput("A page of leaves is cut off.") from error
    at += _LEAF.size
    if size not in (0, _DIGEST_BYTES) or at + size > len(data):
        raise BadInput("A page of leaves is cut off.")
    if not 0 < rows <= LEAF_ROWS_MAX:
        raise BadInput(f"A page of leaves says that leaf {bucket} has {rows} rows.")
    return Leaf(bucket, rows, a0, a1, b0, b1, data[at : at + size])


def leaf_digest(spec_id: bytes, leaf: Leaf) -> bytes:
    return hashlib.sha256(b"\0" + spec_id + _packed(leaf)).digest()


def _empty_digest(spec_id: bytes, level: int, index: int) -> bytes:
    """That of a node below which there are no rows: defined, so that a tree of no rows has a root."""
    return hashlib.sha256(b"\2" + spec_id + _PLACE.pack(level, index)).digest()


def root(spec_id: bytes, bits: int, leaves: Iterable[Leaf]) -> bytes:
    """The 32 bytes that name a tree of 2^bits leaves; those that are not given are empty."""
    nodes = {leaf.bucket: leaf_digest(spec_id, leaf) for leaf in leaves if leaf.rows}
    for level in range(bits, 0, -1):
        nodes = {index: _inner(spec_id, level, index, nodes) for index in {number >> 1 for number in nodes}}
    return nodes.get(0) or _empty_digest(spec_id, 0, 0)


def _inner(spec_id: bytes, level: int, index: int, below: Mapping[int, bytes]) -> bytes:
    """The node above the two of `level` that belong to `index`."""
    sides = (below.get(number) or _empty_digest(spec_id, level, number) for number in (2 * index, 2 * index + 1))
    return hashlib.sha256(b"\1" + _PLACE.pack(level - 1, index) + b"".join(sides)).digest()


def differing(left: Iterable[Leaf], right: Iterable[Leaf]) -> list[int]:
    """The buckets whose leaves are not equal, sorted; one that a side lacks is empty there."""
    one = {leaf.bucket: leaf for leaf in left if leaf.rows}
    other = {leaf.bucket: leaf for leaf in right if leaf.rows}
    return sorted(bucket for bucket in one.keys() | other.keys() if one.get(bucket) != other.get(bucket))
