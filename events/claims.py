"""Which open change has to do with which object, and the line in which changes wait for each other (TA12).

A change claims all objects it touches at once, in the order of the log. It claims alone what it changes, and leans on
what that needs: a table on its database, a view on its table (the one that it has and the one that it is to have), a
grant on what it gives rights on. It may begin when no change before it claims alone what it claims, and none leans on
what it claims alone. The first in line never waits, so all come to their turn.

A change whose turn comes is planned anew, and may then claim more than it did in the line: the table of a view that was
not there when it came, or shows another one by now; the views of a table. For that it does not go back into the line,
and waits only while a change that is prepared has claimed it (`clashes`): what is prepared is over within a time.

The rows here are an index of what the rows of changes and objects say, and have no history.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec

from topolog.events.ids import Position
from topolog.events.object_definition import ObjectKind, Statement, Step, database_of, object_of
from topolog.events.state import Row, State


class Claims(msgspec.Struct, frozen=True):
    """Names of objects that a change claims."""

    alone: tuple[str, ...] = ()
    leaning: tuple[str, ...] = ()


class ClaimsRow(Row, frozen=True):
    """The numbers of the changes that claim an object, under its name; ascending."""

    KIND: ClassVar[str] = "claims"
    VOLATILE: ClassVar[bool] = True

    alone: tuple[Position, ...] = ()
    leaning: tuple[Position, ...] = ()


class LineRow(Row, frozen=True):
    """The numbers of all changes that are not over, ascending; one row, if there are any.

    `prepared`: those that wait for the verdict, in the order of their preparation. `ready`: those that were queued and
    whose turn has come, ascending; one that is prepared before them may put them back.
    """

    KIND: ClassVar[str] = "line"
    VOLATILE: ClassVar[bool] = True

    changes: tuple[Position, ...] = ()
    prepared: tuple[Position, ...] = ()
    ready: tuple[Position, ...] = ()


class UsersRow(Row, frozen=True):
    """The names of the views and grants that need an object, under its name."""

    KIND: ClassVar[str] = "users"
    VOLATILE: ClassVar[bool] = True

    names: tuple[str, ...]


def line_row(state: State) -> LineRow:
    return state.get(LineRow, "") or LineRow()


def line(state: State) -> tuple[Position, ...]:
    """The numbers of all changes that are not over, ascending."""
    return line_row(state).changes


def users_of(state: State, name: str) -> tuple[str, ...]:
    """The views and grants that need this object; the tables and views in a database are not among them."""
    row = state.get(UsersRow, name)
    return row.names if row else ()


def claims_on(state: State, name: str) -> ClaimsRow:
    return state.get(ClaimsRow, name) or ClaimsRow()


def claims_of(actions: Iterable[tuple[Statement | Step, str]]) -> Claims:
    """What these claim together; beside each the table of the view that it changes, empty if it changes none."""
    alone, leaning = dict[str, None](), dict[str, None]()
    for action, over in actions:
        alone.update(dict.fromkeys(filter(None, (action.name, action.new_name))))
        leaning.update(dict.fromkeys(_leaned_on(action, over)))
    return Claims(tuple(alone), tuple(name for name in leaning if name not in alone))


def before(state: State, claims: Claims, number: Position) -> dict[str, Position]:
    """By name the newest change before `number` that it has to wait for."""
    found = {}
    for name in claims.alone:
        row = claims_on(state, name)
        if earlier := (*_last_before(row.alone, number), *_last_before(row.leaning, number)):
            found[name] = max(earlier)
    for name in claims.leaning:
        if earlier := _last_before(claims_on(state, name).alone, number):
            found[name] = max(found.get(name, earlier[0]), earlier[0])
    return found


def must_wait(state: State, claims: Claims, number: Position) -> bool:
    """Whether there is anything in `before`."""
    own = [claims_on(state, name) for name in claims.alone]
    firsts = [each[0] for row in own for each in (row.alone, row.leaning) if each]
    firsts += [row.alone[0] for name in claims.leaning if (row := claims_on(state, name)).alone]
    return any(first < number for first in firsts)


def clashes(state: State, claims: Claims, number: Position) -> bool:
    """Whether another change that is prepared, whenever it came, claims alone what is claimed here, or leans on what is
    claimed alone."""
    prepared = frozenset(line_row(state).prepared) - {number}
    rows = [claims_on(state, name) for name in claims.alone] if prepared else []
    held = [each for row in rows for each in (*row.alone, *row.leaning)]
    held += [each for name in claims.leaning for each in claims_on(state, name).alone] if prepared else []
    return not prepared.isdisjoint(held)


def next_after(state: State, released: Claims) -> Iterator[Position]:
    """Who may be able to begin, now that nobody claims this any more for a change that did: those next in each line."""
    for name in released.alone:
        row = claims_on(state, name)
        yield from row.alone[:1]
        yield from row.leaning[: bisect_left(row.leaning, row.alone[0])] if row.alone else row.leaning
    for name in released.leaning:
        yield from claims_on(state, name).alone[:1]


def join_line(state: State, number: Position) -> None:
    """A change has come, and is the newest."""
    row = line_row(state)
    state.put("", LineRow((*row.changes, number), row.prepared, row.ready))


def make_ready(state: State, numbers: Iterable[Position]) -> None:
    """The turn of these has come."""
    row = line_row(state)
    if added := frozenset(numbers).difference(row.ready):
        state.put("", LineRow(row.changes, row.prepared, tuple(sorted((*row.ready, *added)))))


def note_prepared(state: State, number: Position) -> None:
    """The change waits for the verdict from here on."""
    row = line_row(state)
    state.put("", LineRow(row.changes, (*row.prepared, number), _without(row.ready, number)))


def leave_line(state: State, numbers: Iterable[Position]) -> None:
    """These changes are over."""
    over, row = frozenset(numbers), line_row(state)
    rest = LineRow(
        *(tuple(each for each in part if each not in over) for part in (row.changes, row.prepared, row.ready))
    )
    if rest.changes:
        state.put("", rest)
    else:
        state.drop(LineRow, "")


def note_user(state: State, name: str, over: str) -> None:
    """A view or a grant is there; `over` is the view's table."""
    for needed in _used_by(name, over):
        if name not in (users := users_of(state, needed)):
            state.put(needed, UsersRow((*users, name)))


def forget_user(state: State, name: str, over: str) -> None:
    for needed in _used_by(name, over):
        if rest := tuple(each for each in users_of(state, needed) if each != name):
            state.put(needed, UsersRow(rest))
        else:
            state.drop(UsersRow, needed)


def claim(state: State, claims: Claims, number: Position) -> None:
    for name in claims.alone:
        row = claims_on(state, name)
        state.put(name, ClaimsRow(_with(row.alone, number), row.leaning))
    for name in claims.leaning:
        row = claims_on(state, name)
        state.put(name, ClaimsRow(row.alone, _with(row.leaning, number)))


def unclaim(state: State, claims: Claims, number: Position) -> None:
    for name in (*claims.alone, *claims.leaning):
        row = claims_on(state, name)
        left = ClaimsRow(_without(row.alone, number), _without(row.leaning, number))
        if left == ClaimsRow():
            state.drop(ClaimsRow, name)
        else:
            state.put(name, left)


def _used_by(name: str, over: str) -> Iterator[str]:
    if "@" in name:
        yield object_of(name)
    if over:
        yield over


def _last_before(numbers: tuple[Position, ...], number: Position) -> tuple[Position, ...]:
    """The last of these ascending numbers that is below `number`, if one is."""
    end = bisect_left(numbers, number)
    return numbers[end - 1 : end] if end else ()


def _leaned_on(action: Statement | Step, over: str) -> Iterable[str]:
    match action.kind:
        case ObjectKind.GRANT:
            return (object_of(action.name), database_of(object_of(action.name)))
        case ObjectKind.TABLE | ObjectKind.VIEW:
            tables = filter(None, (action.definition.over if action.definition else "", over))
            return (database_of(action.name), *(each for table in tables for each in (table, database_of(table))))
    return ()


def _with(numbers: tuple[Position, ...], number: Position) -> tuple[Position, ...]:
    if not numbers or numbers[-1] < number:
        return (*numbers, number)
    ordered = list(numbers)
    insort(ordered, number)
    return tuple(ordered)


def _without(numbers: tuple[Position, ...], number: Position) -> tuple[Position, ...]:
    return tuple(each for each in numbers if each != number) if number in numbers else numbers
