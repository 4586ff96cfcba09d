"""Whether silence counts: of who says nothing on a topic only if the topic is heard to its end (DESIGN §4.1)."""

import logging
from collections.abc import Callable

from topolog.events.log import LogReader
from topolog.events.topics import Topic

_LOGGER = logging.getLogger(__name__)
_NS_PER_MS = 1_000_000


class Hearing:
    """Of one topic. `now_ns` is on the monotonic clock."""

    def __init__(self, reader: LogReader, topic: Topic) -> None:
        self._reader = reader
        self._topic = topic
        self._heard_ns = 0
        self._limit_ns = 0

    def begin(self, now_ns: int) -> None:
        """Silence counts from now on."""
        self._heard_ns = now_ns

    def listen(self, now_ns: int, limit_ns: int, start_again: Callable[[], None]) -> bool:
        """Whether the log itself has said, within `limit_ns`, that the topic is read to its end.

        Once it says so again after a longer time, all waits for this silence are to `start_again`. A limit that has
        become shorter since (`events/lease_terms.py`) makes nobody deaf who has listened by the longer one.
        """
        longest_ns = max(limit_ns, self._limit_ns)
        deaf_ns = now_ns - self._heard_ns
        if deaf_ns > limit_ns // 2 and self._reader.hears(self._topic):
            if deaf_ns > longest_ns:
                _LOGGER.warning("%s not heard for %d ms; waits start again", self._topic.value, deaf_ns // _NS_PER_MS)
                start_again()
            self._heard_ns, self._limit_ns = now_ns, limit_ns
        return now_ns - self._heard_ns <= longest_ns
