"""`-o schema`: the JSON Schema of what a command prints with -o json, made from the resources; nothing is asked.

With -o jsonl each line is one of `items`, or the item; a watch prints its events line by line.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from topolog.projections.cli.options import Wait
from topolog.projections.cli.problems import Json
from topolog.projections.cli.resources import CLUSTER, GROUPS, JOINS, Resource, find_item
from topolog.projections.cli.terminal import Screen

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/{name}"

Values = Mapping[str, Any]


class Described(msgspec.Struct, frozen=True):
    """What one command prints: an envelope of this `kind` about one `item`, or many; `is_bare`: items alone, one by
    one."""

    item: Any
    kind: str
    is_many: bool = False
    is_bare: bool = False


class WatchObject(msgspec.Struct, frozen=True):
    """One event of a watch: ADDED, MODIFIED and DELETED have a name and an item, SYNCED and BOOKMARK have none."""

    type: str
    token: str
    name: str = ""
    item: dict[str, Any] = {}


class RepairPlan(msgspec.Struct, frozen=True):
    """What a repair would do about what a preview has found."""

    session: int
    table: str
    policy: str
    source: str | None
    rows_differ: int
    rows: int
    deletes: int
    bytes: int
    copies: tuple[dict[str, Any], ...]
    unresolved: dict[str, int]
    ranges: tuple[str, ...]
    covered_percent: int


class Step(msgspec.Struct, frozen=True):
    """One step of `apply`, as it was planned and as it ended: PLANNED, GRANTED, UNCHANGED, REFUSED, LEFT OUT."""

    step: int
    does: str
    about: str
    details: tuple[str, ...]
    status: str
    request: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """What one check of `doctor` found; `fix` says what to do about it. `state`: OK, WARNING, PROBLEM, UNKNOWN."""

    check: str
    state: str
    about: str
    fix: str


class ContextRow(msgspec.Struct, frozen=True):
    """A context of the command line."""

    name: str
    api: str
    cluster: str
    token_file: str
    protected: bool
    colour: str
    current: bool


def show(command: Callable[..., object], values: Values) -> None:
    """Print the schema of what the command prints."""
    found = _by_group(command) or described(command.__name__, values)
    Screen().data(json.dumps(_schema(found), indent=2) + "\n")


def schema_of(command: str, values: Values) -> Json:
    """The schema of what the command of this name prints if it is given these values."""
    return _schema(described(command, values))


def _schema(found: Described) -> Json:
    items, defs = msgspec.json.schema_components([found.item], ref_template=_DEFS)
    [item] = items
    if found.is_bare:
        return {"$schema": DIALECT, "title": found.kind, **item, "$defs": defs}
    from topolog.projections.resources import AsOf

    [as_of], more = msgspec.json.schema_components([AsOf], ref_template=_DEFS)
    properties: Json = {"kind": {"const": found.kind}, "apiVersion": {"const": "topolog/v1"}, "asOf": as_of}
    if found.is_many:
        properties |= {"items": {"type": "array", "items": item}, "next": {"type": ["string", "null"]}}
    else:
        properties["item"] = item
    return {
        "$schema": DIALECT,
        "title": found.kind,
        "type": "object",
        "required": ["kind", "items" if found.is_many else "item"],
        "properties": properties,
        "$defs": {**defs, **more},
    }


def _by_group(command: Callable[..., object]) -> Described | None:
    """What a command prints whose name others have too: those of the groups `projection` and `auth`."""
    group = command.__module__.rpartition(".")[2]
    if group == "projection_commands":
        from topolog.projections.projection_resources import Generation

        return Described(Generation, "ProjectionList", is_many=True)
    if group == "auth_commands":
        from topolog.projections.api.access import resources as access

        return Described(
            *((access.WhoAmI, "WhoAmI") if command.__name__ == "whoami" else (access.Permission, "Permission"))
        )
    return None


def described(command: str, values: Values) -> Described:
    """What the command prints; anything that asks for a change prints its outcome, or its dry run."""
    fixed = _fixed()
    if command in fixed:
        return fixed[command]
    if "resource" not in values or command not in _ABOUT_A_RESOURCE:
        return _of_request(command, values)
    kind, name = _resource(values)
    if values.get("watches"):
        return fixed["watch"]
    if command == "explain":
        return _explained(kind, is_imagined=values.get("imagined") is not None)
    return _of_resource(kind, is_many=command == "get" and name is None and kind is not CLUSTER)


_ABOUT_A_RESOURCE = ("get", "describe", "wait", "explain")


def _fixed() -> Mapping[str, Described]:
    """What prints the same whatever it is asked."""
    from topolog.projections import baseline_resources, repair_resources, resources, status_resources

    return {
        "status": Described(status_resources.Status, "Status"),
        "watch": Described(WatchObject, "WatchEvent", is_bare=True),
        "diff": Described(resources.Diff, "Diff", is_many=True),
        "history": Described(resources.Change, "History", is_many=True),
        "replay": Described(resources.Replay, "Replay"),
        "graph": Described(baseline_resources.Baseline, "BaselineList", is_many=True),
        "list_schedules": Described(repair_resources.Schedule, "ScheduleList", is_many=True),
        "plan": Described(RepairPlan, "RepairPlan"),
        "list_contexts": Described(ContextRow, "ContextList", is_many=True),
        "show_context": Described(ContextRow, "Context"),
        "doctor": Described(Finding, "Doctor", is_many=True),
        "verify_projections": Described(dict[str, Any], "ProjectionStores", is_many=True),
    }


def _explained(kind: Resource, *, is_imagined: bool) -> Described:
    from topolog.projections import baseline_resources, partition_resources, resources

    if is_imagined:
        return Described(partition_resources.Forecast, "Forecast")
    if kind is JOINS:
        return Described(baseline_resources.Join, "Join")
    return Described(resources.Explanation, "Explanation")


def _of_request(command: str, values: Values) -> Described:
    if command == "apply":
        from topolog.projections.cli.declared_file import read_declared

        if values["file"] != "-" and not read_declared(values["file"]).is_schema_alone:
            return Described(Step, "Applied", is_many=True)
    return _of_one_request(command, values)


def _of_one_request(command: str, values: Values) -> Described:
    from topolog.projections import baseline_resources, repair_resources, resources

    asked = values.get("patience") or values.get("following")
    if asked is not None and asked.dry_run:
        return Described(baseline_resources.DryRun, "DryRun")
    if command in ("verify", "run") and asked is not None and asked.wait:
        return Described(repair_resources.Session, "Session")
    if command in ("apply", "drop", "rename") and asked is not None and asked.wait in (None, Wait.ACCEPTED):
        from topolog.projections import object_resources

        if values.get("resource") not in GROUPS.names:
            return Described(object_resources.SchemaChange, "SchemaChange")
    return Described(resources.Outcome, "Outcome")


def _resource(values: Values) -> tuple[Resource, str | None]:
    from topolog.projections.cli.resources import RESOURCES

    return find_item(str(values["resource"]), values.get("name"), (*RESOURCES, JOINS))


_KINDS = {"map": "NodeMap", "change": "SchemaChange", "audit": "AuditRecord"}
"""What the API calls it where that is another name than the command line's."""


def _of_resource(kind: Resource, *, is_many: bool) -> Described:
    from topolog.projections import (
        baseline_resources,
        object_resources,
        partition_resources,
        pending_resources,
        projection_resources,
        repair_resources,
        resources,
        topic_resources,
    )
    from topolog.projections.api.access import resources as access

    rows: Mapping[str, Any] = {
        "cluster": resources.Cluster,
        "pending": pending_resources.Pending,
        "node": resources.Node,
        "lease": resources.Lease,
        "lease-health": resources.LeaseHealth,
        "type": resources.Type,
        "group": resources.Group,
        "partition": partition_resources.Partition,
        "map": partition_resources.NodeMap,
        "single-map": partition_resources.SingleMap,
        "exchange": partition_resources.Exchange,
        "baseline": baseline_resources.Baseline,
        "view": baseline_resources.View,
        "database": object_resources.SchemaObject,
        "table": object_resources.SchemaObject,
        "table-view": object_resources.SchemaObject,
        "grant": object_resources.SchemaObject,
        "change": object_resources.SchemaChange,
        "session": repair_resources.Session,
        "tree": repair_resources.Tree,
        "difference": repair_resources.RowDifference,
        "repair": repair_resources.Repair,
        "replica": repair_resources.Replica,
        "schedule": repair_resources.Schedule,
        "decision": resources.Decision,
        "request": resources.Request,
        "dead-letter": resources.DeadLetter,
        "topic": topic_resources.ClusterTopic,
        "projection": projection_resources.Generation,
        "branch": baseline_resources.Branch,
        "audit": access.AuditRecord,
    }
    details = {
        "map": partition_resources.NodeMapDetail,
        "single-map": partition_resources.SingleMapDetail,
        "exchange": partition_resources.ExchangeDetail,
        "dead-letter": resources.DeadLetterDetail,
    }
    item = rows.get(kind.singular, dict[str, Any])
    name = _KINDS.get(kind.singular) or "".join(part.capitalize() for part in kind.singular.split("-"))
    if is_many:
        return Described(item, f"{name}List", is_many=True)
    return Described(details.get(kind.singular, item), name)
