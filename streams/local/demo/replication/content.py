"""The rows of one copy, each under the version of the write that made it."""

from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest

from topolog.events.ids import Position
from topolog.streams.local.demo.replication.messages import Cell, Row, Version

PAGE_ROWS = 256
PAGE_BYTES = 256_000
"""A page ends with the row that exceeds this."""


Keep = Callable[[str, bytes], bytes | None]
"""What of a row counts by now, under its key: the same for good, or less than before; None for nothing of it."""


def everything(_: str, value: bytes) -> bytes:
    return value


class Content:
    """Rows by key, and markers of deletions that some copy may not have yet.

    What counts no more is not stored, whoever sends it; `sweep` drops what has come to that since. Copies may differ in
    that, for each learns it by itself, and no reader sees it.
    """

    def __init__(self, page_rows: int = PAGE_ROWS, keep: Keep = everything) -> None:
        self._page_rows = page_rows
        self._keep = keep
        self._cells: dict[str, Cell] = {}
        self._markers: dict[str, Version] = {}

    def get(self, key: str) -> Cell | None:
        return self._cells.get(key)

    def put(self, key: str, cell: Cell) -> None:
        """Store it unless what is here is as new or newer: writes arrive repeated and out of order."""
        held = self._cells.get(key)
        if held is not None and held.version >= cell.version:
            return
        kept = self._kept(key, cell)
        if kept is None:
            return
        self._cells[key] = kept
        if cell.value is None:
            self._markers[key] = cell.version
        else:
            self._markers.pop(key, None)

    def rewrite(self, key: str, value: bytes) -> None:
        """Put other bytes under the version that is there: one of the two is not what its write has brought."""
        self._cells[key] = Cell(self._cells[key].version, value)

    def sweep(self) -> bool:
        """Drop what counts no more; whether there was any."""
        found = [(key, kept) for key, cell in self._cells.items() if (kept := self._kept(key, cell)) is not cell]
        for key, kept in found:
            if kept is None:
                del self._cells[key]
                self._markers.pop(key, None)
            else:
                self._cells[key] = kept
        return bool(found)

    def cells(self) -> Iterator[tuple[str, Cell]]:
        """All there is, markers included, in no order."""
        return iter(self._cells.items())

    def _kept(self, key: str, cell: Cell) -> Cell | None:
        value = self._keep(key, cell.value or b"")
        if value is None or cell.value is None or value == cell.value:
            return None if value is None else cell
        return Cell(cell.version, value)

    def forget_deletions(self, token: Position, settled: int) -> None:
        """Remove markers that no message can contradict any more: every copy has the writes up to this number."""
        for key, version in list(self._markers.items()):
            if version.token < token or version.number <= settled:
                del self._markers[key], self._cells[key]

    def rows(self) -> Iterator[tuple[str, Cell]]:
        """What is not deleted, in no order."""
        return ((key, cell) for key, cell in self._cells.items() if cell.value is not None)

    def __len__(self) -> int:
        return len(self._cells) - len(self._markers)

    def newest_token(self) -> Position:
        """Of the rows that are here, 0 if there are none."""
        return max((cell.version.token for cell in self._cells.values()), default=Position(0))

    def versions(self, after: str) -> dict[str, Version]:
        """Of the next rows by key, as many as a page has."""
        return {key: self._cells[key].version for key in self._next_keys(after, self._page_rows)}

    def page(self, after: str, have: Mapping[str, Version]) -> tuple[tuple[Row, ...], str | None]:
        """The next rows by key, without the values of those that the other has; and up to where they are all."""
        keys = self._next_keys(after, self._page_rows + 1)
        rows: list[Row] = []
        size = 0
        for key in keys[: self._page_rows]:
            cell = self._cells[key]
            row = Row(key, cell.version, None if have.get(key) == cell.version else cell.value)
            rows.append(row)
            size += len(key) + len(row.value or b"")
            if size > PAGE_BYTES:
                break
        is_last = len(rows) == len(keys)
        return tuple(rows), None if is_last else rows[-1].key

    def _next_keys(self, after: str, count: int) -> list[str]:
        return nsmallest(count, (key for key, cell in self._cells.items() if key > after and cell.value is not None))
