"""The log on Apache Kafka: with `kafka_….py` all that imports confluent_kafka, and where its errors become ours.

Three settings matter more than they look. `partitioner=murmur2_random`: librdkafka's default sends a key to another
partition than Java, faust and aiokafka do. `fetch.queue.backoff.ms=1`: the default of a second starves a reader that
drains its queue. `enable.partition.eof`: the only proof of having read to the end of a partition; it comes after a
fetch that found nothing, so `fetch.wait.max.ms` is how long the proof takes.
"""

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from topolog.events.errors import BadInput, LogDiverged, Unreachable
from topolog.events.framing import unframed
from topolog.events.ids import Offset
from topolog.events.kafka_admin_client import AdminClient, destroy_unreachable
from topolog.events.kafka_ends import Ends, Place
from topolog.events.kafka_errors import DENIED, denied, not_delivered, producing
from topolog.events.kafka_outage import UNTAKEN_S, Attention, Outage, Standstill
from topolog.events.last_read import LastRead
from topolog.events.log import Entry, Headers, OnDelivery, Partition
from topolog.events.topics import PARTITIONS, RECORD_BYTES_MAX, Topic, topic_name

KafkaSettings = Mapping[str, str]
"""librdkafka's own settings, passed through to every client; `bootstrap.servers` is the one that must be there."""

REACH_TIMEOUT_S = 5.0
"""How long a broker may be silent before a command says that it cannot be reached."""

_BATCH_MAX = 500
_CONNECT_TIMEOUT_S = 1.0
_LOGGER = logging.getLogger("topolog.kafka")
_LIBRARY = logging.getLogger("topolog.kafka.librdkafka")
_LIBRARY.setLevel(logging.CRITICAL)  # it repeats itself once a second while a broker is away; Outage says it once

_DENIED_PATIENCE_S = 5.0
"""How long a topic may be denied before a reader gives up: rights that were just given take a moment to spread."""
_OFFSET_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
_Client = TypeVar("_Client", Consumer, Producer, AdminClient)
_IMPATIENT = {"reconnect.backoff.max.ms": "1000", "topic.metadata.refresh.fast.interval.ms": "100"}
"""Of each client that lives long: its default of ten seconds between two attempts is half a fence."""


def client(kind: type[_Client], settings: Mapping[str, Any]) -> _Client:
    """A client of librdkafka; BadInput, in its own words, for a key or a value that it does not take."""
    if not (settings.get("bootstrap.servers") or settings.get("metadata.broker.list")):
        raise BadInput("[kafka]: bootstrap.servers is missing.", hint="Name a broker, such as 127.0.0.1:19092.")
    destroy_unreachable()
    try:
        return kind(dict(settings), logger=_LIBRARY)
    except (KafkaException, TypeError, ValueError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise BadInput(
            f"[kafka]: {reason.strip()}.",
            hint="The keys of [kafka] are librdkafka's own, and so are these words; its CONFIGURATION.md lists them.",
        ) from error


class KafkaReader:
    """One consumer without a group, with every partition a process reads, polled by one thread.

    `later`: topics that it is to go on with one day, at once: who leads them is asked for in time.
    """

    def __init__(self, settings: KafkaSettings, cluster: str, later: Collection[Topic] = ()) -> None:
        self._names = {topic_name(cluster, topic): topic for topic in Topic}
        self._starts: dict[Partition, int] = {}
        self._at_end: dict[Partition, bool] = {}
        self._read_to: dict[Partition, int] = {}
        self._asked_about: set[Topic] = set()
        self._later = frozenset(later)
        self._cluster = cluster
        self._settings = dict(settings)
        self._ends = _ends(settings)
        self._outage = Outage(settings.get("bootstrap.servers", ""))
        self._attention = Attention(_ends(settings, IsolationLevel.READ_COMMITTED))
        self._standstills = defaultdict[Topic, Standstill](Standstill)
        self._denied: dict[str, float] = {}
        self._last_read = LastRead(partial(KafkaReader, settings, cluster))
        self._consumer = self._connected()

    def _connected(self) -> Consumer:
        return client(
            Consumer,
            {
                **self._settings,
                **_IMPATIENT,
                "group.id": f"topolog.{self._cluster}.reader",
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": "true",
                "fetch.queue.backoff.ms": "1",
                "fetch.min.bytes": "1",
                "fetch.wait.max.ms": "100",
                "error_cb": self._outage.on_error,
            },
        )

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        # "The oldest" is asked for as offset 0: resolving it first would cost half a second, and where 0 is no longer
        # kept the reader is sent to the oldest record anyway.
        self._ask_about({topic for topic, _ in starts} | self._later)
        self._begin({partition: start or 0 for partition, start in starts.items()})
        self._last_read.start_over()

    def _begin(self, starts: Mapping[Partition, int]) -> None:
        self._starts = dict(starts)
        self._at_end = dict.fromkeys(starts, False)
        self._read_to.clear()
        self._consumer.assign([TopicPartition(*place, starts[each]) for place, each in self._places().items()])

    def _places(self) -> dict[Place, Partition]:
        return {(topic_name(self._cluster, topic), number): (topic, number) for topic, number in self._at_end}

    def _ask_about(self, topics: Set[Topic]) -> None:
        """Who leads topics that are new to this client: left to itself, librdkafka asks at the turn of a second.

        Once each; without an answer, in a second for all, it is left to itself. Where something is read already each
        question stands behind a fetch that finds nothing.
        """
        until_s = time.monotonic() + _CONNECT_TIMEOUT_S
        for topic in topics - self._asked_about:
            self._asked_about.add(topic)
            with contextlib.suppress(KafkaException):
                left_s = max(0.001, until_s - time.monotonic())
                self._consumer.list_topics(topic_name(self._cluster, topic), timeout=left_s)

    def poll(self, timeout_s: float) -> list[Entry]:
        return self._last_read.pass_on(self._consume(timeout_s))

    def _consume(self, timeout_s: float) -> list[Entry]:
        # consume(n, timeout) waits for n records or the full timeout, so wait with poll and drain with consume.
        first = self._consumer.poll(timeout_s)
        self._check_let()
        if first is not None:
            self._attention.got()
        elif self._attention.is_lost(self._places(), self._is_there_more):
            self._replace()
        if first is None:
            return []
        messages = [first, *self._consumer.consume(_BATCH_MAX, 0)]
        return [entry for message in messages if (entry := self._entry(message)) is not None]

    def _is_there_more(self, ends: Mapping[Place, int]) -> bool:
        return bool(self._behind(ends))

    def _behind(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Where it stands, before these ends. Each by itself: where many write, no moment is the end of all at once."""
        read_to = {place: self._read_to.get(partition, -1) for place, partition in self._places().items()}
        return {place: read_to[place] for place, end in ends.items() if place in read_to and read_to[place] < end}

    def _replace(self) -> None:
        """Go on with another client where this one has read to."""
        _LOGGER.warning("This reader has not got for a while what is there: it is connected anew.")
        lost, self._consumer = self._consumer, self._connected()
        lost.close()
        self._asked_about.clear()
        self._begin({**self._starts, **self._read_to})

    def at_end(self, topic: Topic) -> bool:
        ends = [at_end for (each, _), at_end in self._at_end.items() if each is topic]
        return bool(ends) and all(ends) and not self._last_read.is_in_doubt

    def hears(self, topic: Topic) -> bool:
        # Asked on a connection of its own, without waiting: on the consumer's own connection the question would stand
        # behind a fetch, half a second long.
        places = self._places()
        ends = self._ends.ask([place for place, (each, _) in places.items() if each is topic])
        if ends is None:
            return False
        behind = self._behind(ends)
        if self._standstills[topic].is_lost(behind):
            self._replace()
        return not behind and not self._last_read.is_in_doubt

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._last_read.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._last_read.is_proven()

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        place = TopicPartition(topic_name(self._cluster, partition[0]), partition[1])
        try:
            oldest, end = self._consumer.get_watermark_offsets(place, timeout=REACH_TIMEOUT_S)
        except KafkaException as error:
            is_missing = error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
            return (Offset(0), Offset(0)) if is_missing else None
        return Offset(oldest), Offset(end)

    def close(self) -> None:
        self._consumer.close()

    def _entry(self, message: Message) -> Entry | None:
        error = message.error()
        if error is not None:
            self._on_error(message, error)
            return None
        self._outage.over()
        if self._denied:
            self._denied.pop(_text(message.topic()), None)
        partition = (self._names[_text(message.topic())], _number(message.partition()))
        self._at_end[partition] = False
        self._read_to[partition] = _number(message.offset()) + 1
        key = message.key()
        headers = tuple((name, _bytes(value)) for name, value in _headers(message))
        return Entry(
            *partition,
            Offset(_number(message.offset())),
            key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key,
            unframed(_bytes(message.value()), headers),
            headers,
            message.timestamp()[1],
        )

    def _on_error(self, message: Message, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._denied.pop(_text(message.topic()), None)
            self._outage.over()
            partition = (self._names[_text(message.topic())], _number(message.partition()))
            self._at_end[partition] = True
            self._read_to[partition] = _number(message.offset())
        elif error.code() in _OFFSET_GONE:
            self._on_offset_gone(message, error)
        elif error.code() in DENIED:
            self._on_denied(_text(message.topic()))
        elif error.fatal():
            raise Unreachable(f"The log can no longer be read: {error.str()}.")

    def _on_denied(self, topic: str) -> None:
        """Whoever may not read waits for ever and looks well: say so. librdkafka tells it once, and tries on."""
        if topic not in self._denied:
            self._denied[topic] = time.monotonic()
            _LOGGER.warning("The broker does not let this process read %s; trying again for a moment.", topic)

    def _check_let(self) -> None:
        """Raise NotAllowed if a topic has been denied for longer than rights take to spread."""
        for topic, since_s in self._denied.items():
            if time.monotonic() - since_s > _DENIED_PATIENCE_S:
                raise denied(self._settings, topic)

    def _on_offset_gone(self, message: Message, error: KafkaError) -> None:
        """An input that was kept shorter than we were away is read from its oldest record; `decisions` never is."""
        topic = self._names[_text(message.topic())]
        if topic is Topic.DECISIONS:
            raise LogDiverged(
                f"{message.topic()} no longer holds the offset this reader stands at: {error.str()}.",
                hint="The topic was truncated or made again; this reader must not go on.",
            )
        self._read_to.pop((topic, _number(message.partition())), None)
        oldest = TopicPartition(_text(message.topic()), _number(message.partition()), OFFSET_BEGINNING)
        self._consumer.incremental_unassign([oldest])  # a partition in this state cannot be sought
        self._consumer.incremental_assign([oldest])


class KafkaWriter:
    """One idempotent producer, acks from all in-sync replicas. `linger_ms` trades latency for batches.

    What is in flight when all brokers are lost is sent again once one is back, by librdkafka. `gives_up`: it has failed
    instead, for another copy of the log may come back, where it must not stand. Any thread may append; one serves.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: str,
        *,
        linger_ms: float = 0,
        timeout_ms: int = 30_000,
        gives_up: bool = False,
    ) -> None:
        self._names = {topic: topic_name(cluster, topic) for topic in Topic}
        self._attention = Attention(_ends(settings), UNTAKEN_S)
        self._connection = settings
        self._settings = {
            **settings,
            **_IMPATIENT,
            "enable.idempotence": "true",
            "acks": "all",
            "partitioner": "murmur2_random",
            "linger.ms": str(linger_ms),
            "delivery.timeout.ms": str(timeout_ms),
            "request.timeout.ms": str(min(timeout_ms, 10_000)),
            "error_cb": self._on_error,
        }
        self._gives_up = gives_up
        self._given_up = self._interruptions = 0
        self._used: dict[Topic, list[Place]] = {}
        self._replacing = threading.Lock()
        self._producer = client(Producer, self._settings)

    @property
    def interruptions(self) -> int:
        """How often it has lost all brokers, as far as it was told while it was served."""
        return self._interruptions

    def _on_error(self, error: KafkaError) -> None:
        self._interruptions += error.code() == KafkaError._ALL_BROKERS_DOWN

    def connect(self, topic: Topic) -> None:
        """Ask now what the first append to the topic would have to ask; without an answer that one asks again."""
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(self._names[topic], timeout=_CONNECT_TIMEOUT_S)

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        size = len(value) + sum(len(name) + len(content) for name, content in headers)
        if size > RECORD_BYTES_MAX:
            raise BadInput(f"A record for {topic.short_name} has {size} bytes, the limit is {RECORD_BYTES_MAX}.")
        with self._replacing, producing():
            if topic not in self._used:  # a new dict: who serves may be looking at the other one
                places = [(self._names[topic], number) for number in range(PARTITIONS[topic])]
                self._used = {**self._used, topic: places}
            try:
                self._producer.produce(
                    self._names[topic],
                    value,
                    key.encode("utf-8", "surrogateescape"),  # a dead letter's key is that of its record, to the byte
                    headers=list(headers),
                    on_delivery=partial(self._on_delivery, on_delivery),
                )
            except BufferError as error:
                raise Unreachable(f"{topic.short_name} takes no more records: {error}.") from error

    def _on_delivery(self, on_delivery: OnDelivery | None, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._attention.got()
        if on_delivery is None:
            return
        if error is None:
            on_delivery(None, Offset(_number(message.offset())))
        else:
            on_delivery(not_delivered(self._connection, _text(message.topic()), error), None)

    def serve(self) -> None:
        with producing():
            self._producer.poll(0)
        if not len(self._producer):
            self._attention.got()
            self._given_up = self._interruptions
        elif self._gives_up and self._given_up != self._interruptions:
            self._replace("All brokers were lost")
        elif self._attention.is_lost([place for each in self._used.values() for place in each], lambda _: True):
            self._interruptions += 1
            self._replace("Nothing was taken for a while of what could be")

    def _replace(self, why: str) -> None:
        """Go on with another client. What this one was given and has not delivered has failed: whoever gave it is told,
        as when it had taken too long."""
        self._given_up = self._interruptions
        with self._replacing:
            lost, self._producer = self._producer, client(Producer, self._settings)
        _LOGGER.warning("%s: this writer is connected anew, without %d records.", why, len(lost))
        with producing():
            lost.purge()
            lost.flush(_CONNECT_TIMEOUT_S)

    def flush(self, timeout_s: float) -> int:
        with producing():
            return self._producer.flush(timeout_s)

    def close(self) -> None:
        with contextlib.suppress(LogDiverged, Unreachable):
            self.flush(5)


def _ends(settings: KafkaSettings, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> Ends:
    return Ends(partial(client, AdminClient, {**settings, **_IMPATIENT}), level)


def _headers(message: Message) -> Iterable[tuple[str, bytes | str | None]]:
    """None of a record with a name in them that is no text: anybody may write one, and it must end no reader."""
    try:
        headers = message.headers()
    except (SystemError, UnicodeDecodeError) as raised:  # the client raises the one because of the other
        if not isinstance(raised.__cause__ or raised, UnicodeDecodeError):
            raise
        return []
    return [] if headers is None else headers  # type: ignore[return-value]  # the stub also allows a dict


def _bytes(value: bytes | str | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _text(value: str | None) -> str:
    assert value is not None, "librdkafka names the topic of every message"
    return value


def _number(value: int | None) -> int:
    assert value is not None, "librdkafka numbers the partition and offset of every message"
    return value
