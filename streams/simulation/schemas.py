"""What operators ask of databases, tables, views and grants, drawn at random: some of it cannot be."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from topolog.events.claims import line
from topolog.events.object_definition import (
    ABSENT,
    WIDER,
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
from topolog.events.objects import ObjectRow, object_row
from topolog.events.state import State
from topolog.streams.simulation.operations import log_id_of
from topolog.streams.simulation.tables import USERS
from topolog.streams.simulation.world import World

TYPES = (ColumnType.INT32, ColumnType.INT64, ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.STRING)
TTLS_MS = (0, 0, 300, 1_500)

_DATABASES = ("d0", "d0", "d1")
_TABLES = ("t0", "t1", "t2")
_COLUMNS = ("c0", "c1", "c2", "c3")
_DEADLINES_MS = (None, None, None, None, 60, 400, 1_200)
_STATEMENTS = (1, 1, 1, 1, 2, 3)
_IF_NEEDED = 0.4
_PLANNED = 0.1
_CANCELS = 0.15
_AGAIN_MS = 200
_FITTING = 0.75
"""How often somebody asks for what could be, as far as he knows the objects."""


def change(world: World, draw: random.Random) -> None:
    """One change of several objects, or a cancellation; nothing before anybody knows the log."""
    log_id = log_id_of(world)
    if log_id is None:
        return
    state = _known(world, draw)
    head = (world.operator.next_id(), log_id, "op", "drill")
    open_changes = line(state)
    if open_changes and draw.random() < _CANCELS:
        world.note_deed(f"CANCEL change {open_changes[-1]}")
        world.operator.send(ChangeCancellationRequested(*head, draw.choice(open_changes)))
        return
    found = {each.name: each for each in (_statement(state, draw) for _ in range(draw.choice(_STATEMENTS)))}
    asked = SchemaChangeRequested(*head, tuple(found.values()), draw.choice(_DEADLINES_MS))
    world.note_deed(f"CHANGE {', '.join(map(brief, asked.statements))}")
    world.operator.send(asked)


def begin_schema(world: World) -> None:
    """What a service finds when it is new: a database with two tables, a view and rights."""
    log_id = log_id_of(world)
    if log_id is None:
        world.timeline.after(_AGAIN_MS, partial(begin_schema, world))
        return
    columns = (Column("id", ColumnType.INT64), Column("c0", ColumnType.INT32), Column("c1", ColumnType.STRING))
    right = Definition(privileges=(Privilege.READ,))
    statements = (
        _new(ObjectKind.DATABASE, "d0", Definition()),
        *(_new(ObjectKind.TABLE, f"d0.{each}", Definition(columns, "id")) for each in _TABLES[:2]),
        _new(ObjectKind.VIEW, "d0.v0", Definition(over="d0.t1")),
        *(_new(ObjectKind.GRANT, f"u0@d0.{each}", right) for each in _TABLES[:2]),
    )
    world.note_deed("BEGIN with database d0")
    world.operator.send(SchemaChangeRequested(world.operator.next_id(), log_id, "op", "drill", statements))


def _new(kind: ObjectKind, name: str, definition: Definition) -> Statement:
    return Statement(Verb.CREATE, kind, name, definition, if_needed=True)


def brief(statement: Statement) -> str:
    """One statement in a line of history."""
    actions = "".join(
        f" {each.verb.value} {each.name} {each.type.value if each.type else each.new_name}"
        for each in statement.columns
    )
    return f"{statement.verb.value} {statement.name}{actions} {statement.new_name}".strip()


def _known(world: World, draw: random.Random) -> State:
    """What some node, behind or not, takes the objects to be."""
    return draw.choice(world.nodes).session.core.state if world.nodes else State()


def _statement(state: State, draw: random.Random) -> Statement:
    return draw.choice(_VERBS)(state, draw)


def _named(state: State, draw: random.Random, kind: ObjectKind) -> str:
    """One that is there, as far as is known, or any."""
    known = [row.name for _, row in state.rows(ObjectRow) if row.kind is kind]
    return draw.choice(known) if known and draw.random() < _FITTING else _any_name(draw, kind)


def _any_name(draw: random.Random, kind: ObjectKind) -> str:
    database = draw.choice(_DATABASES)
    match kind:
        case ObjectKind.DATABASE:
            return database
        case ObjectKind.TABLE:
            return f"{database}.{draw.choice(_TABLES)}"
        case ObjectKind.VIEW:
            return f"{database}.v{draw.randrange(2)}"
    return f"{draw.choice(USERS)}@{database}.{draw.choice(_TABLES)}"


def _create(_: State, draw: random.Random) -> Statement:
    kind = draw.choice((*_OFTEN, ObjectKind.DATABASE))
    definition, name = Definition(), _any_name(draw, kind)
    match kind:
        case ObjectKind.DATABASE:
            definition = Definition(ttl_ms=draw.choice(TTLS_MS))
        case ObjectKind.TABLE:
            some = draw.sample(_COLUMNS, k=draw.randint(1, 3))
            columns = (Column("id", ColumnType.INT64), *(Column(each, draw.choice(TYPES)) for each in some))
            definition = Definition(columns, "id", draw.choice((None, *TTLS_MS)))
        case ObjectKind.VIEW:
            definition = Definition(over=f"{name[:2]}.{draw.choice(_TABLES)}")
        case ObjectKind.GRANT:
            definition = Definition(privileges=_privileges(draw))
    return Statement(Verb.CREATE, kind, name, definition, if_needed=draw.random() < _IF_NEEDED)


def _drop(state: State, draw: random.Random) -> Statement:
    kind = draw.choice((*_OFTEN, ObjectKind.TABLE, *([ObjectKind.DATABASE] if draw.random() < 0.1 else [])))
    name = _named(state, draw, kind)
    return Statement(Verb.DROP, kind, name, if_needed=draw.random() < _IF_NEEDED, planned_on=_plan(state, draw, name))


def _rename(state: State, draw: random.Random) -> Statement:
    kind = draw.choice((ObjectKind.TABLE, ObjectKind.TABLE, ObjectKind.VIEW))
    name = _named(state, draw, kind)
    new_name = f"{name.partition('.')[0]}.{draw.choice(_TABLES)}"
    return Statement(Verb.RENAME, kind, name, new_name=new_name, if_needed=draw.random() < _IF_NEEDED)


def _alter(state: State, draw: random.Random) -> Statement:
    kind = draw.choice((ObjectKind.TABLE, ObjectKind.TABLE, ObjectKind.TABLE, ObjectKind.GRANT, ObjectKind.DATABASE))
    name = _named(state, draw, kind)
    planned_on, if_needed = _plan(state, draw, name), draw.random() < _IF_NEEDED
    rest = {"planned_on": planned_on, "if_needed": if_needed}
    match kind:
        case ObjectKind.GRANT:
            return Statement(Verb.ALTER, kind, name, privileges=_privileges(draw), **rest)  # type: ignore[arg-type]
        case ObjectKind.DATABASE:
            return Statement(Verb.ALTER, kind, name, ttl_ms=draw.choice(TTLS_MS), **rest)  # type: ignore[arg-type]
    if draw.random() < 0.25:
        return Statement(Verb.ALTER, kind, name, ttl_ms=draw.choice(TTLS_MS), **rest)  # type: ignore[arg-type]
    row = object_row(state, name)
    columns = tuple(row.definition.columns) if row and row.definition else ()
    actions = {each.name: each for each in _actions(columns, draw)}
    return Statement(Verb.ALTER, kind, name, columns=tuple(actions.values()), **rest)  # type: ignore[arg-type]


def _actions(columns: tuple[Column, ...], draw: random.Random) -> Iterator[ColumnAction]:
    """One or two; names that are taken or unknown are refused."""
    for _ in range(draw.choice((1, 1, 2))):
        others = [each for each in columns if each.name != "id"]
        held = draw.choice(others) if others and draw.random() < _FITTING else Column(draw.choice(_COLUMNS), TYPES[0])
        match draw.choice(("add", "add", "drop", "drop", "retype", "rename")):
            case "add":
                yield ColumnAction(ColumnVerb.ADD, draw.choice(_COLUMNS), draw.choice(TYPES))
            case "drop":
                yield ColumnAction(ColumnVerb.DROP, held.name)
            case "retype":
                wider = WIDER.get(held.type, ())
                yield ColumnAction(ColumnVerb.RETYPE, held.name, draw.choice(wider or TYPES))
            case _:
                yield ColumnAction(
                    ColumnVerb.RENAME, held.name, new_name=held.name[:2] if len(held.name) > 2 else f"{held.name}x"
                )


def _privileges(draw: random.Random) -> tuple[Privilege, ...]:
    return tuple(draw.sample((Privilege.READ, Privilege.WRITE), k=draw.randint(1, 2)))


def _plan(state: State, draw: random.Random, name: str) -> int | None:
    """Some state what they have seen, and are wrong if it was long ago."""
    if draw.random() > _PLANNED:
        return None
    row = object_row(state, name)
    return row.committed_at if row and row.definition else ABSENT


_OFTEN = (ObjectKind.TABLE, ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.GRANT)
_VERBS: tuple[Callable[[State, random.Random], Statement], ...] = (
    _create,
    _create,
    _create,
    _drop,
    _alter,
    _alter,
    _alter,
    _alter,
    _rename,
)
