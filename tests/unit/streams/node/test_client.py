"""The node client with its threads, on a log in memory and a clock that stands still until it is moved.

A coordinator runs in a thread of its own, other members are stepped by hand where their silence is wanted. Nothing
sleeps: tests wait for outcomes, for records in the log, or move the clock until something has happened.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.scenarios.world import TERMS

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import (
    BadInput,
    Fenced,
    HookFailed,
    LeftCluster,
    LogDiverged,
    MergeConflict,
    NotCaughtUp,
    OutcomeUnknown,
    Refused,
    TopologError,
    Unreachable,
)
from topolog.events.fold import Fold
from topolog.events.ids import NodeId
from topolog.events.leases import FENCING, LeaveReason, NodeKind
from topolog.events.log import Headers, InMemoryLog, InMemoryWriter, LogReader, LogWriter, OnDelivery
from topolog.events.metadata import ObjectType
from topolog.events.topics import Topic
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.driver import Driver
from topolog.streams.node import member
from topolog.streams.node.client import Metadata, Node
from topolog.streams.node.core import Phase
from topolog.streams.node.folder import FolderLock
from topolog.streams.node.sentinel import Sentinel
from topolog.streams.node.session import Session
from topolog.streams.node.testing import LocalCluster

PATIENCE_S = 30.0
AT_ONCE_S = 0.02
CUSTOMER = ObjectType("Customer", {"id": "long"})
NAMED = ObjectType("Customer", {"name": "String"})


class Cluster:
    """A log, a clock, and a coordinator in a thread of its own, until it is stopped."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = InMemoryLog(self.clock.wall_ms)
        self.readers: dict[str, Any] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.start_coordinator()

    def start_coordinator(self) -> None:
        self._stopping.clear()
        driver = Driver(self.log.reader(), self.log.writer(), self.clock, "demo", "c1", terms=TERMS, takeover_ms=1)
        self._thread = threading.Thread(target=driver.run, args=(self._stopping.is_set,))
        self._thread.start()

    def stop_coordinator(self) -> None:
        """In order: its term is ended, the next one may start at once."""
        assert self._thread is not None
        self._stopping.set()
        self._thread.join()

    def node(self, name: str = "n1", **options: Any) -> Node:
        def connect() -> tuple[LogReader, LogWriter]:
            self.readers[name] = self.log.reader()
            return self.readers[name], self.log.writer()

        options = {"join_timeout_s": PATIENCE_S, **options}
        return Node("demo", name, clock=self.clock, connect=connect, **options)

    def silent_member(self, name: str = "silent", *, folder: str = "", key: bytes | None = None) -> Session:
        """A member that takes no further turn of its own: whatever is proposed waits for it."""
        joiner = m.Joiner(name, 0, NodeKind.SERVER, "", {}, (FENCING,), folder)
        session = Session(self.log.reader(), self.log.writer(), self.clock, joiner, key=key)

        def holds_its_lease() -> bool:
            session.step(AT_ONCE_S)
            return session.core.phase is Phase.MEMBER and session.core.lease.is_valid(self.clock.boottime_ns())

        self.until(holds_its_lease)
        return session

    def until(self, condition: Callable[[], object]) -> None:
        """Look whenever the log has grown, and now and then besides, until the condition holds."""
        for _ in range(int(PATIENCE_S / AT_ONCE_S)):
            if condition():
                return
            with self.log.changed:
                self.log.changed.wait(AT_ONCE_S)
        raise AssertionError("it did not happen")

    def pass_time_until(self, condition: Callable[[], object]) -> None:
        """Move the clock, a little at a time, until the condition holds."""

        def passed() -> object:
            self.clock.advance(TERMS.heartbeat_ms / 2)
            return condition()

        self.until(passed)

    def requests(self) -> int:
        return len(self.log.entries(Topic.REQUESTS))

    def events(self, kind: type[Any]) -> list[Any]:
        """The accepted decisions of a kind, by a reader of its own."""
        fold = Fold()
        found = [fold.read(entry.stamp, entry.value) for entry in list(self.log.entries(Topic.DECISIONS))]
        return [each.event for some in found if isinstance(some, list) for each in some if isinstance(each.event, kind)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.stop_coordinator()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


# Entering and leaving.


@pytest.mark.parametrize("name", ["", " ", "a/b", "n" * 201, "n1\n", "a n2", "\x1b]0;evil\x07", "n\u202e2"])
def test_what_can_be_no_nodes_id_is_said_so_before_anything_is_sent(name: str) -> None:
    """It failed inside, where the id of its joining was made of it, and named that."""
    with LocalCluster() as cluster:
        for entered in (cluster.node, cluster.async_node):
            with pytest.raises(BadInput, match="node's id has 1 to 200 characters") as refused:
                entered(name)
            assert repr(name) in refused.value.message
            assert refused.value.message.isprintable()


def test_entering_waits_for_membership_and_lease_and_leaving_releases_both(cluster: Cluster) -> None:
    """No time passes: the join is answered, the first heartbeat is echoed, the release is taken note of."""
    with cluster.node(endpoint="10.0.0.1:7000", attributes={"rack": "r1"}) as node:
        node.lease.require()
        (row,) = node.members()
        assert (row.node, row.endpoint, row.attributes) == ("n1", "10.0.0.1:7000", {"rack": "r1"})
        assert row.incarnation == node.incarnation
    (left,) = cluster.events(m.NodeLeft)
    assert (left.node, left.reason) == ("n1", LeaveReason.LEFT)
    assert not node.lease.is_valid


def test_a_node_and_its_coordinator_fold_one_state(cluster: Cluster) -> None:
    """K9: position and hash of the state are those of any other reader."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        position, state_hash = node.fingerprint()
    fold, entries = Fold(), iter(cluster.log.entries(Topic.DECISIONS))
    while fold.header.position < position:
        entry = next(entries)
        fold.read(entry.stamp, entry.value)
    assert fold.state.hash() == state_hash


def test_without_a_coordinator_entering_says_what_is_missing() -> None:
    """A clear error, naming the address, and nothing left running."""
    log, threads = InMemoryLog(), threading.active_count()
    node = Node(
        "demo",
        "n1",
        kafka={"bootstrap.servers": "broker:9092"},
        clock=ManualClock(),
        join_timeout_s=AT_ONCE_S,
        connect=lambda: (log.reader(), log.writer()),
    )
    with pytest.raises(Unreachable, match=r"no decision from broker:9092 after .* no broker, or no coordinator"):
        node.__enter__()
    assert threading.active_count() == threads


def test_a_join_that_is_not_answered_is_told_apart_from_a_broker_that_is_silent(cluster: Cluster) -> None:
    """The log is there and nobody decides."""
    cluster.stop_coordinator()
    with pytest.raises(Unreachable, match="is joining after 1 s: no coordinator answers"):
        cluster.node(join_timeout_s=1).__enter__()
    cluster.start_coordinator()


def test_a_second_process_of_a_living_node_is_refused(cluster: Cluster) -> None:
    """DUPLICATE_ID: the first is renewed while the second waits."""
    with cluster.node() as first, ThreadPoolExecutor(1) as pool:
        second = pool.submit(cluster.node().__enter__)
        cluster.pass_time_until(second.done)
        with pytest.raises(Refused) as raised:
            second.result()
        assert raised.value.code == "DUPLICATE_ID"
        first.lease.require()


def test_types_that_contradict_the_clusters_keep_a_node_out(cluster: Cluster) -> None:
    """ME28: the error that leaves `with` is the coordinator's refusal."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
    with pytest.raises(Refused, match="Field 'id' of type 'Customer' is long"):
        cluster.node("n2", types=((ObjectType("Customer", {"id": "String"}), 0),)).__enter__()


def test_types_that_a_node_knows_from_before_are_there_when_it_is_in(cluster: Cluster) -> None:
    """ME29: declared at its joining, accepted like any proposal."""
    with cluster.node(types=((CUSTOMER, 0),)) as node:
        assert node.metadata("Customer", timeout_s=PATIENCE_S) == Metadata(CUSTOMER, 1)


def test_a_folder_belongs_to_one_node_at_a_time(cluster: Cluster, tmp_path: Path) -> None:
    """The lock is taken before anything is sent, and let go in the end, whatever the end is."""
    with cluster.node(folder=tmp_path):
        before = cluster.requests()
        with pytest.raises(BadInput, match="Another process uses the folder"):
            cluster.node("n2", folder=tmp_path).__enter__()
        assert cluster.requests() == before
    with cluster.node(folder=tmp_path) as again:
        again.lease.require()


def test_the_lock_on_its_folder_lets_a_restarted_node_in_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """REPLACED: no waiting for the lease of the life before."""
    lock = FolderLock(tmp_path, "n1")
    cluster.silent_member("n1", folder=lock.acquire(), key=lock.key)
    lock.let_go()
    with cluster.node(folder=tmp_path) as node:
        node.lease.require()
    assert [each.reason for each in cluster.events(m.NodeLeft)] == [LeaveReason.REPLACED, LeaveReason.LEFT]


# Proposing.


def test_a_proposal_is_accepted_and_its_outcome_says_so(cluster: Cluster) -> None:
    """ME18: it returns when all who may answer have applied it, and it can be read here."""
    with cluster.node() as node, cluster.node("n2") as other:
        outcome = node.propose(CUSTOMER, timeout_s=PATIENCE_S, reason="first")
        assert (outcome.status, outcome.type_name, outcome.version, outcome.accepted) == (
            q.Status.GRANTED,
            "Customer",
            1,
            True,
        )
        assert outcome.position <= node.position
        definition = node.types()["Customer"].definition
        assert (definition.fields, list(definition.schemas.values())) == ({"id": "long"}, [("id",)])
        assert other.metadata("Customer", timeout_s=PATIENCE_S) == node.metadata("Customer")
        (accepted,) = cluster.events(md.MetadataUpdateAccepted)
        assert accepted.evidence.applied == ("n1", "n2")


def test_a_conflict_raises_with_both_sides(cluster: Cluster) -> None:
    """ME8: it is in the log as well, so that it can be explained later."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        with pytest.raises(MergeConflict) as raised:
            node.propose(ObjectType("Customer", {"id": "String"}))
    assert raised.value.rule == "ME8"
    assert raised.value.facts == {"what": "field id", "current": "long", "proposed": "String"}
    assert len(cluster.events(md.MetadataUpdateRejected)) == 1


def test_u1_what_is_known_already_is_not_sent(cluster: Cluster) -> None:
    """ME19: no-op and P = A returns at once, nothing sent."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        before = cluster.requests()
        outcome = node.propose(CUSTOMER)
        assert (outcome.request_id, outcome.status, outcome.version) == (None, q.Status.UNCHANGED, 1)
        assert cluster.requests() == before


def test_u1_what_is_pending_already_is_waited_for_and_not_sent(cluster: Cluster) -> None:
    """ME19: no-op and P > A waits for the acceptance of what is pending."""
    silent = cluster.silent_member()
    with cluster.node() as node:
        node.propose(CUSTOMER, wait="decided", timeout_s=PATIENCE_S)
        before = cluster.requests()
        waiting = node.submit(CUSTOMER)
        assert not waiting.outcome.done()
        step_until(cluster, silent, waiting.outcome)
        assert waiting.outcome.result().version == 1
        assert cluster.requests() == before


def step_until(cluster: Cluster, silent: Session, future: Future[Any]) -> None:
    """The silent member wakes up and works until the future is done."""

    def done() -> bool:
        silent.step(AT_ONCE_S)
        return future.done()

    cluster.until(done)


def test_a_proposal_that_is_only_to_be_decided_does_not_wait_for_the_others(cluster: Cluster) -> None:
    """`wait="decided"`: granted at its version, not accepted yet."""
    cluster.silent_member()
    with cluster.node() as node:
        outcome = node.propose(CUSTOMER, wait="decided", timeout_s=PATIENCE_S)
        assert (outcome.status, outcome.version, outcome.accepted) == (q.Status.GRANTED, 1, False)


def test_an_outcome_that_is_not_known_in_time_can_be_asked_for_again(cluster: Cluster) -> None:
    """K7: OutcomeUnknown carries the request id; asking again never proposes anew."""
    with cluster.node() as node:
        cluster.stop_coordinator()
        with pytest.raises(OutcomeUnknown, match="Ask again") as raised:
            node.propose(CUSTOMER, timeout_s=AT_ONCE_S)
        cluster.start_coordinator()
        for _ in range(2):
            outcome = node.outcome(raised.value.request_id, timeout_s=PATIENCE_S)
            assert (outcome.request_id, outcome.version) == (raised.value.request_id, 1)
    assert len(cluster.events(md.MetadataUpdateProposed)) == 1


def test_many_proposals_may_be_under_way_at_once(cluster: Cluster) -> None:
    """They pipeline: each has its own version, in the order in which they were sent, whatever thread waits."""
    with cluster.node() as node, cluster.node("n2"):
        under_way = [node.submit(ObjectType("T", {f"f{number}": "int"})) for number in range(100)]
        assert [each.outcome.result(PATIENCE_S).version for each in under_way] == list(range(1, 101))
        assert len(node.types()["T"].definition.fields) == 100


def test_proposals_of_several_threads_and_nodes_are_all_in_the_end(cluster: Cluster, pool: ThreadPoolExecutor) -> None:
    """Concurrent additions to one type: nothing is lost, every node has the same content."""
    with cluster.node() as one, cluster.node("n2") as two:

        def add(number: int) -> int:
            node = (one, two)[number % 2]
            return node.propose(ObjectType("T", {f"f{number}": "int"}), timeout_s=PATIENCE_S).version

        versions = list(pool.map(add, range(24)))
        assert sorted(versions) == list(range(1, 25))
        newest = one.metadata("T", timeout_s=PATIENCE_S)
        assert newest is not None
        assert set(newest.definition.fields) == {f"f{number}" for number in range(24)}
        assert two.metadata("T", timeout_s=PATIENCE_S) == newest


def test_a_client_proposes_and_reads_what_servers_do_and_says_how_old_it_is(cluster: Cluster) -> None:
    """Clients hold none: they read what they have applied, and nobody waits for them."""
    with cluster.node() as server, cluster.node("web", kind=NodeKind.CLIENT) as client:
        assert client.propose(CUSTOMER, timeout_s=PATIENCE_S).accepted
        assert list(client.types()) == ["Customer"]
        served, found = server.metadata("Customer", timeout_s=PATIENCE_S), client.metadata("Customer")
        assert served is not None
        assert found is not None
        assert (found.definition, found.version) == (served.definition, served.version)
        assert served.age_ms is None
        assert found.age_ms is not None


# Reading.


def test_a_type_that_nobody_knows_is_none(cluster: Cluster) -> None:
    """Nor is one whose name merely has the id of another."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        assert node.metadata("Order") is None
        assert node.metadata("CUSTOMER") is None


def test_r1_a_reader_waits_for_the_version_it_saw(cluster: Cluster, pool: ThreadPoolExecutor) -> None:
    """ME20: P > A, so it waits, and returns the content it took before the wait."""
    silent = cluster.silent_member()
    with cluster.node() as node:
        node.propose(CUSTOMER, wait="decided", timeout_s=PATIENCE_S)
        assert node.types() == {}
        reading = pool.submit(node.metadata, "Customer", timeout_s=PATIENCE_S)
        step_until(cluster, silent, reading)
        found = reading.result()
        assert found is not None
        assert (found.version, dict(found.definition.fields)) == (1, {"id": "long"})


def test_r1_every_wait_has_a_deadline_and_says_what_it_waits_for(cluster: Cluster) -> None:
    """ME22: NotCaughtUp names version and position."""
    cluster.silent_member()
    with cluster.node() as node:
        node.propose(CUSTOMER, wait="decided", timeout_s=PATIENCE_S)
        with pytest.raises(NotCaughtUp, match=r"version 1 \(proposed at position \d+\) is not accepted after 0.02 s"):
            node.metadata("Customer", timeout_s=AT_ONCE_S)


def test_r4_a_reader_waits_for_a_removal_and_gets_none(cluster: Cluster, pool: ThreadPoolExecutor) -> None:
    """ME21: removing, so it blocks until the removal is complete; then the type may be defined anew (ME27)."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        silent = cluster.silent_member()
        remove_type(cluster, node, "Customer")
        cluster.until(lambda: is_removing(node, "Customer"))
        reading = pool.submit(node.metadata, "Customer", timeout_s=PATIENCE_S)
        step_until(cluster, silent, reading)
        assert reading.result() is None


def test_r4_a_reader_who_waits_for_a_removal_is_told_of_the_removal(cluster: Cluster) -> None:
    """ME22: the version is accepted; it is the removal that is not."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        cluster.silent_member()
        remove_type(cluster, node, "Customer")
        cluster.until(lambda: is_removing(node, "Customer"))
        with pytest.raises(NotCaughtUp, match=r"its removal \(proposed at position \d+\) is not accepted after 0.02 s"):
            node.metadata("Customer", timeout_s=AT_ONCE_S)


def remove_type(cluster: Cluster, node: Node, name: str) -> None:
    log_id = node._session.core.log_id
    assert log_id is not None
    request = md.TypeRemovalRequested(RequestId("operator", 1), log_id, "ada", "", name)
    cluster.log.put(Topic.OPERATIONS, "operator", CODEC.encode(request))


def is_removing(node: Node, name: str) -> bool:
    row = md.type_row(node._session.core.state, name)
    return row is not None and row.removing


def test_without_a_lease_a_server_answers_nothing(cluster: Cluster) -> None:
    """LE8: the clock has run on and no echo came; it recovers by itself."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        cluster.stop_coordinator()
        cluster.clock.advance(TERMS.fence_ms + 1)
        for read in (node.types, lambda: node.metadata("Customer"), node.lease.require):
            with pytest.raises(Fenced) as raised:
                read()
            assert raised.value.retry_after_ms == TERMS.heartbeat_ms
        cluster.start_coordinator()
        cluster.pass_time_until(lambda: node.lease.is_valid)
        assert list(node.types()) == ["Customer"]


# Hooks.


def test_hooks_are_called_in_the_order_of_the_log_from_its_beginning(cluster: Cluster) -> None:
    """Each accepted version, None for a removal, before the decision counts as applied."""
    seen: list[tuple[str, int | None]] = []
    with cluster.node() as node:
        node.propose(CUSTOMER)
        node.propose(NAMED)
        remove_type(cluster, node, "Customer")
        cluster.until(lambda: cluster.events(md.MetadataRemoveAccepted))
        node.propose(NAMED, timeout_s=PATIENCE_S)
    late = cluster.node("n2")
    late.on_type(lambda name, metadata: seen.append((name, metadata.version if metadata else None)))
    with late:
        assert seen == [("Customer", 1), ("Customer", 2), ("Customer", None), ("Customer", 3)]


def test_a_hook_that_raises_ends_the_node_and_everybody_who_waits(cluster: Cluster) -> None:
    """Nothing is swallowed: callers get the failure, the lease is over, and the process can be closed."""
    node = cluster.node()

    def hook(_name: str, _metadata: Metadata | None) -> None:
        raise RuntimeError("disk full")

    node.on_type(hook)
    with node:
        with pytest.raises(HookFailed, match="disk full"):
            node.propose(CUSTOMER, timeout_s=PATIENCE_S)
        assert isinstance(node.failure, HookFailed)
        assert not node.lease.is_valid
        with pytest.raises(HookFailed):
            node.propose(NAMED)


# Being removed, and coming back.


def test_a_node_that_an_operator_removes_is_out_for_good(cluster: Cluster) -> None:
    """REMOVED: the hook is told, every wait and every call fails with LeftCluster."""
    reasons: list[LeaveReason] = []
    node = cluster.node()
    node.on_left(reasons.append)
    with node:
        log_id = node._session.core.log_id
        assert log_id is not None
        request = m.NodeRemovalRequested(RequestId("operator", 1), log_id, "ada", "", "n1")
        cluster.log.put(Topic.OPERATIONS, "operator", CODEC.encode(request))
        cluster.until(lambda: node.failure)
        assert reasons == [LeaveReason.REMOVED]
        for call in (lambda: node.propose(CUSTOMER), node.types):
            with pytest.raises(LeftCluster, match="REMOVED"):
                call()


def test_a_node_that_was_fenced_out_joins_again_by_itself(cluster: Cluster) -> None:
    """FENCED: it could not read, so it was renewed no more and is out; when it reads that, it joins anew."""
    with cluster.node() as node:
        node.propose(CUSTOMER)
        first = node.incarnation
        cluster.readers["n1"].batch_max = 0
        cluster.pass_time_until(lambda: cluster.events(m.NodeLeft))
        assert not node.lease.is_valid
        cluster.readers["n1"].batch_max = 1_000
        cluster.pass_time_until(lambda: node.lease.is_valid and node.incarnation != first)
        assert list(node.types()) == ["Customer"]
        assert [row.node for row in node.members()] == [NodeId("n1")]


def test_a_wait_for_what_is_pending_already_ends_without_a_request_id(cluster: Cluster) -> None:
    """ME19: nothing was sent, so nothing is unknown: the node has only not caught up."""
    cluster.silent_member()
    with cluster.node() as node:
        node.propose(CUSTOMER, wait="decided", timeout_s=PATIENCE_S)
        with pytest.raises(NotCaughtUp):
            node.propose(CUSTOMER, timeout_s=0.01)


def test_a_node_that_failed_says_why_and_is_waited_for_by_nobody(cluster: Cluster) -> None:
    """A failing hook ends the node: its guard raises the failure, and its release is sent at once."""

    def fail(_name: str, _metadata: Metadata | None) -> None:
        raise ValueError("the service's own")

    failing = cluster.node("n2")
    failing.on_type(fail)
    with cluster.node() as node, failing:
        assert node.propose(CUSTOMER, timeout_s=PATIENCE_S).accepted
        cluster.pass_time_until(lambda: failing.failure is not None)
        with pytest.raises(HookFailed):
            failing.lease.require()
        cluster.pass_time_until(lambda: [row.node for row in node.members()] == [NodeId("n1")])
    assert next(each.reason for each in cluster.events(m.NodeLeft)) is LeaveReason.LEFT


def test_closing_ends_every_wait(cluster: Cluster) -> None:
    """ME22: a caller that waits when the node is closed is told so."""
    cluster.silent_member()
    with cluster.node() as node:
        waiting = node.submit(CUSTOMER)
    with pytest.raises(TopologError):
        waiting.outcome.result(PATIENCE_S)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_of_a_service_starts_fenced(cluster: Cluster) -> None:
    """The child has a copy of the lease and none of the threads; the parent's goes on."""
    with cluster.node() as node:
        child = os.fork()
        if not child:
            os._exit(1 if node.lease.is_valid else 17)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        node.lease.require()


@pytest.mark.parametrize("kind", list(NodeKind)[1:])
def test_nothing_of_a_node_works_in_a_forked_child(cluster: Cluster, tmp_path: Path, kind: NodeKind) -> None:
    """A client holds no lease to be fenced by, and what it knows grows old in a child all the same.

    The child says goodbye to nobody when it leaves the `with` block, and does not wait for threads that it has not.
    """
    with cluster.node(kind=kind, folder=tmp_path) as node:
        child = os.fork()
        if not child:
            _end_with_refusals(node)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        node.propose(ObjectType("T", {"id": "long"}))
        assert node.failure is None
    assert [each.reason for each in cluster.events(m.NodeLeft)] == [LeaveReason.LEFT]


def _end_with_refusals(node: Node) -> None:
    """End this process with how many of four uses of the node were refused, 99 if leaving it did not pass quietly."""
    code = 99
    try:
        uses: tuple[Callable[[], object], ...] = (
            lambda: node.metadata("T"),
            node.types,
            lambda: node.submit(ObjectType("T", {"id": "long"})),
            lambda: node.outcome("x/1", timeout_s=0),
        )
        refused = sum(map(_is_refused, uses))
        node.__exit__()
        code = refused
    finally:
        os._exit(code)


def _is_refused(use: Callable[[], object]) -> bool:
    try:
        use()
    except Fenced:
        return True
    return False


def test_the_lock_of_a_node_is_not_held_by_its_forked_children(cluster: Cluster, tmp_path: Path) -> None:
    """A child that outlives its parent must not keep the parent's successor out of its folder."""
    ours, theirs = os.pipe()
    with cluster.node(folder=tmp_path):
        child = os.fork()
        if not child:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
    try:
        with cluster.node(folder=tmp_path) as again:
            again.lease.require()
    finally:
        os.close(ours)
        os.close(theirs)
        os.waitpid(child, 0)


# Leaving when the log takes nothing.


class Failing(InMemoryWriter):
    """A writer whose `append` or `flush` raises, once it is told to."""

    failing = ""
    error: Exception = Unreachable("The queue is full.")
    is_closed = False

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if self.failing == "append":
            raise self.error
        super().append(topic, key, value, headers, on_delivery)

    def flush(self, timeout_s: float) -> int:
        if self.failing == "flush":
            raise self.error
        return super().flush(timeout_s)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("failing", ["append", "flush"])
@pytest.mark.parametrize("error", [Unreachable("The queue is full."), LogDiverged("The broker takes no more.")])
def test_a_goodbye_that_fails_leaves_nothing_open_and_hides_no_error(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: TopologError
) -> None:
    """The threads end, the folder is free, the log is closed, the sentinel waits on; the body's own error comes out."""
    said: list[bool] = []
    monkeypatch.setattr(Sentinel, "end", lambda _, *, said_goodbye: said.append(said_goodbye))
    monkeypatch.setattr(member, "_CLOSE_TIMEOUT_S", AT_ONCE_S)
    writer = Failing(cluster.log, prompt=True)
    node = Node("demo", "n1", clock=cluster.clock, folder=tmp_path, connect=lambda: (cluster.log.reader(), writer))

    def serve() -> None:
        with node:
            writer.prompt, writer.failing, writer.error = False, failing, error
            raise KeyError("the service's own")

    with pytest.raises(KeyError, match="the service's own"):
        serve()
    assert said == [False]
    assert writer.is_closed
    assert not [each.name for each in threading.enumerate() if each.name.startswith("topolog n1 ")]
    again = FolderLock(tmp_path, "n1")
    again.acquire()
    again.let_go()


def test_a_node_that_leaves_in_order_dismisses_its_sentinel(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has its release."""
    said: list[bool] = []
    monkeypatch.setattr(Sentinel, "end", lambda _, *, said_goodbye: said.append(said_goodbye))
    with cluster.node():
        pass
    assert said == [True]
