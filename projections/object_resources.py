"""What is seen of databases, tables, views of tables, grants, and of changes of these: items as in `resources.py`."""

from collections.abc import Mapping

import msgspec


class ObjectColumn(msgspec.Struct, frozen=True):
    """`number` is the column's for ever: data is kept under it."""

    name: str
    type: str
    number: int


class ObjectDefinition(msgspec.Struct, frozen=True):
    """What an object is, or is to be; what its kind has not is empty. `ttl_ms`: 0 is for ever."""

    columns: tuple[ObjectColumn, ...] = ()
    key: str = ""
    ttl_ms: int | None = None
    properties: Mapping[str, str] = {}
    over: str = ""
    privileges: tuple[str, ...] = ()


class SchemaObject(msgspec.Struct, frozen=True):
    """A database, table, view or grant. `incarnation` is its number, which no other object ever had.

    `state`: USING at rest; PRE_CREATE, PRE_ALTER, PRE_RENAME, PRE_DELETE while the change `change` is prepared, with
    what it would become in `pending`. What is being created has no `definition` yet. `queue`: further changes that wait
    for it. `actions`: what can be done with it now.
    """

    name: str
    kind: str
    state: str
    incarnation: int
    version: int
    definition: ObjectDefinition | None
    committed_at: int | None
    pending: ObjectDefinition | None
    pending_version: int | None
    change: int | None
    queue: tuple[int, ...]
    actions: tuple[str, ...]


class ChangeStep(msgspec.Struct, frozen=True):
    """What a change does to one object; `details` says of an alteration what it alters, if that is known here."""

    verb: str
    kind: str
    name: str
    new_name: str
    details: tuple[str, ...] = ()


class SchemaChange(msgspec.Struct, frozen=True):
    """One change of objects. `state`: QUEUED behind the changes in `behind`; PREPARED, when each server in `asked` is
    to apply it; COMMITTED or ROLLED_BACK.

    `age_ms`: since it was asked for, of one that is over how long it took. `at_most_ms`: until it proceeds, whoever is
    silent; None if it is not prepared or no time ends that. `silent`: those asked that were not heard since it was
    prepared. `in_force_by`: when, at the latest, what it takes away from a principal is taken away everywhere.
    `undeleted`: servers that have not deleted yet what it has closed. `code`, `rule`, `message`: why it is rolled back.
    """

    number: int
    state: str
    does: str
    steps: tuple[ChangeStep, ...]
    request: str
    actor: str
    reason: str
    time: str
    age_ms: int
    prepared_at: int | None
    closed_at: int | None
    closed_time: str | None
    deadline_ms: int | None
    behind: tuple[int, ...]
    asked: tuple[str, ...]
    silent: tuple[str, ...]
    at_most_ms: int | None
    in_force_by: str | None
    evidence: Mapping[str, tuple[str, ...]] | None
    undeleted: tuple[str, ...]
    code: str
    rule: str
    message: str
    facts: Mapping[str, str]
