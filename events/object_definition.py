"""What databases, tables, views and grants are, and what can be asked of them (docs/design/tables.md).

One definition is one immutable value. A statement is what somebody asks of one object, a step is what a change does to
one. Names say what they name: `shop` is a database, `shop.orders` a table or a view in it, `ada@shop.orders` the rights
of a principal on that; so one name is never two objects.

A column's number is its identity. It is given once in the life of a table and data is kept under it: a column that was
renamed finds its data, one that was dropped and added again does not find what the former one left.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from topolog.events.errors import Refused

STATEMENTS_MAX = 1_000
COLUMNS_MAX = 1_000
PROPERTIES_MAX = 100
TEXT_CHARS_MAX = 1_000
TTL_MS_MAX = 10_000 * 366 * 86_400_000

_OVERHEAD_BYTES = 16
"""More than lengths, enums and numbers beside one text take."""

FOREVER = 0
"""The time to live of what never expires."""

ABSENT = -1
"""What a plan rests on that saw no such object."""

WORD_CHARS_MAX = 64
"""Of each word of a name, and of a column's."""

_WORD = rf"[A-Za-z_][A-Za-z0-9_]{{0,{WORD_CHARS_MAX - 1}}}"
_COLUMN = re.compile(_WORD)
_PRINCIPAL = rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,{WORD_CHARS_MAX - 1}}}"


class ObjectKind(Enum):
    """GRANT: the rights of one principal on one object."""

    UNKNOWN = "UNKNOWN"
    DATABASE = "DATABASE"
    TABLE = "TABLE"
    VIEW = "VIEW"
    GRANT = "GRANT"


_FORMS: Mapping[ObjectKind, re.Pattern[str]] = {
    ObjectKind.DATABASE: re.compile(_WORD),
    ObjectKind.TABLE: re.compile(rf"{_WORD}\.{_WORD}"),
    ObjectKind.VIEW: re.compile(rf"{_WORD}\.{_WORD}"),
    ObjectKind.GRANT: re.compile(rf"{_PRINCIPAL}@{_WORD}(\.{_WORD})?"),
}


class ColumnType(Enum):
    UNKNOWN = "UNKNOWN"
    BOOLEAN = "BOOLEAN"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BLOB = "BLOB"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


WIDER: Mapping[ColumnType, tuple[ColumnType, ...]] = {
    ColumnType.INT32: (ColumnType.INT64, ColumnType.DOUBLE),
    ColumnType.FLOAT: (ColumnType.DOUBLE,),
    ColumnType.DATE: (ColumnType.TIMESTAMP,),
}
"""What a column may become: each value it can hold is one of the wider type, and sorts as before."""


class Privilege(Enum):
    UNKNOWN = "UNKNOWN"
    READ = "READ"
    WRITE = "WRITE"


class Verb(Enum):
    UNKNOWN = "UNKNOWN"
    CREATE = "CREATE"
    ALTER = "ALTER"
    RENAME = "RENAME"
    DROP = "DROP"


class ColumnVerb(Enum):
    UNKNOWN = "UNKNOWN"
    ADD = "ADD"
    RETYPE = "RETYPE"
    RENAME = "RENAME"
    DROP = "DROP"


class Column(msgspec.Struct, frozen=True):
    """`number` is 0 in a request that asks for the column."""

    name: str
    type: ColumnType
    number: int = 0


class Definition(msgspec.Struct, frozen=True):
    """What an object is. Databases have `ttl_ms` and `properties`, tables beside these `columns` and `key`, views
    `over`, `columns` and `properties`, grants `privileges`; the rest is empty.

    `ttl_ms` is FOREVER or for how long data is kept; None, in a request only, takes the database's.
    """

    columns: tuple[Column, ...] = ()
    key: str = ""
    ttl_ms: int | None = None
    properties: Mapping[str, str] = {}
    over: str = ""
    privileges: tuple[Privilege, ...] = ()

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)


class ColumnAction(msgspec.Struct, frozen=True):
    """`type` belongs to ADD and RETYPE, `new_name` to RENAME."""

    verb: ColumnVerb
    name: str
    type: ColumnType | None = None
    new_name: str = ""


class Statement(msgspec.Struct, frozen=True):
    """What is asked of one object: `definition` by CREATE, `new_name` by RENAME, what stands between them by ALTER.

    ALTER of a view may have a `definition` too: what it shows from then on; its properties are altered as everybody's.

    `if_needed`: IF EXISTS, or of CREATE IF NOT EXISTS. `planned_on`: since which position the object was as the asker
    saw it, ABSENT if he saw none; the statement is refused if it is another one by now. `harmless`: it is refused if at
    its turn a time to live would become shorter by it, or grants would end with it.
    """

    verb: Verb
    kind: ObjectKind
    name: str
    definition: Definition | None = None
    columns: tuple[ColumnAction, ...] = ()
    ttl_ms: int | None = None
    properties: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()
    privileges: tuple[Privilege, ...] = ()
    new_name: str = ""
    if_needed: bool = False
    planned_on: int | None = None
    harmless: bool = False


class Step(msgspec.Struct, frozen=True):
    """What a change does to one object. `definition` is what the object is behind it, None if it is no more."""

    verb: Verb
    kind: ObjectKind
    name: str
    definition: Definition | None = None
    new_name: str = ""


def database_of(name: str) -> str:
    """The database in which a table or view is."""
    return name.partition(".")[0]


def object_of(grant: str) -> str:
    """What a grant gives rights on."""
    return grant.partition("@")[2]


def principal_of(grant: str) -> str:
    """Whom a grant gives rights to."""
    return grant.partition("@")[0]


def grant_on(principal: str, name: str) -> str:
    """The grant that gives the principal rights on the object."""
    return f"{principal}@{name}"


def size_bytes(step: Step) -> int:
    """An upper bound of the step's encoded size."""
    size = _OVERHEAD_BYTES + len(step.name) + len(step.new_name)
    if step.definition is not None:
        texts = [text for pair in step.definition.properties.items() for text in pair]
        size += 4 * _OVERHEAD_BYTES + len(step.definition.key) + len(step.definition.over)
        size += sum(len(text.encode()) + _OVERHEAD_BYTES for text in texts)
        size += sum(len(column.name) + _OVERHEAD_BYTES for column in step.definition.columns)
    return size


def is_shorter_ttl(then_ms: int | None, now_ms: int | None) -> bool:
    """Whether rows of some age are gone by the one time to live, and not by the other; None is what has no rows."""
    then, now = then_ms or FOREVER, now_ms or FOREVER
    return then != FOREVER and (now == FOREVER or then < now)


def check_statements(statements: tuple[Statement, ...]) -> None:
    """Raise Refused for what can be no change, whatever objects there are."""
    if not 1 <= len(statements) <= STATEMENTS_MAX:
        message = f"A change has 1 to {STATEMENTS_MAX} statements, and not {len(statements)}."
        raise Refused("BAD_STATEMENT", "TA3", message)
    seen: set[str] = set()
    for each in statements:
        _check_form(each)
        for name in filter(None, (each.name, each.new_name)):
            if name in seen:
                message = f"{name!r} is named by two statements of one change. Say all of it in one, or send two."
                raise Refused("NAMED_TWICE", "TA4", message, {"object": name})
            seen.add(name)


def check_definition(kind: ObjectKind, name: str, definition: Definition) -> None:
    """Raise Refused for a definition that breaks a limit, contradicts itself, or says what its kind has not."""
    foreign = [field for field in _FIELDS if getattr(definition, field) != getattr(_EMPTY, field)]
    if foreign := [field for field in foreign if field not in _OWN_FIELDS[kind]]:
        message = f"A {kind.value.lower()} has no {' and no '.join(foreign)}."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})
    _check_ttl(name, definition.ttl_ms)
    _check_properties(name, definition.properties)
    _check_columns(name, definition)
    if kind is ObjectKind.TABLE and definition.column(definition.key) is None:
        message = f"Table {name!r} needs a key that is one of its columns; {definition.key!r} is none."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})
    if kind is ObjectKind.VIEW:
        _check_name(ObjectKind.TABLE, definition.over)
    if kind is ObjectKind.GRANT and (not definition.privileges or Privilege.UNKNOWN in definition.privileges):
        message = f"Grant {name!r} allows nothing: say READ, WRITE or both."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})


_FIELDS = Definition.__struct_fields__
_EMPTY = Definition()
_OWN_FIELDS: Mapping[ObjectKind, tuple[str, ...]] = {
    ObjectKind.DATABASE: ("ttl_ms", "properties"),
    ObjectKind.TABLE: ("columns", "key", "ttl_ms", "properties"),
    ObjectKind.VIEW: ("columns", "over", "properties"),
    ObjectKind.GRANT: ("privileges",),
}


def _check_form(statement: Statement) -> None:
    verb, kind, name = statement.verb, statement.kind, statement.name
    if verb is Verb.UNKNOWN or kind is ObjectKind.UNKNOWN:
        message = f"The statement about {name[:100]!r} says what this version does not know."
        raise _bad_statement(name, message)
    _check_name(kind, name)
    about = f"{verb.value} of {name!r}"
    if verb is not Verb.ALTER or kind is not ObjectKind.VIEW:
        _check_belongs(name, about, "definition", statement.definition is not None, (Verb.CREATE,), verb)
    _check_belongs(name, about, "new_name", bool(statement.new_name), (Verb.RENAME,), verb)
    if statement.definition is not None:
        check_definition(kind, name, statement.definition)
    if statement.new_name:
        _check_rename(kind, name, statement.new_name)
    if verb is Verb.ALTER:
        _check_alteration(statement)
    elif _alters(statement):
        raise _bad_statement(name, f"{verb.value} of {name!r} alters nothing; ALTER does.")


def _check_belongs(name: str, about: str, field: str, said: bool, owners: tuple[Enum, ...], verb: Enum) -> None:
    """Raise Refused if the field is not said where it is needed, or said where it means nothing."""
    if said is (verb in owners):
        return
    if said:
        belongs = " and ".join(str(each.value) for each in owners)
        raise _bad_statement(name, f"{about} has a `{field}`, which belongs to {belongs}.")
    raise _bad_statement(name, f"{about} needs a `{field}`, and has none.")


def _bad_statement(name: str, message: str) -> Refused:
    return Refused("BAD_STATEMENT", "TA3", message, {"object": name[:200]})


def _check_name(kind: ObjectKind, name: str) -> None:
    if not _FORMS[kind].fullmatch(name):
        message = f"{name[:100]!r} is no name of a {kind.value.lower()}{_too_long(re.split('[.@]', name))}."
        hint = f"{_WORDS_HINT}: shop, shop.orders, ada@shop.orders."
        raise Refused("BAD_NAME", "TA1", message, {"name": name[:100]}, hint=hint)


_WORDS_HINT = f"Words have 1 to {WORD_CHARS_MAX} letters, digits and _, and begin with no digit"


def _too_long(words: Iterable[str]) -> str:
    longest = max(map(len, words))
    return f": a word of it has {longest} characters, at most {WORD_CHARS_MAX} are possible" * (
        longest > WORD_CHARS_MAX
    )


def _check_rename(kind: ObjectKind, name: str, new_name: str) -> None:
    if kind not in (ObjectKind.TABLE, ObjectKind.VIEW):
        message = f"A {kind.value.lower()} keeps its name: others contain it."
        raise Refused("RENAME_NOT_ALLOWED", "TA1", message, {"object": name})
    _check_name(kind, new_name)
    if database_of(new_name) != database_of(name) or new_name == name:
        message = f"{name!r} can get another name in its own database, and not {new_name!r}."
        raise Refused("RENAME_NOT_ALLOWED", "TA1", message, {"object": name})


def _alters(statement: Statement) -> bool:
    return any(
        (
            statement.columns,
            statement.ttl_ms is not None,
            statement.properties,
            statement.unset,
            statement.privileges,
        )
    )


def _check_alteration(statement: Statement) -> None:
    kind, name = statement.kind, statement.name
    if not _alters(statement) and statement.definition is None:
        raise _bad_statement(name, f"ALTER of {name!r} says nothing that is to change.")
    asked = {
        "columns": statement.columns,
        "ttl_ms": statement.ttl_ms is not None,
        "properties": statement.properties or statement.unset,
        "privileges": statement.privileges,
    }
    own = [field for field in _OWN_FIELDS[kind] if not (kind is ObjectKind.VIEW and field == "columns")]
    foreign = [field for field, value in asked.items() if value and field not in own]
    if foreign:
        message = f"Of a {kind.value.lower()} nobody can alter {' and '.join(foreign)}: {name!r}."
        raise _bad_statement(name, message)
    if statement.definition is not None and statement.definition.properties:
        raise _bad_statement(name, f"ALTER of {name!r} sets and unsets `properties` beside its definition.")
    _check_ttl(name, statement.ttl_ms)
    _check_properties(name, statement.properties)
    if len(statement.columns) > COLUMNS_MAX or len(statement.unset) > PROPERTIES_MAX:
        message = f"ALTER of {name!r} names more than {COLUMNS_MAX} columns or unsets more than {PROPERTIES_MAX}."
        raise _bad_statement(name, message)
    if Privilege.UNKNOWN in statement.privileges:
        raise _bad_statement(name, f"Grant {name!r}: the rights are READ and WRITE.")
    if twice := _repeated((*statement.properties, *statement.unset)):
        message = f"Property {twice!r} of {name!r} is set and unset at once, or twice."
        raise Refused("NAMED_TWICE", "TA4", message, {"object": name})
    if twice := _repeated(each for action in statement.columns for each in (action.name, action.new_name) if each):
        message = f"Column {twice!r} of {name!r} is named twice in one change."
        raise Refused("COLUMN_NAMED_TWICE", "TA4", message, {"object": name, "column": twice})
    for action in statement.columns:
        _check_action(name, action)


def _check_action(name: str, action: ColumnAction) -> None:
    about = f"{action.verb.value} of column {action.name[:100]!r} of {name!r}"
    if action.verb is ColumnVerb.UNKNOWN or action.type is ColumnType.UNKNOWN:
        raise _bad_statement(name, f"{about} says what this version does not know.")
    typed = (ColumnVerb.ADD, ColumnVerb.RETYPE)
    _check_belongs(name, about, "type", action.type is not None, typed, action.verb)
    _check_belongs(name, about, "new_name", bool(action.new_name), (ColumnVerb.RENAME,), action.verb)
    _check_column_name(name, action.new_name or action.name)


def _check_columns(name: str, definition: Definition) -> None:
    if len(definition.columns) > COLUMNS_MAX:
        message = f"{name!r} would have {len(definition.columns)} columns, at most {COLUMNS_MAX} are possible."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})
    for column in definition.columns:
        _check_column_name(name, column.name)
        if column.type is ColumnType.UNKNOWN and not definition.over:  # a view's are those of its table
            message = f"Column {column.name!r} of {name!r} has a type that this version does not know."
            raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})
    if twice := _repeated(column.name for column in definition.columns):
        message = f"Column {twice!r} of {name!r} is named twice."
        raise Refused("COLUMN_NAMED_TWICE", "TA4", message, {"object": name, "column": twice})


def _check_column_name(name: str, column: str) -> None:
    if not _COLUMN.fullmatch(column):
        message = f"{column[:100]!r} is no name of a column of {name!r}{_too_long([column])}."
        raise Refused("BAD_NAME", "TA1", message, {"name": column[:100]}, hint=f"{_WORDS_HINT}.")


def _check_ttl(name: str, ttl_ms: int | None) -> None:
    if ttl_ms is not None and not 0 <= ttl_ms <= TTL_MS_MAX:
        message = f"The time to live of {name!r} is 0 for ever, or up to {TTL_MS_MAX} ms, and not {ttl_ms}."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})


def _check_properties(name: str, properties: Mapping[str, str]) -> None:
    if len(properties) > PROPERTIES_MAX:
        message = f"{name!r} would have {len(properties)} properties, at most {PROPERTIES_MAX} are possible."
        raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})
    if "" in properties:
        raise Refused("BAD_DEFINITION", "TA3", f"A property of {name!r} has no name.", {"object": name})
    for each, value in properties.items():
        for what, size in (("a name", len(each)), ("a value", len(value))):
            if size > TEXT_CHARS_MAX:
                message = f"Property {each[:100]!r} of {name!r} has {what} of {size} characters"
                message += f", at most {TEXT_CHARS_MAX} are possible."
                raise Refused("BAD_DEFINITION", "TA3", message, {"object": name})


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
