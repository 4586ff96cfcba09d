"""A validator as a process: `topolog run validator`."""

import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from topolog.events.errors import BadInput
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.replica_access import Replica
from topolog.events.topics import PLANS, Topic
from topolog.streams.clock import SystemClock
from topolog.streams.local.stopping import Stop
from topolog.streams.validator.core import Core
from topolog.streams.validator.driver import Driver
from topolog.streams.validator.trees import Trees
from topolog.streams.validator.worker import WRITE_ROWS, Worker

_LOGGER = logging.getLogger("topolog.validator")
_NEEDED = tuple(plan for plan in PLANS if plan.topic in (Topic.DECISIONS, Topic.REQUESTS, Topic.SNAPSHOTS, Topic.TREES))
_END_S = 2.0


class ReplicaName(msgspec.Struct, frozen=True):
    """Which replica a process is to serve, and in words of its own where the rows are."""

    table: str
    name: str
    source: str


def parse_replica(text: str) -> ReplicaName:
    """`TABLE@NAME=SOURCE`; raises BadInput for anything else."""
    id_, equals, source = text.partition("=")
    table, at, name = id_.partition("@")
    if not (equals and at and table.strip() and name.strip() and source.strip()):
        raise BadInput(
            f"{text!r} names no replica.", hint="Write TABLE@NAME=SOURCE, such as orders@r1=parquet:/data/orders."
        )
    return ReplicaName(table.strip(), name.strip(), source.strip())


def run_validator(
    kafka: Mapping[str, str],
    cluster: str,
    replicas: Sequence[Replica],
    stopping: Stop,
    *,
    batch_rows: int = WRITE_ROWS,
) -> None:
    """Serve these replicas until told to stop; so many rows are written at a time.

    Raises BadInput if two are the same, Refused if the cluster does not take them or other processes serve them by
    now, and what ends any reader of the log.
    """
    definitions = [replica.describe() for replica in replicas]
    ids = [each.id for each in definitions]
    if len(set(ids)) < len(ids) or not ids:
        raise BadInput("A validator serves at least one replica, and each of them once.", hint="See --replica.")
    KafkaAdmin(kafka).wait_for_leaders(cluster, _NEEDED)
    life, clock = secrets.randbits(63), SystemClock()

    def trees() -> Trees:
        return Trees(KafkaWriter(kafka, cluster), lambda: KafkaReader(kafka, cluster), life)

    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(contextlib.closing(KafkaReader(kafka, cluster)))
        writer = stack.enter_context(contextlib.closing(KafkaWriter(kafka, cluster)))
        workers = {
            id_: Worker(replica, trees, clock, batch_rows=batch_rows)
            for id_, replica in zip(ids, replicas, strict=True)
        }
        for id_, worker in workers.items():
            worker.start(f"validator {id_}")
            stack.callback(worker.close, _END_S)
        _LOGGER.info("Serving %s as life %016x.", ", ".join(ids), life)
        driver = Driver(reader, writer, clock, Core(definitions, life), workers)
        driver.run(stopping)
