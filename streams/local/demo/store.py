"""The store as its clients see it: rows of tables by key (shop.orders/17), and rows of types (Order/17) beside them.

What it asks of its node, and when:

    around each row     may we act for the partition? and still when it is done (`shards.py`)
    ... of a table      what is the table now? and still the same when it is done
    ... of a type       before a write: is the type agreed?

A table has the columns that it was given, and is changed by a schema change; a type grows by what its rows have, once
all agree (`agreement.py`). A row that is another node's is that node's to store: NotPrimary says who it is, and
`serving.py` and `program.py` go there.
"""

import threading
from collections import Counter

import msgspec

from topolog.events.errors import BadInput
from topolog.streams.local.demo.agreement import Agreement, Shape
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.table_rows import decoded, encoded, incarnation_of, is_table, row_key
from topolog.streams.local.demo.types_of_rows import JSON_TYPES, Document

ROW_BYTES_MAX = 1_000_000


class Store:
    """Any thread may read and write."""

    def __init__(self, shards: Shards, agreement: Agreement) -> None:
        self._shards = shards
        self._agreement = agreement
        self._agreeing = threading.Lock()

    def put(self, name: str, key: str, row: bytes, *, if_absent: bool = False) -> bool:
        """Store a JSON object as a row of this table or type; False if there is one and `if_absent`.

        Of a table it has values for columns, and none for the rest. Of a type its key is the field by which rows of
        that type are known, `id` if it is new; values become what is agreed.

        Raises BadInput for anything else, for what has no equal there, and for a row that is too large; what
        `Node.writing` raises, or agreement; and what `Shards.write` does.
        """
        try:
            document = msgspec.json.decode(row, type=Document)
        except msgspec.MsgspecError as error:
            raise BadInput(f"The body is no JSON object: {error}.") from error
        if len(row) > ROW_BYTES_MAX:
            raise BadInput(f"A row of {name} has {len(row)} bytes, at most {ROW_BYTES_MAX} can be stored.")
        if not is_table(name):
            return self._put_of_type(name, key, document, if_absent=if_absent)
        with self._shards.tables.writing(name) as table:
            kept = encoded(table, key, document)
            return self._shards.write(row_key(table.incarnation, key), kept, if_absent=if_absent)

    def _put_of_type(self, type_name: str, key: str, document: Document, *, if_absent: bool) -> bool:
        with self._agreeing:
            named = self._agreement.key_of(type_name) or "id"
        document.setdefault(named, key)
        if str(document[named]) != key:
            raise BadInput(f"The row says that its {named} is {document[named]!r}, the path says {key!r}.")
        fields = {field: value for field, value in document.items() if value is not None}
        types = {field: JSON_TYPES[type(value)] for field, value in fields.items()}
        agreed = self.as_agreed(Shape.of(type_name, named, types, fields), fields)
        return self._shards.write(_of_type(type_name, key), msgspec.json.encode(agreed), if_absent=if_absent)

    def get(self, name: str, key: str) -> bytes | None:
        """The row as JSON; None if there is none. Raises as `Shards.read`, and `Node.using`."""
        if not is_table(name):
            return self._shards.read(_of_type(name, key))
        with self._shards.tables.using(name) as table:
            kept = self._shards.read(row_key(table.incarnation, key))
            return None if kept is None else msgspec.json.encode(decoded(table.columns, kept))

    def delete(self, name: str, key: str) -> None:
        """Whether it is there or not. Raises as `Shards.write`, and `Node.writing`."""
        if not is_table(name):
            self._shards.write(_of_type(name, key), None)
            return
        with self._shards.tables.writing(name) as table:
            self._shards.write(row_key(table.incarnation, key), None)

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by table and type of the partitions that this node acts for, and of all that it holds; copies by state;
        messages that were refused."""
        return {
            "rows": self._by_name(acting_only=True),
            "copies": self._by_name(acting_only=False),
            "partitions": dict(self._shards.states()),
            "refused": dict(self._shards.refused()),
        }

    def as_agreed(self, shape: Shape, document: Document) -> Document:
        """The document with the values that the cluster has agreed on. Raises what agreement raises; BadInput if a
        value has no equal."""
        with self._agreeing:
            conversions = self._agreement.conversions(shape)
        row: Document = {}
        for field, value in document.items():
            try:
                row[field] = conversions[field](value)
            except ValueError as error:
                raise BadInput(f"{shape.name}.{field}: {error}.", hint="The row is put aside.") from error
        return row

    def _by_name(self, *, acting_only: bool) -> dict[str, int]:
        return dict(Counter(map(self._name_of, self._shards.keys(acting_only=acting_only))))

    def _name_of(self, row: str) -> str:
        incarnation = incarnation_of(row)
        return row.partition("/")[0] if incarnation is None else self._shards.tables.name_of(incarnation)


def _of_type(type_name: str, key: str) -> str:
    """The row key: a type's name has no slash."""
    return f"{type_name}/{key}"
