"""A worker's thread, its fence, and its way to the topic of pages."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import pytest
from tests.unit.streams.validator.site import Site, contents, rows

from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, ReplicaFailed
from topolog.events.ids import Position
from topolog.events.log import InMemoryLog, InMemoryReader
from topolog.events.merkle import Leaf
from topolog.events.repair_tasks import TaskId
from topolog.events.replica import Cut, SentRow, Written
from topolog.events.replica_access import Progress, Replica
from topolog.events.replicas import replicas_of
from topolog.events.sessions import SessionStatus
from topolog.events.token_range import RING, TokenRange
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.events.tree_spec import TreeSpec
from topolog.streams.clock import ManualClock, SystemClock
from topolog.streams.validator import trees as trees_module
from topolog.streams.validator import worker as worker_module
from topolog.streams.validator.core import Core
from topolog.streams.validator.driver import Driver
from topolog.streams.validator.pages import Expected
from topolog.streams.validator.program import ReplicaName, parse_replica, told_of
from topolog.streams.validator.trees import Trees
from topolog.streams.validator.worker import HEARD_MS_MAX, Fence, Worker

TASK = TaskId(Position(5), 0, 3, "r1", 1)
SPEC = b"s" * 16
LIMIT_S = 20.0


def nothing() -> None:
    pass


def ignored(_: int) -> None:
    pass


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def in_thread(work: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except ReplicaFailed as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_a_writer_that_was_asleep_listens_before_it_writes() -> None:
    """RE3: what it knew before is no sign that the log asks for it still."""
    clock = ManualClock()
    fence = Fence(clock)
    fence.check(TASK)
    clock.advance(HEARD_MS_MAX + 1)
    thread, raised = in_thread(lambda: fence.check(TASK))
    thread.join(0.05)
    assert thread.is_alive()
    fence.heard(clock.monotonic_ns())
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert raised == []


@pytest.mark.parametrize("end", [lambda fence: fence.stop(TASK), lambda fence: fence.close()], ids=["stop", "close"])
def test_a_writer_that_waits_to_hear_of_the_log_is_stopped_there(end: Callable[[Fence], None]) -> None:
    """It waits for no longer than somebody wants what it does."""
    clock = ManualClock()
    fence = Fence(clock)
    clock.advance(HEARD_MS_MAX + 1)
    thread, raised = in_thread(lambda: fence.check(TASK))
    end(fence)
    thread.join(LIMIT_S)
    assert [error.code for error in raised if isinstance(error, ReplicaFailed)] == ["FENCED"]


def test_a_task_that_is_stopped_says_nothing_of_others() -> None:
    fence = Fence(ManualClock())
    fence.stop(TaskId(Position(4), 0, 1, "r1", 1))
    fence.check(TASK)


def test_pages_are_read_as_they_were_sent() -> None:
    """And the digest is that of what was sent."""
    log = InMemoryLog()
    trees = Trees(log.writer(), log.reader, 7)
    pages, digest = trees.send(TASK, PageKind.ROWS, SPEC, [b"a", b"b", b"c"], nothing)
    assert (pages, digest) == (3, digest_of([b"a", b"b", b"c"]))
    told: list[int] = []
    assert list(trees.read(Expected(TASK, PageKind.ROWS, SPEC, digest, pages), told.append)) == [b"a", b"b", b"c"]
    assert told == sorted(told)


def test_pages_of_before_the_segment_are_not_looked_at() -> None:
    """A topic keeps the pages of all sessions of a week."""
    log = InMemoryLog()
    trees = Trees(log.writer(), log.reader, 7)
    pages, digest = trees.send(TASK, PageKind.ROWS, SPEC, [b"a"], nothing)
    expected = Expected(TASK, PageKind.ROWS, SPEC, digest, pages)
    trees.note_start(TASK.session, TASK.segment)
    with pytest.raises(ReplicaFailed, match="Not all of the 1 pages"):
        list(trees.read(expected, ignored))
    assert list(Trees(log.writer(), log.reader, 8).read(expected, ignored)) == [b"a"]


def test_to_look_for_pages_among_those_of_a_week_is_progress() -> None:
    """And it ends where nobody wants them any more."""
    log = InMemoryLog()
    trees = Trees(log.writer(), log.reader, 7)
    pages, digest = trees.send(TASK, PageKind.ROWS, SPEC, [b"a" * 1_000] * 50, nothing)

    def lagging() -> InMemoryReader:
        reader = log.reader()
        reader.batch_max = 1
        return reader

    expected = Expected(TASK, PageKind.ROWS, SPEC, digest, pages)
    told: list[int] = []
    payloads = Trees(log.writer(), lagging, 8).read(expected, told.append)
    next(payloads)
    assert len(told) == 51, "found once, and of what was found one page is in memory"
    assert len(list(payloads)) == 49
    assert told == sorted(set(told))
    assert len(told) == 100

    def enough(size: int) -> None:
        if size > 10_000:
            raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        list(Trees(log.writer(), lagging, 8).read(expected, enough))


def test_pages_are_not_looked_for_in_a_topic_that_does_not_answer_once_nobody_wants_them() -> None:
    """Nothing is read, and who reads is asked all the same."""
    log = InMemoryLog()
    pages, digest = Trees(log.writer(), log.reader, 7).send(TASK, PageKind.ROWS, SPEC, [b"a"], nothing)
    log.reachable = False
    told: list[int] = []

    def enough(size: int) -> None:
        told.append(size)
        if len(told) == 3:
            raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        list(Trees(log.writer(), log.reader, 8).read(Expected(TASK, PageKind.ROWS, SPEC, digest, pages), enough))
    assert told == [0, 0, 0]


def test_rows_that_are_large_are_read_and_written_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory goes by bytes: what is sent is read as it is sent, and written as it comes."""
    monkeypatch.setattr(worker_module, "KEYS_FIRST", 4)
    monkeypatch.setattr(worker_module, "BATCH_BYTES", 1_000)
    site = Site()
    source = site.add("r1", rows(*range(30), name="x" * 450))
    target = site.add("r2", [])
    site.serve("v1", "r1", "r2")
    site.settle()
    asked: list[int] = []
    written: list[int] = []
    read, write = source.rows, target.write

    def read_some(spec: TreeSpec, keys: Sequence[str], cut: Cut | None) -> Iterable[tuple[str, str]]:
        asked.append(len(keys))
        return read(spec, keys, cut)

    def write_some(
        spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Callable[[], None], progress: Progress
    ) -> Written:
        written.append(sum(len(row.values) for row in rows))
        return write(spec, rows, cut, fence, progress)

    source.rows, target.write = read_some, write_some  # type: ignore[method-assign]
    worker = site.validators["v1"].workers["orders@r1"]
    worker._replica, site.validators["v1"].workers["orders@r2"]._replica = source, target
    site.validators["v1"].workers["orders@r2"]._batch_rows = 100
    request = site.repair()
    site.settle()
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert contents(source) == contents(target)
    assert asked[0] == 4
    assert set(asked[1:]) == {2}
    assert max(written) < 1_500


def test_a_page_that_the_broker_loses_fails_the_task() -> None:
    """Nothing is reported that nobody can read."""
    log = InMemoryLog()
    writer = log.writer(prompt=False)
    trees = Trees(writer, log.reader, 7)
    with pytest.raises(ReplicaFailed, match="A page was lost") as raised:
        trees.send(TASK, PageKind.ROWS, SPEC, [b"a"], writer.fail)
    assert raised.value.code == "IO"


def test_a_broker_that_takes_nothing_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more pages than a few are with the producer meanwhile."""
    monkeypatch.setattr(trees_module, "DELIVERY_LIMIT_S", 0.05)
    log = InMemoryLog()
    writer = log.writer(prompt=False)
    trees = Trees(writer, log.reader, 7)
    with pytest.raises(ReplicaFailed, match="has taken no page"):
        trees.send(TASK, PageKind.ROWS, SPEC, [b"a"] * 100, nothing)
    assert writer.in_flight == trees_module.IN_FLIGHT_MAX


def test_answers_to_pages_of_a_stopped_task_are_not_taken_for_those_of_the_next() -> None:
    """Else it would be reported before its pages are there."""
    log = InMemoryLog()
    writer = log.writer(prompt=False)
    trees = Trees(writer, log.reader, 7)

    def stopped() -> None:
        raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        trees.send(TASK, PageKind.ROWS, SPEC, [b"a"] * 20, stopped)

    def first_of_them() -> None:
        if not writer.in_flight:
            raise ReplicaFailed("FENCED", "all are there")
        writer.land(1)

    later = TaskId(Position(6), 0, 3, "r1", 1)
    trees.send(later, PageKind.ROWS, SPEC, [b"b", b"c"], first_of_them)
    pages = [CODEC.decode(entry.value) for number in range(4) for entry in log.entries(Topic.TREES, number)]
    assert [page.payload for page in pages if isinstance(page, TreePage) and page.task == later] == [b"b", b"c"]


def test_a_task_that_is_stopped_sends_no_more_pages() -> None:
    log = InMemoryLog()
    writer = log.writer(prompt=False)

    def stopped() -> None:
        raise ReplicaFailed("FENCED", "enough")

    with pytest.raises(ReplicaFailed, match="enough"):
        Trees(writer, log.reader, 7).send(TASK, PageKind.ROWS, SPEC, [b"a"] * 100, stopped)
    assert writer.in_flight <= trees_module.IN_FLIGHT_MAX


def test_a_session_is_done_by_threads_and_ends_in_order() -> None:
    """The driver on a real clock, a thread for each replica; the end withdraws them."""
    site = Site()
    site.add("r1", rows(*range(200)))
    site.add("r2", rows(*range(100, 300)))
    log, clock, told = site.world.log, SystemClock(), threading.Event()
    replicas: dict[str, Replica] = dict(site.replicas)
    workers = {
        id_: Worker(each, lambda: Trees(log.writer(), log.reader, 4), clock, batch_rows=7)
        for id_, each in replicas.items()
    }
    core = Core([each.describe() for each in replicas.values()], 4)
    driver = Driver(log.reader(), log.writer(), clock, core, workers)
    for id_, worker in workers.items():
        worker.start(id_)
    thread = threading.Thread(target=driver.run, args=(told,), daemon=True)
    thread.start()

    def turned(holds: Callable[[], bool]) -> bool:
        site.turn()
        return holds()

    until(lambda: turned(lambda: len(replicas_of(site.world.state, "orders")) == 2))
    request = site.repair()
    until(lambda: turned(lambda: site.world.outcome(request) is not None and site.session(request).status.is_end))
    assert site.session(request).status is SessionStatus.SUCCEEDED
    assert contents(site.replicas["orders@r1"]) == contents(site.replicas["orders@r2"])
    told.set()
    until(lambda: turned(lambda: not thread.is_alive()))
    assert list(replicas_of(site.world.state, "orders")) == []
    for worker in workers.values():
        worker.close(LIMIT_S)
    assert not any(each.name in workers for each in threading.enumerate())


@pytest.mark.parametrize(
    "text", ["orders@r1", "orders=parquet:/x", "@r1=parquet:/x", "orders@=parquet:/x", "orders@r1="]
)
def test_what_names_no_replica_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="names no replica"):
        parse_replica(text)


def test_a_source_is_whatever_stands_behind_the_first_sign() -> None:
    named = parse_replica("db.orders@r1=postgresql://me@host/db?table=orders")
    assert named == ReplicaName("db.orders", "r1", "postgresql://me@host/db?table=orders")


TWO = [ReplicaName("orders", "r1", "parquet:/a"), ReplicaName("orders", "r2", "parquet:/b")]


def test_a_replica_is_declared_with_its_datacenter_its_ranges_and_a_sample_of_its_keys() -> None:
    """RE10, RE11, RE15: of all that a process serves, or of one of them, which goes before."""
    ranges = ("orders@r1=c0000000..40000000", "orders@r2=0..10", "orders@r2=20..30")
    one, other = told_of(TWO, ["ams", "orders@r2=fra"], ranges, ["orders@r1=64"])
    assert (one.datacenter, other.datacenter) == ("ams", "fra")
    assert one.ranges == (TokenRange(0, RING // 4), TokenRange(RING // 4 * 3, RING))
    assert other.ranges == (TokenRange(0, 16), TokenRange(32, 48))
    assert (one.boundaries, other.boundaries) == (64, 0)
    assert told_of(TWO, [], [], []) == TWO


@pytest.mark.parametrize(
    ("datacenters", "ranges", "boundaries", "complaint"),
    [
        (["orders@r3=ams"], [], [], "of no replica that is served here"),
        (["ams", "fra"], [], [], "given 2 times for orders@r1"),
        (["orders@r1="], [], [], "says nothing"),
        ([], ["40000000"], [], "no range of tokens"),
        ([], ["7..7"], [], "no range of tokens"),
        ([], [], ["many"], "no number of boundaries"),
        ([], [], ["4097"], "no number of boundaries"),
        ([], [], ["-1"], "no number of boundaries"),
    ],
    ids=str,
)
def test_what_is_said_of_a_replica_is_checked_before_it_is_served(
    datacenters: list[str], ranges: list[str], boundaries: list[str], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint) as refused:
        told_of(TWO, datacenters, ranges, boundaries)
    assert refused.value.hint


def test_a_replica_is_served_once() -> None:
    """Before Spark is started for it."""
    with pytest.raises(BadInput, match="orders@r1 is served twice"):
        told_of([*TWO, TWO[0]], [], [], [])


@pytest.mark.parametrize("buckets", [[64, 64], [63], [128], [64, 230], [0]], ids=str)
def test_leaves_that_nobody_has_asked_for_are_no_answer(buckets: list[int]) -> None:
    """Of a replica that counts its tokens otherwise, say: they would be compared with what others have there."""
    site = Site()
    replica = site.add("r1", rows(*range(50)))
    site.add("r2", rows(*range(50)))
    given = [Leaf(bucket, 1, 1, 1, 1, 1) for bucket in buckets]
    replica.leaves = lambda *_: given  # type: ignore[method-assign]
    site.serve("v1", "r1", "r2")
    site.settle()
    request = site.open(ranges=(TokenRange(RING // 4, RING // 2), TokenRange(RING * 3 // 4, RING * 7 // 8)))
    site.settle()
    assert site.session(request).code == "CORRUPT"


def test_a_leaf_of_too_many_rows_is_no_answer() -> None:
    """RE17."""
    site = Site()
    replica = site.add("r1", rows(1))
    site.add("r2", rows(1))
    replica.leaves = lambda *_: [Leaf(3, 1 << 31, 1, 1, 1, 1)]  # type: ignore[method-assign]
    site.serve("v1", "r1", "r2")
    site.settle()
    request = site.open()
    site.settle()
    assert site.session(request).code == "LEAF_TOO_LARGE"
