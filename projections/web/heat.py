"""The heat map of partitions by node: who acts for how many, where copies load, what is lost; one picture per group.

With few nodes each is a strip of its partitions, cut into spans; with many each is one tile. What a colour says stands
beside it in figures. The groups with the most urgent trouble come first, and only a few of a thousand are drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.events.ownership import NodeNumber
from topolog.events.ownership_columns import OwnershipRow
from topolog.projections import packed
from topolog.projections.packed import CONDITIONS, KINDS, Condition, Kind
from topolog.projections.partitions import Names, condition_totals, in_words, rows_of
from topolog.projections.store import Reading

STRIPS_MAX = 24
"""So many nodes are drawn as strips; more of them as tiles."""

GROUPS_MAX = 6
SPANS = 128
BLOCK = 256
"""Partitions in one packed row."""

_LEVELS = 4
_KEPT = 8
"""Pictures that are remembered: most of the time nothing has changed since the last one."""


class Cell(msgspec.Struct, frozen=True):
    """Spans of one colour beside each other."""

    at: int
    width: int
    colour: str


class Line(msgspec.Struct, frozen=True):
    """One node: how many copies of which kind, and its strip; for a tile its colour alone."""

    node: str
    is_member: bool
    counts: Mapping[str, int]
    cells: tuple[Cell, ...]
    colour: str

    @property
    def words(self) -> str:
        """The line as a text: `n1: 12 primary, 30 backup`."""
        said = ", ".join(f"{count} {kind.lower()}" for kind, count in self.counts.items() if count)
        return f"{self.node}: {said or 'nothing'}{'' if self.is_member else ' (not a member)'}"


class GroupHeat(msgspec.Struct, frozen=True):
    """One group's picture, of its partitions from `first` on. `span`: partitions in one cell; `whole`: the conditions
    of all of them as a strip."""

    group: str
    partitions: int
    sentence: str
    tone: str
    span: int
    cells: int
    whole: tuple[Cell, ...]
    lines: tuple[Line, ...]
    is_tiles: bool
    first: int = 0


class HeatMaps(msgspec.Struct, frozen=True):
    """The pictures that are shown, how many groups have none, how many partitions of all are in which condition."""

    groups: tuple[GroupHeat, ...]
    more: int
    conditions: Mapping[str, int]


class Gallery:
    """Draws what a reading of one store shows, once: what its log says of partitions up to a position never changes."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[bytes | None, Position], HeatMaps] = {}

    def of(self, reading: Reading) -> HeatMaps:
        # Renewals of leases, which a quiet cluster has several of a minute, are no decisions about anything.
        newest = next(reading.positions(), reading.position)
        key = reading.meta.header.log_id, newest
        if key not in self._drawn:
            for old in list(self._drawn)[: max(0, len(self._drawn) - _KEPT + 1)]:
                self._drawn.pop(old, None)
            self._drawn[key] = heat_maps(reading)
        return self._drawn[key]


def heat_maps(reading: Reading) -> HeatMaps:
    groups = [row for _, row in reading.rows(GroupRow)]
    counted = {row.name: condition_totals(reading, row.name) for row in groups}
    urgent = sorted(groups, key=lambda row: (-_urgency(counted[row.name]), row.name))
    total: dict[str, int] = {}
    for counts in counted.values():
        for condition, count in counts.items():
            total[condition.name] = total.get(condition.name, 0) + count
    who = Names(reading)
    shown = sorted(urgent[:GROUPS_MAX], key=lambda row: row.name)
    return HeatMaps(
        tuple(_drawn(reading, row, counted[row.name], who) for row in shown), len(urgent) - len(shown), total
    )


def _urgency(counts: Mapping[Condition, int]) -> int:
    return max((CONDITIONS.index(condition) for condition in counts), default=0)


def of_group(reading: Reading, group: GroupRow, block: int | None = None) -> GroupHeat:
    """The picture of one group; of `block` alone each partition has a cell of its own."""
    who = Names(reading)
    if block is None:
        return _drawn(reading, group, condition_totals(reading, group.name), who)
    row = next(rows_of(reading, group, block * BLOCK))
    counts = packed.condition_counts(row)
    alone = msgspec.structs.replace(row, first=0)
    return _of_rows(group.name, row.count, 1, [alone], counts, who, row.first)


def _drawn(reading: Reading, group: GroupRow, counts: Mapping[Condition, int], who: Names) -> GroupHeat:
    span = packed.span_of(group.partitions, SPANS)
    return _of_rows(group.name, group.partitions, span, list(rows_of(reading, group)), counts, who)


def _of_rows(
    group: str,
    partitions: int,
    span: int,
    rows: Sequence[OwnershipRow],
    counts: Mapping[Condition, int],
    who: Names,
    first: int = 0,
) -> GroupHeat:
    by_node = packed.copy_spans(rows, partitions)
    is_tiles = len(by_node) > STRIPS_MAX
    strips = {} if is_tiles else packed.copy_spans(rows, span)
    fair = partitions / max(1, len(by_node))
    lines = (_line(who, number, spans[0], fair, strips.get(number, []), span) for number, spans in by_node.items())
    whole = packed.condition_spans(rows, span)
    worst = CONDITIONS[_urgency(counts)]
    return GroupHeat(
        group=group,
        partitions=partitions,
        sentence=in_words(counts),
        tone="bad" if worst in (Condition.LOST, Condition.PAUSED) else "ok" if worst is Condition.OWNING else "busy",
        span=span,
        cells=len(whole),
        whole=tuple(_merged(CONDITIONS[_last(each)].name.lower() for each in whole)),
        lines=tuple(sorted(lines, key=lambda line: line.node)),
        is_tiles=is_tiles,
        first=first,
    )


def _line(
    who: Names, number: NodeNumber, kinds: Sequence[int], fair: float, strip: Sequence[Sequence[int]], span: int
) -> Line:
    """`fair`: of how many partitions each node is primary if all are of as many; `strip`: `kinds` by span."""
    counts = {KINDS[at].name: count for at, count in reversed(list(enumerate(kinds)))}
    cells = tuple(_merged(_colour(each, span) for each in strip))
    return Line(who[number], who.is_member(who[number]), counts, cells, _colour(kinds, 2 * fair))


def _colour(kinds: Sequence[int], most: float) -> str:
    """Trouble first; else by how many of at most `most` partitions the node acts for; else that it has copies."""
    worst = KINDS[_last(kinds)] if any(kinds) else None
    if worst in (Kind.LOST, Kind.PAUSED, Kind.MOVING):
        return worst.name.lower()
    primaries = kinds[KINDS.index(Kind.PRIMARY)]
    if primaries:
        return f"acts{min(_LEVELS, 1 + int(_LEVELS * primaries / (most + 1)))}"
    return worst.name.lower() if worst else ""


def _last(counts: Sequence[int]) -> int:
    """The place of the last one that is not 0."""
    return max((at for at, count in enumerate(counts) if count), default=0)


def _merged(colours: Iterator[str]) -> Iterator[Cell]:
    """Neighbours of one colour as one cell; nothing where there is no colour."""
    at = 0
    for colour, alike in groupby(colours):
        width = sum(1 for _ in alike)
        if colour:
            yield Cell(at, width, colour)
        at += width
