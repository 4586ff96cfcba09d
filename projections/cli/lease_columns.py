"""Columns of who is there: nodes, their leases, how punctual their heartbeats are."""

from collections.abc import Mapping

from topolog.projections.cli import resources
from topolog.projections.cli.column import Column, ago_of, field
from topolog.projections.cli.problems import Json


def _heard(lease: object) -> object:
    """When the holder was heard last, as renewals in the log show it."""
    heard = ago_of(lease.get("age_ms")) if isinstance(lease, Mapping) else None
    return f"{heard} ago" if heard else None


def _out_in(lease: object) -> object:
    """How long until others go on without it, unless it is heard again."""
    return ago_of(lease.get("out_in_ms")) if isinstance(lease, Mapping) else None


def least_heard(item: Json) -> object:
    """The member that was heard the longest ago, and what is left of its margin: `n3 (8 s ago, out in 17 s)`."""
    lease = item.get("least_heard")
    if not isinstance(lease, Mapping) or not (heard := _heard(lease)):
        return None
    out = f", out in {left}" if (left := _out_in(lease)) else ""
    return f"{lease.get('node')} ({heard}{out})"


BY_RESOURCE: Mapping[resources.Resource, tuple[Column, ...]] = {
    resources.NODES: (
        field("NODE", "node"),
        field("KIND", "kind"),
        field("STANDING", "standing"),
        field("ROLE", "role"),
        field("ENDPOINT", "endpoint"),
        field("LEASE", "lease.state"),
        Column("HEARD", lambda item: _heard(item.get("lease"))),
        Column("OUT IN", lambda item: _out_in(item.get("lease"))),
        field("JOINED AT", "joined_at"),
        field("LEFT AT", "left_at"),
        field("WHY", "left_reason"),
        field("RENEWED AT", "lease.renewed_at", wide=True),
        field("INCARNATION", "incarnation", wide=True),
        field("SLOT", "slot", wide=True),
        field("ATTRIBUTES", "attributes", wide=True, folds=True),
        field("HEALTH", "health", wide=True),
        field("KINSHIP", "kinship", wide=True),
    ),
    resources.LEASES: (
        field("NODE", "node"),
        field("INCARNATION", "incarnation"),
        field("STATE", "state"),
        field("SEQUENCE", "sequence"),
        field("RENEWED AT", "renewed_at"),
        field("AGE MS", "age_ms"),
        field("FENCED IN MS", "fenced_in_ms"),
        field("OUT IN MS", "out_in_ms"),
        field("SLOT", "slot", wide=True),
    ),
    resources.LEASE_HEALTH: (
        field("NODE", "node"),
        field("STATE", "state"),
        field("MARGIN MS", "window.margin_ms"),
        field("LATE MS", "window.lateness_mean_ms"),
        field("JITTER MS", "window.jitter_ms"),
        field("MISSED", "window.missed"),
        field("STARTS", "window.starts"),
        field("SILENT MS", "silent_ms"),
        field("WORKER HEARD MS AGO", "heard_age_ms"),
        field("LATEST MS", "window.lateness_max_ms", wide=True),
        field("LOST", "window.lost", wide=True),
        field("FENCINGS", "window.fencings", wide=True),
        field("RETURNS", "window.returns", wide=True),
        field("STRAYS", "window.strays", wide=True),
        field("INCARNATION MARGIN MS", "whole.margin_ms", wide=True),
        field("SENTENCE", "sentence", wide=True, folds=True),
    ),
}
