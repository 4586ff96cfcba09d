"""What exactly is hashed when replicas are compared, fixed once for all of them (RE13).

Threats. Two replicas hash other columns, types or boundaries and differ although their rows are equal, or agree
although they are not; one was asked before a column was added and the other after.

Invariant. Two trees are compared only if they were made by the same spec.

Argument. All that a leaf's value depends on besides the rows stands here, and the content hash of it names the spec. It
goes out with each question, comes back with each answer, and is part of each digest. What differs between replicas on
purpose, the read point, is not in it.
"""

import hashlib
from enum import Enum

import msgspec

BITS_MIN, BITS_MAX = 8, 16
ROWS_PER_LEAF = 256
REFINE_BITS = 8
LEAF_ROWS = 1024
"""A leaf of so many rows or fewer is not refined further: its rows' digests are compared (RE21)."""

BOUNDARIES_MAX = 4096


class Strength(Enum):
    """How hard it is to make two different leaves look equal (RE18). FAST finds drift, bugs and bit rot; STRONG has no
    crafted pair of rows; PROOF is a true Merkle tree. Trees of different strength are never compared."""

    UNKNOWN = "UNKNOWN"
    FAST = "FAST"
    STRONG = "STRONG"
    PROOF = "PROOF"


class TokenMode(Enum):
    """HASHED spreads rows by their key's hash. ORDERED places them by the key's order, between boundaries that were
    sampled once."""

    UNKNOWN = "UNKNOWN"
    HASHED = "HASHED"
    ORDERED = "ORDERED"


class Column(msgspec.Struct, frozen=True):
    """A column by name, with its canonical type: what each side casts to before it hashes (RE16).

    Types: boolean, long, double, decimal(p,s), string, binary, date, timestamp (microseconds, UTC), timestamp_ntz,
    array<T>, map<K,V>, struct<name:T,...>.
    """

    name: str
    type: str


class TreeSpec(msgspec.Struct, frozen=True):
    """What a tree is made of. `columns` are all that are hashed, keys included, in this order; `bits`: 2^bits leaves
    over the whole ring; `key` is empty for a table without one: then rows are counted as a multiset.

    `boundaries` (ORDERED only): canonical texts of the first key column, sorted as `key_order` says; they cut the ring
    into equal parts.
    """

    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    bits: int
    strength: Strength = Strength.FAST
    mode: TokenMode = TokenMode.HASHED
    boundaries: tuple[str, ...] = ()
    version_column: str = ""
    tombstone_column: str = ""

    @property
    def id(self) -> bytes:
        """16 bytes; two specs with the same id make comparable trees."""
        content = msgspec.msgpack.encode((1, self), order="deterministic")
        return hashlib.sha256(content).digest()[:16]

    @property
    def tokens(self) -> str:
        """Names how rows get their tokens (16 hex digits): ranges of another name are other rows."""
        hashed = [each for each in self.columns if each.name in self.key or not self.key]
        content = msgspec.msgpack.encode((1, self.mode, self.key, hashed, self.boundaries), order="deterministic")
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def bits_for(rows: int) -> int:
    """Leaves of about 256 rows, between 2^8 and 2^16 of them (RE21)."""
    leaves = -(-max(rows, 1) // ROWS_PER_LEAF)
    return min(max((leaves - 1).bit_length(), BITS_MIN), BITS_MAX)


def fingerprint(columns: tuple[Column, ...], key: tuple[str, ...]) -> bytes:
    """8 bytes that name a table's schema, whatever the order of its columns."""
    content = msgspec.msgpack.encode((sorted((each.name, each.type) for each in columns), key), order="deterministic")
    return hashlib.sha256(content).digest()[:8]
