"""One filled-in example of every record of anti-entropy, in the order of the codec."""

from topolog.events import repair as r
from topolog.events import repair_definition as rd
from topolog.events import repair_requests as rq
from topolog.events import repair_tasks as rt
from topolog.events import replica as rp
from topolog.events import replicas as rs
from topolog.events import schedules as sc
from topolog.events import sessions as ss
from topolog.events import token_range as tr
from topolog.events import tree_pages as tp
from topolog.events import tree_spec as ts
from topolog.events.asked import RequestId, RequestRef
from topolog.events.codec import Record
from topolog.events.decision import Decision
from topolog.events.ids import Position

_LOG_ID = bytes(range(16))
_REF = RequestRef("n1-0badcafe", 7, b"\x01\x02\x03\x04\x05\x06\x07\x08")
_ID = RequestId("v1-0badcafe", 7)
_SESSION = Position(97)

RANGES = (tr.TokenRange(0, 0x4000_0000), tr.TokenRange(0x8000_0000, tr.RING))
COLUMNS = (ts.Column("id", "long"), ts.Column("größe", "decimal(10,2)"), ts.Column("gone", "boolean"))
SPEC = ts.TreeSpec(
    table="orders",
    columns=COLUMNS,
    key=("id",),
    bits=12,
    strength=ts.Strength.STRONG,
    mode=ts.TokenMode.ORDERED,
    boundaries=("100", "200"),
    version_column="changed_at",
    tombstone_column="gone",
)
REPLICA = rp.ReplicaDefinition(
    table="orders",
    name="R1",
    columns=COLUMNS,
    key=("id",),
    datacenter="ams",
    ranges=RANGES,
    rows=1_000_000,
    row_bytes=68,
    boundaries=("100", "200"),
    gives_cuts=True,
    is_writable=False,
)
DEFINITION = rd.SessionDefinition(
    table="orders",
    kind=rd.SessionKind.REPAIR,
    policy=rd.Policy.UNION,
    source="R1",
    version_column="changed_at",
    tombstone_column="gone",
    grace_ms=864_000_000,
    reviewed_at_ms=1_700_000_000_000,
    deletes_extra=True,
    replicas=("R1", "R2"),
    node="R2",
    initiator="R1",
    datacenter="ams",
    ranges=RANGES,
    columns=("id", "größe"),
    ignored=("note",),
    strength=ts.Strength.STRONG,
    mode=ts.TokenMode.ORDERED,
    bits=12,
    order=rd.Order.DATACENTER_PARALLEL,
    rendezvous=rd.Rendezvous.EARLY,
    segments=4,
    parallel=2,
    intensity=50,
    retries=3,
    halves=True,
    recheck=False,
    allow_partial=True,
    queues=True,
    preview=Position(90),
    tokens="9b1f0f5f1f0e4a55",
    prepare_ms=30_000,
    stall_ms=60_000,
    deadline_ms=3_600_000,
)
TASK = rt.TaskId(_SESSION, 2, 3, "R1", 1)
STEP = rt.Step(3, rt.TaskKind.LEAVES, rt.Purpose.RECHECK, RANGES, 12, 2)
RESULT = rt.Result(rp.Cut("v12", bytes(range(8))), bytes(range(32)), 2, 1_000, 68_000, 1, 450)
PAIR = rt.Pair("R1", "R2", RANGES[:1], 3, 4_000, 700, 256)
FINDINGS = rt.Findings(
    rows=9,
    ranges=RANGES[:1],
    kinds={"CHANGED": 7, "MISSING": 2},
    copies=(rt.Copy("R1", "R2", 8, 1),),
    unresolved={"CONFLICT": 1},
    pages=1,
    digest=bytes(range(32)),
    gone=4,
    purged=3,
)
PLANS = (r.SegmentPlan(RANGES[:1], ("R1", "R2")), r.SegmentPlan(RANGES[1:], ("R2", "R1")))

DECISIONS: tuple[Decision, ...] = (
    rs.ReplicaDeclared(_REF, REPLICA, 7),
    rs.ReplicaWithdrawn(_REF, "orders", "R1"),
    r.SessionQueued(_REF, DEFINITION),
    r.SessionOpened(_REF, Position(97), DEFINITION, SPEC, PLANS, "nightly"),
    r.StepStarted(_SESSION, 2, STEP, ("R3",)),
    r.TaskAssigned(TASK, 1_000_000),
    r.TaskProgressed(_REF, TASK, 500, 34_000),
    r.TaskCompleted(_REF, TASK, RESULT),
    r.TaskFailed(_REF, TASK, "CORRUPT", "part-7.parquet cannot be read", 7),
    r.PairCompared(_REF, _SESSION, 2, 3, PAIR),
    r.RowsCompared(_REF, _SESSION, 2, 5, FINDINGS),
    r.SegmentHalved(_SESSION, 2, PLANS),
    r.SegmentEnded(_SESSION, 2, ss.SegmentStatus.FAILED, "TREE_TIMEOUT", "R2 has not come further", RANGES[1:]),
    r.SessionAltered(_REF, _SESSION, paused=True, intensity=50, parallel=2),
    r.SessionEnded(
        _REF, _SESSION, ss.SessionStatus.PARTIAL, "UNSYNCED", "1 of 4 segments", RANGES[:1], RANGES[1:], RANGES[:1]
    ),
    r.AbortGranted(_REF, (Position(97), Position(98))),
    sc.ScheduleSet(_REF, "nightly", DEFINITION, 86_400_000, paused=True),
    sc.ScheduleDropped(_REF, "nightly"),
    sc.SchedulePostponed("nightly", "REPLICA_DOWN", "R2 is not there", 60_000),
)

REQUESTS: tuple[Record, ...] = (
    rq.ReplicaDeclarationRequested(_ID, _LOG_ID, "v1", "", REPLICA, 7),
    rq.ReplicaWithdrawalRequested(_ID, _LOG_ID, "ada", "its disk is sold", "orders", "R1", 7),
    rq.SessionRequested(_ID, _LOG_ID, "ada", "after the outage", DEFINITION),
    rq.SessionAlterationRequested(_ID, _LOG_ID, "ada", "rush hour", _SESSION, True, 50, 2),
    rq.SessionAbortRequested(_ID, _LOG_ID, "ada", "wrong table", _SESSION),
    rq.TaskReported(_ID, _LOG_ID, "v1", "", TASK, 7, 1_000, 68_000, "", "", RESULT),
    rq.ComparisonReported(_ID, _LOG_ID, "rendezvous", "", _SESSION, 2, 3, (TASK,), PAIR),
    rq.FindingsReported(_ID, _LOG_ID, "rendezvous", "", _SESSION, 2, 5, (TASK,), FINDINGS),
    rq.ScheduleRequested(_ID, _LOG_ID, "ada", "each night", "nightly", DEFINITION, 86_400_000, paused=False),
    rq.ScheduleDropRequested(_ID, _LOG_ID, "ada", "", "nightly"),
)

PAGES: tuple[Record, ...] = (tp.TreePage(TASK, 7, SPEC.id, tp.PageKind.LEAVES, 0, True, b"\x00\x01\x02"),)
