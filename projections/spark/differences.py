"""Two tables that one session can read: exactly the rows that differ, in one scan of each (anti-entropy D.5.6, C).

A tree exists to move little between machines. Where both tables are read by the same session, what costs is reading
them and shuffling rows, so neither is done twice: of each row 16 bytes come to the driver, its place (64 bits of the
key's hash) and a hash of all of it. There they are sorted, which a processor does at some hundred million a second, and
what is on one side only stays. Then the keys at those places are read, the key columns alone, and last, if columns are
to be named, those rows.

That takes memory for the hashes. Tables of more rows than `rows_max` are compared by leaves first; leaves that differ
are refined, and only their rows come to the driver. If that is too many as well, Spark adds up the hashes by key.

Threats. Rows that are there twice; two keys of one place; a changed row whose hash did not change.

Invariant. A row is named if and only if the rows under its key differ as multisets, up to a collision of a 64-bit hash
(FAST: 2^-64 for each changed row; else of two hashes of a SHA-256).

Argument. Hashes are counted, not put into a set. Keys are compared as keys: where one place has several, the rows there
are read again with their keys.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from topolog.events.merkle import Leaf, differing
from topolog.events.token_range import FULL, Ranges, of_buckets, overlap
from topolog.events.tree_spec import LEAF_ROWS, REFINE_BITS, Strength, TreeSpec, bits_for
from topolog.projections.spark import canonical
from topolog.projections.spark.hash_sets import Words, places_of, unbalanced
from topolog.projections.spark.jobs import Result, run
from topolog.projections.spark.row_hashes import H1, H2, PLACE, hashed, within
from topolog.projections.spark.trees import leaves

ROWS_MAX = 1 << 26
"""Of both tables together: their hashes, sorted and merged, take 50 bytes a row."""

BAD_SHARE_MAX = 0.2
"""If more of the leaves differ, refining them would be a scan that excludes little (D.5.6)."""

BITS_MAX = 32
_BROADCAST_MAX = 1 << 22
_HALF = 0xFFFF_FFFF
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)
_KEY, _SIDE = "topolog_key", "topolog_side"


class Kind(Enum):
    """What is the matter with a key, seen from the left table."""

    CHANGED = "CHANGED"
    MISSING = "MISSING"
    """It is on the left only."""

    EXTRA = "EXTRA"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    """It is there several times, on one side at least, and not alike."""


class RowDifference(msgspec.Struct, frozen=True):
    """`key`: JSON list of the canonical key values, of the two hashes for a table without key; `left` and `right`: how
    many rows have it. `columns`: those that differ, of a changed row, if they were asked for."""

    key: str
    kind: Kind
    left: int
    right: int
    columns: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True):
    """`leaves` and `bad_leaves`: of the last tree that was made, 0 if there was no need for one. `rows_moved`: rows of
    which more than a hash was read after the first scan."""

    rows: tuple[int, int]
    differences: tuple[RowDifference, ...]
    leaves: int = 0
    bad_leaves: int = 0
    rows_moved: int = 0

    @property
    def wants_full_copy(self) -> bool:
        """So much differs that copying the table costs no more than repairing it (scenario 10)."""
        return len(self.differences) > BAD_SHARE_MAX * max(*self.rows, 1)


class Both(msgspec.Struct, frozen=True):
    """Two tables, and what of them is compared."""

    left: DataFrame
    right: DataFrame
    spec: TreeSpec
    ranges: Ranges
    place: str = PLACE
    """The column of 64 bits by which rows are placed: PLACE, or a key that is one long itself and never NULL."""

    def each(self, action: Callable[[DataFrame], Result]) -> tuple[Result, Result]:
        """The same done to both at once: while the one is sorted, the other is read."""
        session = self.left.sparkSession
        with ThreadPoolExecutor(2) as pool:
            left, right = pool.map(lambda frame: run(session, lambda: action(frame)), (self.left, self.right))
        return left, right

    def hashed(self, frame: DataFrame) -> DataFrame:
        return within(hashed(frame, self.spec), self.ranges)

    def key(self, rows: DataFrame) -> Expression:
        fields = canonical.key_fields(rows.schema, self.spec) or [rows.schema[H1], rows.schema[H2]]
        return canonical.key_text(fields).alias(_KEY)


class _Content(msgspec.Struct, frozen=True):
    """One hash of each row, in the order of rows and sorted."""

    values: Words
    ordered: Words


class _Hashes(msgspec.Struct, frozen=True):
    places: Words
    contents: list[_Content]


class _Tree(msgspec.Struct, frozen=True):
    """What leaves say: how many there are, which ranges differ, and how many rows are in those."""

    leaves: int
    bad: int
    ranges: Ranges
    rows: int


def compare(
    left: DataFrame,
    right: DataFrame,
    spec: TreeSpec,
    *,
    ranges: Ranges = (FULL,),
    names_columns: bool = False,
    rows_max: int = ROWS_MAX,
) -> Comparison:
    """Both frames must give the same rows each time they are read: cuts do. Raises ReplicaFailed and SparkFailed."""
    both = Both(left, right, spec, ranges)
    rows = both.each(lambda frame: frame.count())
    tree = _Tree(0, 0, ranges, sum(rows))
    if tree.rows > rows_max:
        tree = _narrowed(both, bits_for(max(rows)))
        both = msgspec.structs.replace(both, ranges=tree.ranges)
    if not tree.ranges:
        return Comparison(rows, (), tree.leaves, 0)
    if tree.rows > rows_max:
        return Comparison(rows, _sorted(_added_up(both)), tree.leaves, tree.bad, tree.rows)
    found = []
    both = msgspec.structs.replace(both, place=_place(both))
    left_side, right_side = both.each(partial(_hashes, both))
    places = _differing_places(left_side, right_side)
    if places.size:
        found = list(_at(both, places) if both.place == PLACE else _of_words(left_side, right_side, places))
        if names_columns:
            found = _with_columns(both, places, found)
    moved = sum(each.left + each.right for each in found)
    return Comparison(rows, _sorted(found), tree.leaves, tree.bad, moved)


def _sorted(found: Iterable[RowDifference]) -> tuple[RowDifference, ...]:
    return tuple(sorted(found, key=lambda each: each.key))


def _narrowed(both: Both, bits: int) -> _Tree:
    """The ranges of leaves that differ, refined as long as that excludes much."""
    while True:
        spec, ranges, deep = both.spec, both.ranges, bits
        left, right = both.each(partial(_leaves, spec=spec, ranges=ranges, bits=deep))
        bad = set(differing(left.values(), right.values()))
        sizes = [[side[number].rows for number in bad if number in side] for side in (left, right)]
        made = len(left.keys() | right.keys())
        tree = _Tree(made, len(bad), overlap(ranges, of_buckets(bad, bits)), sum(map(sum, sizes)))
        worst = max(map(partial(max, default=0), sizes))
        if worst <= LEAF_ROWS or bits + REFINE_BITS > BITS_MAX or len(bad) > BAD_SHARE_MAX * made:
            return tree
        both = msgspec.structs.replace(both, ranges=tree.ranges)
        bits += REFINE_BITS


def _leaves(frame: DataFrame, spec: TreeSpec, ranges: Ranges, bits: int) -> dict[int, Leaf]:
    return {leaf.bucket: leaf for leaf in leaves(frame, spec, ranges, bits)}


def _place(both: Both) -> str:
    """A key of 64 bits says by itself whose row it is: then no key is read a second time."""
    spec = both.spec
    types = {column.name: column.type for column in spec.columns}
    if len(spec.key) != 1 or types[spec.key[0]] != "long":
        return PLACE
    has_null = both.each(lambda frame: not frame.filter(canonical.column(spec.key[0]).isNull()).isEmpty())
    return PLACE if any(has_null) else spec.key[0]


def _of_words(left: _Hashes, right: _Hashes, keys: Words) -> Iterator[RowDifference]:
    """What differs under these keys, where each is its own place."""
    counts = []
    for side in (left, right):
        there, often = np.unique(side.places[places_of(side.places, keys)], return_counts=True)
        counts.append(dict(zip(there.view(np.int64).tolist(), often.tolist(), strict=True)))
    for key in keys.view(np.int64).tolist():
        yield _difference(f"[{key}]", counts[0].get(key, 0), counts[1].get(key, 0))


def _differing_places(left: _Hashes, right: _Hashes) -> Words:
    """Where rows are whose hashes are not as often on the one side as on the other."""
    found = []
    for one, other in zip(left.contents, right.contents, strict=True):
        values = unbalanced(one.ordered, other.ordered)
        rows = [places_of(content.values, values) for content in (one, other)]
        pairs = [(left.places[rows[0]], one.values[rows[0]]), (right.places[rows[1]], other.values[rows[1]])]
        found.append(_at_other_places(*pairs))
    return np.unique(np.concatenate(found))


def _at_other_places(left: tuple[Words, Words], right: tuple[Words, Words]) -> Words:
    """The places of these rows, given by place and hash, that are not on both sides.

    A hash that two keys share is unbalanced when one of them changes, at the place of the other as well.
    """
    pairs = [place * _ODD + content for place, content in (left, right)]
    values = unbalanced(np.sort(pairs[0]), np.sort(pairs[1]))
    places = [side[0][places_of(pair, values)] for side, pair in zip((left, right), pairs, strict=True)]
    return np.concatenate(places)


def _hashes(both: Both, frame: DataFrame) -> _Hashes:
    """Sorted here, for the other table may still be read."""
    names = (H1,) if both.spec.strength is Strength.FAST else (H1, H2)
    table = both.hashed(frame).select(canonical.column(both.place), *names).toArrow()
    places, *contents = (column.to_numpy().view(np.uint64) for column in table.columns)
    return _Hashes(places, [_Content(values, np.sort(values)) for values in contents])


def _at(both: Both, places: Words) -> Iterator[RowDifference]:
    """What differs at these places, by key."""
    left, right = both.each(lambda frame: _keys(both, frame, places))
    keys: dict[int, set[str]] = defaultdict(set)
    for place, key in left.keys() | right.keys():
        keys[place].add(key)
    shared = np.array([place for place, there in keys.items() if len(there) > 1], np.int64)
    equal = _equal_keys(both, shared.view(np.uint64)) if shared.size else set()
    for place, there in keys.items():
        for key in there - equal:
            yield _difference(key, left[place, key], right[place, key], is_key=bool(both.spec.key))


def _difference(key: str, left: int, right: int, *, is_key: bool = True) -> RowDifference:
    if is_key and max(left, right) > 1:
        kind = Kind.DUPLICATE_KEY
    elif is_key and left == right:
        kind = Kind.CHANGED
    else:
        kind = Kind.MISSING if left > right else Kind.EXTRA
    return RowDifference(key, kind, left, right)


def _keys(both: Both, frame: DataFrame, places: Words) -> Counter[tuple[int, str]]:
    """How often each key is there: of a table with a key, only its columns are read."""
    rows = _with_places(both, frame, places)
    table = rows.select(PLACE, both.key(rows)).toArrow()
    return Counter(zip(table.column(PLACE).to_pylist(), table.column(_KEY).to_pylist(), strict=True))


def _equal_keys(both: Both, places: Words) -> set[str]:
    """The keys at these places that have the same rows on both sides: some other key there has not."""

    def contents(frame: DataFrame) -> dict[str, Counter[tuple[int, int]]]:
        rows = _with_places(both, frame, places)
        found: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
        for key, h1, h2 in rows.select(both.key(rows), H1, H2).collect():
            found[key][h1, h2] += 1
        return found

    left, right = both.each(contents)
    return {key for key, rows in left.items() if rows == right.get(key)}


def _with_places(both: Both, frame: DataFrame, places: Words) -> DataFrame:
    listed = frame.sparkSession.createDataFrame(pa.table({both.place: places.view(np.int64)}))
    listed = F.broadcast(listed) if places.size <= _BROADCAST_MAX else listed
    return both.hashed(frame).join(listed, both.place, "left_semi")


def _with_columns(both: Both, places: Words, found: Sequence[RowDifference]) -> list[RowDifference]:
    """Those that changed, with the columns that did."""
    names = both.spec.column_names

    def read(frame: DataFrame, side: str) -> DataFrame:
        rows = _with_places(both, frame, places)
        values = (_comparable(rows, name).alias(name) for name in names)
        return rows.select(both.key(rows), F.struct(*values).alias(side))

    left, right = read(both.left, "one"), read(both.right, "other")
    changed = [
        F.when(~F.col("one").getField(name).eqNullSafe(F.col("other").getField(name)), F.lit(name)) for name in names
    ]
    joined = left.join(right, _KEY).select(_KEY, F.array_compact(F.array(*changed)))
    columns = dict(run(left.sparkSession, lambda: [(row[0], tuple(row[1])) for row in joined.collect()]))
    return [
        msgspec.structs.replace(each, columns=columns[each.key]) if each.kind is Kind.CHANGED else each
        for each in found
    ]


def _comparable(rows: DataFrame, name: str) -> Expression:
    """Maps have no equality in Spark, their texts have."""
    value, stored = canonical.column(name), rows.schema[name].dataType
    return canonical.text(value, stored) if "map<" in stored.simpleString() else value


def _added_up(both: Both) -> Iterator[RowDifference]:
    """By Spark alone: the rows of both under one key add up to nothing, or the key is named."""
    parts = []
    for frame, sign in ((both.left, 1), (both.right, -1)):
        rows = both.hashed(frame)
        parts.append(rows.select(both.key(rows), H1, H2, F.lit(sign).cast("bigint").alias(_SIDE)))
    side = F.col(_SIDE)
    halves = [half for name in (H1, H2) for half in (F.col(name).bitwiseAND(_HALF), F.shiftrightunsigned(name, 32))]
    sums = [F.sum(half * side).alias(f"s{number}") for number, half in enumerate(halves)]
    left = F.sum(F.when(side > 0, 1).otherwise(0)).alias("left")
    right = F.sum(F.when(side < 0, 1).otherwise(0)).alias("right")
    totals = parts[0].unionAll(parts[1]).groupBy(_KEY).agg(left, right, *sums)
    wanted = totals.filter(" or ".join(["left <> right", *(f"s{number} <> 0" for number in range(len(sums)))]))
    for key, in_left, in_right in run(wanted.sparkSession, wanted.select(_KEY, "left", "right").collect):
        yield _difference(key, in_left, in_right, is_key=bool(both.spec.key))
