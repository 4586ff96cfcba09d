"""Sessions of anti-entropy for tests of readers: the real rules decide, the test is every validator and the rendezvous.

A table is a mapping of key to content per replica; a row's token is its key's place on a ring of few tokens.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

import msgspec
from tests.unit.projections.chronicle import Chronicle

from topolog.events import repair_plan
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.fold import evolve
from topolog.events.ids import Place, Position, Term
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.repair_plan import Difference
from topolog.events.repair_requests import (
    ComparisonReported,
    FindingsReported,
    RepairRequest,
    ReplicaDeclarationRequested,
    ScheduleRequested,
    SessionAbortRequested,
    SessionAlterationRequested,
    SessionRequested,
    TaskReported,
)
from topolog.events.repair_tasks import Copy, Pair, Result, Step, Task, TaskId, TaskKind, TaskStatus
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SegmentRow, SessionRow, open_sessions, running, segment, session
from topolog.events.state import State
from topolog.events.token_range import Ranges, of_buckets, overlap
from topolog.events.topics import Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.events.tree_spec import Column
from topolog.streams.rules import repair, repair_steps, schedules

COLUMNS = (Column("id", "long"), Column("note", "string"), Column("changed_at", "long"))
LIFE = 7
BITS = 8

Rows = Mapping[int, tuple[str, int]]
"""Key -> (content, version)."""


def token_of(key: int) -> int:
    """Keys are spread over the ring, 16 million tokens apart: each has a leaf of its own."""
    return (key << 24) + 5


def definition(table: str = "orders", **said: object) -> SessionDefinition:
    return SessionDefinition(table, **{"kind": SessionKind.PREVIEW, **said})  # type: ignore[arg-type]


def union_definition(kind: SessionKind = SessionKind.PREVIEW, **said: object) -> SessionDefinition:
    given = {"kind": kind, "policy": Policy.UNION, "version_column": "changed_at", **said}
    return definition("orders", **given)


class Rounds:
    """One cluster whose tables are compared. `tables`: by table and replica its rows."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.tables: dict[str, dict[str, dict[int, tuple[str, int]]]] = {}
        self.has_cuts = True

    @property
    def _state(self) -> State:
        return self.chronicle.fold.state

    # What operators and validators ask for.

    def ask(self, kind: type[RepairRequest], *content: object, actor: str = "ann", reason: str = "") -> Position:
        """The request decided as a coordinator would; raises Refused. Returns the position before its decisions."""
        ref = self.chronicle.ref("v-1")
        request = kind(RequestId(ref.requester, ref.sequence), self.chronicle.log_id, actor, reason, *content)  # type: ignore[arg-type]
        decided = repair.decide(self._state, request, ref, self.chronicle.position, self.chronicle.now_ms)
        before = self.chronicle.position
        self.chronicle.decide(*self._with_what_follows(decided), cause=f"requests@1 {ref}", actor=actor, reason=reason)
        return before

    def declare(self, name: str, rows: Rows, table: str = "orders", **said: object) -> None:
        self.tables.setdefault(table, {})[name] = dict(rows)
        given = {"columns": COLUMNS, "rows": len(rows), "row_bytes": 50, **said}
        replica = ReplicaDefinition(table=table, name=name, key=("id",), **given)  # type: ignore[arg-type]
        self.ask(ReplicaDeclarationRequested, replica, LIFE, actor=f"validator {name}")

    def start(self, wanted: SessionDefinition, actor: str = "ann", reason: str = "") -> int:
        """The number of the session that is granted."""
        return int(self.ask(SessionRequested, wanted, actor=actor, reason=reason)) + 1

    def alter(self, number: int, **said: object) -> None:
        asked = (said.get("paused"), said.get("intensity"), said.get("parallel"))
        self.ask(SessionAlterationRequested, Position(number), *asked, reason="rush hour")

    def abort(self, number: int | None = None, reason: str = "wrong table") -> None:
        self.ask(SessionAbortRequested, None if number is None else Position(number), reason=reason)

    def schedule(self, name: str, wanted: SessionDefinition, every_ms: int, *, paused: bool = False) -> None:
        self.ask(ScheduleRequested, name, wanted, every_ms, paused)

    @staticmethod
    def columns_with(name: str, type_: str) -> tuple[Column, ...]:
        return (*COLUMNS, Column(name, type_))

    def due(self, name: str) -> None:
        """The time of a schedule has come."""
        row = self.chronicle.fold.state.get(ScheduleRow, name)
        assert row is not None
        passed = [each.key for each in schedules.deadlines(row)]
        self.chronicle.decide(*self._with_what_follows([], passed), cause=f"deadline schedule/{name}")

    # What follows.

    def settle(self, passed: Collection[str] = ()) -> None:
        """What follows by itself, in one set."""
        whole = self._with_what_follows([], passed)
        if whole:
            self.chronicle.decide(*whole, cause="what follows")

    def _with_what_follows(self, decided: Sequence[Decision], passed: Collection[str] = ()) -> list[Decision]:
        """As a coordinator does it: what follows from decisions is in one set with them."""
        state, found, position = State(), list(decided), self.chronicle.position
        for kind, key in list(self._state.keys()):
            row = self._state.lookup((kind, key))
            assert row is not None
            state.put(key, row)
        for event in decided:
            position = self._evolve(state, event, position)
        while more := repair.settle(state, passed, position, self.chronicle.now_ms):
            for event in more:
                position = self._evolve(state, event, position)
            found += more
            passed = ()
        return found

    def _evolve(self, state: State, event: Decision, after: Position) -> Position:
        place = Place(Position(after + 1), bytes(16), Term(1))
        evolve(state, event, place)
        return place.position

    def run(self, number: int) -> SessionRow:
        """Everybody answers until the session has ended."""
        for _ in range(500):
            self.settle()
            row = self.row(number)
            if row.status.is_end:
                return row
            if not self.answer_all(number):
                rested = self._rests(number)
                assert rested, f"session {number} waits for nobody"
                self.settle(rested)
        raise AssertionError(f"session {number} does not end")

    def _rests(self, number: int) -> list[str]:
        """The deadlines behind which tasks that have failed are asked for again."""
        row = self.row(number)
        waits = (each for part in running(self._state, row) for each in repair_steps.deadlines(row, part))
        return [each.key for each in waits if each.key.startswith("retry/")]

    def run_all(self) -> None:
        self.settle()
        while opened := open_sessions(self._state):
            self.run(opened[0].number)

    def run_until(self, number: int, kind: TaskKind, index: int = 0) -> SegmentRow:
        """Everybody answers until the segment asks for tasks of this kind, which nobody has answered yet."""
        for _ in range(500):
            self.settle()
            row = self.segment(number, index)
            if row.step is not None and row.step.kind is kind and row.tasks:
                return row
            assert self.answer_all(number), f"session {number} waits for nobody"
        raise AssertionError(f"session {number} comes to no {kind}")

    def row(self, number: int) -> SessionRow:
        row = session(self._state, number)
        assert row is not None
        return row

    def segment(self, number: int, index: int = 0) -> SegmentRow:
        row = segment(self._state, number, index)
        assert row is not None
        return row

    def answer_all(self, number: int) -> bool:
        """Every open task is answered and everything that is in is compared; whether there was anything to do."""
        acted = False
        for index in range(self.row(number).segments):
            while (row := segment(self._state, number, index)) is not None and row.step is not None:
                task = next((each for each in row.tasks if each.status is TaskStatus.ASSIGNED), None)
                if task is not None:
                    self.answer(row, task)
                elif not self._compare(row):
                    break
                acted = True
                if row.step != self._step(number, index):
                    break
        return acted

    def _step(self, number: int, index: int) -> Step | None:
        row = segment(self._state, number, index)
        return row.step if row is not None else None

    # Validators.

    def answer(self, row: SegmentRow, task: Task) -> None:
        self.report(row, task.replica, result=self._result(row, task.replica))

    def report(
        self,
        row: SegmentRow,
        replica: str,
        rows: int = 0,
        bytes_: int = 0,
        code: str = "",
        message: str = "",
        result: Result | None = None,
    ) -> None:
        now = self.segment(row.session, row.index)
        task = next(each for each in now.tasks if each.replica == replica)
        self.ask(
            TaskReported, self._id(now, replica, task.attempt), LIFE, rows, bytes_, code, message, result, actor=""
        )

    def _id(self, row: SegmentRow, replica: str, attempt: int) -> TaskId:
        assert row.step is not None
        return TaskId(row.session, row.index, row.step.number, replica, attempt)

    def _rows(self, row: SegmentRow, replica: str) -> dict[int, tuple[str, int]]:
        assert row.step is not None
        held = self.tables[self.row(row.session).definition.table][replica]
        return {key: content for key, content in held.items() if _within(row.step.ranges, token_of(key))}

    def _result(self, row: SegmentRow, replica: str) -> Result:
        step = row.step
        assert step is not None
        rows = self._rows(row, replica)
        digest = hashlib.sha256(repr((step.bits, sorted(rows.items()))).encode()).digest()
        match step.kind:
            case TaskKind.PREPARE:
                whole = self.tables[self.row(row.session).definition.table][replica]
                name = f"version {hashlib.sha256(repr(sorted(whole.items())).encode()).hexdigest()[:6]}"
                return Result(Cut(name, bytes(8)) if self.has_cuts else None, worked_ms=5)
            case TaskKind.SEND:
                return Result(None, digest, 1, sum(c.rows for c in self._copies(row) if c.source == replica), 100)
            case TaskKind.WRITE:
                return self._write(row, replica)
        return Result(None, digest, 1, len(rows), 50 * len(rows), 0, 40)

    def _copies(self, row: SegmentRow) -> tuple[Copy, ...]:
        return row.found.copies if row.found else ()

    def _write(self, row: SegmentRow, replica: str) -> Result:
        written = 0
        for each in self._differences(row):
            plan = repair_plan.planned(each, self._direction(row))
            if replica in plan.targets:
                table = self.tables[self.row(row.session).definition.table]
                key = msgspec.json.decode(each.key)[0]
                if plan.deletes:
                    del table[replica][key]
                else:
                    table[replica][key] = table[plan.source][key]
                written += 1
        return Result(None, b"", 0, written, written * 50, 0, 20)

    # The rendezvous.

    def _compare(self, row: SegmentRow) -> bool:
        step = row.step
        if step is None or any(task.status is not TaskStatus.DONE for task in row.tasks) or not row.tasks:
            return False
        if len(row.tasks) < len(repair_steps.asked(row)):
            return False
        attempts = tuple(self._id(row, task.replica, task.attempt) for task in row.tasks)
        if step.kind is TaskKind.DIGESTS and row.found_in != step.number:
            self.find(row, attempts)
            return True
        if step.kind is not TaskKind.LEAVES:
            return False
        told = {(pair.left, pair.right) for pair in row.pairs}
        due = [ends for ends in repair_steps.pairs(self.row(row.session), row) if ends not in told]
        for left, right in due:
            pair = self._pair(row, left, right)
            both = tuple(each for each in attempts if each.replica in (left, right))
            self.ask(ComparisonReported, row.session, row.index, step.number, both, pair, actor="rendezvous")
        return bool(due)

    def _pair(self, row: SegmentRow, left: str, right: str) -> Pair:
        step = row.step
        assert step is not None
        one, other = self._rows(row, left), self._rows(row, right)
        keys = [key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key)]
        leaves = sorted({token_of(key) >> (32 - step.bits) for key in keys})
        compared = {token_of(key) >> (32 - step.bits) for key in (*one, *other)}
        ranges = overlap(of_buckets(leaves, step.bits), step.ranges)
        return Pair(left, right, ranges, len(leaves), len(compared), len(keys), 1 if keys else 0)

    def find(self, row: SegmentRow, attempts: tuple[TaskId, ...]) -> None:
        """The pages of what differs, then the report of it."""
        found = self._differences(row)
        pages = self.write_pages(row, found)
        step = row.step
        assert step is not None
        way = self._direction(row)
        findings = repair_plan.findings(found, way, pages=len(pages), digest=digest_of(pages), within=step.ranges)
        self.ask(FindingsReported, row.session, row.index, step.number, attempts, findings, actor="rendezvous")

    def write_pages(self, row: SegmentRow, found: Sequence[Difference], size: int = 2) -> list[bytes]:
        """Pages of a few differences each; no differences are one page too."""
        assert row.step is not None
        parts = [list(found[start : start + size]) for start in range(0, len(found), size)] or [[]]
        payloads = [msgspec.msgpack.encode(part) for part in parts]
        for number, payload in enumerate(payloads):
            is_last = number == len(payloads) - 1
            task = TaskId(row.session, row.index, row.step.number, "", 0)
            page = TreePage(task, LIFE, bytes(16), PageKind.FINDINGS, number, is_last, payload)
            self.chronicle.log.put(Topic.TREES, str(row.session), CODEC.encode(page), ())
        return payloads

    def _direction(self, row: SegmentRow) -> repair_plan.Direction:
        return repair_plan.direction(self._state, self.row(row.session), row)

    def _differences(self, row: SegmentRow) -> list[Difference]:
        return repair_plan.differences(
            {
                name: [
                    RowDigest(token_of(key), f"[{key}]", _hash(content), 1, str(version))
                    for key, (content, version) in self._rows(row, name).items()
                ]
                for name in repair_steps.present(row)
            }
        )


def _hash(content: str) -> int:
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:7])


def _within(ranges: Ranges, token: int) -> bool:
    return any(each.start <= token < each.end for each in ranges)


def rows(*keys: int, content: str = "as it was", version: int = 1) -> dict[int, tuple[str, int]]:
    return dict.fromkeys(keys, (content, version))


def differing_tables(rounds: Rounds) -> None:
    """Two replicas of `orders`: R2 has an old row 7, lacks row 8, and has another row 9 of the same version."""
    same = rows(*range(1, 7))
    rounds.declare("R1", {**same, 7: ("new", 2), 8: ("only here", 1), 9: ("so", 1)}, datacenter="ams")
    rounds.declare("R2", {**same, 7: ("old", 1), 9: ("or so", 1)}, datacenter="ber")
