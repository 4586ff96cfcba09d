"""A node without I/O and without a clock: it folds the log, knows its own membership and when its lease was echoed.

Order of use: `read` a record; for each decision it yields, run the service's hooks, then `apply` it; after the last one
of a record, `finish`. So an echo counts only after the hooks of everything before it, and the position a heartbeat
reports is the end of a whole set with its hooks done (K9).
"""

from collections.abc import Callable, Sequence, Set
from enum import Enum

from topolog.events import membership as m
from topolog.events.baseline import StateChangeStarted
from topolog.events.codec import CODEC, Codec
from topolog.events.exchange import ExchangeMerged, ExchangeStarted
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Slot
from topolog.events.leases import LeaveReason, NodeRow
from topolog.events.log import Entry
from topolog.events.membership import Applied
from topolog.events.metadata import MetadataRemoveProposed, MetadataUpdateProposed
from topolog.events.objects import SchemaChangePrepared
from topolog.events.single_maps import NodeMap
from topolog.events.state import State
from topolog.events.terms import TermStarted, cluster
from topolog.events.views import Echo, Point
from topolog.streams.node.copies import Disk, NodeCopies, PartitionId
from topolog.streams.node.deletions import Deletions
from topolog.streams.node.lease import Lease

ACKNOWLEDGED = (
    MetadataUpdateProposed,
    MetadataRemoveProposed,
    StateChangeStarted,
    SchemaChangePrepared,
    TermStarted,
)
"""Decisions that ask every node for an early heartbeat: a verdict waits for it, or the first renewal of a term."""


class Phase(Enum):
    """Where this incarnation stands. GONE is its end: another incarnation may follow it."""

    OUTSIDE = "outside"
    JOINING = "joining"
    MEMBER = "member"
    STOPPING = "stopping"
    GONE = "gone"


class NodeCore:
    """One incarnation after another of one node, over one fold of the log.

    `running`: for which of these partitions an operation of the service still runs. `owes_map`: a single map is to be
    sent. `deletions`: what this life is to delete, or has. `blocked`: the first decision that the service cannot apply.
    `codec`: that of its build.
    """

    def __init__(
        self,
        node: NodeId,
        capabilities: tuple[str, ...],
        running: Callable[[Set[PartitionId]], Set[PartitionId]] = lambda _: frozenset(),
        codec: Codec = CODEC,
    ) -> None:
        self.node = node
        self.copies = NodeCopies(node)
        self.owes_map = False
        self.deletions = Deletions()
        self.blocked: m.Blocked | None = None
        self._drained = NOWHERE
        self._running = running
        self.phase = Phase.OUTSIDE
        self.left_reason: LeaveReason | None = None
        self.lease = Lease(Incarnation(0))
        self.wants_acknowledgement = False
        self.applied = Applied(b"", NOWHERE, b"")
        self._capabilities = capabilities
        self.codec = codec
        self._fold = Fold(codec=codec)
        self._seal = b""
        self._slot: Slot | None = None
        self._echo: Echo | None = None
        self._sequence = 0

    @property
    def sent(self) -> int:
        """The number of this incarnation's last heartbeat, 0 before the first."""
        return self._sequence

    @property
    def fold(self) -> Fold:
        return self._fold

    @property
    def state(self) -> State:
        return self._fold.state

    @property
    def log_id(self) -> bytes | None:
        return self._fold.header.log_id

    @property
    def folded(self) -> Position:
        """The position that `state` reflects; ahead of `applied` while hooks run."""
        return self._fold.header.position

    @property
    def has_never_asked(self) -> bool:
        """Whether this process has not asked to join yet."""
        return self.phase is Phase.OUTSIDE and self.incarnation == Incarnation(0)

    @property
    def incarnation(self) -> Incarnation:
        return self.lease.incarnation

    def incarnate(self, incarnation: Incarnation, disk: Disk, seal: bytes = b"") -> None:
        """Begin a new incarnation, fenced and outside, with these whole copies; the one before is out for good. `seal`
        is that of its secret: a joining in its name with another one is somebody else's."""
        self.lease.void()
        self._seal = seal
        self.copies.begin(incarnation, disk)
        self.deletions.begin()
        self.lease = Lease(incarnation, self.lease.generation, self.lease.anchor_ns)
        self.phase, self.left_reason = Phase.JOINING, None
        self._slot, self._echo, self._sequence = None, None, 0

    def begin_from(self, fold: Fold) -> None:
        """Start from what a snapshot gave, instead of from the beginning of the log; nothing of it is a lease."""
        assert self.phase is Phase.OUTSIDE and self.log_id is None, "the log is read already"
        self._fold = fold

    def begin_anew(self) -> None:
        """Read the log again from its beginning; nobody has heard of this process yet."""
        assert self.has_never_asked, "it may be a member by now"
        self._fold, self.applied = Fold(codec=self.codec), Applied(b"", NOWHERE, b"")
        self.wants_acknowledgement = False

    def renounce(self) -> None:
        """Give up the incarnation that asked to join: whatever comes of that, none of it is ours any more."""
        self.lease.void()
        self.lease = Lease(Incarnation(0), self.lease.generation, self.lease.anchor_ns)
        self.phase = Phase.GONE

    def read(self, entry: Entry) -> list[Folded] | Ignored:
        """Fold one record of `decisions`; raises Poisoned or LogDiverged, after which this node must not serve."""
        return self._fold.read(entry.stamp, entry.value)

    def apply(self, folded: Folded, now_ns: int) -> None:
        """One decision whose hooks are done; `now_ns` was read after them."""
        match folded.event:
            case m.NodeJoined() as joined:
                self._on_joined(joined, folded.place)
            case m.LeasesRenewed() as renewed:
                self._on_renewed(renewed, folded.place, now_ns)
            case m.LeaseStopped() as stopped if self._is_own(stopped.node, stopped.incarnation):
                self.lease.void()
                self.phase = Phase.STOPPING
            case m.NodeLeft() as left if self._is_own(left.node, left.incarnation):
                self.lease.void()
                self.phase, self.left_reason = Phase.GONE, left.reason
            case ExchangeStarted() | ExchangeMerged() as asking:
                own = (each for each in asking.awaited if self._is_own(each.node, each.incarnation))
                self.wants_acknowledgement |= any(not each.needs_map for each in own)
            case event if isinstance(event, ACKNOWLEDGED):
                self.wants_acknowledgement = True

    def finish(self) -> None:
        """Everything of the last whole set is applied."""
        header = self._fold.header
        assert header.log_id is not None
        self.applied = Applied(header.log_id, header.position, header.chain)
        self.look_at_drains()
        self.look_at_map()

    def look_at_drains(self) -> bool:
        """Note which hand-overs have drained since; whether one has, so that the next heartbeat is to go soon.

        An operation may end between the folding of HandOverPrepared and the moment at which that counts as applied: the
        drain is news only then.
        """
        waiting, before = self.copies.undrained(self.state), self._drained
        self.copies.drain(self.state, waiting - self._running(waiting))
        self._drained = self.copies.drained(self.state, self.applied.position)
        is_news = self.copies.prepared_between(self.state, before, self._drained)
        self.wants_acknowledgement |= is_news
        return is_news

    @property
    def hands_over(self) -> bool:
        """Whether a hand-over of this node is under way."""
        return self.copies.hands_over(self.state)

    def block(self, first: m.Blocked | None) -> None:
        """The first decision that the service cannot apply, None if there is none; news of it is to go soon."""
        self.wants_acknowledgement |= first is not None and first != self.blocked
        self.blocked = first

    def look_at_map(self) -> None:
        """Note whether a single map is to be sent."""
        is_member = self.phase is Phase.MEMBER
        self.owes_map = is_member and self.copies.owes_map(self.state, self.incarnation, self._fold.header.term)

    def finish_copy(self, group: str, partition: int, since: Position, token: Position) -> bool:
        """The service has loaded or cleared a copy; as `NodeCopies.finish`. Thousands come at once behind a join, so
        nothing is looked at here but this one."""
        is_current = self.copies.finish(self.state, group, partition, since, token)
        self.owes_map |= is_current and self.phase is Phase.MEMBER
        return is_current

    def next_map(self, counters: Disk) -> NodeMap:
        """The single map to send now; `counters` are the present ones of persistent groups."""
        self.owes_map = False
        return self.copies.next_map(self.state, self.incarnation, self.applied, counters, self._fold.header.term)

    def heartbeat(self, now_ns: int, *, secret: bytes = b"") -> m.Heartbeat:
        """The next heartbeat, with the secret if it is a release; `now_ns` was read before this call, and the record
        goes to the producer after it."""
        self._sequence += 1
        self.lease.sent(self._sequence, now_ns)
        self.wants_acknowledgement = False
        return m.Heartbeat(
            node=self.node,
            incarnation=self.incarnation,
            sequence=self._sequence,
            applied=self.applied,
            drained=self._drained,
            blocked=self.blocked,
            capabilities=self._capabilities,
            fenced=not self.lease.is_valid(now_ns),
            secret=secret,
        )

    def is_of_this_life(self, position: Position) -> bool:
        """Whether it stands behind the joining of this incarnation."""
        row = self.state.get(NodeRow, self.node)
        return row is not None and self._is_own_row(row) and position > row.joined_at

    @property
    def has_joined(self) -> bool:
        """Whether this incarnation is a member by what is folded; ahead of `phase` while hooks run."""
        row = self.state.get(NodeRow, self.node)
        return row is not None and row.is_member and self._is_own_row(row)

    def unsay_map(self) -> None:
        """The last map did not reach the log."""
        self.copies.unsay()
        self.look_at_map()

    def _is_own_row(self, row: NodeRow) -> bool:
        return self._is_own(row.node, row.incarnation) and row.seal == self._seal

    def _is_own(self, node: NodeId, incarnation: Incarnation) -> bool:
        return (node, incarnation) == (self.node, self.incarnation)

    def echo_behind(self, found: Sequence[Folded]) -> Echo | None:
        """The newest renewal of this incarnation once this set is applied too; None while it is no member."""
        slot, echo = (self._slot, self._echo) if self.phase in (Phase.MEMBER, Phase.STOPPING) else (None, None)
        for folded in found:
            match folded.event:
                case m.NodeLeft() as left if self._is_own(left.node, left.incarnation):
                    return None
                case m.NodeJoined() as joined if self._is_joiner(joined):
                    slot, echo = joined.slot, self._first_echo(folded.place)
                case m.LeasesRenewed() as renewed if slot is not None and echo is not None:
                    echo = _renewed(echo, slot, renewed, folded.place)
        return echo

    def lease_behind(self, echo: Echo) -> int:
        """Until when the lease lasts once this renewal is applied."""
        return self.lease.deadline_behind(echo.sequence, cluster(self.state).fence_ms)

    def _is_joiner(self, joined: m.NodeJoined) -> bool:
        joiner = joined.joiner
        return self._is_own(NodeId(joiner.node), Incarnation(joiner.incarnation)) and joiner.seal == self._seal

    def _first_echo(self, place: Place) -> Echo:
        return Echo(self.incarnation, 0, Point(place.position, place.chain))

    def _on_joined(self, joined: m.NodeJoined, place: Place) -> None:
        if self._is_joiner(joined):
            self.phase, self._slot, self._echo = Phase.MEMBER, joined.slot, self._first_echo(place)
            self.wants_acknowledgement = True

    def _on_renewed(self, renewed: m.LeasesRenewed, place: Place, now_ns: int) -> None:
        if self.phase is not Phase.MEMBER:
            return
        assert self._slot is not None and self._echo is not None, "a member has both from its joining on"
        echo = _renewed(self._echo, self._slot, renewed, place)
        if echo is not self._echo:
            self._echo = echo
            self.lease.echoed(echo.sequence, cluster(self.state).fence_ms, now_ns)


def _renewed(echo: Echo, slot: Slot, renewed: m.LeasesRenewed, place: Place) -> Echo:
    """The next echo of the life with this slot; the same one if its heartbeats have not grown."""
    for each, growth in m.unpack_renewals(renewed.renewals):
        if each == slot:
            return Echo(echo.incarnation, echo.sequence + growth, Point(place.position, place.chain))
    return echo
