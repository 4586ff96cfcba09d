"""The worker of lease health on the real broker: what it tells is what the topic says, whatever happens to it.

Heartbeats are sent by the test itself, so it knows them all; the reference is the arithmetic of `windows.py` over the
records that the topic holds, which `tests/unit/streams/lease_health` proves by hand.
"""

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.conftest import Process, Site, eventually
from tests.unit.streams.lease_health.beats import heartbeat

from topolog.events.codec import CODEC
from topolog.events.health import HealthHeard, LeaseHealth, warning_margin_ms
from topolog.events.ids import Incarnation, NodeId
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.membership import Heartbeat, NodeDied
from topolog.events.terms import TermEnded
from topolog.events.topics import Topic, topic_name
from topolog.streams.lease_health.app import app_id
from topolog.streams.lease_health.terms import read_terms
from topolog.streams.lease_health.windows import Account, Heard, Terms, count

NODES = ("n1", "n2", "n3", "n4", "n5")
BUSY_S = 180.0
"""How long a worker that is late at every turn may take to tell."""


class Health:
    """A cluster with a log, nodes that the test plays, and workers that measure them."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self.writer = KafkaWriter(site.kafka, site.cluster)
        self.terms = self._terms()
        self._sequences = dict.fromkeys(NODES, 0)
        self._workers: list[Process] = []

    def worker(self, program: str = "topolog") -> Process:
        sets = {"cluster.name": self.site.cluster, "kafka.bootstrap.servers": self.site.bootstrap}
        sets["health.data"] = str(self.folder)
        flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
        self._workers.append(Process([sys.executable, "-m", program, "run", "lease-health", *flags]))
        return self._workers[-1]

    def beat(self, *, pause_s: float = 0.0) -> None:
        """One heartbeat of each node, then a pause."""
        for node in NODES:
            self._sequences[node] += 1
            beat = heartbeat(self._sequences[node], node=node, log_id=self.terms.log_id)
            self.writer.append(Topic.HEARTBEATS, node, CODEC.encode(beat))
        self.writer.flush(10)
        threading.Event().wait(pause_s)

    @property
    def sent(self) -> int:
        """How many heartbeats of each node."""
        return max(self._sequences.values())

    def told(self) -> dict[str, LeaseHealth]:
        """The newest health of each node."""
        records = (CODEC.decode(entry.value) for entry in self.site.entries(Topic.LEASE_HEALTH))
        return {record.node: record for record in records if isinstance(record, LeaseHealth)}

    def heard(self) -> list[HealthHeard]:
        records = (CODEC.decode(entry.value) for entry in self.site.entries(Topic.LEASE_HEALTH))
        return [record for record in records if isinstance(record, HealthHeard)]

    def expected(self, told: dict[str, LeaseHealth]) -> dict[str, LeaseHealth]:
        """What an uninterrupted worker knows of each node at the offset up to which it was told."""
        accounts: dict[str, Account] = {}
        for entry in self.site.entries(Topic.HEARTBEATS):
            beat = CODEC.decode(entry.value)
            assert isinstance(beat, Heartbeat)
            if entry.offset <= told[beat.node].offset:
                heard = Heard(entry.partition, entry.offset, entry.appended_at_ms)
                account = count(accounts.get(beat.node), beat, heard, self.terms)
                assert account is not None, "the test sends each heartbeat once"
                accounts[beat.node] = account
        return {node: account.health for node, account in accounts.items()}

    def has_told_all(self) -> dict[str, LeaseHealth] | None:
        """What was told, once it is of one of the last heartbeats of each node: it is told every 250 ms only."""
        told = self.told()
        is_near = all(told[node].sequence > self._sequences[node] - 15 for node in NODES if node in told)
        return told if set(told) == set(NODES) and is_near else None

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def _terms(self) -> Terms:
        with contextlib.closing(KafkaReader(self.site.kafka, self.site.cluster)) as reader:
            terms = read_terms(reader, threading.Event())
        assert terms is not None
        return terms


def delete(site: Site, name: str) -> None:
    admin = AdminClient({**site.kafka})
    admin.delete_topics([name])[name].result()


@pytest.fixture
def health(site: Site, tmp_path: Path) -> Iterator[Health]:
    site.coordinator("c1")
    site.leader()
    with contextlib.closing(Health(site, tmp_path / "health")) as health:
        yield health


def test_a_late_heartbeat_is_told_with_the_margin_that_it_left(health: Health) -> None:
    """A fence of 2 s and beats of 200 ms: after a pause of 1.3 s less than half of 1,800 ms is left."""
    worker = health.worker()
    for _ in range(5):
        health.beat(pause_s=0.05)
    health.beat(pause_s=1.3)
    health.beat()

    def all_thin() -> dict[str, LeaseHealth] | None:
        told = health.told()
        return told if set(told) == set(NODES) and all(each.is_thin for each in told.values()) else None

    told = eventually(all_thin, "a thin margin of all")
    for each in told.values():
        margin_ms = each.window.margin_ms(each.fence_ms)
        assert margin_ms is not None
        assert margin_ms <= 700 < warning_margin_ms(each.fence_ms, each.heartbeat_ms)
        assert (each.whole.missed, each.whole.lost, each.whole.starts) == (each.whole.gap_max_ms // 200 - 1, 0, 1)
    assert told == health.expected(told)
    eventually(lambda: any("half the margin is gone" in line for line in worker.complaints), "the warning in its log")
    assert worker.end() == 0


def test_a_worker_that_is_killed_again_and_again_counts_every_heartbeat_once(health: Health) -> None:
    """kill -9 in the middle, three times, while heartbeats come; then what it tells is what an uninterrupted one would,
    and what one tells that begins with an empty folder."""
    killed: list[int] = []
    while len(killed) < 3:
        worker = health.worker()
        eventually(lambda: len({each.worker for each in health.heard()}) > len(killed), "a sign of life")
        for _ in range(40):
            health.beat(pause_s=0.02)
        worker.kill()
        killed.append(worker.pid)
        for _ in range(10):
            health.beat(pause_s=0.02)
    health.worker()
    for _ in range(20):
        health.beat(pause_s=0.05)
    told = eventually(health.has_told_all, "the health of all")
    assert told == health.expected(told)
    assert all(each.whole.lost == 0 and each.whole.starts == 1 for each in told.values())


def test_a_worker_on_a_busy_machine_leaves_no_heartbeat_out(health: Health) -> None:
    """faust restores the table and lets heartbeats in; then it goes to the committed place and empties its queues. What
    had come by then is in no account, and passes for lost, unless it is read again."""
    first = health.worker()
    for _ in range(10):
        health.beat(pause_s=0.04)
    eventually(health.has_told_all, "the health of all", BUSY_S)
    assert first.end() == 0
    shutil.rmtree(health.folder)
    for _ in range(20):
        health.beat(pause_s=0.02)
    sent = health.sent
    health.worker("tests.broker.slow_health")

    def told_of_later_ones() -> dict[str, LeaseHealth] | None:
        health.beat(pause_s=0.2)
        told = health.told()
        return told if len(told) == len(NODES) and all(each.sequence > sent for each in told.values()) else None

    told = eventually(told_of_later_ones, "the health of all", BUSY_S)
    assert told == health.expected(told)
    assert all(each.whole.lost == 0 and each.whole.beats == each.sequence for each in told.values())


def test_foreign_records_are_counted_and_passed_over(health: Health) -> None:
    """Bytes that are no record, a tombstone, a record of another kind, another node's key, another log; and death
    certificates, which belong there and are none of its business."""
    worker = health.worker()
    certificate = CODEC.encode(NodeDied(NodeId("n1"), Incarnation(9), b"shown"))
    other_log = CODEC.encode(heartbeat(1, node="n1", log_id=b"another log ...."))
    foreign = [b"\xc3\x01garbage", b"", CODEC.encode(TermEnded(1))]
    for value in [*foreign, CODEC.encode(heartbeat(1, node="n2")), other_log, certificate]:
        health.writer.append(Topic.HEARTBEATS, "n1", value)
    health.beat()
    eventually(lambda: set(health.told()) == set(NODES), "the health of all")
    assert eventually(lambda: max((each.passed_over for each in health.heard()), default=0) >= 5, "the count")
    assert worker.end() == 0


def test_a_table_that_contradicts_its_changelog_is_built_anew(health: Health) -> None:
    """The changelog was deleted while the worker was away and its folder stayed: ConsistencyError, for faust."""
    first = health.worker()
    for _ in range(20):
        health.beat(pause_s=0.04)
    eventually(health.has_told_all, "the health of all")
    assert first.end() == 0
    changelog = f"{app_id(health.site.cluster, health.terms.log_id)}-accounts-changelog"
    delete(health.site, changelog)
    second = health.worker()
    eventually(lambda: any("built anew" in line for line in second.complaints), "the rebuilding")
    for _ in range(10):
        health.beat(pause_s=0.05)
    told = eventually(health.has_told_all, "the health of all")
    assert told == health.expected(told), "the topic still had all of it"
    assert second.end() == 0


def test_the_folder_belongs_to_one_worker(health: Health) -> None:
    health.worker()
    eventually(health.heard, "a sign of life")
    second = health.worker()
    eventually(lambda: any("Another worker" in line for line in second.complaints), "the refusal")


def test_a_lost_folder_is_no_loss(health: Health) -> None:
    """The changelog has it all: a worker with an empty folder goes on where the one before was."""
    first = health.worker()
    for _ in range(20):
        health.beat(pause_s=0.04)
    eventually(health.has_told_all, "the health of all")
    assert first.end() == 0
    shutil.rmtree(health.folder)
    health.worker()
    for _ in range(10):
        health.beat(pause_s=0.05)
    told = eventually(health.has_told_all, "the health of all")
    assert told == health.expected(told)


def test_the_topic_is_asked_for_by_its_name(site: Site, tmp_path: Path) -> None:
    """A cluster that was made before lease health: the worker says what to do."""
    delete(site, topic_name(site.cluster, Topic.LEASE_HEALTH))
    flags = ["--set", f"cluster.name={site.cluster}", "--set", f"kafka.bootstrap.servers={site.bootstrap}"]
    flags += ["--set", f"health.data={tmp_path}"]
    with contextlib.closing(Process([sys.executable, "-m", "topolog", "run", "lease-health", *flags])) as worker:
        eventually(lambda: any("cluster init" in line for line in worker.complaints), "the advice")
