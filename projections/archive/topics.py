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
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from topolog.events.errors import BadInput, LogDiverged, TopologError, Undecodable, Unreachable
from topolog.events.ids import Offset
from topolog.events.log import LogReader
from topolog.events.stamp import decode_stamp
from topolog.events.topics import BY_SHORT_NAME, PLANS, REQUEST_TOPICS, Topic, topic_name
from topolog.projections.archive.landings import Archive, ArchiveWriter
from topolog.projections.archive.spans import Span, merged, minus

if TYPE_CHECKING:
    from topolog.events.kafka_admin import FoundTopic, KafkaAdmin

TOPICS = (Topic.DECISIONS, *REQUEST_TOPICS, Topic.LEASE_HEALTH, Topic.DEAD)
"""What is landed if nothing else is said: what is kept for ever or for long, and what reports are made of."""

_COMPACTED = {plan.topic.short_name for plan in PLANS if plan.compacts}
_NEEDED = {plan.topic for plan in PLANS if plan.is_needed}
_FIRST_RECORD_S = 10.0
_POLL_S = 0.2
_LOOK_S = 0.5
TopicPartition = tuple[str, int]


class Seen(msgspec.Struct, frozen=True):
    """The topics of a cluster at one moment: Kafka's ids by short name, and of each partition the offset of the oldest
    record kept and the one after the newest."""

    ids: Mapping[str, str]
    bounds: Mapping[TopicPartition, tuple[int, int]]

    def kept(self) -> tuple[Span, ...]:
        return merged(Span(*place, *bounds) for place, bounds in self.bounds.items())


class Looked(msgspec.Struct, frozen=True):
    """The topics of many clusters at one moment; `failed` says why there is nothing to say of a cluster."""

    seen: dict[str, Seen]
    failed: dict[str, TopologError]


def look(admin: "KafkaAdmin", cluster: str, topics: Collection[Topic] = TOPICS) -> Seen:
    """What there is of these topics. Raises Unreachable, and NotFound if there is no log."""
    looked = look_at_all(admin, [cluster], topics)
    if cluster in looked.failed:
        raise looked.failed[cluster]
    return looked.seen[cluster]


def look_at_all(admin: "KafkaAdmin", clusters: Collection[str], topics: Collection[Topic] = TOPICS) -> Looked:
    """As `look`, by cluster; raises Unreachable if no partition of theirs can be asked."""
    looked = Looked({}, {})
    names = {cluster: {topic_name(cluster, topic): topic for topic in topics} for cluster in clusters}
    found = admin.describe([name for each in names.values() for name in each]) if names else {}
    places = [place for name in found for place in _places(found, name)]
    bounds = admin.bounds(places) if places else {}
    for cluster, mine in names.items():
        there = {name: topic.short_name for name, topic in mine.items() if name in found}
        lacks = [name for name, topic in mine.items() if name not in found and topic in _NEEDED]
        hidden = [name for name in there if not found[name].partitions]
        silent = [place for name in there for place in _places(found, name) if place not in bounds]
        if lacks:
            looked.failed[cluster] = admin.not_found(cluster, lacks[0])
        elif hidden:
            looked.failed[cluster] = BadInput(
                f"This account may not see topic {hidden[0]}.",
                hint="Let it Read and Describe the topic, or name those that are to land with --topic.",
            )
        elif silent:
            looked.failed[cluster] = Unreachable(f"Partition {silent[0][1]} of {silent[0][0]} has no leader.")
        else:
            looked.seen[cluster] = Seen(
                {topic: found[name].id for name, topic in there.items()},
                {(topic, at): bounds[name, at] for name, topic in there.items() for _, at in _places(found, name)},
            )
    return looked


def _places(found: "Mapping[str, FoundTopic]", name: str) -> list[TopicPartition]:
    return [(name, number) for number in range(found[name].partitions)]


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


def appended_ms(reader: LogReader, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """When the first record from each of these offsets on was appended (UTC), where one comes in time."""
    found: dict[TopicPartition, int] = {}
    for (topic, number), offset in places.items():  # one by one, for what is read beyond the first is read in vain
        reader.assign({(BY_SHORT_NAME[topic], number): Offset(offset)})
        deadline_s = time.monotonic() + _LOOK_S
        while (topic, number) not in found and time.monotonic() < deadline_s:
            for entry in reader.poll(_POLL_S)[:1]:
                found[topic, number] = entry.appended_at_ms
    reader.assign({})
    return found


def begin(archive: ArchiveWriter, seen: Seen) -> None:
    """Note where each partition begins for this archive: from there on nothing may be lost, landed or not."""
    archive.begin({_name(place): oldest for place, (oldest, _) in seen.bounds.items()})


def check(archive: ArchiveWriter, seen: Seen) -> None:
    """Raise BadInput or LogDiverged unless these are the topics that the archive was made of, and nothing is lost."""
    check_same(archive, seen)
    if lost := deleted(archive, seen):
        told = ", ".join(f"{_name(each.place)} from {each.start} to {each.end - 1}" for each in lost)
        raise LogDiverged(
            f"Records were deleted before they landed: {told}.",
            hint="The log itself must never be cut: bring it back from a backup."
            if Topic.DECISIONS.short_name in {each.topic for each in lost}
            else "Land the topics in another folder, or say that the archive goes on without them: --accept-loss.",
        )


def check_same(archive: ArchiveWriter, seen: Seen) -> None:
    """Raise BadInput or LogDiverged unless these are the topics that the archive was made of."""
    archive.identify(b"", seen.ids)
    for span in archive.spans():
        if span.place in seen.bounds and seen.bounds[span.place][1] < span.end:
            raise LogDiverged(
                f"The archive in {archive.folder} has {_name(span.place)} up to offset {span.end}, and the topic ends "
                f"at {seen.bounds[span.place][1]}: it was cut short or made anew.",
                hint="Keep this archive: it may be all that is left of those records. Land the topic elsewhere.",
            )


def deleted(archive: Archive, seen: Seen) -> tuple[Span, ...]:
    """What has not landed and is no longer there: of the log all from its beginning on, of others all behind what was
    landed first or was there when the archive began. Of a compacted topic that is what it is for."""
    covered = archive.covered()
    gone = []
    for place, (oldest, _) in seen.bounds.items():
        firsts = [span.start for span in covered if span.place == place][:1]
        firsts.append(archive.about.begins.get(_name(place), oldest))
        if place[0] not in _COMPACTED:
            is_log = place[0] == Topic.DECISIONS.short_name
            gone.append(Span(*place, 0 if is_log else min(firsts), oldest))
    return minus(gone, covered)


def unread(archive: Archive, seen: Seen) -> tuple[Span, ...]:
    """What is there and has not landed."""
    return minus(seen.kept(), archive.covered())


def starts(archive: Archive, seen: Seen) -> dict[TopicPartition, int]:
    """From where each partition is to be read so that nothing is left out."""
    found = {place: end for place, (_, end) in seen.bounds.items()}
    for span in reversed(unread(archive, seen)):
        found[span.place] = span.start
    return found


def _name(place: TopicPartition) -> str:
    return f"{place[0]}/{place[1]}"
