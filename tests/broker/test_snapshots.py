"""Snapshots on a real broker (K10): started from, cut short, deleted, hidden in rubbish, and not there at all."""

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.broker.conftest import FENCE_MS, HEARTBEAT_MS, MARGIN_MS, Process, Site, eventually

from topolog.events.codec import CODEC
from topolog.events.ids import Offset, Position
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.log import Entry
from topolog.events.metadata import ObjectType
from topolog.events.snapshots import SnapshotChunk, SnapshotTaken
from topolog.events.topics import Topic, topic_name
from topolog.streams import restoring
from topolog.streams.clock import SystemClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.node.client import Node, Outcome

EVERY = 400
FIELD_CHARS, TYPES = 900, 20


@pytest.fixture(autouse=True)
def _no_look_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs here are shorter than the proof looks back: without that, what is read tells where a reader began."""
    monkeypatch.setattr(restoring, "LOOK_BACK", 0)


class CountingReader(KafkaReader):
    """A reader of the log that remembers which offsets of `decisions` it has handed out."""

    def __init__(self, settings: Mapping[str, str], cluster: str) -> None:
        super().__init__(settings, cluster)
        self.offsets: list[Offset] = []

    def poll(self, timeout_s: float) -> list[Entry]:
        entries = super().poll(timeout_s)
        self.offsets += [entry.offset for entry in entries if entry.topic is Topic.DECISIONS]
        return entries


def coordinator(site: Site, instance: str, every: int = EVERY) -> Process:
    return site.coordinator(instance, {**os.environ, "TOPOLOG_SNAPSHOT__EVERY": str(every)})


def work(node: Node, prefix: str, count: int = 300) -> None:
    """So many types, each of two decisions at least."""
    open_: list[Future[Outcome]] = []
    for number in range(count):
        if len(open_) >= 16:
            open_.pop(0).result(30)
        open_.append(node.submit(ObjectType(f"{prefix}{number}", {"id": "long"})).outcome)
    for future in open_:
        future.result(30)


def announced(site: Site) -> list[SnapshotTaken]:
    return [each.event for each in site.told().decisions if isinstance(each.event, SnapshotTaken)]


def await_snapshots(site: Site, count: int = 1) -> list[SnapshotTaken]:
    def look() -> list[SnapshotTaken] | None:
        found = announced(site)
        return found if len(found) >= count else None

    return eventually(look, f"{count} snapshots")


@contextlib.contextmanager
def counted_node(site: Site, name: str) -> Iterator[tuple[Node, CountingReader]]:
    """A member in this process, and its reader."""
    reader, writer = CountingReader(site.kafka, site.cluster), KafkaWriter(site.kafka, site.cluster)
    with Node(site.cluster, name, connect=lambda: (reader, writer), join_timeout_s=30) as node:
        yield node, reader


def started_from(node: Node) -> Position | None:
    """The position of the snapshot that the node has started from, None if it read the log from its beginning."""
    return node._session.started_from


def test_a_node_and_a_stand_by_start_from_the_last_snapshot(site: Site) -> None:
    """K10: of a thousand decisions and more they read those behind the last snapshot, and they know the whole."""
    first = coordinator(site, "c1")
    with site.node("n1") as node:
        work(node, "T", 500)
        newest = await_snapshots(site, 2)[-1]
        assert newest.position > 500
        with counted_node(site, "n2") as (other, reader):
            assert min(reader.offsets) >= newest.anchor.offset
            assert len(other.types()) == 500
            assert site.agrees_with(other)
        with _stand_by(site) as (driver, reader):
            eventually(lambda: driver.started_from is not None, "a stand-by that has started")
            first.kill()
            eventually(lambda: driver.role is Role.LEADING, "the stand-by to lead")
            assert min(reader.offsets) >= newest.anchor.offset
            work(node, "U", 20)
            assert site.agrees_with(node)


@contextlib.contextmanager
def _stand_by(site: Site) -> Iterator[tuple[Driver, CountingReader]]:
    """A coordinator in this process, stepped by a thread."""
    reader, writer = CountingReader(site.kafka, site.cluster), KafkaWriter(site.kafka, site.cluster)
    terms = LeaseTerms(FENCE_MS, MARGIN_MS, HEARTBEAT_MS)
    driver, stop = Driver(reader, writer, SystemClock(), site.cluster, "here", terms=terms), threading.Event()
    thread = threading.Thread(target=driver.run, args=(stop.is_set,))
    thread.start()
    try:
        yield driver, reader
    finally:
        stop.set()
        thread.join()
        reader.close()
        writer.close()


def test_a_leader_killed_over_a_snapshot_leaves_nothing_that_is_used(site: Site) -> None:
    """Chunks without SnapshotTaken in the log are nothing; whoever leads next takes a snapshot of its own."""
    leader = coordinator(site, "c1", every=1_000_000)
    with site.node("n1") as node:
        for number in range(TYPES):
            fields = {f"{'f' * FIELD_CHARS}{each}": "long" for each in range(200)}
            node.propose(ObjectType(f"Large{number}", fields), timeout_s=30)
        leader.end()
        unfinished = _kill_a_leader_over_a_snapshot(site)
        leader = coordinator(site, "c98", every=0)
        with counted_node(site, "n2") as (other, _):
            assert len(other.types()) == TYPES
            assert started_from(other) != unfinished.position
        assert leader.end() == 0
        coordinator(site, "c99", every=1)
        newest = await_snapshots(site, len(announced(site)) + 1)[-1]
        assert newest.position > unfinished.position
        with counted_node(site, "n3") as (other, _):
            assert (started_from(other) or 0) > unfinished.position
            assert len(other.types()) == TYPES


def _kill_a_leader_over_a_snapshot(site: Site) -> SnapshotChunk:
    """The last chunk that a leader has written before it was killed."""
    for round_ in range(2, 12):
        before = len(site.entries(Topic.SNAPSHOTS))
        leader = coordinator(site, f"c{round_}", every=1)
        reader = KafkaReader(site.kafka, site.cluster)
        eventually(lambda reader=reader, before=before: _end(reader) > before or None, "a chunk")  # type: ignore[misc]
        leader.kill()
        reader.close()
        last = CODEC.decode(site.entries(Topic.SNAPSHOTS)[-1].value)
        if isinstance(last, SnapshotChunk):
            return last
    raise AssertionError("every snapshot was whole before its leader was killed")


def _end(reader: KafkaReader) -> int:
    bounds = reader.bounds((Topic.SNAPSHOTS, 0))
    return bounds[1] if bounds else 0


def test_without_its_snapshots_the_log_is_read_from_the_beginning(site: Site) -> None:
    """Chunks that retention has taken, and then the whole topic deleted: nobody but the start takes note of it."""
    coordinator(site, "c1")
    admin = AdminClient({**site.kafka})
    topic = topic_name(site.cluster, Topic.SNAPSHOTS)
    with site.node("n1") as node:
        work(node, "T")
        await_snapshots(site)
        for future in admin.delete_records([TopicPartition(topic, 0, 1)]).values():
            future.result()
        with counted_node(site, "n2") as (other, _):
            assert started_from(other) is None
            assert len(other.types()) == 300
        for deleted in admin.delete_topics([topic]).values():
            deleted.result()
        with counted_node(site, "n3") as (other, _):
            assert started_from(other) is None
            assert len(other.types()) == 300
        work(node, "U")
        assert site.agrees_with(node)
        assert site.told().header.term == 1, "a leader whose snapshots cannot be written goes on leading"


def test_rubbish_on_the_topic_hides_no_snapshot(site: Site) -> None:
    """Anybody's bytes, and chunks and ends that say something else: they are stepped over."""
    coordinator(site, "c1")
    with site.node("n1") as node:
        work(node, "T")
        taken = await_snapshots(site)[-1]
        writer = KafkaWriter(site.kafka, site.cluster)
        chunk, *_, closing = (entry.value for entry in site.entries(Topic.SNAPSHOTS))
        for value in (b"", b"rubbish", os.urandom(500_000), chunk, chunk[:-1], closing[:-1], chunk, b"\xc3\x01"):
            writer.append(Topic.SNAPSHOTS, "x", value)
        writer.close()
        with counted_node(site, "n2") as (other, reader):
            assert (started_from(other) or 0) >= taken.position
            assert min(reader.offsets) >= taken.anchor.offset
            assert site.agrees_with(other)
