"""One example of each resource, as /openapi.json shows it, which takes its schemas from here: Customer, three nodes."""

from collections.abc import Mapping

import msgspec

from topolog.projections.resources import (
    AsOf,
    Awaited,
    Cause,
    Change,
    Cluster,
    ClusterRef,
    Decision,
    Explanation,
    Lease,
    Node,
    Outcome,
    Request,
    Type,
    Waiting,
)

_LOG_ID = "5f0c2f1e7d9b4c3a8e6d1b2a3c4d5e6f"
_TIME = "2026-11-21T02:00:00.000Z"
_AS_OF = AsOf(position=42, time=_TIME, token=f"{_LOG_ID}.42", age_ms=0)
_LEASE = Lease(
    node="n1", incarnation=7, slot=0, sequence=118, renewed_at=41, renewed_time=_TIME, age_ms=850, state="VALID"
)
_CAUSE = Cause(
    position=40,
    event="MetadataUpdateProposed",
    cause="requests@17 cli-4f2a/3",
    actor="ann",
    reason="the shop stores addresses",
    time=_TIME,
)
_ALL: tuple[msgspec.Struct, ...] = (
    _AS_OF,
    ClusterRef(name="main", log_id=_LOG_ID),
    Cluster(
        name="main",
        log_id=_LOG_ID,
        sentence="3 members, all leases valid; 1 type, pending: Customer; coordinator c1 leads term 2.",
        term=2,
        coordinator="c1",
        led_since=21,
        topology_version="3.0",
        fence_ms=20_000,
        margin_ms=5_000,
        heartbeat_ms=1_000,
        proceed_ms=25_000,
        members=3,
        servers=3,
        nodes=4,
        types=1,
        pending_types=1,
        pending_proposals=1,
        waiting_joins=0,
        state_hash="9b1f0f5f1f0e4a55a5c1f6f1d2c3b4a5",
        chain="1f0e4a55a5c1f6f1d2c3b4a59b1f0f5f",
        ignored_records={"OLD_TERM": 2},
    ),
    _LEASE,
    Node(
        node="n1",
        order=1,
        kind="SERVER",
        standing="MEMBER",
        incarnation=7,
        slot=0,
        endpoint="10.0.0.1:7000",
        attributes={"rack": "r1"},
        capabilities=("fencing",),
        joined_at=3,
        stopped_at=None,
        left_at=None,
        left_reason=None,
        lease=_LEASE,
    ),
    Type(
        name="Customer",
        type_id=670819326,
        accepted_version=1,
        pending_version=2,
        removing=False,
        fields={"id": "long"},
        affinity_key="id",
        is_enum=False,
        enum={},
        schemas={},
        pending={"name": "Customer", "fields": {"id": "long", "email": "String"}},
        waiting=(Waiting(version=2, position=40, time=_TIME, request="cli-4f2a/3"),),
        proposed_at=40,
        accepted_at=12,
        evidence={"applied": ("n1", "n2", "n3"), "left": (), "presumed_fenced": ()},
    ),
    Decision(
        position=40,
        time=_TIME,
        event="MetadataUpdateProposed",
        subject="type Customer",
        term=2,
        sequence=19,
        set_end=40,
        cause="requests@17 cli-4f2a/3",
        actor="ann",
        reason="the shop stores addresses",
        recorded_at=_TIME,
        content={"type_name": "Customer", "version": 2},
    ),
    Request(
        id="cli-4f2a/3",
        requester="cli-4f2a",
        sequence=3,
        subject="type Customer",
        status="GRANTED",
        position=40,
        time=_TIME,
        version=2,
        code="",
        rule="",
        message="",
        facts={},
        actor="ann",
        reason="the shop stores addresses",
    ),
    Outcome(
        id="cli-4f2a/3",
        subject="type Customer",
        status="GRANTED",
        accepted=True,
        version=2,
        position=40,
        token=f"{_LOG_ID}.42",
    ),
    Change(
        position=40,
        time=_TIME,
        event="MetadataUpdateProposed",
        actor="ann",
        reason="the shop stores addresses",
        cause="requests@17 cli-4f2a/3",
        changes={"pending_version": (1, 2), "pending.fields.email": (None, "String")},
    ),
    _CAUSE,
    Explanation(
        sentence="Type Customer: version 1 is accepted since position 12, version 2, proposed at position 40, is "
        "pending; asked, not all have answered: n3.",
        facts={
            "waits at most": "25000 ms (proceed_ms) after position 40, of which 24150 ms are left",
            "version 1": "accepted at position 12: applied by n1, n2, n3",
        },
        causes=(_CAUSE,),
        waiting_for=(Awaited(node="n3", since=40, at_most_ms=24_150),),
    ),
)

EXAMPLES: Mapping[type[msgspec.Struct], msgspec.Struct] = {type(example): example for example in _ALL}
