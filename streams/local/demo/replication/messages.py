"""What a replica is told, what it tells others, and what it asks of the process around it."""

from collections.abc import Mapping

import msgspec

from topolog.events.ids import NodeId, Position
from topolog.streams.node.copies import PartitionId

# Rows.


class Version(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The `number`-th write of the primary that acts under `token`."""

    token: Position
    number: int


class Cell(msgspec.Struct, frozen=True):
    """What a key holds; `value` is None behind a deletion."""

    version: Version
    value: bytes | None


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A row on a page; `value` is None if whoever asked has this very version."""

    key: str
    version: Version
    value: bytes | None


# Between nodes.


class Message(msgspec.Struct, frozen=True, tag=True):
    """`token` is the acting primary's; `since` the listing of the copy that stores or loads, never of the primary."""

    group: str
    partition: int
    token: Position
    since: Position

    @property
    def place(self) -> PartitionId:
        return self.group, self.partition


class Replicate(Message, frozen=True, tag=True):
    """Primary to copy: store this write. All copies have every write up to the number `settled`."""

    number: int
    key: str
    value: bytes | None
    settled: int


class Stored(Message, frozen=True, tag=True):
    """Copy to primary: the write of this number is stored under this listing."""

    number: int


class Ask(Message, frozen=True, tag=True):
    """Copy to primary: the next page of rows, those whose key is greater than `after`.

    `have`: what the copy has of its own there, so that equal values need not travel.
    """

    after: str
    have: Mapping[str, Version]


class Supply(Message, frozen=True, tag=True):
    """Primary to an owner: answer this in my place. The primary has applied the listing of the demander."""

    demander: NodeId
    after: str
    have: Mapping[str, Version]


class Page(Message, frozen=True, tag=True):
    """To the copy that asked: all rows whose key is greater than `after` and at most `through`; None: to the end."""

    after: str
    through: str | None
    rows: tuple[Row, ...]


class Synced(Message, frozen=True, tag=True):
    """Copy to primary: this copy holds what you hold (DS4)."""


class Probe(Message, frozen=True, tag=True):
    """Primary to an owner from which it has not heard yet: do you?"""


AnyMessage = Replicate | Stored | Ask | Supply | Page | Synced | Probe


def weight(message: AnyMessage) -> int:
    """About how many bytes it takes to send it."""
    match message:
        case Replicate(key=key, value=value):
            return 100 + len(key) + len(value or b"")
        case Page(rows=rows):
            return 100 + sum(30 + len(row.key) + len(row.value or b"") for row in rows)
        case Ask(have=have) | Supply(have=have):
            return 100 + sum(30 + len(key) for key in have)
        case _:
            return 100


# To and from the process around it.


class Operation(msgspec.Struct, frozen=True):
    """Something a client asks of the acting primary, begun under its guard's `token`. `id` is the process's own."""

    id: int
    group: str
    partition: int
    token: Position
    key: str

    @property
    def place(self) -> PartitionId:
        return self.group, self.partition


class Write(Operation, frozen=True):
    """Put a value, or delete the row with None; `if_absent`: unless there is such a row, which is the answer then."""

    value: bytes | None
    if_absent: bool = False


class Read(Operation, frozen=True):
    """Get the value of a key."""


class Send(msgspec.Struct, frozen=True):
    to: NodeId
    message: AnyMessage


class Answered(msgspec.Struct, frozen=True):
    """The operation is done: a write is acknowledged, a read has this value. No version: there is no such row."""

    id: int
    version: Version | None
    value: bytes | None = None


class Failed(msgspec.Struct, frozen=True):
    """The token under which the operation began acts no more (DS8). Of a write nobody knows what becomes of it."""

    id: int


class Loaded(msgspec.Struct, frozen=True):
    """To be reported: the copy of this listing holds what the primary of this token holds (DS6)."""

    group: str
    partition: int
    since: Position
    token: Position


class Cleared(msgspec.Struct, frozen=True):
    """To be reported: the copy that was RENTING since then is gone."""

    group: str
    partition: int
    since: Position


Output = Send | Answered | Failed | Loaded | Cleared
