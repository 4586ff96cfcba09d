"""Drains: a server hands over all it holds while it goes on serving, and then counts no more (BA21).

Threat. A member that is online cannot be dropped from the baseline, for it may hold the last copy of something; so an
operator stops it first, and for that time there is a copy less of all it held.

Invariant. A server that is drained is dropped only when the log lists no copy of it.

Argument. From DrainStarted on no assignment names it, so its copies load elsewhere, its primaries are handed over, and
its copies are cleared when all that are wanted own: all of that by the rules of the exchange, which know nothing of
drains. What ends the drain is the owner rows alone. It is over as well when the server leaves.
"""

from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.exchange import TriggerType, queue
from topolog.events.ids import NodeId, Place, Position, TopologyVersion
from topolog.events.membership import NodeLeft
from topolog.events.requests import grant
from topolog.events.state import Row, State
from topolog.events.terms import enter_view


class DrainRequested(Request, frozen=True):
    """A server is to hand over all it holds, and to count no more; `cancelled` takes that back."""

    SUBJECT: ClassVar[str] = "node {0.node}"

    node: str
    cancelled: bool


class DrainStarted(Decision, frozen=True):
    """The server is to hold nothing any more."""

    request: RequestRef
    node: NodeId
    version: TopologyVersion


class DrainCancelled(Decision, frozen=True):
    """The server may hold copies again."""

    request: RequestRef
    node: NodeId
    version: TopologyVersion


class DrainFinished(Decision, frozen=True):
    """The log lists no copy of the server; it gets none until it has joined anew, or the drain is taken back."""

    node: NodeId


DrainEvent = DrainStarted | DrainCancelled | DrainFinished


class DrainRow(Row, frozen=True):
    """A server that is drained, under its id."""

    KIND: ClassVar[str] = "drain"

    node: NodeId
    started_at: Position
    finished_at: Position | None = None


def is_drained(state: State, node: str) -> bool:
    """Whether a server is to hold nothing."""
    return state.get(DrainRow, node) is not None


def evolve(state: State, event: DrainEvent, place: Place) -> None:
    match event:
        case DrainStarted():
            enter_view(state, event.version)
            state.put(event.node, DrainRow(event.node, place.position))
            queue(state, TriggerType.DRAIN, event.node, place)
            grant(state, event.request, place, f"node {event.node}")
        case DrainCancelled():
            enter_view(state, event.version)
            state.drop(DrainRow, event.node)
            queue(state, TriggerType.DRAIN, event.node, place)
            grant(state, event.request, place, f"node {event.node}")
        case DrainFinished():
            row = state.get(DrainRow, event.node)
            assert row is not None, "a drain is finished that was never begun"
            state.put(event.node, msgspec.structs.replace(row, finished_at=place.position))


def take_in(state: State, node: NodeId, *, is_first: bool) -> None:
    """The server counts from here on, so it is to hold copies: its drain is over, or taken back.

    The first baseline takes in all there are, and what is under way goes on.
    """
    row = state.get(DrainRow, node)
    if row is not None and (row.finished_at is not None or not is_first):
        state.drop(DrainRow, node)


OTHERS = (NodeLeft,)


def evolve_others(state: State, event: NodeLeft, _: Place) -> None:
    """What has left holds nothing; if it joins again, it is one like the others."""
    state.drop(DrainRow, event.node)
