"""Digests of a store, bucket by bucket: a Merkle tree of two levels, along borders that both sides share.

A bucket is a run of keys of one family and kind. The borders are cut from one side (the rebuild) and shipped to the
other, so that a row which one side lacks makes one bucket differ and not all that follow. What lies before the first
border or behind the last belongs to the first or last bucket, so no row can stand outside of all.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

ROWS_PER_BUCKET = 256
"""Few enough that one wrong row costs little reading, many enough that digests are small beside the rows."""

_DIGEST_BYTES = 16

Rows = Iterable[tuple[bytes, bytes]]


class Buckets(msgspec.Struct, frozen=True):
    """`digests[n]` is of the rows from `borders[n]` to before `borders[n + 1]`; `rows` counts them all."""

    borders: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    rows: int

    @property
    def root(self) -> bytes:
        """Equal for two stores with the same borders that hold the same bytes."""
        return hashlib.blake2b(b"".join(self.digests), digest_size=_DIGEST_BYTES).digest()

    def differing(self, other: "Buckets") -> list[tuple[bytes, bytes | None]]:
        """(first key, key behind it) of each bucket that is not the same in the other; None is the end of all keys."""
        assert self.borders == other.borders, "digests are compared along the same borders"
        if self.root == other.root:
            return []
        spans = pairwise([*self.borders, None])
        pairs = zip(spans, self.digests, other.digests, strict=True)
        return [(start or b"", end) for (start, end), mine, theirs in pairs if mine != theirs]


def cut(rows: Rows) -> Buckets:
    """The buckets of these rows, with borders of their own: where a kind ends, and after so many rows."""
    borders, digests, family = [b""], _Digests(), b""
    for key, value in rows:
        begins = _family(key)
        if (begins != family and digests.rows) or digests.in_bucket == ROWS_PER_BUCKET:
            borders.append(key)
            digests.close_bucket()
        family = begins
        digests.add(key, value)
    return Buckets(tuple(borders), digests.closed(), digests.rows)


def cut_along(rows: Rows, borders: Sequence[bytes]) -> Buckets:
    """The buckets of these rows along the borders of others."""
    digests, ends = _Digests(), [*borders[1:], None]
    at = 0
    for key, value in rows:
        while (end := ends[at]) is not None and key >= end:
            digests.close_bucket()
            at += 1
        digests.add(key, value)
    for _ in ends[at + 1 :]:
        digests.close_bucket()
    return Buckets(tuple(borders), digests.closed(), digests.rows)


class _Digests:
    """The digests of buckets that are closed, and the one that is open. Lengths are hashed too: no two runs of rows
    make the same bytes."""

    def __init__(self) -> None:
        self.rows = self.in_bucket = 0
        self._closed: list[bytes] = []
        self._open = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, key: bytes, value: bytes) -> None:
        self._open.update(b"%d %d " % (len(key), len(value)))
        self._open.update(key)
        self._open.update(value)
        self.rows += 1
        self.in_bucket += 1

    def close_bucket(self) -> None:
        self._closed.append(self._open.digest())
        self._open = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self.in_bucket = 0

    def closed(self) -> tuple[bytes, ...]:
        self.close_bucket()
        return tuple(self._closed)


def _family(key: bytes) -> bytes:
    """What rows of one kind begin with."""
    return key.partition(b"\0")[0] if key[:1] in (b"r", b"h") else key[:1]
