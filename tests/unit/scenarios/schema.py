"""Changes of databases, tables, views and grants in the words of the transcripts.

create database shop [ttl:5000]
create table shop.orders id:INT64 note:STRING [ttl:5000]         the first column is the key
create view shop.big over:shop.orders id note
create grant ada@shop.orders READ WRITE
alter table shop.orders +more:STRING -note id>no price:DOUBLE ttl:0
rename table shop.orders shop.sales
drop table shop.orders
"""

from collections.abc import Iterable, Iterator

from topolog.events import objects as o
from topolog.events.claims import before, users_of
from topolog.events.fold import Event
from topolog.events.ids import NodeId
from topolog.events.object_definition import (
    Column,
    ColumnAction,
    ColumnType,
    ColumnVerb,
    Definition,
    ObjectKind,
    Privilege,
    Statement,
    Step,
    Verb,
)
from topolog.events.state import State


def statements_of(words: Iterable[str]) -> tuple[Statement, ...]:
    """What stands between semicolons."""
    return tuple(_statement(part.split()) for part in " ".join(words).split(" ; "))


def _statement(words: list[str]) -> Statement:
    if_needed = words[-1] == "if-needed"
    verb, kind, name, *rest = words[:-1] if if_needed else words
    head = Verb(verb.upper()), ObjectKind(kind.upper()), name
    match head[0]:
        case Verb.CREATE:
            return Statement(*head, _definition(head[1], rest), if_needed=if_needed)
        case Verb.RENAME:
            return Statement(*head, new_name=rest[0])
        case Verb.ALTER:
            columns = tuple(_action(word) for word in rest if not word.startswith("ttl:"))
            return Statement(*head, columns=columns, ttl_ms=_ttl(rest))
    return Statement(*head, if_needed=if_needed)


def _definition(kind: ObjectKind, words: list[str]) -> Definition:
    if kind is ObjectKind.GRANT:
        return Definition(privileges=tuple(map(Privilege, words)))
    ttl_ms, over = _ttl(words), next((word[5:] for word in words if word.startswith("over:")), "")
    pairs = [word.partition(":") for word in words if not word.startswith(("ttl:", "over:"))]
    columns = tuple(Column(name, ColumnType(type_ or "UNKNOWN")) for name, _, type_ in pairs)
    return Definition(columns, columns[0].name if kind is ObjectKind.TABLE else "", ttl_ms, over=over)


def _ttl(words: list[str]) -> int | None:
    return next((int(word[4:]) for word in words if word.startswith("ttl:")), None)


def _action(word: str) -> ColumnAction:
    name, _, type_ = word.lstrip("+-").partition(":")
    if ">" in word:
        old, _, new = word.partition(">")
        return ColumnAction(ColumnVerb.RENAME, old, new_name=new)
    if word[0] == "-":
        return ColumnAction(ColumnVerb.DROP, name)
    return ColumnAction(ColumnVerb.ADD if word[0] == "+" else ColumnVerb.RETYPE, name, ColumnType(type_))


def content_of_schema(event: Event) -> str:
    """What an event says."""
    match event:
        case o.SchemaChangeQueued():
            return "; ".join(_told(each) for each in event.statements)
        case o.SchemaChangePrepared():
            number = f"change {event.change}: " if event.change is not None else ""
            return number + "; ".join(_told(each) + _told_of_definition(each.definition) for each in event.steps)
        case o.SchemaChangeCommitted():
            return f"changes {' '.join(map(str, event.changes))}" + "".join(_told_of_evidence(event))
        case o.SchemaChangeRolledBack():
            return f"change {event.change}, {event.code} ({event.rule}): {event.message}"
        case o.DataDeletionConfirmed():
            return f"{event.node}, of changes {' '.join(map(str, event.changes))}"
        case _:
            return ""


def _told(of: Statement | Step) -> str:
    new_name = f" to {of.new_name}" if of.new_name else ""
    return f"{of.verb.value.lower()} {of.kind.value.lower()} {of.name}{new_name}"


def _told_of_definition(of: Definition | None) -> str:
    if of is None:
        return ""
    columns = " ".join(f"{each.name}:{each.type.value}#{each.number}" for each in of.columns)
    parts = [f"over {of.over}" if of.over else "", columns, " ".join(each.value for each in of.privileges)]
    parts.append(f"ttl {of.ttl_ms}" if of.ttl_ms else "")
    return "".join(f" ({part})" for part in [", ".join(filter(None, parts))] if part)


def _told_of_evidence(event: o.SchemaChangeCommitted) -> Iterator[str]:
    evidence = event.evidence
    parts = {"applied": evidence.applied, "left": evidence.left, "presumed fenced": evidence.presumed_fenced}
    return (f"; {what}: {' '.join(nodes)}" for what, nodes in parts.items() if nodes)


def object_lines(state: State) -> list[str]:
    """Where each object is; behind `->` what an open change would make of it."""
    return [_object_line(state, row) for _, row in sorted(state.rows(o.ObjectRow))]


def _object_line(state: State, row: o.ObjectRow) -> str:
    now = f"version {row.version}{_told_of_definition(row.definition)}" if row.definition else "nothing"
    then = f" -> version {row.pending_version}{_told_of_definition(row.pending)}" if row.pending else ""
    used = f"; used by {' '.join(users_of(state, row.name))}" if users_of(state, row.name) else ""
    return f"{row.kind.value.lower()} {row.incarnation} {row.name}  {row.status.value}, {now}{then}{used}"


def change_lines(state: State) -> list[str]:
    """Every change that is kept, what it waits for, who still deletes data of it."""
    return [_change_line(state, row) for _, row in state.rows(o.ChangeRow)]


def _change_line(state: State, row: o.ChangeRow) -> str:
    waits = before(state, row.claims, row.number) if row.status is o.ChangeStatus.QUEUED else {}
    behind = f", behind change {max(waits.values())}" if waits else ""
    deletes = f", data on {_listed(row.undeleted)}" if row.undeleted else ""
    return f"change {row.number}  {row.status.value}{behind}{deletes}{', ' + row.code if row.code else ''}"


def _listed(nodes: tuple[NodeId, ...]) -> str:
    return " ".join(nodes)
