"""Rules of groups: what a request to create, alter or drop one leads to (docs/design/partitions.md)."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.group_definition import Affinity, BadGroup, GroupDefinition, LossPolicy, lost_by, validate
from topolog.events.groups import (
    GroupAlterationRequested,
    GroupAltered,
    GroupCreated,
    GroupCreationRequested,
    GroupDropped,
    GroupDropRequested,
    GroupRequest,
    GroupRow,
    group_row,
)
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view, cluster

T = TypeVar("T")

NEVER_CHANGES = ("partitions", "persistent")
"""What a group is for its whole life: where a key belongs, and whether copies outlive their process."""

_MAKE_ANEW = "Choose another name; or drop it, with all its data, and create it anew."


def decide(state: State, request: GroupRequest, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    match request:
        case GroupCreationRequested():
            return [_create(state, request, ref)]
        case GroupAlterationRequested():
            return [_alter(state, request, ref)]
        case GroupDropRequested():
            row = _known(state, request.name)
            return [GroupDropped(ref, row.name, row.number, changed_view(state))]


def differences(now: GroupDefinition, then: GroupDefinition) -> Mapping[str, str]:
    """What `then` says otherwise than `now`, by field: `1024, asked for: 64`."""
    was, wanted = _values(now), _values(then)
    return {
        field: f"{_words(was[field])}, asked for: {_words(wanted[field])}"
        for field in was
        if was[field] != wanted[field]
    }


def _create(state: State, request: GroupCreationRequested, ref: RequestRef) -> Decision:
    wanted = request.group
    _check(wanted)
    row = group_row(state, wanted.name)
    if row is None:
        return GroupCreated(ref, cluster(state).next_group, wanted, changed_view(state))
    facts = differences(row.definition, wanted)
    if not facts:
        return RequestUnchanged(ref, request.subject, None)
    message = f"There is a group {row.name!r} already, and it is another one: {_listed(facts)}."
    hint = f"`topolog alter group {row.name}` changes it." if facts.keys().isdisjoint(NEVER_CHANGES) else _MAKE_ANEW
    raise Refused("GROUP_EXISTS", "EX1", message, facts, hint=hint)


def _alter(state: State, request: GroupAlterationRequested, ref: RequestRef) -> Decision:
    row = _known(state, request.name)
    wanted = _altered(row.definition, request)
    facts = differences(row.definition, wanted)
    fixed = {field: facts[field] for field in NEVER_CHANGES if field in facts}
    if fixed:
        message = f"Group {row.name!r} keeps for its whole life: {_listed(fixed)}."
        raise Refused("GROUP_FIXED", "EX2", message, fixed, hint=_MAKE_ANEW)
    if not facts:
        return RequestUnchanged(ref, request.subject, None)
    _check(wanted)
    if request.harmless and (lost := lost_by(row.definition, wanted)):
        message = (
            f"Group {row.name!r} is not as it was when this was asked: by now it could lose data by {', '.join(lost)}."
        )
        raise Refused("PLAN_IS_OLD", "EX4", message, {field: facts[field] for field in lost})
    return GroupAltered(ref, row.name, wanted.backups, wanted.affinity, wanted.loss_policy, changed_view(state))


def _altered(now: GroupDefinition, request: GroupAlterationRequested) -> GroupDefinition:
    affinity = now.affinity
    return GroupDefinition(
        now.name,
        _or_kept(request.partitions, now.partitions),
        _or_kept(request.backups, now.backups),
        Affinity(
            _or_kept(request.exclude_neighbours_by, affinity.exclude_neighbours_by),
            _or_kept(request.node_filter, affinity.node_filter),
            _or_kept(request.backup_filter, affinity.backup_filter),
        ),
        _or_kept(request.loss_policy, now.loss_policy),
        _or_kept(request.persistent, now.persistent),
    )


def _or_kept(wanted: T | None, kept: T) -> T:
    return kept if wanted is None else wanted


def _known(state: State, name: str) -> GroupRow:
    row = group_row(state, name)
    if row is None:
        hint = "See `topolog get groups`."
        raise Refused("GROUP_UNKNOWN", "EX1", f"There is no group {name!r}.", hint=hint)
    return row


def _check(group: GroupDefinition) -> None:
    try:
        validate(group)
    except BadGroup as error:
        raise Refused("BAD_GROUP", error.rule, error.message, hint=error.hint) from error


def _values(group: GroupDefinition) -> Mapping[str, object]:
    """Every field of a definition but its name, those of its affinity beside the others."""
    found = {**msgspec.structs.asdict(group), **msgspec.structs.asdict(group.affinity)}
    return {field: value for field, value in found.items() if field not in ("name", "affinity")}


def _words(value: object) -> str:
    match value:
        case Mapping():
            return " ".join(f"{key}={each}" for key, each in sorted(value.items())) or "none"
        case LossPolicy():
            return value.value
        case bool():
            return "yes" if value else "no"
    return str(value) or "none"


def _listed(facts: Mapping[str, str]) -> str:
    return "; ".join(f"{field.replace('_', ' ')} {fact}" for field, fact in facts.items())
