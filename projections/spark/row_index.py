"""The tokens and hashes of all rows of a replica at one read point, held in memory as they came.

A session asks several times for the same rows: for a tree, for finer leaves of what differs, for each of its segments,
for digests. Read from the table, each of these is a scan. Of each row 20 bytes are enough to answer all of them, 28
where the key is one long, whose digests then need no scan either; so the table is read once. That takes memory, so it
is done up to `ROWS_MAX` rows, and for one read point at a time.

Nothing is sorted here but the few rows that are told one by one: bringing 20 million rows into the order of their
tokens takes ten times as long as adding them to their leaves where they stand.

The leaves are those of `trees.py`, to the bit: what a replica is asked for must not depend on how it was read.
"""

from collections.abc import Iterator
from itertools import starmap
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.merkle import LEAF_ROWS_MAX, Leaf
from topolog.events.replica import RowDigest
from topolog.events.token_range import FULL, RING_BITS, Ranges, union
from topolog.events.tree_spec import Strength, TokenMode, TreeSpec
from topolog.projections.spark import canonical, long_tokens
from topolog.projections.spark.long_tokens import Words
from topolog.projections.spark.row_hashes import H1, H2, TOKEN, hashed
from topolog.projections.spark.trees import too_large

ROWS_MAX = 1 << 25
"""Of one replica: 0.9 GB, and as much again while it is made."""

_KEY = "topolog_key"
_HALF = np.uint64(0xFFFF_FFFF)
_MIDDLE = 1 << (RING_BITS - 1)
"""A token less this fits 32 bits with a sign, which is what Spark has."""

_BATCH_ROWS = 10_000
_ADDED_ROWS = 1 << 20
"""Halves of 32 bits of so many rows are added exactly by floating-point numbers of 53 bits, as bincount adds."""

_DENSE_BITS = 18
"""Up to so many bits a tree has a place in memory for each leaf; finer ones for those with rows."""

_CELL_SHIFT = np.uint32(16)
_CELLS = 1 << (RING_BITS - 16)
"""What is asked for is looked up by these cells of the ring first."""


class RowIndex:
    """`keys`: of each row, if the key is one long that is never NULL; else digests are not to be had from here."""

    def __init__(self, tokens: NDArray[np.uint32], keys: NDArray[np.int64] | None, h1: Words, h2: Words) -> None:
        self._tokens, self._keys, self._h1, self._h2 = tokens, keys, h1, h2

    @property
    def rows(self) -> int:
        return len(self._tokens)

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    def leaves(self, ranges: Ranges, bits: int, *, rows_max: int = LEAF_ROWS_MAX) -> Iterator[Leaf]:
        """As `trees.leaves`, in the order of buckets; raises ReplicaFailed LEAF_TOO_LARGE."""
        at = self._places(ranges)
        names, slots = _slots(self._tokens[at], bits)
        totals = _added(slots, len(names), self._h1[at], self._h2[at])
        is_there = totals[0] > 0
        names, totals = names[is_there], totals[:, is_there]
        if len(names) and totals[0].max() > rows_max:
            worst = totals[0].argmax()
            raise too_large(f"Leaf {int(names[worst])} of 2^{bits} has {int(totals[0][worst]):,} rows.")
        yield from starmap(Leaf, zip(*(column.tolist() for column in (names, *totals)), strict=True))

    def digests(self, ranges: Ranges) -> Iterator[RowDigest]:
        """As `digests.digests`, of a spec without version and tombstone, in the order of tokens."""
        assert self._keys is not None, "a key is more than one long"
        at = self._places(ranges)
        columns = [column[at] for column in (self._tokens, self._keys, self._h1, self._h2)]
        order = np.argsort(columns[0], kind="stable")
        for start in range(0, len(order), _BATCH_ROWS):
            part = order[start : start + _BATCH_ROWS]
            for token, key, h1, h2 in zip(*(column[part].tolist() for column in columns), strict=True):
                yield RowDigest(token, f"[{key}]", h1, h2, None, False)

    def _places(self, ranges: Ranges) -> slice | NDArray[np.int64]:
        """Where the rows with these tokens stand."""
        asked = union(ranges)
        if asked == (FULL,):
            return slice(None)
        # Words as wide as the tokens, or each search would copy them all; so the last token, and what is behind it.
        firsts = np.array([each.start for each in asked], np.uint32)
        lasts = np.array([each.end - 1 for each in asked], np.uint32)
        touched = np.zeros(_CELLS, bool)
        for first, last in zip(firsts >> _CELL_SHIFT, lasts >> _CELL_SHIFT, strict=True):
            touched[first : last + 1] = True
        near = np.flatnonzero(touched[self._tokens >> _CELL_SHIFT])
        tokens = self._tokens[near]
        begun = np.searchsorted(firsts, tokens, "right")
        inside: NDArray[np.int64] = near[(begun > 0) & (tokens <= lasts[begun - 1])]
        return inside


def _slots(tokens: NDArray[np.uint32], bits: int) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """The numbers of leaves, ascending, of which some may have no rows; and of each token the place of its leaf."""
    buckets = tokens >> np.uint32(RING_BITS - bits) if bits else np.zeros_like(tokens)
    if bits <= _DENSE_BITS:
        return np.arange(1 << bits), buckets
    return np.unique(buckets, return_inverse=True)


def _added(slots: NDArray[np.integer[Any]], size: int, *hashes: Words) -> NDArray[np.int64]:
    """Of each slot the number of its rows, and the sums of the lower and the upper halves of each hash."""
    totals = np.zeros((1 + 2 * len(hashes), size), np.int64)
    for start in range(0, len(slots), _ADDED_ROWS):
        rows = slice(start, start + _ADDED_ROWS)
        part = slots[rows].astype(np.intp)
        totals[0] += np.bincount(part, minlength=size)
        halves = (half for words in hashes for half in _halves(words[rows]))
        for place, half in enumerate(halves, 1):
            totals[place] += np.bincount(part, half, minlength=size).astype(np.int64)
    return totals


def is_fit(spec: TreeSpec) -> bool:
    """Whether trees of this spec can be made of two hashes a row."""
    return spec.strength is not Strength.PROOF


def answers_digests(spec: TreeSpec) -> bool:
    """Whether a digest says nothing but the key and its hashes."""
    return not spec.version_column and not spec.tombstone_column


def made(frame: DataFrame, spec: TreeSpec) -> RowIndex:
    """Of all rows of the frame; the errors of the job itself are Spark's."""
    key, is_ordered = _long_key(spec), spec.mode is TokenMode.ORDERED
    wanted = [F.col(H1), F.col(H2)]
    if key:
        wanted.append(canonical.column(key).alias(_KEY))
    if is_ordered or not key:
        wanted.append((F.col(TOKEN) - _MIDDLE).cast("int").alias(TOKEN))
    table = hashed(frame, spec).select(*wanted).toArrow()
    h1, h2 = (_numbers(table, name).view(np.uint64) for name in (H1, H2))
    if not key:
        return RowIndex(_sent(table), None, h1, h2)
    is_null = table.column(_KEY).is_null().to_numpy()
    keys = _numbers(table, _KEY)
    tokens = _sent(table) if is_ordered else long_tokens.tokens(keys, is_null)
    return RowIndex(tokens, None if is_null.any() else keys, h1, h2)


def _long_key(spec: TreeSpec) -> str:
    types = {column.name: column.type for column in spec.columns}
    return spec.key[0] if len(spec.key) == 1 and types[spec.key[0]] == "long" else ""


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    """0 for NULL."""
    column = table.column(name)
    found: NDArray[np.int64] = (column.fill_null(0) if column.null_count else column).to_numpy()
    return found


def _sent(table: pa.Table) -> NDArray[np.uint32]:
    return (_numbers(table, TOKEN) + np.int64(_MIDDLE)).astype(np.uint32)


def _halves(words: Words) -> Iterator[Words]:
    yield words & _HALF
    yield words >> np.uint64(32)
