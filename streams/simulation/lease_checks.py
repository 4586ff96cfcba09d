"""What must hold of leases after every step: who holds one, on what it rests, and how long they were waited for."""

from collections.abc import Sequence

import msgspec

from topolog.events import membership as m
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import NodeKind, members
from topolog.streams.simulation.ledger import Ledger, Life, Standing
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.terms_in_force import TermsInForce
from topolog.streams.simulation.timeline import NS_PER_MS
from topolog.streams.simulation.world import World


class _Held(msgspec.Struct):
    """A process's lease as seen from outside; `lapses` counts how often it was over before it ran on."""

    incarnation: Incarnation
    deadline_ns: int = -1
    lapses: int = 0
    lapses_when_read_began: int = 0


class LeaseChecks:
    """Judges leases by the ledger and the true time; raises Broken. `terms` is told of every decision."""

    def __init__(self, ledger: Ledger, world: World) -> None:
        self.terms = TermsInForce()
        self._ledger = ledger
        self._world = world
        self._accepted_through = NOWHERE
        self._needed = NOWHERE
        self._members: dict[NodeId, Incarnation] = {}
        self._held: dict[NodeProcess, _Held] = {}

    def accept(self, position: Position) -> None:
        """What stands there is accepted: every server that holds a lease must have applied it."""
        self._accepted_through = max(self._accepted_through, position)

    def judge_set(self, whole: Sequence[Standing]) -> None:
        if any(isinstance(each.event, m.NodeJoined | m.NodeLeft) for each in whole):
            self._members = {row.node: row.incarnation for row in members(self._ledger.state)}

    def check_left(self, life: Life, kind: NodeKind, now_ns: int) -> None:
        """A life that ends in silence has been waited for since its last renewal."""
        at = self._ledger.renewed_at[life]
        waited_ns = self.terms.waited_ns(at) if kind is NodeKind.SERVER else self.terms.silent_ns(at)
        if now_ns < waited_ns:
            early_ms = (waited_ns - now_ns) / 1e6
            raise Broken(Rule.LEFT_IN_TIME, f"{life[0]}, renewed at position {at}, {early_ms:.1f} ms too early")

    def look_at(self, node: NodeProcess) -> None:
        """After the node's turn."""
        core = node.session.core
        held = self._held.setdefault(node, _Held(core.incarnation))
        # Where the fence was made shorter meanwhile, the lease of a new life may end before that of the former one.
        ended_ns = held.deadline_ns if held.incarnation == core.incarnation else -1
        if core.lease.deadline_ns > ended_ns:
            self._check_anchor(node, held)
        if node.read_held and held.lapses != held.lapses_when_read_began:
            raise Broken(Rule.READS, f"{node.describe()}, whose lease was over {held.lapses} times")
        if node.read_began:
            held.lapses_when_read_began = held.lapses

    def look(self) -> None:
        """At those nodes whose own doing, or whose cluster's, can have changed something since the last look.

        A lease begins only in a turn of its holder. A node that is up to date needs no look at its clock.
        """
        world, turned = self._world, self._world.turned
        stale = self.terms.outdated(world.timeline.now_ns)
        needed = max(stale, self._accepted_through)
        if world.broker.landed or needed != self._needed:
            self._needed = needed
            concerned = world.nodes
        else:
            concerned = [turned] if isinstance(turned, NodeProcess) else []
        for node in concerned:
            core = node.session.core
            behind = core.applied.position < needed or self._members.get(core.node) != core.incarnation
            if behind and node.is_server and node.holds_lease:
                self._check_lease(node, stale)

    def _check_anchor(self, node: NodeProcess, held: _Held) -> None:
        """A lease that has been prolonged rests on an echoed heartbeat, from the moment that was handed over, for as
        long as the terms at the echo say."""
        core = node.session.core
        if held.deadline_ns < node.clock.boottime_ns() or held.incarnation != core.incarnation:
            held.lapses += 1
        held.incarnation, held.deadline_ns = core.incarnation, core.lease.deadline_ns
        echoes = self._ledger.echoed.get((core.node, core.incarnation), [])
        read = [each for each in echoes if each[0] <= core.applied.position]
        ends = (
            node.handed[core.incarnation, sequence] + self.terms.fence_ms_at(position) * NS_PER_MS
            for position, sequence in read
        )
        if core.lease.deadline_ns > max(ends, default=-1):
            raise Broken(Rule.ANCHORED_LEASE, f"{node.describe()}, which has read the echoes of {read[-3:]}")

    def _check_lease(self, node: NodeProcess, stale: Position) -> None:
        """A server that may answer now. One that does not fence itself is an operator's affair once it is out."""
        core = node.session.core
        is_member = self._members.get(core.node) == core.incarnation
        if not is_member and node.fences:
            raise Broken(Rule.MEMBER_LEASE, node.describe())
        if core.applied.position < stale and node.fences:
            raise Broken(Rule.FRESH_LEASE, f"{node.describe()}; every valid lease has applied {stale} by now")
        if core.applied.position < self._accepted_through and is_member:
            raise Broken(Rule.ACCEPTED, f"{node.describe()}; all up to {self._accepted_through} is accepted")
