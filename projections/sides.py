"""What a projector keeps beside the fold of `decisions`: families of rows from other topics, with offsets of their own.

They say nothing about the state of the cluster and have no history. A family's rows and the offsets up to which its
topic has been read go into one write, so nothing is skipped and a record that is read again makes the same row. What
cannot be read is passed over: nobody's answer about the cluster must depend on such a topic.

    lease-health    HealthRow per node, WatchRow per partition of heartbeats
    dead            LetterRow and LetterBodyRow per dead letter, as long as the topic keeps it
    trees           FindingsRow and FindingsBodyRow per page of rows that differ (`findings.py` says which are kept)
    maps            MapRow and MapBodyRow per node, MapPartRow per part of a map that is not whole (`newest_maps.py`)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from topolog.events import dead_letters
from topolog.events.codec import CODEC
from topolog.events.health import HealthHeard, LeaseHealth
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.log import Entry, Partition
from topolog.events.membership import Applied
from topolog.events.repair_plan import Difference
from topolog.events.single_maps import Copies, SinglePartitionMap
from topolog.events.topics import PARTITIONS, Topic

REPLAYS = "topolog-replays"
"""The header of a replayed record: which letter it replays."""

_LAST = (1 << 63) - 1


class SideRow(msgspec.Struct, frozen=True):
    """A row of a side family; `appended_ms` is the LogAppendTime of the record it came from."""

    KIND: ClassVar[str]
    TOPIC: ClassVar[Topic]


class HealthRow(SideRow, frozen=True):
    """The health of one node as it was told last, under the node's id."""

    KIND: ClassVar[str] = "health"
    TOPIC: ClassVar[Topic] = Topic.LEASE_HEALTH

    health: LeaseHealth
    appended_ms: int


class WatchRow(SideRow, frozen=True):
    """The last word of whoever measures a partition of heartbeats, under the partition's number."""

    KIND: ClassVar[str] = "watch"
    TOPIC: ClassVar[Topic] = Topic.LEASE_HEALTH

    heard: HealthHeard
    appended_ms: int


class LetterRow(SideRow, frozen=True):
    """What a list shows of the dead letter at `offset`; empty or None is what its headers do not say.

    `truncated_from` is the size of a record of which only the beginning is kept, `replays` the letter it replays.
    """

    KIND: ClassVar[str] = "letter"
    TOPIC: ClassVar[Topic] = Topic.DEAD

    offset: int
    topic: str
    partition: int | None
    source_offset: int | None
    reason: str
    size: int
    truncated_from: int | None
    replays: int | None
    appended_ms: int


class LetterBodyRow(SideRow, frozen=True):
    KIND: ClassVar[str] = "letter-body"
    TOPIC: ClassVar[Topic] = Topic.DEAD

    key: bytes
    headers: tuple[tuple[str, bytes], ...]
    value: bytes


class FindingsRow(SideRow, frozen=True):
    """One page of the rows that a step of a segment has found to differ: `rows` of them, the first `kept` in its body.

    `digest` is the SHA-256 of its payload.
    """

    KIND: ClassVar[str] = "findings"
    TOPIC: ClassVar[Topic] = Topic.TREES

    session: int
    segment: int
    step: int
    page: int
    is_last: bool
    digest: bytes
    rows: int
    kept: int
    appended_ms: int


class FindingsBodyRow(SideRow, frozen=True):
    KIND: ClassVar[str] = "findings-body"
    TOPIC: ClassVar[Topic] = Topic.TREES

    differences: tuple[Difference, ...]


class MapRow(SideRow, frozen=True):
    """What a single map says of itself, under its node's id. `exchange` is the position of the one it was sent for."""

    KIND: ClassVar[str] = "single-map"
    TOPIC: ClassVar[Topic] = Topic.MAPS

    node: NodeId
    incarnation: Incarnation
    exchange: Position | None
    update_sequence: int
    applied: Applied
    appended_ms: int


class MapBodyRow(SideRow, frozen=True):
    """What it says of the node's copies, by group, packed."""

    KIND: ClassVar[str] = "single-map-body"
    TOPIC: ClassVar[Topic] = Topic.MAPS

    groups: Mapping[str, Copies]


class MapPartRow(SideRow, frozen=True):
    """A part of a map of which others are still to come, under the part's number and its node's id."""

    KIND: ClassVar[str] = "single-map-part"
    TOPIC: ClassVar[Topic] = Topic.MAPS

    part: SinglePartitionMap
    appended_ms: int


SIDE_ROWS: tuple[type[SideRow], ...] = (
    HealthRow,
    WatchRow,
    LetterRow,
    LetterBodyRow,
    FindingsRow,
    FindingsBodyRow,
    MapRow,
    MapBodyRow,
    MapPartRow,
)
SIDE_TOPICS = (Topic.LEASE_HEALTH, Topic.DEAD, Topic.TREES, Topic.MAPS)
SIDE_PARTITIONS: tuple[Partition, ...] = tuple(
    (topic, number) for topic in SIDE_TOPICS for number in range(PARTITIONS[topic])
)


class SideWrite(msgspec.Struct, frozen=True):
    """What some records of side topics leave: rows by (kind, key), None for one that goes, and where to go on."""

    rows: Mapping[tuple[str, str], SideRow | None]
    nexts: Mapping[Partition, Offset]


def side_write(entries: Sequence[Entry]) -> SideWrite:
    """What these entries leave by themselves, which of `trees` and `maps` is nothing; of several about one key the last
    counts."""
    rows: dict[tuple[str, str], SideRow | None] = {}
    nexts: dict[Partition, Offset] = {}
    for entry in entries:
        nexts[entry.topic, entry.partition] = Offset(entry.offset + 1)
        if entry.topic is Topic.DEAD:
            rows |= _letter(entry)
        if entry.topic is not Topic.LEASE_HEALTH:
            continue
        record = CODEC.read(entry.value)
        match record:
            case LeaseHealth():
                rows[HealthRow.KIND, record.node] = HealthRow(record, entry.appended_at_ms)
            case HealthHeard():
                rows[WatchRow.KIND, str(record.partition)] = WatchRow(record, entry.appended_at_ms)
    return SideWrite(rows, nexts)


def letter_key(offset: int) -> str:
    """The newest letter comes first."""
    return f"{_LAST - offset:019d}"


def expiry(letters: Iterable[tuple[str, LetterRow]], before_ms: int) -> SideWrite:
    """What removes the letters that the topic took before that time."""
    gone = [key for key, row in letters if row.appended_ms < before_ms]
    return SideWrite({(kind.KIND, key): None for key in gone for kind in (LetterRow, LetterBodyRow)}, {})


def _letter(entry: Entry) -> dict[tuple[str, str], SideRow | None]:
    said = {name: value.decode("utf-8", "replace") for name, value in entry.headers}
    row = LetterRow(
        offset=entry.offset,
        topic=said.get(dead_letters.TOPIC, ""),
        partition=_number(said.get(dead_letters.PARTITION)),
        source_offset=_number(said.get(dead_letters.OFFSET)),
        reason=said.get(dead_letters.MESSAGE, ""),
        size=len(entry.value),
        truncated_from=_number(said.get(dead_letters.TRUNCATED_FROM_BYTES)),
        replays=_number(said.get(REPLAYS)),
        appended_ms=entry.appended_at_ms,
    )
    body = LetterBodyRow((entry.key or "").encode("utf-8", "surrogateescape"), entry.headers, entry.value)
    key = letter_key(entry.offset)
    return {(LetterRow.KIND, key): row, (LetterBodyRow.KIND, key): body}


def _number(text: str | None) -> int | None:
    """The number that a header says, None for whatever else a stranger may have written."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < len(str(_LAST)) else None
