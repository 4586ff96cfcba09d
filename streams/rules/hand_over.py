"""Rules of the hand-over: a primary moves between two live nodes without two of them ever acting (EX14).

Threat. The wanted primary begins while the former one still has an operation under way, or believes itself alone.

How it works. When no exchange is open and all that are wanted for a partition own it, HandOverPrepared tells the former
primary to start nothing new there. Once it has applied that and has drained what ran, or its lease is provably over, by
the one verdict, AffinitySwitched makes the wanted primary act under a new token. Whoever leaves cancels its part
(`events/exchange.py`). A partition pauses for one round trip and its drain, all others go on.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from topolog.events import ownership
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.exchange import AffinitySwitched, HandOverPrepared, HandOverRow, Move, open_exchange, queued
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import FENCING, NodeRow, Standing
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.state import State
from topolog.events.terms import changed_view

Drained = Mapping[NodeId, tuple[Incarnation, Position]]
"""Up to which position every hand-over has drained, as each node's newest heartbeat says."""

MOVED_AT_ONCE_MAX = 4_096
"""Partitions one node hands over at a time: the next follow when these have switched."""


def settle(state: State, drained: Drained, waited_through: Position) -> list[Decision]:
    """The next switch that is due, also while an exchange is open: what it pauses need not wait for that."""
    for _, row in state.rows(HandOverRow):
        if evidence := _is_over(state, row, drained, waited_through):
            return [AffinitySwitched(row.prepared_at, changed_view(state), evidence)]
    return []


def prepare(state: State, rows: Iterable[OwnershipRow], left_out: Mapping[str, Collection[int]]) -> list[Decision]:
    """Hand-overs to begin in these rows; nothing while an exchange is open or waits.

    `left_out`: partitions of which not all that are wanted own, though all that are listed do (DS19).
    """
    if open_exchange(state) or queued(state):
        return []
    busy = {row.node for _, row in state.rows(HandOverRow)}
    return [
        HandOverPrepared(former, _incarnation(state, former), tuple(_by_receiver(found)))
        for former, found in _moves(state, rows, left_out).items()
        if former not in busy
    ]


def _is_over(state: State, row: HandOverRow, drained: Drained, waited_through: Position) -> Evidence | None:
    """Why the former primary acts no more, None while it may."""
    node = state.get(NodeRow, row.node)
    assert node is not None and node.incarnation == row.incarnation, "who leaves cancels its hand-overs"
    incarnation, position = drained.get(row.node, (None, NOWHERE))
    if incarnation == row.incarnation and position >= row.prepared_at:
        return Evidence(applied=(row.node,), left=(), presumed_fenced=())
    if waited_through >= row.prepared_at and FENCING in node.capabilities:
        return Evidence(applied=(), left=(), presumed_fenced=(row.node,))
    return None


Found = list[tuple[str, int, NodeId]]
"""Group, partition and receiver of each move."""


def _moves(state: State, rows: Iterable[OwnershipRow], left_out: Mapping[str, Collection[int]]) -> dict[NodeId, Found]:
    """What each live former primary has to hand over, at most MOVED_AT_ONCE_MAX of it."""
    names = ownership.names(state)
    found: dict[NodeId, Found] = {}
    for row in rows:
        for partition, former, receiver in ownership.ready_to_switch(row):
            if partition in left_out.get(row.group, ()):
                continue
            moves = found.setdefault(NodeId(names[former]), [])
            if len(moves) < MOVED_AT_ONCE_MAX and _is_sound(state, names[receiver]):
                moves.append((row.group, partition, NodeId(names[receiver])))
    return {node: moves for node, moves in found.items() if moves}


def _incarnation(state: State, node: NodeId) -> Incarnation:
    row = state.get(NodeRow, node)
    assert row is not None and row.is_member, "only a member acts"
    return row.incarnation


def _is_sound(state: State, node: str) -> bool:
    row = state.get(NodeRow, node)
    return row is not None and row.standing is Standing.MEMBER


def _by_receiver(found: Found) -> Iterator[Move]:
    grouped: dict[tuple[str, NodeId], list[int]] = {}
    for group, partition, receiver in found:
        grouped.setdefault((group, receiver), []).append(partition)
    for (group, receiver), partitions in grouped.items():
        yield Move(group, tuple(sorted(partitions)), receiver)
