"""When no broker answers a client, and whether the client notices that they are back.

Threat. Where the last answer before an outage says that there are no brokers any more, as one does that is being
stopped, librdkafka may forget all of them, those it was started with too, and never look for one again (its issue
5301). Such a client looks like one that waits for a broker: its process says nothing, and lives on. So while a client
has lost all brokers somebody else asks whether one is back; a client that is still lost a moment later is replaced.
"""

import logging
import time
from collections.abc import Callable, Collection

from confluent_kafka import KafkaError

from topolog.events.kafka_ends import Ends, Place

MISSED_AFTER_S = 3.0
"""How long a client may take to find a broker that answers others; while none does it looks for one each second."""

_LOGGER = logging.getLogger("topolog.kafka")


class Outage:
    """Of one client, whose thread it is used by. `ends` asks with a client of its own.

    Says once that no broker answers, and once that one does again, if it `speaks`: a state, where librdkafka counts
    attempts. A reader is polled all the time, so what it says is true when it says it; a writer hears of an outage
    when it next has something to send, which may be long after.
    """

    def __init__(self, address: str, ends: Ends, *, speaks: bool, now_s: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._ends = ends
        self._speaks = speaks
        self._now_s = now_s
        self._back_s: float | None = None
        self.is_on = False

    def on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self.is_on:
            self.is_on, self._back_s = True, None
            if self._speaks:
                _LOGGER.warning("No Kafka broker answers at %s; trying again until one does.", self._address)

    def over(self) -> None:
        """The client was answered."""
        if self.is_on:
            self.is_on = False
            if self._speaks:
                _LOGGER.warning("Kafka answers again at %s.", self._address)

    def is_missed(self, places: Collection[Place]) -> bool:
        """Whether these partitions could be used for a while, and this client still has no broker.

        Never waits, and is asked again and again. Once it is so the next client has as long.
        """
        if not self.is_on or not places:
            return False
        if self._back_s is None:
            self._back_s = self._now_s() if self._ends.ask(places) else None
            return False
        if self._now_s() - self._back_s < MISSED_AFTER_S:
            return False
        self._back_s = None
        return True
