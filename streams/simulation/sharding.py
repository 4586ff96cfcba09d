"""A simulated service that holds copies and acts for partitions, behind the real guards.

A copy here is nothing but its name: to load or to clear it takes some turns, and what is whole survives on the node's
disk, if it has one. Operations last some turns. `began` and `held` are what a turn has begun, and what its guards have
let pass at the end, `written` what of that was no read: whoever looks from outside knows the true order of these, which
no node does. `stored`: whether it has loaded something in this turn.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from topolog.events import ownership as o
from topolog.events.errors import NotActive
from topolog.events.fold import Folded
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import Incarnation, Position
from topolog.events.leases import NodeRow
from topolog.events.membership import NodeDied
from topolog.events.partitions import PartitionState
from topolog.events.single_maps import UpdateCounter
from topolog.events.state import Key
from topolog.streams.node.copies import Disk, Held, PartitionId
from topolog.streams.node.core import NodeCore
from topolog.streams.node.hooks import Hooks
from topolog.streams.simulation.disks import Key as OnDisk
from topolog.streams.simulation.disks import SimulatedDisk

_OPERATION_TURNS = (0, 25)
_OPERATIONS_MAX = 12
_TRIES = 10
_READS_EVERY = 4
"""An operation that lasts so many turns, or a multiple, reads; the others write."""
_FINISHES = 0.15
"""How often, in a turn, a copy that is to be loaded or cleared is done."""

Acted = tuple[PartitionId, Position]
"""Under which token something was done for a partition."""


Supplies = Callable[[Incarnation, Position], bool]
"""Whether this process can be loaded from, having applied what stands at the position."""


class _Operation(msgspec.Struct):
    place: PartitionId
    token: Position
    turns: int
    begun: int
    writes: bool


class SimulatedShard(Hooks):
    """`hook` is told each decision, `holds_lease` says whether the node may act at this moment of its own clock."""

    def __init__(
        self,
        chance: random.Random,
        disk: SimulatedDisk,
        supplies: Supplies,
        hook: Callable[[Folded], None],
        announce: Callable[[NodeDied], None],
    ) -> None:
        super().__init__(announce)
        self.began: list[Acted] = []
        self.held: list[Acted] = []
        self.written: list[Acted] = []
        self.stored = False
        self._chance = chance
        self._disk = disk
        self._supplies = supplies
        self._hook = hook
        self._running: list[_Operation] = []

    def hook(self, core: NodeCore, folded: Folded) -> None:
        super().hook(core, folded)
        self._hook(folded)

    def adopt(self, core: NodeCore, keys: Sequence[Key]) -> None:
        super().adopt(core, keys)
        for held in core.copies.held(core.state):
            if held.state is PartitionState.OWNING:
                self._disk.whole.setdefault(_on_disk(core, held), 1)

    def whole(self) -> Disk:
        found: dict[int, dict[int, UpdateCounter]] = {}
        for (group, partition), counter in self._disk.whole.items():
            found.setdefault(group, {})[partition] = UpdateCounter(0, counter)
        return found

    def begin_turn(self) -> None:
        """Nothing is done yet in this turn; a process may end in it before it comes to its operations."""
        self.began.clear()
        self.held.clear()
        self.written.clear()
        self.stored = False

    def turn(self, core: NodeCore, now_ns: int, *, holds_lease: bool) -> bool:
        """End operations, begin some, finish what is to be loaded and cleared; whether a hand-over has drained."""
        has_ended = self._end_some(now_ns, holds_lease=holds_lease)
        if holds_lease:
            self._begin_some(core, now_ns)
        self._finish_some(core, holds_lease=holds_lease)
        return has_ended and core.look_at_drains()

    def _end_some(self, now_ns: int, *, holds_lease: bool) -> bool:
        over = [each for each in self._running if not each.turns]
        self._running = [each for each in self._running if each.turns]
        for each in self._running:
            each.turns -= 1
        for each in over:
            is_good = self.acting.end(each.place, each.token, now_ns)
            with suppress(NotActive):
                self.serving.end(each.begun, writing=each.writes)
                if is_good and holds_lease:
                    self.held.append((each.place, each.token))
                    self.written += [(each.place, each.token)] * each.writes
        return bool(over)

    def _begin_some(self, core: NodeCore, now_ns: int) -> None:
        groups = [row for _, row in core.state.rows(GroupRow)]
        for _ in range(_TRIES if groups and len(self._running) < _OPERATIONS_MAX else 0):
            group = self._chance.choice(groups)
            place = (group.name, self._chance.randrange(group.partitions))
            token = self.acting.begin(place)
            if token is not None:
                self._begin(place, token, self._chance.randint(*_OPERATION_TURNS), now_ns)

    def _begin(self, place: PartitionId, token: Position, turns: int, now_ns: int) -> None:
        writes = turns % _READS_EVERY != 0
        try:
            begun = self.serving.begin(writing=writes)
        except NotActive:
            self.acting.end(place, token, now_ns)
            return
        self.began.append((place, token))
        self._running.append(_Operation(place, token, turns, begun, writes))

    def _finish_some(self, core: NodeCore, *, holds_lease: bool) -> None:
        """What it loads it stores under a lease: only then its past says in which history it has written."""
        if self._chance.random() > _FINISHES:
            return
        for held in list(core.copies.held(core.state)):
            place = (held.group, held.partition)
            if held.state is PartitionState.MOVING and holds_lease and self._is_supplied(core, held):
                self.stored = True
                if core.copies.finish(core.state, *place, held.since, held.token):
                    self._disk.whole[_on_disk(core, held)] = 1
            elif held.state is PartitionState.RENTING:
                core.copies.finish(core.state, *place, held.since, Position(0))
                self._disk.whole.pop(_on_disk(core, held), None)
        core.look_at_map()

    def _is_supplied(self, core: NodeCore, held: Held) -> bool:
        """Whether whoever acts knows by now that this copy is to be written too (DS3)."""
        row = o.row_of(core.state, held.group, held.partition)
        acting = o.ownership(row, held.partition).acting
        primary = None if acting is None else core.state.get(NodeRow, o.names(core.state)[acting])
        return primary is not None and self._supplies(primary.incarnation, held.since)


def _on_disk(core: NodeCore, held: Held) -> OnDisk:
    group = group_row(core.state, held.group)
    assert group is not None, "a copy belongs to a group"
    return group.number, held.partition
