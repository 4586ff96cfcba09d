"""What this node acts for, and which of its operations still run: a guard for each partition (EX14, DS8).

Threats. An operation begins behind the decision to hand its partition over; it still runs when the next primary begins;
it ends under a token that is no more, and its caller takes it for done.

How it works. An operation begins only under a token that the log, as far as this node has applied it, gives to this
node, and only while no hand-over of its partition is prepared. Those that run when one is prepared are counted down,
and only then does the node say that it has drained. At its end an operation is asked again: the token must be the same.

A hand-over whose former primary does not drain is switched once that one's lease must be over. The node may not have
read the switch by then; so behind HandOverPrepared an operation must end within the lease that the node held when it
applied it. That lease began before the hand-over was in the log, hence is over before the coordinator's wait is.

Many operations or one hand-over: this is the seed's topology read-write lock, without its global reach.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Set

from topolog.events.ids import Position
from topolog.streams.node.copies import PartitionId


class Acting:
    """Any thread may begin and end operations; the thread that applies the log grants and revokes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[PartitionId, Position] = {}
        self._closing: dict[PartitionId, int] = {}
        self._running: Counter[PartitionId] = Counter()

    def begin(self, place: PartitionId) -> Position | None:
        """The token to act under, until `end`; None if this node may begin nothing there."""
        with self._lock:
            token = None if place in self._closing else self._tokens.get(place)
            if token is not None:
                self._running[place] += 1
            return token

    def end(self, place: PartitionId, token: Position, now_ns: int) -> bool:
        """The operation is over: whether it was under this node's right to act until now."""
        with self._lock:
            self._running[place] -= 1
            if not self._running[place]:
                del self._running[place]
            return self._tokens.get(place) == token and now_ns <= self._closing.get(place, now_ns)

    def is_closing(self, place: PartitionId) -> bool:
        """Whether the partition is being handed over."""
        return place in self._closing

    def running(self, places: Set[PartitionId]) -> Set[PartitionId]:
        """For which of these an operation runs, or may still begin.

        The log may say that a partition is handed over before `revoke` has; what begins in between runs on.
        """
        with self._lock:
            return {
                place
                for place in places
                if place in self._running or (place in self._tokens and place not in self._closing)
            }

    def revoke(
        self,
        looked_at: Iterable[PartitionId],
        tokens: Mapping[PartitionId, Position],
        closing: Set[PartitionId],
        by_ns: int,
    ) -> None:
        """Take away what this node acts for no longer: of the places looked at, whatever `tokens` does not have.

        `closing`: all that is being handed over; what newly is must end by `by_ns`.
        """
        with self._lock:
            for place in looked_at:
                if place in self._tokens and self._tokens[place] != tokens.get(place):
                    del self._tokens[place]
            self._closing = {place: self._closing.get(place, by_ns) for place in closing}

    def grant(self, tokens: Mapping[PartitionId, Position]) -> None:
        """This node acts for these, under these tokens."""
        with self._lock:
            self._tokens.update(tokens)

    def forget(self) -> None:
        """This node acts for nothing."""
        with self._lock:
            self._tokens.clear()
            self._closing.clear()
