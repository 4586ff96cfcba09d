"""Everything in a cluster that is not over: what, since when, whom it waits for, until when at the latest, what to do.

One function, so that the CLI, the page, `explain cluster` and the explanation of a decision say the same of a thing. It
is a function of a reading: of the past it tells what was pending then, but for what is not kept, when somebody was
heard. Whom a verdict waits for is computed by the very rule the coordinator goes by (`streams/rules/verdict.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import get_args

from topolog.events.errors import NotFound
from topolog.events.ids import Position
from topolog.projections import pending_members, pending_partitions, pending_sessions
from topolog.projections.pending_resources import Pending, PendingKind
from topolog.projections.pending_view import PendingView
from topolog.projections.queries import not_found
from topolog.projections.resources import Awaited
from topolog.projections.store import Reading

_RANKS = {kind: rank for rank, kind in enumerate(get_args(PendingKind))}

_OF_ROWS: tuple[Callable[[PendingView], Iterator[Pending]], ...] = (
    pending_members.of_cluster,
    pending_members.of_nodes,
    pending_members.of_types,
    pending_members.of_changes,
    pending_partitions.of_exchanges,
    pending_sessions.of_sessions,
)


def pending(reading: Reading, age_ms: int) -> list[Pending]:
    """Everything that is pending, the worst first: of one kind what no time ends, then what waits the longest."""
    view = PendingView(reading, age_ms)
    return sorted(chain(_rows(view), pending_partitions.of_partitions(view)), key=_badness)


def named(reading: Reading, age_ms: int, name: str) -> Pending:
    """One of them by its name; raises NotFound where it is over, or never was."""
    found = pending(reading, age_ms)
    one = next((each for each in found if each.name == name), None)
    if one is None:
        error = not_found(name, (each.name for each in found), "pending thing")
        hint = error.hint or "It is over, or never was: `topolog get pending` lists what is not."
        raise NotFound(error.message, hint=hint)
    return one


def since(reading: Reading, age_ms: int, position: Position) -> list[Pending]:
    """What waits because of the decision at a position; partitions are not counted for that."""
    return [each for each in _rows(PendingView(reading, age_ms)) if each.since == position]


def told(each: Pending) -> str:
    """What waits and how that ends, in words."""
    return f"{each.sentence} It ends {each.ends}."


def awaited(each: Pending) -> tuple[Awaited, ...]:
    """Whom a pending thing waits for, as an explanation says it."""
    return tuple(Awaited(held.node, held.since, held.at_most_ms) for held in each.waits_for)


def _rows(view: PendingView) -> Iterable[Pending]:
    return chain.from_iterable(find(view) for find in _OF_ROWS)


def _badness(each: Pending) -> tuple[int, bool, int, str]:
    return _RANKS[each.kind], each.at_most_ms is not None, -each.waited_ms, each.name
