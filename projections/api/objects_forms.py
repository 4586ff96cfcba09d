"""The bodies of POST /requests that are about databases, tables, views, grants, and changes of these."""

from typing import Annotated, Literal

import msgspec

from topolog.events.asked import RequestId
from topolog.events.object_definition import (
    STATEMENTS_MAX,
    Column,
    ColumnAction,
    ColumnType,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Verb,
)
from topolog.events.object_requests import ChangeCancellationRequested, SchemaChangeRequested
from topolog.projections.api.problems import InvalidParameter

_POSITION_MAX = 2**63 - 1
LENGTH_HINT = f"A change has 1 to {STATEMENTS_MAX} statements; ask for more in several."

Kind = Literal["DATABASE", "TABLE", "VIEW", "GRANT"]
TypeName = Literal["BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "STRING", "BLOB", "DATE", "TIMESTAMP"]
PrivilegeName = Literal["READ", "WRITE"]
_Ms = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ColumnForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: TypeName


class DefinitionForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A database has `ttl_ms` and `properties`; a table also `columns` and `key`, one of them; a view is `over` a table
    and has names in `columns`, none for all; a grant has `privileges`. `ttl_ms`: 0 is for ever, null the database's."""

    columns: tuple[ColumnForm | str, ...] = ()
    key: str = ""
    ttl_ms: _Ms | None = None
    properties: dict[str, str] = {}
    over: str = ""
    privileges: tuple[PrivilegeName, ...] = ()


class ColumnActionForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`type` belongs to ADD and RETYPE, `new_name` to RENAME."""

    verb: Literal["ADD", "RETYPE", "RENAME", "DROP"]
    name: str
    type: TypeName | None = None
    new_name: str = ""


class StatementForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of one object: `definition` by CREATE, `new_name` by RENAME, what stands between by ALTER.

    ALTER of a view takes a `definition` without properties: what it shows from then on.

    `if_needed`: IF EXISTS, or of CREATE IF NOT EXISTS. `planned_on`: `committed_at` of the object as the asker saw it,
    -1 if he saw none; the change is refused if it is another one by now.
    """

    verb: Literal["CREATE", "ALTER", "RENAME", "DROP"]
    kind: Kind
    name: str
    definition: DefinitionForm | None = None
    columns: tuple[ColumnActionForm, ...] = ()
    ttl_ms: _Ms | None = None
    properties: dict[str, str] = {}
    unset: tuple[str, ...] = ()
    privileges: tuple[PrivilegeName, ...] = ()
    new_name: str = ""
    if_needed: bool = False
    planned_on: Annotated[int, msgspec.Meta(ge=-1, le=_POSITION_MAX)] | None = None


class ChangeSchema(msgspec.Struct, frozen=True, tag_field="kind", tag="schema-change", forbid_unknown_fields=True):
    """Change databases, tables, views and grants, all of them or none. `deadline_ms`: give it up if it is not committed
    by then."""

    statements: Annotated[tuple[StatementForm, ...], msgspec.Meta(min_length=1, max_length=STATEMENTS_MAX)]
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    reason: str = ""


class CancelChange(msgspec.Struct, frozen=True, tag_field="kind", tag="cancel-change", forbid_unknown_fields=True):
    """Give up a change that is not committed yet, by its number."""

    change: Annotated[int, msgspec.Meta(ge=0, le=_POSITION_MAX)]
    reason: str = ""


ObjectsForm = ChangeSchema | CancelChange


def to_request(
    form: ObjectsForm, name: RequestId, log_id: bytes, actor: str
) -> SchemaChangeRequested | ChangeCancellationRequested:
    """The request a form asks for; raises BadInput for columns that their kind of object cannot have."""
    head = (name, log_id, actor, form.reason)
    if isinstance(form, CancelChange):
        return ChangeCancellationRequested(*head, form.change)
    statements = tuple(_statement(each, at) for at, each in enumerate(form.statements))
    return SchemaChangeRequested(*head, statements, form.deadline_ms)


def _statement(form: StatementForm, at: int) -> Statement:
    return Statement(
        verb=Verb(form.verb),
        kind=ObjectKind(form.kind),
        name=form.name,
        definition=None if form.definition is None else _definition(form, form.definition, at),
        columns=tuple(_action(each) for each in form.columns),
        ttl_ms=form.ttl_ms,
        properties=form.properties,
        unset=form.unset,
        privileges=_privileges(form.privileges),
        new_name=form.new_name,
        if_needed=form.if_needed,
        planned_on=form.planned_on,
    )


def _definition(statement: StatementForm, form: DefinitionForm, at: int) -> Definition:
    is_view = statement.kind == "VIEW"
    if any(isinstance(each, str) is not is_view for each in form.columns):
        reason = "the columns of a view are names" if is_view else "a column has a name and a type"
        raise InvalidParameter(f"statements[{at}].definition.columns", reason)
    return Definition(
        columns=tuple(
            Column(each, ColumnType.UNKNOWN) if isinstance(each, str) else Column(each.name, ColumnType(each.type))
            for each in form.columns
        ),
        key=form.key,
        ttl_ms=form.ttl_ms,
        properties=form.properties,
        over=form.over,
        privileges=_privileges(form.privileges),
    )


def _action(form: ColumnActionForm) -> ColumnAction:
    type_ = None if form.type is None else ColumnType(form.type)
    return ColumnAction(ColumnVerb(form.verb), form.name, type_, form.new_name)


def _privileges(names: tuple[PrivilegeName, ...]) -> tuple[Privilege, ...]:
    return tuple(Privilege(each) for each in names)
