"""Looking ahead: what a reader does before it stops at a record that it cannot fold.

The record may have been voided further on (`voiding.py`). So the reader leaves its fold where it stands, reads on by
stamps alone, and goes back: with the voiding if there is one, else it stops with the error it met. Everything on the
way is bounded: no record is kept, whatever lies between a poisoned record and its voiding.

All readers of `decisions` read through a `LookAhead`, which is a log reader like the one it is given.
"""

from collections.abc import Mapping

import msgspec

from topolog.events.codec import CODEC
from topolog.events.errors import Poisoned
from topolog.events.fold import Fold, Ignored, Judge, ends_term
from topolog.events.ids import Offset, Position
from topolog.events.log import Entry, LogReader, Partition
from topolog.events.topics import Topic
from topolog.events.voiding import RecordVoided, Voiding

_DECISIONS: Partition = (Topic.DECISIONS, 0)


class Search:
    """Judges records and notes what the accepted ones void; it decodes nothing but voidings and the ends of terms."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.found: dict[Voiding, Position] = {}

    def read(self, entry: Entry) -> None:
        verdict = self.judge.judge(entry.stamp, entry.value)
        if isinstance(verdict, Ignored):
            return
        for accepted in verdict:
            if ends_term(accepted.value):
                self.judge.end_term()
            voided = voided_by(accepted.value)
            if voided is not None:
                self.found.setdefault(voided, accepted.place.position)


class _Stop(msgspec.Struct, frozen=True):
    """Where a fold stands, and why it cannot go on."""

    fold: Fold
    poisoned: Poisoned
    offset: Offset
    search: Search

    @property
    def voiding(self) -> Voiding:
        return Position(self.poisoned.position), self.poisoned.chain


class LookAhead:
    """The log reader of a fold. While it looks ahead it is at no end of `decisions` and gives none of its records."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._next: dict[Partition, Offset | None] = {}
        self._stop: _Stop | None = None
        self._passed: list[Entry] = []

    @property
    def search(self) -> Search | None:
        """How far it has looked ahead, while it does and when it has found nothing; None while it has no need to."""
        return self._stop.search if self._stop else None

    def look_ahead(self, fold: Fold, poisoned: Poisoned, offset: Offset) -> None:
        """`fold` has stopped at the record at `offset`: `poll` tells it of the voiding and gives that record again.

        Raises the error, here or from `poll`, when the end of the log is reached without one.
        """
        self._stop = _Stop(fold, poisoned, offset, Search(fold.judge()))
        self._go_to(offset)
        self._passed += self.poll(0)

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._stop, self._passed = None, []
        self._next = dict(starts)
        self._reader.assign(starts)

    def poll(self, timeout_s: float) -> list[Entry]:
        entries = self._reader.poll(timeout_s)
        for entry in entries:
            self._next[entry.topic, entry.partition] = Offset(entry.offset + 1)
        passed, self._passed = self._passed, []
        return passed + (entries if self._stop is None else self._look(self._stop, entries))

    def at_end(self, topic: Topic) -> bool:
        return self._is_plain(topic) and self._reader.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self._is_plain(topic) and self._reader.hears(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        return self._reader.bounds(partition)

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._reader.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._reader.proven()

    def close(self) -> None:
        self._reader.close()

    def _look(self, stop: _Stop, entries: list[Entry]) -> list[Entry]:
        others = [entry for entry in entries if entry.topic is not Topic.DECISIONS]
        for entry in entries:
            if entry.topic is Topic.DECISIONS:
                stop.search.read(entry)
        if stop.voiding in stop.search.found:
            stop.fold.void(stop.voiding)
            self._stop = None
            self._go_to(stop.offset)
        elif self._reader.at_end(Topic.DECISIONS) and not others:  # what else came must not be lost with the error
            raise stop.poisoned
        return others

    def _go_to(self, offset: Offset) -> None:
        self._next[_DECISIONS] = offset
        self._reader.assign(self._next)

    def _is_plain(self, topic: Topic) -> bool:
        return topic is not Topic.DECISIONS or self._stop is None


def voided_by(value: bytes) -> Voiding | None:
    """Which record this value voids, if that is what it does."""
    record = CODEC.read(value) if CODEC.type_of(value) is RecordVoided else None
    return (Position(record.position), record.chain) if isinstance(record, RecordVoided) else None
