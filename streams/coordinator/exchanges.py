"""What a coordinator knows of partitions besides the log: members' single maps, and ideal assignments.

Both can be made again. Maps come again from the offset that the open exchange carries (K4), and a node sends its own
again when it sees a new term; an ideal assignment is a function of members and group. So nothing of this is in the log,
and a new coordinator starts without it.
"""

from collections.abc import Iterator, Mapping, Sequence

from topolog.events import ownership
from topolog.events.codec import Decision
from topolog.events.exchange import ExchangeRow, open_exchange
from topolog.events.groups import GroupRow
from topolog.events.ids import NOWHERE, NodeId, Offset, Position
from topolog.events.log import Entry
from topolog.events.membership import NodeRow
from topolog.events.partitions import PartitionState, decode_codes, states_of
from topolog.events.single_maps import NodeMap, SinglePartitionMap, unpack_counters
from topolog.events.state import State
from topolog.events.terms import cluster
from topolog.streams.rules import copies, exchange, hand_over
from topolog.streams.rules.affinity import NOBODY, Candidate, Indexes, Placement, ideal, ideal_after
from topolog.streams.rules.exchange import Answer, Wanted
from topolog.streams.rules.hand_over import Drained
from topolog.streams.rules.single_maps import (
    Inbox,
    Known,
    KnownGroup,
    Receipt,
    answers,
    finished_in,
    receive,
)


class Exchanges:
    """`inbox` counts what became of every map. `next_offset`: how far the topic `maps` has been read."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.next_offset = Offset(0)
        self._came_at_ms: dict[NodeId, int] = {}
        self._ideals: dict[Placement, tuple[list[Candidate], Indexes]] = {}

    def hear(self, record: SinglePartitionMap, entry: Entry, known: Known) -> Receipt:
        """One record of `maps`."""
        self.next_offset = Offset(entry.offset + 1)
        self.inbox, receipt = receive(self.inbox, known, record)
        if receipt.map:
            self._came_at_ms[record.node] = entry.appended_at_ms
        return receipt

    def settle(
        self, state: State, known: Known, drained: Drained, waited_through: Position, at_ms: int
    ) -> list[Decision]:
        """What follows about partitions; call again until nothing does. `at_ms`: wall time, for people."""
        return (
            exchange.settle(state, self._answers(state, known), self._choose, self.next_offset, at_ms)
            or copies.settle(state, self._finished(state, known))
            or hand_over.settle(state, [row for _, row in state.rows(ownership.OwnershipRow)], drained, waited_through)
            or self._surplus(state)
        )

    def _surplus(self, state: State) -> list[Decision]:
        return [decision for _, group in state.rows(GroupRow) for decision in copies.surplus(state, group)]

    def _choose(self, group: GroupRow, servers: Sequence[NodeRow]) -> Wanted:
        """The affinity's choice; computed anew only where members have changed since."""
        placement = Placement.of(group.definition)
        now = [Candidate(row.node, row.attributes) for row in servers]
        before, previous = self._ideals.get(placement, ([], None))
        found = ideal(now, placement) if previous is None else ideal_after(previous, before, now, placement)
        self._ideals[placement] = now, found
        return {
            partition: tuple(servers[index].node for index in indexes if index != NOBODY)
            for partition, indexes in enumerate(found.tolist())
        }

    def _answers(self, state: State, known: Known) -> Mapping[NodeId, Answer]:
        """Who has answered the open exchange, and what."""
        row = open_exchange(state)
        if row is None:
            return {}
        awaited = {each.node for each in row.awaited}
        return {
            node: self._answer(state, told, row.began_at_ms)
            for node, told in answers(self.inbox, known).items()
            if node in awaited
        }

    def _answer(self, state: State, told: NodeMap, began_at_ms: int) -> Answer:
        states: dict[str, Mapping[int, PartitionState]] = {}
        counters: dict[str, Mapping[int, int]] = {}
        for name, held in told.groups.items():
            group = state.get(GroupRow, name)
            if group is None:
                continue
            states[name] = states_of(decode_codes(held.states, group.partitions))
            told_counters = unpack_counters(held.counters, group.partitions)
            counters[name] = {partition: counter.current for partition, counter in told_counters.items()}
        waited_ms = max(0, self._came_at_ms.get(told.node, began_at_ms) - began_at_ms)
        return Answer(told.incarnation, waited_ms, states, counters)

    def _finished(self, state: State, known: Known) -> Iterator[copies.Report]:
        """Loads and clearings that the newest maps tell of."""
        for node, told in self.inbox.kept.items():
            if known.members.get(node) != told.incarnation:
                continue
            for name in told.groups:
                group = state.get(GroupRow, name)
                if group is None:
                    continue
                for partition, state_now, finished in finished_in(told, name, group.partitions):
                    if state_now is PartitionState.OWNING:
                        yield copies.Loaded(node, name, partition, finished.since, finished.token)
                    else:
                        yield copies.Cleared(node, name, partition, finished.since)


def known_of(state: State, position: Position, chains: Mapping[Position, bytes]) -> Known:
    """What maps are judged by, as the log has been read back up to `position`."""
    started = [row.started_at for _, row in state.rows(ExchangeRow)]
    return Known(
        log_id=bytes.fromhex(cluster(state).log_id),
        position=position,
        members={row.node: row.incarnation for row in exchange.servers(state)},
        groups={name: KnownGroup(row.partitions, row.created_at) for name, row in state.rows(GroupRow)},
        exchange=max(started, default=NOWHERE),
        chains=chains,
    )
