"""The tables of the store: what may be done with them now, and what of their rows counts in this node's copies.

Rows of a table that was dropped, and values of such a column, are never shown (`table_rows.py`); here they are told
apart, so that copies do not keep them, whether they lie there or come from a node that has not heard of it yet. Only
what a commit has closed is dropped: while a change is prepared all is kept, for it may be rolled back.
"""

from contextlib import AbstractContextManager

from topolog.events.objects import ObjectStatus
from topolog.streams.local.demo.table_rows import incarnation_of, only
from topolog.streams.node.client import Node
from topolog.streams.node.objects import Table


class Tables:
    """Make it before its node is entered. Any thread may ask."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._names: dict[int, str] = {}
        self._columns: dict[int, frozenset[int]] = {}
        node.on_table(self._on_table)

    def using(self, name: str) -> AbstractContextManager[Table]:
        """Around a read; as `Node.using`."""
        return self._node.using(name)

    def writing(self, name: str) -> AbstractContextManager[Table]:
        """Around a write; as `Node.writing`."""
        return self._node.writing(name)

    def keep(self, row: str, value: bytes) -> bytes | None:
        """What of a row with this row key counts, None for nothing (`Content`)."""
        incarnation = incarnation_of(row)
        if incarnation is None:
            return value
        if self._node.is_closed(incarnation):
            return None
        numbers = self._columns.get(incarnation)
        return value if numbers is None or not value else only(value, numbers)

    def name_of(self, incarnation: int) -> str:
        """The name that the table had last."""
        return self._names.get(incarnation, f"table {incarnation}")

    def _on_table(self, name: str, table: Table | None) -> None:
        if table is None:
            return
        self._names[table.incarnation] = name
        if table.status is ObjectStatus.USING:
            self._columns[table.incarnation] = frozenset(each.number for each in table.columns)
        else:
            self._columns.pop(table.incarnation, None)
