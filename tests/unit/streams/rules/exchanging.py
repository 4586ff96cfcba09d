"""A cluster whose groups are shared out, without a log: nodes that answer, load, clear and drain when they are told."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from tests.unit.streams.rules.cluster import LOG_ID, Cluster, join_request, joiner, new_id

from topolog.events import exchange as x
from topolog.events import groups as g
from topolog.events import ownership as o
from topolog.events.awaited import unheard
from topolog.events.baseline import cluster_state
from topolog.events.decision import Decision
from topolog.events.exchange_requests import LossResetRequested
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Offset, Position, TopologyVersion
from topolog.events.leases import FENCING, LeaveReason, lease_of
from topolog.events.membership import NodeLeft
from topolog.events.ownership import Ownership
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, When, is_legal
from topolog.events.terms import cluster
from topolog.events.views import Past
from topolog.streams.rules import copies, exchange, hand_over, placement
from topolog.streams.rules.affinity import Candidate, Indexes, Placement, ideal
from topolog.streams.rules.membership import Heard
from topolog.streams.rules.responses import Told

CAPABILITIES = (FENCING,)


def choose(group: g.GroupRow, candidates: Sequence[Candidate]) -> Indexes:
    """The affinity's choice, as the coordinator computes it."""
    return ideal(candidates, Placement.of(group.definition))


class Answer(msgspec.Struct, frozen=True):
    """What a node says that it has whole, with counters, by group."""

    incarnation: Incarnation
    counted: Mapping[str, Mapping[int, int]]
    applied: Position
    waited_ms: int = 7

    def whole(self, group: str) -> Collection[int]:
        return self.counters(group)

    def counters(self, group: str) -> Mapping[int, int]:
        return self.counted.get(group, {})


class Shared(Cluster):
    """`disks`: whole copies that a node brings when it comes back, by (group, partition). `passed`: deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: dict[str, dict[tuple[str, int], int]] = {}
        self.passed: set[str] = set()
        self._incarnations: dict[str, int] = {}
        self._answers: dict[NodeId, Answer] = {}
        self._heard: dict[NodeId, Heard] = {}

    # What happens to it.

    def join(
        self, *nodes: str, capabilities: tuple[str, ...] = CAPABILITIES, past: Past | None = None, **attributes: str
    ) -> None:
        for node in nodes:
            incarnation = self._incarnations[node] = self._incarnations.get(node, 0) + 1
            who = joiner(node, incarnation, capabilities=capabilities, attributes=attributes)
            self.ask(join_request(who, past))

    def leave(self, *nodes: str) -> None:
        """Their leases are over; what they owned stays on their disks."""
        for node in nodes:
            row = self.node(node)
            self.disks[node] = {(group, each.partition): 1 for group, each in self.all() if self._owns(node, each)}
            view = cluster(self.state).topology_version
            lease = lease_of(self.state, row)
            self.log(
                NodeLeft(
                    row.node,
                    row.incarnation,
                    LeaveReason.DIED,
                    lease.sequence,
                    lease.renewed_at,
                    TopologyVersion(view.major + 1, 0),
                )
            )

    def create(self, name: str, partitions: int = 16, backups: int = 1, **rest: object) -> None:
        group = g.GroupDefinition(name, partitions, backups, **rest)  # type: ignore[arg-type]
        self.ask(g.GroupCreationRequested(new_id(), LOG_ID, "t", "", group))

    def alter(self, name: str, **changed: object) -> None:
        fields = dict.fromkeys(g.GroupAlterationRequested.__struct_fields__[5:])
        self.ask(g.GroupAlterationRequested(new_id(), LOG_ID, "t", "", name, **fields | changed))

    def drop(self, name: str) -> None:
        self.ask(g.GroupDropRequested(new_id(), LOG_ID, "t", "", name))

    def reset(self, group: str) -> list[Decision]:
        return self.ask(LossResetRequested(new_id(), LOG_ID, "ada", "the disks are gone", group))

    def answer(self, *nodes: str) -> None:
        """These nodes send the single map of their present incarnation."""
        for node in nodes:
            self.answer_as(self._incarnations[node], node)

    def answer_as(self, incarnation: int, *nodes: str) -> None:
        """As `answer`, of any of their lives."""
        for node in nodes:
            disk = self.disks.get(node, {})
            counters: dict[str, dict[int, int]] = {}
            for (group, partition), counter in disk.items():
                counters.setdefault(group, {})[partition] = counter
            self._answers[NodeId(node)] = Answer(Incarnation(incarnation), counters, self.position)

    def apply(self, *nodes: str) -> None:
        """The heartbeats of these nodes say that they have applied all decisions so far."""
        for node in nodes:
            incarnation = Incarnation(self._incarnations[node])
            self._heard[NodeId(node)] = Heard(
                incarnation, 1, self.position, fenced=False, release=False, appended_at_ms=1_009
            )

    def settle_exchange(self) -> list[Decision]:
        """Decide about exchanges until nothing follows, each set folded and checked by itself."""
        followed: list[Decision] = []
        while decided := self._due():
            self._log_set(decided, When.EXCHANGE)
            followed += decided
        return followed

    def _due(self) -> list[Decision]:
        return exchange.settle(self.state, self._told(), choose)

    def _told(self) -> Told:
        counting = unheard(self.state) or x.open_exchange(self.state)
        counts_from = counting.counts_from if counting else self.position + 1
        answers = {node: each for node, each in self._answers.items() if each.applied >= counts_from}
        return Told(answers, Offset(5), 1_000, self.passed, self._heard)

    def exchange(self) -> list[Decision]:
        """As `settle_exchange`, everybody who is asked answering at once."""
        followed = self.settle_exchange()
        while asked := self.asked():
            self.answer(*asked)
            followed += self.settle_exchange()
        return followed

    def exchange_but(self, *silent: str) -> None:
        """As `exchange`, but these answer nothing."""
        self.settle_exchange()
        while asked := [node for node in self.asked() if node not in silent]:
            self.answer(*asked)
            self.settle_exchange()

    def asked(self) -> list[NodeId]:
        """Who is to answer: the open exchange, or since the last one, which has done without."""
        row, missed = x.open_exchange(self.state), unheard(self.state)
        if row is not None:
            return [each.node for each in row.awaited]
        serves = cluster_state(self.state).shares_out and self.state.count(g.GroupRow)
        return [each.node for each in missed.servers] if missed and serves else []

    def load(self, *nodes: str) -> list[Decision]:
        """These nodes finish all their loads."""
        reports = [
            copies.Loaded(NodeId(node), group, each.partition, copy.since, each.token)
            for group, each in self.all()
            for node in nodes
            if (copy := self._copy(node, each)) and copy.state is PartitionState.MOVING and each.acting is not None
        ]
        return self._between(copies.settle(self.state, reports))

    def clear(self, *nodes: str) -> list[Decision]:
        reports = [
            copies.Cleared(NodeId(node), group, each.partition, copy.since)
            for group, each in self.all()
            for node in nodes
            if (copy := self._copy(node, each)) and copy.state is PartitionState.RENTING
        ]
        return self._between(copies.settle(self.state, reports))

    def rent(self) -> list[Decision]:
        return self._between(
            copies.surplus(self.state, [row for _, row in self.state.rows(OwnershipRow)], self.left_out())
        )

    def hand_over(self, *drained: str, waited_through: Position = NOWHERE) -> list[Decision]:
        """One step of hand-overs; these nodes have drained up to now."""
        told = {NodeId(node): (Incarnation(self._incarnations[node]), self.position) for node in drained}
        rows = [row for _, row in self.state.rows(OwnershipRow)]
        decided = hand_over.settle(self.state, told, waited_through) or hand_over.prepare(
            self.state, rows, self.left_out()
        )
        return self._between(decided)

    def rest(self) -> None:
        """Go on until nothing is left to do."""
        for _ in range(100):
            nodes = [row.node for row in placement.servers(self.state)]
            if not (
                self.exchange() or self.load(*nodes) or self.hand_over(*nodes) or self.rent() or self.clear(*nodes)
            ):
                return
        raise AssertionError("it never comes to rest")

    def left_out(self) -> Mapping[str, frozenset[int]]:
        return placement.left_out(self.state, choose, [row for _, row in self.state.rows(OwnershipRow)])

    # What it is.

    def all(self) -> Iterator[tuple[str, Ownership]]:
        for _, row in self.state.rows(OwnershipRow):
            for each in o.ownerships(row, range(row.first, row.first + row.count)):
                yield row.group, each

    def one(self, partition: int = 0, group: str = "orders") -> Ownership:
        return o.ownership(o.row_of(self.state, group, partition), partition)

    def acting(self, partition: int = 0, group: str = "orders") -> str | None:
        number = self.one(partition, group).acting
        return None if number is None else o.names(self.state)[number]

    def states(self, partition: int = 0, group: str = "orders") -> dict[str, str]:
        names = o.names(self.state)
        return {names[copy.node]: copy.state.name for copy in self.one(partition, group).copies}

    def _owns(self, node: str, each: Ownership) -> bool:
        copy = self._copy(node, each)
        return copy is not None and copy.state is PartitionState.OWNING

    def _copy(self, node: str, each: Ownership) -> o.Copy | None:
        number = o.number_of(self.state, NodeId(node))
        return None if number is None else each.copy_of(number)

    def _between(self, decided: list[Decision]) -> list[Decision]:
        self._log_set(decided, When.BETWEEN)
        return decided

    def _log_set(self, decided: list[Decision], when: When) -> None:
        before = {(group, each.partition): each for group, each in self.all()}
        self.log(*decided)
        for group, each in self.all():
            self._check(before[group, each.partition], each, when)

    def _check(self, before: Ownership, after: Ownership, when: When) -> None:
        """Every change of a copy is legal (EX8), who acts owns (EX12), nobody takes over from a live primary (EX12)."""
        for node in {copy.node for copy in (*before.copies, *after.copies)}:
            was, now = before.copy_of(node), after.copy_of(node)
            source, target = was.state if was else None, now.state if now else None
            assert source is target or is_legal(source, target, when), (before, after)
        if after.acting is not None:
            copy = after.copy_of(after.acting)
            assert copy is not None, after
            assert copy.state is PartitionState.OWNING, after
            assert self.node(o.names(self.state)[after.acting]).is_member
        if before.acting not in (None, after.acting):
            assert when is When.BETWEEN, "an exchange takes nothing from a live primary"
        assert (after.token != before.token) == (after.acting != before.acting)
        assert not after.is_lost or after.acting is None


def shared(*nodes: str, partitions: int = 16, backups: int = 1) -> Shared:
    """A cluster at rest with one group."""
    found = Shared()
    found.join(*nodes)
    found.create("orders", partitions, backups)
    found.rest()
    return found


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def passed(found: Shared, what: str) -> None:
    """All waits of this kind are over: `gather` of the open exchange, `warn` and `evict` of whom the last one has not
    heard."""
    row, missed = x.open_exchange(found.state), unheard(found.state)
    keys = [each.key for each in exchange.deadlines(row, exchange.Patience())] if row else []
    keys += [each.key for each in exchange.deadlines_of_unheard(missed, exchange.Patience(), gaps=0)] if missed else []
    meant = {key for key in keys if f"/{what}" in key}
    assert meant
    found.passed |= meant
