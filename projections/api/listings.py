"""Every list of the API, each declared once; its pages, export and OpenAPI are made of this (`list_routes.py`)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec

from topolog.events.exchange import ExchangeRow, HandOverRow
from topolog.events.leases import NodeRow
from topolog.events.object_definition import ObjectKind
from topolog.events.ownership_columns import OwnershipRow
from topolog.projections import (
    baseline_resources,
    baselines,
    changes,
    differences,
    exchanges,
    groups,
    health,
    joins,
    letters,
    object_resources,
    objects,
    partition_resources,
    partitions,
    pending,
    pending_resources,
    queries,
    repair_resources,
    repairs,
    replicas,
    resources,
    sessions,
    single_maps,
    topic_resources,
    topics,
    trees,
    views,
)
from topolog.projections.api import filters
from topolog.projections.api.listing import Listing, ListQuery, number
from topolog.projections.object_resources import SchemaObject
from topolog.projections.store import Reading


def _objects(reading: Reading, asked: ListQuery, kind: ObjectKind) -> Iterable[SchemaObject]:
    return objects.objects(reading, kind, asked.filters, asked.after or "")


def _definitions(name: str, kind: ObjectKind, title: str, filters_: type[filters.Filters]) -> Listing[SchemaObject]:
    return Listing(
        name=name,
        tag="definitions",
        says=f"All {name.replace('-', ' ')}, by name; what is being created only with `state`.",
        item=SchemaObject,
        kind=f"{title}List",
        find=partial(_objects, kind=kind),
        key=lambda each: each.name,
        filters=filters_,
        is_long=True,
        is_lasting=True,
    )


def _newest_first(find: Callable[[Reading, Mapping[str, str], int | None], Iterable[Any]]) -> Any:
    """A list that begins below a position or a number."""
    return lambda reading, asked: find(reading, asked.filters, number(asked.after))


def _partitions(reading: Reading, asked: ListQuery) -> Iterable[partition_resources.Partition]:
    if asked.rows is not None:
        return partitions.touched(reading, asked.filters, asked.rows)
    return partitions.partitions(reading, asked.filters, asked.after)


def _exchanges(reading: Reading, asked: ListQuery) -> Iterable[partition_resources.Exchange]:
    found = exchanges.exchanges(reading, asked.age_ms, asked.filters, number(asked.after))
    if asked.rows is None:
        return found
    oldest = exchanges.oldest_touched(reading, asked.rows)
    return () if oldest is None else takewhile(lambda each: exchanges.key_of(each) >= oldest, found)


def _lasting_of_node(node: resources.Node) -> object:
    """A lease that is renewed again and again is no news; one that is not is, each second."""
    lease = node.lease
    grows = () if lease is None else (lease.state, None if lease.state == "VALID" else (lease.age_ms or 0) // 1000)
    return msgspec.structs.replace(node, lease=None), grows


NODES = Listing(
    name="nodes",
    tag="nodes",
    says="Every node the cluster has known, in the order in which they joined.",
    item=resources.Node,
    find=lambda r, asked: health.nodes(r, asked.age_ms),
    key=lambda each: each.node,
    filters=filters.Nodes,
    lasting=_lasting_of_node,
)
LEASES = Listing(
    name="leases",
    tag="leases",
    says="The leases of all server members, by slot.",
    item=resources.Lease,
    find=lambda r, asked: queries.leases(r, asked.age_ms),
    key=lambda each: each.node,
    filters=filters.Leases,
    shows_present=True,
)
LEASE_HEALTH = Listing(
    name="lease-health",
    tag="leases",
    says="How punctual the heartbeats of each member are, in the order in which they joined. It has no past.",
    item=resources.LeaseHealth,
    find=lambda r, asked: health.lease_health(r, asked.age_ms),
    key=lambda each: each.node,
    filters=filters.LeaseHealth,
    no_past=health.NO_PAST,
    shows_present=True,
)
PENDING = Listing(
    name="pending",
    tag="pending",
    says="Everything that is not over, the worst first: since when, whom it waits for, until when at the latest.",
    item=pending_resources.Pending,
    find=lambda r, asked: pending.pending(r, asked.age_ms),
    key=lambda each: each.name,
    filters=filters.Pending,
)
TYPES = Listing(
    name="types",
    tag="types",
    says="Every type, by name.",
    item=resources.Type,
    find=lambda r, asked: queries.types(r) if asked.rows is None else queries.types_touched(r, asked.rows),
    key=lambda each: each.name,
    filters=filters.Types,
    is_lasting=True,
)
GROUPS = Listing(
    name="groups",
    tag="groups",
    says="Every group, by name.",
    item=resources.Group,
    find=lambda r, _: groups.groups(r),
    key=lambda each: each.name,
    filters=filters.Groups,
    is_lasting=True,
)
PARTITIONS = Listing(
    name="partitions",
    tag="partitions",
    says="Partitions, by group and number: who holds a copy, who acts, what is lost.",
    item=partition_resources.Partition,
    find=_partitions,
    key=lambda each: each.name,
    filters=filters.Partitions,
    kinds=frozenset({OwnershipRow.KIND, NodeRow.KIND}),
    is_long=True,
    is_lasting=True,
)
MAPS = Listing(
    name="maps",
    tag="partitions",
    says="What each node holds of each group, by group and node, as the log has it: copies by state.",
    item=partition_resources.NodeMap,
    find=lambda r, asked: partitions.maps(r, asked.filters, asked.after),
    key=lambda each: each.name,
    filters=filters.Maps,
    is_long=True,
    is_lasting=True,
)
SINGLE_MAPS = Listing(
    name="single-maps",
    tag="exchanges",
    says="What each server says itself that it holds, beside what the log says, in the order in which they joined. It "
    "has no past.",
    item=partition_resources.SingleMap,
    find=lambda r, asked: single_maps.single_maps(r, asked.age_ms, asked.after),
    key=lambda each: each.node,
    filters=filters.SingleMaps,
    no_past=single_maps.NO_PAST,
    shows_present=True,
    is_long=True,
)
EXCHANGES = Listing(
    name="exchanges",
    tag="exchanges",
    says="Exchanges and hand-overs, newest first.",
    item=partition_resources.Exchange,
    find=_exchanges,
    kinds=frozenset({ExchangeRow.KIND, HandOverRow.KIND}),
    key=lambda each: str(exchanges.key_of(each)),
    title=lambda each: each.version,
    filters=filters.Exchanges,
    place=exchanges.key_of,
    is_long=True,
    descends=True,
)
BASELINES = Listing(
    name="baselines",
    tag="baselines",
    says="The baseline in force and all former ones, newest first.",
    item=baseline_resources.Baseline,
    find=lambda r, asked: baselines.baselines(r, number(asked.after)),
    key=lambda each: str(each.number),
    filters=filters.Baselines,
    place=lambda each: each.set_at,
    is_long=True,
    is_lasting=True,
)
VIEWS = Listing(
    name="views",
    tag="views",
    says="Every change of who is there or of what is shared out, newest first.",
    item=baseline_resources.View,
    find=lambda r, asked: views.views(r, number(asked.after)),
    key=lambda each: str(each.position),
    title=lambda each: each.version,
    filters=filters.Views,
    place=lambda each: each.position,
    is_long=True,
    descends=True,
    is_lasting=True,
)
BRANCHES = Listing(
    name="branches",
    tag="baselines",
    says="Histories beside the log's, of nodes whose last try to join was refused for it; newest first.",
    item=baseline_resources.Branch,
    find=lambda r, _: joins.branches(r),
    key=lambda each: each.node,
    kind="BranchList",
    filters=filters.Branches,
    place=lambda each: each.refused_at or 0,
    is_lasting=True,
)
DATABASES = _definitions("databases", ObjectKind.DATABASE, "Database", filters.Databases)
TABLES = _definitions("tables", ObjectKind.TABLE, "Table", filters.Tables)
TABLE_VIEWS = _definitions("table-views", ObjectKind.VIEW, "TableView", filters.Tables)
GRANTS = _definitions("grants", ObjectKind.GRANT, "Grant", filters.Grants)
CHANGES = Listing(
    name="changes",
    tag="definitions",
    says="Changes of databases, tables, views and grants, newest first; all that are open, and the last that are over.",
    item=object_resources.SchemaChange,
    find=lambda r, asked: changes.changes(r, asked.age_ms, asked.filters, number(asked.after)),
    key=lambda each: str(each.number),
    filters=filters.Changes,
    place=lambda each: each.number,
    is_long=True,
    descends=True,
)
SESSIONS = Listing(
    name="sessions",
    tag="anti-entropy",
    says="Sessions that compare or repair the replicas of a table, newest first; all that are open, and the last that "
    "have ended.",
    item=repair_resources.Session,
    find=_newest_first(sessions.sessions),
    key=lambda each: str(each.number),
    filters=filters.Sessions,
    place=lambda each: each.number,
    is_long=True,
    descends=True,
)
TREES = Listing(
    name="trees",
    tag="anti-entropy",
    says="The steps of sessions: who was asked for what, and how trees compared. Sessions newest first.",
    item=repair_resources.Tree,
    find=lambda r, asked: trees.trees(r, asked.filters, asked.after),
    key=lambda each: each.name,
    filters=filters.Trees,
    is_long=True,
)
DIFFERENCES = Listing(
    name="differences",
    tag="anti-entropy",
    says="The keys that differ, of the 20 newest sessions that have found any, 10,000 each at most. It has no past.",
    item=repair_resources.RowDifference,
    find=lambda r, asked: differences.differences(r, asked.filters, asked.after),
    key=lambda each: each.name,
    kind="DifferenceList",
    filters=filters.Differences,
    is_long=True,
    no_past=differences.NO_PAST,
    shows_present=True,
)
REPAIRS = Listing(
    name="repairs",
    tag="anti-entropy",
    says="What sessions that repair have moved, newest first.",
    item=repair_resources.Repair,
    find=_newest_first(repairs.repairs),
    key=lambda each: str(each.number),
    filters=filters.Repairs,
    place=lambda each: each.number,
    is_long=True,
    descends=True,
)
REPLICAS = Listing(
    name="replicas",
    tag="anti-entropy",
    says="The replicas that validators have declared, by name.",
    item=repair_resources.Replica,
    find=lambda r, asked: replicas.replicas(r, asked.filters, asked.after or ""),
    key=lambda each: each.name,
    filters=filters.Replicas,
    is_long=True,
)
SCHEDULES = Listing(
    name="schedules",
    tag="anti-entropy",
    says="Sessions that are opened again and again, by name.",
    item=repair_resources.Schedule,
    find=lambda r, asked: replicas.schedules(r, asked.filters, asked.after or ""),
    key=lambda each: each.name,
    filters=filters.Schedules,
    is_long=True,
)
DECISIONS = Listing(
    name="decisions",
    tag="decisions",
    says="Decisions, newest first; without lease renewals unless they are asked for.",
    item=resources.Decision,
    find=_newest_first(queries.decisions),
    key=lambda each: str(each.position),
    filters=filters.Decisions,
    place=lambda each: each.position,
    is_long=True,
    descends=True,
    is_lasting=True,
)
REQUESTS = Listing(
    name="requests",
    tag="requests",
    says="The outcomes that are kept (the last 64 of each requester), newest first.",
    item=resources.Request,
    find=lambda r, _: queries.outcomes(r),
    key=lambda each: each.id,
    filters=filters.Requests,
    place=lambda each: each.position,
    is_lasting=True,
)
DEAD_LETTERS = Listing(
    name="dead-letters",
    tag="dead letters",
    says="Input that nobody could read, newest first. It has no past.",
    item=resources.DeadLetter,
    find=lambda r, asked: letters.letters(r, number(asked.after)),
    key=lambda each: each.id,
    filters=filters.DeadLetters,
    is_long=True,
    no_past=letters.NO_PAST,
    shows_present=True,
)

TOPICS = Listing(
    name="topics",
    tag="topics",
    says="The topics of the cluster: what each is for and like, and how far this process has read it. They have no "
    "past.",
    item=topic_resources.ClusterTopic,
    kind="TopicList",
    find=lambda r, asked: topics.topics(r, asked.age_ms),
    key=lambda each: each.name,
    filters=filters.Topics,
    no_past=topics.NO_PAST,
    shows_present=True,
)

LISTINGS: Mapping[str, Listing[Any]] = {
    each.name: each
    for each in (
        NODES,
        LEASES,
        LEASE_HEALTH,
        PENDING,
        TYPES,
        GROUPS,
        PARTITIONS,
        MAPS,
        SINGLE_MAPS,
        EXCHANGES,
        BASELINES,
        VIEWS,
        BRANCHES,
        DATABASES,
        TABLES,
        TABLE_VIEWS,
        GRANTS,
        CHANGES,
        SESSIONS,
        TREES,
        DIFFERENCES,
        REPAIRS,
        REPLICAS,
        SCHEDULES,
        DECISIONS,
        REQUESTS,
        DEAD_LETTERS,
        TOPICS,
    )
}

HISTORY: Listing[resources.Change] = Listing(
    name="history",
    tag="",
    says="Changes of one thing, newest first.",
    item=resources.Change,
    kind="History",
    find=lambda _, __: (),
    key=lambda each: str(each.position),
    filters=filters.History,
    place=lambda each: each.position,
    is_lasting=True,
)
"""What each history is a list of; `find` is given with the thing that it is about."""
