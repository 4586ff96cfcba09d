"""The rows of one cluster: what the fold has made of the log so far.

A row is a frozen Struct under (kind, key). Protocols write rows only through `put` and `drop`, so that the journal of
dirty keys is complete: projections store what it names, the coordinator recomputes deadlines of what it names.

The state hash is the sum mod 2^128 over all rows that are not volatile, so neither the order of changes nor the way
they are batched matters, and two readers at one position can compare 16 bytes. Volatile rows (lease renewals, several
a second) have no history and no part in the hash.
"""

import hashlib
from collections.abc import Iterator
from typing import ClassVar, TypeVar

import msgspec

Key = tuple[str, str]
"""(kind, key) of a row."""


class Row(msgspec.Struct, frozen=True):
    """Parent of every row. `KIND` is the row's family, in the state, in stores and in keys shown to people."""

    KIND: ClassVar[str] = ""
    VOLATILE: ClassVar[bool] = False


R = TypeVar("R", bound=Row)
HASH_MODULUS = 1 << 128


class State:
    """Rows by kind and key, with a journal of dirty keys and an additive hash."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Row]] = {}
        self._journal: dict[Key, None] = {}
        self._unhashed: dict[Key, None] = {}
        self._row_hashes: dict[Key, int] = {}
        self._hash = 0
        self._before: dict[Key, tuple[Row | None, bool]] | None = None

    def get(self, kind: type[R], key: str) -> R | None:
        row = self._rows.get(kind.KIND, {}).get(key)
        assert row is None or isinstance(row, kind)
        return row

    def rows(self, kind: type[R]) -> Iterator[tuple[str, R]]:
        """(key, row) of one kind, in the order in which the keys first appeared."""
        for key, row in self._rows.get(kind.KIND, {}).items():
            assert isinstance(row, kind)
            yield key, row

    def count(self, kind: type[Row]) -> int:
        return len(self._rows.get(kind.KIND, {}))

    def copies(self) -> dict[str, dict[str, Row]]:
        """The rows as they are now, by kind and key: rows are frozen, so copies of the maps are enough."""
        return {kind: rows.copy() for kind, rows in self._rows.items()}

    def put(self, key: str, row: Row) -> None:
        # One function without others: of all that a fold does this is done most often.
        name = row.KIND, key
        rows = self._rows.get(row.KIND)
        if rows is None:
            rows = self._rows[row.KIND] = {}
        if self._before is not None and name not in self._before:
            self._before[name] = rows.get(key), name in self._journal
        rows[key] = row
        self._journal[name] = None
        if not row.VOLATILE:
            self._unhashed[name] = None

    def drop(self, kind: type[Row], key: str) -> None:
        """Remove a row; one that is not there leaves no trace."""
        self._note_before((kind.KIND, key))
        if self._rows.get(kind.KIND, {}).pop(key, None) is not None:
            self._journal[kind.KIND, key] = None
            if not kind.VOLATILE:
                self._unhashed[kind.KIND, key] = None

    def keys(self) -> list[Key]:
        """Every row's, by kind."""
        return [(kind, key) for kind, rows in self._rows.items() for key in rows]

    def lookup(self, key: Key) -> Row | None:
        """The row a journal entry names, or None when it is gone."""
        return self._rows.get(key[0], {}).get(key[1])

    def begin(self) -> None:
        """From here on changes can be undone, until `keep` or `undo`."""
        self._before = {}

    def keep(self) -> None:
        self._before = None

    def undo(self) -> None:
        """Every row, and the journal, as they were at `begin`; nothing may have been drained since."""
        before, self._before = self._before or {}, None
        for key, (row, was_dirty) in before.items():
            if row is None:
                self._rows.get(key[0], {}).pop(key[1], None)
            else:
                self._rows.setdefault(key[0], {})[key[1]] = row
            if not was_dirty:
                self._journal.pop(key, None)

    def drain(self) -> list[Key]:
        """Keys touched since the last drain, in the order of their first touch."""
        keys = list(self._journal)
        self._journal.clear()
        return keys

    def hash(self) -> bytes:
        """16 bytes over all rows that are not volatile; cost is that of the rows touched since the last call."""
        for key in self._unhashed:
            row = self.lookup(key)
            after = 0 if row is None else row_hash(key, row)
            self._hash = (self._hash - self._row_hashes.pop(key, 0) + after) % HASH_MODULUS
            if after:
                self._row_hashes[key] = after
        self._unhashed.clear()
        return self._hash.to_bytes(16, "big")

    def _note_before(self, key: Key) -> None:
        if self._before is not None and key not in self._before:
            self._before[key] = self.lookup(key), key in self._journal


def row_hash(key: Key, row: Row) -> int:
    """What one row that is not volatile adds to the hash of the state."""
    encoded = msgspec.msgpack.encode((key, row), order="deterministic")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=16).digest(), "big")
