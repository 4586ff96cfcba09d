"""A shard of rows in memory. What matters here is what it asks of its node, and when:

    before a write      is the type agreed? do we hold the lease?
    around a read       did we hold one lease from before the read until after it?

No check covers a pause that comes after it. A dictionary is as old as its process, so a late write to it harms nobody;
a store whose writes travel sends a token with each (docs/services.md).
"""

from topolog.events.errors import BadInput
from topolog.streams.local.demo.agreement import Agreement, Shape
from topolog.streams.local.demo.types_of_rows import Document
from topolog.streams.node.client import Node


class Store:
    """This node's rows, by type and by the text of their key. One thread writes, any thread reads."""

    def __init__(self, node: Node, agreement: Agreement) -> None:
        self._node = node
        self._agreement = agreement
        self._rows: dict[str, dict[str, Document]] = {}

    def put(self, shape: Shape, document: Document) -> None:
        """Store a document under its key, as the cluster has agreed to store it.

        Raises Fenced and what agreement raises; BadInput if a value has no equal in the agreed type.
        """
        row = self._as_agreed(shape, document)
        self._node.lease.require()
        self._rows.setdefault(shape.name, {})[str(document[shape.key])] = row

    def get(self, type_name: str, key: str) -> Document | None:
        """The row; None if this node has none. Raises Fenced: then another node may know better."""
        with self._node.lease.reading():
            return self._rows.get(type_name, {}).get(key)

    def counts(self) -> dict[str, int]:
        """How many rows of each type are here. Raises Fenced."""
        with self._node.lease.reading():
            return {name: len(rows) for name, rows in list(self._rows.items())}

    def _as_agreed(self, shape: Shape, document: Document) -> Document:
        conversions = self._agreement.conversions(shape)
        row: Document = {}
        for field, value in document.items():
            try:
                row[field] = conversions[field](value)
            except ValueError as error:
                raise BadInput(f"{shape.name}.{field}: {error}.", hint="The row is put aside.") from error
        return row
