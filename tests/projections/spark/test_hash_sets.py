"""Which hashes are not as often on both sides: as counting says, whatever the sides hold."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.spark.hash_sets import Words, places_of, unbalanced

SIDE = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=40)


def words(values: list[int]) -> Words:
    return np.array(values, np.uint64)


@given(SIDE, SIDE)
def test_just_the_values_that_are_not_as_often_on_both_sides_are_found(left: list[int], right: list[int]) -> None:
    """Scenario 6, of hashes: twice on one side alone is something else than once on each."""
    expected = sorted(value for value in {*left, *right} if Counter(left)[value] != Counter(right)[value])
    assert unbalanced(np.sort(words(left)), np.sort(words(right))).tolist() == expected


@given(SIDE, SIDE)
def test_just_the_places_of_wanted_values_are_found(values: list[int], wanted: list[int]) -> None:
    """The filter before the search may let pass what is not wanted, and never stops what is."""
    expected = [place for place, value in enumerate(values) if value in wanted]
    assert places_of(words(values), np.unique(words(wanted))).tolist() == expected
