"""What `apply` has to ask for beside definitions of tables: types, groups, the baseline, schedules; one request each.

Threats. Between the plan and the request others change the same things: a node that has begun to count since would be
dropped by a baseline that is asked for whole, and another's value written over without a word.

The steps are values of what is wanted and what is there, so that what is shown is what is sent, and each asks for the
difference that is shown: nodes of a baseline are added or removed by name, a type is proposed on the version that was
seen, a group is altered in what differs. Where a request can only replace what stands (fields of a group, a schedule,
the first baseline), `planned_from` keeps what it was made from, and who asks looks again right before (`overtaken`).
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from topolog.events.object_types import ObjectType
from topolog.projections.cli.declared_file import Declared
from topolog.projections.cli.problems import Json
from topolog.projections.cli.terminal import plain

_FIXED = ("partitions", "persistent")
"""Of a group: what never changes."""


class There(msgspec.Struct, frozen=True):
    """What there is, as the API lists it, by name. `baseline`: the nodes that count, none if none is set."""

    types: Mapping[str, Json]
    groups: Mapping[str, Json]
    schedules: Mapping[str, Json]
    baseline: tuple[str, ...]


class Planned(msgspec.Struct, frozen=True):
    """One request, and the same for people: `sign` is + or ~, `details` what changes within.

    `planned_from`: values that this request replaces whatever they are then, empty where nothing was there; None if the
    rules refuse what has been overtaken.
    """

    sign: str
    does: str
    about: str
    details: tuple[str, ...]
    request: Json
    planned_from: Json | None = None


class Steps(msgspec.Struct, frozen=True):
    """What is to be done, in this order; `problems`: why that cannot be."""

    planned: tuple[Planned, ...]
    problems: tuple[str, ...]


def steps(declared: Declared, there: There) -> Steps:
    """What leads from what is there to what is wanted; nothing for what is so already."""
    problems: list[str] = []
    found = [
        *(step for each in declared.groups for step in _group(each, there.groups.get(each["name"]), problems)),
        *(step for each in declared.types for step in _type(each, there.types.get(each.name))),
        *_baseline(declared.baseline, there.baseline),
        *(step for each in declared.schedules for step in _schedule(each, there.schedules.get(each["name"]))),
    ]
    return Steps(tuple(found), tuple(problems))


def overtaken(step: Planned, now: Json | None) -> str:
    """How that which the step replaces is no longer what it was planned from; `now` None: it is not there."""
    if step.planned_from is None or (now is None and not step.planned_from):
        return ""
    if now is None:
        return "it is gone"
    if not step.planned_from:
        return "it is there by now"
    return ", ".join(
        f"{key} was {plain(before)} and is {plain(now.get(key))}"
        for key, before in step.planned_from.items()
        if now.get(key) != before
    )


def _group(wanted: Json, held: Json | None, problems: list[str]) -> Iterator[Planned]:
    name = str(wanted["name"])
    if held is None:
        details = tuple(f"+ {key} {plain(value)}" for key, value in wanted.items() if key != "name")
        yield Planned("+", "create group", name, details, {"kind": "create-group", **wanted})
        return
    differs = {key: value for key, value in wanted.items() if held.get(key) != value}
    problems += [
        f"group {name} has {key} {plain(held.get(key))}, which never changes" for key in _FIXED if key in differs
    ]
    if differs:
        yield Planned(
            "~",
            "alter group",
            name,
            _changes(held, differs),
            {"kind": "alter-group", "name": name, **differs},
            {key: held.get(key) for key in differs},
        )


def _type(wanted: ObjectType, held: Json | None) -> Iterator[Planned]:
    """A proposal is added to what stands: only what it adds, or contradicts, makes a step."""
    body = {"kind": "propose", "definition": wanted.to_dict()}
    if held is None:
        details = tuple(f"+ {name} {of}" for name, of in wanted.fields.items())
        yield Planned("+", "propose type", wanted.name, details, {**body, "based_on": None})
        return
    stands = held.get("pending") or held
    fields: Mapping[str, object] = stands.get("fields") or {}
    constants: Mapping[str, object] = stands.get("enum") or {}
    new = [f"+ {name} {of}" for name, of in wanted.fields.items() if name not in fields]
    new += [f"+ {name} = {number}" for name, number in wanted.enum.items() if name not in constants]
    new += [f"~ {name} {fields[name]} → {of}" for name, of in wanted.fields.items() if fields.get(name, of) != of]
    if wanted.affinity_key not in (None, stands.get("affinity_key")):
        new.append(f"~ affinity_key {plain(stands.get('affinity_key'))} → {wanted.affinity_key}")
    if new:
        based_on = held.get("accepted_version") or None
        yield Planned("~", "propose type", wanted.name, tuple(new), {**body, "based_on": based_on})


def _baseline(wanted: Sequence[str] | None, held: Sequence[str]) -> Iterator[Planned]:
    if wanted is None or set(wanted) == set(held):
        return
    added = [node for node in wanted if node not in held]
    removed = [node for node in held if node not in wanted]
    if not held:
        request: Json = {"kind": "baseline", "verb": "SET", "nodes": added}
        yield Planned("+", "set baseline", "baseline", tuple(f"+ {node}" for node in added), request, {})
        return
    for does, verb, sign, nodes in (("extend", "ADD", "+", added), ("reduce", "REMOVE", "-", removed)):
        if nodes:
            request = {"kind": "baseline", "verb": verb, "nodes": nodes}
            details = tuple(f"{sign} {node}" for node in nodes)
            yield Planned("~", f"{does} baseline", "baseline", details, request)


def _schedule(wanted: Json, held: Json | None) -> Iterator[Planned]:
    request = {"kind": "set-schedule", **wanted}
    if held is None:
        details = tuple(f"+ {key} {plain(value)}" for key, value in wanted["definition"].items())
        yield Planned("+", "set schedule", str(wanted["name"]), details, request, {})
        return
    stands: Json = {**(held.get("definition") or {}), "session": held.get("kind")}
    stands.pop("kind", None)
    differs = {key: value for key, value in wanted["definition"].items() if stands.get(key) != value}
    differs |= {key: wanted[key] for key in ("every_ms", "paused") if held.get(key) != wanted[key]}
    if differs:
        request["definition"] = {**stands, **wanted["definition"]}  # it replaces all, and what is not named stays
        planned_from = {key: held.get(key) for key in ("definition", "kind", "every_ms", "paused")}
        changes = _changes({**stands, **held}, differs)
        yield Planned("~", "set schedule", str(wanted["name"]), changes, request, planned_from)


def _changes(held: Mapping[str, object], differs: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"~ {key} {plain(held.get(key))} → {plain(value)}" for key, value in differs.items())
