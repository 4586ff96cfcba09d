"""Clusters whose logs part, and nodes that live in one after the other: disks are there once, logs may be copied."""

import copy
import itertools
from collections.abc import Iterable

import msgspec
from tests.unit.streams.rules.cluster import LOG_ID, join_request, joiner
from tests.unit.streams.rules.counted import Counted
from tests.unit.streams.rules.exchanging import CAPABILITIES

from topolog.events import membership as m
from topolog.events.ids import Incarnation, NodeId
from topolog.events.leases import NodeRow, lease_of
from topolog.events.views import Echo, Kinship, Past, Point, newest_point

RESERVED_AT_ONCE = 64
_lives = itertools.count(1)


class Disk(msgspec.Struct):
    """`past` as the node's folder says; `writes` by number, each under the view that it was written in."""

    past: Past | None = None
    writes: list[tuple[str, Point]] = []


class History(Counted):
    """One log. `nodes`: the disks, which copies of the log share."""

    def __init__(self, *servers: str, active: bool = True) -> None:
        self.nodes: dict[str, Disk] = {}
        super().__init__(*servers, active=active)

    def join(
        self, *nodes: str, capabilities: tuple[str, ...] = CAPABILITIES, past: Past | None = None, **attributes: str
    ) -> None:
        """With what their disks say; raises Refused."""
        for node in nodes:
            disk = self.nodes.setdefault(node, Disk())
            life = self._incarnations[node] = next(_lives)
            who = joiner(node, life, capabilities=capabilities, attributes=attributes)
            self.ask(join_request(who, past or disk.past))
            self._note(node, 0)

    def kinship(self, node: str) -> Kinship | None:
        return self.node(node).kinship

    def write(self, *nodes: str, what: str = "") -> None:
        """Each under a renewal of its own, noted before the write, as `events/views.py` says."""
        for node in nodes:
            self.renew_of(node)
            self._note(node, lease_of(self.state, self.node(node)).sequence)
            past = self.nodes[node].past
            assert past is not None
            self.nodes[node].writes.append((what, past.points[-1]))

    def renew_of(self, node: str) -> None:
        """It never gets to read of it."""
        self.log(m.LeasesRenewed(m.pack_renewals([(self.node(node).slot, 1)])))

    def goes_live_beside(self) -> "History":
        """A copy of this log, from which on both go on; nobody lives in it yet."""
        found = copy.deepcopy(self, {id(self.nodes): self.nodes})
        found.leave(*(node for node in found.members()))
        found.settle()
        return found

    def members(self) -> Iterable[str]:
        return [row.node for _, row in self.state.rows(NodeRow) if row.is_member]

    def wipe(self, node: str) -> None:
        self.nodes[node] = Disk()
        self.disks[node] = {}

    def _note(self, node: str, sequence: int) -> None:
        row, disk, newest = self.node(node), self.nodes[node], newest_point(self.state)
        assert newest is not None
        before = disk.past.points if disk.past else ()
        points = before if before and before[-1] == newest else (*before, newest)
        at = Point(self.position, self.chain) if sequence else newest
        echo = Echo(Incarnation(row.incarnation), sequence, at)
        disk.past = Past(LOG_ID, NodeId(node), points, echo, sequence + RESERVED_AT_ONCE)
