"""What can be asked of exchanges: all of them, newest first, and one by the view it is about.

The state remembers the last few; the history of rows and decisions has them all. A hand-over asks nobody and has no
row when it is done, so it is listed by its two decisions, as an exchange of type SWITCH.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice, takewhile

from topolog.events.awaited import UnheardRow
from topolog.events.changes import unpacked
from topolog.events.errors import NotFound
from topolog.events.exchange import (
    AffinitySwitched,
    ExchangeCompleted,
    ExchangeMerged,
    ExchangeOverdue,
    ExchangeRow,
    ExchangeStarted,
    FullPartitionMap,
    HandOverPrepared,
    HandOverRow,
    PartitionsLost,
    TriggerType,
)
from topolog.events.ids import NOWHERE, Position
from topolog.events.state import Key
from topolog.projections.layout import Decided
from topolog.projections.moments import iso, position_time
from topolog.projections.partition_resources import (
    Exchange,
    ExchangeAnswer,
    ExchangeDetail,
    ExchangePhase,
    ExchangeTrigger,
)
from topolog.projections.store import Reading
from topolog.projections.versions import ABOUT_EXCHANGES, exchange_about, exchange_row, no_exchange, parsed

NEWEST = "newest"
_PHASES: Mapping[str, str] = {
    ExchangeStarted.__name__: "BEGAN",
    ExchangeMerged.__name__: "MERGED",
    ExchangeOverdue.__name__: "OVERDUE",
    ExchangeCompleted.__name__: "COMPLETED",
    HandOverPrepared.__name__: "PREPARED",
    AffinitySwitched.__name__: "SWITCHED",
}


def exchanges(
    reading: Reading, age_ms: int, filters: Mapping[str, str], before: int | None = None
) -> Iterator[Exchange]:
    """Exchanges that began, and hand-overs that were done, below position `before`, newest first.

    Filters: state (OPEN, COMPLETED), type.
    """
    for position in merge(*(reading.positions(before, about) for about in ABOUT_EXCHANGES), reverse=True):
        found = _at(reading, age_ms, reading.surely_decision(position))
        if (
            found is not None
            and filters.get("state") in (None, found.state)
            and filters.get("type") in (None, *found.types)
        ):
            yield found


def oldest_touched(reading: Reading, rows: Iterable[Key]) -> Position | None:
    """From where on in the list a change of these rows can have changed exchanges; None if it concerns none of them.

    It is the same before and behind that change, but for what has come with it.
    """
    places: list[Position] = []
    for kind, key in rows:
        if kind == ExchangeRow.KIND:
            begun = (row.started_at for _, row in reading.versions(ExchangeRow, key) if row is not None)
            places += islice(begun, 1)
        if kind == HandOverRow.KIND:
            prepared = (row.prepared_at for _, row in reading.versions(HandOverRow, key) if row is not None)
            places += islice(prepared, 1)
    return min(places, default=None)


def key_of(exchange: Exchange) -> int:
    """The position in the list that an exchange has: where it began, of a hand-over where it was done."""
    return exchange.completed_at if exchange.is_switch and exchange.completed_at is not None else exchange.started_at


def exchange(reading: Reading, age_ms: int, version: str) -> ExchangeDetail:
    """The exchange that is about the view of this version; `newest` is the one that waits for somebody, else the last.

    Raises NotFound if there is none, BadInput for what is no version.
    """
    if version == NEWEST:
        return newest(reading, age_ms)
    return _detail(reading, _named(reading, age_ms, version))


def newest(reading: Reading, age_ms: int) -> ExchangeDetail:
    """The exchange that is open, or was completed without somebody who is still needed, else the last one, hand-overs
    included; raises NotFound if there was none."""
    found = next(exchanges(reading, age_ms, {}), None)
    if found is None:
        raise NotFound(
            "There has been no exchange yet.",
            hint="The first one begins with the first group: `topolog create group orders`.",
        )
    row = _waiting_row(reading)
    return _detail(reading, found if row is None else _of_row(reading, age_ms, row))


def open_row(reading: Reading) -> ExchangeRow | None:
    """The one exchange that is open."""
    row = last_row(reading)
    return row if row is not None and row.completed_at is None else None


def _waiting_row(reading: Reading) -> ExchangeRow | None:
    """The exchange that is open, or that has missed somebody; hand-overs may follow that one."""
    missed = reading.row(UnheardRow, "")
    return last_row(reading) if missed is not None and missed.servers else open_row(reading)


def last_row(reading: Reading) -> ExchangeRow | None:
    """The newest exchange, open or not."""
    return None if reading.position == NOWHERE else row_at(reading, reading.position)


def open_for_ms(reading: Reading, age_ms: int, row: ExchangeRow) -> int:
    """For how long an exchange has been open."""
    return _duration_ms(reading, age_ms, row.started_at, None)


def row_at(reading: Reading, position: Position) -> ExchangeRow | None:
    """The exchange whose outcome stands at this position: the last one that had begun by the end of its set."""
    end = reading.surely_decision(position).set_end
    for began in reading.positions(end + 1, "exchange"):
        event = reading.surely_decision(began).event
        if isinstance(event, ExchangeStarted):
            return exchange_row(reading, str(event.triggers[0].version))
    return None


def hand_overs(reading: Reading) -> list[HandOverRow]:
    """The hand-overs under way, oldest first."""
    return sorted((row for _, row in reading.rows(HandOverRow)), key=lambda row: row.prepared_at)


def _named(reading: Reading, age_ms: int, version: str) -> Exchange:
    found = exchange_about(reading, parsed(version))
    if found is None:
        raise no_exchange(reading, version)
    return _of_row(reading, age_ms, found) if isinstance(found, ExchangeRow) else _switch(reading, found)


def _at(reading: Reading, age_ms: int, decided: Decided) -> Exchange | None:
    """The exchange or the hand-over that this decision stands for in the list; None for the others about it."""
    if decided.event_name == ExchangeStarted.__name__:
        event = decided.event
        assert isinstance(event, ExchangeStarted)
        row = exchange_row(reading, str(event.triggers[0].version))
        return _of_row(reading, age_ms, row) if row else None
    if decided.event_name == AffinitySwitched.__name__:
        return _switch(reading, decided)
    return None


def _of_row(reading: Reading, age_ms: int, row: ExchangeRow) -> Exchange:
    return Exchange(
        version=str(row.version),
        result=str(row.result),
        types=tuple(dict.fromkeys(trigger.type.value for trigger in row.triggers)),
        state="OPEN" if row.completed_at is None else "COMPLETED",
        triggers=tuple(ExchangeTrigger(each.type.value, each.subject, str(each.version)) for each in row.triggers),
        awaited=tuple(each.node for each in row.awaited),
        waited=tuple(ExchangeAnswer(each.node, each.waited_ms) for each in row.waited),
        started_at=row.started_at,
        started_time=position_time(reading, row.started_at),
        completed_at=row.completed_at,
        completed_time=None if row.completed_at is None else position_time(reading, row.completed_at),
        duration_ms=_duration_ms(reading, age_ms, row.started_at, row.completed_at),
        overdue_at=row.overdue_at,
        unheard=row.unheard,
        overdue=row.overdue,
    )


def _switch(reading: Reading, decided: Decided) -> Exchange:
    """A hand-over that is done."""
    event = decided.event
    assert isinstance(event, AffinitySwitched)
    prepared = reading.surely_decision(event.prepared).event
    assert isinstance(prepared, HandOverPrepared)
    version = str(event.version)
    return Exchange(
        version=version,
        result=version,
        types=(TriggerType.SWITCH.value,),
        state="COMPLETED",
        triggers=(ExchangeTrigger(TriggerType.SWITCH.value, prepared.node, version),),
        awaited=(),
        waited=(),
        started_at=event.prepared,
        started_time=position_time(reading, event.prepared),
        completed_at=decided.position,
        completed_time=position_time(reading, decided.position),
        duration_ms=_duration_ms(reading, 0, event.prepared, decided.position),
    )


def _duration_ms(reading: Reading, age_ms: int, began: Position, ended: Position | None) -> int:
    """Between two decisions by the log's time; of what has not ended, until now, or until the position of the past."""
    until = reading.surely_decision(reading.position if ended is None else ended).logged_at_ms
    since = reading.surely_decision(began).logged_at_ms
    return until - since + (age_ms if ended is None and reading.is_current else 0)


def _detail(reading: Reading, found: Exchange) -> ExchangeDetail:
    changed: dict[str, int] = {}
    lost: dict[str, int] = {}
    for event in _outcome(reading, found):
        match event:
            case FullPartitionMap():
                changed[event.group] = changed.get(event.group, 0) + len(unpacked(event.changes))
            case PartitionsLost():
                lost[event.group] = lost.get(event.group, 0) + len(event.partitions)
            case HandOverPrepared():
                for move in event.moves:
                    changed[move.group] = changed.get(move.group, 0) + len(move.partitions)
    values = {field: getattr(found, field) for field in found.__struct_fields__}
    phases, asked = tuple(_phases(reading, found)), _asked(reading, found)
    return ExchangeDetail(**values, changed=changed, lost=lost, phases=phases, asked=asked)


def _asked(reading: Reading, found: Exchange) -> tuple[str, ...]:
    """By the decisions: the row forgets who left, and all of them when it is completed."""
    events = (each.event for each in decisions(reading, found))
    asking = (event for event in events if isinstance(event, ExchangeStarted | ExchangeMerged))
    return tuple(dict.fromkeys(asked.node for event in asking for asked in event.awaited))


def _phases(reading: Reading, found: Exchange) -> Iterator[ExchangePhase]:
    began_ms = reading.surely_decision(found.started_at).logged_at_ms
    for decided in decisions(reading, found):
        is_other = found.is_switch and decided.position not in (found.started_at, found.completed_at)
        if decided.event_name in _PHASES and not is_other:
            after_ms = decided.logged_at_ms - began_ms
            yield ExchangePhase(_PHASES[decided.event_name], decided.position, iso(decided.logged_at_ms), after_ms)


def decisions(reading: Reading, found: Exchange) -> list[Decided]:
    """The decisions about exchanges, or of a hand-over about hand-overs, from its beginning to its end."""
    about = "hand-over" if found.is_switch else "exchange"
    end = reading.position if found.completed_at is None else found.completed_at
    newest_first = takewhile(lambda position: position >= found.started_at, reading.positions(end + 1, about))
    return [reading.surely_decision(position) for position in reversed(list(newest_first))]


def _outcome(reading: Reading, found: Exchange) -> Iterator[object]:
    """The decisions that say what it has changed."""
    if found.completed_at is None:
        return
    if found.is_switch:
        yield reading.surely_decision(found.started_at).event
        return
    end = reading.surely_decision(found.completed_at).set_end
    names = {each.__name__ for each in (FullPartitionMap, PartitionsLost, ExchangeCompleted)}
    yield from (each.event for each in reading.decisions_of_set(end) if each.event_name in names)
