"""Ranges of tokens: what part of a table is compared (anti-entropy A.6, D.5.3).

Every row has a token, a place on a ring of 2^32 cells. Inside topolog a range is half-open and never wraps, so there is
no signed minimum and no special case at the edge; a range that wraps is taken apart where people and other programs
come in (`unwrapped`), and the whole ring is asked for by name: start == end means nothing there and everything here, so
it is refused.

Ranges as a set are a sorted tuple in which no two touch. Coverage is such a set.
"""

from collections.abc import Iterable

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
    """The one or two ranges from `start` to `end` round the ring; raises BadInput if they are equal (scenario 27)."""
    if not (0 <= start < RING and 0 <= end <= RING) or start == end:
        raise BadInput(f"{start:08x}..{end:08x} is no range of tokens.", hint=_HINT)
    if start < end:
        return (TokenRange(start, end),)
    return union([TokenRange(start, RING), *([TokenRange(0, end)] if end else [])])


def parse(text: str) -> Ranges:
    """`full`, or `start..end` in hexadecimal, which may wrap; raises BadInput."""
    if text.strip().lower() == "full":
        return (FULL,)
    start, dots, end = (part.strip() for part in text.partition(".."))
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
    pairs = ((one, other) for one in left for other in right)
    return union(
        TokenRange(max(one.start, other.start), min(one.end, other.end))
        for one, other in pairs
        if one.start < other.end and other.start < one.end
    )


def without(ranges: Iterable[TokenRange], taken: Iterable[TokenRange]) -> Ranges:
    """The tokens of the former that are not in the latter."""
    left = list(union(ranges))
    for hole in union(taken):
        left = [piece for each in left for piece in _cut(each, hole)]
    return tuple(left)


def contains(ranges: Iterable[TokenRange], inner: Iterable[TokenRange]) -> bool:
    return not without(inner, ranges)


def cells(ranges: Iterable[TokenRange]) -> int:
    return sum(each.cells for each in ranges)


def split(ranges: Iterable[TokenRange], parts: int, bits: int = RING_BITS) -> list[Ranges]:
    """`parts` sets of about equal size, or fewer, that cover just these ranges.

    They are cut between buckets of `bits` bits only, so that no leaf of a tree is in two parts.
    """
    rest, pieces, size = union(ranges), [], 1 << (RING_BITS - bits)
    for number in range(parts, 0, -1):
        wanted = -(-cells(rest) // number)
        piece = _first(rest, wanted, size)
        if piece:
            pieces.append(piece)
        rest = without(rest, piece)
    return pieces


def buckets(ranges: Iterable[TokenRange], bits: int) -> Iterable[range]:
    """Which leaves of a tree of 2^bits have tokens in these ranges."""
    shift = RING_BITS - bits
    for each in ranges:
        yield range(each.start >> shift, ((each.end - 1) >> shift) + 1)


def of_buckets(numbers: Iterable[int], bits: int) -> Ranges:
    """The tokens of these leaves, in the largest contiguous ranges (A.5)."""
    shift = RING_BITS - bits
    return union(TokenRange(number << shift, (number + 1) << shift) for number in numbers)


def _cut(each: TokenRange, hole: TokenRange) -> list[TokenRange]:
    left = [TokenRange(each.start, min(each.end, hole.start))] if each.start < hole.start else []
    right = [TokenRange(max(each.start, hole.end), each.end)] if hole.end < each.end else []
    return left + right


def _first(ranges: Ranges, wanted: int, size: int) -> Ranges:
    """The first `wanted` cells and what is left of the bucket in which they end."""
    taken: list[TokenRange] = []
    for each in ranges:
        if wanted <= 0:
            break
        end = min(each.end, -(-(each.start + wanted) // size) * size)
        taken.append(TokenRange(each.start, end))
        wanted -= end - each.start
    return tuple(taken)
