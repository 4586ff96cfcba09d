"""When no broker answers a client, and whether a client misses what others get.

Threat. Where the last answer before an outage says that there are no brokers any more, as one does that is being
stopped, librdkafka may forget all of them, those it was started with too, and never look for one again (its issue
5301). It does not always say so, and such a client looks like one that waits for a broker: its process lives on, deaf
or mute. So where a client gets nothing for a while somebody else asks; one that still gets nothing a moment later,
though there is something to be had, is replaced.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import KafkaError

from topolog.events.kafka_ends import Ends, Place

QUIET_S = 5.0
"""How long a client may get nothing before somebody else asks. A living leader writes more often, by default."""

UNTAKEN_S = 10.0
"""The same for a writer: a partition may take nothing for a while that answers questions, as when it lacks replicas."""

MISSED_AFTER_S = 3.0
"""How long a client may get nothing that others get: while no broker answers it looks for one each second."""

_LOGGER = logging.getLogger("topolog.kafka")


class Outage:
    """Says once that no broker answers, and once that one does again: a state, where librdkafka counts attempts.

    Only a reader has one. It is polled all the time, so what it says is true when it says it, and from one thread; a
    writer hears of an outage when it next has something to send, which may be long after.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_on = False

    def on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._is_on:
            self._is_on = True
            _LOGGER.warning("No Kafka broker answers at %s; trying again until one does.", self._address)

    def over(self) -> None:
        if self._is_on:
            self._is_on = False
            _LOGGER.warning("Kafka answers again at %s.", self._address)


class Attention:
    """Of one client and its thread. `ends` asks with a client of its own, once it was quiet for `quiet_s`."""

    def __init__(self, ends: Ends, quiet_s: float = QUIET_S, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ends = ends
        self._quiet_s = quiet_s
        self._now_s = now_s
        self._got_s = now_s()
        self._missing_s: float | None = None

    def got(self) -> None:
        """The client got something, or there is nothing to get."""
        self._got_s, self._missing_s = self._now_s(), None

    def is_lost(self, places: Collection[Place], is_there_more: Callable[[Mapping[Place, int]], bool]) -> bool:
        """Whether these partitions could be used for a while, and this client gets nothing of what is there.

        `is_there_more` is asked with the ends of all of them. Never waits, and is asked again and again. Once it is so
        the next client has as long as this one had.
        """
        now_s = self._now_s()
        if not places or now_s - self._got_s < self._quiet_s:
            return False
        if self._missing_s is None:
            ends = self._ends.ask(places)
            if ends and is_there_more(ends):
                self._missing_s = now_s
            elif ends:
                self.got()
            return False
        if now_s - self._missing_s < MISSED_AFTER_S:
            return False
        self.got()
        return True


class Standstill:
    """Of one topic's partitions: whether a reader is stuck in one of them, whatever it gets of others."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._since_s: dict[tuple[Place, int], float] = {}

    def is_lost(self, behind: Mapping[Place, int]) -> bool:
        """`behind`: where the reader stands, of each partition of which there is more. Once it is so it begins anew."""
        now_s = self._now_s()
        self._since_s = {each: self._since_s.get(each, now_s) for each in behind.items()}
        if all(now_s - since_s < QUIET_S + MISSED_AFTER_S for since_s in self._since_s.values()):
            return False
        self._since_s.clear()
        return True
