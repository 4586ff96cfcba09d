"""Ranges of tokens as sets: against plain sets of cells, scaled down to a ring that can be counted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import BadInput
from topolog.events.token_range import (
    FULL,
    RING,
    RING_BITS,
    Ranges,
    TokenRange,
    buckets,
    cells,
    coarsened,
    contains,
    of_buckets,
    overlap,
    parse,
    split,
    union,
    unwrapped,
    without,
)

UNITS = 64
UNIT = RING // UNITS
UNIT_BITS = 6

units = st.integers(0, UNITS - 1)
unit_ranges = st.lists(
    st.tuples(units, units).map(
        lambda ends: TokenRange(min(ends) * UNIT, (max(ends) + 1) * UNIT),
    ),
    max_size=6,
)
any_ranges = st.lists(
    st.tuples(st.integers(0, RING), st.integers(0, RING))
    .filter(lambda ends: ends[0] != ends[1])
    .map(lambda ends: TokenRange(min(ends), max(ends))),
    max_size=6,
)


def held(ranges: list[TokenRange] | Ranges) -> set[int]:
    """The units that are in these."""
    return {unit for each in ranges for unit in range(each.start // UNIT, each.end // UNIT)}


def is_a_set(ranges: Ranges) -> bool:
    return all(one.end < other.start for one, other in pairwise(ranges))


@given(unit_ranges, unit_ranges)
def test_they_are_sets(left: list[TokenRange], right: list[TokenRange]) -> None:
    """RE12: union, overlap, difference and inclusion are those of the tokens."""
    for made, expected in (
        (union([*left, *right]), held(left) | held(right)),
        (overlap(left, right), held(left) & held(right)),
        (without(left, right), held(left) - held(right)),
    ):
        assert held(made) == expected
        assert is_a_set(made)
        assert cells(made) == len(expected) * UNIT
    assert contains(left, right) == (held(right) <= held(left))


def test_ranges_that_only_touch_do_not_overlap() -> None:
    """RE27: [a, b) and [b, c)."""
    one, other = TokenRange(0, 100), TokenRange(100, 200)
    assert overlap([one], [other]) == ()
    assert overlap([one], [TokenRange(99, 200)]) == (TokenRange(99, 100),)
    assert union([other, one]) == (TokenRange(0, 200),)


@given(units, units)
def test_a_wrapping_range_has_the_leaves_of_its_pieces(start: int, end: int) -> None:
    """RE12."""
    if start == end:
        with pytest.raises(BadInput):
            unwrapped(start * UNIT, end * UNIT)
        return
    ranges = unwrapped(start * UNIT, end * UNIT)
    round_the_ring = {(start + step) % UNITS for step in range((end - start) % UNITS)}
    assert held(ranges) == round_the_ring
    assert {number for each in buckets(ranges, UNIT_BITS) for number in each} == round_the_ring
    assert is_a_set(ranges)


def test_full_has_all_leaves() -> None:
    """RE12."""
    assert [list(each) for each in buckets([FULL], 8)] == [list(range(256))]
    assert of_buckets(range(256), 8) == (FULL,)
    assert parse("full") == parse(" FULL ") == (FULL,)


def test_one_token_is_one_leaf_at_any_depth() -> None:
    """RE12."""
    token = TokenRange(0x12345678, 0x12345679)
    for bits, bucket in ((8, 0x12), (16, 0x1234), (32, 0x12345678)):
        assert [list(each) for each in buckets([token], bits)] == [[bucket]]
    assert list(buckets([TokenRange(RING - 1, RING)], 8)) == [range(255, 256)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40000000..80000000", (TokenRange(0x40000000, 0x80000000),)),
        (" 0 .. ff ", (TokenRange(0, 0xFF),)),
        ("80000000..0", (TokenRange(0x80000000, RING),)),
        ("f0000000..10000000", (TokenRange(0, 0x10000000), TokenRange(0xF0000000, RING))),
    ],
)
def test_ranges_are_read_as_people_write_them(text: str, expected: Ranges) -> None:
    """RE12."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "..", "5", "5..", "..5", "5..5", "0..0", "x..y", "-1..5", "0..100000001", "100000000..5", "1..2..3"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    """RE12: left == right, too."""
    with pytest.raises(BadInput):
        parse(text)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5), (0, RING + 1)])
def test_no_range_is_empty_or_leaves_the_ring(start: int, end: int) -> None:
    """RE12: a validator's message is checked as it is read."""
    with pytest.raises(BadInput):
        TokenRange(start, end)


@given(any_ranges, st.integers(1, 40), st.integers(1, 16))
def test_a_split_covers_just_the_ranges_and_cuts_between_buckets(
    ranges: list[TokenRange], parts: int, bits: int
) -> None:
    """RE31."""
    pieces = split(ranges, parts, bits)
    assert len(pieces) <= parts
    assert all(pieces)
    assert union(each for piece in pieces for each in piece) == union(ranges)
    assert sum(map(cells, pieces)) == cells(union(ranges))
    leaves = [{number for run in buckets(piece, bits) for number in run} for piece in pieces]
    assert sum(map(len, leaves)) == len(set().union(*leaves))


def test_a_bucket_with_a_hole_stays_in_one_part() -> None:
    """RE31: the hole does not cut the bucket in two."""
    ranges = [TokenRange(0, 10), TokenRange(12, 20), TokenRange(UNIT, UNIT + 4)]
    assert split(ranges, 2, UNIT_BITS) == [tuple(ranges[:2]), tuple(ranges[2:])]


@given(st.integers(1, 8), st.integers(8, 16))
def test_parts_of_the_ring_are_of_equal_size(parts_bits: int, bits: int) -> None:
    """RE12."""
    pieces = split([FULL], 1 << parts_bits, bits)
    assert {cells(piece) for piece in pieces} == {RING >> parts_bits}


@given(any_ranges, st.integers(1, 8), any_ranges)
def test_ranges_are_made_coarser_without_leaving_what_was_asked(
    ranges: list[TokenRange], limit: int, within: list[TokenRange]
) -> None:
    """RE12 (CASSANDRA-13052)."""
    made, exact = coarsened(ranges, limit, within), overlap(ranges, within)
    assert contains(made, exact)
    assert contains(within, made)
    assert len(made) <= max(limit, len(union(within)))
    assert is_a_set(made)
    if len(exact) <= limit:
        assert made == exact


def test_the_smallest_gaps_are_closed_first() -> None:
    """RE21: as few rows as can be are looked at for nothing."""
    starts = [0, 20, 25, 60, 63]
    ranges = [TokenRange(start, start + 1) for start in starts]
    assert coarsened(ranges, 3) == (TokenRange(0, 1), TokenRange(20, 26), TokenRange(60, 64))
    assert coarsened(ranges, 3, [TokenRange(0, 22), TokenRange(24, 61), TokenRange(62, RING)]) == (
        TokenRange(0, 21),
        TokenRange(25, 61),
        TokenRange(63, 64),
    )


def test_many_ranges_are_dealt_with_at_once() -> None:
    """The sets of a large table: 4,096 ranges against 2^16 leaves is no product of both."""
    ranges = [TokenRange(start, start + 5) for start in range(0, 4096 * 100, 100)]
    leaves = of_buckets(range(0, 1 << 16, 2), 16)
    assert cells(overlap(ranges, leaves)) + cells(without(ranges, leaves)) == 4096 * 5
    assert len(split(ranges, 1024, RING_BITS)) == 1024
