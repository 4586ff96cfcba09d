"""Which copies hold every acknowledged write, by the true order of things; a primary without them has lost some.

An operation that its guard has let pass counts as an acknowledged write if every copy that its node's map lists could
have stored it at that moment: the copy's process is up, holds a lease, and has applied the position that is the token
(DS3, DS9). All owners hold it then, for the primary of a new token makes them equal before it writes (DS4). A copy that
loads becomes whole with the decision that it owns. A copy is on a disk: a process that comes back without it has none,
and it has it again when it returns with it. An older disk that was put back has what it had.
"""

from collections.abc import Iterable

from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import ownership as o
from topolog.events.awaited import unheard
from topolog.events.baseline import cluster_state
from topolog.events.cluster_state import ClusterState
from topolog.events.groups import GroupRow, LossPolicy, group_row
from topolog.events.ids import Incarnation, Position
from topolog.events.ownership import Ownership
from topolog.events.partitions import PartitionState
from topolog.events.state import State
from topolog.streams.node.copies import PartitionId
from topolog.streams.simulation.disks import Key, SimulatedDisk
from topolog.streams.simulation.ledger import Ledger, Standing
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.world import World


class Acknowledged:
    """Knows of each partition the number of its newest acknowledged write; raises Broken. `carried`: groups of which a
    reset goes on, whose exchange has missed somebody."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.writes = 0
        self._ledger = ledger
        self._world = world
        self._carried: frozenset[str] = frozenset()
        self._newest: dict[Key, int] = {}
        self._disks: dict[str, SimulatedDisk] = {}

    def begin_with(self, other: "Acknowledged") -> None:
        """The history begins with all of another one: what was acknowledged there was in this one."""
        self.writes, self._newest, self._disks = other.writes, dict(other._newest), dict(other._disks)

    def look_at(self, node: NodeProcess) -> None:
        """The operations that its guard has let pass in this turn, and what it has loaded."""
        state = node.session.core.state
        if node.shard.stored:
            self._note_store(node)
        for place, token in node.shard.written:
            seen = _ownership(state, place)
            if seen is not None and seen[1].token == token and self._is_stored(node, place, seen[1], token):
                self._acknowledge(node, *seen)

    def judge_set(self, state: State, whole: Iterable[Standing], changed: Iterable[tuple[str, Ownership]]) -> None:
        """A set of decisions, and the partitions that it has changed, as they are behind it."""
        gives_up = is_over = False
        for standing in whole:
            match standing.event:
                case m.NodeJoined() as joined:
                    self._note_disk(Incarnation(joined.joiner.incarnation), joined.joiner.node)
                case x.ExchangeCompleted():
                    is_over = cluster_state(state).allowed is ClusterState.ACTIVE
                    gives_up = is_over and _newest_is_reset(state)
        for group, each in changed:
            self._judge(state, group, each, gives_up=gives_up or (is_over and group in self._carried))
        missed = unheard(state)
        self._carried = frozenset(name for name, _ in missed.resets) if missed else frozenset()

    def _judge(self, state: State, group: str, each: Ownership, *, gives_up: bool) -> None:
        row = group_row(state, group)
        assert row is not None, "a partition belongs to a group"
        key = (row.number, each.partition)
        if key not in self._newest or each.acting is None:
            return
        names = o.names(state)
        if self.has_all(self._disks[names[each.acting]], key):
            owners = (copy.node for copy in each.copies if copy.state is PartitionState.OWNING)
            self._store(key, (self._disks[names[number]] for number in owners))
        elif gives_up or row.loss_policy is LossPolicy.IGNORE:
            del self._newest[key]
        else:
            raise Broken(
                Rule.NO_WRITE_LOST,
                f"{names[each.acting]} acts for {group}/{each.partition}: {self._whole(key)} do not",
            )

    def has_all(self, disk: SimulatedDisk, key: Key) -> bool:
        """Whether a disk has every acknowledged write of a partition."""
        return key not in self._newest or disk.stored.get((self._world.name, key)) == self._newest[key]

    def _store(self, key: Key, disks: Iterable[SimulatedDisk]) -> None:
        for disk in disks:
            disk.stored[self._world.name, key] = self._newest[key]

    def _acknowledge(self, node: NodeProcess, group: GroupRow, seen: Ownership) -> None:
        key = (group.number, seen.partition)
        if not self.has_all(node.disk, key):
            raise Broken(Rule.NO_WRITE_LOST, f"{node.describe()} writes to {key}, without what {self._whole(key)} hold")
        names = o.names(node.session.core.state)
        written = {names[copy.node] for copy in seen.copies if copy.state.is_written}
        stored = {names[number] for number in seen.owners} | written & self._owners(group, seen.partition)
        self.writes += 1
        self._newest[key] = self.writes
        self._store(key, (self._disks[name] for name in stored))

    def _owners(self, group: GroupRow, partition: int) -> set[str]:
        """Whose copies own in the log by now: its writer may not have read that yet."""
        now = _ownership(self._ledger.state, (group.name, partition))
        names = o.names(self._ledger.state)
        return {names[number] for number in now[1].owners} if now and now[0].number == group.number else set()

    def _is_stored(self, writer: NodeProcess, place: PartitionId, seen: Ownership, token: Position) -> bool:
        names = o.names(writer.session.core.state)
        written = [names[copy.node] for copy in seen.copies if copy.state.is_written]
        copies = [self._storing(name, place, token) for name in written if name != writer.name]
        if any(copy is None for copy in copies):
            return False
        for node in (writer, *copies):
            assert node is not None, "all of them are there"
            self._note_store(node)
        return True

    def _storing(self, name: str, place: PartitionId, token: Position) -> NodeProcess | None:
        """The process that can store it now; without a lease none does, for its past would not say so."""
        for node in self._world.nodes:
            if node.name == name and not self._world.is_paused(node) and node.may_store:
                seen = _ownership(node.session.core.state, place)
                if seen is not None and seen[1].token == token:
                    return node
        return None

    def _note_store(self, node: NodeProcess) -> None:
        """Something of this history is on its disk now, stored under the renewal that it relies on, if on any."""
        core = node.session.core
        echoes = self._ledger.echoed.get((core.node, core.incarnation), []) if node.holds_lease else []
        read = [position for position, _ in echoes if position <= core.applied.position]
        node.disk.write(self._world.name, read[-1] if read else self._ledger.position)

    def _note_disk(self, incarnation: Incarnation, name: str) -> None:
        """The process that has joined has these copies on its disk, and no others; unless it lives in another history,
        and here only the word of its joining has come again."""
        life = self._world.site.life_of(incarnation)
        if life is not None and life.history != self._world.name and name in self._disks:
            return
        disk = self._disks[name] = life.disk if life else SimulatedDisk()
        for key in self._newest:
            if key not in disk.whole:
                disk.stored.pop((self._world.name, key), None)

    def _whole(self, key: Key) -> list[str]:
        """Who has all of a partition; a disk that nobody has joined with again has no name."""
        return sorted(name for name, disk in self._disks.items() if self.has_all(disk, key))


def _ownership(state: State, place: PartitionId) -> tuple[GroupRow, Ownership] | None:
    group = group_row(state, place[0])
    if group is None or place[1] >= group.partitions:
        return None
    return group, o.ownership(o.row_of(state, *place), place[1])


def _newest_is_reset(state: State) -> bool:
    row = x.newest_exchange(state)
    return row is not None and any(trigger.type is x.TriggerType.LOSS_RESET for trigger in row.triggers)
