"""Which open change has to do with which object, and the line in which changes wait for each other (DESIGN §4.5).

A change claims all objects it touches at once, in the order of the log. It claims alone what it changes, and leans on
what that needs: a table on its database, a view on its table, a grant on what it gives rights on. It may begin when no
change before it claims alone what it claims, and none leans on what it claims alone. The first in line never waits, so
all come to their turn.

The rows here are an index of what the changes' own rows say, and have no history.
"""

from bisect import insort
from collections.abc import Iterable
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
    """The numbers of all changes that are not over, ascending; one row, if there are any."""

    KIND: ClassVar[str] = "line"
    VOLATILE: ClassVar[bool] = True

    changes: tuple[Position, ...]


def line(state: State) -> tuple[Position, ...]:
    """The numbers of all changes that are not over, ascending."""
    row = state.get(LineRow, "")
    return row.changes if row else ()


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
        if earlier := [each for each in (*row.alone, *row.leaning) if each < number]:
            found[name] = max(earlier)
    for name in claims.leaning:
        if earlier := [each for each in claims_on(state, name).alone if each < number]:
            found[name] = max(earlier)
    return found


def join_line(state: State, number: Position) -> None:
    """A change has come, and is the newest."""
    state.put("", LineRow((*line(state), number)))


def leave_line(state: State, numbers: Iterable[Position]) -> None:
    """These changes are over."""
    over = frozenset(numbers)
    if rest := tuple(each for each in line(state) if each not in over):
        state.put("", LineRow(rest))
    else:
        state.drop(LineRow, "")


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


def _leaned_on(action: Statement | Step, over: str) -> Iterable[str]:
    match action.kind:
        case ObjectKind.GRANT:
            return (object_of(action.name), database_of(object_of(action.name)))
        case ObjectKind.TABLE | ObjectKind.VIEW:
            table = action.definition.over if action.definition else over
            return (database_of(action.name), *((table, database_of(table)) if table else ()))
    return ()


def _with(numbers: tuple[Position, ...], number: Position) -> tuple[Position, ...]:
    if not numbers or numbers[-1] < number:
        return (*numbers, number)
    ordered = list(numbers)
    insort(ordered, number)
    return tuple(ordered)


def _without(numbers: tuple[Position, ...], number: Position) -> tuple[Position, ...]:
    return tuple(each for each in numbers if each != number) if number in numbers else numbers
