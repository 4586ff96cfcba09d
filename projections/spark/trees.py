"""Leaves over a frame: one scan, one groupBy, no code of ours per row (RE17).

Each row's two hashes are cut into halves of 32 bits, and the halves are summed as longs: Spark's ANSI mode, which is on
by default and fixed by session.py, has no sum modulo 2^64 and throws at an overflow. Below 2^31 rows in a leaf the sums
are exact; beyond, the leaf is refused as LEAF_TOO_LARGE, whether Spark or the count says so (RE17).
"""

from collections.abc import Iterator

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.merkle import LEAF_ROWS_MAX, Leaf
from topolog.events.token_range import RING_BITS, Ranges
from topolog.events.tree_spec import Strength, TreeSpec
from topolog.projections.spark.row_hashes import H1, H2, SHA, TOKEN, hashed

_HALF = 0xFFFF_FFFF


def leaves(
    frame: DataFrame, spec: TreeSpec, ranges: Ranges, bits: int, *, rows_max: int = LEAF_ROWS_MAX
) -> Iterator[Leaf]:
    """The leaves of a tree of 2^bits that have rows in these ranges, each once, in any order.

    Raises ReplicaFailed LEAF_TOO_LARGE, SCHEMA or UNSUPPORTED; errors of the job itself are Spark's.
    """
    table = leaf_frame(frame, spec, ranges, bits).toArrow()
    for batch in table.to_batches():
        columns = [column.to_pylist() for column in batch.columns]
        for bucket, rows, a0, a1, b0, b1, *proof in zip(*columns, strict=True):
            if rows > rows_max:
                raise too_large(f"Leaf {bucket} of 2^{bits} has {rows:,} rows.")
            yield Leaf(bucket, rows, a0, a1, b0, b1, bytes.fromhex(proof[0]) if proof else b"")


def leaf_frame(frame: DataFrame, spec: TreeSpec, ranges: Ranges, bits: int) -> DataFrame:
    """The same as a frame: bucket, rows, a0, a1, b0, b1 and, of PROOF, the hexadecimal digits of `proof`."""
    rows = hashed(frame, spec, ranges)
    bucket = F.shiftrightunsigned(TOKEN, RING_BITS - bits)
    totals = [F.count(F.lit(1)).alias("rows"), *_sums(H1, "a"), *_sums(H2, "b")]
    if spec.strength is Strength.PROOF:
        digests = F.array_sort(F.collect_list(SHA))
        totals.append(F.sha2(F.concat_ws("", digests), 256).alias("proof"))
    return rows.groupBy(bucket.alias("bucket")).agg(*totals)


def too_large(what: str) -> ReplicaFailed:
    return ReplicaFailed("LEAF_TOO_LARGE", what, hint="Compare with 8 bits more: leaves are then a 256th.")


def _sums(column: str, name: str) -> list[Expression]:
    return [
        F.sum(F.col(column).bitwiseAND(_HALF)).alias(f"{name}0"),
        F.sum(F.shiftrightunsigned(column, 32)).alias(f"{name}1"),
    ]
