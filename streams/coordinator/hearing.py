"""Whether silence counts: of who says nothing only if it could have been heard (LE27, K5).

Whoever cannot hear says so: it puts nobody out and follows nobody, for as long as that lasts.
"""

import logging
from collections.abc import Callable

from topolog.events.log import LogReader
from topolog.events.topics import Topic

_LOGGER = logging.getLogger(__name__)
_NS_PER_MS = 1_000_000
_PROBES_MISSED_MAX = 3


class Hearing:
    """Of one topic. `now_ns` is on the monotonic clock."""

    def __init__(self, reader: LogReader, topic: Topic) -> None:
        self._reader = reader
        self._topic = topic
        self._heard_ns = 0
        self._limit_ns = 0
        self.is_deaf = False

    def begin(self, now_ns: int) -> None:
        """Silence counts from now on."""
        self._heard_ns = now_ns
        self.is_deaf = False

    def listen(self, now_ns: int, limit_ns: int, start_again: Callable[[], None]) -> bool:
        """Whether the log itself has said, within `limit_ns`, that the topic is read to its end.

        Once it says so again after a longer time, all waits for this silence are to `start_again`. A limit that has
        become shorter since (`events/lease_terms.py`) makes nobody deaf who has listened by the longer one.
        """
        longest_ns = max(limit_ns, self._limit_ns)
        deaf_ns = now_ns - self._heard_ns
        if deaf_ns > limit_ns // 2 and self._reader.hears(self._topic):
            if deaf_ns > longest_ns:
                told = (self._topic.short_name, deaf_ns // _NS_PER_MS)
                _LOGGER.warning("%s not heard for %d ms; waits start again", *told)
                start_again()
            self._heard_ns, self._limit_ns = now_ns, limit_ns
        was_deaf, self.is_deaf = self.is_deaf, now_ns - self._heard_ns > longest_ns
        if self.is_deaf and not was_deaf:
            _LOGGER.warning(
                "the log has not said for %d ms that %s is read to its end; nobody's silence counts until it does",
                deaf_ns // _NS_PER_MS,
                self._topic.short_name,
            )
        return not self.is_deaf


class Silence:
    """Of a leader, as a stand-by hears it. `now_ns` is on the monotonic clock."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self.is_deaf = False

    def restart(self, now_ns: int, takeover_ms: int, stretch: float, *, is_heard: bool) -> None:
        """The leader is silent too long in `takeover_ms` times `stretch`: it was heard, or could not be."""
        self.is_deaf = self.is_deaf and not is_heard
        self._until_ns = now_ns + int(takeover_ms * stretch) * _NS_PER_MS
        self._probe_every_ns = takeover_ms * _NS_PER_MS // 8
        self._next_probe_ns = now_ns + self._probe_every_ns
        self._log_heard_ns = now_ns

    def end(self, now_ns: int) -> None:
        """The leader has said that it leads no more: there is nothing to wait for."""
        self._until_ns = now_ns

    def is_over(self, now_ns: int) -> bool:
        """Whether it has been silent for long enough, if it could have been heard."""
        return now_ns >= self._until_ns

    def could_be_broken(self, now_ns: int) -> bool:
        """Whether the log has lately said that it holds no more than we have read: its own outage deposes nobody."""
        if now_ns >= self._next_probe_ns and self._reader.hears(Topic.DECISIONS):
            self._log_heard_ns, self.is_deaf = now_ns, False
            self._next_probe_ns = now_ns + self._probe_every_ns
        if now_ns - self._log_heard_ns <= _PROBES_MISSED_MAX * self._probe_every_ns:
            return True
        if not self.is_deaf:
            _LOGGER.warning("the log does not say that it is read to its end; nobody is followed until it does")
        self.is_deaf = True
        return False
