"""An archive as a log that can be folded, alone or with the topic behind its end.

Threats. A landing, a day or a file of the archive is gone; it does not begin where the log does; the topic is not, or
no longer, the one that it was made of.

Invariant. Whoever has folded an archive to its end, and finds none of its `holes` in doubt, has folded what the topic
held.

Argument. What landings say that they have is there, or the reader stops (`reading.py`); of what no landing has
`holes.py` says whether it counts. That the topic is the one of the archive is seen in the last record: it stands where
it stood, to the byte.
"""

from collections.abc import Iterator, Mapping

from topolog.events.errors import LogDiverged
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader, Partition
from topolog.events.topics import Topic
from topolog.projections.archive import reading
from topolog.projections.archive.holes import ArchiveIncomplete, Holes
from topolog.projections.archive.landings import Archive

_DECISIONS: Partition = (Topic.DECISIONS, 0)


class ArchiveReader:
    """A log reader of the archive's `decisions`. It never waits: a folder has what it has.

    The end is that of the archive, looked for anew by `hears`; a stream may land more at any time. Raises
    DamagedArchive for what is named and cannot be read.
    """

    def __init__(self, archive: Archive) -> None:
        self.holes = Holes()
        self._archive = archive
        self._next = 0
        self._batches: Iterator[list[Entry]] | None = None
        self._is_at_end = False
        self._last: Entry | None = None

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        assert starts.keys() == {_DECISIONS}, "an archive is read for its decisions"
        self._next = starts[_DECISIONS] or 0
        self.holes.read_again(self._next)
        self._look()

    def poll(self, timeout_s: float) -> list[Entry]:
        if self._batches is None:
            return []
        entries = next(self._batches, None)
        if entries is None:
            self._batches, self._is_at_end = None, True
            return []
        for entry in entries:
            if entry.offset != self._next:
                self.holes.found(self._next, entry.offset)
            self._next = entry.offset + 1
        return entries

    def at_end(self, topic: Topic) -> bool:
        return topic is Topic.DECISIONS and self._is_at_end

    def hears(self, topic: Topic) -> bool:
        if not self.at_end(topic):
            return False
        self._look()
        return self._is_at_end

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._last = entry
        if self.holes.first:
            self.holes.counted(entry.offset, entry.stamp or b"")

    def proven(self) -> bool:
        """Reads the record again, files and all."""
        last = self._last
        if last is None:
            return True
        found = next(reading.entries(self._archive, Topic.DECISIONS, last.offset), [])
        if last not in found[:1]:
            raise LogDiverged(f"Offset {last.offset} of {self._archive.folder} holds another record, or none.")
        return True

    def close(self) -> None:
        self._batches = None

    def incomplete(self) -> ArchiveIncomplete | None:
        """Why what was folded is not what the topic held, None if nothing speaks against it."""
        return self.holes.incomplete(self._archive.folder)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset]:
        place = partition[0].short_name, partition[1]
        spans = [span for span in self._archive.spans() if span.place == place]
        return (Offset(spans[0].start), Offset(spans[-1].end)) if spans else (Offset(0), Offset(0))

    def _look(self) -> None:
        """At what has landed by now."""
        reading.check_whole(self._archive, Topic.DECISIONS.short_name)
        self._is_at_end = self.bounds(_DECISIONS)[1] <= self._next
        self._batches = None if self._is_at_end else reading.entries(self._archive, Topic.DECISIONS, self._next)


class ArchiveThenTopic:
    """A log reader that reads an archive to its end and goes on from the topic that it was made of.

    Raises LogDiverged if the topic does not hold the archive's last record.
    """

    def __init__(self, archive: ArchiveReader, topic: LogReader) -> None:
        self._archive = archive
        self._topic = topic
        self._start = Offset(0)
        self._last: Entry | None = None
        self._is_in_topic = False
        self._is_proven = False

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._is_in_topic, self._last = False, None
        self._start = starts[_DECISIONS] or Offset(0)
        self._archive.assign(starts)

    def poll(self, timeout_s: float) -> list[Entry]:
        if not self._is_in_topic:
            entries = self._archive.poll(timeout_s)
            if entries or not self._archive.hears(Topic.DECISIONS):
                self._last = entries[-1] if entries else self._last
                return entries
            self._go_over()
        entries = self._topic.poll(timeout_s)
        if self._is_proven or (not entries and not self._topic.at_end(Topic.DECISIONS)):
            return entries
        if not entries or not _is_same(entries[0], self._last):
            raise _other_topic(self._last)
        self._is_proven = True
        return entries[1:]

    def at_end(self, topic: Topic) -> bool:
        return self._is_in_topic and self._is_proven and self._topic.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self._is_in_topic and self._is_proven and self._topic.hears(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        landed, there = self._archive.bounds(partition), self._topic.bounds(partition)
        return None if there is None else (landed[0], max(landed[1], there[1]))

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._archive.counted(entry, fence_ms)
        self._topic.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._topic.proven() if self._is_in_topic else self._archive.proven()

    def close(self) -> None:
        """The archive's reader only: the topic's is its owner's."""
        self._archive.close()

    def _go_over(self) -> None:
        self._is_in_topic, self._is_proven = True, self._last is None
        self._topic.assign({_DECISIONS: self._last.offset if self._last else self._start})


def _is_same(entry: Entry, last: Entry | None) -> bool:
    return last is not None and (entry.offset, entry.value, entry.stamp) == (last.offset, last.value, last.stamp)


def _other_topic(last: Entry | None) -> LogDiverged:
    offset = last.offset if last else 0
    return LogDiverged(
        f"Offset {offset} of decisions does not hold the record that ends the archive.",
        hint="The topic was cut short, made anew or swapped for a copy, or the settings name another cluster. "
        "--archive-only rebuilds what the archive has, which may be all that is left of that log.",
    )
