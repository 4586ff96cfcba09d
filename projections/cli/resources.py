"""What can be asked about: the resources, the names they go by, and a guess at what a mistyped name meant."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from topolog.events.errors import BadInput
from topolog.projections.cli.problems import Json


@dataclass(frozen=True)
class Resource:
    """One kind of row. `key` is the field that names an item; `has_past`: its rows keep a history.

    `filters`: options by which its list is narrowed; `segments`: into how many a name is cut at `/`; `unnamed`: what
    is meant where one thing is asked for and not named.
    """

    singular: str
    plural: str
    short: str
    key: str
    has_past: bool = False
    filters: tuple[str, ...] = ()
    segments: int = 1
    unnamed: str | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        return self.singular, self.plural, self.short

    @property
    def usual(self) -> str:
        """The name it is called by where all of its rows are meant: there is one cluster, and many nodes."""
        return self.singular if self is CLUSTER else self.plural

    def path(self, name: str | None = None) -> tuple[str, ...]:
        """The segments of its address under the cluster's."""
        if name is None or self is CLUSTER:
            return (self.usual,)
        if self is REQUESTS:
            return (self.plural, *name.rsplit("/", 1))
        if self is JOINS:
            return (NODES.plural, name, self.singular)
        return (self.plural, *name.split("/", self.segments - 1))

    def name_of(self, item: Json) -> str:
        """The item's name, as `get` takes it."""
        if self is REQUESTS:
            return f"{item.get('requester', '?')}/{item.get('sequence', '?')}"
        return str(item.get(self.key, "?"))

    def label(self, item: Json) -> str:
        """The item as `-o name` prints it: `type/Customer`."""
        return f"{self.singular}/{self.name_of(item)}"


CLUSTER = Resource("cluster", "clusters", "cl", "name")
NODES = Resource("node", "nodes", "no", "node", has_past=True)
LEASES = Resource("lease", "leases", "le", "node", filters=("state", "node"))
LEASE_HEALTH = Resource("lease-health", "lease-health", "lh", "node", filters=("state", "node"))
TYPES = Resource("type", "types", "ty", "name", has_past=True)
GROUPS = Resource("group", "groups", "gr", "name", has_past=True)
PARTITIONS = Resource(
    "partition", "partitions", "pa", "name", has_past=True, filters=("group", "state", "node", "primary"), segments=2
)
MAPS = Resource("map", "maps", "ma", "name", filters=("group", "node"), segments=2)
SINGLE_MAPS = Resource("single-map", "single-maps", "sm", "node", filters=("state", "node"))
"""What servers say themselves that they hold; a map is what one holds of a group as the log has it."""
EXCHANGES = Resource(
    "exchange", "exchanges", "ex", "version", has_past=True, filters=("state", "type"), unnamed="newest"
)
BASELINES = Resource("baseline", "baselines", "bl", "number", has_past=True, unnamed="current")
VIEWS = Resource("view", "views", "vi", "version", has_past=True, unnamed="newest")
JOINS = Resource("join", "joins", "jo", "node")
"""What would become of a node that joined: it can be explained, and is nowhere listed."""
DATABASES = Resource("database", "databases", "db", "name", has_past=True, filters=("state",))
TABLES = Resource("table", "tables", "ta", "name", has_past=True, filters=("state", "database"))
TABLE_VIEWS = Resource("table-view", "table-views", "tv", "name", has_past=True, filters=("state", "database"))
"""Views of tables; what is called a view without more is one of the cluster."""
DROPPED_VIEWS = replace(TABLE_VIEWS, singular="view", plural="views", short="vi")
"""The same where no view of the cluster can be meant."""
GRANTS = Resource("grant", "grants", "gn", "name", has_past=True, filters=("state", "database", "principal"))
CHANGES = Resource("change", "changes", "ch", "number", has_past=True, filters=("state", "node"))
SESSIONS = Resource("session", "sessions", "se", "number", has_past=True, filters=("state", "kind", "verdict", "table"))
TREES = Resource("tree", "trees", "tr", "name", filters=("session", "kind"), segments=3)
DIFFERENCES = Resource("difference", "differences", "di", "name", filters=("session", "kind", "replica"), segments=3)
REPAIRS = Resource("repair", "repairs", "rp", "number", filters=("state", "table"))
REPLICAS = Resource("replica", "replicas", "rl", "name", has_past=True, filters=("table", "datacenter"))
SCHEDULES = Resource("schedule", "schedules", "sc", "name", has_past=True, filters=("table",))
DECISIONS = Resource("decision", "decisions", "de", "position")
REQUESTS = Resource("request", "requests", "re", "id")
DEAD_LETTERS = Resource("dead-letter", "dead-letters", "dl", "id")
AUDIT = Resource("audit", "audit", "au", "id")
"""What was asked of the API that changes something, and what it turned away; a list and nothing else."""
TOPICS = Resource("topic", "topics", "to", "name")
"""How far the process that answers reads them."""
PROJECTIONS = Resource("projection", "projections", "pr", "name")
"""The stores of the process that answers; `topolog projection` does something about them."""
BRANCHES = Resource("branch", "branches", "br", "node")
"""Histories beside the log's, of nodes that were refused for them; a list and nothing else."""
PENDING = Resource("pending", "pending", "pe", "name", filters=("kind", "node"), segments=2)
RESOURCES = (
    CLUSTER,
    PENDING,
    NODES,
    LEASES,
    LEASE_HEALTH,
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
    PROJECTIONS,
    AUDIT,
)
PAST_MISSING = (LEASE_HEALTH, SINGLE_MAPS, DIFFERENCES, DEAD_LETTERS, TOPICS, PROJECTIONS, AUDIT)
"""What cannot be asked for as of a moment; it is not of the log alone."""
PRESENT = (LEASES, LEASE_HEALTH, SINGLE_MAPS, DIFFERENCES, DEAD_LETTERS, TOPICS)
"""Time, or what is not in the log, changes these too: a watch of them has no tokens, and begins anew each time."""
UNWATCHED = (PROJECTIONS, AUDIT)
LISTS_ALONE = (BRANCHES, AUDIT)
"""The API has the list of these and no address for one."""
REPLAYABLE = (DEAD_LETTERS,)
REMOVABLE = (TYPES, NODES)
CREATABLE = (GROUPS,)
OBJECTS = (DATABASES, TABLES, TABLE_VIEWS, GRANTS)
DROPPABLE = (GROUPS, DATABASES, TABLES, DROPPED_VIEWS, GRANTS)
RENAMABLE = (TABLES, DROPPED_VIEWS)
CANCELLABLE = (CHANGES,)
WITH_HISTORY = (
    CLUSTER,
    NODES,
    TYPES,
    GROUPS,
    PARTITIONS,
    EXCHANGES,
    BASELINES,
    VIEWS,
    *OBJECTS,
    CHANGES,
    SESSIONS,
    REPLICAS,
    SCHEDULES,
    REQUESTS,
)
EXPLAINED = (
    CLUSTER,
    NODES,
    LEASES,
    LEASE_HEALTH,
    TYPES,
    GROUPS,
    PARTITIONS,
    MAPS,
    SINGLE_MAPS,
    EXCHANGES,
    BASELINES,
    VIEWS,
    JOINS,
    *OBJECTS,
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
)
AWAITED = tuple(
    each
    for each in RESOURCES
    if each not in (MAPS, SINGLE_MAPS, TREES, DIFFERENCES, DECISIONS, DEAD_LETTERS, PROJECTIONS, *LISTS_ALONE)
)


def find(text: str, among: Iterable[Resource] = RESOURCES) -> Resource:
    """The resource that goes by this name; BadInput with the nearest name and the list of all for any other."""
    known = {name: resource for resource in among for name in resource.names}
    found = known.get(text.lower())
    if found:
        return found
    near = get_close_matches(text.lower(), known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    listed = ", ".join(dict.fromkeys(f"{resource.usual} ({resource.short})" for resource in known.values()))
    raise BadInput(f"There is no resource {text!r} here.", hint=f"{guess}There are: {listed}.")


def find_item(text: str, name: str | None, among: Iterable[Resource] = RESOURCES) -> tuple[Resource, str | None]:
    """Resource and name from `RESOURCE NAME` or `RESOURCE/NAME`, the form that `-o name` prints; what has a number may
    come in both at once.

    BadInput for a name that none of them can have.
    """
    if name is None and "/" in text:
        text, name = text.split("/", 1)
    resource = find(text, among)
    if name is not None and resource in (CHANGES, SESSIONS, REPAIRS):
        name = name.removeprefix(f"{resource.singular}/")
    if name is not None:
        _check_name(resource, name)
    return resource, name


def _check_name(resource: Resource, name: str) -> None:
    """Refuse here what the API would look for under another address than was meant."""
    if not name.strip():
        raise BadInput(f"An empty name names no {resource.singular}.", hint=_lists_them(resource))
    if resource is REQUESTS and "/" not in name:
        raise BadInput(
            f"{name!r} is no request id.", hint="One looks like cli-4f2a/3; `topolog get requests` has them."
        )
    if resource is DECISIONS and not (name.isascii() and name.isdecimal()):
        raise BadInput(f"{name!r} is no position.", hint="A decision is named by its position, a number from 0.")
    if resource in (CHANGES, SESSIONS, REPAIRS) and not (name.isascii() and name.isdecimal()):
        what = "change" if resource is CHANGES else "session"
        raise BadInput(f"{name!r} is no number of a {what}.", hint=f"One looks like 47; {_lists_them(resource)}")
    if resource in (TREES, DIFFERENCES) and not re.fullmatch(r"\d+/\d+/\d+", name, re.ASCII):
        raise BadInput(f"{name!r} is no {resource.singular}.", hint=f"One looks like 47/0/2; {_lists_them(resource)}")
    if resource is PARTITIONS and not re.fullmatch(r"[^/]+/\d+", name, re.ASCII):
        raise BadInput(f"{name!r} is no partition.", hint=f"One looks like orders/17; {_lists_them(resource)}")
    if resource is MAPS and not all(name.partition("/")):
        raise BadInput(f"{name!r} is no map.", hint=f"One looks like orders/n1; {_lists_them(resource)}")
    if resource is PENDING and not all(name.partition("/")):
        raise BadInput(f"{name!r} names nothing that waits.", hint=f"One looks like join/n3; {_lists_them(resource)}")
    if resource not in (PENDING, REQUESTS, TYPES, PARTITIONS, MAPS, TREES, DIFFERENCES) and "/" in name:
        raise BadInput(f"{name!r} names no {resource.singular}: none has a '/'.", hint=_lists_them(resource))


def _lists_them(resource: Resource) -> str:
    if resource is JOINS:
        resource = NODES
    if resource is DROPPED_VIEWS:
        resource = TABLE_VIEWS
    if resource is CLUSTER:
        return "`topolog get cluster` has the one that is asked."
    return f"`topolog get {resource.plural} -o name` lists them."


def check_request_id(text: str | None) -> None:
    """BadInput for an id that no request can have; that it is ASCII is what the header it travels in needs."""
    if text is None:
        return
    requester, _, sequence = text.rpartition("/")
    is_name = bool(requester.strip()) and requester.isascii() and requester.isprintable()
    if not (is_name and sequence.isascii() and sequence.isdecimal() and int(sequence) > 0):
        raise BadInput(
            f"--request-id {text!r} is no request id.",
            hint="One looks like cli-4f2a/3: a requester's name in ASCII, and a number that counts from 1.",
        )


def find_named(text: str, name: str | None, among: Iterable[Resource] = RESOURCES) -> tuple[Resource, str]:
    """Like `find_item` for commands that need one item; BadInput where there are several and none is named."""
    resource, given = find_item(text, name, among)
    if given is None:
        given = resource.unnamed
    if given is None and resource is not CLUSTER:
        raise BadInput(f"Which {resource.singular}?", hint=f"Give its name; {_lists_them(resource)}")
    return resource, given or ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that proposes the known names most like `name`, or nothing."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), by_lower_case, n=3)
    return f"Did you mean {' or '.join(by_lower_case[key] for key in near)}?" if near else ""


def filtering(kind: Resource, name: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The filters of a list; BadInput for those that it has not, and beside a name."""
    if given and name is not None:
        raise BadInput(f"{kind.singular} {name} is one: there is nothing to narrow.", hint="Leave the name out.")
    for unknown in given.keys() - set(kind.filters):
        known = ", ".join(f"--{each}" for each in kind.filters)
        raise BadInput(f"{kind.plural} have no --{unknown}.", hint=f"They have {known}." if known else "")
    return dict(given)
