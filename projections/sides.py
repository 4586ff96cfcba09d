"""What a projector keeps beside the fold of `decisions`: families of rows from other topics, with offsets of their own.

They say nothing about the state of the cluster and have no history. A family's rows and the offsets up to which its
topic has been read go into one write, so nothing is skipped and a record that is read again makes the same row. What
cannot be read is passed over: nobody's answer about the cluster must depend on such a topic.

    lease-health    HealthRow per node, WatchRow per partition of heartbeats
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from topolog.events.codec import CODEC
from topolog.events.errors import Undecodable
from topolog.events.health import HealthHeard, LeaseHealth
from topolog.events.ids import Offset
from topolog.events.log import Entry, Partition
from topolog.events.topics import PARTITIONS, Topic


class SideRow(msgspec.Struct, frozen=True):
    """A row of a side family; `appended_ms` is the LogAppendTime of the record it came from."""

    KIND: ClassVar[str]


class HealthRow(SideRow, frozen=True):
    """The health of one node as it was told last, under the node's id."""

    KIND: ClassVar[str] = "health"

    health: LeaseHealth
    appended_ms: int


class WatchRow(SideRow, frozen=True):
    """The last word of whoever measures a partition of heartbeats, under the partition's number."""

    KIND: ClassVar[str] = "watch"

    heard: HealthHeard
    appended_ms: int


SIDE_ROWS: tuple[type[SideRow], ...] = (HealthRow, WatchRow)
SIDE_TOPICS = (Topic.LEASE_HEALTH,)
SIDE_PARTITIONS: tuple[Partition, ...] = tuple(
    (topic, number) for topic in SIDE_TOPICS for number in range(PARTITIONS[topic])
)


class SideWrite(msgspec.Struct, frozen=True):
    """What some records of side topics leave: rows by (kind, key), and where to go on in each partition."""

    rows: Mapping[tuple[str, str], SideRow]
    nexts: Mapping[Partition, Offset]


def side_write(entries: Sequence[Entry]) -> SideWrite:
    """What these entries leave; of several about one key the last counts."""
    rows: dict[tuple[str, str], SideRow] = {}
    nexts: dict[Partition, Offset] = {}
    for entry in entries:
        nexts[entry.topic, entry.partition] = Offset(entry.offset + 1)
        try:
            record = CODEC.decode(entry.value)
        except Undecodable:
            continue
        match record:
            case LeaseHealth():
                rows[HealthRow.KIND, record.node] = HealthRow(record, entry.appended_at_ms)
            case HealthHeard():
                rows[WatchRow.KIND, str(record.partition)] = WatchRow(record, entry.appended_at_ms)
    return SideWrite(rows, nexts)
