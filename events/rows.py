"""Every kind of row there is, and a digest of their shapes: what stores and snapshots keep of a state."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from topolog.events.awaited import UnheardRow
from topolog.events.baseline import AutoAdjustRow, BaselineRow, ClusterStateRow, FormerBaselineRow
from topolog.events.claims import ClaimsRow, LineRow, UsersRow
from topolog.events.drains import DrainRow
from topolog.events.exchange import ExchangeRow, HandOverRow, QueueRow
from topolog.events.forgotten import ForgottenRow
from topolog.events.groups import GroupRow
from topolog.events.leases import LeaseRow, NodeRow
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import FloorRow, ProposalRow, RemovalRow, TypeRow
from topolog.events.objects import ChangeRow, ClosedRow, ObjectRow
from topolog.events.ownership import RosterRow
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.replicas import ReplicaRow
from topolog.events.requests import LastGrantedRow, OutcomeRow, RequesterRow
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SegmentRow, SessionRow
from topolog.events.snapshots import SnapshotRow
from topolog.events.state import Row
from topolog.events.terms import ClusterRow
from topolog.events.views import DiskRow, PointsRow, ViewRow
from topolog.events.voiding import VoidedRow

ROWS: tuple[type[Row], ...] = (
    ClusterRow,
    NodeRow,
    LeaseRow,
    WaitingJoinRow,
    TypeRow,
    ProposalRow,
    RemovalRow,
    FloorRow,
    GroupRow,
    RosterRow,
    OwnershipRow,
    QueueRow,
    ExchangeRow,
    UnheardRow,
    HandOverRow,
    ClusterStateRow,
    BaselineRow,
    FormerBaselineRow,
    AutoAdjustRow,
    DrainRow,
    ObjectRow,
    ChangeRow,
    ClaimsRow,
    LineRow,
    UsersRow,
    ClosedRow,
    ReplicaRow,
    SessionRow,
    SegmentRow,
    ScheduleRow,
    ViewRow,
    PointsRow,
    DiskRow,
    OutcomeRow,
    RequesterRow,
    ForgottenRow,
    LastGrantedRow,
    SnapshotRow,
    VoidedRow,
)
"""A test compares it with what the events define."""


def shape_of(types: Iterable[type]) -> str:
    """A digest (12 hex digits) of every field of these types, texts for people left out."""
    schemas = msgspec.json.schema_components(list(types))
    return hashlib.blake2b(repr(_without_texts(schemas)).encode(), digest_size=6).hexdigest()


@cache
def row_format() -> str:
    """The shape of all rows: bytes of rows are read only by a version that has the same."""
    return shape_of(ROWS)


def _without_texts(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _without_texts(value) for key, value in schema.items() if key != "description"}
    if isinstance(schema, list | tuple):
        return [_without_texts(each) for each in schema]
    return schema
