"""Where a new leader goes on reading the inputs, and how it knows that they are those that were counted (K4, K16).

Threat. `decisions` comes back without its inputs: from a backup, from a mirror, or because a topic was deleted. An
offset that was counted in the topic that was says nothing in the one that is. Where that has grown past it, the first
requests are passed over in silence, for ever: a node does not send again what the broker took.

How it works. Beside each offset the stamps carry the digest of the record before it. A new leader begins to read there,
one record early. If another record stands in that place, the topic is not the one that was: it is read from the oldest
record that is kept. To read all again costs time and nothing else: a request that has its outcome gets no other (K7),
and heartbeats and maps are numbered. If that record is kept no longer, or the topic has no such place, reading begins
with the oldest one anyway, and nothing is passed over. Where the topic ends just before it, nothing comes that could
tell: a topic of requests that is at its end without that record is read from the oldest one, too. Heartbeats and maps
go on by themselves.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from topolog.events.asking import digest_of
from topolog.events.ids import Offset
from topolog.events.log import Entry, Partition
from topolog.events.stamp import NO_DIGEST, InputOffset
from topolog.events.topics import BY_CODE, REQUEST_TOPICS, Topic
from topolog.streams.coordinator.obituary import Obituary


class Inputs:
    """How far each input partition is read, as stamps say it."""

    def __init__(self, read_through: Iterable[InputOffset] = ()) -> None:
        self._read = {(each.topic, each.partition): each for each in read_through}

    @property
    def read_through(self) -> tuple[InputOffset, ...]:
        return tuple(each for _, each in sorted(self._read.items()))

    def count(self, entry: Entry) -> None:
        """It is read, and what follows from it is decided at once."""
        place = entry.topic.code, entry.partition
        self._read[place] = InputOffset(*place, Offset(entry.offset + 1), digest_of(entry.value))

    def count_heard(self, obituary: Obituary) -> None:
        """What followed from all that was heard is decided, but for certificates that are held back."""
        for entry in obituary.read_through():
            place = entry.topic.code, entry.partition
            if place not in self._read or self._read[place].next_offset != entry.offset + 1:
                self.count(entry)


class Resumption:
    """`starts`: from which offset on each partition is to be read, None is the oldest; `remade`: those that do not hold
    what was counted in them."""

    def __init__(
        self,
        places: Mapping[Partition, Offset | None],
        inputs: Iterable[InputOffset],
        remade: Collection[Partition] = (),
    ) -> None:
        """`places`: where the inputs go on; `inputs`: what the accepted sets say to have read."""
        self.remade = set(remade)
        self._places = {each: None if each in self.remade else at for each, at in places.items()}
        read = {(BY_CODE[each.topic], each.partition): each for each in inputs if each.topic in BY_CODE}
        self._last = {
            each: read[each]
            for each in self._places.keys() & read.keys() - self.remade
            if read[each].digest != NO_DIGEST
        }
        self.starts = {each: self._start(each) for each in self._places}

    def take(self, entries: list[Entry]) -> list[Entry] | None:
        """Those of them that are to be heard; None if one of their topics is not the one that was: begin again with
        `remade`."""
        if not self._last:
            return entries
        known = len(self.remade)
        heard = [entry for entry in entries if self._is_news(entry)]
        return heard if len(self.remade) == known else None

    def misses(self, is_at_end: Callable[[Topic], bool]) -> bool:
        """Whether a topic of requests ends before the record that was read last: begin again with `remade`."""
        asked = [each for each in self._last if each[0] in REQUEST_TOPICS and self.starts[each] is not None]
        missed = [each for each in asked if is_at_end(each[0])]
        self.remade.update(missed)
        return bool(missed)

    def _start(self, partition: Partition) -> Offset | None:
        at, last = self._places[partition], self._last.get(partition)
        if at is None or last is None:
            return at
        return None if at > last.next_offset else Offset(min(at, last.next_offset - 1))

    def _is_news(self, entry: Entry) -> bool:
        """Whether it is to be heard; the record in the place of the last one tells whether the topic is the same."""
        partition = (entry.topic, entry.partition)
        last = self._last.get(partition)
        if last is None:
            return True
        start, at, before = self.starts[partition], self._places[partition], last.next_offset - 1
        is_where_asked = start is None or entry.offset >= start  # else the topic ended before that
        if is_where_asked and entry.offset < before:
            return True
        del self._last[partition]
        if entry.offset != before:
            return True
        if digest_of(entry.value) != last.digest:
            self.remade.add(partition)
        return start is None or (at is not None and entry.offset >= at)
