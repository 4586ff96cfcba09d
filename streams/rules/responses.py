"""Who has responded to an exchange, as far as is known beside the log (DS10, DS13, DS17).

Two questions. Whether a server is *heard*, so that it can serve and store: its map, or if it owes none a heartbeat of
its present life, says that it has applied this very exchange; of one that the last exchange has missed it is enough
that its map is from behind that one, or exchanges would follow each other without end. And what its map says of copies
of former lives: that is a fact, so maps count from the exchange that first missed somebody (`events/awaited.py`).
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from topolog.events.awaited import Asked, unheard
from topolog.events.exchange import open_exchange
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.leases import NodeRow
from topolog.events.state import State
from topolog.streams.rules.membership import Hearing
from topolog.streams.rules.outcomes import Holdings

Life = tuple[NodeId, Incarnation]


class Answer(Holdings, Protocol):
    """A single map that counts as an answer; `waited_ms`: how long it took."""

    @property
    def incarnation(self) -> Incarnation: ...

    @property
    def applied(self) -> Position: ...

    @property
    def waited_ms(self) -> int: ...


class Told(msgspec.Struct, frozen=True):
    """What is known beside the log.

    `answers`: the maps that count, sent since the exchange that first missed somebody; `maps`: how far the topic has
    been read; `at_ms`: wall time, for people; `passed`: which waits have passed; `heard`: the newest heartbeats.
    """

    answers: Mapping[NodeId, Answer]
    maps: Offset
    at_ms: int
    passed: Collection[str] = ()
    heard: Hearing = {}


class Responses(msgspec.Struct, frozen=True):
    """`told`, as of a state; `started_at`: the exchange that is open; `missed_at`: where the last one was completed
    without those in `missed`; `owe_maps`: lives of servers that were asked for theirs."""

    told: Told
    started_at: Position | None
    missed_at: Position | None
    missed: frozenset[Life]
    owe_maps: frozenset[Life]

    @classmethod
    def of(cls, state: State, told: Told) -> "Responses":
        row, last = open_exchange(state), unheard(state)
        awaited, missed = row.awaited if row else (), last.servers if last else ()
        return cls(
            told,
            row.started_at if row else None,
            last.missed_at if last else None,
            frozenset((each.node, each.incarnation) for each in missed),
            frozenset((each.node, each.incarnation) for each in (*awaited, *missed) if each.needs_map),
        )

    def map_of(self, server: NodeRow | Asked) -> Answer | None:
        """What this life of the server has answered (DS13)."""
        answer = self.told.answers.get(server.node)
        return answer if answer is not None and answer.incarnation == server.incarnation else None

    def is_heard(self, server: NodeRow | Asked) -> bool:
        """Whether this life of the server is there, and has done what it was asked for."""
        life, answer = (server.node, server.incarnation), self.map_of(server)
        since = self.missed_at if life in self.missed else self.started_at
        if since is None:
            return False
        if answer is not None and answer.applied >= since:
            return True
        return life not in self.owe_maps and self._has_applied(server, since)

    def waited_ms(self, asked: Asked, began_at_ms: int) -> int | None:
        """How long it took to hear of it, by the wall times of an exchange that began then; None if nobody has."""
        if not self.is_heard(asked):
            return None
        answer = self.map_of(asked)
        if asked.needs_map and answer is not None:
            return answer.waited_ms
        heard = self.told.heard.get(asked.node)
        return max(0, heard.appended_at_ms - began_at_ms) if heard else answer.waited_ms if answer else None

    def _has_applied(self, server: NodeRow | Asked, since: Position) -> bool:
        heard = self.told.heard.get(server.node)
        return heard is not None and heard.incarnation == server.incarnation and heard.applied >= since
