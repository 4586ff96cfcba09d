"""What a change does, given the objects as they are: statements become steps, or are refused (leases B4, DESIGN §4.5).

Statements follow each other: a later one sees what the earlier ones of its change have made. What is asked for and is
so already leads to no step. Who drops a database drops all that is in it, who drops a table its grants; a table that a
view shows is not dropped, and the refusal says which one does.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

import msgspec

from topolog.events.errors import Refused
from topolog.events.ids import NOWHERE, Position
from topolog.events.object_definition import (
    ABSENT,
    COLUMNS_MAX,
    FOREVER,
    PROPERTIES_MAX,
    WIDER,
    Column,
    ColumnAction,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Step,
    Verb,
    check_definition,
    database_of,
    object_of,
)
from topolog.events.objects import ObjectRow, object_row
from topolog.events.state import State


class Standing(msgspec.Struct, frozen=True):
    """One object as the statements so far have made it. `columns_ever`: the highest number a column of it has had."""

    kind: ObjectKind
    name: str
    definition: Definition
    columns_ever: int = 0
    committed_at: Position = NOWHERE


def plan(state: State, statements: Iterable[Statement]) -> tuple[Step, ...]:
    """The steps that these statements lead to, none if all is so already; raises Refused and changes nothing."""
    draft = _Draft(state)
    steps: list[Step] = []
    for statement in statements:
        _check_planned_on(state, statement)
        for step in _steps(draft, statement):
            draft.take(step)
            steps.append(step)
    return tuple(steps)


class _Draft:
    """Objects as they would be, over those that are committed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed: dict[str, Standing | None] = {}
        self._users: dict[str, dict[str, None]] | None = None

    def get(self, name: str) -> Standing | None:
        if name in self._changed:
            return self._changed[name]
        row = object_row(self._state, name)
        return _standing(row) if row else None

    def users(self, name: str) -> list[Standing]:
        """What needs this object: tables and views of a database, views of a table, grants on either."""
        if self._users is None:
            self._users = {}
            for each, row in self._state.rows(ObjectRow):
                self._note(each, row.definition)
        found = (self.get(each) for each in self._users.get(name, ()))
        return [each for each in found if each and name in _needed(each.name, each.definition)]

    def take(self, step: Step) -> None:
        before = self.get(step.name)
        if step.verb in (Verb.DROP, Verb.RENAME):
            self._changed[step.name] = None
        if step.definition is not None:
            ever = max([before.columns_ever if before else 0, *(each.number for each in step.definition.columns)])
            name = step.new_name or step.name
            self._changed[name] = Standing(step.kind, name, step.definition, ever)
            if self._users is not None:
                self._note(name, step.definition)

    def _note(self, name: str, definition: Definition | None) -> None:
        assert self._users is not None
        for needed in _needed(name, definition):
            self._users.setdefault(needed, {})[name] = None


def _needed(name: str, definition: Definition | None) -> Iterator[str]:
    """The names of objects without which this one cannot be."""
    if "@" in name:
        yield object_of(name)
    elif "." in name:
        yield database_of(name)
    if definition is not None and definition.over:
        yield definition.over


def _standing(row: ObjectRow) -> Standing | None:
    if row.definition is None:
        return None
    return Standing(row.kind, row.name, row.definition, row.columns_ever, row.committed_at)


def _check_planned_on(state: State, statement: Statement) -> None:
    if statement.planned_on is None:
        return
    row = object_row(state, statement.name)
    found = row.committed_at if row and row.definition else ABSENT
    if found != statement.planned_on:
        facts = {"planned_on": str(statement.planned_on), "found": str(found)}
        message = f"{statement.name!r} is not as it was when this was planned. Make the plan again."
        raise Refused("PLAN_IS_OLD", "DESIGN 4.5", message, facts)


def _steps(draft: _Draft, statement: Statement) -> list[Step]:
    found = draft.get(statement.name)
    if statement.verb is Verb.CREATE:
        return _create(draft, statement, found)
    if found is None:
        if statement.if_needed:
            return []
        message = f"There is no {_noun(statement.kind)} {statement.name!r}."
        raise Refused("OBJECT_UNKNOWN", "B4", message, {"object": statement.name})
    if found.kind is not statement.kind:
        message = f"{statement.name!r} is no {_noun(statement.kind)}, it is a {_noun(found.kind)}."
        raise Refused("OBJECT_OF_ANOTHER_KIND", "B4", message, {"object": statement.name, "kind": found.kind.value})
    match statement.verb:
        case Verb.ALTER:
            return _alter(draft, statement, found)
        case Verb.RENAME:
            return _rename(draft, statement, found)
    return list(_drop(draft, found))


def _create(draft: _Draft, statement: Statement, found: Standing | None) -> list[Step]:
    if found is not None:
        if statement.if_needed and found.kind is statement.kind:
            return []
        message = f"There is a {_noun(found.kind)} {found.name!r} already."
        raise Refused("OBJECT_EXISTS", "B4", message, {"object": found.name, "kind": found.kind.value})
    definition = statement.definition
    assert definition is not None, "a statement that creates has a definition"
    match statement.kind:
        case ObjectKind.DATABASE:
            definition = msgspec.structs.replace(definition, ttl_ms=definition.ttl_ms or FOREVER)
        case ObjectKind.TABLE:
            database = _required(draft, ObjectKind.DATABASE, database_of(statement.name), statement.name)
            ttl_ms = database.definition.ttl_ms if definition.ttl_ms is None else definition.ttl_ms
            definition = msgspec.structs.replace(definition, ttl_ms=ttl_ms, columns=_numbered(definition.columns))
        case ObjectKind.VIEW:
            _required(draft, ObjectKind.DATABASE, database_of(statement.name), statement.name)
            definition = msgspec.structs.replace(definition, columns=_shown(draft, statement.name, definition))
        case ObjectKind.GRANT:
            definition = msgspec.structs.replace(definition, privileges=_ordered(definition.privileges))
            if draft.get(object_of(statement.name)) is None:
                _miss(statement.name, f"object {object_of(statement.name)!r}")
    return [Step(Verb.CREATE, statement.kind, statement.name, definition)]


def _required(draft: _Draft, kind: ObjectKind, name: str, needed_by: str) -> Standing:
    found = draft.get(name)
    if found is None or found.kind is not kind:
        _miss(needed_by, f"{_noun(kind)} {name!r}")
    return found


def _miss(needed_by: str, what: str) -> NoReturn:
    raise Refused("OBJECT_UNKNOWN", "B4", f"{needed_by!r} needs {what}, which is not there.", {"object": needed_by})


def _numbered(columns: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(columns, 1))


def _shown(draft: _Draft, name: str, view: Definition) -> tuple[Column, ...]:
    """The columns of a view as its table has them; all of them if it names none."""
    table = _required(draft, ObjectKind.TABLE, view.over, name).definition
    missing = [each.name for each in view.columns if table.column(each.name) is None]
    if missing:
        message = f"View {name!r}: table {view.over!r} has no column {missing[0]!r}."
        raise Refused("COLUMN_UNKNOWN", "B4", message, {"object": name, "column": missing[0]})
    names = {each.name for each in view.columns or table.columns}
    return tuple(each for each in table.columns if each.name in names)


def _alter(draft: _Draft, statement: Statement, found: Standing) -> list[Step]:
    now = found.definition
    columns, ever = now.columns, found.columns_ever
    for action in statement.columns:
        columns = _acted(draft, found, columns, action, ever)
        ever = max([ever, *(each.number for each in columns)])
    then = msgspec.structs.replace(
        now,
        columns=columns,
        ttl_ms=now.ttl_ms if statement.ttl_ms is None else statement.ttl_ms,
        properties=_set(now.properties, statement),
        privileges=_ordered(statement.privileges) if statement.privileges else now.privileges,
    )
    if then == now:
        return []
    if len(then.columns) > COLUMNS_MAX or len(then.properties) > PROPERTIES_MAX:
        check_definition(found.kind, found.name, then)
    return [Step(Verb.ALTER, found.kind, found.name, then)]


def _ordered(privileges: Iterable[Privilege]) -> tuple[Privilege, ...]:
    return tuple(sorted(set(privileges), key=lambda each: each.value))


def _set(properties: Mapping[str, str], statement: Statement) -> Mapping[str, str]:
    kept = {name: value for name, value in properties.items() if name not in statement.unset}
    return {**kept, **statement.properties}


def _acted(
    draft: _Draft, table: Standing, columns: tuple[Column, ...], action: ColumnAction, ever: int
) -> tuple[Column, ...]:
    """The columns behind one action; raises Refused."""
    held = next((each for each in columns if each.name == action.name), None)
    if action.verb is ColumnVerb.ADD:
        assert action.type is not None, "a column that is added has a type"
        if held is not None:
            _refuse(table, action, "COLUMN_EXISTS", f"has a column {action.name!r} already.")
        return (*columns, Column(action.name, action.type, ever + 1))
    if held is None:
        _refuse(table, action, "COLUMN_UNKNOWN", f"has no column {action.name!r}.")
    if action.verb is ColumnVerb.RETYPE:
        changed = _retyped(table, held, action)
    else:
        _check_free(draft, table, action)
        if action.verb is ColumnVerb.DROP:
            return tuple(each for each in columns if each != held)
        if any(each.name == action.new_name for each in columns):
            _refuse(table, action, "COLUMN_EXISTS", f"has a column {action.new_name!r} already.")
        changed = msgspec.structs.replace(held, name=action.new_name)
    return tuple(changed if each == held else each for each in columns)


def _retyped(table: Standing, held: Column, action: ColumnAction) -> Column:
    assert action.type is not None, "a column that gets another type names it"
    if action.type is held.type:
        return held
    if held.name == table.definition.key:
        _refuse(table, action, "COLUMN_IS_KEY", f"has its rows named by {action.name!r}, which keeps its type.")
    if action.type not in WIDER.get(held.type, ()):
        possible = ", ".join(each.value for each in WIDER.get(held.type, ())) or "nothing else"
        text = f"keeps {held.type.value} values in {action.name!r}: they can become {possible}."
        _refuse(table, action, "TYPE_CHANGE_NOT_ALLOWED", text)
    return msgspec.structs.replace(held, type=action.type)


def _check_free(draft: _Draft, table: Standing, action: ColumnAction) -> None:
    """A column that is dropped or gets another name is not the key, and no view shows it."""
    if action.name == table.definition.key:
        _refuse(table, action, "COLUMN_IS_KEY", f"has its rows named by {action.name!r}.")
    held = table.definition.column(action.name)
    number = held.number if held else 0
    users = [
        each.name for each in _views_of(draft, table.name) if any(c.number == number for c in each.definition.columns)
    ]
    if users:
        _refuse(table, action, "IN_USE", f"shows column {action.name!r} in view {users[0]!r}.")


def _refuse(table: Standing, action: ColumnAction, code: str, text: str) -> NoReturn:
    raise Refused(code, "B4", f"Table {table.name!r} {text}", {"object": table.name, "column": action.name})


def _views_of(draft: _Draft, table: str) -> list[Standing]:
    return [each for each in draft.users(table) if each.kind is ObjectKind.VIEW]


def _rename(draft: _Draft, statement: Statement, found: Standing) -> list[Step]:
    taken = draft.get(statement.new_name)
    if taken is not None:
        message = f"There is a {_noun(taken.kind)} {taken.name!r} already."
        raise Refused("OBJECT_EXISTS", "B4", message, {"object": taken.name, "kind": taken.kind.value})
    _check_unused(found, draft.users(found.name))
    return [Step(Verb.RENAME, found.kind, found.name, found.definition, statement.new_name)]


def _check_unused(found: Standing, users: list[Standing]) -> None:
    if users:
        names = ", ".join(sorted(each.name for each in users)[:10])
        message = f"{found.name!r} is named by {names}."
        raise Refused("IN_USE", "B4", message, {"object": found.name, "used_by": names}, hint="Drop these first.")


def _drop(draft: _Draft, found: Standing) -> Iterator[Step]:
    """The object, and before it all that goes with it."""
    gone = {found.name: found}
    if found.kind is ObjectKind.DATABASE:
        gone.update((each.name, each) for each in draft.users(found.name))
    users = [each for name in list(gone) for each in draft.users(name) if each.name not in gone]
    _check_unused(found, [each for each in users if each.kind is not ObjectKind.GRANT])
    gone.update((each.name, each) for each in users)
    for each in sorted(gone.values(), key=lambda each: (_DROPPED.index(each.kind), each.name)):
        yield Step(Verb.DROP, each.kind, each.name)


_DROPPED = (ObjectKind.GRANT, ObjectKind.VIEW, ObjectKind.TABLE, ObjectKind.DATABASE)
"""In which order: nothing before what needs it."""


def _noun(kind: ObjectKind) -> str:
    return kind.value.lower()
