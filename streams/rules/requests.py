"""What any request leads to: each protocol's rules decide about its own (K18).

The coordinator decides by this, and whoever wants to know what would happen asks the same: a dry run.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.baseline_requests import (
    AutoAdjustRequested,
    BaselineChangeRequested,
    ClusterStateRequested,
    HoldRequested,
    WarmRequested,
)
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.drains import DrainRequested
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested
from topolog.events.ids import Position
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.levels import LevelRaiseRequested
from topolog.events.membership import MembershipRequest
from topolog.events.metadata import TypeRemovalRequested, UpdateRequested
from topolog.events.object_requests import ChangeCancellationRequested, DeletionsConfirmed, SchemaChangeRequested
from topolog.events.proof import Life
from topolog.events.repair_requests import RepairRequest
from topolog.events.state import State
from topolog.streams.rules import (
    allowed,
    baseline,
    cluster_state,
    drains,
    exchange,
    groups,
    lease_terms,
    levels,
    membership,
    metadata,
    objects,
    repair,
)


class Circumstances(msgspec.Struct, frozen=True):
    """What is known beside the state: when the broker took the request, the last position that is decided, whose death
    certificates have been heard, and the newest feature level that the leader's build knows."""

    appended_at_ms: int
    end: Position
    dead: Collection[Life] = ()
    newest_level: int = CODEC.newest_level


def decide(state: State, request: Request, ref: RequestRef, given: Circumstances) -> list[Decision]:
    """The decisions that answer the request; raises Refused and changes nothing, also where the state of the cluster
    forbids what the rules would decide."""
    decided = _decided(state, request, ref, given)
    allowed.check(state, decided)
    return decided


def _decided(state: State, request: Request, ref: RequestRef, given: Circumstances) -> list[Decision]:
    if isinstance(request, MembershipRequest):
        return membership.decide(
            state, request, ref, given.appended_at_ms, given.dead, end=given.end, joins=metadata.declare
        )
    if isinstance(request, LevelRaiseRequested):
        return levels.decide(state, request, ref, given.newest_level)
    if isinstance(request, RepairRequest):
        return repair.decide(state, request, ref, given.end, given.appended_at_ms)
    return _RULES[type(request)](state, request, ref)


_RULES: Mapping[type[Request], Callable[[State, Any, RequestRef], list[Decision]]] = {
    UpdateRequested: metadata.decide,
    TypeRemovalRequested: metadata.decide,
    GroupCreationRequested: groups.decide,
    GroupAlterationRequested: groups.decide,
    GroupDropRequested: groups.decide,
    LossResetRequested: exchange.decide,
    ExchangeRequested: exchange.decide,
    ClusterStateRequested: cluster_state.decide,
    HoldRequested: cluster_state.decide,
    WarmRequested: cluster_state.decide,
    BaselineChangeRequested: baseline.decide,
    AutoAdjustRequested: baseline.decide,
    DrainRequested: drains.decide,
    LeaseTermsRequested: lease_terms.decide,
    SchemaChangeRequested: objects.decide,
    ChangeCancellationRequested: objects.decide,
    DeletionsConfirmed: objects.decide,
}
