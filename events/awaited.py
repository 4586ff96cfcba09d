"""Whom an exchange waits for, and whom the last one has done without (DS13-DS17).

Threats. An exchange waits for a server whose answer it does not need, and everybody has the failover of the slowest
service. It does not wait, and what only the silent one knows is forgotten: its partitions stay paused for ever, or
exchanges follow each other without end, each behind the answer that the one before had asked for. Whoever answers
nobody is never stopped, for no exchange is open any more.

Invariant. Whoever is still needed when an exchange is completed stands here until it answers or leaves, and owes its
map. While somebody stands here, answers count from the exchange that first missed one, and maps are read from its
offset on (K4).

Argument. An answer is of one incarnation, and what it says of copies of former lives is a fact until an outcome touches
them; so it may be as old as that exchange (DS17). It starts the next exchange, in which it counts: no answer is asked
for twice. Nobody stands here for ever: silent servers are stopped by deadlines that run from the position that asked
them first, or lose their lease because they apply nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar, Protocol

import msgspec

from topolog.events.ids import Incarnation, NodeId, Offset, Place, Position
from topolog.events.leases import NodeRow
from topolog.events.state import Row, State


class Awaited(msgspec.Struct, frozen=True):
    """A server that an exchange waits for: only this incarnation can answer.

    `needs_map`: it is to send its single map. Else it is enough that it says, in a heartbeat, that it has applied the
    question: that it is there, and can store and serve.
    """

    node: NodeId
    incarnation: Incarnation
    needs_map: bool


class Asked(msgspec.Struct, frozen=True):
    """An awaited server, and the position that asked it first."""

    node: NodeId
    incarnation: Incarnation
    at: Position
    needs_map: bool


class UnheardRow(Row, frozen=True):
    """Servers that the last exchange was completed without, at `missed_at`: what they alone can tell stays as it is.
    Each owes its map, whatever it was asked for: that tells all.

    Answers count that have applied `counts_from`, the beginning of the exchange that first missed one; `maps` is its
    offset of the topic. `resets`: groups, and since when an operator has given up what was lost of them: that goes on
    for what could not be decided yet. `overdue_at`: where the log has named those that are silent for long.
    """

    KIND: ClassVar[str] = "exchange-unheard"

    servers: tuple[Asked, ...]
    counts_from: Position
    maps: Offset
    missed_at: Position
    resets: tuple[tuple[str, Position], ...] = ()
    overdue_at: Position | None = None


def unheard(state: State) -> UnheardRow | None:
    """Whom the last exchange has done without; None if it has heard all that it needed. All of them may have left."""
    return state.get(UnheardRow, "")


def asked(state: State, awaited: Iterable[Awaited], place: Place) -> tuple[Asked, ...]:
    """Those that are asked at `place`; whoever has been asked before and has not answered, since then."""
    known = unheard(state)
    since = {(each.node, each.incarnation): each.at for each in known.servers} if known else {}
    return tuple(
        Asked(each.node, each.incarnation, since.get((each.node, each.incarnation), place.position), each.needs_map)
        for each in awaited
    )


def still_awaited(awaited: Iterable[Asked], gone: Collection[str]) -> Iterator[Asked]:
    """Whoever left is awaited no more (EX24); of one that came back, the newer incarnation."""
    return (each for each in awaited if each.node not in gone)


class _Completed(Protocol):
    """What of an exchange is carried on while it has missed somebody."""

    @property
    def awaited(self) -> tuple[Asked, ...]: ...
    @property
    def counts_from(self) -> Position: ...
    @property
    def maps(self) -> Offset: ...


def note_unheard(
    state: State, nodes: Sequence[NodeId], done: _Completed, resets: tuple[tuple[str, Position], ...], place: Place
) -> None:
    """An exchange is completed at `place` without `nodes`, all of them members. `resets`: what it was to give up."""
    before = unheard(state)
    if not nodes:
        if before is not None:
            state.drop(UnheardRow, "")
        return
    former = before.servers if before else ()
    since = {(each.node, each.incarnation): each.at for each in (*former, *done.awaited)}
    servers = tuple(_asked_since(state, node, since, place.position) for node in nodes)
    is_same = before is not None and {each.node for each in before.servers} == set(nodes)
    overdue_at = before.overdue_at if before is not None and is_same else None
    given_up = tuple(sorted({**dict(before.resets if before else ()), **dict(resets)}.items()))
    state.put("", UnheardRow(servers, done.counts_from, done.maps, place.position, given_up, overdue_at))


def note_left(state: State, node: NodeId) -> None:
    """The node has left: nobody waits for it, and those that have answered need not do so again."""
    row = unheard(state)
    if row is not None and any(each.node == node for each in row.servers):
        state.put("", msgspec.structs.replace(row, servers=tuple(still_awaited(row.servers, {node}))))


def note_overdue(state: State, place: Place) -> None:
    row = unheard(state)
    assert row is not None, "nobody is waited for"
    state.put("", msgspec.structs.replace(row, overdue_at=place.position))


def _asked_since(state: State, node: NodeId, since: dict[tuple[NodeId, Incarnation], Position], now: Position) -> Asked:
    """It counts as asked now if it was not before: what it is needed for has come up meanwhile."""
    row = state.get(NodeRow, node)
    assert row is not None and row.is_member, "only a member is waited for"
    return Asked(node, row.incarnation, since.get((node, row.incarnation), now), needs_map=True)
