"""Schema change: definitions of tables change while a node is silent, and nobody answers from old ones (TA14).

Threats. A server that is down, cut off or stopped in the middle of an answer makes every change fail, or wait for ever;
or the change goes on without it, and it serves rows of a dropped table, hides a column that is there, takes rows into a
table that is no more, or honours a right that was taken away. A coordinator dies between two steps of a change. A name
is dropped and created again, and what the former table left shows up in the new one.

Invariant. A change is in the log as prepared, then as committed or rolled back, exactly one of these. When it is
committed, every server that may act has applied its preparation. From that on the server answers in a way that is right
whether the change is committed or not: it shows columns that are added and hides those that are dropped, admits what
suits both definitions, honours a right only if both give it, serves nothing of what is dropped and nothing yet of what
is created. So nothing is ever answered from a definition that a commit has ended, and at most two definitions that
follow each other are in use at once (TA23).

Argument. A commit is the verdict of `streams/rules/verdict.py` at the preparation's position: each server that holds a
lease has applied it, or provably serves nothing, and comes back only through the log, which holds the preparation. One
silent node costs proceed_ms, and every change that was prepared meanwhile proceeds at the same verdict. A commit needs
not be heard by anybody in time: until it is, servers are in the state that suits both ends. Nor does a rollback, so it
never fails (TA22).

Data is closed by the commit, not by its deletion: what was written under an incarnation that is no more, or under a
column's number that is no more, is dropped by whoever reads it. So a name is free again at the commit, and servers
delete what is closed when they come to it; who is away does when it is back.

Changes of one object come one at a time, changes of others side by side (`claims.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import ClassVar

import msgspec

from topolog.events import claims
from topolog.events.asked import RequestRef
from topolog.events.claims import Claims
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Version
from topolog.events.leases import NodeRow
from topolog.events.membership import NodeLeft
from topolog.events.object_definition import Definition, ObjectKind, Statement, Step, Verb
from topolog.events.requests import grant
from topolog.events.state import Row, State
from topolog.events.terms import cluster

CHANGES_KEPT = 1_024
"""Changes that are over are kept among the rows, without their definitions, up to so many; never fewer than those that
the newest decision has ended, nor may more be given up in one set: how each ended must be seen at the end of some set.
"""


class ObjectStatus(Enum):
    """Where an object is: USING at rest, otherwise as an open change has prepared it."""

    PRE_CREATE = "PRE_CREATE"
    USING = "USING"
    PRE_ALTER = "PRE_ALTER"
    PRE_RENAME = "PRE_RENAME"
    PRE_DELETE = "PRE_DELETE"


class ObjectRow(Row, frozen=True):
    """One object, under its name. `incarnation` is its number, which no other object ever had.

    `definition`: the committed one at `version`, None before the first. `pending`: what an open change would make of
    it, at `pending_version`; versions of one incarnation are never given twice. `columns_ever`: the highest
    number that a column of it has had. `change` is the number of the open change.
    A table that is being renamed has a second row under its new name, PRE_CREATE and of the same incarnation.
    """

    KIND: ClassVar[str] = "object"

    kind: ObjectKind
    name: str
    incarnation: int
    status: ObjectStatus
    version: Version
    definition: Definition | None
    committed_at: Position
    pending: Definition | None = None
    pending_version: Version = Version(0)
    columns_ever: int = 0
    change: Position | None = None


class ChangeStatus(Enum):
    """A change waits for others (QUEUED), for the verdict (PREPARED), or is over."""

    QUEUED = "QUEUED"
    PREPARED = "PREPARED"
    COMMITTED = "COMMITTED"
    ROLLED_BACK = "ROLLED_BACK"


class ChangeRow(Row, frozen=True):
    """One change, under its number: the position of the first decision about it.

    `statements` are there while it is queued, `steps` from then on. `claims` is empty when it is over. `undeleted`:
    servers that have not said yet that they have deleted the data which it has closed.
    `code`, `rule`, `message`, `facts` say why it was rolled back.
    """

    KIND: ClassVar[str] = "change"

    number: Position
    request: str
    status: ChangeStatus
    statements: tuple[Statement, ...]
    steps: tuple[Step, ...]
    deadline_ms: int | None
    prepared_at: Position | None = None
    closed_at: Position | None = None
    evidence: Evidence | None = None
    undeleted: tuple[NodeId, ...] = ()
    claims: Claims = Claims()
    code: str = ""
    rule: str = ""
    message: str = ""
    facts: Mapping[str, str] = {}

    @property
    def is_open(self) -> bool:
        return self.status in (ChangeStatus.QUEUED, ChangeStatus.PREPARED)


class ClosedRow(Row, frozen=True):
    """The numbers of changes that are over and still kept, in the order in which they ended; one row, an index of what
    the changes' own rows say."""

    KIND: ClassVar[str] = "closed-changes"
    VOLATILE: ClassVar[bool] = True

    changes: tuple[Position, ...]


class SchemaChangeQueued(Decision, frozen=True):
    """The change waits for earlier ones of the same objects."""

    request: RequestRef
    statements: tuple[Statement, ...]
    deadline_ms: int | None


class SchemaChangePrepared(Decision, frozen=True):
    """From here on no server relies on what these objects were. `change` is the number of one that was queued, which
    has no `request` here."""

    request: RequestRef | None
    change: Position | None
    steps: tuple[Step, ...]
    deadline_ms: int | None


class SchemaChangeCommitted(Decision, frozen=True):
    """These changes hold, and what they drop is closed."""

    changes: tuple[Position, ...]
    evidence: Evidence


class SchemaChangeRolledBack(Decision, frozen=True):
    """The change is over, and everything is as before. `request` has cancelled it, if one did."""

    request: RequestRef | None
    change: Position
    code: str
    rule: str
    message: str
    facts: Mapping[str, str]


class DataDeletionConfirmed(Decision, frozen=True):
    """This life of a server has deleted all data that these changes have closed."""

    request: RequestRef
    node: NodeId
    incarnation: Incarnation
    changes: tuple[Position, ...]


ObjectEvent = (
    SchemaChangeQueued | SchemaChangePrepared | SchemaChangeCommitted | SchemaChangeRolledBack | DataDeletionConfirmed
)


def object_row(state: State, name: str) -> ObjectRow | None:
    return state.get(ObjectRow, name)


def change_row(state: State, number: int) -> ChangeRow | None:
    return state.get(ChangeRow, str(number))


def claims_of(state: State, actions: tuple[Statement, ...] | tuple[Step, ...]) -> Claims:
    """All that these claim, as objects are now."""
    return claims.claims_of((each, _over(state, each.name)) for each in actions)


def _over(state: State, name: str) -> str:
    row = object_row(state, name)
    return row.definition.over if row and row.definition else ""


def closes_data(state: State, row: ChangeRow) -> bool:
    """Whether the commit of a prepared change closes data: a table's, or a column's."""
    return any(_closes(step, object_row(state, step.name)) for step in row.steps if step.kind is ObjectKind.TABLE)


def _closes(step: Step, row: ObjectRow | None) -> bool:
    if step.verb is Verb.DROP:
        return True
    if step.verb is not Verb.ALTER or row is None or row.definition is None or step.definition is None:
        return False
    kept = {column.number for column in step.definition.columns}
    return any(column.number not in kept for column in row.definition.columns)


def evolve(state: State, event: ObjectEvent, place: Place) -> None:
    match event:
        case SchemaChangeQueued():
            _queue(state, event, place)
        case SchemaChangePrepared():
            _prepare(state, event, place)
        case SchemaChangeCommitted():
            _close(state, [_commit(state, number, event.evidence, place) for number in event.changes])
        case SchemaChangeRolledBack():
            _roll_back(state, event, place)
        case DataDeletionConfirmed():
            for number in event.changes:
                _note_deleted(state, number, event.node)
            grant(state, event.request, place, f"node {event.node}")


OTHERS = (NodeLeft,)


def evolve_others(state: State, event: NodeLeft, _: Place) -> None:
    """Nobody waits for the deletions of who has left: it deletes what is closed when it is back."""
    for number in _closed(state):
        _note_deleted(state, number, event.node)


def _queue(state: State, event: SchemaChangeQueued, place: Place) -> None:
    number, asked = place.position, claims_of(state, event.statements)
    request, status = str(event.request), ChangeStatus.QUEUED
    row = ChangeRow(number, request, status, event.statements, (), event.deadline_ms, claims=asked)
    state.put(str(number), row)
    claims.join_line(state, number)
    claims.claim(state, asked, number)
    _call_up(state, (number,))
    grant(state, event.request, place, f"change {number}")


def _prepare(state: State, event: SchemaChangePrepared, place: Place) -> None:
    number = place.position if event.change is None else event.change
    before = change_row(state, number)
    if before is None:
        assert event.request is not None, "a change that nobody has queued is somebody's request"
        before = ChangeRow(number, str(event.request), ChangeStatus.QUEUED, (), (), event.deadline_ms)
        claims.join_line(state, number)
        grant(state, event.request, place, f"change {number}")
    claims.unclaim(state, before.claims, number)
    touched = claims_of(state, event.steps)
    claims.claim(state, touched, number)
    prepared = msgspec.structs.replace(
        before,
        status=ChangeStatus.PREPARED,
        statements=(),
        steps=event.steps,
        prepared_at=place.position,
        claims=touched,
    )
    state.put(str(number), prepared)
    claims.note_prepared(state, number)
    _call_up(state, claims.next_after(state, before.claims))
    for step in event.steps:
        _prepare_step(state, step, number)


def _call_up(state: State, numbers: Iterable[Position]) -> None:
    """Those of these changes that were queued and need wait no longer have their turn."""
    rows = [change_row(state, number) for number in dict.fromkeys(numbers)]
    queued = [row for row in rows if row and row.status is ChangeStatus.QUEUED]
    claims.make_ready(state, (row.number for row in queued if not claims.must_wait(state, row.claims, row.number)))


def _prepare_step(state: State, step: Step, number: Position) -> None:
    if step.verb is Verb.CREATE:
        _put_pending(state, _blank(step, step.name, _next_object(state)), step.definition, Version(1), number)
        return
    row = object_row(state, step.name)
    assert row is not None and row.status is ObjectStatus.USING, f"{step.name} is not at rest"
    version = Version(max(row.version, row.pending_version) + 1)
    changing = msgspec.structs.replace(row, status=_PREPARED[step.verb])
    _put_pending(state, changing, step.definition, version, number)
    if step.verb is Verb.RENAME:
        reserved = _blank(step, step.new_name, row.incarnation, row.columns_ever)
        _put_pending(state, reserved, step.definition, version, number)


def _blank(step: Step, name: str, incarnation: int, columns_ever: int = 0) -> ObjectRow:
    """An object that is not there before the commit."""
    status, version = ObjectStatus.PRE_CREATE, Version(0)
    return ObjectRow(step.kind, name, incarnation, status, version, None, NOWHERE, columns_ever=columns_ever)


_PREPARED = {
    Verb.ALTER: ObjectStatus.PRE_ALTER,
    Verb.RENAME: ObjectStatus.PRE_RENAME,
    Verb.DROP: ObjectStatus.PRE_DELETE,
}


def _put_pending(state: State, row: ObjectRow, pending: Definition | None, version: Version, number: Position) -> None:
    numbers = [column.number for column in pending.columns] if pending else []
    ever = max([row.columns_ever, *numbers])
    state.put(
        row.name,
        msgspec.structs.replace(row, pending=pending, pending_version=version, columns_ever=ever, change=number),
    )


def _next_object(state: State) -> int:
    row = cluster(state)
    state.put("", msgspec.structs.replace(row, next_object=row.next_object + 1))
    return row.next_object


def _commit(state: State, number: Position, evidence: Evidence, place: Place) -> ChangeRow:
    """Gives the row of the change as it was."""
    row = change_row(state, number)
    assert row is not None and row.is_open, f"there is no open change {number}"
    # Sorted, for those who start from a store have these rows in another order.
    here = sorted(each.node for _, each in state.rows(NodeRow) if each.holds_lease)
    undeleted = tuple(here) if closes_data(state, row) else ()
    _end(state, row, place, status=ChangeStatus.COMMITTED, evidence=evidence, undeleted=undeleted)
    for step in row.steps:
        _commit_step(state, step, place)
    return row


def _commit_step(state: State, step: Step, place: Place) -> None:
    if step.verb in (Verb.DROP, Verb.RENAME):
        claims.forget_user(state, step.name, _over(state, step.name))
        state.drop(ObjectRow, step.name)
    if step.verb is Verb.DROP:
        return
    name = step.new_name or step.name
    row = object_row(state, name)
    assert row is not None, f"{name} was prepared"
    if row.pending is not None and (before := _over(state, name)) != row.pending.over:
        claims.forget_user(state, name, before)
    used = msgspec.structs.replace(
        row,
        status=ObjectStatus.USING,
        version=row.pending_version,
        definition=row.pending,
        committed_at=place.position,
        pending=None,
        change=None,
    )
    state.put(name, used)
    claims.note_user(state, name, used.definition.over if used.definition else "")


def _roll_back(state: State, event: SchemaChangeRolledBack, place: Place) -> None:
    row = change_row(state, event.change)
    assert row is not None and row.is_open, f"there is no open change {event.change}"
    why = {field: getattr(event, field) for field in ("code", "rule", "message", "facts")}
    _end(state, row, place, status=ChangeStatus.ROLLED_BACK, **why)
    for step in row.steps:
        _roll_back_step(state, step)
    _close(state, [row])
    if event.request is not None:
        grant(state, event.request, place, f"change {event.change}")


def _roll_back_step(state: State, step: Step) -> None:
    if step.verb is Verb.CREATE:
        state.drop(ObjectRow, step.name)
        return
    if step.verb is Verb.RENAME:
        state.drop(ObjectRow, step.new_name)
    row = object_row(state, step.name)
    assert row is not None, f"{step.name} was prepared"
    state.put(step.name, msgspec.structs.replace(row, status=ObjectStatus.USING, pending=None, change=None))


def _end(state: State, row: ChangeRow, place: Place, **rest: object) -> None:
    """The change is over, for `rest`, fields of its row: others may claim what it claimed."""
    claims.unclaim(state, row.claims, row.number)
    steps = tuple(msgspec.structs.replace(step, definition=None) for step in row.steps)
    ended = msgspec.structs.replace(row, statements=(), steps=steps, closed_at=place.position, claims=Claims())
    state.put(str(row.number), msgspec.structs.replace(ended, **rest))


def _close(state: State, ended: Sequence[ChangeRow]) -> None:
    """These changes, as they were, leave the line, and others have their turn. The oldest that were over before are
    forgotten, unless somebody still deletes data: whoever waits for one of these finds it behind this decision."""
    numbers = [row.number for row in ended]
    claims.leave_line(state, numbers)
    _call_up(state, (each for row in ended for each in claims.next_after(state, row.claims)))
    before = _closed(state)
    surplus = max(0, len(before) + len(numbers) - CHANGES_KEPT)
    forgotten = {number for number in before[:surplus] if _is_done(state, number)}
    for number in forgotten:
        state.drop(ChangeRow, str(number))
    state.put("", ClosedRow((*(each for each in before if each not in forgotten), *numbers)))


def _closed(state: State) -> tuple[Position, ...]:
    row = state.get(ClosedRow, "")
    return row.changes if row else ()


def _is_done(state: State, number: Position) -> bool:
    row = change_row(state, number)
    assert row is not None, f"change {number} is kept"
    return not row.undeleted


def _note_deleted(state: State, number: Position, node: NodeId) -> None:
    row = change_row(state, number)
    if row is not None and node in row.undeleted:
        rest = tuple(each for each in row.undeleted if each != node)
        state.put(str(number), msgspec.structs.replace(row, undeleted=rest))
