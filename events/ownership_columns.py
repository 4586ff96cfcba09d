"""What the log knows of partitions, packed: rows of columns of fixed width (docs/design/partitions.md).

A million partitions must fit into every node's memory and change in a blink. So one row holds 256 partitions in columns
of fixed width; nodes are numbers in one roster, in the order in which they first held anything.

| column | per | type | |
|---|---|---|---|
| holders | copy | u2 | the node's number, NOBODY for an empty place; wanted ones first, in their affinity's order |
| states | copy | u1 | the state's code (`partitions.py`), and WANTED if the affinity wants it; 0 for an empty place |
| since | copy | u8 | the position that put the copy into this state |
| acting | partition | u2 | the acting primary's number, NOBODY while none acts |
| tokens | partition | u8 | the position that made it act, or ended that |
| lost | partition | u1 | 1 if no owner is left of it (DS2) |
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from topolog.events.state import Row

PARTITIONS_PER_ROW = 256
NOBODY = 0xFFFF
WANTED = 0x80
"""Bit of a state: the affinity of the newest outcome wants this copy."""

ROWS_AT_ONCE = 256
"""Of so many rows the columns are looked at together: more would not fit the processor's cache."""

CELLS_AT_ONCE = 1 << 22

_COLUMNS: Mapping[str, tuple[str, int | None]] = {
    "holders": ("<u2", NOBODY),
    "states": ("u1", 0),
    "since": ("<u8", 0),
    "acting": ("<u2", None),
    "tokens": ("<u8", None),
    "lost": ("u1", None),
}
"""The type of each, and what stands in an empty place, where it has an item a copy."""


class OwnershipRow(Row, frozen=True):
    """`count` partitions of a group from `first` on; `width` places for copies of each. The columns are above."""

    KIND: ClassVar[str] = "ownership"

    group: str
    first: int
    count: int
    width: int
    holders: bytes
    states: bytes
    since: bytes
    acting: bytes
    tokens: bytes
    lost: bytes


class Columns:
    """The columns of rows as arrays, to be looked at or, if they are `writable`, to be changed.

    A column is read when it is first asked for: who looks for a node's copies does not pay for all their times.
    """

    holders: NDArray[np.uint16]
    states: NDArray[np.uint8]
    since: NDArray[np.uint64]
    acting: NDArray[np.uint16]
    tokens: NDArray[np.uint64]
    lost: NDArray[np.uint8]

    def __init__(self, *rows: OwnershipRow, width: int = 0, writable: bool = False) -> None:
        """Those of several rows, one after the other, all as wide as the widest, or wider: `width`.

        To look at a thousand rows at once costs a hundredth of what it costs to look at each.
        """
        self._rows, self._writable = rows, writable
        self._width = max([width, *(row.width for row in rows)])

    def __getattr__(self, name: str) -> NDArray[Any]:
        """Read the column `name`; from then on it is an attribute."""
        if name not in _COLUMNS:
            raise AttributeError(name)
        dtype, nothing = _COLUMNS[name]
        columns = [getattr(row, name) for row in self._rows]
        found = self._line(columns, dtype) if nothing is None else self._table(columns, dtype, nothing)
        setattr(self, name, found)
        return found

    def row(self, like: OwnershipRow, start: int = 0, width: int | None = None) -> OwnershipRow:
        """The row `like`, whose first line is `start`, with these columns."""
        lines, width = slice(start, start + like.count), self._width if width is None else width
        return OwnershipRow(
            like.group,
            like.first,
            like.count,
            width,
            self.holders[lines, :width].tobytes(),
            self.states[lines, :width].tobytes(),
            self.since[lines, :width].tobytes(),
            self.acting[lines].tobytes() if "acting" in self.__dict__ else like.acting,
            self.tokens[lines].tobytes() if "tokens" in self.__dict__ else like.tokens,
            self.lost[lines].tobytes() if "lost" in self.__dict__ else like.lost,
        )

    def take_out(self, copies: NDArray[np.bool_]) -> None:
        """These copies go, those behind them close up: the first place is the wanted primary's, where one is wanted."""
        lines = np.flatnonzero(any_copy(copies))
        goes = copies[lines]
        order = np.argsort(goes, axis=1, kind="stable")
        is_empty = np.take_along_axis(goes, order, axis=1)
        for column, nothing in ((self.holders, NOBODY), (self.states, 0), (self.since, 0)):
            column[lines] = np.where(is_empty, nothing, np.take_along_axis(column[lines], order, axis=1))

    def _table(self, columns: Sequence[bytes], dtype: str, nothing: int) -> NDArray[Any]:
        """Columns with an item a copy; `nothing` stands in an empty place."""
        if all(row.width == self._width for row in self._rows):
            return self._line(columns, dtype).reshape(-1 if self._width else self._count, self._width)
        found = np.full((self._count, self._width), nothing, dtype)
        at = 0
        for row, column in zip(self._rows, columns, strict=True):
            found[at : at + row.count, : row.width] = np.frombuffer(column, dtype).reshape(row.count, row.width)
            at += row.count
        return found

    def _line(self, columns: Sequence[bytes], dtype: str) -> NDArray[Any]:
        """Columns with an item a partition."""
        if self._writable:
            return np.frombuffer(bytearray().join(columns), dtype)
        return np.frombuffer(columns[0] if len(columns) == 1 else b"".join(columns), dtype)

    @property
    def _count(self) -> int:
        return sum(row.count for row in self._rows)


def partitions_of(rows: Sequence[OwnershipRow]) -> NDArray[np.int64]:
    """The partitions of these rows of a group, by line of their columns."""
    return np.concatenate([np.arange(row.first, row.first + row.count) for row in rows])


def any_copy(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """By partition whether one of its copies is marked. By place: numpy takes ten times as long for short lines."""
    found = np.zeros(len(marks), np.bool_)
    for place in range(marks.shape[1]):
        found |= marks[:, place]
    return found


def compact(holders: NDArray[np.uint16], *others: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The same copies in their order, without empty places between them; so are the columns beside them."""
    order = np.argsort(holders == NOBODY, axis=1, kind="stable")
    return tuple(np.take_along_axis(each, order, axis=1) for each in (holders, *others))


def pieces(lines: int, width: int) -> Iterator[slice]:
    """As many lines at once as may be compared, each of `width` copies with each other one, in some megabytes."""
    at_once = max(1, CELLS_AT_ONCE // max(1, width * width))
    return (slice(at, at + at_once) for at in range(0, max(1, lines), at_once))
