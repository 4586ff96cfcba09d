"""The rows that one disk has, by the incarnation of their table and the number of their column.

Nothing here knows which of these are closed: what a service shows of it, and what it deletes, is judged from outside.
"""

from collections.abc import Callable, Mapping

import msgspec

from topolog.events.object_definition import WIDER, ColumnType

ROWS_MAX = 40


class Cell(msgspec.Struct, frozen=True):
    """One value: the number of the write that has brought it, and the narrowest type that holds it."""

    write: int
    type: ColumnType

    def fits(self, column: ColumnType) -> bool:
        return self.type is column or column in WIDER.get(self.type, ())


class StoredRow(msgspec.Struct, frozen=True):
    """One row under a number of its own: of what table, under which incarnation, its cells by column number, since
    when."""

    number: int
    table: str
    incarnation: int
    cells: Mapping[int, Cell]
    at_ns: int


class Store:
    """The oldest rows give way to new ones. `gone`: numbers of rows that are, for that or for their age."""

    def __init__(self) -> None:
        self.rows: list[StoredRow] = []
        self.gone: set[int] = set()

    def copy(self) -> "Store":
        copied = Store()
        copied.rows, copied.gone = list(self.rows), set(self.gone)
        return copied

    def put(self, row: StoredRow) -> None:
        self.rows.append(row)
        self.gone.update(each.number for each in self.rows[:-ROWS_MAX])
        del self.rows[:-ROWS_MAX]

    def of(self, incarnation: int) -> list[StoredRow]:
        """All rows of this table."""
        return [each for each in self.rows if each.incarnation == incarnation]

    def expire(self, is_old: Callable[[StoredRow], bool]) -> None:
        self.gone.update(each.number for each in self.rows if is_old(each))
        self.rows = [each for each in self.rows if not is_old(each)]

    def delete(self, incarnation: int, column: int | None) -> None:
        """The rows of a table, or the cells of one of its columns."""
        if column is None:
            self.rows = [each for each in self.rows if each.incarnation != incarnation]
            return
        self.rows = [_without(each, column) if each.incarnation == incarnation else each for each in self.rows]


def _without(row: StoredRow, column: int) -> StoredRow:
    cells = {number: cell for number, cell in row.cells.items() if number != column}
    return msgspec.structs.replace(row, cells=cells)
