"""Trees that Spark makes, by the numbers of the scenarios; the table is tables.py's, with k = 8 unless said."""

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from tests.spark.tables import changed, leaf_of, numbers, spec_of, tree, twice, without

from topolog.events.errors import ReplicaFailed
from topolog.events.merkle import differing, root
from topolog.events.token_range import FULL, RING, TokenRange, buckets, contains, of_buckets, unwrapped
from topolog.events.tree_spec import Strength, TokenMode
from topolog.projections.spark import trees
from topolog.projections.spark.digests import digests
from topolog.projections.spark.replica_jobs import run
from topolog.projections.spark.row_hashes import H1, H2, TOKEN, hashed
from topolog.projections.spark.trees import leaves

ALL = (Strength.FAST, Strength.STRONG, Strength.PROOF)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return numbers(spark)


@pytest.mark.parametrize("strength", ALL)
def test_order_and_partitions_of_rows_are_in_no_root(spark: SparkSession, table: DataFrame, strength: Strength) -> None:
    """RE17."""
    spec = msgspec.structs.replace(spec_of(table), strength=strength)
    shuffled = numbers(spark, parts=5).orderBy(F.xxhash64("key"))
    one, other = tree(table, spec), tree(shuffled, spec)
    assert one == other
    assert sum(leaf.rows for leaf in one) == 1000
    assert root(spec.id, 8, one) == root(spec.id, 8, other)
    assert all(len(leaf.proof) == (32 if strength is Strength.PROOF else 0) for leaf in one)


@pytest.mark.parametrize("strength", ALL)
def test_a_changed_row_makes_just_its_leaf_differ(table: DataFrame, strength: Strength) -> None:
    """RE17, the tree's part."""
    spec = msgspec.structs.replace(spec_of(table), strength=strength)
    other = changed(table, 7, amount=F.lit(0))
    assert differing(tree(table, spec), tree(other, spec)) == [leaf_of(table, spec, 7)]


def test_missing_extra_and_double_rows_are_seen_in_the_count(table: DataFrame) -> None:
    """RE17."""
    spec = spec_of(table)
    rows = {leaf.bucket: leaf.rows for leaf in tree(table, spec)}
    seventh = leaf_of(table, spec, 7)
    for other, more in ((without(table, 7), -1), (twice(table, 7), 1)):
        assert differing(tree(table, spec), there := tree(other, spec)) == [seventh]
        assert {leaf.bucket: leaf.rows for leaf in there}[seventh] == rows[seventh] + more


@pytest.mark.parametrize("strength", ALL)
def test_even_multiplicity_does_not_cancel_out(spark: SparkSession, strength: Strength) -> None:
    """RE17: {A, A} against {B, B}, which an XOR of hashes takes for equal."""
    pairs = [spark.createDataFrame([(name,), (name,)], "key string") for name in "ab"]
    spec = msgspec.structs.replace(spec_of(pairs[0], key=()), bits=8, strength=strength)
    one, other = (tree(pair, spec, bits=1) for pair in pairs)
    assert differing(one, other) != []


def test_values_swapped_between_two_keys_of_one_leaf_are_seen(table: DataFrame) -> None:
    """RE17: 1.2 hashed no keys, and missed it."""
    spec = spec_of(table)
    one, other = _two_of_one_leaf(table, spec.bits)
    values = {key: (key * 3, f"name {key}" if key % 10 else None) for key in (one, other)}
    swapped = changed(
        changed(table, one, amount=F.lit(values[other][0]), name=F.lit(values[other][1])),
        other,
        amount=F.lit(values[one][0]),
        name=F.lit(values[one][1]),
    )
    assert differing(tree(table, spec), tree(swapped, spec)) == [leaf_of(table, spec, one)]


def _two_of_one_leaf(table: DataFrame, bits: int) -> tuple[int, int]:
    spec = spec_of(table, bits)
    seen: dict[int, int] = {}
    for key, token in hashed(table, spec).select("key", TOKEN).orderBy("key").collect():
        if (bucket := token >> (32 - bits)) in seen:
            return seen[bucket], key
        seen[bucket] = key
    raise AssertionError("no leaf has two rows")


def test_leaves_that_were_exchanged_make_another_root(table: DataFrame) -> None:
    """RE17: a node's digest is bound to its place."""
    spec = spec_of(table)
    first, second, *rest = tree(table, spec)
    exchanged = [
        msgspec.structs.replace(first, bucket=second.bucket),
        msgspec.structs.replace(second, bucket=first.bucket),
    ]
    assert root(spec.id, 8, [first, second, *rest]) != root(spec.id, 8, [*exchanged, *rest])


def test_a_table_of_no_rows_has_a_root(table: DataFrame) -> None:
    """RE17: it has no leaves, and all leaves of the other table differ from it, as one range."""
    spec = spec_of(table, bits=5)
    nothing = tree(table.filter("key < 0"), spec)
    assert nothing == []
    assert root(spec.id, 5, nothing) == root(spec.id, 5, [])
    assert of_buckets(differing(tree(table, spec), nothing), 5) == (FULL,)


@pytest.mark.parametrize("bits", [8, 6])
def test_a_range_that_wraps_has_the_leaves_of_its_pieces(table: DataFrame, bits: int) -> None:
    """RE12."""
    spec = spec_of(table, bits)
    pieces = unwrapped(0xC000_0001, 0x3FFF_FFFF)
    assert len(pieces) == 2
    whole = tree(table, spec, pieces)
    assert whole == sorted(
        (leaf for each in pieces for leaf in tree(table, spec, (each,))), key=lambda leaf: leaf.bucket
    )
    inside = {number for piece in buckets(pieces, bits) for number in piece}
    assert {leaf.bucket for leaf in whole} <= inside


def test_full_is_all_ranges_and_one_token_is_one_leaf(table: DataFrame) -> None:
    """RE12."""
    spec = spec_of(table)
    quarters = [TokenRange(RING // 4 * part, RING // 4 * (part + 1)) for part in range(4)]
    assert [leaf for each in quarters for leaf in tree(table, spec, (each,))] == tree(table, spec)
    token = next(iter(digests(table.filter("key = 7"), spec))).token
    (leaf,) = tree(table, spec, (TokenRange(token, token + 1),))
    assert (leaf.bucket, leaf.rows) == (token >> 24, 1)


def test_many_ranges_are_read_as_few_are(table: DataFrame) -> None:
    """RE21: the ranges of leaves that differ, and ranges with any edges, give just the rows that are in them."""
    spec = spec_of(table)
    tokens = [each.token for each in digests(table, spec)]
    aligned = tuple(TokenRange(number << 22, (number + 1) << 22) for number in range(0, 1024, 3))
    ragged = tuple(TokenRange((number << 26) + 5, (number << 26) + 12_345_677) for number in range(64))
    for ranges in (aligned, ragged, (*ragged[:2],)):
        inside = [token for token in tokens if any(each.start <= token < each.end for each in ranges)]
        assert sorted(each.token for each in digests(table, spec, ranges)) == sorted(inside)


def test_trees_of_another_spec_have_another_root(table: DataFrame) -> None:
    """RE13: equal rows, but not comparable, whatever of the spec is another."""
    spec = spec_of(table)
    others = [
        msgspec.structs.replace(spec, bits=9),
        msgspec.structs.replace(spec, strength=Strength.STRONG),
        msgspec.structs.replace(spec, columns=spec.columns[:2]),
    ]
    roots = {root(each.id, each.bits, tree(table, each)) for each in (spec, *others)}
    assert len(roots) == len({each.id for each in (spec, *others)}) == 4


def test_ordered_tokens_go_by_the_boundaries(table: DataFrame) -> None:
    """RE21, RE15: 90 % of the rows in one part; finer leaves spread them by the whole key."""
    boundaries = ("51", "951")
    spec = msgspec.structs.replace(spec_of(table), mode=TokenMode.ORDERED, boundaries=boundaries)
    parts = [0, 0, 0]
    for each in digests(table, spec):
        part = sum(int(each.key[1:-1]) >= int(boundary) for boundary in boundaries)
        assert RING * part // 3 <= each.token < RING * (part + 1) // 3
        parts[part] += 1
    assert parts == [50, 900, 50]
    assert max(leaf.rows for leaf in tree(table, spec, bits=16)) <= 4
    assert sum(leaf.rows for leaf in tree(table, spec, (TokenRange(RING // 3, RING * 2 // 3),))) == 900


@pytest.mark.parametrize(
    ("type_", "boundaries"),
    [
        ("long", ("9", "10")),
        ("decimal(12,2)", ("9", "10.00")),
        ("double", ("9.0", "1.0E1")),
        ("timestamp", ("9", "10")),
        ("string", ("10", "9")),
    ],
)
def test_the_order_of_tokens_is_that_of_the_type(spark: SparkSession, type_: str, boundaries: tuple[str, str]) -> None:
    """RE15: 10 comes behind 9 as a number, and before it as a text; NULL comes first."""
    keys = spark.createDataFrame([(key,) for key in (8, 9, 10, 100, None)], "key bigint")
    cast = F.timestamp_micros("key") if type_ == "timestamp" else F.col("key").cast(type_.replace("long", "bigint"))
    table = keys.select(cast.alias("key"))
    spec = msgspec.structs.replace(spec_of(table), mode=TokenMode.ORDERED, boundaries=boundaries)
    places = hashed(keys.select(cast.alias("key"), F.col("key").alias("number")), spec, keep=("number",))
    found = {row[0]: row[1] * 3 // RING for row in places.select("number", TOKEN).collect()}
    numbers = {None: 0, 8: 0, 9: 1, 10: 2, 100: 2}
    texts = {None: 0, 8: 1, 9: 2, 10: 1, 100: 1}
    assert found == (texts if type_ == "string" else numbers)


def test_so_many_boundaries_as_are_allowed_can_be_gone_by(spark: SparkSession) -> None:
    """RE15."""
    boundaries = tuple(str(key) for key in range(1, 1000))
    table = numbers(spark, 40)
    spec = msgspec.structs.replace(spec_of(table), mode=TokenMode.ORDERED, boundaries=boundaries)
    for each in digests(table, spec):
        part = sum(int(each.key[1:-1]) >= int(boundary) for boundary in boundaries)
        assert RING * part // 1000 <= each.token < RING * (part + 1) // 1000


def test_a_leaf_too_large_is_refused(spark: SparkSession, table: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """RE17: the count says so, or Spark's sum of a leaf; with a hint, and never with a wrong digest."""
    with pytest.raises(ReplicaFailed, match="8 bits more") as failed:
        list(leaves(table, spec_of(table), (FULL,), 0, rows_max=999))
    assert failed.value.code == "LEAF_TOO_LARGE"
    monkeypatch.setattr(trees, "_HALF", (1 << 63) - 1)  # halves of 63 bits: few rows are enough
    with pytest.raises(ReplicaFailed) as failed:
        run(spark, lambda: list(leaves(table, spec_of(table), (FULL,), 0)))
    assert failed.value.code == "LEAF_TOO_LARGE"


def test_a_crafted_pair_is_equal_for_fast_only(spark: SparkSession) -> None:
    """RE18: 64 bytes, of which two words are changed so that each round's difference is taken back."""
    prime_1, prime_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
    step = (prime_1 << 30) * pow(prime_2, -1, 1 << 64) & (1 << 64) - 1
    pairs = []
    for number in range(64):
        words = [(number * 8 + place) * prime_1 & (1 << 64) - 1 for place in range(8)]
        crafted = [words[0] ^ 1 << 63, *words[1:4], (words[4] - step) & (1 << 64) - 1, *words[5:]]
        pairs.append([b"".join(word.to_bytes(8, "little") for word in each) for each in (words, crafted)])
    sides = [
        spark.createDataFrame([(n, bytearray(pair[side])) for n, pair in enumerate(pairs)], "key long, v binary")
        for side in (0, 1)
    ]
    found = {}
    for strength in ALL:
        spec = msgspec.structs.replace(spec_of(sides[0]), strength=strength)
        one, other = ({row[0]: row[1:] for row in hashed(side, spec).select("key", H1, H2).collect()} for side in sides)
        found[strength] = [key for key, values in one.items() if values == other[key]]
    assert found[Strength.FAST] != [], "a quarter of them collides, whatever is hashed before"
    assert found[Strength.STRONG] == found[Strength.PROOF] == []
    number = found[Strength.FAST][0]
    few = [side.filter(F.col("key") == number) for side in sides]
    for strength in ALL:
        spec = msgspec.structs.replace(spec_of(sides[0]), strength=strength)
        assert bool(differing(tree(few[0], spec), tree(few[1], spec))) is (strength is not Strength.FAST)


def test_refined_leaves_are_those_of_a_deeper_tree(table: DataFrame) -> None:
    """RE21: leaf for leaf, and only of the ranges that were asked for; no range lies outside (RE12)."""
    deep = tree(table, spec_of(table, bits=16))
    other = changed(table, 7, amount=F.lit(0))
    spec = spec_of(table)
    ranges = of_buckets(differing(tree(table, spec), tree(other, spec)), 8)
    refined = tree(table, spec, ranges, bits=16)
    assert refined == [
        leaf for leaf in deep if contains(ranges, [TokenRange(leaf.bucket << 16, (leaf.bucket + 1) << 16)])
    ]
    assert contains(ranges, of_buckets(differing(refined, tree(other, spec, ranges, bits=16)), 16))
    assert tree(table, spec, bits=16) == deep
    assert (
        len({root(each.id, each.bits, tree(table, each)) for each in (spec, spec_of(table, 12), spec_of(table, 16))})
        == 3
    )
