"""How a record that nobody can read is put aside: its bytes untouched, with Kafka's own names for the reasons."""

import logging
from collections.abc import Sequence

import msgspec

from topolog.events import dead_letters
from topolog.events.errors import BadInput, TopologError
from topolog.events.failpoints import reach
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogWriter
from topolog.events.requests import shortened
from topolog.events.topics import RECORD_BYTES_MAX, Topic
from topolog.streams.coordinator.core import Dead

_LOGGER = logging.getLogger("topolog.coordinator")
_KEY = ("utf-8", "surrogateescape")
_STUB_BYTES = 10_000
_KEY_BYTES_KEPT = 1_000
_HEADER_BYTES = 6
"""What a header takes besides its name and content: their lengths, as Kafka writes those below a megabyte."""

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
            _LOGGER.warning("%s@%d is dead: %s", each.entry.topic.short_name, each.entry.offset, shortened(each.reason))
            found = letter(each)
            try:
                self._writer.append(Topic.DEAD, found.key or "", found.value, found.headers, _on_buried)
            except BadInput as error:  # of one that is too big; read again it would be no smaller
                _on_buried(error, None)
        self._writer.flush(BURIAL_S)
        reach("coordinator.buried")


def _on_buried(error: TopologError | None, _: Offset | None) -> None:
    if error is not None:
        _LOGGER.error("a dead letter was lost: %s", error)


def letter(dead: Dead) -> Entry:
    """The dead record with the reasons, which are ours alone to say; one that is too big to be appended keeps its
    beginning, that of its key, and its size. What others have said in a reason is cut: it is as long as they like."""
    entry = dead.entry
    theirs = (each for each in entry.headers if not each[0].startswith(dead_letters.ERRORS))
    whole = msgspec.structs.replace(entry, headers=(*theirs, *_error_headers(dead)))
    key = (entry.key or "").encode(*_KEY)
    names = sum(len(name.encode()) + len(content) + _HEADER_BYTES for name, content in whole.headers)
    size = len(key) + len(entry.value) + names
    if size <= RECORD_BYTES_MAX:
        return whole
    return msgspec.structs.replace(
        entry,
        key=entry.key and key[:_KEY_BYTES_KEPT].decode(*_KEY),
        value=entry.value[:_STUB_BYTES],
        headers=(*_error_headers(dead), (dead_letters.TRUNCATED_FROM_BYTES, str(size).encode())),
    )


def _error_headers(dead: Dead) -> tuple[tuple[str, bytes], ...]:
    return (
        (dead_letters.TOPIC, dead.entry.topic.short_name.encode()),
        (dead_letters.PARTITION, str(dead.entry.partition).encode()),
        (dead_letters.OFFSET, str(dead.entry.offset).encode()),
        (dead_letters.MESSAGE, shortened(dead.reason).encode()),
        (dead_letters.EXCEPTION, b"Undecodable"),
    )
