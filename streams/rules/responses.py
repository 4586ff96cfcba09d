"""Who has responded to an exchange, as far as is known beside the log (DS10, DS13, DS17).

A server that was asked for its map is heard when that has come; of another one it is enough that a heartbeat of its
present life says that it has applied the question. What counts has applied the beginning of the exchange that first
missed somebody (`events/awaited.py`); nothing does before anybody was asked.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from topolog.events.awaited import Asked, unheard
from topolog.events.exchange import open_exchange
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.membership import NodeRow
from topolog.events.state import State
from topolog.streams.rules.membership import Hearing
from topolog.streams.rules.outcomes import Holdings


class Answer(Holdings, Protocol):
    """A single map that counts as an answer; `waited_ms`: how long it took."""

    @property
    def incarnation(self) -> Incarnation: ...

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
    """`told`, as of a state; `owe_maps`: lives of servers that were asked for theirs."""

    told: Told
    counts_from: Position | None
    owe_maps: frozenset[tuple[NodeId, Incarnation]]

    @classmethod
    def of(cls, state: State, told: Told) -> "Responses":
        row, missed = open_exchange(state), unheard(state)
        asked = (*(row.awaited if row else ()), *(missed.servers if missed else ()))
        counting = row or missed
        return cls(
            told,
            counting.counts_from if counting else None,
            frozenset((each.node, each.incarnation) for each in asked if each.needs_map),
        )

    def map_of(self, server: NodeRow | Asked) -> Answer | None:
        """What this life of the server has answered (DS13)."""
        answer = self.told.answers.get(server.node)
        return answer if answer is not None and answer.incarnation == server.incarnation else None

    def is_heard(self, server: NodeRow | Asked) -> bool:
        """Whether this life of the server has done what it was asked for."""
        if self.map_of(server) is not None:
            return True
        return (server.node, server.incarnation) not in self.owe_maps and self._has_applied(server)

    def waited_ms(self, asked: Asked, began_at_ms: int) -> int | None:
        """How long it took to hear of it, by the wall times of an exchange that began then; None if nobody has."""
        if not self.is_heard(asked):
            return None
        answer = self.map_of(asked)
        return answer.waited_ms if answer else max(0, self.told.heard[asked.node].appended_at_ms - began_at_ms)

    def _has_applied(self, server: NodeRow | Asked) -> bool:
        heard = self.told.heard.get(server.node)
        if heard is None or heard.incarnation != server.incarnation or self.counts_from is None:
            return False
        return heard.applied >= self.counts_from
