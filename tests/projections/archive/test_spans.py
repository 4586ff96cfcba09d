"""Spans of offsets: what has landed, what is missing (issue 9.1)."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.archive.spans import Span, merged, minus, overlapping

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
