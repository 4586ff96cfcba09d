"""What can be asked of databases, tables, views and grants: lists of each kind, and one by its name."""

from collections.abc import Iterator, Mapping
from itertools import islice

from topolog.events.errors import NotFound
from topolog.events.ids import NOWHERE
from topolog.events.object_definition import Definition, ObjectKind, object_of, principal_of
from topolog.events.objects import ObjectRow, ObjectStatus
from topolog.projections import change_rows
from topolog.projections.change_rows import Line
from topolog.projections.definition_words import noun
from topolog.projections.object_resources import ObjectColumn, ObjectDefinition, SchemaObject
from topolog.projections.queries import not_found
from topolog.projections.store import Reading


def objects(reading: Reading, kind: ObjectKind, filters: Mapping[str, str], after: str = "") -> Iterator[SchemaObject]:
    """Objects of one kind by name, those behind the name `after` only.

    What is being created is hidden, unless `state` asks for it (TA24): it is not there yet. What is being dropped is
    shown until it is gone. Further filters: database, and of grants principal.
    """
    line = Line(change_rows.opened(reading))
    wanted = filters.get("state")
    for name, row in reading.rows(ObjectRow):
        is_shown = row.status.value == wanted if wanted else row.status is not ObjectStatus.PRE_CREATE
        if row.kind is kind and is_shown and name > after and _is_of(name, filters):
            yield _object(row, line)


def object_named(reading: Reading, kind: ObjectKind, name: str) -> SchemaObject:
    """One object, also one that is being created; raises NotFound unless it is of this kind."""
    return _object(surely(reading, kind, name), Line(change_rows.opened(reading)))


def surely(reading: Reading, kind: ObjectKind, name: str) -> ObjectRow:
    row = reading.row(ObjectRow, name)
    if row is None or row.kind is not kind:
        raise no_object(reading, kind, name, row)
    return row


def no_object(reading: Reading, kind: ObjectKind, name: str, found: ObjectRow | None = None) -> NotFound:
    if found is not None:
        message = f"{name!r} is no {noun(kind)}, it is a {noun(found.kind)}."
        return NotFound(message, hint=f"`topolog get {_resource(found.kind)} {name}`")
    if was_ever(reading, kind, name):
        hint = f"There was one: `topolog history {_resource(kind)} {name}` tells what became of it."
        return NotFound(f"There is no {noun(kind)} {name!r}.", hint=hint)
    return not_found(name, (key for key, row in reading.rows(ObjectRow) if row.kind is kind), noun(kind))


def _resource(kind: ObjectKind) -> str:
    return "table-view" if kind is ObjectKind.VIEW else noun(kind)


def table_count(reading: Reading) -> int:
    """How many tables there are, without those that are being created."""
    return sum(
        row.kind is ObjectKind.TABLE and row.status is not ObjectStatus.PRE_CREATE for _, row in reading.rows(ObjectRow)
    )


def was_ever(reading: Reading, kind: ObjectKind, name: str) -> bool:
    versions = islice(reading.versions(ObjectRow, name), 1_000)
    return any(row is not None and row.kind is kind for _, row in versions)


def _is_of(name: str, filters: Mapping[str, str]) -> bool:
    about = object_of(name) or name
    is_inside = filters.get("database") in (None, about.partition(".")[0])
    return is_inside and filters.get("principal") in (None, principal_of(name))


def _object(row: ObjectRow, line: Line) -> SchemaObject:
    queue = line.waiting_for(row.name)
    is_pending = row.change is not None
    return SchemaObject(
        name=row.name,
        kind=row.kind.value,
        state=row.status.value,
        incarnation=row.incarnation,
        version=row.version,
        definition=_definition(row.definition),
        committed_at=None if row.committed_at == NOWHERE else row.committed_at,
        pending=_definition(row.pending),
        pending_version=row.pending_version if is_pending else None,
        change=row.change,
        queue=queue,
        actions=tuple(actions(row)),
    )


def actions(row: ObjectRow) -> Iterator[str]:
    """What can be done with an object now (TA24). Who changes it while a change is open waits in line behind that."""
    if row.change is not None:
        yield f"wait change/{row.change}"
        yield f"cancel change/{row.change}"
    if row.status in (ObjectStatus.USING, ObjectStatus.PRE_ALTER):
        yield "alter"
        if row.kind in (ObjectKind.TABLE, ObjectKind.VIEW):
            yield "rename"
        yield "drop"


def _definition(definition: Definition | None) -> ObjectDefinition | None:
    if definition is None:
        return None
    return ObjectDefinition(
        columns=tuple(ObjectColumn(each.name, each.type.value, each.number) for each in definition.columns),
        key=definition.key,
        ttl_ms=definition.ttl_ms,
        properties=definition.properties,
        over=definition.over,
        privileges=tuple(each.value for each in definition.privileges),
    )
