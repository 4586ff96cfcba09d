"""Histories of sessions under random schedules, and what must be so at every point of any of them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from tests.unit.streams.rules.repairing import PREVIEW, TABLE, UNION, Server, Table, World, row

from topolog.events import repair_requests as rr
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.decision import Decision
from topolog.events.errors import ReplicaFailed
from topolog.events.fold import Fold, Ignored
from topolog.events.ids import Position
from topolog.events.repair import (
    PairCompared,
    RowsCompared,
    SegmentEnded,
    SegmentHalved,
    SessionEnded,
    SessionOpened,
    StepStarted,
    TaskAssigned,
    TaskCompleted,
    TaskFailed,
    TaskProgressed,
)
from topolog.events.repair_definition import Order, SessionDefinition, SessionKind
from topolog.events.repair_tasks import Result, TaskId, TaskKind
from topolog.events.repair_turns import SCANS
from topolog.events.replica import RowDigest
from topolog.events.replicas import ReplicaDeclared, replica_key
from topolog.events.requesters import requester_of
from topolog.events.sessions import SegmentStatus, SessionStatus, session
from topolog.events.token_range import Ranges, contains, overlap, union, without
from topolog.events.topics import Topic
from topolog.events.tree_spec import TreeSpec
from topolog.streams.validator import tasks
from topolog.streams.validator.memory import Values

_numbers = itertools.count(1)
_WRITES = (TaskKind.SEND, TaskKind.WRITE)


class History(World):
    """A world in which everything that can happen may happen at any time."""

    def __init__(self, tables: Mapping[str, Iterable[Values]]) -> None:
        super().__init__(tables)
        self._checked = 0
        self._unasked: list[str] = []
        for server in self.servers.values():
            server.table.on_write = self._watch

    def _watch(self, name: str) -> None:
        """A row is about to be written: by what its writer has read, its session runs and asks for just that. The
        worker takes whatever is raised here for a failure of its task, so that it is kept, and looked at later."""
        server = self.servers[name]
        state, served = server.core.state, {replica_key(TABLE, name): (TABLE, name)}
        asked = tasks.due(state, served, server.life)
        owners = [session(state, each.task.session) for each in asked]
        if [each.step.kind for each in asked] != [TaskKind.WRITE]:
            self._unasked.append(f"{name} writes, and is asked for {asked}")
        elif owners[0] is None or owners[0].definition.kind is not SessionKind.REPAIR:
            self._unasked.append(f"{name} writes for {owners[0]}")

    # What may happen. Each is asked for with one number, and does what it can with it.

    def serve(self, at: int) -> None:
        self._server(at).step()

    def meet(self, _: int) -> None:
        self.turn_of_the_rendezvous()

    def rest(self, _: int) -> None:
        self.turn()

    def pass_one(self, at: int) -> None:
        keys = sorted(self.due())
        if keys:
            self.expire(keys[at % len(keys)])
            self.check()

    def stop(self, at: int) -> None:
        self._server(at).is_up = False

    def start(self, at: int) -> None:
        name = sorted(self.servers)[at % len(self.servers)]
        self.restart(name)

    def mute(self, at: int) -> None:
        server = self._server(at)
        server.is_muted = not server.is_muted

    def deliver(self, at: int) -> None:
        """Something arrives that was held back, of whichever life."""
        if self.held_back:
            self.put(*self.held_back.pop(at % len(self.held_back)))

    def lose_meetings(self, _: int) -> None:
        self.rendezvous.is_down = not self.rendezvous.is_down

    def forget_meetings(self, _: int) -> None:
        self.rendezvous.restart()

    def die(self, _: int) -> None:
        self.crash()

    def die_between(self, _: int) -> None:
        """The coordinator decides, and dies before anything of it is in the log."""
        self.is_eager = False
        for server in self.servers.values():
            server.step()
        for entry in self.requests():
            self.core.ask(entry)
            self.core.settle()
        self.is_eager = True
        self.crash()

    def say_again(self, at: int) -> None:
        """A report that was made before is made again, under another number."""
        entries = self.log.entries(Topic.REQUESTS)
        request: Any = CODEC.decode(entries[at % len(entries)].value)
        if isinstance(request, rr.TaskReported | rr.ComparisonReported | rr.FindingsReported):
            id_ = RequestId(requester_of(request.actor, next(_numbers)), 1)
            self.put("again", CODEC.encode(msgspec.structs.replace(request, id=id_)))

    def say_something_else(self, at: int) -> None:
        """Somebody answers a task with what is not so: pages that nobody has sent."""
        number = next(iter(self.open_sessions()), None)
        for index in self.session(number).running if number is not None else ():
            assert number is not None
            listed = self.segment(number, index).tasks
            if listed:
                task = self.task(listed[at % len(listed)].replica, number, index)
                self.report(task, result=Result(digest=bytes([at % 256]) * 32, pages=1))

    def abort(self, at: int) -> None:
        numbers = self.open_sessions()
        if numbers:
            self.ask(rr.SessionAbortRequested, numbers[at % len(numbers)])

    def pause(self, at: int) -> None:
        for number in self.open_sessions()[:1]:
            paused = not self.session(number).paused
            self.ask(rr.SessionAlterationRequested, number, paused=paused, parallel=1 + at % 3)

    def ask_for(self, definition: SessionDefinition) -> None:
        self.ask(rr.SessionRequested, definition)

    def fail(self, at: int) -> None:
        code = ("IO", "CORRUPT", "CUT_LOST", "INTERRUPTED")[at % 4]
        what = ("cut", "leaves", "digests", "rows", "write")[at % 5]
        self._server(at).table.broken.setdefault(what, []).append(ReplicaFailed(code, "so it is"))

    def _server(self, at: int) -> Server:
        return self.servers[sorted(self.servers)[at % len(self.servers)]]

    # What must be so.

    def check(self) -> None:
        """After each event: ends are what they say, and a fold of the log gives the same state."""
        assert not self._unasked
        decided = list(self.decisions())
        for event in decided[self._checked :]:
            if isinstance(event, SessionEnded):
                self._check_end(event)
        self._checked = len(decided)

    def _check_end(self, ended: SessionEnded) -> None:
        found = self.session(ended.session)
        asked = found.definition.ranges
        assert union((*ended.covered, *ended.left)) == asked
        assert not overlap(ended.covered, ended.left)
        assert contains(asked, ended.differing)
        is_repaired = found.definition.kind is SessionKind.REPAIR and ended.status is SessionStatus.SUCCEEDED
        if ended.status is SessionStatus.SUCCEEDED:
            assert not ended.left
        if is_repaired and found.spec is not None:
            held = [self._held(server.table, found.spec, asked) for server in self.servers.values()]
            assert all(each == held[0] for each in held), "repaired, and not equal"

    def _held(self, table: Table, spec: TreeSpec, ranges: Ranges) -> list[RowDigest]:
        return sorted(table.digests_now(spec, ranges))

    def finish_all(self) -> None:
        """Everybody is there again and works, and what does not come is given up: every session ends."""
        self.rendezvous.is_down = False
        for name, server in list(self.servers.items()):
            server.is_muted = False
            if not server.is_up:
                self.restart(name)
        for _ in range(400):
            while self.turn():
                self.check()
            numbers = self.open_sessions()
            if not numbers:
                return
            for number in numbers:
                if self.session(number).paused:
                    self.ask(rr.SessionAlterationRequested, number, paused=False)
            self.run()
            if self.due():
                self.expire()
        raise AssertionError("a session never ends")

    def check_whole(self) -> None:
        """At the end, over all that was decided."""
        decided = list(self.decisions())
        self._check_outcomes()
        self._check_answers(decided)
        _check_tasks(decided)
        _check_turns(decided)
        _check_overlap(decided)
        _check_coverage(decided, self)
        fold = Fold()
        for entry in self.log.entries(Topic.DECISIONS):
            assert not isinstance(fold.read(entry.stamp, entry.value), Ignored)
        assert fold.state.hash() == self.core.state.hash()

    def repair_all(self) -> None:
        """Nobody fails any more: one session makes all replicas equal, and the next finds nothing."""
        for server in self.servers.values():
            server.table.broken.clear()
        ended = self.finish(UNION)
        assert ended.status is SessionStatus.SUCCEEDED, ended
        assert all(content == self.contents()[0] for content in self.contents())
        assert self.finish(PREVIEW).rows_found == 0

    def _check_answers(self, decided: Iterable[Decision]) -> None:
        """What counts is the first answer to the newest attempt, by the life that served the replica then."""
        lives: dict[str, int] = {}
        newest: dict[tuple[int, int, int, str], TaskId] = {}
        answered: set[TaskId] = set()
        said = {str(request.id): request for request in self._requests()}
        for event in decided:
            match event:
                case ReplicaDeclared():
                    lives[event.replica.name] = event.life
                case TaskAssigned(task=task):
                    newest[task.session, task.segment, task.step, task.replica] = task
                case TaskCompleted(task=task) | TaskProgressed(task=task):
                    assert newest[task.session, task.segment, task.step, task.replica] == task
                    assert task not in answered, "a second answer counts"
                    assert said[str(event.request)].life == lives[task.replica], "another life answers"
                    if isinstance(event, TaskCompleted):
                        answered.add(task)
                case PairCompared() | RowsCompared():
                    attempts = said[str(event.request)].attempts
                    assert len(attempts) > 1
                    assert answered >= set(attempts), "what was compared is no answer"

    def _requests(self) -> Iterator[Any]:
        return (CODEC.decode(entry.value) for topic in self.read for entry in self.log.entries(topic))

    def _check_outcomes(self) -> None:
        """K7: exactly one for each request."""
        outcomes: dict[str, int] = {}
        for event in self.decisions():
            ref = getattr(event, "request", None)
            if ref is not None:
                outcomes[str(ref)] = outcomes.get(str(ref), 0) + 1
        for request in self._requests():
            assert outcomes.get(str(request.id)) == 1, request


def _check_tasks(decided: Iterable[Decision]) -> None:
    """What was asked for is never asked for again, and a preview asks for no copies (RE4, RE1)."""
    seen = set()
    previews: set[Position] = set()
    for position, event in enumerate(decided):
        match event:
            case TaskAssigned():
                assert event.task not in seen, "asked for twice"
                seen.add(event.task)
            case SessionOpened() if event.definition.kind is SessionKind.PREVIEW:
                previews.add(Position(position) if event.session is None else event.session)
            case StepStarted() if event.session in previews:
                assert event.step.kind not in _WRITES


def _check_turns(decided: Iterable[Decision]) -> None:
    """A replica has one open task at most, and a session that wants one scan at a time has one, in all its segments
    together (RE25)."""
    is_open: set[TaskId] = set()
    orders: dict[Position, Order] = {}
    scans: set[tuple[Position, int, int]] = set()
    for position, event in enumerate(decided):
        match event:
            case SessionOpened():
                orders[Position(position) if event.session is None else event.session] = event.definition.order
            case SessionEnded():
                is_open = {each for each in is_open if each.session != event.session}
            case StepStarted() | SegmentEnded() | SegmentHalved():
                gone = (event.session, event.segment)
                is_open = {each for each in is_open if (each.session, each.segment) != gone}
                if isinstance(event, StepStarted) and event.step.kind in SCANS:
                    scans.add((*gone, event.step.number))
            case TaskCompleted() | TaskFailed():
                is_open.discard(event.task)
            case TaskAssigned(task=task):
                assert task.replica not in {each.replica for each in is_open}, "it has something to do already"
                is_open.add(task)
                own = [each for each in is_open if (each.session, each.segment, each.step) in scans]
                count = sum(each.session == task.session for each in own)
                assert count < 2 or orders[task.session] is not Order.SEQUENTIAL, "two scan at a time"


def _check_coverage(decided: Iterable[Decision], world: World) -> None:
    """Each session has one end, and that covers just what its segments have come to (RE1)."""
    plans: dict[tuple[int, int], Ranges] = {}
    counts: dict[int, int] = {}
    covered: dict[int, Ranges] = {}
    ends: dict[int, int] = {}
    for position, event in enumerate(decided):
        match event:
            case SessionOpened():
                number = position if event.session is None else event.session
                plans |= {(number, index): plan.ranges for index, plan in enumerate(event.segments)}
                counts[number] = len(event.segments)
            case SegmentHalved():
                for half in event.halves:
                    plans[event.session, counts[event.session]] = half.ranges
                    counts[event.session] += 1
            case SegmentEnded():
                done = without(plans[event.session, event.segment], event.left)
                covered[event.session] = union((*covered.get(event.session, ()), *done))
                if event.status in (SegmentStatus.FAILED, SegmentStatus.INCONCLUSIVE):
                    assert not done
            case SessionEnded():
                ends[event.session] = ends.get(event.session, 0) + 1
                assert event.covered == covered.get(event.session, ())
                if event.status is SessionStatus.FAILED:
                    assert not event.covered
    assert all(count == 1 for count in ends.values())
    assert set(counts) <= set(ends)


def _check_overlap(decided: Iterable[Decision]) -> None:
    """No two repairs of the same tokens run at once (RE27)."""
    repairs: dict[int, Ranges] = {}
    for position, event in enumerate(decided):
        match event:
            case SessionOpened() if event.definition.kind is SessionKind.REPAIR:
                ranges = event.definition.ranges
                assert not any(overlap(ranges, others) for others in repairs.values())
                repairs[position if event.session is None else event.session] = ranges
            case SessionEnded():
                repairs.pop(event.session, None)


def tables(differences: Iterable[tuple[str, int, int]]) -> dict[str, list[Values]]:
    """Twelve rows on three replicas, but for these: (replica, key, version); version 0: the replica lacks the row."""
    held = {name: {key: row(key) for key in range(1, 13)} for name in ("R1", "R2", "R3")}
    for name, key, version in differences:
        if version:
            held[name][key] = row(key, f"version {version}", version)
        else:
            held[name].pop(key, None)
    return {name: list(rows.values()) for name, rows in held.items()}
