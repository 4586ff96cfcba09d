"""The tables of the store: what may be done with them now, and what of their rows counts in this node's copies.

Rows of a table that was dropped, and values of such a column, are never shown (`table_rows.py`); here they are told
apart, so that copies do not keep them, whether they lie there or come from a node that has not heard of it yet. Only
what a commit has closed is dropped: while a change is prepared all is kept, for it may be rolled back.

What is closed while this node is a member it is told; what was closed before it asks for, of all that it finds.
"""

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager

from topolog.streams.local.demo.replication.messages import Cell
from topolog.streams.local.demo.table_rows import incarnation_of, numbers_in, without
from topolog.streams.node.client import Node
from topolog.streams.node.deletions import Deletion
from topolog.streams.node.objects import Table


class Tables:
    """Make it before its node is entered. `keep` takes no lock, and may be asked under any."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._names: dict[int, str] = {}
        self._closed: frozenset[int] = frozenset()
        self._columns: dict[int, frozenset[int]] = {}
        self._closing = threading.Lock()
        node.on_table(self._on_table)

    def using(self, name: str) -> AbstractContextManager[Table]:
        """Around a read; as `Node.using`."""
        return self._node.using(name)

    def writing(self, name: str) -> AbstractContextManager[Table]:
        """Around a write; as `Node.writing`."""
        return self._node.writing(name)

    def name_of(self, incarnation: int) -> str:
        """The name that the table had last."""
        return self._names.get(incarnation, f"table {incarnation}")

    def keep(self, row: str, value: bytes) -> bytes | None:
        """What of a row with this row key counts, None for nothing (`Content`)."""
        incarnation = incarnation_of(row)
        if incarnation is None:
            return value
        if incarnation in self._closed:
            return None
        numbers = self._columns.get(incarnation)
        return without(value, numbers) if numbers and value else value

    def close(self, deletion: Deletion) -> None:
        """A commit has closed this."""
        tables = {each.incarnation for each in deletion.tables}
        self._close(tables, [(each.incarnation, each.number) for each in deletion.columns])

    def look_at(self, rows: Iterable[tuple[str, Cell]]) -> None:
        """Ask what of these was closed without our being told."""
        found: dict[int, set[int]] = {}
        for row, cell in rows:
            incarnation = incarnation_of(row)
            if incarnation is not None:
                found.setdefault(incarnation, set()).update(numbers_in(cell.value) if cell.value else ())
        tables = {incarnation for incarnation in found if self._node.is_closed(incarnation)}
        columns = [(incarnation, number) for incarnation, numbers in found.items() for number in numbers]
        self._close(tables, [each for each in columns if self._node.is_closed(*each)])

    def _close(self, tables: set[int], columns: Iterable[tuple[int, int]]) -> None:
        with self._closing:
            self._closed |= tables
            for incarnation, number in columns:
                self._columns[incarnation] = self._columns.get(incarnation, frozenset()) | {number}

    def _on_table(self, name: str, table: Table | None) -> None:
        if table is not None:
            self._names[table.incarnation] = name
