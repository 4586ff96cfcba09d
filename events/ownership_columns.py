"""What the log knows of partitions, packed: rows of columns of fixed width (DESIGN §4.3).

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

from collections.abc import Iterator, Sequence
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
    """The columns of a row as arrays, to be looked at or, if they are `writable`, to be changed."""

    def __init__(self, row: OwnershipRow, *, writable: bool = False) -> None:
        table, line = (row.count, row.width), (row.count,)
        self.holders = array_of(row.holders, "<u2", table, writable)
        self.states = array_of(row.states, "u1", table, writable)
        self.since = array_of(row.since, "<u8", table, writable)
        self.acting = array_of(row.acting, "<u2", line, writable)
        self.tokens = array_of(row.tokens, "<u8", line, writable)
        self.lost = array_of(row.lost, "u1", line, writable)

    @classmethod
    def over(cls, rows: Sequence[OwnershipRow], *, width: int = 0, writable: bool = False) -> "Columns":
        """Those of several rows, one after the other, all as wide as the widest, or wider: `width`.

        To look at a thousand rows at once costs a hundredth of what it costs to look at each.
        """
        width = max(width, *(row.width for row in rows))
        wide = [row if row.width == width else _widened(row, width) for row in rows]
        return cls(
            OwnershipRow(
                rows[0].group,
                rows[0].first,
                sum(row.count for row in rows),
                width,
                b"".join([row.holders for row in wide]),
                b"".join([row.states for row in wide]),
                b"".join([row.since for row in wide]),
                b"".join([row.acting for row in wide]),
                b"".join([row.tokens for row in wide]),
                b"".join([row.lost for row in wide]),
            ),
            writable=writable,
        )

    def row(self, like: OwnershipRow, start: int = 0, width: int | None = None) -> OwnershipRow:
        """A row of the group and the partitions of `like` with these columns: the lines from `start` on."""
        lines, width = slice(start, start + like.count), self.holders.shape[1] if width is None else width
        return OwnershipRow(
            like.group,
            like.first,
            like.count,
            width,
            self.holders[lines, :width].tobytes(),
            self.states[lines, :width].tobytes(),
            self.since[lines, :width].tobytes(),
            self.acting[lines].tobytes(),
            self.tokens[lines].tobytes(),
            self.lost[lines].tobytes(),
        )

    def take_out(self, copies: NDArray[np.bool_]) -> None:
        """These copies go, those behind them close up: the first place is the wanted primary's, where one is wanted."""
        lines = np.flatnonzero(copies.any(axis=1))
        goes = copies[lines]
        order = np.argsort(goes, axis=1, kind="stable")
        is_empty = np.take_along_axis(goes, order, axis=1)
        for column, nothing in ((self.holders, NOBODY), (self.states, 0), (self.since, 0)):
            column[lines] = np.where(is_empty, nothing, np.take_along_axis(column[lines], order, axis=1))

    def widen(self, width: int) -> None:
        """Room for so many copies of each partition."""
        lines, before = self.holders.shape
        if width > before:
            more = (lines, width - before)
            self.holders = np.hstack((self.holders, np.full(more, NOBODY, self.holders.dtype)))
            self.states = np.hstack((self.states, np.zeros(more, self.states.dtype)))
            self.since = np.hstack((self.since, np.zeros(more, self.since.dtype)))


def compact(holders: NDArray[np.uint16], *others: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The same copies in their order, without empty places between them; so are the columns beside them."""
    order = np.argsort(holders == NOBODY, axis=1, kind="stable")
    return tuple(np.take_along_axis(each, order, axis=1) for each in (holders, *others))


def pieces(lines: int, width: int) -> Iterator[slice]:
    """As many lines at once as may be compared, each of `width` copies with each other one, in some megabytes."""
    at_once = max(1, CELLS_AT_ONCE // max(1, width * width))
    return (slice(at, at + at_once) for at in range(0, max(1, lines), at_once))


def _widened(row: OwnershipRow, width: int) -> OwnershipRow:
    columns = Columns(row)
    columns.widen(width)
    return columns.row(row)


def array_of(column: bytes, dtype: str, shape: tuple[int, ...], writable: bool) -> NDArray[np.unsignedinteger]:
    """A column of a row as an array; a copy if it is `writable`."""
    found = np.frombuffer(column, dtype=dtype).reshape(shape)
    return found.copy() if writable else found
