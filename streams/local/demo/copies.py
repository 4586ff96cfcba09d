"""A node's copies of a table as somebody compares them, and rows that he has found to be wrong put right.

Threats. A copy that is behind is taken for one that is damaged. What is put right undoes a write that came meanwhile,
brings back a row that was deleted meanwhile, or hides from a client what the acting node has acknowledged.

Invariant. Which writes a copy has does not change here, only what its disk has made of one of them.

Argument. A copy is told only while it is known to hold what the primary holds (`Partition.role`). A version is one
write on all copies (`replication/`), so of two values under one version at most one is what was written. A row is put
right only where its very version lies, with the bytes that were compared; one with another version, or none, is left as
it is: that copy has missed a write or has had a later one, which is no damage of a disk, and a new load mends it. The
acting copy is refused, for clients read from it.
"""

import hashlib
import struct
from binascii import crc32
from collections.abc import Iterator, Sequence

import msgspec

from topolog.events.errors import BadInput, DamagedStore, NotFound
from topolog.events.ids import Position
from topolog.events.object_definition import Column, ColumnType
from topolog.streams.local.demo.replication.messages import Version
from topolog.streams.local.demo.replication.partition import CopyRole
from topolog.streams.local.demo.shards import Shards
from topolog.streams.local.demo.table_rows import Numbered, decoded, encoded, row_key
from topolog.streams.local.demo.types_of_rows import Document
from topolog.streams.node.objects import Table

_DOUBLE, _LONG = struct.Struct(">d"), struct.Struct(">q")


class Told(msgspec.Struct, frozen=True):
    """The first line: whose copies these are, of what. `partitions`, of so many: number -> the token under which it was
    read."""

    node: str
    table: str
    incarnation: int
    key: str
    columns: tuple[Column, ...]
    of: int
    partitions: dict[int, Position]


class ToldRow(msgspec.Struct, frozen=True):
    """Each further line. `kept` names the bytes that are kept: 16 hexadecimal digits."""

    partition: int
    key: str
    version: Version
    kept: str
    row: Document


class Correction(msgspec.Struct, frozen=True):
    """What a row is to be, under the version and in the place of the bytes that it was told with."""

    key: str
    version: Version
    kept: str
    row: Document


class Corrected(msgspec.Struct, frozen=True):
    """`skipped`: rows that were something else by now."""

    written: int
    skipped: int


class Rotten(msgspec.Struct, frozen=True):
    """What a row shows by now in one of its columns."""

    column: str
    before: object
    after: object


class Copies:
    """Any thread may ask. Without `may_rot` nothing here can be damaged on purpose."""

    def __init__(self, shards: Shards, *, may_rot: bool = False) -> None:
        self._shards = shards
        self._may_rot = may_rot

    def tell(self, name: str, role: str) -> bytes:
        """JSON lines: Told, and a ToldRow for each row. Raises what `Node.using` raises, Fenced; BadInput for another
        role; DamagedStore if a row cannot be read any more."""
        if role not in [each.value for each in CopyRole]:
            raise BadInput(f"{role!r} is no role of a copy.", hint="?role=acting or ?role=backup")
        with self._shards.tables.using(name) as table:
            lines = [msgspec.json.encode(each) for each in self._told(table, CopyRole(role))]
        return b"\n".join([*lines, b""])

    def _told(self, table: Table, role: CopyRole) -> Iterator[Told | ToldRow]:
        begins = row_key(table.incarnation, "")
        held = self._shards.held(role, begins)
        tokens = {number: token for number, (token, _) in held.items()}
        of = self._shards.group.partitions
        yield Told(self._shards.node, table.name, table.incarnation, table.key, table.columns, of, tokens)
        for number, (_, rows) in held.items():
            for row, cell in rows:
                assert cell.value is not None, "these are rows, not markers"
                key = row.removeprefix(begins)
                yield ToldRow(number, key, cell.version, name_of(cell.value), _decoded(table, key, cell.value))

    def correct(self, name: str, body: bytes) -> Corrected:
        """Put rows right; a row that is not as it was compared is skipped.

        Raises BadInput for what is no list of corrections, Refused for a row that this node acts for: those before it
        are put right; and as `Node.writing`, Fenced.
        """
        try:
            corrections = msgspec.json.decode(body, type=list[Correction])
        except msgspec.MsgspecError as error:
            raise BadInput(f"The body is no list of corrections: {error}.") from error
        with self._shards.tables.writing(name) as table:
            written = sum(self._correct(table, each) for each in corrections)
        return Corrected(written, len(corrections) - written)

    def _correct(self, table: Table, wanted: Correction) -> bool:
        value = encoded(table, wanted.key, {name: each for name, each in wanted.row.items() if each is not None})
        row = row_key(table.incarnation, wanted.key)
        return self._shards.rewrite(row, wanted.version, lambda kept: name_of(kept) == wanted.kept, value)

    def rot(self, name: str, key: str) -> Rotten:
        """Damage this node's copy of a row as a bad disk would: another value in one column, under the same version.
        Raises NotFound without a copy of it, or if this is no node that may."""
        if not self._may_rot:
            raise NotFound("Rows rot on nodes of `topolog up --demo` only.")
        with self._shards.tables.using(name) as table:
            columns = [each for each in table.columns if each.name != table.key]
            before, after = self._shards.rot(row_key(table.incarnation, key), lambda kept: rotten(columns, key, kept))
            old, new = (decoded(columns, each) for each in (before, after))
        column = next(each for each in old if old[each] != new[each])
        return Rotten(column, old[column], new[column])


def name_of(kept: bytes) -> str:
    """Of the bytes that are kept of a row."""
    return hashlib.sha256(kept).hexdigest()[:16]


def rotten(columns: Sequence[Column], key: str, kept: bytes) -> bytes:
    """The row with one bit of one of these columns turned, which one follows from the key; still a row of its table.

    Raises BadInput for a row that has no value which would still be one."""
    row: Numbered = msgspec.json.decode(kept)
    found = [str(each.number) for each in columns if _can_rot(each.type, row.get(str(each.number)))]
    if not found:
        raise BadInput(f"Row {key!r} has no value that could rot and still be one of its column.")
    number = found[crc32(key.encode()) % len(found)]
    return msgspec.json.encode({**row, number: _turned(row[number])})


def _can_rot(kind: ColumnType, value: object) -> bool:
    is_text = kind is ColumnType.STRING and isinstance(value, str)
    return bool(value) if is_text else isinstance(value, bool | int | float)


def _turned(value: bool | int | float | str) -> bool | int | float | str:
    match value:
        case bool():
            return not value
        case int():
            return value ^ 1
        case float():
            (bits,) = _LONG.unpack(_DOUBLE.pack(value))
            (turned,) = _DOUBLE.unpack(_LONG.pack(bits ^ 1 << 40))
            return float(turned)
        case _:
            return chr(ord(value[0]) ^ 1) + value[1:]


def _decoded(table: Table, key: str, value: bytes) -> Document:
    try:
        return decoded(table.columns, value)
    except (msgspec.MsgspecError, ValueError, KeyError) as error:
        raise DamagedStore(
            f"Row {key!r} of {table.name} cannot be read from this node's disk: {error}.",
            hint="Stop the node, wipe its folder and start it: it loads all anew from the others.",
        ) from error
