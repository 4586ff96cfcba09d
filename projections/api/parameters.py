"""What can be added to a question; anything else is refused by name, for a typo in a filter must not widen a list."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

LIMIT_MAX = 1_000


class ReadParameters(BaseModel):
    """Which moment is asked about."""

    model_config = ConfigDict(extra="forbid")

    as_of: Annotated[
        str | None,
        Field(
            description="The past: a position (1234), a time (2026-11-21T02:00Z), ms since 1970, or how long ago (15m)."
        ),
    ] = None
    at_least: Annotated[
        str | None, Field(description="A token or position that the answer must know; waits for it up to `wait`.")
    ] = None
    wait: Annotated[str, Field(description="How long `at_least` may wait, as 250ms, 5s.")] = "5s"


class PageParameters(ReadParameters):
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="The most items of one page.")] = 100
    cursor: Annotated[
        str | None,
        Field(description="`next` of the page before. It carries that page's position and filters."),
    ] = None

    @property
    def filters(self) -> dict[str, str]:
        """The filters of this list that were given, by name."""
        given = self.model_dump(exclude_none=True, exclude=set(PageParameters.model_fields))
        return {name: str(value) for name, value in given.items()}


class NodeFilters(PageParameters):
    standing: Annotated[Literal["MEMBER", "STOPPING", "LEFT"] | None, Field(description="Only these.")] = None
    kind: Annotated[Literal["SERVER", "CLIENT"] | None, Field(description="Only these.")] = None


class LeaseFilters(PageParameters):
    node: Annotated[str | None, Field(description="Only this node's.")] = None
    state: Annotated[Literal["VALID", "NONE", "OVERDUE"] | None, Field(description="Only these.")] = None


class LeaseHealthFilters(PageParameters):
    node: Annotated[str | None, Field(description="Only this node's.")] = None
    state: Annotated[
        Literal["OK", "WARNING", "FENCED", "SILENT", "RELEASED", "UNKNOWN"] | None, Field(description="Only these.")
    ] = None


class DeadLetterFilters(PageParameters):
    topic: Annotated[str | None, Field(description="Only those that were meant for this topic.")] = None
    replays: Annotated[str | None, Field(description="Only replays of this letter that died again.")] = None


class TypeFilters(PageParameters):
    status: Annotated[
        Literal["ACCEPTED", "PENDING", "REMOVING"] | None,
        Field(description="ACCEPTED: nothing is pending. PENDING: a version waits. REMOVING: its removal waits."),
    ] = None


class GroupFilters(PageParameters):
    loss_policy: Annotated[
        Literal["IGNORE", "READ_WRITE_SAFE", "READ_ONLY_SAFE"] | None, Field(description="Only these.")
    ] = None


class PartitionFilters(PageParameters):
    group: Annotated[str | None, Field(description="Only this group's.")] = None
    state: Annotated[
        Literal["OWNING", "RENTING", "SWITCHING", "MOVING", "PAUSED", "LOST"] | None,
        Field(description="Only these; the most urgent thing that can be said of a partition counts."),
    ] = None
    node: Annotated[str | None, Field(description="Only partitions of which this node holds a copy.")] = None
    primary: Annotated[str | None, Field(description="Only partitions that this node acts for.")] = None


class MapFilters(PageParameters):
    group: Annotated[str | None, Field(description="Only this group's.")] = None
    node: Annotated[str | None, Field(description="Only this node's.")] = None


class ExchangeFilters(PageParameters):
    state: Annotated[Literal["OPEN", "COMPLETED"] | None, Field(description="Only these.")] = None
    type: Annotated[
        Literal[
            "JOIN",
            "LEAVE",
            "GROUP_CREATED",
            "GROUP_ALTERED",
            "LOSS_RESET",
            "REQUESTED",
            "BASELINE_CHANGED",
            "DRAIN",
            "SWITCH",
        ]
        | None,
        Field(description="Only those that are about such an event too."),
    ] = None


class ObjectFilters(PageParameters):
    state: Annotated[
        Literal["PRE_CREATE", "USING", "PRE_ALTER", "PRE_RENAME", "PRE_DELETE"] | None,
        Field(description="Only these; without it all but what is being created."),
    ] = None
    database: Annotated[str | None, Field(description="Only what is of this database.")] = None
    principal: Annotated[str | None, Field(description="Of grants, only this principal's.")] = None


class ChangeFilters(PageParameters):
    state: Annotated[
        Literal["QUEUED", "PREPARED", "COMMITTED", "ROLLED_BACK"] | None, Field(description="Only these.")
    ] = None
    node: Annotated[
        str | None, Field(description="Only those of which this node has not deleted yet what they have closed.")
    ] = None


_SessionState = Literal["QUEUED", "RUNNING", "SUCCEEDED", "PARTIAL", "FAILED", "ABORTED", "EXPIRED", "SKIPPED"]


class SessionFilters(PageParameters):
    state: Annotated[_SessionState | None, Field(description="Only these.")] = None
    kind: Annotated[Literal["PREVIEW", "REPAIR"] | None, Field(description="Only these.")] = None
    verdict: Annotated[
        Literal["AGREE", "DIFFER", "REPAIRED", "INCONCLUSIVE"] | None, Field(description="Only these.")
    ] = None
    table: Annotated[str | None, Field(description="Only those of this table.")] = None


class RepairFilters(PageParameters):
    state: Annotated[_SessionState | None, Field(description="Only these.")] = None
    table: Annotated[str | None, Field(description="Only those of this table.")] = None


class TreeFilters(PageParameters):
    session: Annotated[str | None, Field(description="Only the steps of this session, however long ago.")] = None
    segment: Annotated[int | None, Field(ge=0, description="Only those of this segment.")] = None
    kind: Annotated[
        Literal["PREPARE", "LEAVES", "DIGESTS", "SEND", "WRITE"] | None, Field(description="Only these.")
    ] = None


class DifferenceFilters(PageParameters):
    session: Annotated[str | None, Field(description="Only what this session has found.")] = None
    kind: Annotated[
        Literal["CHANGED", "MISSING", "EXTRA", "DUPLICATE_KEY"] | None, Field(description="Only these.")
    ] = None
    replica: Annotated[str | None, Field(description="Only rows that this replica lacks or is to get.")] = None


class ReplicaFilters(PageParameters):
    table: Annotated[str | None, Field(description="Only those of this table.")] = None
    datacenter: Annotated[str | None, Field(description="Only those of this data centre.")] = None


class ScheduleFilters(PageParameters):
    table: Annotated[str | None, Field(description="Only those of this table.")] = None


class DecisionFilters(PageParameters):
    event: Annotated[str | None, Field(description="Only decisions of this event, as NodeJoined.")] = None
    subject: Annotated[str | None, Field(description="Only decisions about this, as `node n3`.")] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None
    renewals: Annotated[
        Literal["true", "false"] | None,
        Field(description="Also lease renewals, several a minute; left out unless `true` or asked for by `event`."),
    ] = None


class RequestFilters(PageParameters):
    status: Annotated[Literal["GRANTED", "REFUSED", "UNCHANGED"] | None, Field(description="Only these.")] = None
    requester: Annotated[str | None, Field(description="Only this requester's.")] = None
    subject: Annotated[str | None, Field(description="Only requests about this, as `type Customer`.")] = None
    code: Annotated[str | None, Field(description="Only refusals with this code.")] = None


class ForecastParameters(ReadParameters):
    event: Annotated[Literal["dies", "removed"], Field(description="What the node is imagined to do.")] = "dies"


class WriteParameters(BaseModel):
    """How long to follow a request."""

    model_config = ConfigDict(extra="forbid")

    wait: Annotated[
        Literal["none", "decided", "accepted"],
        Field(description="Answer when the log has the request, when it is decided, when its effect holds everywhere."),
    ] = "decided"
    timeout: Annotated[str, Field(description="How long to wait for that, as 250ms, 10s.")] = "10s"
    dry_run: Annotated[
        Literal["true", "false"], Field(description="`true`: send nothing, and say what would be decided.")
    ] = "false"


Read = Annotated[ReadParameters, Query()]
History = Annotated[PageParameters, Query()]
Nodes = Annotated[NodeFilters, Query()]
Leases = Annotated[LeaseFilters, Query()]
LeaseHealth = Annotated[LeaseHealthFilters, Query()]
DeadLetters = Annotated[DeadLetterFilters, Query()]
Types = Annotated[TypeFilters, Query()]
Groups = Annotated[GroupFilters, Query()]
Partitions = Annotated[PartitionFilters, Query()]
Maps = Annotated[MapFilters, Query()]
Exchanges = Annotated[ExchangeFilters, Query()]
Objects = Annotated[ObjectFilters, Query()]
Changes = Annotated[ChangeFilters, Query()]
Sessions = Annotated[SessionFilters, Query()]
Repairs = Annotated[RepairFilters, Query()]
Trees = Annotated[TreeFilters, Query()]
Differences = Annotated[DifferenceFilters, Query()]
Replicas = Annotated[ReplicaFilters, Query()]
Schedules = Annotated[ScheduleFilters, Query()]
Decisions = Annotated[DecisionFilters, Query()]
Requests = Annotated[RequestFilters, Query()]
Forecast = Annotated[ForecastParameters, Query()]
Write = Annotated[WriteParameters, Query()]
