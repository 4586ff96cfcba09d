"""A node's disk: what outlives its process, whichever log that reads.

Beside what the node finds on it stands here what really befell it, for whoever looks from outside.
"""

from topolog.events.ids import Position
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.simulation.store import Store

Key = tuple[int, int]
"""A group's number and a partition."""


class SimulatedDisk:
    """`whole`: counters of the whole copies on it. `past`: what the node has noted of where it has written.

    By the name of a history: `lived` is up to where a member with this disk has read it; `written` the newest renewal
    under which data of it were stored here; `stored`, with the partition, the number of the newest
    acknowledged write; `tables` what it has of rows.
    """

    def __init__(self) -> None:
        self.whole: dict[Key, int] = {}
        self.past = MemoryDisk()
        self.lived: dict[str, Position] = {}
        self.written: dict[str, Position] = {}
        self.stored: dict[tuple[str, Key], int] = {}
        self.tables: dict[str, Store] = {}

    def copy(self) -> "SimulatedDisk":
        """What a backup of it holds."""
        copied = SimulatedDisk()
        copied.past.past = self.past.past
        copied.whole, copied.stored = dict(self.whole), dict(self.stored)
        copied.lived, copied.written = dict(self.lived), dict(self.written)
        copied.tables = {history: store.copy() for history, store in self.tables.items()}
        return copied

    def store(self, history: str) -> Store:
        """The rows of tables of this history."""
        return self.tables.setdefault(history, Store())

    def live(self, history: str, position: Position) -> None:
        self.lived[history] = max(position, self.lived.get(history, position))

    def write(self, history: str, position: Position) -> None:
        self.written[history] = max(position, self.written.get(history, position))

    def fork(self, history: str, copy: str) -> None:
        """Of a history there is a copy now: what was acknowledged in the one was in the other."""
        of_it = {key: number for (name, key), number in self.stored.items() if name == history}
        self.stored.update({(copy, key): number for key, number in of_it.items()})
        self.tables[copy] = self.store(history).copy()
