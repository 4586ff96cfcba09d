"""Which coordinators are known to be dead, so that a stand-by need not wait for the silence of one that leads (K13).

Threats. A certificate may be a lie: it is only a hint, and whoever may write `heartbeats` can write it of a coordinator
that lives. That one claims again as long as it lives; if its death were remembered for ever two such records would have
coordinators depose each other without end. And heartbeats are read again by whoever starts from the log again.

How it works. A certificate is heard once by a process, whatever is read again, and forgotten once a term of that life
is over: each costs a stand-by one claim at most. Where the topic was made anew they are heard again from the place on
that had been reached: slow, never wrong.
"""

from collections.abc import Iterable

from topolog.events.codec import CODEC
from topolog.events.log import Entry
from topolog.events.terms import CoordinatorDied
from topolog.events.topics import Topic

DEAD_LIVES_KEPT = 256
"""Coordinators known to be dead that are remembered."""


class Deaths:
    """As one process has heard of them, whatever it is meanwhile: a TermStarted may be read later than its death."""

    def __init__(self) -> None:
        self._lives: dict[int, None] = {}
        self._nexts: dict[int, int] = {}

    def __contains__(self, life: int) -> bool:
        return life in self._lives

    def __len__(self) -> int:
        return len(self._lives)

    def note(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.topic is Topic.HEARTBEATS and CODEC.type_of(entry.value) is CoordinatorDied:
                self._hear(entry)

    def term_is_over(self, life: int) -> None:
        """A term of this life is over, and with it what its certificate was for."""
        self._lives.pop(life, None)

    def _hear(self, entry: Entry) -> None:
        died = CODEC.read(entry.value)  # to bury a damaged one is the leader's part
        if entry.offset < self._nexts.get(entry.partition, 0) or not isinstance(died, CoordinatorDied):
            return
        self._nexts[entry.partition] = entry.offset + 1
        self._lives[died.life] = None
        if len(self._lives) > DEAD_LIVES_KEPT:
            del self._lives[next(iter(self._lives))]
