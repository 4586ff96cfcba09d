"""Exchanges and partitions in the words of the transcripts."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from topolog.events import exchange as x
from topolog.events import ownership as o
from topolog.events.awaited import Awaited
from topolog.events.changes import unpacked
from topolog.events.fold import Event
from topolog.events.ownership import Copy, Ownership
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.state import State


def content_of_exchange(event: Event, names: tuple[str, ...]) -> str:  # noqa: PLR0911 (one for each event)
    """What an event says; `names` are node ids by number."""
    match event:
        case x.ExchangeQueued():
            return f"{event.type.value} {event.subject}".strip() + f", view {event.version}"
        case x.ExchangeStarted():
            return f"{triggers(event.triggers)}; asked: {nodes(event.awaited)}"
        case x.ExchangeMerged():
            return f"{triggers(event.triggers)}; asked too: {nodes(event.awaited)}"
        case x.ExchangeOverdue():
            return f"waits for {' '.join(event.awaited)}"
        case x.FullPartitionMap() | x.PartitionStatesChanged():
            changes = unpacked(event.changes)
            said = [(each.partition, standing(names, each.copies, each.acting, lost=each.is_lost)) for each in changes]
            return f"{event.group}" + "".join(f"\n     {line}" for line in ranges(said))
        case x.PartitionsLost():
            return f"{event.group} {numbers(event.partitions)}, awaiting {' '.join(event.awaited) or 'nobody'}"
        case x.ExchangeCompleted():
            without = f"; without {' '.join(event.unheard)}" if event.unheard else ""
            return f"view {event.version}; heard: {nodes(event.waited)}{without}"
        case x.HandOverPrepared():
            moves = (f"{move.group} {numbers(move.partitions)} to {move.to}" for move in event.moves)
            return f"{event.node} hands over {', '.join(moves)}"
        case x.AffinitySwitched():
            parts = {"drained": event.evidence.applied, "presumed fenced": event.evidence.presumed_fenced}
            why = "; ".join(f"{what}: {' '.join(who)}" for what, who in parts.items() if who)
            return f"of position {event.prepared}, view {event.version}; {why}"
        case _:
            return ""


def partition_lines(state: State, group: str) -> list[str]:
    """Where the partitions of a group stand: `0-3  n1* OWNING, n2 OWNING`; the star marks who acts."""
    names = o.names(state)
    rows = [row for _, row in state.rows(OwnershipRow) if row.group == group]
    every = [each for row in rows for each in o.ownerships(row, range(row.first, row.first + row.count))]
    return list(ranges([(each.partition, _standing(names, each)) for each in every]))


def _standing(names: tuple[str, ...], each: Ownership) -> str:
    return standing(names, each.copies, each.acting, lost=each.is_lost)


def standing(names: tuple[str, ...], copies: Iterable[Copy], acting: int | None, *, lost: bool) -> str:
    held = ", ".join(f"{names[copy.node]}{'*' * (copy.node == acting)} {copy.state.name}" for copy in copies)
    return (held or "nobody") + " LOST" * lost


def ranges(said: list[tuple[int, str]]) -> Iterator[str]:
    """Neighbours of which the same is said, on one line."""
    for (text, _), run in groupby(enumerate(said), key=lambda pair: (pair[1][1], pair[1][0] - pair[0])):
        partitions = [partition for _, (partition, _) in run]
        yield f"{numbers(partitions):<7}{text}"


def numbers(partitions: Iterable[int]) -> str:
    """`0-3 7 9-10`"""
    runs = [
        [partition for _, partition in run]
        for _, run in groupby(enumerate(partitions), key=lambda pair: pair[1] - pair[0])
    ]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def triggers(found: Iterable[x.Trigger]) -> str:
    return ", ".join(f"{each.type.value} {each.subject}".strip() for each in found)


def nodes(found: Iterable[Awaited] | Iterable[x.Waited]) -> str:
    return " ".join(each.node for each in found) or "nobody"
