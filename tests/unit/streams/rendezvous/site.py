"""Replicas of one table in memory, the rules that ask them, and pages as their validators would send them."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from tests.unit.streams.rules.cluster import LATER_MS, LOG_ID, Cluster, new_id

from topolog.events import merkle
from topolog.events import repair_requests as rr
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.merkle import Leaf
from topolog.events.repair_definition import SessionDefinition, SessionKind
from topolog.events.repair_tasks import Findings, Pair, Result, Step, TaskId, TaskKind, TaskStatus
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest
from topolog.events.sessions import SegmentRow, SessionRow, segments, session
from topolog.events.token_range import RING, RING_BITS, Ranges, TokenRange, overlap
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.events.tree_spec import Column, TreeSpec, fingerprint
from topolog.streams.rendezvous.comparing import Found
from topolog.streams.rendezvous.meeting import Compared, Meeting
from topolog.streams.rules import repair

COLUMNS = (Column("id", "long"), Column("v", "long"))
KEY = ("id",)
LEAVES_A_PAGE = 3
ROWS_A_PAGE = 2
LIFE = 7

T = TypeVar("T")
Rows = Mapping[int, int]
"""Contents by key; a content is its version, too."""


def token(key: int) -> int:
    return key * 0x9E3779B1 % RING


def digest(key: int, content: int) -> RowDigest:
    said = hashlib.sha256(f"{key}={content}".encode()).digest()
    h1, h2 = (int.from_bytes(said[start : start + 8], signed=True) for start in (0, 8))
    return RowDigest(token(key), f"[{key}]", h1, h2, str(content))


def digests(rows: Rows, ranges: Ranges) -> list[RowDigest]:
    found = (digest(key, content) for key, content in rows.items())
    return [each for each in found if overlap([TokenRange(each.token, each.token + 1)], ranges)]


def leaves(rows: Rows, ranges: Ranges, bits: int) -> list[Leaf]:
    made: dict[int, Leaf] = {}
    for each in digests(rows, ranges):
        number, limb = each.token >> (RING_BITS - bits), (1 << 32) - 1
        h1, h2 = (half % (1 << 64) for half in each.content)
        leaf = Leaf(number, 1, h1 >> 32, h1 & limb, h2 >> 32, h2 & limb)
        made[number] = made.get(number, merkle.empty(number)) + leaf
    return [made[number] for number in sorted(made)]


def answer(
    task: TaskId, step: Step, spec: TreeSpec, rows: Rows, cuts: int = 1, *, life: int = LIFE
) -> tuple[list[TreePage], Result]:
    """What a validator with these rows sends for a task, and reports of it."""
    match step.kind:
        case TaskKind.PREPARE:
            return [], Result(Cut(f"{task.replica}-{cuts}", fingerprint(COLUMNS, KEY)))
        case TaskKind.LEAVES:
            made = leaves(rows, step.ranges, step.bits)
            payloads = [merkle.encode(some) for some in cut(made, LEAVES_A_PAGE)]
            root = merkle.root(spec.id, step.bits, made)
            result = Result(None, root, len(payloads), len(rows))
            return pages(task, PageKind.LEAVES, payloads, spec.id, life), result
        case TaskKind.DIGESTS:
            found = digests(rows, step.ranges)
            payloads = [msgspec.msgpack.encode(some) for some in cut(found, ROWS_A_PAGE)]
            result = Result(None, digest_of(payloads), len(payloads), len(found))
            return pages(task, PageKind.DIGESTS, payloads, spec.id, life), result
    return [], Result(digest=digest_of(()) if step.kind is TaskKind.SEND else b"")


class Site(Cluster):
    """A cluster with these replicas of table `t`. Their rows may be changed at any time."""

    def __init__(self, rows: Mapping[str, Rows]) -> None:
        super().__init__()
        self.rows = {name: dict(each) for name, each in rows.items()}
        self.cuts = 0
        for name in rows:
            definition = ReplicaDefinition("t", name, COLUMNS, KEY)
            self.ask(rr.ReplicaDeclarationRequested(new_id(), LOG_ID, name, "", definition, LIFE))

    # Sessions.

    def open(self, definition: SessionDefinition | None = None) -> Position:
        wanted = definition or SessionDefinition("t", SessionKind.PREVIEW, bits=8)
        self.ask(rr.SessionRequested(new_id(), LOG_ID, "t", "", wanted))
        number = max(row.number for _, row in self.state.rows(SessionRow))
        self.settle()
        return number

    def settle(self) -> None:
        """All that follows; what has failed has rested before it is asked for again."""
        while decided := repair.settle(self.state, self._rested(), self.position, LATER_MS):
            self.log(*decided)

    def _rested(self) -> list[str]:
        found = (each for _, row in self.state.rows(SegmentRow) for each in repair.deadlines(self.state, row))
        return [each.key for each in found if each.key.startswith("retry/")]

    def session(self, number: Position) -> SessionRow:
        row = session(self.state, number)
        assert row is not None
        return row

    def spec(self, number: Position) -> TreeSpec:
        spec = self.session(number).spec
        assert spec is not None
        return spec

    def segment(self, number: Position, index: int = 0) -> SegmentRow:
        return segments(self.state, self.session(number))[index]

    def step(self, number: Position, index: int = 0) -> Step:
        step = self.segment(number, index).step
        assert step is not None
        return step

    def tasks(self, number: Position, index: int = 0) -> list[TaskId]:
        """Those that are assigned and not answered."""
        row, step = self.segment(number, index), self.step(number, index)
        open_ = (task for task in row.tasks if task.status is TaskStatus.ASSIGNED)
        return [TaskId(number, index, step.number, task.replica, task.attempt) for task in open_]

    # What validators do.

    def answer(self, task: TaskId, *, life: int = LIFE) -> tuple[list[TreePage], Result]:
        """The pages of a task, and its result; nothing is said to the log."""
        step = self.step(task.session, task.segment)
        if step.kind is TaskKind.WRITE:
            newest: dict[int, int] = {}
            for each in self.rows.values():
                newest.update({key: max(content, newest.get(key, 0)) for key, content in each.items()})
            self.rows[task.replica] = newest
        return answer(task, step, self.spec(task.session), self.rows[task.replica], self.cuts, life=life)

    def report(self, task: TaskId, result: Result) -> None:
        request = rr.TaskReported(new_id(), LOG_ID, task.replica, "", task, LIFE, result.rows, 0, "", "", result)
        self.ask(request)

    def fail(self, task: TaskId, code: str = "IO") -> None:
        self.ask(rr.TaskReported(new_id(), LOG_ID, task.replica, "", task, LIFE, 0, 0, code, "it broke"))

    def prepared(self, number: Position) -> None:
        """All present replicas fix their read points."""
        self.cuts += 1
        for task in self.tasks(number):
            self.report(task, self.answer(task)[1])
        self.settle()

    # What the rendezvous says.

    def take(self, told: Compared) -> str:
        """Hand a report to the rules; the code of its refusal, empty if it is granted."""
        where = (told.segment.session, told.segment.index, told.step.number, told.attempts)
        head = (new_id(), LOG_ID, "rendezvous", "")
        request: rr.ComparisonReported | rr.FindingsReported
        if isinstance(told.result, Pair):
            request = rr.ComparisonReported(*head, *where, told.result)
        else:
            request = rr.FindingsReported(*head, *where, told.result.findings)
        try:
            self.ask(request)
        except Refused as refusal:
            return refusal.code
        return ""


def cut(items: list[T], size: int) -> list[list[T]]:
    return [list(items[start : start + size]) for start in range(0, max(1, len(items)), size)]


def pages(task: TaskId, kind: PageKind, payloads: Iterable[bytes], spec_id: bytes, life: int = LIFE) -> list[TreePage]:
    whole = list(payloads)
    return [
        TreePage(task, life, spec_id, kind, number, number == len(whole) - 1, payload)
        for number, payload in enumerate(whole)
    ]


def findings_pages(told: Compared, life: int = 1) -> list[TreePage]:
    """What the rendezvous writes beside its report."""
    assert isinstance(told.result, Found)
    task = TaskId(told.segment.session, told.segment.index, told.step.number, "", 0)
    return pages(task, PageKind.FINDINGS, told.result.payloads, told.spec_id, life)


def turn(site: Site, meeting: Meeting) -> Iterator[Compared]:
    """The log has moved on, or pages have come: what the rendezvous finds then."""
    meeting.sweep(site.state, site.position)
    for due in meeting.due(site.state):
        yield from meeting.compare(due, site.state)


def findings(told: Compared) -> Findings:
    assert isinstance(told.result, Found)
    return told.result.findings


def pair(told: Compared) -> Pair:
    assert isinstance(told.result, Pair)
    return told.result
