"""The rendezvous on the real broker: what it reports is what was sent, whatever happens to it.

The test plays the validators, so it knows every tree; a real coordinator asks for them. What a comparison comes to is
proven by hand in `tests/unit/streams/rendezvous`.
"""

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest
from tests.broker.conftest import Process, Site, eventually
from tests.unit.streams.rendezvous.site import COLUMNS, KEY, LIFE, Rows, answer

from topolog.events import failpoints
from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.codec import CODEC
from topolog.events.ids import Position
from topolog.events.kafka import KafkaWriter
from topolog.events.repair import PairCompared, RowsCompared
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.repair_plan import Kind
from topolog.events.repair_tasks import Step, TaskId, TaskKind, TaskStatus
from topolog.events.replica import ReplicaDefinition
from topolog.events.requesters import requester_of
from topolog.events.requests import OutcomeRow, outcome_of
from topolog.events.sessions import SessionRow, SessionStatus, open_sessions, segments, session
from topolog.events.terms import cluster
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage

SAME: Rows = dict.fromkeys(range(1, 60), 1)
ROWS: Mapping[str, Rows] = {"R1": SAME, "R2": {**SAME, 7: 2}, "R3": {key: 1 for key in SAME if key != 9}}
KINDS = {Kind.CHANGED.value: 1, Kind.MISSING.value: 1}
ENTRIES = ("rendezvous.compared=crash", "rendezvous.findings-sent=crash", "rendezvous.reported=crash")


class Table:
    """Table `t` with three replicas, whose validators the test is."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.writer = self.operator = KafkaWriter(site.kafka, site.cluster)
        self._numbers = itertools.count(1)
        self._log_id = bytes.fromhex(cluster(site.told().state).log_id)
        self._answered: set[TaskId] = set()
        for name in ROWS:
            self.ask(rr.ReplicaDeclarationRequested, ReplicaDefinition("t", name, COLUMNS, KEY), LIFE)

    def rendezvous(self, failpoint: str = "") -> Process:
        sets = {"cluster.name": self.site.cluster, "kafka.bootstrap.servers": self.site.bootstrap}
        flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
        env = {**os.environ, failpoints.VARIABLE: failpoint}
        return self.site.started([sys.executable, "-m", "topolog", "run", "rendezvous", *flags], env)

    def ask(self, kind: Callable[..., rr.RepairRequest], *content: object) -> OutcomeRow:
        """Send a request, as the validators or as an operator, and wait for its outcome."""
        is_operators = kind is rr.SessionRequested
        requester = "test" if is_operators else requester_of("test", LIFE)
        request_id = RequestId(requester, next(self._numbers))
        request = kind(request_id, self._log_id, "test", "", *content)
        writer, topic = (self.operator, Topic.OPERATIONS) if is_operators else (self.writer, Topic.REQUESTS)
        writer.append(topic, requester, encode_request(request))
        writer.flush(10)
        return eventually(lambda: outcome_of(self.site.told().state, request_id), "the outcome of a request")

    def open(self, **more: object) -> Position:
        definition = SessionDefinition("t", SessionKind.PREVIEW, bits=8, **more)  # type: ignore[arg-type]
        return self.ask(rr.SessionRequested, definition).position

    def session(self, number: Position) -> SessionRow:
        row = session(self.site.told().state, number)
        assert row is not None
        return row

    def step(self, number: Position) -> Step | None:
        """That of the only segment, None if it has ended."""
        told = self.site.told().state
        row = session(told, number)
        parts = segments(told, row) if row else []
        return parts[0].step if parts else None

    def tasks(self, number: Position, kind: TaskKind) -> list[TaskId]:
        """The tasks of the present step, if it is of this kind, that the test has not answered yet."""
        told = self.site.told().state
        row = session(told, number)
        parts = segments(told, row) if row else []
        if not parts or parts[0].step is None or parts[0].step.kind is not kind:
            return []
        step = parts[0].step.number
        open_ = (task for task in parts[0].tasks if task.status is TaskStatus.ASSIGNED)
        named = (TaskId(number, 0, step, task.replica, task.attempt) for task in open_)
        return [task for task in named if task not in self._answered]

    def answer(self, number: Position, kind: TaskKind) -> None:
        """Send the pages of each task of the present step, and report it."""
        for task in eventually(lambda: self.tasks(number, kind), f"tasks of {kind.value}"):
            step, spec = self.step(number), self.session(number).spec
            assert step is not None
            assert spec is not None
            pages, result = answer(task, step, spec, ROWS[task.replica])
            self.send(pages)
            self._answered.add(task)
            self.ask(rr.TaskReported, task, LIFE, result.rows, 0, "", "", result)

    def send(self, pages: list[TreePage]) -> None:
        for page in pages:
            self.writer.append(Topic.TREES, str(page.task.session), CODEC.encode(page))
        self.writer.flush(10)

    def run(self, number: Position) -> SessionRow:
        """Answer what is asked until this one has ended; of others too, for a replica has one task at a time."""

        def has_ended() -> SessionRow | None:
            for each in open_sessions(self.site.told().state):
                for kind in (TaskKind.PREPARE, TaskKind.LEAVES, TaskKind.DIGESTS):
                    if self.tasks(each.number, kind):
                        self.answer(each.number, kind)
            row = self.session(number)
            return row if row.status.is_end else None

        return eventually(has_ended, "the end of the session")

    def compared(self, number: Position) -> tuple[list[PairCompared], list[RowsCompared]]:
        """What the log says of it."""
        events = [each.event for each in self.site.told().decisions]
        pairs = [each for each in events if isinstance(each, PairCompared) and each.session == number]
        return pairs, [each for each in events if isinstance(each, RowsCompared) and each.session == number]


@pytest.fixture
def table(site: Site) -> Iterator[Table]:
    site.coordinator("c1")
    site.leader()
    table = Table(site)
    with contextlib.closing(table.writer):
        yield table


def assert_found(table: Table, number: Position) -> None:
    """Every pair once, with the ranges of its leaves, and the rows over all replicas."""
    pairs, rows = table.compared(number)
    leaves = {(each.pair.left, each.pair.right): each.pair.leaves for each in pairs}
    assert leaves == {("R1", "R2"): 1, ("R1", "R3"): 1, ("R2", "R3"): 2}
    assert len(pairs) == 3
    assert [dict(each.found.kinds) for each in rows] == [KINDS]


def test_trees_and_rows_are_compared_as_they_come(table: Table) -> None:
    """RE17, RE22, RE5: with a rendezvous that was there from the beginning; then it ends in order."""
    process = table.rendezvous()
    number = table.open()
    assert table.run(number).status is SessionStatus.SUCCEEDED
    assert_found(table, number)
    assert process.end() == 0


def test_one_that_is_killed_and_comes_back_reports_the_same(table: Table) -> None:
    """RE4: pages are read again from the oldest that is kept, the log has what was reported before."""
    first = table.rendezvous()
    number = table.open()
    table.answer(number, TaskKind.PREPARE)
    table.answer(number, TaskKind.LEAVES)
    eventually(lambda: table.tasks(number, TaskKind.DIGESTS), "all pairs")
    first.kill()
    table.answer(number, TaskKind.DIGESTS)
    second = table.rendezvous()
    assert table.run(number).status is SessionStatus.SUCCEEDED
    assert_found(table, number)
    second.kill()


def test_one_that_comes_late_finds_all_that_was_sent(table: Table) -> None:
    """RE5: trees of two sessions, repeats, and records that are none, all from before it began."""
    old, new = table.open(), table.open()
    for number in (old, new):
        table.answer(number, TaskKind.PREPARE)
        table.answer(number, TaskKind.LEAVES)
    for entry in table.site.entries(Topic.TREES):
        table.writer.append(Topic.TREES, entry.key or "", entry.value)
        table.writer.append(Topic.TREES, entry.key or "", entry.value[:-1])
    table.writer.append(Topic.TREES, "x", b"garbage")
    table.writer.flush(10)
    process = table.rendezvous()
    for number in (old, new):
        assert table.run(number).status is SessionStatus.SUCCEEDED
        assert_found(table, number)
    assert process.exit_code is None
    assert any("it is no page" in line for line in process.complaints)


@pytest.mark.parametrize("entry", ENTRIES)
def test_after_a_crash_at_any_place_another_reports_the_same(table: Table, entry: str) -> None:
    """RE4: before a comparison is sent, between the pages of findings and their report, behind it."""
    number = table.open()
    table.answer(number, TaskKind.PREPARE)
    table.answer(number, TaskKind.LEAVES)
    if "findings" in entry:
        before = table.rendezvous()
        eventually(lambda: table.tasks(number, TaskKind.DIGESTS), "all pairs")
        before.kill()
        table.answer(number, TaskKind.DIGESTS)
    armed = table.rendezvous(entry)
    eventually(armed.ended, "the crash")
    assert any(entry.split("=", maxsplit=1)[0] in line for line in armed.complaints)
    table.rendezvous()
    assert table.run(number).status is SessionStatus.SUCCEEDED
    assert_found(table, number)


def test_findings_stand_on_pages_that_their_digest_names(table: Table) -> None:
    """RE8: before the log speaks of them."""
    table.rendezvous()
    number = table.open(recheck=False)
    table.run(number)
    (rows,) = table.compared(number)[1]
    records = [CODEC.read(entry.value) for entry in table.site.entries(Topic.TREES)]
    pages = [page for page in records if isinstance(page, TreePage) and page.kind is PageKind.FINDINGS]
    assert [(page.task, page.page, page.is_last) for page in pages] == [(TaskId(number, 0, rows.step, "", 0), 0, True)]
    assert rows.found.pages == 1
