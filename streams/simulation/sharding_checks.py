"""What must hold of partitions, judged from outside: by the log as the ledger reads it, by what nodes really did."""

from collections.abc import Iterator

from topolog.events import baseline as b
from topolog.events import exchange as x
from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import ownership as o
from topolog.events.drains import is_drained
from topolog.events.ids import Position
from topolog.events.leases import NodeRow, members
from topolog.events.ownership import Ownership
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState, When, is_legal
from topolog.events.state import State
from topolog.streams.node.copies import PartitionId
from topolog.streams.simulation.acknowledged import Acknowledged
from topolog.streams.simulation.ledger import Ledger, Standing
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.world import World

_CHANGES = (
    x.FullPartitionMap
    | x.PartitionStatesChanged
    | x.HandOverPrepared
    | x.AffinitySwitched
    | m.NodeJoined
    | m.NodeLeft
    | g.GroupCreated
    | g.GroupDropped
)


class PartitionChecks:
    """Raises Broken."""

    def __init__(self, ledger: Ledger, world: World) -> None:
        self._ledger = ledger
        self.acknowledged = Acknowledged(world, ledger)
        self._rows: dict[str, OwnershipRow] = {}
        self._begun: dict[tuple[int, int], Position] = {}

    def begin_with(self, other: "PartitionChecks") -> None:
        """The history begins with all of another one: what was done there was done in this one."""
        self.acknowledged.begin_with(other.acknowledged)
        self._begun = dict(other._begun)

    def judge_set(self, whole: list[Standing]) -> None:
        """A whole set: how it has changed the partitions."""
        if not any(isinstance(each.event, _CHANGES) for each in whole):
            self.acknowledged.judge_set(self._ledger.state, whole, ())
            return
        state, before = self._ledger.state, self._rows
        self._rows = dict(state.rows(OwnershipRow))
        is_exchange = any(isinstance(each.event, x.FullPartitionMap) for each in whole)
        for key, row in self._rows.items():
            if key in before:
                self._check_row(state, before[key], row, is_exchange=is_exchange)
        changed = [(row, o.differing(before.get(key), row)) for key, row in self._rows.items()]
        found = [(row.group, each) for row, partitions in changed for each in o.ownerships(row, partitions)]
        self.acknowledged.judge_set(state, whole, found)

    def look_at(self, node: NodeProcess) -> None:
        """What a node has done in its turn: whoever begins under a token ends all operations under lower ones."""
        shard, who = node.shard, node.describe()
        self.acknowledged.look_at(node)
        state = node.session.core.state
        for place, token in shard.held:
            if g.group_row(state, place[0]) is None:
                raise Broken(Rule.ONE_PRIMARY, f"{who} has operated on {place}, whose group is no more")
            begun = self._begun.get(_place_for_ever(state, place), token)
            if token < begun:
                raise Broken(Rule.ONE_PRIMARY, f"{who} has operated on {place} under {token}, behind {begun}")
        for place, token in shard.began:
            key = _place_for_ever(state, place)
            if token < self._begun.get(key, token):
                raise Broken(Rule.ONE_PRIMARY, f"{who} begins on {place} under {token}, behind {self._begun[key]}")
            self._begun[key] = token

    @property
    def writes(self) -> int:
        """How many writes were acknowledged."""
        return self.acknowledged.writes

    def unrest(self) -> str:
        """Why the partitions are not at rest yet; nothing if they are."""
        state = self._ledger.state
        if not b.cluster_state(state).shares_out:
            return ""
        row = x.open_exchange(state)
        if row is not None:
            return f"the exchange of {row.version} waits for {', '.join(each.node for each in row.awaited)}"
        if x.queued(state) or state.count(x.HandOverRow):
            return "an exchange or a hand-over is to come"
        for group, each in _all(state):
            held, owning = {copy.node for copy in each.copies}, set(each.owners)
            is_right = owning == held == set(each.wanted) and each.wanted[:1] == (each.acting,)
            if held and not each.is_lost and not is_right and not self._is_stranded(group, each):
                return f"partition {group}/{each.partition} is not where it should be"
        return ""

    def _is_stranded(self, name: str, each: Ownership) -> bool:
        """Whether those are away, or drained, that are to hold it, for the affinity names the absent too; or its filter
        admits nobody, and it stays where it is."""
        state = self._ledger.state
        group = g.group_row(state, name)
        assert group is not None, "a partition belongs to a group"
        current, here = b.placed_by(state, group), b.online(state)
        known = current.members if current is not None else [row for row in members(state) if row.node in here]
        may_hold = [row.node for row in known if group.definition.affinity.admits(row.attributes)]
        is_missing = not may_hold or any(node not in here or is_drained(state, node) for node in may_hold)
        return not each.wanted and is_missing

    def _check_row(self, state: State, before: OwnershipRow, row: OwnershipRow, *, is_exchange: bool) -> None:
        changed = o.differing(before, row)
        when = When.EXCHANGE if is_exchange else When.BETWEEN
        for was, now in zip(o.ownerships(before, changed), o.ownerships(row, changed), strict=True):
            where = f"{row.group}/{now.partition}"
            self._check_copies(was, now, when, where)
            self._check_acting(state, now, where)
            if is_exchange and was.acting is not None and was.acting != now.acting:
                raise Broken(Rule.LIVE_PRIMARY, f"{where}: {was} became {now}")

    def _check_copies(self, was: Ownership, now: Ownership, when: When, where: str) -> None:
        for node in {copy.node for copy in (*was.copies, *now.copies)}:
            former, present = was.copy_of(node), now.copy_of(node)
            source, target = former.state if former else None, present.state if present else None
            if source is not target and not is_legal(source, target, when):
                raise Broken(Rule.TRANSITIONS, f"{where}: {source} became {target}")

    def _check_acting(self, state: State, now: Ownership, where: str) -> None:
        if now.acting is None:
            return
        copy = now.copy_of(now.acting)
        row = state.get(NodeRow, o.names(state)[now.acting])
        if copy is None or copy.state is not PartitionState.OWNING or row is None or not row.is_member or now.is_lost:
            raise Broken(Rule.OWNER_ACTS, f"{where}: {now}")


def _place_for_ever(state: State, place: PartitionId) -> tuple[int, int]:
    """By the group's number: whoever has not read yet that a group was dropped acts for that one, not for its heir."""
    group = g.group_row(state, place[0])
    assert group is not None, "whoever acts knows the group"
    return group.number, place[1]


def _all(state: State) -> Iterator[tuple[str, Ownership]]:
    """Every partition, with its group."""
    for _, row in state.rows(OwnershipRow):
        for each in o.ownerships(row, range(row.first, row.first + row.count)):
            yield row.group, each
