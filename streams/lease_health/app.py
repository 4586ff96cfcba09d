"""The faust app: heartbeats in, one account per node in its table, lease health out.

faust is only the shell. What a heartbeat changes is in `windows.py`, and correct however often a record comes: faust
gives every record at least once, its table may be ahead of its place in the topic, its exactly-once is not to be had
(output goes out beside the transaction). So at-least-once is what it is asked for here; `outbox.py` sees to it that
the table is never behind, and `order.py` that no record is left out.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from aiokafka.errors import KafkaError
from faust.exceptions import ConsistencyError, NotReady
from faust.streams import Stream
from faust.types import TP, EventT, StreamT
from mode import CrashingSupervisor

from topolog.events.codec import CODEC, Sign
from topolog.events.errors import DamagedStore, Undecodable, Unreachable
from topolog.events.health import HealthHeard, LeaseHealth, told_every_ms, warning_margin_ms
from topolog.events.ids import Offset
from topolog.events.kafka_admin import COMPACTED
from topolog.events.membership import Heartbeat, NodeDied
from topolog.events.terms import CoordinatorDied
from topolog.events.topics import HEALTH_APP, PARTITIONS, Topic, topic_name, topic_prefix
from topolog.streams.faust_apps.shell import make_app, raw_topic, run_app
from topolog.streams.lease_health import windows
from topolog.streams.lease_health.metrics import HealthMeasures
from topolog.streams.lease_health.order import InOrder
from topolog.streams.lease_health.outbox import Outbox
from topolog.streams.lease_health.silence import Silence
from topolog.streams.lease_health.windows import Account, Heard, Terms

_LOGGER = logging.getLogger("topolog.lease_health")

_STORE_OPTIONS = {"block_cache_size": 4 << 20, "write_buffer_size": 1 << 20, "max_write_buffer_number": 2}
"""faust's own are made for big tables: 2 GiB of cache and three buffers of 64 MiB for each partition's database."""

_ANSWER_S = 5.0
_LOOK_AT_LOG_S = 5.0
"""So often at most is the log's beginning read again, however many heartbeats of another log somebody sends."""

_NO_LOG = bytes(16)


class Place(msgspec.Struct, frozen=True):
    """One worker's own: where its table lies, how many copies a topic of its own gets, its name for people."""

    folder: Path
    replicas: int
    worker: str


class HealthApp:
    """One run of the app. To be made and used inside a running event loop."""

    def __init__(
        self, kafka: Mapping[str, Any], cluster: str, terms: Terms, place: Place, measures: HealthMeasures
    ) -> None:
        self._has_seen_another_log = False
        self._terms = terms
        self._worker = place.worker
        self._heartbeats = topic_name(cluster, Topic.HEARTBEATS)
        self._nexts: dict[int, Offset] = {}
        self._oldest: dict[int, Offset] = {}
        self._passed_over: dict[int, int] = {}
        self._silence = Silence(terms)
        self._measures = measures
        measures.start_over(lambda: self._silence.count)
        self._app = make_app(
            kafka,
            app_id(cluster, terms.log_id),
            place.folder,
            store="rocksdb://",
            topic_partitions=PARTITIONS[Topic.HEARTBEATS],
            topic_replication_factor=place.replicas,
            table_standby_replicas=0,
        )
        self._told = raw_topic(self._app, topic_name(cluster, Topic.LEASE_HEALTH))
        self._accounts = self._app.Table(
            "accounts",
            key_type=bytes,
            value_type=bytes,
            partitions=PARTITIONS[Topic.HEARTBEATS],
            extra_topic_configs=COMPACTED,
            options=dict(_STORE_OPTIONS),
        )
        agent = self._app.agent(
            raw_topic(self._app, self._heartbeats), name="heartbeats", supervisor_strategy=CrashingSupervisor
        )
        self.agent = agent(self._measure)
        self._app.timer(told_every_ms(terms.fence_ms) / 1000, name="tell")(self._tell)
        self._app.finalize()
        Outbox(self._app.producer)
        self._order = InOrder(self._app.consumer, self._heartbeats)

    async def run(self, is_told_to_stop: Callable[[], bool], log_now: Callable[[], bytes | None]) -> None:
        """Measure until told to stop, or until `log_now` (the log's id, read anew) is another log's.

        Raises whatever ended the app by itself: DamagedStore if its table must be built anew.
        """
        look_at_s = 0.0

        async def is_over() -> bool:
            nonlocal look_at_s
            now_s = asyncio.get_running_loop().time()
            if self._has_seen_another_log and now_s >= look_at_s:
                if await asyncio.to_thread(log_now) != self._terms.log_id:
                    return True
                self._has_seen_another_log, look_at_s = False, now_s + _LOOK_AT_LOG_S
            return is_told_to_stop()

        reason = await run_app(self._app, is_over)
        if isinstance(reason, ConsistencyError) or type(reason) is Exception:  # rocksdict raises bare Exceptions
            raise DamagedStore(f"The table of lease health cannot be used: {reason}") from reason
        if reason is not None:
            raise Unreachable(f"Lease health cannot go on: {type(reason).__name__}: {reason}.") from reason

    async def _measure(self, stream: StreamT[bytes]) -> None:
        async for event in cast(Stream[bytes], stream).noack().events():
            if await self._order.takes(event.message.partition, event.message.offset):
                await self._note(event)
                event.ack()

    async def _note(self, event: EventT[bytes]) -> None:
        message = event.message
        partition = message.partition
        if partition not in self._oldest:
            self._oldest[partition] = await self._oldest_offset(partition)
        self._nexts[partition] = Offset(message.offset + 1)
        is_last = self._nexts[partition] >= (self._app.consumer.highwater(TP(self._heartbeats, partition)) or 0)
        self._measures.newest_ms[partition] = None if is_last else round(message.timestamp * 1000)
        sign = self._sign_in(event)
        if sign is None:
            self._passed_over[partition] = self._passed_over.get(partition, 0) + 1
            self._measures.passed_over += 1
        elif isinstance(sign, Heartbeat):
            heard = Heard(partition, Offset(message.offset), round(message.timestamp * 1000), self._oldest[partition])
            await self._count(sign, heard)

    def _sign_in(self, event: EventT[bytes]) -> Sign | None:
        """The sign that a record holds, if it is of this log and under its node's own key; None for anything else."""
        sign = CODEC.read(event.value or b"")
        if not isinstance(sign, Heartbeat):
            return sign if isinstance(sign, NodeDied | CoordinatorDied) else None
        if not windows.is_of_its_node(sign, event.key):
            return None
        if sign.applied.log_id != self._terms.log_id:
            self._has_seen_another_log |= sign.applied.log_id != _NO_LOG
            return None
        return sign

    async def _count(self, beat: Heartbeat, heard: Heard) -> None:
        key = beat.node.encode()
        before = self._account(key)
        after = windows.count(before, beat, heard, self._terms)
        if after is None:
            return
        self._measures.heartbeats += 1
        told = windows.told(before, after)
        self._accounts[key] = windows.encode(told or after)
        self._silence.heard(beat.node, asyncio.get_running_loop().time(), is_last=beat.is_release)
        if told:
            _warn(before, told.health)
            self._measures.note(beat.node, told.health)
            await self._told.send(key=key, value=CODEC.encode(told.health), partition=heard.partition)

    def _account(self, key: bytes) -> Account | None:
        data = self._accounts.get(key)
        try:
            return windows.decode(data) if data else None
        except Undecodable as error:
            _LOGGER.warning("%s is begun anew: %s", key.decode(errors="replace"), error)
            return None

    async def _oldest_offset(self, partition: int) -> Offset:
        tp = TP(self._heartbeats, partition)
        found = await self._app.consumer.earliest_offsets(tp)
        return Offset(found.get(tp) or 0)

    async def _tell(self) -> None:
        """Say that this worker lives and how far it has read, and which nodes have fallen silent."""
        try:
            if await asyncio.wait_for(self._tell_all(), _ANSWER_S):
                for sentence in self._silence.news(asyncio.get_running_loop().time()):
                    _LOGGER.warning(sentence)
        except NotReady:  # its producer is gone: the worker ends, between two of its timer's turns
            _LOGGER.info("This worker ends, and says nothing more.")
        except (KafkaError, TimeoutError) as error:
            _LOGGER.warning("Kafka does not take what this worker has to say: %s", error or type(error).__name__)

    async def _tell_all(self) -> bool:
        """Whether every partition that is ours has been read to its end, so that silence means something."""
        heard = [await self._heard(tp) for tp in self._app.consumer.assignment() if tp.topic == self._heartbeats]
        for each in heard:
            await (await self._told.send(key=b"", value=CODEC.encode(each), partition=each.partition))
        return bool(heard) and all(each.at_end for each in heard)

    async def _heard(self, tp: TP) -> HealthHeard:
        consumer = self._app.consumer
        following = max(self._nexts.get(tp.partition, 0), await consumer.position(tp) or 0)
        end = consumer.highwater(tp)
        if following >= (end or 0):
            self._measures.newest_ms[tp.partition] = None
        return HealthHeard(
            worker=self._worker,
            log_id=self._terms.log_id,
            partition=tp.partition,
            offset=Offset(following),
            at_end=following >= (end or 0),
            passed_over=self._passed_over.get(tp.partition, 0),
        )


def app_id(cluster: str, log_id: bytes) -> str:
    """The consumer group, and what the changelog's name begins with: another log is another app."""
    return f"{topic_prefix(cluster)}{HEALTH_APP}{log_id.hex()[:8]}"


def _warn(before: Account | None, health: LeaseHealth) -> None:
    """A line in the log when half of a margin has been eaten, or a node begins to flap; one when that is over."""
    was_thin = before is not None and before.health.is_thin
    if health.is_thin and not was_thin:
        _LOGGER.warning(
            "%s: %d ms of its fence of %d ms were left when a heartbeat came: below %d ms half the margin is gone.",
            *(health.node, health.window.margin_ms(health.fence_ms), health.fence_ms),
            warning_margin_ms(health.fence_ms, health.heartbeat_ms),
        )
    if was_thin and not health.is_thin:
        _LOGGER.warning("%s: every heartbeat of the window has been in good time again.", health.node)
    if health.window.is_flapping and not (before and before.health.window.is_flapping):
        starts, returns = health.window.starts, health.window.returns
        _LOGGER.warning("%s flaps: %d starts and %d returns in ten minutes.", health.node, starts, returns)
