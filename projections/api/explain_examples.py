"""Examples of what waits, and of a cluster that is not well: n3 is silent, and has not applied a version of a type."""

from topolog.projections.pending_resources import Pending, PendingHolder
from topolog.projections.status_resources import BadEvent, Leader, SilentMember, Status, StoppedPartitions

_HOLDER = PendingHolder(node="n3", since=40, heard_ms=15_200, lease="SILENT", at_most_ms=10_800)
_PROPOSAL = Pending(
    name="proposal/Customer/3",
    kind="PROPOSAL",
    sentence="Version 3 of type Customer is proposed, and not every server has applied it.",
    since=40,
    since_time="2026-11-21T02:00:00.000Z",
    waited_ms=14_200,
    waits_for=(_HOLDER,),
    at_most_ms=10_800,
    ends="in 10 s at the latest",
    about="type Customer",
    next=("topolog explain type Customer", "topolog explain decision 40"),
)
_SILENT = SilentMember(
    node="n3",
    lease="SILENT",
    renewed_at=38,
    renewed_time="2026-11-21T01:59:59.000Z",
    age_ms=15_200,
    fenced_in_ms=4_800,
    out_in_ms=9_800,
    primary_of={"orders": 21},
    awaited_by=("proposal/Customer/3",),
)
_LEADER = Leader(name="c1", term=2, since=30, since_time="2026-11-21T01:40:00.000Z", decided_ms=1_200, silent=False)
_STOPPED = StoppedPartitions(group="carts", state="PAUSED", partitions=3)
_BAD_EVENT = BadEvent(
    position=29,
    time="2026-11-21T01:39:58.000Z",
    event="NodeLeft",
    about="node n4",
    sentence="n4 is out: its lease ran out in silence.",
)
_NEWS = (
    "3 partitions of group carts are paused: neither read nor written.",
    "Member n3 is silent: none of its heartbeats was confirmed for 15 s, it stops serving in 4 s.",
)
EXAMPLES = (
    _HOLDER,
    _PROPOSAL,
    _SILENT,
    _LEADER,
    _STOPPED,
    _BAD_EVENT,
    Status(
        name="main",
        is_well=False,
        sentence=f"{' '.join(_NEWS)} Waiting: proposal/Customer/3 (14 s). 3 members, not renewed any more: n3; 1 type, "
        "pending: Customer; 2 groups; coordinator c1 leads term 2.",
        why=_NEWS,
        leader=_LEADER,
        members=3,
        leases={"VALID": 2, "SILENT": 1},
        silent=(_SILENT,),
        stopped=(_STOPPED,),
        refused_joins=(),
        waits=(_PROPOSAL,),
        waits_in_all=1,
        bad_events=(_BAD_EVENT,),
        looked_through=2_000,
        next=("topolog explain node n3", "topolog get pending"),
    ),
)
