"""Each row's token and two hashes: what leaves, digests and differences are made of (RE18, RE15).

A token is the upper half of xxhash64 over 'T' and the canonical key. In ordered mode the ring is cut into equal parts
by the boundaries that the spec ships; the first key column says in which part a row is (`events.key_order`), the same
hash where in it.

FAST hashes the canonical columns twice, after 'A' and after 'B'. STRONG and PROOF hash the SHA-256 of a text that can
be taken apart in one way only: of each value its length before it, of NULL a mark.
"""

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql import types as T  # noqa: N812 (its customary name)

from topolog.events.key_order import is_number
from topolog.events.token_range import FULL, RING, RING_BITS, Ranges, union
from topolog.events.tree_spec import Strength, TokenMode, TreeSpec
from topolog.projections.spark import canonical

TOKEN, PLACE, H1, H2, SHA = "topolog_token", "topolog_place", "topolog_h1", "topolog_h2", "topolog_sha"
"""Names of what is added. PLACE: 64 bits, of which in hashed mode the upper half is the token."""

_SHIFT = 64 - RING_BITS
_RANGES_IN_LINE = 24
_CELLS_LISTED_MAX = 1 << 20
_PARTS_IN_LINE = 32


def hashed(frame: DataFrame, spec: TreeSpec, ranges: Ranges = (FULL,), keep: Sequence[str] = ()) -> DataFrame:
    """The canonical columns of the spec, and TOKEN, PLACE, H1, H2 of each row in these ranges (SHA, too, unless it is
    FAST). Of other rows only the key is hashed.

    `keep`: further columns that come along as they are.
    """
    rows = canonical.canonical(frame, spec.columns, keep)
    fields = [rows.schema[name] for name in spec.column_names]
    key = canonical.key_fields(rows.schema, spec) or fields
    rows = rows.withColumn(PLACE, F.xxhash64(F.lit("T"), *canonical.hash_inputs(key)))
    rows = _within(rows.withColumn(TOKEN, _token(spec, key[0])), ranges)
    if spec.strength is Strength.FAST:
        inputs = canonical.hash_inputs(fields)
    else:
        rows = rows.withColumn(SHA, F.sha2(_row_text(fields), 256))
        inputs = [F.col(SHA)]
    return rows.withColumns({H1: F.xxhash64(F.lit("A"), *inputs), H2: F.xxhash64(F.lit("B"), *inputs)})


def _within(rows: DataFrame, ranges: Ranges) -> DataFrame:
    """Those of these rows whose token is in these ranges.

    Many ranges come from leaves that differ, so their edges are multiples of a leaf: then they are a list of cells,
    which a broadcast join finds at the cost of a hash each.
    """
    ranges = union(ranges)
    if ranges == (FULL,):
        return rows
    if len(ranges) > _RANGES_IN_LINE:
        shift = min((edge & -edge).bit_length() - 1 for each in ranges for edge in (each.start, each.end) if edge)
        if sum(each.cells >> shift for each in ranges) <= _CELLS_LISTED_MAX:
            return _in_cells(rows, ranges, shift)
    inside = F.lit(False)
    for each in ranges:
        inside = inside | ((F.col(TOKEN) >= each.start) & (F.col(TOKEN) < each.end))
    return rows.filter(inside)


def _in_cells(rows: DataFrame, ranges: Ranges, shift: int) -> DataFrame:
    edges = [(each.start >> shift, each.end >> shift) for each in ranges]
    starts_and_ends = rows.sparkSession.createDataFrame(edges, "start bigint, end bigint")
    cells = starts_and_ends.select(F.explode(F.sequence("start", F.col("end") - 1)).alias("topolog_cell"))
    cell = F.shiftrightunsigned(TOKEN, shift)
    return rows.join(F.broadcast(cells), cell == F.col("topolog_cell"), "left_semi")


def _token(spec: TreeSpec, first_key: T.StructField) -> Expression:
    spread = F.shiftrightunsigned(PLACE, _SHIFT)
    if spec.mode is not TokenMode.ORDERED:
        return spread
    type_ = next(each.type for each in spec.columns if each.name == first_key.name)
    place, bounds = _comparable(first_key, type_, spec.boundaries)
    part = F.coalesce(F.when(place.isNotNull(), _at_or_below(place, bounds, 0)), F.lit(0)).cast("bigint")
    parts = F.lit(len(spec.boundaries) + 1)
    start = F.call_function("div", part * RING, parts)
    end = F.call_function("div", (part + 1) * RING, parts)
    return start + spread % (end - start)


def _comparable(field: T.StructField, type_: str, boundaries: Sequence[str]) -> tuple[Expression, list[Expression]]:
    """The column and its boundaries as `events.key_order` compares them."""
    value = canonical.column(field.name)
    if not is_number(type_):
        return canonical.text(value, field.dataType), [F.lit(each) for each in boundaries]
    if isinstance(field.dataType, T.TimestampType):
        return F.unix_micros(value), [F.lit(int(each)) for each in boundaries]
    return value, [F.lit(each).cast(field.dataType) for each in boundaries]


def _at_or_below(place: Expression, bounds: Sequence[Expression], before: int) -> Expression:
    """How many bounds there are, by halving: 4,096 comparisons one after the other would be most of a scan."""
    if len(bounds) <= _PARTS_IN_LINE:
        counted = [F.when(place >= each, 1).otherwise(0) for each in bounds]
        return sum(counted, F.lit(before))
    middle = len(bounds) // 2
    lower = _at_or_below(place, bounds[:middle], before)
    upper = _at_or_below(place, bounds[middle:], before + middle)
    return F.when(place >= bounds[middle], upper).otherwise(lower)


def _row_text(fields: Sequence[T.StructField]) -> Expression:
    parts = []
    for field in fields:
        value = canonical.text(canonical.column(field.name), field.dataType)
        parts.append(F.coalesce(F.concat(F.octet_length(value).cast("string"), F.lit(":"), value), F.lit("-")))
    return F.concat(*parts)
