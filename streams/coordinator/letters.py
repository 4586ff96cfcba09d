"""How a record that nobody can read is put aside: its bytes untouched, with Kafka's own names for the reasons."""

import logging
from collections.abc import Sequence

import msgspec

from topolog.events import dead_letters
from topolog.events.failpoints import reach
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogWriter
from topolog.events.topics import RECORD_BYTES_MAX, Topic
from topolog.streams.coordinator.core import Dead

_LOGGER = logging.getLogger("topolog.coordinator")
_STUB_BYTES = 10_000

BURIAL_S = 0.5
"""How long one step waits until dead letters are delivered; the order of sends to two topics is nobody's promise."""


class Burials:
    """Of one process; `count` is how many."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self.count = 0

    def bury(self, dead: Sequence[Dead]) -> None:
        """Undecodable input goes to `dead`, bytes untouched, with Kafka's own names for the reasons.

        Delivered before the decisions that say it has been read: whoever dies in between buries it twice, and loses
        none. A topic `dead` that does not answer is not waited for longer than BURIAL_S: it must not silence a leader.
        """
        if not dead:
            return
        reach("coordinator.burying")
        for each in dead:
            self.count += 1
            _LOGGER.warning("%s@%d is dead: %s", each.entry.topic.short_name, each.entry.offset, each.reason)
            found = letter(each)
            self._writer.append(Topic.DEAD, found.key or "", found.value, found.headers, _on_buried)
        self._writer.flush(BURIAL_S)
        reach("coordinator.buried")


def _on_buried(error: str | None, _: Offset | None) -> None:
    if error is not None:
        _LOGGER.error("a dead letter was lost: %s", error)


def letter(dead: Dead) -> Entry:
    """The dead record with the reasons, which are ours alone to say; one that is too big to be appended keeps its
    beginning and its size."""
    entry = dead.entry
    theirs = (each for each in entry.headers if not each[0].startswith(dead_letters.ERRORS))
    whole = msgspec.structs.replace(entry, headers=(*theirs, *_error_headers(dead)))
    size = len(entry.value) + sum(len(name) + len(content) for name, content in whole.headers)
    if size <= RECORD_BYTES_MAX:
        return whole
    cut = (dead_letters.TRUNCATED_FROM_BYTES, str(size).encode())
    return msgspec.structs.replace(entry, value=entry.value[:_STUB_BYTES], headers=(*_error_headers(dead), cut))


def _error_headers(dead: Dead) -> tuple[tuple[str, bytes], ...]:
    return (
        (dead_letters.TOPIC, dead.entry.topic.short_name.encode()),
        (dead_letters.PARTITION, str(dead.entry.partition).encode()),
        (dead_letters.OFFSET, str(dead.entry.offset).encode()),
        (dead_letters.MESSAGE, dead.reason.encode()),
        (dead_letters.EXCEPTION, b"Undecodable"),
    )
