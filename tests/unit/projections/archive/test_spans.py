"""Spans of offsets: what has landed, what is missing (RD26)."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.archive.spans import Span, merged, minus, overlapping, shares

spans = st.lists(
    st.builds(
        lambda topic, partition, start, length: Span(topic, partition, start, start + length),
        st.sampled_from(["decisions", "requests"]),
        st.integers(0, 1),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=8,
)


def offsets(found: Iterable[Span]) -> set[tuple[str, int, int]]:
    return {(each.topic, each.partition, offset) for each in found for offset in range(each.start, each.end)}


@given(spans)
def test_merged_spans_are_the_same_offsets_in_order_and_apart(given_spans: list[Span]) -> None:
    found = merged(given_spans)
    assert offsets(found) == offsets(given_spans)
    assert list(found) == sorted(found)
    assert all(one.place != other.place or one.end < other.start for one, other in pairwise(found))
    assert all(each.start < each.end for each in found)


@given(spans, spans)
def test_what_is_taken_is_gone_and_all_else_stays(one: list[Span], other: list[Span]) -> None:
    assert offsets(minus(one, other)) == offsets(one) - offsets(other)
    assert minus(one, other) == merged(minus(one, other))
    assert offsets(overlapping(one, other)) == offsets(one) & offsets(other)


wanted = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 40)), max_size=7)


@given(wanted, st.integers(1, 60))
def test_a_share_is_the_first_of_what_is_wanted(given_wanted: list[tuple[str, int, int]], limit: int) -> None:
    """Nobody gets more than an equal part while another has less than it wants."""
    asked = {(owner, place): length for owner, place, length in given_wanted}
    found = shares([(owner, Span("decisions", place, 5, 5 + size)) for (owner, place), size in asked.items()], limit)
    assert all(span.start == 5 < span.end for _, span in found)
    got = {(owner, span.partition): span.end - span.start for owner, span in found}
    assert all(size <= asked[place] for place, size in got.items())
    assert sum(got.values()) <= max(limit, len(asked))
    assert sum(got.values()) >= min(limit, sum(asked.values()))
    wants, gets = ({owner: total(each, owner) for owner in "abc"} for each in (asked, got))
    for owner in "abc":
        if gets[owner] < wants[owner]:
            assert all(gets[other] <= gets[owner] + len(asked) for other in "abc")


def total(sizes: dict[tuple[str, int], int], of: str) -> int:
    return sum(size for (owner, _), size in sizes.items() if owner == of)
