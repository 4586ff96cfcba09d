"""What the API says of access: who one is, what one may, and what was done."""

from typing import Any

import msgspec


class WhoAmI(msgspec.Struct, frozen=True):
    """The caller as this process knows them. `method`: open, anonymous, token, oidc or proxy."""

    name: str
    method: str
    grants: tuple[str, ...]
    rights: tuple[str, ...]
    clusters: tuple[str, ...]


class GrantVerdict(msgspec.Struct, frozen=True):
    """One grant of the caller against a question; `why_not` is empty if it allows it."""

    grant: str
    allows: bool
    why_not: str = ""


class Permission(msgspec.Struct, frozen=True):
    """Whether the caller may: by which grant, or which smallest grant is missing."""

    right: str
    resource: str
    name: str | None
    allowed: bool
    by: str | None
    missing: str | None
    grants: tuple[GrantVerdict, ...]


class AuditRecord(msgspec.Struct, frozen=True):
    """One attempt, newest first. `result`: DENIED before any route saw it; BEGUN if its end is not known; DONE; REFUSED
    by the cluster; FAILED; UNKNOWN while nobody knows. `outcome` and `position` are the log's."""

    id: str
    time: str
    principal: str
    method: str
    client: str
    agent: str
    what: str
    result: str
    status: int
    code: str
    detail: str
    dry_run: bool
    reason: str
    parameters: dict[str, Any]
    request_id: str
    trace_id: str
    count: int
    outcome: str
    position: int | None


WHO_AM_I = WhoAmI(
    name="ci",
    method="token",
    grants=("operator@main:groups/orders*", "viewer@main"),
    rights=("change", "read", "read-payload"),
    clusters=("main",),
)
PERMISSION = Permission(
    right="change",
    resource="groups",
    name="orders",
    allowed=True,
    by="operator@main:groups/orders*",
    missing=None,
    grants=(
        GrantVerdict("operator@main:groups/orders*", allows=True),
        GrantVerdict("viewer@main", allows=False, why_not="viewer has not the right change"),
    ),
)
AUDIT_RECORD = AuditRecord(
    id="0d9c3f6e1b7a4f0e8c5d2a1b3e4f5a6b",
    time="2026-11-21T02:00:00.000Z",
    principal="ann",
    method="oidc",
    client="10.0.0.17",
    agent="topolog/0.9",
    what="drop-group groups/orders",
    result="DONE",
    status=200,
    code="",
    detail="",
    dry_run=False,
    reason="the shop is closed",
    parameters={"wait": "decided", "body": {"kind": "drop-group", "name": "orders"}},
    request_id="api-482f49550d/3",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    count=1,
    outcome="GRANTED",
    position=40,
)
EXAMPLES = (WHO_AM_I, PERMISSION, AUDIT_RECORD)
