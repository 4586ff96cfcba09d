"""Leaves and roots: what equal roots mean, sums, and bytes of others."""

import random
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import BadInput
from topolog.events.merkle import LEAF_ROWS_MAX, Leaf, decode, differing, empty, encode, root
from topolog.events.token_range import FULL, RING_BITS, TokenRange, of_buckets

SPEC = bytes(range(16))
LIMB = (1 << 32) - 1

Row = tuple[int, int, int]
"""Token and two hashes, of which a leaf is made."""

hashes = st.integers(0, (1 << 64) - 1)
tokens = st.integers(0, (1 << RING_BITS) - 1)
rows_of = st.lists(st.tuples(tokens, hashes, hashes), max_size=30)
leaves_of = st.lists(
    st.builds(
        Leaf,
        st.integers(0, 255),
        st.integers(1, LEAF_ROWS_MAX),
        *[hashes] * 4,
        st.just(b"") | st.binary(min_size=32, max_size=32),
    ),
    unique_by=lambda leaf: leaf.bucket,
    max_size=20,
)


def leaf_of(row: Row, bits: int) -> Leaf:
    token, one, other = row
    return Leaf(token >> (RING_BITS - bits), 1, one >> 32, one & LIMB, other >> 32, other & LIMB)


def tree(rows: Iterable[Row], bits: int) -> dict[int, Leaf]:
    leaves: dict[int, Leaf] = {}
    for row in rows:
        leaf = leaf_of(row, bits)
        leaves[leaf.bucket] = leaves.get(leaf.bucket, empty(leaf.bucket)) + leaf
    return leaves


@given(rows_of, st.integers(8, 16), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[Row], bits: int, order: random.Random) -> None:
    """RE17."""
    mixed = order.sample(rows, len(rows))
    assert root(SPEC, bits, tree(mixed, bits).values()) == root(SPEC, bits, tree(rows, bits).values())


@given(rows_of, rows_of, st.integers(8, 16))
def test_equal_roots_are_equal_leaves(left: list[Row], right: list[Row], bits: int) -> None:
    """RE17: one 32-byte compare says it."""
    one, other = tree(left, bits).values(), tree(right, bits).values()
    assert (root(SPEC, bits, one) == root(SPEC, bits, other)) == (differing(one, other) == [])


def test_pairs_do_not_cancel_each_other_out() -> None:
    """RE17: {A, A} against {B, B} in one leaf."""
    a, b = (5, 11, 12), (6, 21, 22)
    assert differing(tree([a, a], 8).values(), tree([b, b], 8).values()) == [0]
    assert tree([a, a], 8)[0].rows == tree([b, b], 8)[0].rows


def test_a_key_that_is_there_twice_is_seen() -> None:
    """RE17: count and sums."""
    a = (5, 11, 12)
    assert differing(tree([a], 8).values(), tree([a, a], 8).values()) == [0]


def content(leaf: Leaf) -> Leaf:
    """Wherever it stands."""
    return msgspec.structs.replace(leaf, bucket=0)


@given(leaves_of.filter(lambda leaves: len({content(leaf) for leaf in leaves}) > 1), st.data())
def test_leaves_that_are_exchanged_change_the_root(leaves: list[Leaf], data: st.DataObject) -> None:
    """RE17: each digest is bound to its place."""
    one, other = data.draw(
        st.sampled_from([(a, b) for a in leaves for b in leaves if content(a) != content(b)]), label="the two"
    )
    exchanged = [each for each in leaves if each not in (one, other)]
    exchanged += [msgspec.structs.replace(one, bucket=other.bucket), msgspec.structs.replace(other, bucket=one.bucket)]
    assert root(SPEC, 8, exchanged) != root(SPEC, 8, leaves)
    assert differing(exchanged, leaves) == sorted([one.bucket, other.bucket])


def test_halves_of_a_tree_that_are_exchanged_change_the_root() -> None:
    """RE17: inner nodes, too."""
    low = [Leaf(3, 1, 1, 2, 3, 4), Leaf(77, 2, 5, 6, 7, 8)]
    high = [msgspec.structs.replace(leaf, bucket=leaf.bucket + 128) for leaf in low]
    assert root(SPEC, 8, low) != root(SPEC, 8, high)


def test_a_tree_of_no_rows_has_a_root() -> None:
    """RE17: and a leaf without rows is one that is not named."""
    assert len(root(SPEC, 8, [])) == 32
    assert root(SPEC, 8, [empty(5)]) == root(SPEC, 8, [])
    assert root(SPEC, 8, [Leaf(5, 1, 0, 0, 0, 0)]) != root(SPEC, 8, [])
    assert root(bytes(16), 8, []) != root(SPEC, 8, [])


def test_an_empty_side_differs_in_one_range_of_all_that_the_other_has() -> None:
    """RE17."""
    whole = [Leaf(bucket, 1, 1, 1, 1, 1) for bucket in range(256)]
    assert of_buckets(differing(whole, []), 8) == of_buckets(differing([], whole), 8) == (FULL,)
    assert of_buckets(differing(whole[3:5], []), 8) == (TokenRange(3 << 24, 5 << 24),)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_trees_of_other_specs_or_depths_have_other_roots(bits: int) -> None:
    """RE13, RE17."""
    rows = [(token << 20, token, token) for token in range(100)]
    assert root(SPEC, bits, tree(rows, bits).values()) != root(bytes(16), bits, tree(rows, bits).values())
    others = {root(SPEC, each, tree(rows, each).values()) for each in (8, 12, 16) if each != bits}
    assert root(SPEC, bits, tree(rows, bits).values()) not in others


@given(rows_of, st.sampled_from([8, 12, 16]))
def test_finer_leaves_add_up_to_coarser_ones(rows: list[Row], bits: int) -> None:
    """RE17: 2^(k+8) leaves and 2^k leaves of the same rows, leaf for leaf."""
    added: dict[int, Leaf] = {}
    for leaf in tree(rows, bits + 8).values():
        coarse = msgspec.structs.replace(leaf, bucket=leaf.bucket >> 8)
        added[coarse.bucket] = added.get(coarse.bucket, empty(coarse.bucket)) + coarse
    assert added == tree(rows, bits)


Change = tuple[int, int | None]
"""A key's new content; None deletes it."""


@given(st.lists(st.tuples(st.integers(0, 15), st.none() | hashes), max_size=40))
def test_leaves_kept_current_by_changes_equal_those_built_anew(changes: list[Change]) -> None:
    """RE17: any inserts, updates and deletes."""
    held: dict[int, Row] = {}
    leaves: defaultdict[int, Leaf] = defaultdict(lambda: empty(0))
    for key, content in changes:
        token = (key * 0x9E3779B1) % (1 << RING_BITS)
        bucket = token >> (RING_BITS - 8)
        now = leaves.setdefault(bucket, empty(bucket))
        if key in held:
            now -= leaf_of(held.pop(key), 8)
        if content is not None:
            held[key] = (token, content, content ^ key)
            now += leaf_of(held[key], 8)
        leaves[bucket] = now
    anew = tree(held.values(), 8)
    assert {bucket: leaf for bucket, leaf in leaves.items() if leaf != empty(bucket)} == anew
    assert root(SPEC, 8, leaves.values()) == root(SPEC, 8, anew.values())


def test_only_sums_of_one_bucket_are_added() -> None:
    """RE18: a proof is a hash over all rows, no sum."""
    proven = Leaf(1, 1, 1, 1, 1, 1, bytes(32))
    for one, other in ((empty(1), empty(2)), (proven, empty(1)), (empty(1), proven)):
        with pytest.raises(BadInput):
            one + other


def test_a_proof_is_part_of_what_is_compared() -> None:
    """RE18: sums that agree by craft."""
    one = Leaf(1, 1, 1, 1, 1, 1, bytes(32))
    other = msgspec.structs.replace(one, proof=b"\1" * 32)
    assert differing([one], [other]) == [1]
    assert root(SPEC, 8, [one]) != root(SPEC, 8, [other])


@given(leaves_of)
def test_leaves_are_read_as_they_were_written(leaves: list[Leaf]) -> None:
    """RE8."""
    assert decode(encode(leaves)) == sorted(leaves, key=lambda leaf: leaf.bucket)
    assert encode([*leaves, empty(256)]) == encode(leaves)


@given(st.binary(max_size=200))
def test_any_bytes_are_leaves_or_are_refused(data: bytes) -> None:
    """RE8: nothing else is raised, and what is read is written the same."""
    try:
        leaves = decode(data)
    except BadInput:
        return
    assert encode(leaves) == data


GOOD = encode([Leaf(1, 1, 1, 1, 1, 1), Leaf(2, 1, 1, 1, 1, 1, bytes(32))])


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_no_changed_byte_passes_for_another_encoding(at: int, value: int) -> None:
    """RE8."""
    changed = GOOD[:at] + bytes([value]) + GOOD[at + 1 :]
    try:
        leaves = decode(changed)
    except BadInput:
        return
    assert encode(leaves) == changed
    assert (leaves == decode(GOOD)) == (changed == GOOD)


@pytest.mark.parametrize(
    "data",
    [
        GOOD[:-1],
        GOOD + b"\0",
        GOOD[49:] + GOOD[:49],
        GOOD[:49] * 2,
        GOOD[:8] + bytes(8) + GOOD[16:49],
        GOOD[:8] + (LEAF_ROWS_MAX + 1).to_bytes(8) + GOOD[16:49],
        GOOD[:48] + b"\5" + bytes(5),
    ],
    ids=["cut off", "too long", "in another order", "twice", "without rows", "too many rows", "half a proof"],
)
def test_what_is_no_page_of_leaves_is_refused(data: bytes) -> None:
    """RE8, RE17."""
    with pytest.raises(BadInput):
        decode(data)


@pytest.mark.parametrize("leaf", [Leaf(1, LEAF_ROWS_MAX + 1, 0, 0, 0, 0), empty(1) - Leaf(1, 1, 1, 1, 1, 1)])
def test_a_leaf_that_cannot_be_written_says_so(leaf: Leaf) -> None:
    """RE17: loudly, never a wrong digest."""
    with pytest.raises(BadInput):
        encode([leaf])
    with pytest.raises(BadInput):
        root(SPEC, 8, [leaf])
