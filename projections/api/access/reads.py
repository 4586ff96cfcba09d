"""What can be asked about access: who one is, what one may, and the audit."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from topolog.events.asked import RequestId
from topolog.events.errors import BadInput, NotFound
from topolog.projections import queries
from topolog.projections.api import contract, filters
from topolog.projections.api.access import resources
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.audit import DENIED, Record
from topolog.projections.api.access.grants import ANY, Asked, Right, covering, fits, least
from topolog.projections.api.access.principals import Principal
from topolog.projections.api.answers import API_VERSION, json_response
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.parameters import PageParameters
from topolog.projections.api.problems import parameter
from topolog.projections.api.served import Everything, Here
from topolog.projections.durations import duration_ms, is_duration
from topolog.projections.moments import iso
from topolog.projections.patience import wall_ms
from topolog.projections.store import Reading

_RESULTS = Literal["DENIED", "BEGUN", "DONE", "REFUSED", "FAILED", "UNKNOWN"]

known = APIRouter(tags=["access"])
router = APIRouter(prefix="/v1/clusters/{cluster}", tags=["access"])


class AuditFilters(filters.Filters):
    who: Annotated[str | None, Field(description="Only this principal's."), filters.HEEDED] = None
    what: Annotated[
        str | None, Field(description="Only what is called so, as `drop-group*`; `*` for anything."), filters.HEEDED
    ] = None
    result: Annotated[_RESULTS | None, Field(description="Only these."), filters.HEEDED] = None
    within: Annotated[
        str | None,
        Field(description="Only of the last hour (`1h`), or from this time on."),
        filters.HEEDED,
    ] = None


class AuditParameters(AuditFilters, PageParameters):
    pass


AUDIT: Listing[resources.AuditRecord] = Listing(
    name="audit",
    tag="access",
    says="What was asked of this process that changes something, and what was turned away, newest first.",
    item=resources.AuditRecord,
    find=lambda _, __: (),
    key=lambda each: each.id,
    filters=AuditFilters,
    no_past="The audit is this process's own: it has no past but its records.",
)
"""`find` is given with the ledger of the process that is asked."""


class PermissionParameters(BaseModel):
    """What is asked about."""

    model_config = ConfigDict(extra="forbid")

    right: Annotated[Right, Field(description="read, read-payload, change, administer or audit.")]
    resource: Annotated[str, Field(description="As in addresses: `groups`.", max_length=100)]
    name: Annotated[str | None, Field(description="One of them; all if it is left out.", max_length=1_000)] = None


def principal_of(request: Request) -> Principal:
    """Who asks, as the door of this process has found out."""
    principal: Principal = request.state.principal
    return principal


@known.get("/v1/whoami", responses=contract.one(resources.WhoAmI))
async def whoami(request: Request, everything: Everything) -> Response:
    """Who the caller is to this process, and what is granted to them."""
    principal = principal_of(request)
    rights = sorted({right.value for grant in principal.grants for right in grant.rights})
    grants = tuple(map(str, principal.grants))
    item = resources.WhoAmI(principal.name, principal.method, grants, tuple(rights), tuple(everything))
    return json_response({"kind": "WhoAmI", "apiVersion": API_VERSION, "item": item})


@router.get("/can-i", responses=contract.one(resources.Permission))
async def can_i(request: Request, here: Here, given: Annotated[PermissionParameters, Query()]) -> Response:
    """Whether the caller may do something, and by which grant, or for want of which."""
    principal = principal_of(request)
    asked = Asked(given.right, here.projector.cluster, given.resource, given.name)
    grants = []
    for grant in principal.grants:
        why_not = grant.shortfall(asked)
        grants.append(resources.GrantVerdict(str(grant), not why_not, why_not))
    by = covering(principal.grants, asked)
    item = resources.Permission(
        asked.right.value,
        asked.resource,
        asked.name,
        by is not None,
        None if by is None else str(by),
        None if by is not None else str(least(asked)),
        tuple(grants),
    )
    return json_response({"kind": "Permission", "apiVersion": API_VERSION, "item": item})


@router.get("/audit", responses=contract.many(resources.AuditRecord))
async def list_audit(request: Request, here: Here, given: Annotated[AuditParameters, Query()]) -> Response:
    """What was asked of this process that changes something, and what was turned away, newest first."""
    return await here.page(request, given, AUDIT, records_of(request, here.projector.cluster, given.within))


def records_of(
    request: Request, cluster: str, within: str | None
) -> Callable[[Reading, ListQuery], Iterator[resources.AuditRecord]]:
    """What finds the records that the caller may see; raises NotFound where no audit is kept."""
    access: Access = request.app.state.access
    if access.ledger is None:
        raise NotFound("This process keeps no audit.", hint="`topolog run projector` does.")
    if within is not None:
        with parameter("within"):
            _since(within, wall_ms())
    ledger = access.ledger
    ledger.tell_repeats()
    sees_all = principal_of(request).may(Asked(Right.AUDIT, ANY, "audit"))

    def find(reading: Reading, asked: ListQuery) -> Iterator[resources.AuditRecord]:
        fitting = _fitting(asked.filters, wall_ms())
        for record in ledger.newest_first():
            if record.time < fitting.since:
                return
            is_ours = record.cluster == cluster or (sees_all and not record.cluster)
            if is_ours and fitting.takes(record):
                yield _with_outcome(reading, record)

    return find


class _Fitting(msgspec.Struct, frozen=True):
    """Which records are wanted; `since` as ISO 8601 in UTC, which sorts as its times do."""

    who: str
    what: str
    result: str
    since: str

    def takes(self, record: Record) -> bool:
        if not fits(self.who, record.principal) or not fits(self.what, record.what):
            return False
        return self.result in ("", record.result)


def _fitting(given: Mapping[str, str], now_ms: int) -> _Fitting:
    since = given.get("within")
    return _Fitting(
        given.get("who", ANY),
        given.get("what", ANY),
        given.get("result", ""),
        "" if since is None else _since(since, now_ms),
    )


def _since(text: str, now_ms: int) -> str:
    if is_duration(text):
        return iso(now_ms - duration_ms(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{text!r} is no time and no duration.", hint="Such as 1h, or 2026-11-21T02:00Z.") from error
    if time.tzinfo is None:
        raise BadInput(f"The time {text!r} does not say in which zone.", hint="Add Z for UTC.")
    return iso(round(time.astimezone(UTC).timestamp() * 1000))


def _with_outcome(reading: Reading, record: Record) -> resources.AuditRecord:
    """The record, with what the log says of its request."""
    outcome, position = "", None
    if record.request_id and record.result != DENIED:
        try:
            row = queries.outcome(reading, RequestId.parse(record.request_id))
        except BadInput:
            row = None
        if row is not None:
            outcome, position = row.status.value, row.position
    given = {field: getattr(record, field) for field in resources.AuditRecord.__struct_fields__}
    return resources.AuditRecord(**{**given, "outcome": outcome, "position": position})
