"""Digests along shared borders: what differs is in the bucket that differs, wherever it stands."""

from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.self_check import buckets
from topolog.projections.self_check.buckets import ROWS_PER_BUCKET, cut, cut_along

rows_of = st.dictionaries(st.binary(max_size=4), st.binary(max_size=3), max_size=60)


def test_a_bucket_ends_where_a_kind_ends_and_when_it_is_full() -> None:
    rows = [(b"ra\0%05d" % number, b"") for number in range(ROWS_PER_BUCKET + 1)] + [(b"rb\0", b""), (b"s", b"")]
    found = cut(rows)
    assert found.borders == (b"", rows[ROWS_PER_BUCKET][0], b"rb\0", b"s")
    assert (found.rows, len(found.digests)) == (len(rows), 4)


@given(expected=rows_of, found=rows_of)
def test_every_difference_is_in_a_bucket_that_differs_and_in_no_other(
    expected: dict[bytes, bytes], found: dict[bytes, bytes]
) -> None:
    """The spans that differ hold all that differs, and each of them something."""
    mine = cut(sorted(expected.items()))
    theirs = cut_along(sorted(found.items()), mine.borders)
    spans = mine.differing(theirs)
    differing = {key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)}

    def within(start: bytes, end: bytes | None) -> set[bytes]:
        return {key for key in differing if key >= start and (end is None or key < end)}

    assert set[bytes]().union(*(within(*span) for span in spans)) == differing
    assert all(within(*span) for span in spans)
    assert (mine.root == theirs.root) == (not differing)


def test_rows_that_make_the_same_bytes_have_different_digests() -> None:
    """Where a key ends and its value begins counts."""
    one, other = cut([(b"ab", b"c")]), cut([(b"a", b"bc")])
    assert one.digests != other.digests
    assert buckets.cut([]).rows == 0
