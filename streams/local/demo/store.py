"""The store as its clients see it: rows by type and key, each in the partition that its name falls into.

What it asks of its node, and when:

    before a write      is the type agreed?
    around each         may we act for the partition? and still when it is done (`shards.py`)

A row that is another node's is that node's to store: NotPrimary says who it is, and `serving.py` and `program.py` go
there. Values are kept as JSON, as they are answered.
"""

import threading
from collections import Counter
from typing import Any

import msgspec

from topolog.events.errors import BadInput
from topolog.streams.local.demo.agreement import Agreement, Shape
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.types_of_rows import Document

ROW_BYTES_MAX = 1_000_000

_JSON_TYPES = {bool: "boolean", int: "long", float: "double", str: "String", list: "Collection", dict: "Map"}


class Store:
    """Any thread may read and write."""

    def __init__(self, shards: Shards, agreement: Agreement) -> None:
        self._shards = shards
        self._agreement = agreement
        self._agreeing = threading.Lock()

    def put(self, shape: Shape, document: Document) -> None:
        """Store a document under its key, as the cluster has agreed to store it.

        Raises what agreement raises, and `Shards.write`; BadInput if a value has no equal in the agreed type.
        """
        self.put_agreed(shape.name, str(document[shape.key]), self.as_agreed(shape, document))

    def put_agreed(self, type_name: str, key: str, row: bytes, *, if_absent: bool = False) -> bool:
        """Store a row whose values are as agreed. As `Shards.write`; BadInput for one that is too large."""
        if len(row) > ROW_BYTES_MAX:
            raise BadInput(f"A row of {type_name} has {len(row)} bytes, at most {ROW_BYTES_MAX} can be stored.")
        return self._shards.write(_row_key(type_name, key), row, if_absent=if_absent)

    def put_json(self, type_name: str, key: str, row: bytes, *, if_absent: bool = False) -> bool:
        """Store a JSON object as somebody has typed it. Its key is the field by which rows of this type are known, `id`
        if the type is new.

        Raises BadInput for anything else, and as `put`.
        """
        try:
            document = msgspec.json.decode(row, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise BadInput(f"The body is no JSON object: {error}.") from error
        with self._agreeing:
            named = self._agreement.key_of(type_name) or "id"
        document.setdefault(named, key)
        if str(document[named]) != key:
            raise BadInput(f"The row says that its {named} is {document[named]!r}, the path says {key!r}.")
        fields = {field: value for field, value in document.items() if value is not None}
        types = {field: _JSON_TYPES[type(value)] for field, value in fields.items()}
        shape = Shape.of(type_name, named, types, fields)
        return self.put_agreed(type_name, key, self.as_agreed(shape, fields), if_absent=if_absent)

    def get(self, type_name: str, key: str) -> bytes | None:
        """The row as JSON; None if there is none. Raises as `Shards.read`."""
        return self._shards.read(_row_key(type_name, key))

    def delete(self, type_name: str, key: str) -> None:
        """Whether it is there or not. Raises as `Shards.write`."""
        self._shards.write(_row_key(type_name, key), None)

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by type of the partitions that this node acts for, and of all that it holds; copies by state; messages
        that were refused."""
        return {
            "rows": self._by_type(acting_only=True),
            "copies": self._by_type(acting_only=False),
            "partitions": dict(self._shards.states()),
            "refused": dict(self._shards.refused()),
        }

    def as_agreed(self, shape: Shape, document: Document) -> bytes:
        """The document as it is to be stored. Raises as `put`."""
        with self._agreeing:
            conversions = self._agreement.conversions(shape)
        row: Document = {}
        for field, value in document.items():
            try:
                row[field] = conversions[field](value)
            except ValueError as error:
                raise BadInput(f"{shape.name}.{field}: {error}.", hint="The row is put aside.") from error
        return msgspec.json.encode(row)

    def _by_type(self, *, acting_only: bool) -> dict[str, int]:
        return dict(Counter(key.partition("/")[0] for key in self._shards.keys(acting_only=acting_only)))


def _row_key(type_name: str, key: str) -> str:
    """What decides about the partition: a type's name has no slash."""
    return f"{type_name}/{key}"
