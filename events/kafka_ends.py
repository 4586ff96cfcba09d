"""Where partitions end, as the broker says it: asked beside whoever reads them, and never waited for.

Threat. A client of librdkafka keeps for a quarter of an hour who leads a partition, and since which epoch. Once the
broker was restarted the epoch is another; a question that names the old one is refused (FENCED_LEADER_EPOCH), and of an
admin client that refusal changes nothing it has kept. A coordinator that went on asking so would hear no silence, and
remove nobody. So a client that has failed to answer once is not asked again: the next one remembers nothing.
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

import msgspec
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec

from topolog.events.kafka_admin_client import AdminClient

Place = tuple[str, int]
"""Kafka's name of a topic, and the number of a partition."""

ANSWER_TIMEOUT_S = 1.0
"""An answer that was asked for longer ago says nothing of the end as it is."""

_CLIENT_AGE_MIN_S = 1.0
"""How long a client is kept whatever it answers: where everything is refused, asking is to cost no connection each."""


class _Question(msgspec.Struct, frozen=True):
    asked_s: float
    answers: Mapping[TopicPartition, "Future[ListOffsetsResultInfo]"]


class Ends:
    """One client for all questions of one reader, of its thread. `connect` makes a client that remembers nothing;
    `level` says whether what stands behind an open transaction is before the end."""

    def __init__(
        self, connect: Callable[[], AdminClient], level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> None:
        self._connect = connect
        self._level = level
        self._admin: AdminClient | None = None
        self._made_s = 0.0
        self._open: dict[frozenset[Place], _Question] = {}

    def ask(self, places: Collection[Place]) -> dict[Place, int] | None:
        """Of each the offset behind its newest record; None as long as the broker has not said so of all of them.

        To be asked again until there is an answer: what was said of a question is at most ANSWER_TIMEOUT_S old.
        """
        key, now_s = frozenset(places), time.monotonic()
        question = self._open.pop(key, None)
        if question is None:
            self._open[key] = self._asked(key, now_s)
            return None
        if not all(answer.done() for answer in question.answers.values()):
            if now_s - question.asked_s <= ANSWER_TIMEOUT_S:
                self._open[key] = question
            else:
                self._forget(now_s)
            return None
        try:
            ends = {(place.topic, place.partition): each.result().offset for place, each in question.answers.items()}
        except KafkaException:
            self._forget(now_s)
            return None
        return ends if now_s - question.asked_s <= ANSWER_TIMEOUT_S else None

    def _asked(self, places: Collection[Place], now_s: float) -> _Question:
        if self._admin is None:
            self._admin, self._made_s = self._connect(), now_s
        newest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library's gap
        wanted = {TopicPartition(*place): newest for place in places}
        return _Question(
            now_s, self._admin.list_offsets(wanted, isolation_level=self._level, request_timeout=ANSWER_TIMEOUT_S)
        )

    def _forget(self, now_s: float) -> None:
        if now_s - self._made_s >= _CLIENT_AGE_MIN_S:
            self._admin = None
            self._open.clear()
