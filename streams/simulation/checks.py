"""What must hold after every step, whatever has happened. Each rule has a name; a violation says which one broke.

Every rule is judged from outside, by the true time and by the ledger's own reading of the log. Nothing a process says
of itself is taken on trust but what it serves by: its lease, and how far it has applied the log.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from topolog.events import baseline as b
from topolog.events import drains as d
from topolog.events import exchange as x
from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import Request, RequestId
from topolog.events.asking import digest_of
from topolog.events.codec import CODEC
from topolog.events.ids import NOWHERE, Incarnation, NodeId, TopologyVersion
from topolog.events.leases import LeaseRow, LeaveReason, NodeKind, NodeRow, members
from topolog.events.log import Entry
from topolog.events.snapshots import SnapshotTaken
from topolog.events.stamp import NO_DIGEST, InputOffset
from topolog.events.terms import cluster
from topolog.events.topics import BY_CODE, Topic
from topolog.streams.coordinator.core import Role
from topolog.streams.node.core import Phase
from topolog.streams.simulation.baseline_checks import BaselineChecks
from topolog.streams.simulation.exchange_checks import ExchangeChecks
from topolog.streams.simulation.lease_checks import LeaseChecks
from topolog.streams.simulation.ledger import Ledger, Standing
from topolog.streams.simulation.lying import LIAR
from topolog.streams.simulation.network import Landed
from topolog.streams.simulation.processes import NodeProcess, Process
from topolog.streams.simulation.rules import Broken, Rule
from topolog.streams.simulation.schema_checks import SchemaChecks
from topolog.streams.simulation.sharding_checks import PartitionChecks
from topolog.streams.simulation.telling import brief
from topolog.streams.simulation.world import World

_MINOR = (
    g.GroupCreated,
    g.GroupAltered,
    g.GroupDropped,
    x.AffinitySwitched,
    x.ExchangeQueued,
    b.StateChangeStarted,
    b.StateChangeFinished,
    b.BaselineChanged,
    b.ClusterWarmed,
    d.DrainStarted,
    d.DrainCancelled,
)
"""Decisions that make the next minor view."""


class _Type(msgspec.Struct):
    """A type as the rule about versions knows it."""

    newest: int = 0
    accepted: int = 0
    fields: Mapping[str, str] = {}
    proposed_at: dict[int, Standing] = {}


class Checks:
    """Looks at a world after each of its steps; raises Broken."""

    def __init__(self, world: World) -> None:
        self.ledger = Ledger()
        self.asked: dict[RequestId, bytes] = {}
        self.requests: dict[RequestId, Request] = {}
        self.answered: dict[RequestId, Standing] = {}
        self._lies: dict[RequestId, set[bytes]] = {}
        self.left: list[m.NodeLeft] = []
        self.restored: set[Process] = set()
        self._world = world
        self._author = ""
        self._replaced: set[int | None] = set()
        self._types: dict[str, _Type] = {}
        self._view = TopologyVersion(0, 0)
        self._groups: dict[str, tuple[int, int]] = {}
        self._numbers = 0
        self._beats: set[tuple[Incarnation, int]] = set()
        self._certificates: dict[Incarnation, tuple[NodeId, int, int]] = {}
        self._leases = LeaseChecks(self.ledger, world)
        self._schema = SchemaChecks(self.ledger, world, self._leases.terms)
        self._partitions = PartitionChecks(self.ledger, world)
        self._exchanges = ExchangeChecks(self.ledger, world)
        self._baselines = BaselineChecks(self.ledger, world, self._partitions.acknowledged)
        self._read_at_ns: int | None = None

    def begin_with(self, landed: Iterable[Landed], other: "Checks | None") -> None:
        """The history begins with these records of another one; with all of it if `other` is given, what judges that.

        They are judged again, each at its own time: what they lead to is known then.
        """
        for each in landed:
            self._read_at_ns = each.at_ns
            self._look_at_entry(each.entry, each.author)
        self._read_at_ns = None
        if other is not None:
            self._partitions.begin_with(other._partitions)

    def forget_inputs(self) -> None:
        """No requests and heartbeats came along with the log: only joins that wait there for a former life go on."""
        waiting = {str(row.request) for _, row in self.ledger.state.rows(m.WaitingJoinRow)}
        self.asked = {each: said for each, said in self.asked.items() if each in self.answered or str(each) in waiting}
        self._certificates.clear()

    @property
    def _now_ns(self) -> int:
        return self._world.timeline.now_ns if self._read_at_ns is None else self._read_at_ns

    def look(self) -> None:
        """Check all that the last step can have changed."""
        for entry, author in self._world.broker.landed:
            self._look_at_entry(entry, author)
        if self._world.turned is not None:
            self._compare(self._world.turned)
            if self._world.turned.started_from is not None:
                self.restored.add(self._world.turned)
        self._leases.look()
        self._exchanges.look()

    def _look_at_entry(self, entry: Entry, author: str) -> None:
        match entry.topic:
            case Topic.DECISIONS:
                self._look_at_set(self.ledger.read(entry, author, self._now_ns))
            case Topic.REQUESTS | Topic.OPERATIONS:
                self._note_request(entry, author)
            case Topic.HEARTBEATS if author != LIAR:
                self._note_heartbeat(entry)
            case Topic.MAPS:
                self._exchanges.note_map(entry, self._now_ns)

    def _look_at_set(self, whole: list[Standing]) -> None:
        self._replaced = {each.event.joiner.replaces for each in whole if isinstance(each.event, m.NodeJoined)}
        for standing in whole:
            self._judge(standing)
        self._partitions.judge_set(whole)
        self._exchanges.judge_set(whole)
        self._baselines.judge_set(whole, self.requests)
        self._schema.judge_set(whole)
        self._leases.accept(self._schema.committed_through)
        self._check_the_dead(whole)
        if whole and cluster(self.ledger.state).topology_version != self._view:
            raise Broken(Rule.VIEWS, f"another view than {self._view} is in force")
        self._leases.judge_set(whole)

    def unrest(self) -> str:
        """Why the cluster is not at rest yet; nothing if it is."""
        world, state = self._world, self.ledger.state
        roles = [each.driver.role for each in world.coordinators]
        if roles.count(Role.LEADING) != 1 or roles.count(Role.FOLLOWING) != len(roles) - 1:
            return ", ".join(each.describe() for each in world.coordinators) or "no coordinator runs"
        for node in world.nodes:
            row = state.get(NodeRow, node.name)
            if node.session.core.phase is not Phase.MEMBER or (node.is_server and not node.holds_lease):
                return node.describe()
            if row is None or row.incarnation != node.session.core.incarnation:
                return f"{node.name} is not the incarnation that is a member"
        if absent := {row.node for row in members(state)}.symmetric_difference(node.name for node in world.nodes):
            return f"membership is wrong about {sorted(absent)}"
        if open_requests := self.asked.keys() - self.answered.keys():
            return f"no outcome yet for {', '.join(sorted(map(str, open_requests)))}"
        for kind in (md.ProposalRow, md.RemovalRow, m.WaitingJoinRow):
            if count := state.count(kind):
                return f"{count} rows of {kind.KIND} wait"
        if unsettled := (
            self._baselines.unrest() or self._exchanges.unrest() or self._partitions.unrest() or self._schema.unrest()
        ):
            return unsettled
        recent = self._leases.terms.outdated(world.timeline.now_ns)
        behind = [process.describe() for process in world.processes if process.mark()[0] < recent]
        return f"behind: {', '.join(behind)}" if behind else ""

    def check_rest(self) -> None:
        """What must hold once nothing is to come any more."""
        self._exchanges.check_rest()
        self._baselines.check_rest()

    def _check_the_dead(self, whole: Sequence[Standing]) -> None:
        """Once the log says that a certificate was read, nothing waits for its incarnation any more."""
        inputs = (each for standing in whole for each in standing.stamp.inputs if self._is_counted_here(each))
        read = {(each.topic, each.partition): each.next_offset for each in inputs}
        for incarnation, (node, partition, offset) in self._certificates.items():
            if read.get((Topic.HEARTBEATS.code, partition), 0) <= offset:
                continue
            row, waiting = self.ledger.state.get(NodeRow, node), self.ledger.state.get(m.WaitingJoinRow, node)
            is_member = row is not None and row.is_member and row.incarnation == incarnation
            if is_member or (waiting is not None and waiting.joiner.incarnation == incarnation):
                raise Broken(Rule.DEAD_STAY_OUT, f"incarnation {incarnation} of {node}")

    def _is_counted_here(self, read: InputOffset) -> bool:
        """A copy of the log begins with offsets that were counted in topics which did not come with it."""
        entries = self._world.broker.log.entries(BY_CODE[read.topic], read.partition)
        if not 0 < read.next_offset <= len(entries):
            return False
        return read.digest in (NO_DIGEST, digest_of(entries[read.next_offset - 1].value))

    def _note_request(self, entry: Entry, author: str) -> None:
        request = CODEC.decode(entry.value)
        assert isinstance(request, Request)
        digest = digest_of(entry.value)
        # Operators ask for nothing there: they repeat what they find. A copy of a log has the records of another one's.
        is_again = entry.topic is Topic.REQUESTS and author in {each.operator.name for each in self._world.site.worlds}
        if author == LIAR or (is_again and request.id in self._lies):
            self._lies.setdefault(request.id, set()).add(digest)
        elif request.id not in self.asked:
            self.asked[request.id] = digest
            self.requests[request.id] = request

    def _note_heartbeat(self, entry: Entry) -> None:
        match CODEC.decode(entry.value):
            case m.Heartbeat() as heartbeat:
                self._beats.add((heartbeat.incarnation, heartbeat.sequence))
                self._schema.note_heartbeat(heartbeat)
                self._exchanges.note_heartbeat(heartbeat)
            case m.NodeDied() as died:
                self._world.note(f"certificate: {died}")
                self._certificates[died.incarnation] = (died.node, entry.partition, entry.offset)

    def _compare(self, process: Process) -> None:
        """The reader's chain and state against the ledger's at the same position."""
        position, chain, state = process.mark()
        if position == NOWHERE:
            return
        known = self.ledger.marks.get(position)
        if known is None:
            raise Broken(Rule.ONE_FOLD, f"{process.describe()}: no set ends at position {position}")
        if chain != known[0]:
            raise Broken(Rule.ONE_FOLD, f"{process.describe()}: chain {chain.hex()}, the log has {known[0].hex()}")
        if state is not None and state.hash() != known[1]:
            raise Broken(Rule.ONE_FOLD, f"{process.describe()}: another state at position {position}")
        if isinstance(process, NodeProcess):
            if process.misled:
                raise Broken(Rule.HOOKS, f"{process.describe()}: {process.misled}")
            self._leases.look_at(process)
            self._partitions.look_at(process)
            self._baselines.look_at(process)
            self._schema.look_at(process)

    def _judge(self, standing: Standing) -> None:
        """One decision that has come to stand in the log."""
        event = standing.event
        told = f"position {standing.place.position}: {standing.author} {brief(event)}"
        self._world.note(told, dull=isinstance(event, m.LeasesRenewed))
        if standing.stamp.sequence == 0:
            self._author = standing.author
        if standing.author != self._author:
            raise Broken(Rule.ONE_AUTHOR, f"{standing.author} continues a term of {self._author}")
        self._check_outcome(standing)
        self._check_view(event)
        self._leases.terms.note(standing)
        self._exchanges.judge(standing)
        match event:
            case m.NodeLeft():
                self._check_left(event)
            case m.LeasesRenewed():
                self._check_echoes(event)
            case g.GroupCreated() | g.GroupAltered() | g.GroupDropped():
                self._check_group(event)
            case SnapshotTaken():
                if self.ledger.marks.get(event.position) != (event.chain, event.state_hash):
                    raise Broken(Rule.ONE_FOLD, f"the snapshot of position {event.position} is of another state")
            case _:
                self._check_metadata(event, standing)

    def _check_view(self, event: object) -> None:
        is_minor = isinstance(event, _MINOR)
        stated = getattr(event, "topology_version", getattr(event, "version", None) if is_minor else None)
        if stated is None:
            return
        match event:
            case _ if is_minor:
                self._view = TopologyVersion(self._view.major, self._view.minor + 1)
            case m.NodeJoined() if event.joiner.kind is NodeKind.SERVER:
                self._view = TopologyVersion(self._view.major + 1, 0)
            case m.NodeLeft() if self._is_server(event.node):
                self._view = TopologyVersion(self._view.major + 1, 0)
        if stated != self._view:
            raise Broken(Rule.VIEWS, f"view {stated} instead of {self._view}")

    def _is_server(self, node: NodeId) -> bool:
        row = self.ledger.state.get(NodeRow, node)
        return row is not None and row.kind is NodeKind.SERVER

    def _check_group(self, event: g.GroupEvent) -> None:
        match event:
            case g.GroupCreated(group=group):
                self._numbers += 1
                is_right = event.number == self._numbers and group.name not in self._groups
                self._groups[group.name] = (event.number, group.partitions)
            case g.GroupAltered():
                is_right = event.name in self._groups
            case g.GroupDropped():
                is_right = self._groups.pop(event.name, (0, 0))[0] == event.number
        rows = {name: (row.number, row.partitions) for name, row in self.ledger.state.rows(g.GroupRow)}
        if not is_right or rows != self._groups:
            raise Broken(Rule.GROUPS, brief(event))

    def _check_metadata(self, event: object, standing: Standing) -> None:
        match event:
            case md.MetadataUpdateProposed():
                self._check_proposed(event, standing)
            case md.MetadataUpdateAccepted():
                self._check_accepted(event)
            case md.MetadataRemoveProposed():
                known = self._types[event.type_name]
                known.proposed_at[0] = standing
                _require(event.version == known.newest == known.accepted, event)
            case md.MetadataRemoveAccepted():
                self._check_removed(event)

    def _check_outcome(self, standing: Standing) -> None:
        ref = getattr(standing.event, "request", None)
        if ref is None:
            return
        request = RequestId(ref.requester, ref.sequence)
        if ref.digest in self._lies.get(request, ()):
            if not isinstance(standing.event, q.RequestRefused):
                raise Broken(Rule.OPERATIONS, f"{request} of {ref.requester}")
            return
        if request in self.answered:
            raise Broken(Rule.ONE_OUTCOME, f"{request} again at position {standing.place.position}")
        if self.asked.get(request) != ref.digest:
            raise Broken(Rule.ONE_OUTCOME, f"{request} is answered, which was not asked with this content")
        self.answered[request] = standing

    def _check_echoes(self, event: m.LeasesRenewed) -> None:
        for slot, _ in m.unpack_renewals(event.renewals):
            lease = self.ledger.state.get(LeaseRow, str(slot))
            if lease is None or (lease.incarnation, lease.sequence) not in self._beats:
                raise Broken(Rule.ECHOES, f"{lease} was never sent")

    def _check_left(self, left: m.NodeLeft) -> None:
        self.left.append(left)
        node, incarnation = NodeId(left.node), Incarnation(left.incarnation)
        is_dead = incarnation in self._certificates and not self._world.is_alive(incarnation)
        if is_dead or self._world.has_released(incarnation) or incarnation in self._replaced:
            return
        running = [each for each in self._world.nodes if each.session.core.incarnation == incarnation]
        if left.reason is LeaveReason.FENCED and not all(each.disturbed for each in running):
            raise Broken(Rule.NO_FALSE_REMOVAL, running[0].describe())
        row = self.ledger.state.get(NodeRow, node)
        assert row is not None
        self._leases.check_left((node, incarnation), row.kind, self._now_ns)

    def _check_proposed(self, event: md.MetadataUpdateProposed, standing: Standing) -> None:
        known = self._types.setdefault(event.type_name, _Type(proposed_at={}))
        _require(event.version == known.newest + 1, event)
        _require(known.fields.items() <= event.definition.fields.items(), event)
        known.newest, known.fields = event.version, event.definition.fields
        known.proposed_at[event.version] = standing

    def _check_accepted(self, event: md.MetadataUpdateAccepted) -> None:
        known = self._types[event.type_name]
        _require(known.accepted < event.version <= known.newest, event)
        known.accepted = event.version
        self._check_presumed(event, known.proposed_at[event.version])

    def _check_removed(self, event: md.MetadataRemoveAccepted) -> None:
        known = self._types[event.type_name]
        _require(event.floor == known.newest == known.accepted, event)
        known.fields = {}
        self._check_presumed(event, known.proposed_at.pop(0))

    def _check_presumed(
        self, accepted: md.MetadataUpdateAccepted | md.MetadataRemoveAccepted, proposed: Standing
    ) -> None:
        """What is accepted must be applied by now, or its silent holders were waited for since it stood in the log."""
        self._leases.accept(proposed.place.position)
        if accepted.evidence.presumed_fenced and self._now_ns < self._leases.terms.waited_ns(proposed.place.position):
            waited_ms = (self._now_ns - proposed.at_ns) / 1e6
            raise Broken(Rule.PRESUMED_IN_TIME, f"{brief(accepted)}, after {waited_ms:.1f} ms")


def _require(holds: bool, event: md.MetadataEvent) -> None:
    if not holds:
        raise Broken(Rule.VERSIONS, brief(event))
