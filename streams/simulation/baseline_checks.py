"""What must hold of the baseline, of the cluster's state and of nodes' pasts, judged from outside."""

from collections.abc import Iterator, Mapping, Sequence

from topolog.events import baseline as b
from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import ownership as o
from topolog.events import requests as q
from topolog.events.asked import Request, RequestId
from topolog.events.baseline_requests import BaselineChangeRequested
from topolog.events.cluster_state import ClusterState
from topolog.events.drains import DrainFinished, is_drained
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.ownership import Ownership
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.state import State
from topolog.events.views import REFUSED_KINSHIPS, Kinship, Past
from topolog.streams.node.core import Phase
from topolog.streams.simulation.acknowledged import Acknowledged
from topolog.streams.simulation.disks import Key, SimulatedDisk
from topolog.streams.simulation.ledger import Ledger, Standing
from topolog.streams.simulation.processes import NodeProcess
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.timeline import DRIFT_PPM_MAX, NS_PER_MS
from topolog.streams.simulation.world import World

_FASTEST = 1_000_000 + DRIFT_PPM_MAX

Requests = Mapping[RequestId, Request]


class BaselineChecks:
    """Raises Broken."""

    def __init__(self, ledger: Ledger, world: World, acknowledged: Acknowledged) -> None:
        self._ledger = ledger
        self._world = world
        self._acknowledged = acknowledged
        self._state = b.ClusterStateRow(ClusterState.ACTIVE, Position(0))
        self._adjust = b.AutoAdjustRow()
        self._members: frozenset[str] = frozenset()
        self._landed_ns: dict[Position, int] = {}
        self._lost: set[Key] = set()
        self._granted_at = NOWHERE
        self._served = ClusterState.ACTIVE

    def judge_set(self, whole: Sequence[Standing], requests: Requests) -> None:
        """A set of decisions; the ledger's state is that of its end."""
        for standing in whole:
            self._judge(standing, whole, requests)
            if self._goes_on(standing.event):
                self._granted_at = standing.place.position
        state = self._ledger.state
        self._state, self._adjust = b.cluster_state(state), b.auto_adjust(state)
        current = b.baseline(state)
        self._members = frozenset(current.nodes if current else ())
        if any(isinstance(standing.event, x.FullPartitionMap) for standing in whole):
            self._lost = {(group.number, each.partition) for group, each in _partitions(state) if each.is_lost}

    def look_at(self, node: NodeProcess) -> None:
        """What a node has done in its turn, against what the log says by now."""
        if node.session.core.phase not in (Phase.OUTSIDE, Phase.JOINING):
            node.disk.live(self._world.name, node.session.core.folded)
        if node.shard.held and self._state.state is ClusterState.INACTIVE:
            raise Broken(Rule.SERVES, f"{node.describe()} has served {node.shard.held[0]}: {self._state}")
        if node.shard.written and self._state.state is not ClusterState.ACTIVE:
            raise Broken(Rule.SERVES, f"{node.describe()} has written to {node.shard.written[0]}: {self._state}")

    def unrest(self) -> str:
        """Why the cluster's state is not at rest yet; raises Broken for what is not as it should be then."""
        state = self._ledger.state
        row, current, here = b.cluster_state(state), b.baseline(state), set(b.online(state))
        if row.target is not None:
            return f"the change to {row.target.value} is under way"
        if row.cold_at is not None and current is not None and current.has_quorum(here):
            return "the cluster is cold, and a quorum is here"
        if row.state is ClusterState.INACTIVE and not row.held and current and set(current.nodes) <= here:
            return "the cluster is INACTIVE, and nobody is missing"
        return ""

    def check_rest(self) -> None:
        """When all else is at rest; while no exchange ends, what is to come is still to come."""
        state = self._ledger.state
        if not b.cluster_state(state).shares_out:
            return
        current = b.baseline(state)
        names = o.names(state)
        for group, each in _partitions(state):
            where = f"{group.name}/{each.partition}"
            if group.persistent and current and not each.is_lost:
                wanted = {names[copy.node] for copy in each.copies if copy.wanted}
                drained = {node for node in wanted if is_drained(state, node)}
                if strangers := (wanted - set(current.nodes)) | drained:
                    raise Broken(Rule.PLACED, f"{where} is held by {sorted(strangers)}")
            if each.is_lost:
                self._check_lost(state, group, each, where)

    def _check_lost(self, state: State, group: GroupRow, each: Ownership, where: str) -> None:
        names = o.names(state)
        for number in each.owners:
            row = state.get(NodeRow, names[number])
            life = self._world.site.life_of(row.incarnation) if row is not None and row.is_member else None
            if row is None or life is None or row.kinship not in (Kinship.EQUAL, Kinship.BEHIND):
                continue
            key = (group.number, each.partition)
            if key in life.disk.whole and self._acknowledged.has_all(life.disk, key):
                raise Broken(Rule.FOUND_AGAIN, f"{where} is lost, and {row.node} has all of it")

    def _judge(self, standing: Standing, whole: Sequence[Standing], requests: Requests) -> None:
        self._landed_ns[standing.place.position] = standing.at_ns
        match standing.event:
            case m.NodeJoined() as joined:
                self._check_disk(joined)
            case q.RequestRefused(code=code) as refused if code in REFUSED_KINSHIPS:
                self._check_refusal(refused, requests)
            case x.PartitionsLost() as lost:
                self._check_loss(lost)
            case b.BaselineChanged() as changed:
                self._check_changed(changed, standing, whole, requests)
            case b.StateChangeStarted() as started:
                self._check_started(started)

    def _check_started(self, started: b.StateChangeStarted) -> None:
        """What somebody has asked to be served, or no longer, nothing but a request changes."""
        if started.request is None and started.target is not self._served:
            raise Broken(Rule.STATE_BINDS, f"{started} by itself, though {self._served.value} was asked for")
        if started.target is not ClusterState.INACTIVE:
            self._served = started.target

    def _check_disk(self, joined: m.NodeJoined) -> None:
        """What another history has acknowledged behind the place where it parts from this one is on no member's disk.

        But for what was written under the renewal that ran when they parted: as behind a crash. A log that was cut
        short decides again what was asked behind the cut: whose process lives elsewhere never acts here.
        """
        disk = self._disk_of(joined.joiner.incarnation, self._world.name)
        if disk is not None and joined.kinship in (Kinship.NEW, Kinship.WIPED):
            disk.written.clear()  # what may be on it is nobody's: no log lists it, or none believes it
        for history, position in disk.written.items() if disk else ():
            if history in self._world.common and position > self._world.common[history]:
                told = f"{joined.joiner.node} joins {self._world.name} as {joined.kinship}"
                common = self._world.common[history]
                raise Broken(Rule.NO_MIXING, f"{told}: it has written {history}@{position}, common is {common}")

    def _check_refusal(self, refused: q.RequestRefused, requests: Requests) -> None:
        request = requests[RequestId(refused.request.requester, refused.request.sequence)]
        assert isinstance(request, m.JoinRequested)
        disk = self._disk_of(request.joiner.incarnation)
        lived = disk.lived.items() if disk else ()
        if not any(name in self._world.common and at > self._world.common[name] for name, at in lived):
            raise Broken(Rule.NO_FALSE_REFUSAL, f"{refused.subject} is {refused.code}: it has lived in {dict(lived)}")
        forks = [self._world.common[name] for name, at in lived if at > self._world.common.get(name, at)]
        if forks and request.past is not None:
            self._check_older(refused, request.joiner.node, request.past, min(forks))

    def _check_older(self, refused: q.RequestRefused, node: str, past: Past, fork: Position) -> None:
        """Whether the log went on is known from outside; where it parts the rule can know but as far as the node's life
        was renewed here, so what was granted between both may count for FORKED, and never for AHEAD."""
        told = f"{refused.subject} is {refused.code}: the fork is at {fork}, granted was {self._granted_at}"
        if refused.code == Kinship.AHEAD.value and self._granted_at > fork:
            raise Broken(Rule.OLDER_LOG, told)
        echoed = self._ledger.echoed.get((NodeId(node), past.echo.incarnation), [(NOWHERE, 0)])
        is_served = any(at > fork for echoes in self._ledger.echoed.values() for at, _ in echoes)
        if refused.code == Kinship.FORKED.value and not is_served and self._granted_at <= echoed[-1][0]:
            raise Broken(Rule.OLDER_LOG, told)

    def _goes_on(self, event: object) -> bool:
        """Whether a request was granted, but for the joining of a client."""
        if isinstance(event, m.NodeJoined) and event.joiner.kind is NodeKind.CLIENT:
            return False
        ref = getattr(event, "request", None)
        row = None if ref is None else q.outcome_of(self._ledger.state, ref)
        return row is not None and row.status is q.Status.GRANTED

    def _disk_of(self, incarnation: int, history: str | None = None) -> SimulatedDisk | None:
        life = self._world.site.life_of(Incarnation(incarnation))
        return life.disk if life and history in (None, life.history) else None

    def _check_loss(self, lost: x.PartitionsLost) -> None:
        state = self._ledger.state
        group, current, here = group_row(state, lost.group), b.baseline(state), b.online(state)
        if group is None or not group.persistent or current is None or current.has_quorum(here):
            return
        is_news = any((group.number, partition) not in self._lost for partition in lost.partitions)
        is_awaited = lost.awaited and not set(lost.awaited) & set(here)  # others have joined, and will be asked
        if is_news and is_awaited and not self._state.goes_on:
            raise Broken(Rule.COLD, f"{lost}: only {here} of {current.nodes} are here")

    def _check_changed(
        self, changed: b.BaselineChanged, standing: Standing, whole: Sequence[Standing], requests: Requests
    ) -> None:
        events = [each.event for each in whole]
        accepts_loss = False
        match changed.cause:
            case b.Cause.REQUESTED if changed.request is not None:
                request = requests[RequestId(changed.request.requester, changed.request.sequence)]
                accepts_loss = isinstance(request, BaselineChangeRequested) and request.accepts_loss
            case b.Cause.REQUESTED:
                is_first = any(isinstance(each, b.StateChangeStarted) and each.request for each in events)
                _require(is_first and changed.number == 0, changed)
            case b.Cause.DRAINED:
                drained = {each.node for each in events if isinstance(each, DrainFinished)}
                _require(self._members - {member.node for member in changed.members} == drained, changed)
            case b.Cause.ADJUSTED:
                self._check_due(changed, standing)
            case _:
                _require(False, changed)
        self._check_dropped(changed, accepts_loss=accepts_loss)

    def _check_due(self, changed: b.BaselineChanged, standing: Standing) -> None:
        row = self._adjust
        _require(row.enabled and row.first_at is not None and row.last_at is not None, changed)
        _require(self._state.shares_out and self._state.target is None and not self._state.held, changed)
        assert row.first_at is not None and row.last_at is not None
        waits = ((row.last_at, row.soft_ms), (row.first_at, row.hard_ms))
        waited = [standing.at_ns - self._landed_ns[at] >= ms * NS_PER_MS * 1_000_000 // _FASTEST for at, ms in waits]
        _require(any(waited), changed)

    def _check_dropped(self, changed: b.BaselineChanged, *, accepts_loss: bool) -> None:
        """Whoever is dropped holds nothing if it was drained, and else no last copy."""
        state = self._ledger.state
        after = {member.node for member in changed.members}
        dropped = self._members - after
        names = o.names(state)
        for group, each in _partitions(state) if dropped else ():
            if changed.cause is b.Cause.DRAINED and any(names[copy.node] in dropped for copy in each.copies):
                raise Broken(Rule.BASELINE, f"{changed}: {group.name}/{each.partition} is {each}")
            owners = {names[number] for number in each.owners}
            if group.persistent and not accepts_loss and owners and owners <= dropped:
                raise Broken(Rule.BASELINE, f"{changed}: {group.name}/{each.partition} is owned by {sorted(owners)}")


def _require(holds: bool, changed: b.BaselineChanged) -> None:
    if not holds:
        raise Broken(Rule.BASELINE, str(changed))


def _partitions(state: State) -> Iterator[tuple[GroupRow, Ownership]]:
    for _, row in state.rows(OwnershipRow):
        group = group_row(state, row.group)
        assert group is not None, "a row belongs to a group"
        for each in o.ownerships(row, range(row.first, row.first + row.count)):
            yield group, each
