"""The history of one thing: every set of decisions that changed it, with what it was before and after."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from topolog.events.asked import RequestId
from topolog.events.baseline import BaselineRow, ClusterStateRow
from topolog.events.errors import NotFound
from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.events.leases import NodeRow
from topolog.events.metadata import TypeRow
from topolog.events.object_definition import Definition, ObjectKind
from topolog.events.objects import ChangeRow, ObjectRow
from topolog.events.replicas import ReplicaRow
from topolog.events.requests import OutcomeRow, outcome_key
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SessionRow, session_key
from topolog.events.state import Row
from topolog.events.terms import ClusterRow
from topolog.projections import baselines, changes, definition_words, objects, queries, sessions, views
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Change
from topolog.projections.store import Reading

R = TypeVar("R", bound=Row)

_NOT_SHOWN = frozenset({"folder"})
"""Fields by which the coordinator tells data folders apart; they say nothing to people."""


def of_node(reading: Reading, name: str) -> Iterator[Change]:
    """Every change of a node, newest first; also of one that is out."""
    return _history(reading, NodeRow, name, f"node {name}")


def of_type(reading: Reading, name: str) -> Iterator[Change]:
    """Every change of a type by name or id, newest first; also of one that was removed."""
    known = queries.type_ever(reading, name)
    key, subject = (str(known.type_id), known.name) if known else (name, name)
    return _history(reading, TypeRow, key, f"type {subject}")


def of_group(reading: Reading, name: str) -> Iterator[Change]:
    """Every change of the groups of this name, newest first; also of one that was dropped."""
    return _history(reading, GroupRow, name, f"group {name}")


def of_object(reading: Reading, kind: ObjectKind, name: str) -> Iterator[Change]:
    """Every change of the objects of this name, newest first; also of one that was dropped."""
    if not objects.was_ever(reading, kind, name):
        raise objects.no_object(reading, kind, name)
    return _history(reading, ObjectRow, name, f"{definition_words.noun(kind)} {name}", _object)


def _object(row: ObjectRow | None) -> Mapping[str, Any]:
    """An object with its columns by name; definitions name what they hold, and nothing else."""
    if row is None:
        return {}
    plain = queries.plain(row)
    return {
        **{field: plain[field] for field in ("status", "version", "incarnation", "change")},
        **_told(row.definition),
        "pending": _told(row.pending),
    }


def _told(definition: Definition | None) -> Mapping[str, Any]:
    if definition is None:
        return {}
    columns = {column.name: column.type.value for column in definition.columns}
    whole = {**queries.plain(definition), "columns": columns}
    return {field: value for field, value in whole.items() if value}


def of_change(reading: Reading, name: str) -> Iterator[Change]:
    """How a change of objects went, newest first; also of one that coordinators no longer keep."""
    number = changes.surely(reading, name).number
    return _history(reading, ChangeRow, str(number), f"change {number}", _change_of_objects)


def of_session(reading: Reading, name: str) -> Iterator[Change]:
    """How a session went as a whole, newest first; also of one that coordinators no longer keep."""
    number = sessions.surely(reading, name).number
    return _history(reading, SessionRow, session_key(number), f"session {number}", _session)


def _session(row: SessionRow | None) -> Mapping[str, Any]:
    """How far a session is; what it asks for stays the same but for its pace."""
    if row is None:
        return {}
    fields = ("status", "segments", "paused", "code", "message", "rows_read", "rows_found", "rows_written")
    pace = {name: getattr(row.definition, name) for name in ("intensity", "parallel")}
    ranges = {name: sessions.texts(getattr(row, name)) for name in ("covered", "left", "differing")}
    return {**{field: queries.plain(getattr(row, field)) for field in fields}, **pace, **ranges}


def of_replica(reading: Reading, name: str) -> Iterator[Change]:
    """Every declaration of a replica, newest first; also of one that was withdrawn."""
    return _history(reading, ReplicaRow, name, f"replica {name}")


def of_schedule(reading: Reading, name: str) -> Iterator[Change]:
    """How a schedule was set, and each time it was due: what was opened, or why nothing was."""
    return _history(reading, ScheduleRow, name, f"schedule {name}")


def _change_of_objects(row: ChangeRow | None) -> Mapping[str, Any]:
    """How far a change is; what it does stays the same."""
    if row is None:
        return {}
    plain = queries.plain(row)
    fields = ("status", "prepared_at", "closed_at", "evidence", "undeleted", "code", "message", "deadline_ms")
    return {field: plain[field] for field in fields}


def of_request(reading: Reading, name: RequestId) -> Iterator[Change]:
    key = outcome_key(name.requester, name.sequence)
    row = queries.outcome(reading, name)
    return _history(reading, OutcomeRow, key, row.subject if row else f"request {name}")


def of_cluster(reading: Reading) -> Iterator[Change]:
    """Every change of the terms, the view and the state of the cluster, newest first."""
    found = [_history(reading, ClusterRow, "", "cluster")]
    if any(True for _ in reading.versions(ClusterStateRow, "")):
        found.append(_history(reading, ClusterStateRow, "", "cluster state"))
    for _, together in groupby(merge(*found, key=_at, reverse=True), key=_at):
        yield _joined(list(together))


def _at(change: Change) -> int:
    return change.position


def _joined(together: Sequence[Change]) -> Change:
    """What one set has changed in several rows, as one change."""
    events = dict.fromkeys(event for each in together for event in each.event.split(" + "))
    changes = {field: sides for each in together for field, sides in each.changes.items()}
    return msgspec.structs.replace(together[0], event=" + ".join(events), changes=changes)


def of_baseline(reading: Reading, name: str) -> Iterator[Change]:
    """How the baseline of this number was set, branched and replaced; of `current` every change of who counts."""
    found = baselines.baseline(reading, name)
    is_whole = name == baselines.CURRENT
    versions = [each for each in reading.versions(BaselineRow, "") if each[1] is not None]
    for (position, row), (_, before) in zip(versions, [*versions[1:], (None, None)], strict=True):
        assert row is not None
        numbers = {row.number, *((before.number,) if before else ())}
        if is_whole or found.number in numbers:
            about = [each for each in reading.decisions_of_set(position) if each.subject in _OF_BASELINE]
            together = about or reading.decisions_of_set(position)
            yield change_of(together, position, _baseline(before), _baseline(row))


_OF_BASELINE = ("baseline", "cluster state")


def _baseline(row: BaselineRow | None) -> Mapping[str, Any]:
    if row is None:
        return {}
    newest = row.history[-1]
    return {"number": row.number, "members": row.nodes, "branched at": newest.at.position, "online": newest.online}


def of_view(reading: Reading, version: str) -> Iterator[Change]:
    """The one change that made the view."""
    found = views.view(reading, version)
    decided = reading.surely_decision(found.position)
    before = [node for node in found.members if node not in found.joined]
    after = {"members": list(found.members), "version": found.version}
    yield change_of([decided], Position(found.position), {"members": [*before, *found.left]}, after)


def _history(
    reading: Reading, kind: type[R], key: str, subject: str, told: Callable[[R | None], Any] = queries.plain
) -> Iterator[Change]:
    after: tuple[Position, R | None] | None = None
    for position, row in reading.versions(kind, key):
        if after is not None:
            yield _change(reading, subject, after[0], told(row), told(after[1]))
        after = (position, row)
    if after is None:
        raise NotFound(f"There was never a {subject} up to position {reading.position}.")
    yield _change(reading, subject, after[0], told(None), told(after[1]))


def _change(reading: Reading, subject: str, position: Position, before: Any, after: Any) -> Change:
    together = reading.decisions_of_set(position)
    about = [each for each in together if each.subject == subject] or together
    return change_of(about, position, before, after)


def change_of(about: Sequence[Decided], position: Position, before: Any, after: Any) -> Change:
    """What these decisions of the set that ends at `position` made of one thing; both sides as JSON's own values."""
    return Change(
        position=position,
        time=iso(about[-1].logged_at_ms),
        event=" + ".join(each.event_name for each in about),
        actor=about[-1].asked_by,
        reason=about[-1].reason,
        cause=about[-1].cause,
        changes=changed_fields(before, after),
    )


def changed_fields(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """field -> (before, after) of what is not the same on both sides, fields of fields as `a.b`."""
    was, now = _flat(before), _flat(after)
    return {
        field: (was.get(field), now.get(field))
        for field in dict.fromkeys([*was, *now])
        if field not in _NOT_SHOWN and (was.get(field) or None) != (now.get(field) or None)
    }


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """{"a.b": leaf} of nested mappings."""
    if not isinstance(value, Mapping):
        return {path: value} if path else {}
    found: dict[str, Any] = {}
    for key, each in value.items():
        found |= _flat(each, f"{path}.{key}" if path else str(key))
    return found
