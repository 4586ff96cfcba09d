"""A validator as a process: `topolog run validator`."""

import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import msgspec

from topolog.events.errors import BadInput
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.replica_access import Replica
from topolog.events.token_range import FULL, Ranges, parse, union
from topolog.events.topics import PLANS, Topic
from topolog.events.tree_spec import BOUNDARIES_MAX
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
    """Which replica a process is to serve, and in words of its own where the rows are.

    `ranges` is what it holds of a sharded table; of `boundaries` keys a sample is declared, for ordered tokens.
    """

    table: str
    name: str
    source: str
    datacenter: str = ""
    ranges: Ranges = (FULL,)
    boundaries: int = 0

    @property
    def id(self) -> str:
        return f"{self.table}@{self.name}"


def parse_replica(text: str) -> ReplicaName:
    """`TABLE@NAME=SOURCE`; raises BadInput for anything else."""
    id_, equals, source = text.partition("=")
    table, at, name = id_.partition("@")
    if not (equals and at and table.strip() and name.strip() and source.strip()):
        raise BadInput(
            f"{text!r} names no replica.", hint="Write TABLE@NAME=SOURCE, such as orders@r1=parquet:/data/orders."
        )
    return ReplicaName(table.strip(), name.strip(), source.strip())


def told_of(
    named: Sequence[ReplicaName], datacenters: Sequence[str], ranges: Sequence[str], boundaries: Sequence[str]
) -> list[ReplicaName]:
    """These, with what `--datacenter`, `--ranges`, `--boundaries` say: of all of them, or as `TABLE@NAME=...` of one.

    Ranges may be repeated, what they say is put together. Raises BadInput for what is none, or of no replica here.
    """
    ids = [each.id for each in named]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise BadInput(f"{', '.join(twice)} is served twice.", hint="Each replica is named once, with its own source.")
    where = _by_id(datacenters, "--datacenter", ids)
    tokens = _by_id(ranges, "--ranges", ids)
    counts = _by_id(boundaries, "--boundaries", ids)
    return [
        msgspec.structs.replace(
            each,
            datacenter=_only(where.get(each.id, [""]), "--datacenter", each.id),
            ranges=union(chain.from_iterable(map(parse, tokens.get(each.id, ["full"])))),
            boundaries=_count(_only(counts.get(each.id, ["0"]), "--boundaries", each.id)),
        )
        for each in named
    ]


def _by_id(texts: Sequence[str], option: str, ids: Sequence[str]) -> Mapping[str, list[str]]:
    """What is said of each replica; what is said of one goes before what is said of all."""
    said: dict[str, list[str]] = {}
    of_all: list[str] = []
    for text in texts:
        id_, equals, value = (part.strip() for part in text.rpartition("="))
        if not value or (equals and not id_):
            raise BadInput(
                f"{option} {text!r} says nothing.", hint=f"Such as {option} orders@r1=VALUE, or {option} VALUE."
            )
        if equals and id_ not in ids:
            raise BadInput(
                f"{option} {text!r} is of no replica that is served here.", hint=f"There is {', '.join(ids)}."
            )
        (said.setdefault(id_, []) if equals else of_all).append(value)
    return {id_: said.get(id_, of_all) for id_ in ids if id_ in said or of_all}


def _only(values: Sequence[str], option: str, id_: str) -> str:
    if len(values) > 1:
        raise BadInput(f"{option} is given {len(values)} times for {id_}.", hint="Once is enough.")
    return values[0]


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) <= BOUNDARIES_MAX):
        raise BadInput(f"{text!r} is no number of boundaries.", hint=f"From 1 to {BOUNDARIES_MAX}, 0 for none.")
    return int(text)


def wait_for_topics(kafka: Mapping[str, str], cluster: str) -> None:
    """Raises NotFound if a topic of the cluster is missing, Unreachable if no broker answers."""
    KafkaAdmin(kafka).wait_for_leaders(cluster, _NEEDED)


def run_validator(
    kafka: Mapping[str, str],
    cluster: str,
    replicas: Sequence[Replica],
    stopping: Stop,
    *,
    batch_rows: int = WRITE_ROWS,
    show: Callable[[Driver], None] = lambda _: None,
) -> None:
    """Serve these replicas until told to stop; so many rows are written at a time. `show` gets what counts.

    Raises BadInput if two are the same, Refused if the cluster does not take them or other processes serve them by
    now, and what ends any reader of the log.
    """
    definitions = [replica.describe() for replica in replicas]
    ids = [each.id for each in definitions]
    if len(set(ids)) < len(ids) or not ids:
        raise BadInput("A validator serves at least one replica, and each of them once.", hint="See --replica.")
    wait_for_topics(kafka, cluster)
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
        show(driver)
        driver.run(stopping)
