"""Whether topics are those that an archive was made of, and what of them is still to land.

Threats. A topic was deleted and made anew, under the same name and perhaps longer than before; it was put back from an
older copy and has lost its end; its oldest records were deleted before they landed; the settings name another cluster.
In each of them Spark would read offsets that mean something else, or leave some out.

So the topics are looked at before a job begins and again before each of its landings stands: Kafka's own ids, that no
topic ends before what has landed of it, and that nothing in between was deleted. A batch that was read before a look
that finds all in order is of these topics. The log's id, which is in its first record, outlives even a new broker.
"""

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from topolog.events.errors import LogDiverged, NotFound, Undecodable, Unreachable
from topolog.events.ids import Offset
from topolog.events.log import LogReader
from topolog.events.stamp import decode_stamp
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.projections.archive.landings import Archive, ArchiveWriter
from topolog.projections.archive.spans import Span, merged, minus

if TYPE_CHECKING:
    from topolog.events.kafka_admin import KafkaAdmin

TOPICS = (Topic.DECISIONS, Topic.REQUESTS, Topic.LEASE_HEALTH, Topic.DEAD)
"""What is landed if nothing else is said: what is kept for ever or for long, and what reports are made of."""

_COMPACTED = {plan.topic.short_name for plan in PLANS if plan.compacts}
_FIRST_RECORD_S = 10.0
_POLL_S = 0.2
_LOOK_S = 0.5
Place = tuple[str, int]


class Seen(msgspec.Struct, frozen=True):
    """The topics of a cluster at one moment: Kafka's ids by short name, and of each partition the offset of the oldest
    record kept and the one after the newest."""

    ids: Mapping[str, str]
    bounds: Mapping[Place, tuple[int, int]]

    def kept(self) -> tuple[Span, ...]:
        return merged(Span(*place, *bounds) for place, bounds in self.bounds.items())


def look(admin: "KafkaAdmin", clusters: Collection[str], topics: Collection[Topic] = TOPICS) -> dict[str, Seen]:
    """What there is of these topics, by cluster. Raises Unreachable, and NotFound for a cluster without its log."""
    names = {topic_name(cluster, topic): (cluster, topic.short_name) for cluster in clusters for topic in topics}
    found = admin.describe(names.keys())
    for cluster in clusters:
        if missing := lacking(cluster, found, topics):
            raise not_found(missing)
    places = [(name, number) for name, topic in found.items() for number in range(topic.partitions)]
    bounds = admin.bounds(places)
    seen: dict[str, Seen] = {}
    for cluster in clusters:
        mine = {name: topic for name, (of, topic) in names.items() if of == cluster and name in found}
        seen[cluster] = Seen(
            {topic: found[name].id for name, topic in mine.items()},
            {(mine[name], number): bounds[name, number] for name, number in places if name in mine},
        )
    return seen


def lacking(cluster: str, there: Collection[str], topics: Collection[Topic]) -> list[str]:
    """Kafka's names of those topics without which no process of a cluster starts."""
    needed = {plan.topic for plan in PLANS if plan.is_needed}
    names = [topic_name(cluster, topic) for topic in topics if topic in needed]
    return [name for name in names if name not in there]


def not_found(missing: Sequence[str]) -> NotFound:
    return NotFound(f"There is no topic {missing[0]}.", hint="Make it with `topolog cluster init`.")


def log_id(kafka: Mapping[str, str], cluster: str) -> bytes:
    """The id in the first record of the cluster's log, empty if the log has not begun. Raises Unreachable."""
    from topolog.events.kafka import KafkaReader

    with contextlib.closing(KafkaReader(kafka, cluster)) as reader:
        return first_log_id(reader)


def first_log_id(reader: LogReader) -> bytes:
    """As `log_id`, of what this reader reads; what stands before the log's beginning is not of it."""
    reader.assign({(Topic.DECISIONS, 0): Offset(0)})
    deadline_s = time.monotonic() + _FIRST_RECORD_S
    while time.monotonic() < deadline_s:
        for entry in reader.poll(_POLL_S):
            with contextlib.suppress(Undecodable):
                stamp = decode_stamp(entry.stamp or b"")
                if stamp.term == 0 and stamp.sequence == 0:
                    return stamp.log_id
        if reader.at_end(Topic.DECISIONS):
            return b""
    raise Unreachable("The log's first record was not read in time.")


def appended_ms(reader: LogReader, places: Mapping[Place, int]) -> dict[Place, int]:
    """When the first record from each of these offsets on was appended (UTC), where one comes in time."""
    by_name = {topic.short_name: topic for topic in Topic}
    found: dict[Place, int] = {}
    for (topic, number), offset in places.items():  # one by one, for what is read beyond the first is read in vain
        reader.assign({(by_name[topic], number): Offset(offset)})
        deadline_s = time.monotonic() + _LOOK_S
        while (topic, number) not in found and time.monotonic() < deadline_s:
            for entry in reader.poll(_POLL_S)[:1]:
                found[topic, number] = entry.appended_at_ms
    reader.assign({})
    return found


def check(archive: ArchiveWriter, seen: Seen) -> None:
    """Raise BadInput or LogDiverged unless these are the topics that the archive was made of, and nothing is lost."""
    archive.identify(b"", seen.ids)
    for span in archive.spans():
        if span.place in seen.bounds and seen.bounds[span.place][1] < span.end:
            raise LogDiverged(
                f"The archive in {archive.folder} has {_name(span)} up to offset {span.end}, and the topic ends at "
                f"{seen.bounds[span.place][1]}: it was cut short or made anew.",
                hint="Keep this archive: it may be all that is left of those records. Land the topic elsewhere.",
            )
    if lost := deleted(archive, seen):
        told = ", ".join(f"{_name(each)} from {each.start} to {each.end - 1}" for each in lost)
        raise LogDiverged(
            f"Records were deleted before they landed: {told}.",
            hint="The log itself must never be cut: bring it back from a backup."
            if Topic.DECISIONS.short_name in {each.topic for each in lost}
            else "Land the topics in another folder, or say that the archive goes on without them: --accept-loss.",
        )


def deleted(archive: Archive, seen: Seen) -> tuple[Span, ...]:
    """What has not landed and is no longer there: of the log all from its beginning on, of others all behind what was
    landed first. Of a compacted topic that is what it is for."""
    covered = archive.covered()
    firsts = {Topic.DECISIONS.short_name: 0}
    gone = []
    for (topic, number), (oldest, _) in seen.bounds.items():
        began = next((span.start for span in covered if span.place == (topic, number)), oldest)
        if topic not in _COMPACTED:
            gone.append(Span(topic, number, firsts.get(topic, began), oldest))
    return minus(gone, covered)


def unread(archive: Archive, seen: Seen) -> tuple[Span, ...]:
    """What is there and has not landed."""
    return minus(seen.kept(), archive.covered())


def starts(archive: Archive, seen: Seen) -> dict[Place, int]:
    """From where each partition is to be read so that nothing is left out."""
    found = {place: end for place, (_, end) in seen.bounds.items()}
    for span in reversed(unread(archive, seen)):
        found[span.place] = span.start
    return found


def _name(span: Span) -> str:
    return f"{span.topic}/{span.partition}"
