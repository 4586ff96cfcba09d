"""A crash at every named place, on a real broker; whoever comes after finds everything as the log has it.

All tests but the founding ones share one cluster, so each also begins with whatever the crashes before it have left. A
witness, a node that is never killed, proposes and folds all along; the auditor folds the log from its beginning.
"""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from tests.broker import (
    test_exchange_failpoints,
    test_rendezvous,
    test_schema_failpoints,
    test_validator_failpoints,
)
from tests.broker.armed import AT_ONCE
from tests.broker.conftest import PATIENCE_S, Process, decode_requests, event_name, eventually
from tests.broker.crash_site import LANDED, CrashSite, assert_died, name_of
from tests.processes.stores import test_kills

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.codec import CODEC
from topolog.events.failpoints import FAILPOINTS, VARIABLE
from topolog.events.health import Figures, LeaseHealth
from topolog.events.ids import Incarnation, NodeId, Offset
from topolog.events.kafka import KafkaReader
from topolog.events.leases import NodeKind
from topolog.events.membership import Joiner, JoinRequested, NodeJoined, NodeLeft
from topolog.events.metadata import MetadataUpdateProposed, UpdateRequested
from topolog.events.object_types import DeclaredType, ObjectType
from topolog.events.requesters import joining, requester_of
from topolog.events.requests import RequestRefused, RequestUnchanged, Status
from topolog.events.snapshots import SnapshotTaken
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.projections.archive.rebuilding import Task, rebuild_store
from topolog.projections.generations import generation_path
from topolog.projections.projector import Projector
from topolog.projections.sides import HealthRow, LetterBodyRow, LetterRow, SideRow
from topolog.streams.node.client import Node

S = TypeVar("S", bound=SideRow)


GARBAGE = b"garbage"

COORDINATOR = (
    "coordinator.claiming=crash",
    "coordinator.elected=crash",
    "coordinator.resumed=crash",
    "coordinator.asked=crash",
    "coordinator.decided=crash",
    "coordinator.inside-a-set=crash",
    "coordinator.inside-a-set" + LANDED,
    "coordinator.appended:1=crash",  # the claim
    "coordinator.appended:1" + LANDED,
    "coordinator.appended:2" + LANDED,  # the first beat, or outcomes
    "coordinator.appended:3=crash",
    "coordinator.appended:4" + LANDED,
    "coordinator.delivered:2=crash",
    "coordinator.burying=crash",
    "coordinator.buried=crash",
    "coordinator.buried" + LANDED,
)
FOUNDING = ("coordinator.founding=crash", "coordinator.appended" + LANDED, "coordinator.claiming=crash")
NODE = (
    "node.joining=crash",
    "node.join-sent=crash",
    "node.join-sent" + LANDED,
    "node.acknowledging=crash",
    "node.beaten=crash",
    "node.beaten:2" + LANDED,
    "node.folded=crash",
    "node.hooked:3=crash",
    "node.inside-a-set=crash",
    "node.applied=crash",
    "node.request-sent:2=crash",
    "node.request-sent:2" + LANDED,
    "node.outcome-read=crash",
    "node.past-syncing=crash",
    "node.past-synced=crash",
    "node.past-syncing:2=crash",
    "node.past-synced:2=crash",
    "node.releasing=crash",
    "node.released=crash",
    "node.released" + LANDED,
)
PROJECTOR = (
    "projector.made=crash",
    "projector.read=crash",
    "projector.folded=crash",
    "projector.written=crash",
    "projector.caught-up=crash",
    "projector.set-aside=crash",
    "projector.taken=crash",
    "projector.succeeding=crash",
    "projector.succeeded=crash",
)
TAKING_OVER = ("projector.taken=crash", "projector.succeeding=crash", "projector.succeeded=crash")
SNAPSHOT = (
    "snapshot.cut=crash",
    "snapshot.chunk-sent=crash",
    "snapshot.chunk-sent:2" + LANDED,
    "snapshot.chunk-delivered:2=crash",
    "snapshot.closed=crash",
    "snapshot.announced=crash",
)
RESTORING = ("snapshot.loaded=crash", "snapshot.proven=crash")
SIDES = ("projector.sides-read=crash", "projector.sides-written=crash")
RETIRED = "coordinator.retired=crash"
REQUEST_SENT = "projector.request-sent=crash"


@pytest.fixture(scope="module")
def crash_site(kafka: str, new_cluster: Callable[[], str]) -> Iterator[CrashSite]:
    with contextlib.closing(CrashSite(kafka, new_cluster())) as site, contextlib.ExitStack() as stack:
        with site.leading():
            site.witness = stack.enter_context(site.node("witness"))
        yield site


def assert_sound(site: CrashSite, *nodes: Node) -> None:
    """One outcome per request, no version lost or given twice, equal folds, one life of a node at a time."""
    assert all(node.failure is None and site.agrees_with(node) for node in nodes)
    told = site.told()
    outcomes = Counter(
        str(each.event.request)
        for each in told.decisions
        if isinstance(each.event, MetadataUpdateProposed | RequestRefused | RequestUnchanged) and each.event.request
    )
    readable = [entry for entry in site.entries(Topic.REQUESTS) if not entry.value.startswith(GARBAGE)]
    asked = [each for each in decode_requests(readable) if isinstance(each, UpdateRequested)]
    assert {count for request, count in outcomes.items()} <= {1}
    assert {str(each.id) for each in asked} <= set(outcomes)
    proposed = [each.event for each in told.decisions if isinstance(each.event, MetadataUpdateProposed)]
    busy = [event.version for event in proposed if event.type_name == "Busy"]
    assert busy == list(range(1, len(busy) + 1))
    living: dict[str, Incarnation] = {}
    for each in told.decisions:
        if isinstance(each.event, NodeJoined):
            assert each.event.joiner.node not in living, "the former life had left"
            living[each.event.joiner.node] = Incarnation(each.event.joiner.incarnation)
        elif isinstance(each.event, NodeLeft):
            assert living.pop(each.event.node) == each.event.incarnation


def join_of(site: CrashSite, name: str) -> bytes:
    """A client that declares two types: if it is granted, a set of three decisions."""
    number = next(site.numbers)
    joiner = Joiner(
        node=name,
        incarnation=Incarnation(number),
        kind=NodeKind.CLIENT,
        endpoint="",
        attributes={},
        capabilities=(),
        types=tuple(DeclaredType(ObjectType(f"{side}-{number}", {"id": "long"}), 0) for side in ("left", "right")),
    )
    log_id = site.told().header.log_id
    assert log_id is not None
    return encode_request(JoinRequested(RequestId(joining(requester_of(name, number)), 1), log_id, name, "", joiner))


@pytest.mark.parametrize("entry", COORDINATOR)
def test_what_a_dead_coordinator_has_begun_its_successor_ends(crash_site: CrashSite, entry: str) -> None:
    """K4-K7: each request gets its one outcome, a set that was cut never happened, no dead letter is lost."""
    site = crash_site
    number = next(site.numbers)
    garbage = GARBAGE + b" %d" % number
    submitted = [site.submit() for _ in range(3)]
    site.put(Topic.REQUESTS, "stranger", garbage)
    site.put(Topic.HEARTBEATS, "stranger", garbage)
    site.put(Topic.REQUESTS, "client", join_of(site, f"client{number}"))
    assert_died(site.armed(entry, "coordinator", f"armed{number}"), entry)
    with site.leading():
        assert [each.outcome.result(PATIENCE_S).status for each in submitted] == [Status.GRANTED] * 3
        eventually(
            lambda: joinings_of(site, f"client{number}") > 0, "the client's join"
        )  # a silent client leaves again
        assert_sound(site, site.witness)
        dead = [entry for entry in site.entries(Topic.DEAD) if entry.value == garbage]
        assert {dict(entry.headers)["__dlq.errors.topic"] for entry in dead} == {b"requests", b"heartbeats"}
    assert joinings_of(site, f"client{number}") == 1
    if entry == f"coordinator.inside-a-set{LANDED}":
        assert cut_sets(site) >= 1, "more, if a busy machine has another leader deposed inside a set"


def joinings_of(site: CrashSite, node: str) -> int:
    joined = (each.event for each in site.told().decisions if isinstance(each.event, NodeJoined))
    return sum(event.joiner.node == node for event in joined)


def cut_sets(site: CrashSite) -> int:
    """How many sets began in the log and did not end there."""
    stamps = [decode_stamp(entry.stamp or b"") for entry in site.entries(Topic.DECISIONS)]
    begun = sum(stamp.index == 0 and stamp.size > 1 for stamp in stamps)
    return begun - sum(0 < stamp.index == stamp.size - 1 for stamp in stamps)


@pytest.mark.parametrize("entry", FOUNDING)
def test_a_log_that_was_half_founded_is_founded(kafka: str, cluster: str, entry: str) -> None:
    """K1: there is one LogStarted that counts and one log id, however often its founder died."""
    with contextlib.closing(CrashSite(kafka, cluster)) as site:
        assert_died(site.coordinator("founder", {**os.environ, VARIABLE: entry}), entry)
        with site.leading(), site.node("n1") as site.witness:
            assert site.submit().outcome.result(PATIENCE_S).version == 1
            assert_sound(site, site.witness)
        assert [event_name(each) for each in site.told().decisions].count("LogStarted") == 1


def test_a_coordinator_that_dies_after_its_last_word_has_retired(crash_site: CrashSite) -> None:
    """K5: TermEnded is in the log, so its successor need not wait for a silence."""
    coordinator = crash_site.armed(RETIRED, "coordinator", "retiring")
    eventually(lambda: crash_site.leader() == "retiring", "the armed coordinator to lead")
    coordinator.send(signal.SIGTERM)
    assert_died(coordinator, RETIRED)
    assert event_name(crash_site.told().decisions[-1]) == "TermEnded"
    with crash_site.leading():
        assert crash_site.submit().outcome.result(PATIENCE_S).status is Status.GRANTED
        assert_sound(crash_site, crash_site.witness)


@pytest.mark.parametrize("entry", SNAPSHOT)
def test_a_leader_that_dies_over_a_snapshot_leaves_none_that_is_used(entry: str, crash_site: CrashSite) -> None:
    """K10: whatever of it is in the topic, the log does not name it, and whoever starts has the state of the log."""
    before = snapshots_of(crash_site)
    assert_died(crash_site.armed(entry, "snapshots", f"c{next(crash_site.numbers)}"), entry)
    assert snapshots_of(crash_site) == before
    with crash_site.leading():
        crash_site.submit().outcome.result(PATIENCE_S)
        with crash_site.node(f"late-{next(crash_site.numbers)}") as late:
            assert_sound(crash_site, crash_site.witness, late)


@pytest.mark.parametrize("entry", RESTORING)
def test_who_dies_over_a_snapshot_that_it_reads_changes_nothing(entry: str, crash_site: CrashSite) -> None:
    """K10: the next one starts from the same snapshot."""
    before = snapshots_of(crash_site)
    with crash_site.leading(AT_ONCE):
        crash_site.submit().outcome.result(PATIENCE_S)
        eventually(lambda: snapshots_of(crash_site) > before, "a snapshot")
    assert_died(crash_site.armed(entry, "coordinator", f"c{next(crash_site.numbers)}"), entry)
    with crash_site.leading():
        crash_site.submit().outcome.result(PATIENCE_S)
        with crash_site.node(f"late-{next(crash_site.numbers)}") as late:
            assert late._session.started_from is not None
            assert_sound(crash_site, crash_site.witness, late)


def snapshots_of(site: CrashSite) -> int:
    """How many the log names."""
    return sum(isinstance(each.event, SnapshotTaken) for each in site.told().decisions)


@pytest.fixture(scope="module")
def led_site(crash_site: CrashSite) -> Iterator[CrashSite]:
    """The same cluster with a coordinator that stays."""
    with crash_site.leading():
        yield crash_site


@pytest.mark.parametrize("entry", NODE)
def test_a_dead_node_comes_back_through_the_log(led_site: CrashSite, tmp_path: Path, entry: str) -> None:
    """K7, LE23: its next life is let in by the lock on its folder, no other life of it holds a lease, and what
    its former life asked for has one outcome."""
    site = led_site
    number = next(site.numbers)
    name, field = f"n{number}", f"n{number}"
    assert_died(site.armed(entry, "node", name, str(tmp_path), field), entry)
    later = Node(site.cluster, name, kafka=site.kafka, folder=tmp_path, join_timeout_s=PATIENCE_S)
    with later:
        assert later.propose(ObjectType("Busy", {field: "long"})).accepted
        assert site.submit().outcome.result(PATIENCE_S).status is Status.GRANTED
        assert_sound(site, site.witness, later)


@pytest.mark.parametrize("entry", PROJECTOR)
def test_a_dead_projector_goes_on_from_what_it_has_stored(led_site: CrashSite, tmp_path: Path, entry: str) -> None:
    """RD1: whatever it was doing, the next process has every decision once and the rows of the log's fold."""
    site = led_site
    if "set-aside" in entry:
        damaged = generation_path(tmp_path)
        damaged.mkdir()
        (damaged / "CURRENT").write_text("not what RocksDB has written")
    if entry in TAKING_OVER:
        for _ in range(2):  # the folder's own store, and one that is offered beside it
            rebuild_store(Task(site.cluster, tmp_path, None, partial(KafkaReader, site.kafka)), time.monotonic, print)
    (tmp_path / "rows-of-another-shape").mkdir()
    assert_died(site.armed(entry, "projector", str(tmp_path)), entry)
    site.submit().outcome.result(PATIENCE_S)
    told = site.told()
    with closing_projector(site, tmp_path) as projector:
        eventually(lambda: projector.step(0.1) >= 0 and projector.meta.position >= told.header.position, "the end")
        assert projector.stopped is None
        with projector.reading() as reading:
            assert reading.as_of(told.header.position).state().hash() == told.hashes[told.header.position]
            positions = [each.position for each in reading.all_decisions()]
        assert positions == list(range(positions[0], -1, -1))
        eventually(lambda: projector.step(0.1) >= 0 and not (tmp_path / "rows-of-another-shape").exists(), "the sweep")


@pytest.mark.parametrize("entry", SIDES)
def test_a_dead_projector_has_each_letter_once_and_the_last_word_on_health(
    led_site: CrashSite, tmp_path: Path, entry: str
) -> None:
    """Rows of a topic beside the log and how far it is read are one write: none is lost, none is there twice."""
    site = led_site

    def tell(sequence: int) -> None:
        for name in ("h1", "h2"):
            site.put(Topic.LEASE_HEALTH, name, CODEC.encode(health_of(name, sequence)))
            site.put(Topic.DEAD, name, b"letter %d" % sequence)

    def assert_told(sequence: int) -> None:
        letters = [entry.value for entry in reversed(site.entries(Topic.DEAD))]
        with closing_projector(site, tmp_path) as projector:
            eventually(lambda: projector.step(0.1) >= 0 and len(side_rows(projector, LetterRow)) == len(letters), "all")
            eventually(lambda: projector.step(0.1) >= 0 and healths(projector) == [sequence] * 2, "the last word")
            assert [body.value for body in side_rows(projector, LetterBodyRow)] == letters
            assert projector.stopped is None

    tell(1)
    assert_told(1)
    tell(2)
    assert_died(site.armed(entry, "projector", str(tmp_path)), entry)
    tell(3)
    assert_told(3)


def side_rows(projector: Projector, kind: type[S]) -> list[S]:
    with projector.reading() as reading:
        return [row for _, row in reading.sides(kind)]


def healths(projector: Projector) -> list[int]:
    return [row.health.sequence for row in side_rows(projector, HealthRow)]


def health_of(name: str, sequence: int) -> LeaseHealth:
    return LeaseHealth(
        node=NodeId(name),
        incarnation=Incarnation(1),
        log_id=bytes(16),
        partition=0,
        offset=Offset(sequence),
        sequence=sequence,
        beat_ms=0,
        lateness_ms=0,
        fence_ms=2_000,
        heartbeat_ms=200,
        fenced=False,
        released=False,
        minutes=(),
        whole=Figures(),
    )


def test_a_request_whose_api_died_can_be_repeated(led_site: CrashSite, tmp_path: Path) -> None:
    """K7: the caller heard nothing; the same key again has the same one outcome."""
    field = f"a{next(led_site.numbers)}"
    body = {"kind": "propose", "definition": {"name": "Busy", "fields": {field: "long"}}}
    headers = {"Idempotency-Key": f"{field}/1"}

    def post(process: Process) -> httpx.Response:
        url = process.hear("ready")["url"]
        eventually(
            lambda: httpx.get(f"{url}/readyz", timeout=30, trust_env=False).status_code == 200, "an API that is ready"
        )
        path = f"{url}/v1/clusters/{led_site.cluster}/requests?timeout=20s"
        return httpx.post(path, json=body, headers=headers, trust_env=False, timeout=PATIENCE_S)

    armed = led_site.armed(REQUEST_SENT, "api", str(tmp_path))
    with pytest.raises(httpx.TransportError):
        post(armed)
    assert_died(armed, REQUEST_SENT)
    later = led_site.armed("", "api", str(tmp_path))
    assert post(later).json()["item"]["status"] == "GRANTED"
    assert later.end() == 0
    assert_sound(led_site, led_site.witness)


def test_every_failpoint_is_crashed_at() -> None:
    """A place that is named and that no test reaches would be a promise without proof."""
    alone = (RETIRED, REQUEST_SENT)
    of_exchanges = (entry for _, entry in (*test_exchange_failpoints.COORDINATOR, *test_exchange_failpoints.NODE))
    entries = [*COORDINATOR, *FOUNDING, *NODE, *PROJECTOR, *SIDES, *SNAPSHOT, *RESTORING, *alone, *of_exchanges]
    entries += [*test_schema_failpoints.ENTRIES, *test_validator_failpoints.ENTRIES, *test_rendezvous.ENTRIES]
    tried = {name_of(entry) for entry in (*entries, *test_kills.PLACES, test_kills.RECALLED)}
    assert tried == set(FAILPOINTS)


@contextlib.contextmanager
def closing_projector(site: CrashSite, folder: Path) -> Iterator[Projector]:
    with contextlib.closing(KafkaReader(site.kafka, site.cluster)) as reader:
        projector = Projector(reader, folder, site.cluster)
        with contextlib.closing(projector):
            yield projector
