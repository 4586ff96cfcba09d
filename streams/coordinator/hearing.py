"""Whether silence counts: of who says nothing on a topic only if the topic is heard to its end (DESIGN §4.1)."""

from topolog.events.log import LogReader
from topolog.events.topics import Topic


class Hearing:
    """Of one topic. `now_ns` is on the monotonic clock; `limit_ns`: how long ago its end may have been heard last."""

    def __init__(self, reader: LogReader, topic: Topic) -> None:
        self._reader = reader
        self._topic = topic
        self._heard_ns = 0

    def begin(self, now_ns: int) -> None:
        """Silence counts from now on."""
        self._heard_ns = now_ns

    def gap_ns(self, now_ns: int, limit_ns: int) -> int:
        """How long the topic was not heard, if that was too long and is over now: all waits for it start again."""
        before_ns = self._heard_ns
        if now_ns - before_ns > limit_ns // 2 and self._reader.hears(self._topic):
            self._heard_ns = now_ns
            return now_ns - before_ns if now_ns - before_ns > limit_ns else 0
        return 0

    def counts(self, now_ns: int, limit_ns: int) -> bool:
        """Whether the log itself has said, not long ago, that the topic is read to its end."""
        return now_ns - self._heard_ns <= limit_ns
