"""Which single maps a projector keeps: of each node the newest that is whole (`single_maps.py` says what they tell).

Threats. A map comes in parts, and this process ends between two of them; parts of two maps are put together; hundreds
of nodes send maps again and again, and readers of the log wait until all of them are decoded.

And whoever may write `maps` writes those of nodes that are not there.

Invariant. Of each node one whole map is kept, and the parts of at most one that is under way; of nodes that the log
does not know no more than STRANGERS_MAX and STRANGE_PARTS_MAX.

Argument. Parts are rows like all else, so they are there again after a crash, and `assemble` puts together only what is
of one map. Of one life of a node the higher update sequence tells more; of two lives, or two logs, the one that came
later is kept. Whether a map counts, the rule of the coordinator says when it is read (`streams/rules/single_maps.py`),
for a map may come before the decisions that it knows. A node has applied its own joining before it sends one; so of a
node that the log does not know as far as the map speaks of it nothing is kept, and what speaks of more is bounded. Of
several maps of a node that come at once only the last is decoded, if it is whole by itself: a process's records stand
in the order in which it sent them, so it has replaced the others.
"""

from collections.abc import Callable, Sequence

import msgspec

from topolog.events.codec import CODEC
from topolog.events.errors import Undecodable
from topolog.events.ids import NodeId, Position
from topolog.events.log import Entry
from topolog.events.single_maps import PARTS_MAX, Assembly, SinglePartitionMap, assemble, joined
from topolog.events.topics import Topic
from topolog.projections.sides import MapBodyRow, MapPartRow, MapRow, SideRow, SideWrite

STRANGERS_MAX = 1_024
"""Whole maps that are kept of nodes which the log, as far as it is read here, does not know."""

STRANGE_PARTS_MAX = 64
"""The same of parts: all parts that are kept are read with each batch in which there are some."""

Rows = dict[tuple[str, str], SideRow | None]


class Held(msgspec.Struct, frozen=True):
    """What is kept: the heads of whole maps by node, and the parts of those that are not whole."""

    heads: dict[NodeId, MapRow]
    parts: Sequence[MapPartRow]


class Log(msgspec.Struct, frozen=True):
    """What is known of the log: up to which position, and which nodes have joined by then."""

    position: Position
    knows: Callable[[NodeId], bool]


def maps_write(held: Held, entries: Sequence[Entry], log: Log) -> Rows:
    """What these entries of `maps` change of what is held: rows by (kind, key), None for one that goes."""
    keeping, strangers = _Keeping(held), _Strangers(held, log)
    for part, appended_ms in _that_count(entries):
        if log.knows(part.node) or strangers.may_be_one(part):
            keeping.take(part, appended_ms)
    return keeping.changes


def expiry(held: Held, before_ms: int) -> SideWrite:
    """What removes the maps that the topic took before that time."""
    old = [node for node, row in held.heads.items() if row.appended_ms < before_ms]
    rows: Rows = {(kind.KIND, node): None for node in old for kind in (MapRow, MapBodyRow)}
    parts = (row.part for row in held.parts if row.appended_ms < before_ms)
    return SideWrite(rows | {(MapPartRow.KIND, _key(part)): None for part in parts}, {})


def _that_count(entries: Sequence[Entry]) -> list[tuple[SinglePartitionMap, int]]:
    """The sound records, oldest first, without those of a node that stand before a whole one of it."""
    found: list[tuple[SinglePartitionMap, int]] = []
    whole: set[str] = set()
    for entry in reversed(entries):
        if entry.topic is not Topic.MAPS or entry.key in whole:
            continue
        record = CODEC.read(entry.value)
        if isinstance(record, SinglePartitionMap) and _is_sound(record):
            found.append((record, entry.appended_at_ms))
            if record.parts == 1 and entry.key == record.node:
                whole.add(record.node)
    return found[::-1]


def _is_sound(record: SinglePartitionMap) -> bool:
    return 0 <= record.part < record.parts <= PARTS_MAX and record.update_sequence > 0


class _Strangers:
    """Nodes that the log does not know, and may know when it is read further; what is kept of them is counted."""

    def __init__(self, held: Held, log: Log) -> None:
        self._position = log.position
        self._whole = {node for node in held.heads if not log.knows(node)}
        self._parts = {_key(row.part) for row in held.parts if not log.knows(row.part.node)}

    def may_be_one(self, part: SinglePartitionMap) -> bool:
        if part.applied.position <= self._position:
            return False
        if part.parts == 1:
            self._whole.add(part.node)
            return len(self._whole) <= STRANGERS_MAX
        self._parts.add(_key(part))
        return len(self._parts) <= STRANGE_PARTS_MAX


class _Keeping:
    """The maps that are held while some more are read."""

    def __init__(self, held: Held) -> None:
        self.changes: Rows = {}
        self._heads = dict(held.heads)
        self._arriving: dict[NodeId, Assembly] = {}
        for row in held.parts:
            self._arriving[row.part.node], _ = assemble(self._arriving.get(row.part.node), row.part)

    def take(self, part: SinglePartitionMap, appended_ms: int) -> None:
        head = self._heads.get(part.node)
        if head is not None and not _is_newer(head, part):
            return
        before = self._arriving.get(part.node)
        after, parts = assemble(before, part)
        self._arriving[part.node] = after
        if parts is not None:
            self._drop(before)
            self._keep(parts, appended_ms)
        elif after is not before:
            if before is not None and _name(before) != _name(after):
                self._drop(before)
            self.changes[MapPartRow.KIND, _key(part)] = MapPartRow(part, appended_ms)

    def _keep(self, parts: tuple[SinglePartitionMap, ...], appended_ms: int) -> None:
        try:
            whole = joined(parts)
        except Undecodable:
            return
        row = MapRow(
            node=whole.node,
            incarnation=whole.incarnation,
            exchange=whole.exchange,
            update_sequence=whole.update_sequence,
            applied=whole.applied,
            appended_ms=appended_ms,
        )
        self._heads[whole.node] = row
        self.changes[MapRow.KIND, whole.node] = row
        self.changes[MapBodyRow.KIND, whole.node] = MapBodyRow(whole.groups)

    def _drop(self, assembly: Assembly | None) -> None:
        for part in assembly.parts.values() if assembly else ():
            self.changes[MapPartRow.KIND, _key(part)] = None


def _is_newer(head: MapRow, part: SinglePartitionMap) -> bool:
    is_same_life = (head.applied.log_id, head.incarnation) == (part.applied.log_id, part.incarnation)
    return not is_same_life or part.update_sequence > head.update_sequence


def _name(assembly: Assembly) -> tuple[int, int]:
    """Which map of its node it is of."""
    return assembly.incarnation, assembly.update_sequence


def _key(part: SinglePartitionMap) -> str:
    return f"{part.part:03d}/{part.node}"
