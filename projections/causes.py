"""The chain of causes of a decision, back to its first one, and what followed from it.

A decision's stamp names what made it due (`cause_words.py`); `antecedents.py` knows the
decision that the wait was for. A chain goes from antecedent to antecedent. Each stands before the one that follows from
it, so a chain has no cycle and an end: a decision that answers nothing in the log. What that one answers stands in its
stamp: a request, a heartbeat, a map, a deadline, or the coordinator itself.

What followed from a decision is not written down anywhere: it is what names the decision as its antecedent. Such
decisions stand soon behind it among those about the same subject, or about what the event leads to (`_LEADS_TO`); so
many of each are looked through, and no index is needed. (An index would be a key `e cause effect` for each decision, to
be written by the projector; docs/explain.md has what was measured.)
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from topolog.events.ids import Position
from topolog.projections import change_rows
from topolog.projections.antecedents import antecedents
from topolog.projections.cause_words import Kind, read_cause
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.resources import Cause
from topolog.projections.store import Reading

LINKS_MAX = 64
"""Decisions of one chain; the longest are those of sessions, whose steps follow from one another. What is left out is
the middle: the first cause is always there."""

_WALKED_MAX = 2_000
_LOOKED_AT = 200
_EFFECTS_MAX = 20
_SET_MAX = 20


class Link(msgspec.Struct, frozen=True):
    """One decision of a chain, and the one it follows from; None for the first."""

    decided: Decided
    follows: Position | None

    @property
    def kind(self) -> Kind:
        return read_cause(self.decided.cause).kind


def links(reading: Reading, position: int) -> Iterator[Link]:
    """The chain of the decision at a position, newest first, down to the first cause; each costs a few seeks."""
    decided = reading.surely_decision(position)
    while True:
        follows = next(iter(antecedents(reading, decided)), None)
        yield Link(decided, follows)
        if follows is None:
            return
        decided = reading.surely_decision(follows)


def chain(reading: Reading, position: int) -> list[Link]:
    """The same, oldest first; of one that is too long the newest and the first cause."""
    found = list(islice(links(reading, position), _WALKED_MAX))
    if len(found) > LINKS_MAX:
        found = [*found[: LINKS_MAX - 1], found[-1]]
    return found[::-1]


def effects(reading: Reading, decided: Decided, at_most: int = _EFFECTS_MAX) -> list[Decided]:
    """Decisions that follow from this one, oldest first, as far as the reading goes."""
    subjects = dict.fromkeys((decided.subject, *_leads_to(reading, decided)))
    found: dict[Position, Decided] = {}
    for subject in subjects:
        for position in islice(reading.positions_after(decided.position, subject), _LOOKED_AT):
            each = reading.surely_decision(position)
            if decided.position in antecedents(reading, each):
                found |= {other.position: other for other in _together(reading, each, decided.position)}
    return [found[position] for position in sorted(found)][:at_most]


def _together(reading: Reading, effect: Decided, cause: Position) -> Iterator[Decided]:
    """An effect, and those of its set that follow from the same: of an exchange's outcome each group's map."""
    yield effect
    for position in range(effect.set_start, min(effect.set_end, effect.set_start + _SET_MAX) + 1):
        each = reading.surely_decision(position)
        if position != effect.position and cause in antecedents(reading, each):
            yield each


_EXCHANGE = ("exchange",)
_LEADS_TO: Mapping[str, tuple[str, ...]] = {
    "NodeJoined": ("exchange", "cluster state", "baseline"),
    "NodeLeft": ("exchange", "cluster state", "baseline"),
    "GroupCreated": _EXCHANGE,
    "GroupAltered": _EXCHANGE,
    "GroupDropped": _EXCHANGE,
    "ExchangeQueued": _EXCHANGE,
    "BaselineChanged": _EXCHANGE,
    "DrainStarted": _EXCHANGE,
    "DrainCancelled": _EXCHANGE,
    "DrainFinished": ("baseline",),
    "FullPartitionMap": ("hand-over",),
    "PartitionStatesChanged": ("hand-over",),
    "SchemaChangePrepared": ("changes",),
    "SchemaChangeQueued": ("changes",),
}


def _leads_to(reading: Reading, decided: Decided) -> Iterator[str]:
    """Subjects of what may follow from a decision, beside its own."""
    yield from _LEADS_TO.get(decided.event_name, ())
    match decided.event_name:
        case "SchemaChangeQueued" | "SchemaChangePrepared":
            yield f"change {decided.position}"
            number = getattr(decided.event, "change", None)
            if number is not None:
                yield f"change {number}"
            if decided.event_name == "SchemaChangeQueued":
                yield from _subjects_of_statements(decided)
        case "SchemaChangeCommitted":  # deletions are confirmed of each change alone, or of several at once
            yield from ("changes", *(f"change {each}" for each in getattr(decided.event, "changes", ())))
        case "SessionQueued" | "SessionOpened":
            number = getattr(decided.event, "session", None)
            yield f"session {decided.position if number is None else number}"
        case "ExchangeStarted" | "ExchangeMerged":
            yield from (f"node {each.node}" for each in getattr(decided.event, "awaited", ()))
        case "AffinitySwitched":
            prepared = reading.surely_decision(getattr(decided.event, "prepared", decided.position)).event
            yield from dict.fromkeys(f"group {move.group}" for move in getattr(prepared, "moves", ()))
        case "StateChangeStarted":
            yield from (f"change {row.number}" for row in change_rows.opened(reading.as_of(decided.position)))
        case "ScheduleSet":
            yield f"table {decided.event.definition.table}"  # type: ignore[union-attr]


def _subjects_of_statements(decided: Decided) -> Iterator[str]:
    """What a queued change is about when its turn comes: the steps it is resolved to may be more than it asks for."""
    yield "schema"
    for statement in getattr(decided.event, "statements", ()):
        yield f"{statement.kind.value.lower()} {statement.name}"


def shown(link: Link) -> Cause:
    """A link as people see it."""
    return cause_of(link.decided, link.follows)


def cause_of(decided: Decided, follows: Position | None = None) -> Cause:
    """A decision as a link of a chain."""
    return Cause(
        decided.position,
        decided.event_name,
        decided.cause,
        decided.asked_by,
        decided.reason,
        iso(decided.logged_at_ms),
        read_cause(decided.cause).kind.value,
        follows,
    )


def merged(found: Iterable[Cause], chained: Iterable[Cause]) -> tuple[Cause, ...]:
    """Both by position, each decision once; what a chain knows of it counts."""
    by_position = {each.position: each for each in found} | {each.position: each for each in chained}
    return tuple(by_position[position] for position in sorted(by_position))
