"""The tokens and hashes of all rows of a replica at one read point, held in memory in the order of tokens.

A session asks several times for the same rows: for a tree, for finer leaves of what differs, for each of its segments,
for digests. Read from the table, each of these is a scan. Of each row 20 bytes are enough to answer all of them, 28
where the key is one long, whose digests then need no scan either; so the table is read once, and what is sorted here
gives any tree in the time of an addition. That takes memory, so it is done up to `ROWS_MAX` rows, and for one read
point at a time.

The leaves are those of `trees.py`, to the bit: what a replica is asked for must not depend on how it was read.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.merkle import LEAF_ROWS_MAX, Leaf
from topolog.events.replica import RowDigest
from topolog.events.token_range import RING_BITS, Ranges, union
from topolog.events.tree_spec import Strength, TreeSpec
from topolog.projections.spark import canonical
from topolog.projections.spark.row_hashes import H1, H2, TOKEN, hashed
from topolog.projections.spark.trees import too_large

ROWS_MAX = 1 << 25
"""Of one replica: 0.9 GB, and as much again while it is sorted."""

_KEY = "topolog_key"
_HALF = np.uint64(0xFFFF_FFFF)
_MIDDLE = 1 << (RING_BITS - 1)
"""A token less this fits 32 bits with a sign, which is what Spark has."""

_BATCH_ROWS = 10_000

Words = NDArray[np.uint64]


class RowIndex:
    """`keys`: of each row, if the key is one long that is never NULL; else digests are not to be had from here."""

    def __init__(self, tokens: NDArray[np.uint32], keys: NDArray[np.int64] | None, h1: Words, h2: Words) -> None:
        """In any order; sorted here: words of token and place are sorted several times as fast as places by token."""
        order = (tokens.astype(np.uint64) << np.uint64(32)) | np.arange(len(tokens), dtype=np.uint64)
        order.sort()
        self._tokens = (order >> np.uint64(32)).astype(np.uint32)
        order &= _HALF
        self._keys = None if keys is None else keys[order]
        self._h1, self._h2 = h1[order], h2[order]

    @property
    def rows(self) -> int:
        return len(self._tokens)

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    def leaves(self, ranges: Ranges, bits: int, *, rows_max: int = LEAF_ROWS_MAX) -> Iterator[Leaf]:
        """As `trees.leaves`, in the order of buckets; raises ReplicaFailed LEAF_TOO_LARGE."""
        at = self._places(ranges)
        buckets = self._tokens[at] >> np.uint32(RING_BITS - bits) if bits else np.zeros_like(self._tokens[at])
        if not len(buckets):
            return
        starts = np.flatnonzero(np.concatenate(([True], buckets[1:] != buckets[:-1])))
        counts = np.diff(starts, append=len(buckets))
        sums = [np.add.reduceat(half, starts) for word in (self._h1[at], self._h2[at]) for half in _halves(word)]
        if counts.max() > rows_max:
            worst = int(counts.argmax())
            raise too_large(f"Leaf {int(buckets[starts[worst]])} of 2^{bits} has {int(counts[worst]):,} rows.")
        columns = (buckets[starts], counts, *sums)
        for bucket, rows, a0, a1, b0, b1 in zip(*(column.tolist() for column in columns), strict=True):
            yield Leaf(bucket, rows, a0, a1, b0, b1, b"")

    def digests(self, ranges: Ranges) -> Iterator[RowDigest]:
        """As `digests.digests`, of a spec without version and tombstone, in the order of tokens."""
        assert self._keys is not None, "a key is more than one long"
        at = self._places(ranges)
        columns = [column[at] for column in (self._tokens, self._keys, self._h1, self._h2)]
        for start in range(0, len(columns[0]), _BATCH_ROWS):
            batch = (column[start : start + _BATCH_ROWS].tolist() for column in columns)
            for token, key, h1, h2 in zip(*batch, strict=True):
                yield RowDigest(token, f"[{key}]", h1, h2, None, False)

    def _places(self, ranges: Ranges) -> slice | NDArray[np.int64]:
        """Where the rows with these tokens stand."""
        asked = union(ranges)
        # Words as wide as the tokens, or each search would copy them all; so the last token, and what is behind it.
        firsts = np.array([each.start for each in asked], np.uint32)
        lasts = np.array([each.end - 1 for each in asked], np.uint32)
        starts, ends = np.searchsorted(self._tokens, firsts), np.searchsorted(self._tokens, lasts, "right")
        if len(asked) == 1:
            return slice(int(starts[0]), int(ends[0]))
        spans = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *spans])


def is_fit(spec: TreeSpec) -> bool:
    """Whether trees of this spec can be made of two hashes a row."""
    return spec.strength is not Strength.PROOF


def answers_digests(spec: TreeSpec) -> bool:
    """Whether a digest says nothing but the key and its hashes."""
    return not spec.version_column and not spec.tombstone_column


def made(frame: DataFrame, spec: TreeSpec) -> RowIndex:
    """Of all rows of the frame; the errors of the job itself are Spark's."""
    rows = hashed(frame, spec)
    names = [(F.col(TOKEN) - _MIDDLE).cast("int").alias(TOKEN), F.col(H1), F.col(H2)]
    key = _long_key(spec)
    if key:
        names.append(canonical.column(key).alias(_KEY))
    table = rows.select(*names).toArrow()
    keys = None
    if key and not table.column(_KEY).null_count:
        keys = _numbers(table, _KEY)
    tokens = (_numbers(table, TOKEN) + np.int64(_MIDDLE)).astype(np.uint32)
    return RowIndex(tokens, keys, _numbers(table, H1).view(np.uint64), _numbers(table, H2).view(np.uint64))


def _long_key(spec: TreeSpec) -> str:
    types = {column.name: column.type for column in spec.columns}
    return spec.key[0] if len(spec.key) == 1 and types[spec.key[0]] == "long" else ""


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    found: NDArray[np.int64] = table.column(name).to_numpy()
    return found


def _halves(words: Words) -> Iterator[Words]:
    yield words & _HALF
    yield words >> np.uint64(32)
