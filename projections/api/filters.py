"""By what each list can be filtered: one class a list, one field a filter, with what it means.

A filter is the item's field of its name, as text, unless it says otherwise: `Fits` says how it judges an item, HEEDED
that whoever makes the list goes by it already, because he can do so for less.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from topolog.events.codec import DECISIONS
from topolog.events.errors import BadInput
from topolog.projections.api.access.grants import fits
from topolog.projections.cause_words import read_cause
from topolog.projections.pending_resources import PendingKind

TEXT_CHARS_MAX = 2_000
"""Of one filter: each item of a list is held beside it."""

Judge = Callable[[Any, str], bool]


class Fits:
    """How a filter judges an item; None: not at all."""

    def __init__(self, judge: Judge | None) -> None:
        self.judge = judge


HEEDED = Fits(None)


class Filters(BaseModel):
    """None at all: the base of all others."""

    model_config = ConfigDict(extra="forbid")


class Spanned(Filters):
    """Of a list of what has happened: a part of the log. It is what `diff` shows between the same two moments."""

    after: Annotated[
        str | None, Field(description="Only what came later than this moment (position, time, how long ago)."), HEEDED
    ] = None
    until: Annotated[str | None, Field(description="Only what had come by this moment."), HEEDED] = None


def judges(filters: type[Filters], given: Mapping[str, str]) -> list[Callable[[Any], bool]]:
    """What an item must stand, for these filters of such a list; raises BadInput for one that is too long."""
    for name, value in given.items():
        if len(value) > TEXT_CHARS_MAX:
            raise BadInput(f"{name}: a filter has at most {TEXT_CHARS_MAX:,} characters.")
    return [each for name, value in given.items() if (each := _judge(name, filters.model_fields[name], value))]


def _judge(name: str, field: FieldInfo, value: str) -> Callable[[Any], bool] | None:
    said = next((each for each in field.metadata if isinstance(each, Fits)), None)
    if said is None:
        return lambda item: _text(getattr(item, name)) == value
    judge = said.judge
    return None if judge is None else lambda item: judge(item, value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pattern(field: str) -> Fits:
    return Fits(lambda item, value: fits(value, getattr(item, field)))


def _among(*fields: str) -> Fits:
    return Fits(lambda item, value: any(value in (getattr(item, field) or ()) for field in fields))


def _has_attribute(node: Any, value: str) -> bool:
    name, sign, wanted = value.partition("=")
    return name in node.attributes and (not sign or node.attributes[name] == wanted)


def _known_event(event: str | None) -> str | None:
    known = sorted(each.__name__ for each in DECISIONS)
    if event is None or event in known:
        return event
    near = get_close_matches(event, known, n=1)
    raise ValueError(f"there is no such event{f' (did you mean {near[0]}?)' if near else ''}")


_Bool = Literal["true", "false"]
_Event = Annotated[str | None, AfterValidator(_known_event)]
_ONLY = "Only these."
_NAME = "Only names that fit this pattern, as `shop.*`."


class Nodes(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("node")] = None
    standing: Annotated[Literal["MEMBER", "STOPPING", "LEFT"] | None, Field(description=_ONLY)] = None
    kind: Annotated[Literal["SERVER", "CLIENT"] | None, Field(description=_ONLY)] = None
    role: Annotated[
        Literal["MEMBER", "AWAY", "OUTSIDER", "DRAINING", "DRAINED"] | None,
        Field(description="How a server stands to the baseline."),
    ] = None
    health: Annotated[
        Literal["OK", "WARNING", "FENCED", "SILENT", "RELEASED", "UNKNOWN"] | None,
        Field(description="Only these; as of the past nobody has any."),
    ] = None
    lease: Annotated[
        Literal["VALID", "SILENT", "NONE", "OVERDUE"] | None,
        Field(description="Only those whose lease is so; as of the past none is."),
        Fits(lambda node, value: node.lease is not None and node.lease.state == value),
    ] = None
    attribute: Annotated[
        str | None,
        Field(description="Only those that have this attribute, as `rack`, with this value, as `rack=r1`."),
        Fits(_has_attribute),
    ] = None
    capability: Annotated[
        str | None, Field(description="Only those that announce this, as `fencing`."), _among("capabilities")
    ] = None


class Leases(Filters):
    node: Annotated[str | None, Field(description="Only this node's.")] = None
    state: Annotated[Literal["VALID", "SILENT", "NONE", "OVERDUE"] | None, Field(description=_ONLY)] = None


class LeaseHealth(Filters):
    node: Annotated[str | None, Field(description="Only this node's.")] = None
    state: Annotated[
        Literal["OK", "WARNING", "FENCED", "SILENT", "RELEASED", "UNKNOWN"] | None, Field(description=_ONLY)
    ] = None


class SingleMaps(Filters):
    node: Annotated[str | None, Field(description="Only this server's.")] = None
    state: Annotated[Literal["AGREE", "DIFFER", "NONE", "AHEAD", "REFUSED"] | None, Field(description=_ONLY)] = None


class Pending(Filters):
    kind: Annotated[PendingKind | None, Field(description=_ONLY)] = None
    node: Annotated[
        str | None,
        Field(description="Only what waits for this node, among others."),
        Fits(lambda each, value: any(held.node == value for held in each.waits_for)),
    ] = None


class DeadLetters(Filters):
    topic: Annotated[str | None, Field(description="Only those that were meant for this topic.")] = None
    replays: Annotated[str | None, Field(description="Only replays of this letter that died again.")] = None


def _status(each: Any) -> str:
    if each.removing:
        return "REMOVING"
    return "ACCEPTED" if each.accepted_version == each.pending_version else "PENDING"


class Types(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("name")] = None
    status: Annotated[
        Literal["ACCEPTED", "PENDING", "REMOVING"] | None,
        Field(description="ACCEPTED: nothing is pending. PENDING: a version waits. REMOVING: its removal waits."),
        Fits(lambda each, value: _status(each) == value),
    ] = None
    field: Annotated[
        str | None, Field(description="Only those that have a field of this name, accepted."), _among("fields")
    ] = None


class Groups(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("name")] = None
    loss_policy: Annotated[Literal["IGNORE", "READ_WRITE_SAFE", "READ_ONLY_SAFE"] | None, Field(description=_ONLY)] = (
        None
    )
    persistent: Annotated[_Bool | None, Field(description="Only those whose copies outlive their node, or not.")] = None


class Partitions(Filters):
    group: Annotated[str | None, Field(description="Only this group's."), HEEDED] = None
    state: Annotated[
        Literal["OWNING", "RENTING", "SWITCHING", "MOVING", "PAUSED", "LOST"] | None,
        Field(description="Only these; the most urgent thing that can be said of a partition counts."),
        HEEDED,
    ] = None
    node: Annotated[str | None, Field(description="Only partitions of which this node holds a copy."), HEEDED] = None
    primary: Annotated[str | None, Field(description="Only partitions that this node acts for."), HEEDED] = None


class Maps(Filters):
    group: Annotated[str | None, Field(description="Only this group's."), HEEDED] = None
    node: Annotated[str | None, Field(description="Only this node's."), HEEDED] = None
    is_member: Annotated[_Bool | None, Field(description="Only those of members, or of others.")] = None


class Exchanges(Spanned):
    state: Annotated[Literal["OPEN", "COMPLETED"] | None, Field(description=_ONLY), HEEDED] = None
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
        HEEDED,
    ] = None
    subject: Annotated[
        str | None,
        Field(description="Only those that are about this node or this group too."),
        Fits(lambda each, value: any(trigger.subject == value for trigger in each.triggers)),
    ] = None
    awaits: Annotated[
        str | None,
        Field(description="Only those that wait for this node, or went on without it."),
        _among("awaited", "overdue", "unheard"),
    ] = None


class Baselines(Spanned):
    state: Annotated[Literal["CURRENT", "FORMER"] | None, Field(description=_ONLY)] = None
    member: Annotated[str | None, Field(description="Only those in which this node counts."), _among("members")] = None
    cause: Annotated[str | None, Field(description="Only those that were set for this cause, as REQUESTED.")] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None


class Views(Spanned):
    event: Annotated[_Event, Field(description="Only those that this event has made, as NodeJoined.")] = None
    node: Annotated[
        str | None, Field(description="Only those in which this node has joined or left."), _among("joined", "left")
    ] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None


class Branches(Spanned):
    node: Annotated[str | None, Field(description="Only this node's.")] = None
    kinship: Annotated[Literal["AHEAD", "FORKED"] | None, Field(description=_ONLY)] = None


class Databases(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("name")] = None
    state: Annotated[
        Literal["PRE_CREATE", "USING", "PRE_ALTER", "PRE_RENAME", "PRE_DELETE"] | None,
        Field(description="Only these; without it all but what is being created."),
        HEEDED,
    ] = None
    database: Annotated[str | None, Field(description="Only what is of this database."), HEEDED] = None


class Tables(Databases):
    pass


class Grants(Databases):
    principal: Annotated[str | None, Field(description="Only this principal's."), HEEDED] = None


class Changes(Spanned):
    state: Annotated[
        Literal["QUEUED", "PREPARED", "COMMITTED", "ROLLED_BACK"] | None, Field(description=_ONLY), HEEDED
    ] = None
    node: Annotated[
        str | None,
        Field(description="Only those of which this node has not deleted yet what they have closed."),
        HEEDED,
    ] = None
    object: Annotated[
        str | None,
        Field(description="Only those of this database, table, view or grant."),
        Fits(lambda change, value: any(value in (step.name, step.new_name) for step in change.steps)),
    ] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None


_SessionState = Literal["QUEUED", "RUNNING", "SUCCEEDED", "PARTIAL", "FAILED", "ABORTED", "EXPIRED", "SKIPPED"]


class Repairs(Spanned):
    state: Annotated[_SessionState | None, Field(description=_ONLY), HEEDED] = None
    table: Annotated[str | None, Field(description="Only those of this table."), HEEDED] = None


class Sessions(Repairs):
    kind: Annotated[Literal["PREVIEW", "REPAIR"] | None, Field(description=_ONLY), HEEDED] = None
    verdict: Annotated[
        Literal["AGREE", "DIFFER", "REPAIRED", "INCONCLUSIVE"] | None, Field(description=_ONLY), HEEDED
    ] = None
    replica: Annotated[str | None, Field(description="Only those that compare this one."), _among("replicas")] = None
    schedule: Annotated[str | None, Field(description="Only those that this schedule has opened.")] = None
    paused: Annotated[_Bool | None, Field(description="Only those that stand still, or do not.")] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None


class Trees(Filters):
    session: Annotated[str | None, Field(description="Only the steps of this session, however long ago."), HEEDED] = (
        None
    )
    segment: Annotated[int | None, Field(ge=0, description="Only those of this segment."), HEEDED] = None
    kind: Annotated[
        Literal["PREPARE", "LEAVES", "DIGESTS", "SEND", "WRITE"] | None, Field(description=_ONLY), HEEDED
    ] = None
    table: Annotated[str | None, Field(description="Only those of this table.")] = None
    is_over: Annotated[_Bool | None, Field(description="Only those that are over, or are not.")] = None


class Differences(Filters):
    session: Annotated[str | None, Field(description="Only what this session has found."), HEEDED] = None
    kind: Annotated[
        Literal["CHANGED", "MISSING", "EXTRA", "DUPLICATE_KEY"] | None, Field(description=_ONLY), HEEDED
    ] = None
    replica: Annotated[str | None, Field(description="Only rows that this replica lacks or is to get."), HEEDED] = None


class Replicas(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("name")] = None
    table: Annotated[str | None, Field(description="Only those of this table."), HEEDED] = None
    datacenter: Annotated[str | None, Field(description="Only those of this data centre."), HEEDED] = None
    is_writable: Annotated[_Bool | None, Field(description="Only those that can be written, or cannot.")] = None


class Schedules(Filters):
    name: Annotated[str | None, Field(description=_NAME), _pattern("name")] = None
    table: Annotated[str | None, Field(description="Only those of this table."), HEEDED] = None
    paused: Annotated[_Bool | None, Field(description="Only those that stand still, or do not.")] = None


class Decisions(Spanned):
    event: Annotated[_Event, Field(description="Only decisions of this event, as NodeJoined."), HEEDED] = None
    subject: Annotated[str | None, Field(description="Only decisions about this, as `node n3`."), HEEDED] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for."), HEEDED] = None
    term: Annotated[int | None, Field(ge=0, description="Only decisions of this term.")] = None
    request: Annotated[
        str | None,
        Field(description="Only what answers this request, as `cli-4f2a/3`."),
        Fits(lambda each, value: value == read_cause(each.cause).request),
    ] = None
    renewals: Annotated[
        _Bool | None,
        Field(description="Also lease renewals, several a minute; left out unless `true` or asked for by `event`."),
        HEEDED,
    ] = None


class Requests(Spanned):
    status: Annotated[Literal["GRANTED", "REFUSED", "UNCHANGED"] | None, Field(description=_ONLY)] = None
    requester: Annotated[str | None, Field(description="Only this requester's.")] = None
    subject: Annotated[str | None, Field(description="Only requests about this, as `type Customer`.")] = None
    code: Annotated[str | None, Field(description="Only refusals with this code.")] = None
    rule: Annotated[str | None, Field(description="Only refusals by this rule.")] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None


class Topics(Filters):
    is_read: Annotated[_Bool | None, Field(description="Only those that this process reads, or does not.")] = None


class History(Spanned):
    event: Annotated[
        _Event,
        Field(description="Only changes by this event, as NodeJoined."),
        Fits(lambda change, value: value in change.event.split(" + ")),
    ] = None
    actor: Annotated[str | None, Field(description="Only what this actor asked for.")] = None
