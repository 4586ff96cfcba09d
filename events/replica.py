"""What a replica of a table says of itself and of its rows: the values that validators, trees and differences share."""

import msgspec

from topolog.events.token_range import FULL, Ranges
from topolog.events.tree_spec import Column

REPLICAS_MAX = 16
"""Of one table: each two of them may be a pair."""


class ReplicaDefinition(msgspec.Struct, frozen=True):
    """One replica of one table: what it holds, and where. `ranges` is what it is to hold, FULL unless it is sharded, in
    the tokens that its rows have by the hash of its own key (HASHED).

    `rows` and `row_bytes` are estimates. `boundaries`: a sorted sample of the first key column, for ordered tokens.
    `gives_cuts`: it can fix a read point, without which nothing can be called different.
    """

    table: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    datacenter: str = ""
    ranges: Ranges = (FULL,)
    rows: int = 0
    row_bytes: int = 0
    boundaries: tuple[str, ...] = ()
    gives_cuts: bool = True
    is_writable: bool = True

    @property
    def id(self) -> str:
        return f"{self.table}@{self.name}"


class Cut(msgspec.Struct, frozen=True):
    """A read point of one replica: whoever reads it twice reads the same. Two cuts of one name have the same rows."""

    name: str
    schema: bytes
    """Fingerprint of the columns there were (`tree_spec.fingerprint`)."""


class RowDigest(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One row without its contents. `key`: JSON of the canonical key values (of all hashes, for a table without key).

    `version` is the canonical text of the version column, None where there is none; sorts as `version_order` says.
    """

    token: int
    key: str
    h1: int
    h2: int
    version: str | None = None
    is_tombstone: bool = False

    @property
    def content(self) -> tuple[int, int]:
        return self.h1, self.h2


class SentRow(msgspec.Struct, frozen=True, array_like=True):
    """One row with its contents, on its way from one replica to others.

    `values`: JSON of the canonical values by column name, empty if the row is to be deleted. `targets`: the replicas it
    is for, with the content they had when they were compared, None for none: a row that is something else by then is
    left as it is.
    """

    key: str
    values: str
    targets: tuple[tuple[str, tuple[int, int] | None], ...]


class Written(msgspec.Struct, frozen=True):
    """What a replica has done with what it was given. `skipped`: rows that were no longer what had been compared."""

    rows: int
    bytes: int
    skipped: int = 0
