"""What each address of this process needs: one table, and whatever is not in it is denied. Pure.

An address is taken apart exactly as the router does it, from the decoded path: `/v1/clusters/<cluster>/<resource>` with
a name and an aspect behind it; the console's addresses begin with `/clusters/` and are the same otherwise.
A test walks every route of the app and compares.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

import msgspec

from topolog.projections.api.access.grants import ANY, Asked, Right

PROBES = frozenset({"/livez", "/readyz", "/startupz"})
METRICS = "/metrics"
FOR_ANYBODY_KNOWN = frozenset({"/v1/clusters", "/v1/whoami", "/openapi.json"})
ASSETS = "/assets/"

READ: Mapping[str, Right] = {
    **dict.fromkeys(
        (
            "cluster",
            "status",
            "nodes",
            "leases",
            "lease-health",
            "types",
            "groups",
            "partitions",
            "maps",
            "single-maps",
            "exchanges",
            "baselines",
            "branches",
            "views",
            "databases",
            "tables",
            "table-views",
            "grants",
            "pending",
            "changes",
            "sessions",
            "trees",
            "repairs",
            "replicas",
            "schedules",
            "decisions",
            "requests",
            "dead-letters",
            "topics",
            "projections",
        ),
        Right.READ,
    ),
    "differences": Right.READ_PAYLOAD,
    "audit": Right.AUDIT,
}
"""What it takes to read a resource; the bytes of dead letters and the rows of replicas are payload."""

_PAYLOAD_OF_ONE = frozenset({"dead-letters"})
ACTIONS: Mapping[tuple[str, str], Right] = {
    ("nodes", "join"): Right.READ,  # it judges, and changes nothing
    ("dead-letters", "replay"): Right.ADMINISTER,
}
"""POST to one of a resource, by what is done with it. POST to `requests` needs what its form says."""
OF_THIS_PROCESS = "projections"
"""Whatever is done with it is done to this process, not to the cluster."""

REQUESTS = "requests"
CAN_I = "can-i"
_PICTURES = {"heat": "partitions", "proposals": "types"}
"""Pages of the console that show a resource under another name."""
_HELP = "help"
_VIEWS = frozenset({"diff", "export"})
"""Another view of the resource that follows."""
_ASPECTS = frozenset({"history", "explain", "forecast", "join", "changes"})
_NARROWED = {"partitions": ("group", "{}/*"), "maps": ("group", "{}/*"), "leases": ("node", "{}")}
"""Lists that a filter narrows to what one name, or one pattern of names, covers."""


class Wanted(msgspec.Struct, frozen=True):
    """What an address is about. `asked` None: whoever is known may. `is_probe`: whoever asks may.

    `asks_by_form`: the body says what is needed. `of_all_seen`: it shows each cluster that the caller may see.
    """

    asked: Asked | None = None
    cluster: str | None = None
    is_probe: bool = False
    asks_by_form: bool = False
    of_all_seen: bool = False
    changes: bool = False


def wanted(method: str, path: str, query: str = "") -> Wanted | None:
    """What this address needs; None for an address that nobody has declared."""
    is_read = method in ("GET", "HEAD")
    if is_read and path in PROBES:
        return Wanted(is_probe=True)
    if is_read and path == METRICS:
        return Wanted(Asked(Right.READ, ANY, "metrics"))
    if is_read and (path in FOR_ANYBODY_KNOWN or path.startswith(ASSETS)):
        return Wanted()
    match path.split("/"):
        case ["", ""] if is_read:
            return Wanted(Asked(Right.READ, ANY, "cluster"), of_all_seen=True)
        case ["", "v1", "clusters", cluster, *rest] if cluster and rest and all(rest):
            return _of_cluster(method, cluster, rest, query)
        case ["", "clusters", cluster, *rest] if cluster and is_read:
            return _of_console(cluster, rest, query)
    return None


def _of_console(cluster: str, rest: Sequence[str], query: str) -> Wanted | None:
    """A page shows what the API tells."""
    if rest in ([], [""]):
        return Wanted(Asked(Right.READ, cluster, "cluster"), cluster)
    view, name = rest[0], list(rest[1:])
    if view == _HELP:
        return Wanted(cluster=cluster)
    view = _PICTURES.get(view, view)
    if view not in READ or "" in name[:-1]:
        return None
    return _of_cluster("GET", cluster, [view, *filter(None, name)], query)


def _of_cluster(method: str, cluster: str, rest: list[str], query: str) -> Wanted | None:
    if method == "POST":
        return _action(cluster, rest)
    if method not in ("GET", "HEAD"):
        return None
    if rest == [CAN_I]:
        return Wanted(cluster=cluster)
    if rest[0] in _VIEWS:
        rest = rest[1:]
    right = READ.get(rest[0]) if rest else None
    if right is None:
        return None
    resource, name = rest[0], _name(rest[1:])
    if name is None:
        name = _narrowed(resource, query)
    elif resource in _PAYLOAD_OF_ONE:
        right = Right.READ_PAYLOAD
    return Wanted(Asked(right, cluster, resource, name), cluster)


def _action(cluster: str, rest: Sequence[str]) -> Wanted | None:
    if list(rest) == [REQUESTS]:
        return Wanted(cluster=cluster, asks_by_form=True, changes=True)
    resource, action = rest[0], rest[-1]
    if resource == OF_THIS_PROCESS:
        return Wanted(Asked(Right.ADMINISTER, cluster, resource, None), cluster, changes=True)
    right = ACTIONS.get((resource, action)) if len(rest) > 1 else None
    if right is None:
        return None
    name = "/".join(rest[1:-1]) or None
    return Wanted(Asked(right, cluster, resource, name), cluster, changes=right is not Right.READ)


def _name(rest: list[str]) -> str | None:
    """The name in what follows the resource; the aspect at its end is no part of it."""
    if rest and rest[-1] in _ASPECTS:
        rest = rest[:-1]
    return "/".join(rest) or None


def _narrowed(resource: str, query: str) -> str | None:
    if resource not in _NARROWED:
        return None
    key, form = _NARROWED[resource]
    values = parse_qs(query, keep_blank_values=True).get(key, [])
    return form.format(values[0]) if len(values) == 1 and values[0] else None
