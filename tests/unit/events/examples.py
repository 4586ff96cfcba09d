"""One filled-in example of every record, and a leader that writes flawless sets: what the tests here are made of."""

from collections.abc import Iterable

from tests.unit.events import repair_examples

from topolog.events import baseline as b
from topolog.events import drains, lease_terms, levels, terms, voiding
from topolog.events import exchange as x
from topolog.events import groups as g
from topolog.events import health as h
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import object_definition as od
from topolog.events import objects as ob
from topolog.events import ownership as o
from topolog.events import partitions as p
from topolog.events import requests as q
from topolog.events import single_maps as sm
from topolog.events import snapshots as s
from topolog.events.asked import RequestId, RequestRef
from topolog.events.awaited import Awaited
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    BaselineVerb,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.changes import pack_changes
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC, Record
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.ids import Incarnation, NodeId, Offset, Position, Slot, Term, TopologyVersion, Version
from topolog.events.leases import FENCING, LeaveReason, NodeKind
from topolog.events.object_requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.object_types import DeclaredType
from topolog.events.stamp import NO_CHAIN, InputOffset, Stamp, chain_after, encode_stamp
from topolog.events.views import Echo, Kinship, Past, Point

LOG_ID = bytes(range(16))
REF = RequestRef("n1-0badcafe", 7, b"\x01\x02\x03\x04\x05\x06\x07\x08")
ID = RequestId("n1-0badcafe", 7)
CUSTOMER = md.ObjectType(
    "Customer", {"id": "long", "name": "String"}, "id", schemas={str(md.schema_id(("id", "name"))): ("id", "name")}
)
COLOUR = md.ObjectType("Colour", {}, is_enum=True, enum={"RED": 0, "GREEN": 1})
JOINER = m.Joiner(
    node="n1",
    incarnation=-42,
    kind=NodeKind.SERVER,
    endpoint="10.0.0.1:7000",
    attributes={"rack": "r1"},
    capabilities=(FENCING,),
    folder="7d3f",
    replaces=-41,
    types=(DeclaredType(CUSTOMER, 3),),
    seal=b"sixteen of hash.",
    proof=b"sixteen to show.",
)
EVIDENCE = Evidence(("n1", "n2"), ("n3",), ("n4",))
VIEW = TopologyVersion(5, 2)
AFFINITY = g.Affinity("host", {"zone": "eu", "disk": "ssd"}, "")
ORDERS = g.GroupDefinition("orders", 64, 2, AFFINITY, g.LossPolicy.READ_ONLY_SAFE, persistent=True)
POINTS = (Point(Position(20), bytes(range(16))), Point(Position(88), bytes(range(16, 32))))
PAST = Past(LOG_ID, NodeId("n1"), POINTS, Echo(Incarnation(-41), 300, POINTS[1]), reserved=364)
JOINED = x.Trigger(x.TriggerType.JOIN, "n1", VIEW, Position(98))
CHANGES = pack_changes(
    (
        o.Change(3, (o.Copy(0, p.PartitionState.OWNING, True), o.Copy(1, p.PartitionState.MOVING, True)), 0),
        o.Change(7, (o.Copy(1, p.PartitionState.RENTING, False),), None, is_lost=True),
    )
)
FACTS = {"what": "field id", "current": "long", "proposed": "String"}
HEARTBEAT = m.Heartbeat(
    node=NodeId("n1"),
    incarnation=Incarnation(-42),
    sequence=300,
    applied=m.Applied(LOG_ID, Position(99), bytes(16)),
    drained=Position(-1),
    blocked=m.Blocked(Position(98), "NO_CODEC", "cannot read größe"),
    capabilities=(FENCING,),
    fenced=True,
    secret=b"",
)
FIGURES = h.Figures(60, 59, 1_900, 4_000, 700, missed=1, lost=2, fencings=3, returns=4, starts=5, strays=6)
HEALTH = h.LeaseHealth(
    node=NodeId("n1"),
    incarnation=Incarnation(-42),
    log_id=LOG_ID,
    partition=3,
    offset=Offset(7_000),
    sequence=300,
    beat_ms=1_700_000_060_000,
    lateness_ms=250,
    fence_ms=20_000,
    heartbeat_ms=1_000,
    fenced=False,
    released=True,
    minutes=(h.Minute(1_700_000_040_000, FIGURES),),
    whole=FIGURES,
)
SINGLE_MAP = sm.SinglePartitionMap(
    node=NodeId("n1"),
    incarnation=Incarnation(-42),
    exchange=Position(90),
    update_sequence=3,
    applied=m.Applied(LOG_ID, Position(99), bytes(16)),
    part=1,
    parts=2,
    groups=(
        sm.GroupMap(
            group="accounts",
            states=p.encode_codes(p.codes_of({0: p.PartitionState.OWNING, 7: p.PartitionState.LOST}, 14)),
            same_as=None,
            counters=sm.pack_counters({0: sm.UpdateCounter(4_000, 4_100), 7: sm.UpdateCounter(0, 0)}),
            finished=sm.pack_finished({0: sm.Finished(Position(88), Position(80))}),
        ),
        sm.GroupMap("größe", b"", 0, b"", b""),
    ),
)
N1, N2 = NodeId("n1"), NodeId("n2")
STARTED = terms.LogStarted(LOG_ID, "demo", 20_000, 5_000, 1_000, levels.FIRST_LEVEL)

SNAPSHOT = s.SnapshotTaken(
    log_id=LOG_ID,
    term=Term(4),
    position=Position(90),
    chain=bytes(range(16)),
    state_hash=bytes(range(16, 32)),
    row_format="0123456789ab",
    digest=bytes(range(32)),
    rows=17,
    content_bytes=1_000_000,
    chunks=2,
    first_offset=Offset(40),
    anchor=s.SnapshotAnchor(Offset(95), 8, Position(88), bytes(16)),
)

SALES = od.Definition(
    (od.Column("id", od.ColumnType.INT64, 1), od.Column("note", od.ColumnType.STRING, 3)),
    key="id",
    ttl_ms=86_400_000,
    properties={"owner": "größe"},
)
STATEMENTS = (
    od.Statement(od.Verb.CREATE, od.ObjectKind.TABLE, "shop.sales", SALES, if_needed=True, planned_on=od.ABSENT),
    od.Statement(
        od.Verb.ALTER,
        od.ObjectKind.TABLE,
        "shop.orders",
        columns=(
            od.ColumnAction(od.ColumnVerb.ADD, "note", od.ColumnType.STRING),
            od.ColumnAction(od.ColumnVerb.RENAME, "sum", new_name="total"),
        ),
        ttl_ms=0,
        properties={"owner": "ada"},
        unset=("team",),
        planned_on=90,
        harmless=True,
    ),
    od.Statement(od.Verb.ALTER, od.ObjectKind.GRANT, "ada@shop", privileges=(od.Privilege.READ, od.Privilege.WRITE)),
    od.Statement(od.Verb.RENAME, od.ObjectKind.TABLE, "shop.bills", new_name="shop.invoices"),
)
STEPS = (
    od.Step(od.Verb.CREATE, od.ObjectKind.TABLE, "shop.sales", SALES),
    od.Step(od.Verb.RENAME, od.ObjectKind.VIEW, "shop.a", od.Definition(over="shop.sales"), "shop.b"),
    od.Step(od.Verb.DROP, od.ObjectKind.GRANT, "ada@shop"),
)

EXAMPLES: tuple[Record, ...] = (
    STARTED,
    terms.TermStarted(4, "c1", life=7),
    terms.TermEnded(4),
    levels.FeatureLevelRaised(REF, 2, ("n1", "n2")),
    q.RequestRefused(REF, "type Customer", "TYPE_BUSY", "ME23", "It is being updated.", FACTS),
    q.RequestUnchanged(REF, "type Customer", 3),
    q.RequestersForgotten(("n1-0badcafe", "cli-1")),
    m.NodeJoined(REF, JOINER, Slot(9), VIEW, Kinship.BEHIND),
    m.JoinWaiting(REF, JOINER, Incarnation(-41), 1_700_000_000_000, PAST),
    m.JoinWithdrawn(N1),
    m.LeasesRenewed(m.pack_renewals([(Slot(0), 1), (Slot(9), 300)])),
    m.LeaseStopped(REF, N1, Incarnation(-42), LeaveReason.REMOVED),
    m.NodeLeft(N1, Incarnation(-42), LeaveReason.FENCED, 300, Position(97), VIEW),
    md.MetadataUpdateProposed(REF, "Customer", Version(3), CUSTOMER),
    md.MetadataUpdateRejected(REF, "Customer", "METADATA_CONFLICT", "ME8", "They differ.", FACTS, CUSTOMER, COLOUR),
    md.MetadataUpdateAccepted("Customer", Version(3), EVIDENCE),
    md.MetadataRemoveProposed(REF, "Customer", Version(3)),
    md.MetadataRemoveAccepted("Customer", Version(3), EVIDENCE),
    g.GroupCreated(REF, 7, ORDERS, VIEW),
    g.GroupAltered(REF, "orders", 1, g.Affinity(backup_filter="rack"), g.LossPolicy.READ_WRITE_SAFE, VIEW),
    g.GroupDropped(REF, "orders", 7, VIEW),
    x.ExchangeQueued(REF, x.TriggerType.LOSS_RESET, "orders", VIEW),
    x.ExchangeStarted((JOINED,), (Awaited(N1, Incarnation(-42), needs_map=True),), Offset(40), 1_700_000_000_000),
    x.ExchangeMerged((JOINED,), (Awaited(N1, Incarnation(-42), needs_map=True),)),
    x.ExchangeOverdue((N1,)),
    x.FullPartitionMap("orders", ("n1", "n2"), CHANGES),
    x.PartitionsLost("orders", (3, 7), ("n1",)),
    x.ExchangeCompleted(VIEW, (x.Waited(N1, 7),), (NodeId("n2"),)),
    x.HandOverPrepared(N1, Incarnation(-42), (x.Move("orders", (3, 7), NodeId("n2")),)),
    x.AffinitySwitched(Position(97), VIEW, EVIDENCE),
    x.PartitionStatesChanged("orders", CHANGES),
    b.StateChangeStarted(REF, ClusterState.ACTIVE_READ_ONLY, b.Cause.REQUESTED, (N1, N2), VIEW),
    b.StateChangeFinished(Position(97), EVIDENCE, VIEW),
    b.BaselineChanged(
        REF, 2, (b.BaselineMember(N1, {"rack": "r1"}), b.BaselineMember(N2, {})), (N1,), b.Cause.REQUESTED, VIEW
    ),
    b.HoldChanged(REF, held=True),
    b.AutoAdjustConfigured(REF, enabled=True, soft_ms=300_000, hard_ms=1_800_000),
    b.AutoAdjustSuppressed("nobody else has a whole copy of 3 partitions of größe"),
    b.ClusterCold((N2,), 2),
    b.ClusterWarmed(REF, b.Cause.QUORUM, (N1, N2), VIEW),
    drains.DrainStarted(REF, N1, VIEW),
    drains.DrainCancelled(REF, N1, VIEW),
    drains.DrainFinished(N1),
    lease_terms.LeaseTermsChanged(REF, 10_000, 3_000),
    lease_terms.LeaseTermsConfirmed(Position(97)),
    ob.SchemaChangeQueued(REF, STATEMENTS, 30_000),
    ob.SchemaChangePrepared(REF, Position(97), STEPS, 30_000),
    ob.SchemaChangeCommitted((Position(97), Position(98)), EVIDENCE),
    ob.SchemaChangeRolledBack(REF, Position(97), "CANCELLED", "TA21", "It was cancelled.", FACTS),
    ob.DataDeletionConfirmed(REF, N1, Incarnation(-42), (Position(97),)),
    *repair_examples.DECISIONS,
    SNAPSHOT,
    voiding.RecordVoided(97, bytes(range(16))),
    m.JoinRequested(ID, LOG_ID, "n1", "first start", JOINER, PAST),
    m.NodeRemovalRequested(ID, LOG_ID, "ada", "disk broken", "n1"),
    md.UpdateRequested(ID, LOG_ID, "n1", "new field", CUSTOMER, 2, "n1", -42),
    md.TypeRemovalRequested(ID, LOG_ID, "ada", "", "Customer"),
    levels.LevelRaiseRequested(ID, LOG_ID, "ada", "all are upgraded", 2),
    g.GroupCreationRequested(ID, LOG_ID, "n1", "the shop's orders", ORDERS),
    g.GroupAlterationRequested(
        ID, LOG_ID, "ada", "more copies", "orders", 64, 3, "", {"zone": "eu"}, "rack", g.LossPolicy.IGNORE, False, True
    ),
    g.GroupDropRequested(ID, LOG_ID, "ada", "shop closed", "orders"),
    LossResetRequested(ID, LOG_ID, "ada", "the disks are gone", "orders"),
    ExchangeRequested(ID, LOG_ID, "ada", "to see who answers"),
    ClusterStateRequested(ID, LOG_ID, "ada", "all are here", ClusterState.ACTIVE),
    BaselineChangeRequested(
        ID, LOG_ID, "ada", "n3 burnt", BaselineVerb.REMOVE, ("n3",), accepts_loss=True, version=VIEW
    ),
    HoldRequested(ID, LOG_ID, "ada", "repairs", held=True, harmless=True),
    AutoAdjustRequested(ID, LOG_ID, "ada", "", enabled=True, soft_ms=1_000, hard_ms=60_000),
    WarmRequested(ID, LOG_ID, "ada", "the others will not come back"),
    drains.DrainRequested(ID, LOG_ID, "ada", "n1 goes", "n1", cancelled=True),
    lease_terms.LeaseTermsRequested(ID, LOG_ID, "ada", "a faster Kafka", 10_000, 3_000),
    SchemaChangeRequested(ID, LOG_ID, "ada", "the new shop", STATEMENTS, 30_000),
    ChangeCancellationRequested(ID, LOG_ID, "ada", "too early", 97),
    DeletionsConfirmed(ID, LOG_ID, "n1", "", "n1", -42, (97, 98)),
    *repair_examples.REQUESTS,
    HEARTBEAT,
    m.NodeDied(N1, Incarnation(-42), b"sixteen to show."),
    terms.CoordinatorDied("c1", life=7),
    SINGLE_MAP,
    s.SnapshotChunk(LOG_ID, Position(90), bytes(range(16)), 0, b"\x00\x00\x00\x01\xc0"),
    HEALTH,
    h.HealthHeard("worker-1", LOG_ID, 3, Offset(7_001), at_end=True, passed_over=2),
    *repair_examples.PAGES,
)


class Leader:
    """Stamps sets as a faultless coordinator of one term does; `start` opens the log and the first term."""

    def __init__(self, log_id: bytes = LOG_ID, term: int = 0, chain: bytes = NO_CHAIN, sequence: int = 0) -> None:
        self.log_id = log_id
        self.term = term
        self.chain = chain
        self.sequence = sequence

    @classmethod
    def start(cls) -> tuple["Leader", list[tuple[bytes, bytes]]]:
        """The leader of term 1 of a new log, and the records that made it so."""
        founder = cls()
        records = founder.set(STARTED)
        leader = cls(term=1, chain=founder.chain)
        return leader, records + leader.set(terms.TermStarted(1, "c1", life=7))

    def succeed(self, term: int, instance: str = "c2") -> tuple["Leader", list[tuple[bytes, bytes]]]:
        """The leader of a later term that has read everything of this one, and its first record."""
        leader = Leader(self.log_id, term, self.chain)
        return leader, leader.set(terms.TermStarted(term, instance, life=7))

    def set(self, *events: Decision, inputs: Iterable[InputOffset] = ()) -> list[tuple[bytes, bytes]]:
        """(stamp, value) of each record of one whole set."""
        return self.raw_set(*(CODEC.encode(event) for event in events), inputs=inputs)

    def raw_set(self, *values: bytes, inputs: Iterable[InputOffset] = ()) -> list[tuple[bytes, bytes]]:
        records = []
        for index, value in enumerate(values):
            before = self.chain if self.sequence else NO_CHAIN
            place = (Term(self.term), self.sequence, index, len(values))
            stamp = encode_stamp(Stamp(self.log_id, *place, before, 0, tuple(inputs), "a test"))
            self.chain = chain_after(self.chain, stamp, value)
            self.sequence += 1
            records.append((stamp, value))
        return records


def proposed(name: str, version: int = 1, sequence: int = 1, requester: str = "t") -> md.MetadataUpdateProposed:
    """A decision that leaves a trace in the state."""
    ref = RequestRef(requester, sequence, bytes(8))
    return md.MetadataUpdateProposed(ref, name, Version(version), md.ObjectType(name, {"id": "long"}))
