"""The history of one partition, and of one exchange: every set of decisions that changed it, newest first.

A packed row has a version for each change of any of its 256 partitions; those that changed another one are passed over.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from topolog.events.errors import NotFound
from topolog.events.exchange import AffinitySwitched, ExchangeRow, HandOverPrepared
from topolog.events.fold import Event
from topolog.events.ids import Position
from topolog.events.membership import NodeLeft
from topolog.events.ownership import Ownership, ownership, row_key
from topolog.events.ownership_columns import OwnershipRow
from topolog.projections import exchanges, queries
from topolog.projections.history import change_of
from topolog.projections.layout import Decided
from topolog.projections.partition_resources import Exchange
from topolog.projections.partitions import Names
from topolog.projections.resources import Change
from topolog.projections.store import Reading


class Step(msgspec.Struct, frozen=True):
    """What the set that ends at `position` made of a partition; None where it has no partition of that number."""

    position: Position
    before: Ownership | None
    after: Ownership | None


def steps(reading: Reading, group: str, number: int) -> Iterator[Step]:
    """Every change of one partition, newest first; also of groups of that name that were dropped."""
    later: tuple[Position, Ownership | None] | None = None
    for position, row in reading.versions(OwnershipRow, row_key(group, number)):
        held = _held(row, number)
        if later is not None and held != later[1]:
            yield Step(later[0], held, later[1])
        later = position, held
    if later is not None and later[1] is not None:
        yield Step(later[0], None, later[1])


def of_partition(reading: Reading, group: str, number: int) -> Iterator[Change]:
    """The same for people; raises NotFound if there was never such a partition."""
    who, is_known = Names(reading), False
    for step in steps(reading, group, number):
        is_known = True
        yield change_of(did_it(reading, step, group), step.position, _told(step.before, who), _told(step.after, who))
    if not is_known:
        raise NotFound(f"There was never a partition {group}/{number} up to position {reading.position}.")


def of_exchange(reading: Reading, version: str) -> Iterator[Change]:
    """How an exchange began, what it took in, how it was completed; that the state forgets it is no change of it."""
    found = exchanges.exchange(reading, 0, version)
    if found.is_switch:
        yield from _of_switch(reading, found)
        return
    versions = [each for each in reading.versions(ExchangeRow, found.version) if each[1] is not None]
    for (position, row), (_, before) in zip(versions, [*versions[1:], (None, None)], strict=True):
        about = [each for each in reading.decisions_of_set(position) if each.subject == "exchange"]
        yield change_of(about, position, queries.plain(before), queries.plain(row))


def did_it(reading: Reading, step: Step, group: str) -> list[Decided]:
    """The decisions of the step's set that can have changed a partition of the group; all of them if none says so."""
    together = reading.decisions_of_set(step.position)
    return [each for each in together if each.subject == f"group {group}" or _is_about_all(each.event)] or together


def _is_about_all(event: Event) -> bool:
    return isinstance(event, NodeLeft | AffinitySwitched)


def _of_switch(reading: Reading, found: Exchange) -> Iterator[Change]:
    assert found.completed_at is not None, "a hand-over is an exchange when it is done"
    prepared = reading.surely_decision(found.started_at)
    switched = reading.surely_decision(found.completed_at)
    moves = prepared.event.moves if isinstance(prepared.event, HandOverPrepared) else ()
    before = {"state": "PREPARED", "node": found.triggers[0].subject, "moves": queries.plain(moves)}
    after = {**before, "state": "SWITCHED", "evidence": queries.plain(switched.event)["evidence"]}
    yield change_of([switched], switched.set_end, before, after)
    yield change_of([prepared], prepared.set_end, None, before)


def _held(row: OwnershipRow | None, number: int) -> Ownership | None:
    return ownership(row, number) if row and number < row.first + row.count else None


def _told(held: Ownership | None, who: Names) -> Mapping[str, Any]:
    """A partition as its history tells of it."""
    if held is None:
        return {}
    return {
        "primary": None if held.acting is None else who[held.acting],
        "token": held.token,
        "lost": held.is_lost,
        "wanted": [who[number] for number in held.wanted],
        "copies": {who[copy.node]: copy.state.name for copy in held.copies},
    }
