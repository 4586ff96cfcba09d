"""Ranges of tokens: what part of a table is compared (RE12, RE15).

Every row has a token, a place on a ring of 2^32 cells. Inside topolog a range is half-open and never wraps, so there is
no signed minimum and no special case at the edge; a range that wraps is taken apart where people and other programs
come in (`unwrapped`), and the whole ring is asked for by name: start == end means nothing there and everything here, so
it is refused.

Ranges as a set are a sorted tuple in which no two touch. Coverage is such a set.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from topolog.events.errors import BadInput

RING_BITS = 32
RING = 1 << RING_BITS


class TokenRange(msgspec.Struct, frozen=True, order=True):
    """The cells from `start` up to, not including, `end`; 0 <= start < end <= 2^32."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= RING:
            raise BadInput(f"{self.start:#x} to {self.end:#x} is no range of tokens.", hint=_HINT)

    def __str__(self) -> str:
        return f"{self.start:08x}..{self.end:08x}"

    @property
    def cells(self) -> int:
        return self.end - self.start


Ranges = tuple[TokenRange, ...]
"""A set of tokens: sorted, and no two of them touch."""

FULL = TokenRange(0, RING)
_HINT = "Write full, or two tokens of up to 8 hexadecimal digits, such as 40000000..80000000."


def unwrapped(start: int, end: int) -> Ranges:
    """The one or two ranges from `start` to `end` round the ring; raises BadInput if they are equal (RE12)."""
    if not (0 <= start < RING and 0 <= end <= RING) or start == end:
        raise BadInput(f"{start:08x}..{end:08x} is no range of tokens.", hint=_HINT)
    if start < end:
        return (TokenRange(start, end),)
    return union([TokenRange(start, RING), *([TokenRange(0, end)] if end else [])])


def parse(text: str) -> Ranges:
    """`full`, or `start..end` in hexadecimal, which may wrap; raises BadInput."""
    if text.strip().lower() == "full":
        return (FULL,)
    start, _, end = (part.strip() for part in text.partition(".."))
    try:
        return unwrapped(int(start, 16), int(end, 16))
    except ValueError as error:
        raise BadInput(f"{text!r} is no range of tokens.", hint=_HINT) from error


def union(ranges: Iterable[TokenRange]) -> Ranges:
    """All tokens that are in one of these; what touches becomes one."""
    merged: list[TokenRange] = []
    for each in sorted(ranges):
        if merged and each.start <= merged[-1].end:
            merged[-1] = TokenRange(merged[-1].start, max(merged[-1].end, each.end))
        else:
            merged.append(each)
    return tuple(merged)


def overlap(left: Iterable[TokenRange], right: Iterable[TokenRange]) -> Ranges:
    """The tokens that are in both; ranges that only touch have none."""
    one, other, found = list(reversed(union(left))), list(reversed(union(right))), []
    while one and other:
        start, end = max(one[-1].start, other[-1].start), min(one[-1].end, other[-1].end)
        if start < end:
            found.append(TokenRange(start, end))
        (one if one[-1].end == end else other).pop()
    return tuple(found)


def without(ranges: Iterable[TokenRange], taken: Iterable[TokenRange]) -> Ranges:
    """The tokens of the former that are not in the latter."""
    return overlap(ranges, _gaps(union(taken)))


def contains(ranges: Iterable[TokenRange], inner: Iterable[TokenRange]) -> bool:
    return not without(inner, ranges)


def cells(ranges: Iterable[TokenRange]) -> int:
    return sum(each.cells for each in ranges)


def split(ranges: Iterable[TokenRange], parts: int, bits: int = RING_BITS) -> list[Ranges]:
    """`parts` sets of about equal size, or fewer, that cover just these ranges.

    They are cut between buckets of `bits` bits only, so that no leaf of a tree is in two parts.
    """
    whole = union(ranges)
    rest, left, pieces, size = list(reversed(whole)), cells(whole), [], 1 << (RING_BITS - bits)
    for number in range(parts, 0, -1):
        if not rest:
            break
        piece = _cut_off(rest, -(-left // number), size)
        left -= cells(piece)
        pieces.append(piece)
    return pieces


def coarsened(ranges: Iterable[TokenRange], most: int, within: Iterable[TokenRange] = (FULL,)) -> Ranges:
    """What these have of `within` in at most so many ranges: of the gaps between them the smallest are closed.

    A gap is not closed over tokens that are not in `within`; so there are more if that has more ranges.
    """
    allowed = union(within)
    pieces = overlap(ranges, allowed)
    if len(pieces) <= most:
        return pieces
    starts = [each.start for each in allowed]
    homes = [bisect_right(starts, each.start) for each in pieces]
    gaps = [after.start - before.end for before, after in pairwise(pieces)]
    kept = {index for index, (home, other) in enumerate(pairwise(homes)) if home != other}
    closable = sorted((index for index in range(len(gaps)) if index not in kept), key=lambda index: -gaps[index])
    kept.update(closable[: max(0, most - 1 - len(kept))])
    ends = [*sorted(kept), len(pieces) - 1]
    firsts = [0, *(index + 1 for index in ends[:-1])]
    return tuple(TokenRange(pieces[first].start, pieces[last].end) for first, last in zip(firsts, ends, strict=True))


def buckets(ranges: Iterable[TokenRange], bits: int) -> Iterable[range]:
    """Which leaves of a tree of 2^bits have tokens in these ranges."""
    shift = RING_BITS - bits
    for each in ranges:
        yield range(each.start >> shift, ((each.end - 1) >> shift) + 1)


def of_buckets(numbers: Iterable[int], bits: int) -> Ranges:
    """The tokens of these leaves, in the largest contiguous ranges (RE12)."""
    shift = RING_BITS - bits
    return union(TokenRange(number << shift, (number + 1) << shift) for number in numbers)


def _gaps(ranges: Ranges) -> Ranges:
    """The rest of the ring."""
    edges = [0, *(edge for each in ranges for edge in (each.start, each.end)), RING]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple(TokenRange(start, end) for start, end in pairs if start < end)


def _cut_off(rest: list[TokenRange], wanted: int, size: int) -> Ranges:
    """Take the first `wanted` cells off `rest` (the first range is its last), and what is left of the bucket in which
    they end, in whichever ranges that is."""
    taken: list[TokenRange] = []
    end = RING
    while rest and rest[-1].start < end:
        each = rest.pop()
        if end == RING and each.cells >= wanted:
            end = -(-(each.start + wanted) // size) * size
        wanted -= each.cells
        taken.append(TokenRange(each.start, min(each.end, end)))
        if end < each.end:
            rest.append(TokenRange(end, each.end))
    return tuple(taken)
