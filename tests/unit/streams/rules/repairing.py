"""Replicas that are compared and repaired, for tests: real cores of coordinator and validators at one log in memory.

Nothing happens by itself and no clock moves: `run` lets everybody take turns until nothing more comes, `expire` passes
deadlines. Validators do their tasks with the real worker on tables in memory, the rendezvous is the real meeting.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from tests.unit.streams.coordinator.desk import LOG_ID, STARTED, Desk
from tests.unit.streams.rules.meeting import Rendezvous

from topolog.events import repair_requests as rr
from topolog.events import requests as q
from topolog.events.asked import Request
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import ReplicaFailed
from topolog.events.ids import Position
from topolog.events.log import Entry, InMemoryLog
from topolog.events.merkle import Leaf
from topolog.events.repair import StepStarted, TaskAssigned
from topolog.events.repair_definition import Policy, SessionDefinition, SessionKind
from topolog.events.repair_tasks import Result, Task, TaskId, TaskKind, TaskStatus
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest, SentRow, Written
from topolog.events.replica_access import Fence, Progress
from topolog.events.schedules import ScheduleRow
from topolog.events.sessions import SegmentRow, SessionRow, open_sessions, segment, segments, session
from topolog.events.stamp import decode_stamp
from topolog.events.token_range import Ranges
from topolog.events.topics import REQUEST_TOPICS, Topic
from topolog.events.tree_spec import Column, TreeSpec
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Core, Role
from topolog.streams.rules import repair
from topolog.streams.validator.core import Begin, Release, Stop
from topolog.streams.validator.core import Core as ValidatorCore
from topolog.streams.validator.memory import MemoryReplica, Values
from topolog.streams.validator.trees import Trees
from topolog.streams.validator.worker import Worker

T = TypeVar("T")

TABLE = "orders"
COLUMNS = (Column("id", "long"), Column("note", "string"), Column("at", "long"), Column("gone", "boolean"))
PREVIEW = SessionDefinition(TABLE, SessionKind.PREVIEW, bits=8)
PULL = SessionDefinition(TABLE, SessionKind.REPAIR, Policy.PULL, source="R1", bits=8)
UNION = SessionDefinition(TABLE, SessionKind.REPAIR, Policy.UNION, version_column="at", bits=8)
_TURNS_MAX = 20_000


def row(key: int, note: str = "as it was", at: int = 1, *, gone: bool = False) -> Values:
    return {"id": key, "note": note, "at": at, "gone": gone}


def rows(count: int = 40) -> list[Values]:
    return [row(key) for key in range(1, count + 1)]


def changed(key: int = 7, note: str = "another", at: int = 2) -> list[Values]:
    """The same rows, but for this one."""
    return [row(key, note, at) if each["id"] == key else each for each in rows()]


def definition(name: str, **rest: Any) -> ReplicaDefinition:
    return ReplicaDefinition(**{"table": TABLE, "name": name, "columns": COLUMNS, "key": ("id",), **rest})


class Table(MemoryReplica):
    """A replica that fails when a test says so: `broken` maps what it is asked for to what it then raises, once for
    each; `poison` says what is raised for these tokens. `on_write` is told of each write before it happens."""

    def __init__(self, definition: ReplicaDefinition, rows: Iterable[Values] = ()) -> None:
        super().__init__(definition, rows)
        self.broken: dict[str, list[ReplicaFailed]] = {}
        self.poison: Callable[[Ranges], ReplicaFailed | None] = lambda _: None
        self.scans: list[tuple[str, Ranges]] = []
        self.write_calls = 0
        self.on_write: Callable[[str], None] = lambda _: None

    def cut(self, progress: Progress, shared: Cut | None = None) -> Cut | None:
        self._break("cut", ())
        return super().cut(progress, shared)

    def leaves(self, spec: TreeSpec, ranges: Ranges, bits: int, cut: Cut | None, progress: Progress) -> Iterable[Leaf]:
        self._break("leaves", ranges)
        return super().leaves(spec, ranges, bits, cut, progress)

    def digests(self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress) -> Iterable[RowDigest]:
        self._break("digests", ranges)
        return super().digests(spec, ranges, cut, progress)

    def rows(self, spec: TreeSpec, keys: Sequence[str], cut: Cut | None) -> Iterable[tuple[str, str]]:
        self._break("rows", ())
        return super().rows(spec, keys, cut)

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        self._break("write", ())
        self.write_calls += 1
        self.on_write(self.describe().name)
        return super().write(spec, rows, cut, fence, progress)

    def digests_now(self, spec: TreeSpec, ranges: Ranges) -> list[RowDigest]:
        """Its rows as they are, for the test itself."""
        return list(super().digests(spec, ranges, None, lambda *_: None))

    def _break(self, what: str, ranges: Ranges) -> None:
        if ranges:
            self.scans.append((what, ranges))
            failure = self.poison(ranges)
            if failure is not None:
                raise failure
        if self.broken.get(what):
            raise self.broken[what].pop(0)

    @property
    def content(self) -> list[Values]:
        """Its rows, in the order of their content."""
        return sorted(self.rows_now, key=lambda each: (str(each["id"]).zfill(9), repr(each)))


class Server:
    """A validator's process, which serves one replica. While it is not `is_up` it does nothing, and says nothing."""

    def __init__(self, world: "World", table: Table, life: int) -> None:
        self.table, self.life, self.is_up = table, life, True
        self.is_muted = False
        """It works, and what it says is held back: late, or for good."""

        self.core = ValidatorCore([table.describe()], life, f"validator-{table.describe().name}")
        self.worker = Worker(table, self._trees, world.clock)
        self._world = world
        self._read = 0

    def _trees(self) -> Trees:
        return Trees(self._world.log.writer(), self._world.log.reader, self.life)

    def follow(self) -> None:
        for entry in self._world.log.entries(Topic.DECISIONS)[self._read :]:
            self._read += 1
            self.core.read(entry)

    def step(self) -> bool:
        """Read what there is and do what is asked; whether anything came of it."""
        if not self.is_up:
            return False
        self.follow()
        self.core.advance()
        was_busy = self.act()
        self.core.advance()
        sent, self.core.outbox = self.core.outbox, []
        if self.is_muted:
            self._world.held_back += [(each.key, each.value) for each in sent]
        else:
            for each in sent:
                self._world.put(each.key, each.value)
        return was_busy or bool(sent)

    def act(self) -> bool:
        actions, self.core.actions = self.core.actions, []
        for action in actions:
            match action:
                case Begin():
                    self.worker.begin(action.work)
                    self.worker.step()
                case Stop():
                    self.worker.fence.stop(action.task)
                case Release():
                    self.worker.release(action.cut)
                    self.worker.step()
        for ended in self.worker.ended():
            self.core.ended(ended)
        return bool(actions)


class World:
    """Servers, a rendezvous, and a coordinator that leads. Requests are decided, and land, as soon as they are put."""

    def __init__(self, tables: Mapping[str, Iterable[Values]], **replicas: ReplicaDefinition) -> None:
        self.now_ms = 1_000
        """The log's clock."""

        self.log = InMemoryLog(lambda: self.now_ms)
        self.clock = ManualClock()
        self.desk = Desk(self.log)
        self.desk.core.found(STARTED)
        self.desk.land()
        self.desk.core.claim()
        self.desk.land()
        assert self.desk.role() is Role.LEADING
        self.is_eager = True
        """Requests are decided as they come; else when `decide` is called."""

        self.rendezvous = Rendezvous(self.log, LOG_ID)
        self._lives = itertools.count(1)
        self.read = dict.fromkeys(REQUEST_TOPICS, 0)
        self.servers: dict[str, Server] = {}
        self.held_back: list[tuple[str, bytes]] = []
        for name, held in tables.items():
            self.add(replicas.get(name, definition(name)), held)

    @property
    def core(self) -> Core:
        return self.desk.core

    # Servers.

    def add(self, replica: ReplicaDefinition, held: Iterable[Values] = ()) -> Server:
        """A replica and its validator, declared."""
        server = Server(self, Table(replica, held), next(self._lives))
        self.servers[replica.name] = server
        server.step()
        return server

    def restart(self, name: str) -> Server:
        """The validator's process dies, and another serves the same table."""
        old = self.servers[name]
        old.is_up = False
        server = self.servers[name] = Server(self, old.table, next(self._lives))
        server.step()
        return server

    def table(self, name: str) -> Table:
        return self.servers[name].table

    def contents(self) -> list[list[Values]]:
        return [each.table.content for each in self.servers.values()]

    # Requests.

    def put(self, key: str, value: bytes) -> Entry:
        """As an operator, by the key `t`, or as a process asks."""
        entry = self.log.put(Topic.OPERATIONS if key == "t" else Topic.REQUESTS, key, value)
        if self.is_eager:
            self.decide()
        return entry

    def requests(self) -> Iterator[Entry]:
        """Those that have come since, one topic after the other."""
        for topic in self.read:
            for entry in self.log.entries(topic)[self.read[topic] :]:
                self.read[topic] += 1
                yield entry

    def decide(self) -> None:
        """All requests that have come, in the order of each topic, and what follows."""
        for entry in self.requests():
            self.core.ask(entry)
            self.core.settle()
        self.desk.land()

    def ask(self, type_: Callable[..., Request], *fields: Any, reason: str = "", **named: Any) -> q.OutcomeRow:
        """Ask for this; gives the outcome."""
        log_id = self.core.ahead.log_id
        assert log_id is not None
        request = type_(self.desk.new_id(), log_id, "ada", reason, *fields, **named)
        self.put("t", CODEC.encode(request))
        found = q.outcome_of(self.core.state, request.id)
        assert found is not None, "a request without an outcome"
        return found

    def open(self, definition: SessionDefinition = PREVIEW, **changes: Any) -> Position:
        """Ask for a session; gives its number."""
        outcome = self.ask(rr.SessionRequested, msgspec.structs.replace(definition, **changes))
        assert outcome.status is q.Status.GRANTED, outcome
        return Position(int(outcome.subject.removeprefix("session ")))

    def refused(self, definition: SessionDefinition = PREVIEW, **changes: Any) -> str:
        """Ask for a session that is refused; gives the code."""
        outcome = self.ask(rr.SessionRequested, msgspec.structs.replace(definition, **changes))
        assert outcome.status is q.Status.REFUSED, outcome
        return outcome.code

    def report(
        self,
        task: TaskId,
        *,
        rows: int = 0,
        size: int = 0,
        code: str = "",
        result: Result | None = None,
        life: int | None = None,
    ) -> q.OutcomeRow:
        """A report by hand, of the life that serves the replica unless `life` says another."""
        life = self.servers[task.replica].life if life is None else life
        return self.ask(rr.TaskReported, task, life, rows, size, code, "so it is" if code else "", result)

    # Turns.

    def turn(self) -> bool:
        """Each server and the rendezvous once; whether anything came of it."""
        moved = [server.step() for server in list(self.servers.values())]
        return self.turn_of_the_rendezvous() or any(moved)

    def turn_of_the_rendezvous(self) -> bool:
        told = self.rendezvous.told(self.core.state, self.core.ahead.position)
        for each in told:
            self.put("rendezvous", each)
        return bool(told)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Until nothing more comes, or until this is so. What rests before it is asked for again has rested then."""
        for _ in range(_TURNS_MAX):
            moved = False
            for step in (*(server.step for server in self.servers.values()), self.turn_of_the_rendezvous):
                if until():
                    return
                moved = step() or moved
            if not moved and not self.due("retry/"):
                return
            if not moved:
                self.expire("retry/")
        raise AssertionError("it goes on for ever")

    def run_to(self, kind: TaskKind, number: int, index: int = 0) -> SegmentRow:
        """Until the segment asks for that."""
        self.run(lambda: self.is_at(kind, number, index))
        assert self.is_at(kind, number, index), f"it never came to {kind}"
        return self.segment(number, index)

    def is_at(self, kind: TaskKind, number: int, index: int = 0) -> bool:
        found = segment(self.core.state, number, index)
        return found is not None and found.step is not None and found.step.kind is kind

    def finish(self, definition: SessionDefinition = PREVIEW, **changes: Any) -> SessionRow:
        """Open a session and run it to its end."""
        number = self.open(definition, **changes)
        self.run()
        found = self.session(number)
        assert found.status.is_end, found
        return found

    def due(self, prefix: str = "") -> list[str]:
        """Keys of the deadlines that run."""
        state = self.core.state
        kinds: Sequence[type[SessionRow | SegmentRow | ScheduleRow]] = (SessionRow, SegmentRow, ScheduleRow)
        found = (each for kind in kinds for _, row in list(state.rows(kind)) for each in repair.deadlines(state, row))
        return [each.key for each in found if each.key.startswith(prefix)]

    def expire(self, prefix: str = "", containing: str = "") -> None:
        """These deadlines pass, all at one moment."""
        keys = [key for key in self.due(prefix) if containing in key]
        assert keys, f"no deadline {prefix}…{containing}…"
        for key in keys:
            self.core.pass_deadline(key)
        self.core.settle()
        self.desk.land()

    def crash(self, *, lost: int = 0) -> None:
        """The coordinator dies; another reads the log, without the last `lost` records, and leads."""
        decided = self.log.entries(Topic.DECISIONS)
        assert lost == 0 or decided[-lost].topic is Topic.DECISIONS
        sequence = self.desk.sequence
        self.desk = Desk(self.log, f"{self.core.instance}'", life=next(self._lives))
        self.desk.sequence = sequence
        self.desk.follow()
        self.core.claim()
        self.desk.land()
        assert self.desk.role() is Role.LEADING
        resumed = self.core.resume_at()
        self.read = {topic: resumed.get((topic, 0)) or 0 for topic in REQUEST_TOPICS}
        self.decide()
        self.core.settle()
        self.desk.land()

    # What there is.

    def session(self, number: int) -> SessionRow:
        found = session(self.core.state, number)
        assert found is not None, f"no session {number}"
        return found

    def segment(self, number: int, index: int = 0) -> SegmentRow:
        found = segment(self.core.state, number, index)
        assert found is not None, f"no segment {number}/{index}"
        return found

    def segments(self, number: int) -> list[SegmentRow]:
        return segments(self.core.state, self.session(number))

    def open_sessions(self) -> list[Position]:
        return [each.number for each in open_sessions(self.core.state)]

    def task(self, name: str, number: int, index: int = 0) -> TaskId:
        """What this replica is asked for now."""
        found = self.segment(number, index)
        (task,) = (each for each in found.tasks if each.replica == name)
        assert found.step is not None
        return TaskId(Position(number), index, found.step.number, name, task.attempt)

    def assigned(self, number: int, index: int = 0) -> list[str]:
        tasks: Sequence[Task] = self.segment(number, index).tasks
        return sorted(each.replica for each in tasks if each.status is TaskStatus.ASSIGNED)

    def decisions(self) -> Iterator[Decision]:
        for entry in self.log.entries(Topic.DECISIONS):
            event: Any = CODEC.decode(entry.value)
            yield event

    def events(self, type_: type[T]) -> list[T]:
        return [each for each in self.decisions() if isinstance(each, type_)]


def three(**changes: Iterable[Values]) -> World:
    """Three replicas with the same forty rows, but for what a test says."""
    return World({name: changes.get(name, rows()) for name in ("R1", "R2", "R3")})


def attempts(world: World, kind: TaskKind) -> list[tuple[str, int]]:
    """(replica, attempt) of the tasks of this kind, in the order in which they were asked for."""
    kinds = {(each.session, each.segment, each.step.number): each.step.kind for each in world.events(StepStarted)}
    asked = [each.task for each in world.events(TaskAssigned)]
    return [(each.replica, each.attempt) for each in asked if kinds[each.session, each.segment, each.step] is kind]


def causes(world: World, type_: type) -> list[str]:
    found = []
    for entry in world.log.entries(Topic.DECISIONS):
        if isinstance(CODEC.decode(entry.value), type_):
            assert entry.stamp is not None
            found.append(decode_stamp(entry.stamp).cause)
    return found


def at_leaves(world: World, definition: SessionDefinition = PREVIEW, **changes: object) -> int:
    """A session whose replicas are asked for their trees; nobody has answered."""
    number = world.open(definition, **changes)
    world.run_to(TaskKind.LEAVES, number)
    return number
