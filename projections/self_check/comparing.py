"""Which rows of a store are not those of another side at the same position."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from topolog.projections import layout
from topolog.projections.rocks import View
from topolog.projections.self_check.buckets import Buckets, cut, cut_along
from topolog.projections.self_check.opened import rows_of_log

Rows = Iterator[tuple[bytes, bytes]]


class Side(Protocol):
    """What is compared: rows in the order of keys, from `start` to before `end`. It holds still meanwhile."""

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Rows: ...

    def buckets(self) -> Buckets: ...


class StoreSide:
    """A store as a view shows it; with `up_to` only what it held of the past at that position already."""

    def __init__(self, view: View, up_to: int | None = None) -> None:
        self._view = view
        self._up_to = up_to

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Rows:
        found = rows_of_log(self._view, start, end)
        return found if self._up_to is None else (each for each in found if _is_of_past(each[0], self._up_to))

    def buckets(self) -> Buckets:
        return cut(self.rows())

    def buckets_along(self, borders: Sequence[bytes]) -> Buckets:
        return cut_along(self.rows(), borders)


class PastSide:
    """What another side held of the past at a position already."""

    def __init__(self, side: Side, up_to: int) -> None:
        self._side = side
        self._up_to = up_to

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Rows:
        return (each for each in self._side.rows(start, end) if _is_of_past(each[0], self._up_to))

    def buckets(self) -> Buckets:
        return cut(self.rows())


class Mismatch(msgspec.Struct, frozen=True):
    """One key whose values are not the same; None is no value."""

    key: bytes
    expected: bytes | None
    found: bytes | None


class Comparison:
    """A store beside what it should be."""

    def __init__(self, expected: Side, found: StoreSide) -> None:
        self._expected = expected
        self._found = found
        wanted = expected.buckets()
        self.buckets = found.buckets_along(wanted.borders)
        self.spans = wanted.differing(self.buckets)

    def mismatches(self) -> Iterator[Mismatch]:
        """Every row that is not the same, in the order of keys; reads the buckets that differ."""
        for start, end in self.spans:
            expected, found = dict(self._expected.rows(start, end)), dict(self._found.rows(start, end))
            for key in sorted(expected.keys() | found.keys()):
                if expected.get(key) != found.get(key):
                    yield Mismatch(key, expected.get(key), found.get(key))


def _is_of_past(key: bytes, up_to: int) -> bool:
    """Whether the row is of a family that keeps the past, and no younger than this position."""
    match key[:1]:
        case b"c" | b"d":
            return int.from_bytes(key[1:], "big") <= up_to
        case b"h" | b"s":
            return layout.position_of(key) <= up_to
        case _:
            return False
