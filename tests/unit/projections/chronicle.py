"""A coordinator for tests of readers: logs whatever the test says has been decided, stamped and chained correctly."""

from collections.abc import Collection, Mapping

from topolog.events.asked import RequestRef
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.fold import Fold
from topolog.events.ids import NOWHERE, Position, Term, TopologyVersion, Version
from topolog.events.leases import FENCING, LeaseRow, LeaveReason, NodeKind, NodeRow
from topolog.events.levels import FIRST_LEVEL
from topolog.events.log import Entry, InMemoryLog
from topolog.events.membership import Joiner, JoinWaiting, LeasesRenewed, NodeJoined, NodeLeft, pack_renewals
from topolog.events.metadata import (
    MetadataRemoveAccepted,
    MetadataRemoveProposed,
    MetadataUpdateAccepted,
    MetadataUpdateProposed,
    MetadataUpdateRejected,
    TypeRow,
    type_row,
)
from topolog.events.object_types import ObjectType
from topolog.events.proof import seal_of
from topolog.events.stamp import HEADER_NAME, NO_CHAIN, Stamp, chain_after, encode_stamp
from topolog.events.terms import LogStarted, TermStarted, cluster
from topolog.events.topics import Topic
from topolog.events.views import Kinship
from topolog.streams.rules import objects

SECRET = b"that of all nodes of a chronicle"
LOG_ID = bytes(range(16))
FENCE_MS = 20_000
START_MS = 1_800_000_000_000


class Chronicle:
    """One cluster's log being written. `now_ms` is LogAppendTime; each set is logged `pace_ms` after the one before."""

    def __init__(
        self, cluster: str = "main", log_id: bytes = LOG_ID, pace_ms: int = 1_000, fence_ms: int = FENCE_MS
    ) -> None:
        self.now_ms = START_MS
        self.pace_ms = pace_ms
        self.log = InMemoryLog(lambda: self.now_ms)
        self.cluster = cluster
        self.log_id = log_id
        self._fence_ms = fence_ms
        self.fold = Fold()
        self._term = 0
        self._sequence = 0
        self._asked = 0
        self._chain = NO_CHAIN

    @property
    def position(self) -> Position:
        return self.fold.header.position

    @property
    def chain(self) -> bytes:
        """The chain hash behind all that was logged."""
        return self._chain

    @property
    def entries(self) -> list[Entry]:
        return list(self.log.entries(Topic.DECISIONS))

    def start(self) -> "Chronicle":
        """Begin the log and its first term."""
        self._sequence = 0
        self.decide(LogStarted(self.log_id, self.cluster, self._fence_ms, 5_000, 1_000, FIRST_LEVEL))
        return self.lead("c1")

    def lead(self, instance: str) -> "Chronicle":
        """A coordinator takes over."""
        self._term, self._sequence = self._term + 1, 0
        self.decide(TermStarted(self._term, instance, life=7), actor=instance)
        return self

    def decide(self, *events: Decision, cause: str = "", actor: str = "", reason: str = "") -> Position:
        """Log one set; returns its position. Without a cause it is that of the first event's request."""
        ref = getattr(events[0], "request", None)
        if not cause and isinstance(ref, RequestRef):
            cause, actor = f"requests@{ref.sequence} {ref}", actor or ref.requester
        actor = actor or "c1"
        values = [CODEC.encode(event) for event in events]
        for index, value in enumerate(values):
            self._append(self._stamp(index, len(events), cause, actor, reason), value)
            self._sequence += 1
        self.now_ms += self.pace_ms
        return self.position

    def append_raw(self, stamp: bytes | None, value: bytes) -> None:
        """Put any record into the topic, as a foreign or a broken writer would."""
        self.log.put(Topic.DECISIONS, self.cluster, value, () if stamp is None else ((HEADER_NAME, stamp),))

    def append_accepted(self, value: bytes) -> None:
        """A record with a good stamp and this value, whatever it is: a poisonous one."""
        self.append_raw(encode_stamp(self._stamp(0, 1, "", "c1", "")), value)

    def poison(self, value: bytes) -> tuple[Position, bytes]:
        """As `append_accepted`; the chronicle's own fold leaves it out, for it is to be voided. Which record it is."""
        stamp = encode_stamp(self._stamp(0, 1, "", "c1", ""))
        named = Position(self.position + 1), chain_after(self._chain, stamp, value)
        self.fold.void(named)
        self._append(self._stamp(0, 1, "", "c1", ""), value)
        self._sequence += 1
        return named

    def ref(self, requester: str = "cli-1") -> RequestRef:
        """The next request's id."""
        self._asked += 1
        return RequestRef(requester, self._asked, bytes(8))

    def join(
        self,
        node: str,
        *,
        kind: NodeKind = NodeKind.SERVER,
        renewed: bool = True,
        folder: str = "",
        kinship: Kinship | None = None,
        cause: str = "",
        actor: str = "",
    ) -> Position:
        row = cluster(self.fold.state)
        is_server = kind is NodeKind.SERVER
        version = row.topology_version
        joiner = Joiner(node, 1, kind, f"{node}:7000", {"rack": "r1"}, (FENCING,), folder, seal=seal_of(SECRET))
        view = TopologyVersion(version.major + is_server, 0)
        joined = NodeJoined(self.ref(node), joiner, row.next_slot, view, kinship)
        position = self.decide(joined, cause=cause or f"requests@1 {node}/1", actor=actor or node)
        return self.renew(node) if renewed and is_server else position

    def wait_to_join(self, node: str) -> Position:
        """A second process of a member asks to join."""
        former = self._row(node)
        joiner = Joiner(node, former.incarnation + 1, former.kind, former.endpoint, {}, (FENCING,))
        return self.decide(JoinWaiting(self.ref(node), joiner, former.incarnation, self.now_ms), actor=node)

    def renew(self, *nodes: str) -> Position:
        slots = sorted(self._row(node).slot for node in nodes)
        return self.decide(LeasesRenewed(pack_renewals((slot, 1) for slot in slots)), cause="the beat of the leader")

    def leave(self, node: str, reason: LeaveReason = LeaveReason.FENCED) -> Position:
        row = self._row(node)
        lease = self.fold.state.get(LeaseRow, str(row.slot))
        assert lease is not None
        version = cluster(self.fold.state).topology_version
        left = NodeLeft(
            row.node, row.incarnation, reason, lease.sequence, lease.renewed_at, TopologyVersion(version.major + 1, 0)
        )
        return self.decide(left, cause=f"deadline lease/{node}")

    def propose(
        self,
        name: str,
        fields: Mapping[str, str],
        *,
        actor: str = "ann",
        reason: str = "",
        ref: RequestRef | None = None,
    ) -> Position:
        """Propose these as all fields of the type."""
        ref = ref or self.ref()
        version = Version(self._pending_version(name) + 1)
        event = MetadataUpdateProposed(ref, name, version, ObjectType(name, dict(fields)))
        return self.decide(event, cause=f"requests@{ref.sequence} {ref}", actor=actor, reason=reason)

    def reject(self, name: str, current: ObjectType, proposed: ObjectType, ref: RequestRef | None = None) -> Position:
        ref = ref or self.ref()
        facts = {"what": "field id", "current": "long", "proposed": "String"}
        event = MetadataUpdateRejected(
            ref, name, "METADATA_CONFLICT", "ME8", "Field 'id' is long.", facts, current, proposed
        )
        return self.decide(event, cause=f"requests@{ref.sequence} {ref}", actor="bob", reason="try")

    def accept(self, name: str, *applied: str, presumed_fenced: tuple[str, ...] = ()) -> Position:
        evidence = Evidence(applied=applied, presumed_fenced=presumed_fenced)
        event = MetadataUpdateAccepted(name, Version(self._pending_version(name)), evidence)
        return self.decide(event, cause="heartbeats/0@7 n1")

    def accept_pending(self) -> None:
        """Accept every pending version and removal there is."""
        members = tuple(node for node, row in self.fold.state.rows(NodeRow) if row.holds_lease)
        for _, row in list(self.fold.state.rows(TypeRow)):
            if row.accepted_version < row.pending_version:
                self.accept(row.name, *members)
            if row.removing:
                self.decide(MetadataRemoveAccepted(row.name, row.pending_version, Evidence(applied=members)))

    def settle_changes(self, *applied: str, waited: bool = False, late: Collection[str] = ()) -> None:
        """What follows for changes of objects if these servers have applied everything, by the real rules."""
        state = self.fold.state
        while True:
            reports = {
                row.node: (row.incarnation, self.position) for _, row in state.rows(NodeRow) if row.node in applied
            }
            waited_through = self.position if waited else NOWHERE
            decided = objects.settle(state, reports, {}, waited_through, late)
            if not decided:
                return
            self.decide(*decided, cause="heartbeats/0@9 n1")

    def remove_type(self, name: str) -> Position:
        """Propose and accept a removal."""
        version = Version(self._pending_version(name))
        self.decide(MetadataRemoveProposed(self.ref(), name, version), actor="ann", reason="unused")
        return self.decide(MetadataRemoveAccepted(name, version, Evidence(applied=("n1",))))

    def replace_in_one_set(self, left: str, joined: str) -> list[Entry]:
        """One node out and another in, at once; returns all entries of the log."""
        row = self._row(left)
        version = TopologyVersion(cluster(self.fold.state).topology_version.major + 1, 0)
        joiner = Joiner(joined, 1, NodeKind.SERVER, f"{joined}:7000", {}, (FENCING,), folder="f1")
        slot = cluster(self.fold.state).next_slot
        self.decide(
            NodeLeft(row.node, row.incarnation, LeaveReason.REPLACED, 1, row.joined_at, version),
            NodeJoined(self.ref(), joiner, slot, version),
        )
        return self.entries

    def _pending_version(self, name: str) -> int:
        row = type_row(self.fold.state, name)
        return row.pending_version if row else 0

    def _row(self, node: str) -> NodeRow:
        row = self.fold.state.get(NodeRow, node)
        assert row is not None
        return row

    def _stamp(self, index: int, size: int, cause: str, actor: str, reason: str) -> Stamp:
        chain = self._chain if self._sequence else NO_CHAIN
        return Stamp(
            self.log_id, Term(self._term), self._sequence, index, size, chain, self.now_ms, (), cause, actor, reason
        )

    def _append(self, stamp: Stamp, value: bytes) -> None:
        encoded = encode_stamp(stamp)
        self._chain = chain_after(self._chain, encoded, value)
        self.append_raw(encoded, value)
        self.fold.read(encoded, value)
