"""What a change does, given the objects as they are: statements become steps, or are refused (docs/design/tables.md).

Statements follow each other: a later one sees what the earlier ones of its change have made. What is asked for and is
so already leads to no step. Who drops a database drops all that is in it, who drops a table its grants; a table that a
view shows is not dropped, and the refusal says which one does. Grants on a table or view that gets another name are
grants on that afterwards, and views show it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

import msgspec

from topolog.events.claims import users_of
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
    grant_on,
    is_shorter_ttl,
    object_of,
    principal_of,
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
    touched: set[str] = set()
    for statement in statements:
        _check_planned_on(state, statement)
        for step in _steps(draft, statement):
            _check_not_touched(touched, step, statement)
            draft.take(step)
            steps.append(step)
    return tuple(steps)


def _check_not_touched(touched: set[str], step: Step, statement: Statement) -> None:
    """Raise Refused for a second step of one object: what a statement drops with its own was changed before it."""
    for name in filter(None, (step.name, step.new_name)):
        if name in touched:
            message = f"{name!r} goes with {statement.name!r}, and an earlier statement of the change has changed it."
            raise Refused("NAMED_TWICE", "TA4", message, {"object": name}, hint="Leave the earlier one out.")
        touched.add(name)


class _Draft:
    """Objects as they would be, over those that are committed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed: dict[str, Standing | None] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._contents: dict[str, list[str]] | None = None

    def get(self, name: str) -> Standing | None:
        if name in self._changed:
            return self._changed[name]
        row = object_row(self._state, name)
        return _standing(row) if row else None

    def users(self, name: str) -> list[Standing]:
        """What needs this object: tables and views of a database, views of a table, grants on either."""
        names = {*users_of(self._state, name), *self._users.get(name, ()), *self._within(name)}
        found = (self.get(each) for each in sorted(names))
        return [each for each in found if each and name in _needed(each.name, each.definition)]

    def take(self, step: Step) -> None:
        before = self.get(step.name)
        if step.verb in (Verb.DROP, Verb.RENAME):
            self._changed[step.name] = None
        if step.definition is not None:
            ever = max([before.columns_ever if before else 0, *(each.number for each in step.definition.columns)])
            name = step.new_name or step.name
            self._changed[name] = Standing(step.kind, name, step.definition, ever)
            for needed in _needed(name, step.definition):
                self._users.setdefault(needed, {})[name] = None

    def _within(self, database: str) -> list[str]:
        """The committed tables and views of a database."""
        if "." in database:
            return []
        if self._contents is None:
            self._contents = {}
            for name, _ in self._state.rows(ObjectRow):
                if "." in name and "@" not in name:
                    self._contents.setdefault(database_of(name), []).append(name)
        return self._contents.get(database, [])


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
        raise Refused("PLAN_IS_OLD", "TA11", message, facts)


def _steps(draft: _Draft, statement: Statement) -> list[Step]:
    found = draft.get(statement.name)
    if statement.verb is Verb.CREATE:
        return _create(draft, statement, found)
    if found is None:
        if statement.if_needed:
            return []
        message = f"There is no {_noun(statement.kind)} {statement.name!r}."
        raise Refused("OBJECT_UNKNOWN", "TA5", message, {"object": statement.name})
    if found.kind is not statement.kind:
        message = f"{statement.name!r} is no {_noun(statement.kind)}, it is a {_noun(found.kind)}."
        raise Refused("OBJECT_OF_ANOTHER_KIND", "TA5", message, {"object": statement.name, "kind": found.kind.value})
    match statement.verb:
        case Verb.ALTER:
            return _alter(draft, statement, found)
        case Verb.RENAME:
            return _rename(draft, statement, found)
    return list(_drop(draft, statement, found))


def _create(draft: _Draft, statement: Statement, found: Standing | None) -> list[Step]:
    if found is not None:
        if statement.if_needed and found.kind is statement.kind:
            return []
        message = f"There is a {_noun(found.kind)} {found.name!r} already."
        raise Refused("OBJECT_EXISTS", "TA5", message, {"object": found.name, "kind": found.kind.value})
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
    raise Refused("OBJECT_UNKNOWN", "TA5", f"{needed_by!r} needs {what}, which is not there.", {"object": needed_by})


def _numbered(columns: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(columns, 1))


def _shown(draft: _Draft, name: str, view: Definition) -> tuple[Column, ...]:
    """The columns of a view as its table has them; all of them if it names none."""
    columns = _required(draft, ObjectKind.TABLE, view.over, name).definition.columns
    has, shown = {each.name for each in columns}, [each.name for each in view.columns or columns]
    if missing := next((each for each in shown if each not in has), None):
        message = f"View {name!r}: table {view.over!r} has no column {missing!r}."
        raise Refused("COLUMN_UNKNOWN", "TA7", message, {"object": name, "column": missing})
    return tuple(each for each in columns if each.name in set(shown))


def _alter(draft: _Draft, statement: Statement, found: Standing) -> list[Step]:
    now = found.definition
    then = msgspec.structs.replace(
        _shows(draft, statement, found),
        ttl_ms=now.ttl_ms if statement.ttl_ms is None else statement.ttl_ms,
        properties=_set(now.properties, statement),
        privileges=_ordered(statement.privileges) if statement.privileges else now.privileges,
    )
    if then == now:
        return []
    if statement.harmless and is_shorter_ttl(then.ttl_ms, now.ttl_ms):
        _harm(statement, "its rows would be gone sooner")
    if len(then.columns) > COLUMNS_MAX or len(then.properties) > PROPERTIES_MAX:
        check_definition(found.kind, found.name, then)
    return [Step(Verb.ALTER, found.kind, found.name, then), *_views_after(draft, found.name, then)]


def _shows(draft: _Draft, statement: Statement, found: Standing) -> Definition:
    """The definition with the columns, and the table of a view, that it has behind the statement."""
    now, shown = found.definition, statement.definition
    if shown is not None:
        return msgspec.structs.replace(now, over=shown.over, columns=_shown(draft, found.name, shown))
    if statement.columns:
        return msgspec.structs.replace(now, columns=_acted(draft, found, statement.columns))
    return now


def _views_after(draft: _Draft, table: str, then: Definition) -> Iterator[Step]:
    """The views whose columns the table now has with other types: a view says of its columns what its table does."""
    by_number = {each.number: each for each in then.columns}
    for view in _views_of(draft, table):
        columns = tuple(by_number[each.number] for each in view.definition.columns)
        if columns != view.definition.columns:
            shown = msgspec.structs.replace(view.definition, columns=columns)
            yield Step(Verb.ALTER, view.kind, view.name, shown)


def _ordered(privileges: Iterable[Privilege]) -> tuple[Privilege, ...]:
    return tuple(sorted(set(privileges), key=lambda each: each.value))


def _set(properties: Mapping[str, str], statement: Statement) -> Mapping[str, str]:
    kept = {name: value for name, value in properties.items() if name not in statement.unset}
    return {**kept, **statement.properties}


def _acted(draft: _Draft, table: Standing, actions: Iterable[ColumnAction]) -> tuple[Column, ...]:
    """The columns behind these actions, in the order of their numbers; raises Refused."""
    columns = {each.name: each for each in table.definition.columns}
    shown = _shown_columns(draft, table.name)
    ever = table.columns_ever
    for action in actions:
        _check_action(table, columns, action, shown)
        if action.verb is ColumnVerb.ADD:
            assert action.type is not None, "a column that is added has a type"
            ever += 1
            columns[action.name] = Column(action.name, action.type, ever)
            continue
        held = columns.pop(action.name)
        if action.verb is ColumnVerb.RETYPE:
            columns[held.name] = _retyped(table, held, action)
        elif action.verb is ColumnVerb.RENAME:
            columns[action.new_name] = msgspec.structs.replace(held, name=action.new_name)
    return tuple(sorted(columns.values(), key=lambda each: each.number))


def _check_action(
    table: Standing, columns: Mapping[str, Column], action: ColumnAction, shown: Mapping[int, str]
) -> None:
    """Raise Refused for what the columns as they are do not allow."""
    held = columns.get(action.name)
    if action.verb is ColumnVerb.ADD:
        if held is not None:
            _refuse(table, action, "COLUMN_EXISTS", f"has a column {action.name!r} already.")
        return
    if held is None:
        _refuse(table, action, "COLUMN_UNKNOWN", f"has no column {action.name!r}.")
    if action.verb is not ColumnVerb.RETYPE:
        _check_free(table, held, action, shown)
    if action.new_name in columns:
        _refuse(table, action, "COLUMN_EXISTS", f"has a column {action.new_name!r} already.")


def _shown_columns(draft: _Draft, table: str) -> Mapping[int, str]:
    """A view that shows the column, by the column's number."""
    views = reversed(_views_of(draft, table))
    return {column.number: view.name for view in views for column in view.definition.columns}


def _views_of(draft: _Draft, table: str) -> list[Standing]:
    return [each for each in draft.users(table) if each.kind is ObjectKind.VIEW and each.definition.over == table]


def _retyped(table: Standing, held: Column, action: ColumnAction) -> Column:
    assert action.type is not None, "a column that gets another type names it"
    if action.type is held.type:
        return held
    _check_no_key(table, held, action)
    if action.type not in WIDER.get(held.type, ()):
        possible = ", ".join(each.value for each in WIDER.get(held.type, ())) or "nothing else"
        text = f"keeps {held.type.value} values in {action.name!r}: they can become {possible}."
        _refuse(table, action, "TYPE_CHANGE_NOT_ALLOWED", text)
    return msgspec.structs.replace(held, type=action.type)


def _check_free(table: Standing, held: Column, action: ColumnAction, shown: Mapping[int, str]) -> None:
    """A column that is dropped or gets another name is not the key, and no view shows it under this name."""
    _check_no_key(table, held, action)
    if held.number in shown:
        view = shown[held.number]
        message = f"Column {held.name!r} of table {table.name!r} is shown by view {view!r}."
        facts = {"object": table.name, "column": held.name, "used_by": view}
        raise Refused("IN_USE", "TA8", message, facts, hint=f"`topolog drop view {view}` first.")


def _check_no_key(table: Standing, held: Column, action: ColumnAction) -> None:
    if held.name == table.definition.key:
        _refuse(table, action, "COLUMN_IS_KEY", f"has its rows named by {held.name!r}, which stays as it is.")


def _refuse(table: Standing, action: ColumnAction, code: str, text: str) -> NoReturn:
    raise Refused(code, "TA7", f"Table {table.name!r} {text}", {"object": table.name, "column": action.name})


def _rename(draft: _Draft, statement: Statement, found: Standing) -> list[Step]:
    taken = draft.get(statement.new_name)
    if taken is not None:
        message = f"There is a {_noun(taken.kind)} {taken.name!r} already."
        raise Refused("OBJECT_EXISTS", "TA5", message, {"object": taken.name, "kind": taken.kind.value})
    users = draft.users(found.name)
    return [
        Step(Verb.RENAME, found.kind, found.name, found.definition, statement.new_name),
        *(_following(each, found.name, statement.new_name) for each in users),
    ]


def _following(user: Standing, name: str, new_name: str) -> Step:
    """What becomes of a grant on an object that gets another name, or of a view over it."""
    if user.kind is ObjectKind.GRANT:
        moved = grant_on(principal_of(user.name), new_name)
        return Step(Verb.RENAME, user.kind, user.name, user.definition, moved)
    assert user.definition.over == name, "what needs a table or a view is a grant on it, or a view over it"
    return Step(Verb.ALTER, user.kind, user.name, msgspec.structs.replace(user.definition, over=new_name))


def _check_unused(found: Standing, users: list[Standing]) -> None:
    if users:
        names = ", ".join(sorted(each.name for each in users)[:10])
        message = f"{found.name!r} is named by {names}."
        raise Refused("IN_USE", "TA8", message, {"object": found.name, "used_by": names}, hint="Drop these first.")


def _harm(statement: Statement, what: str) -> NoReturn:
    message = f"{statement.name!r} is not as it was when this was asked: by now {what}."
    raise Refused("PLAN_IS_OLD", "TA11", message, {"object": statement.name})


def _drop(draft: _Draft, statement: Statement, found: Standing) -> Iterator[Step]:
    """The object, and before it all that goes with it."""
    gone = {found.name: found}
    if found.kind is ObjectKind.DATABASE:
        gone.update((each.name, each) for each in draft.users(found.name))
    users = [each for name in list(gone) for each in draft.users(name) if each.name not in gone]
    _check_unused(found, [each for each in users if each.kind is not ObjectKind.GRANT])
    if statement.harmless and users:
        _harm(statement, f"grants would end with it, such as {users[0].name}")
    gone.update((each.name, each) for each in users)
    for each in sorted(gone.values(), key=lambda each: (_DROPPED.index(each.kind), each.name)):
        yield Step(Verb.DROP, each.kind, each.name)


_DROPPED = (ObjectKind.GRANT, ObjectKind.VIEW, ObjectKind.TABLE, ObjectKind.DATABASE)
"""In which order: nothing before what needs it."""


def _noun(kind: ObjectKind) -> str:
    return kind.value.lower()
