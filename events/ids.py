"""Numbers and names with a type, so that a position is never mistaken for an offset or a term.

`Position` counts records of whole accepted sets (LogStarted is 0); `Offset` is Kafka's place in any topic.
An `Incarnation` is one process life of a node, a `NodeId` lives for ever.
"""

from typing import NewType

import msgspec

Position = NewType("Position", int)
Offset = NewType("Offset", int)
Term = NewType("Term", int)
NodeId = NewType("NodeId", str)
Incarnation = NewType("Incarnation", int)
Slot = NewType("Slot", int)
TypeId = NewType("TypeId", int)
Version = NewType("Version", int)

NOWHERE = Position(-1)
"""The position before LogStarted: nothing has been applied."""


class TopologyVersion(msgspec.Struct, frozen=True, order=True):
    """A view of the cluster: `major` rises with each join and leave of a server, `minor` with other changes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Place(msgspec.Struct, frozen=True):
    """Where an event stands: its record's position, the chain hash after it, the term that wrote it."""

    position: Position
    chain: bytes
    term: Term
