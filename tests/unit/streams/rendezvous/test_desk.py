"""The thread that compares, at a real coordinator and real validators in memory: what goes wrong around it."""

import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.streams.validator.site import Site, contents, rows

from topolog.events import repair_requests as rr
from topolog.events.codec import CODEC
from topolog.events.errors import Poisoned, Unreachable
from topolog.events.log import InMemoryWriter
from topolog.events.repair_definition import Policy
from topolog.events.repair_tasks import PAGES_DAMAGED, ROW_TOO_LARGE, TaskKind
from topolog.events.sessions import SegmentRow, SessionStatus
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.tree_answers import Aside
from topolog.events.tree_pages import PAGE_BYTES_MAX, PageKind, TreePage
from topolog.streams.clock import ManualClock
from topolog.streams.rendezvous.desk import INBOX_MAX, Desk


class Process:
    """A rendezvous as it is, but for faust: the test hands the records of `trees` on, as `read` has them."""

    def __init__(self, site: Site, life: int, limit: int = 1 << 20) -> None:
        log = site.world.log
        self.writer: InMemoryWriter = log.writer()
        self.desk = Desk(log.reader(), self.writer, site.world.clock, f"rendezvous-{life}", life, limit)
        self.read: Callable[[bytes], bytes] = lambda value: value
        self._log = log
        self._taken: dict[int, int] = {}

    def step(self) -> None:
        self.desk.step(0)
        if not self.desk.is_ready:
            return
        if self.desk.wants_more:
            self._taken.clear()
            self.desk.take(None)
        for value in self._records():
            while not self.desk.take(self.read(value)):
                raise AssertionError("there is no room, and nobody makes any")
            self.desk.step(0)
        self.desk.step(0)

    def _records(self) -> Iterator[bytes]:
        for partition in range(PARTITIONS[Topic.TREES]):
            entries = self._log.entries(Topic.TREES, partition)
            start = self._taken.get(partition, 0)
            self._taken[partition] = len(entries)
            yield from (entry.value for entry in entries[start:])


class Around(Site):
    """A table whose replicas differ in a changed row, and in one that R1 lacks."""

    def __init__(self, limit: int = 1 << 20) -> None:
        super().__init__()
        self.lives = 0
        self.add("R1", rows(*range(1, 40)))
        self.add("R2", [*rows(*range(1, 30)), *rows(*range(30, 41), name="b", changed=2)])
        self.serve("v1", "R1")
        self.serve("v2", "R2")
        self.process = self.start(limit)
        self.settle()

    def start(self, limit: int = 1 << 20) -> Process:
        """A rendezvous begins, in place of the one before."""
        self.lives += 1
        self.process = Process(self, self.lives, limit)
        self.meets = self.process.step
        return self.process

    def segments(self) -> list[SegmentRow]:
        return [row for _, row in self.world.state.rows(SegmentRow)]

    def pages_of(self, kind: PageKind) -> list[TreePage]:
        return [page for page in self.pages() if page.kind is kind]

    def reports(self) -> list[object]:
        entries = self.world.log.entries(Topic.REQUESTS)
        requests = [CODEC.read(entry.value) for entry in entries]
        return [each for each in requests if isinstance(each, rr.ComparisonReported | rr.FindingsReported)]


def test_a_table_is_repaired() -> None:
    """All together: compared, looked at again, sent, written, and equal at a new read point."""
    site = Around()
    asked = site.repair()
    site.settle()
    assert site.session(asked).status is SessionStatus.SUCCEEDED
    assert site.session(asked).rows_written == 11
    assert contents(site.replicas["orders@R1"]) == contents(site.replicas["orders@R2"])
    assert site.process.desk.meeting.cost == 0


def test_one_that_dies_after_each_turn_comes_to_the_same() -> None:
    """RE4: each begins with the log and with all pages."""
    site = Around()
    asked = site.repair()
    for _ in range(300):
        site.turn()
        site.start()
        site.turn()
        if site.session(asked).status.is_end:
            break
    assert site.session(asked).status is SessionStatus.SUCCEEDED
    assert contents(site.replicas["orders@R1"]) == contents(site.replicas["orders@R2"])


def test_nothing_is_compared_before_the_log_is_read_to_its_end() -> None:
    """What is over is known to be over by then, so nothing of it is kept."""
    site = Around()
    asked = site.open()
    site.settle()
    assert site.session(asked).status is SessionStatus.SUCCEEDED
    later = site.start()
    was_ready = [later.desk.is_ready]
    site.settle()
    was_ready.append(later.desk.is_ready)
    assert was_ready == [False, True]
    assert later.desk.log_id == site.world.log_id
    assert later.desk.meeting.held == frozenset()
    assert later.desk.meeting.aside[Aside.LATE] == len(site.pages())


@pytest.mark.parametrize("topic", [Topic.TREES, Topic.REQUESTS])
def test_what_the_broker_loses_is_said_again(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of findings before their report; reports until they have their outcome."""
    site = Around()
    lost: list[bytes] = []
    append = site.process.writer.append

    def losing(to: Topic, key: str, value: bytes, headers: object = (), on_delivery: object = None) -> None:
        if to is topic and len(lost) < 3:
            lost.append(value)
            assert callable(on_delivery)
            on_delivery(Unreachable("lost"), None)
        else:
            append(to, key, value, (), on_delivery)  # type: ignore[arg-type]  # it is one

    monkeypatch.setattr(site.process.writer, "append", losing)
    asked = site.open()
    for _ in range(8):
        site.settle()
        site.run(1_100)
    assert len(lost) == 3
    assert site.session(asked).status is SessionStatus.SUCCEEDED
    (page, *_) = site.pages_of(PageKind.FINDINGS)
    assert page.is_last


def test_no_report_speaks_of_pages_that_are_not_there() -> None:
    """The broker has stopped taking anything; a later life does it."""
    site = Around()
    site.open(recheck=False)
    while not any(row.step and row.step.kind is TaskKind.DIGESTS for row in site.segments()):
        site.turn()
    site.process.writer.prompt = False
    monotonic = site.world.clock.monotonic_ns

    def hurried() -> int:
        site.world.clock.advance(500)
        return monotonic()

    site.world.clock.monotonic_ns = hurried  # type: ignore[method-assign]  # it waits as long as it likes
    before = len(site.reports())
    for _ in range(20):
        site.turn()
    assert len(site.reports()) == before
    assert site.pages_of(PageKind.FINDINGS) == []


def test_a_report_that_does_not_count_is_not_repeated() -> None:
    """RE6: the session has ended meanwhile."""
    site = Around()
    site.open()
    while not any(row.step and row.step.kind is TaskKind.LEAVES for row in site.segments()):
        site.turn()
    site.process.writer.prompt = False
    site.settle()
    assert site.process.writer.in_flight == 1
    site.world.ask(rr.SessionAbortRequested(site.world.operator_id(), site.world.log_id, "ada", ""))
    site.settle()
    site.process.writer.prompt = True
    site.settle()
    site.run(3_000)
    assert len(site.reports()) == 1
    assert site.process.desk.meeting.cost == 0


def test_if_there_is_no_room_the_oldest_sessions_come_first() -> None:
    """All are compared in the end, with pages read again."""
    site = Around(limit=10_000)
    asked = [site.open(policy=Policy.REPORT) for _ in range(3)]
    for _ in range(200):
        site.turn()
    assert [site.session(each).status for each in asked] == [SessionStatus.SUCCEEDED] * 3
    assert site.process.desk.readings > 0


def _damaged(value: bytes) -> bytes:
    """As it is read: of R2 another page than was sent."""
    page = CODEC.read(value)
    if not isinstance(page, TreePage) or page.task.replica != "R2":
        return value
    return CODEC.encode(msgspec.structs.replace(page, payload=page.payload[:-1] + bytes([page.payload[-1] ^ 1])))


def test_pages_that_are_not_what_the_log_says_end_a_segment_by_their_name() -> None:
    """Nobody is sent to look for a rendezvous that runs, nor waits for as long as it would have."""
    site = Around()
    site.process.read = _damaged
    asked = site.open(stall_ms=3_600_000)
    site.settle()
    assert site.session(asked).status is SessionStatus.RUNNING
    site.run(11_000)
    found = site.session(asked)
    assert (found.status, found.code) == (SessionStatus.FAILED, PAGES_DAMAGED)
    assert found.message == "Replica R2: what it sent cannot be compared: A page of leaves is cut off."
    assert site.process.desk.meeting.cost == 0


def test_a_difference_that_no_page_has_room_for_ends_a_segment_at_once() -> None:
    """It will not be smaller, however long somebody waits."""
    site = Around(limit=8 << 20)
    for name in ("R1", "R2"):
        site.replicas[f"orders@{name}"].put(rows(50, name=name[1] * (PAGE_BYTES_MAX // 2))[0])
    asked = site.open(stall_ms=3_600_000, version_column="name")
    site.settle()
    found = site.session(asked)
    assert (found.status, found.code) == (SessionStatus.FAILED, ROW_TOO_LARGE)
    assert f"a page has {PAGE_BYTES_MAX}" in found.message
    assert site.process.desk.meeting.cost == 0


def test_a_sender_that_contradicts_itself_is_damage_too() -> None:
    site = Around()
    site.process.read = lambda value: _both(site, value)
    asked = site.open(stall_ms=3_600_000)
    site.settle()
    site.run(11_000)
    found = site.session(asked)
    assert (found.code, found.message) == (
        PAGES_DAMAGED,
        "Replica R2: what it sent cannot be compared: its sender contradicts itself",
    )


def _both(site: Around, value: bytes) -> bytes:
    """The page as it was sent, and behind it another one of the same number."""
    other = _damaged(value)
    if other != value:
        site.process.desk.take(value)
    return other


def test_pages_that_come_later_put_right_what_another_process_has_sent() -> None:
    """A validator that died had sent its tree, and the next one sends its own: the log says which of them counts."""
    site = Around()
    late: list[bytes] = []

    def first_others(value: bytes) -> bytes:
        page = CODEC.read(value)
        damaged = CODEC.read(_damaged(value))
        if not isinstance(page, TreePage) or not isinstance(damaged, TreePage) or page == damaged:
            return value
        late.append(value)
        return CODEC.encode(msgspec.structs.replace(damaged, life=99))

    site.process.read = first_others
    asked = site.open(recheck=False, stall_ms=3_600_000)
    for _ in range(20):
        site.run(5_000)
        for value in late:
            assert site.process.desk.take(value)
        late.clear()
        site.settle()
    assert site.session(asked).status is SessionStatus.SUCCEEDED


def test_records_that_are_no_pages_harm_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """RE6: they are counted, and said once."""
    site = Around()
    for value in (b"", b"garbage", b"\xc3\x01" + bytes(8), b"garbage"):
        site.world.log.put(Topic.TREES, "x", value)
    asked = site.open()
    site.settle()
    assert site.session(asked).status is SessionStatus.SUCCEEDED
    assert site.process.desk.meeting.aside[Aside.NOT_A_PAGE] == 4
    assert len([line for line in caplog.messages if "it is no page" in line]) == 1


def test_a_full_inbox_is_said() -> None:
    """Whoever reads pages waits with them."""
    site = Around()
    taken = [site.process.desk.take(b"") for _ in range(INBOX_MAX + 1)]
    assert taken == [True] * INBOX_MAX + [False]
    site.process.desk.step(0)
    assert site.process.desk.take(b"")


def test_it_stops_at_a_record_that_it_cannot_fold() -> None:
    """K8: as every reader of the log does."""
    chronicle = Chronicle().start()
    chronicle.append_accepted(b"rubbish")
    desk = Desk(chronicle.log.reader(), chronicle.log.writer(), ManualClock(), "rendezvous-1", 1)
    stopping = threading.Event()
    with pytest.raises(Poisoned):
        desk.run(stopping)
