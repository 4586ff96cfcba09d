"""How sessions are aborted and paced, and which replicas there are for them (RE3, RE26, RE9)."""

from typing import Any

import msgspec
import pytest
from tests.unit.streams.rules.repairing import (
    COLUMNS,
    PULL,
    TABLE,
    World,
    changed,
    definition,
    row,
    three,
)

from topolog.events import repair
from topolog.events import repair_requests as rr
from topolog.events.errors import ReplicaFailed
from topolog.events.repair import (
    AbortGranted,
    SegmentEnded,
    SessionEnded,
    SessionOpened,
    StepStarted,
)
from topolog.events.repair_definition import Rendezvous, SessionDefinition, SessionKind
from topolog.events.repair_tasks import TaskKind, TaskStatus
from topolog.events.replicas import replica
from topolog.events.requests import Status
from topolog.events.sessions import SessionStatus, session
from topolog.events.token_range import FULL, RING, TokenRange, overlap, union
from topolog.events.tree_spec import Column

LOW, HIGH = TokenRange(0, RING // 2), TokenRange(RING // 2, RING)


# Aborts.


@pytest.mark.parametrize("kind", list(TaskKind)[1:])
def test_an_abort_is_no_success_and_nothing_is_written_after_it(kind: TaskKind) -> None:
    """RE3: during each step; validators stop, and what they still say is late."""
    world = three(R2=changed())
    number = world.open(PULL)
    world.run_to(kind, number)
    busy = world.assigned(number)[0]
    task = world.task(busy, number)
    before = world.contents()
    assert world.ask(rr.SessionAbortRequested, number, reason="too slow").status is Status.GRANTED
    ended = world.session(number)
    assert (ended.status, ended.code, ended.message) == (SessionStatus.ABORTED, "ABORTED", "Aborted: too slow")
    assert (ended.covered, ended.left) == ((), (FULL,))
    world.run()
    assert world.contents() == before
    assert world.report(task, code="IO").code == "LATE_FACT"
    assert world.ask(rr.SessionAbortRequested, number).status is Status.UNCHANGED
    assert len(world.events(SessionEnded)) == 1


def test_an_abort_after_the_end_is_refused() -> None:
    """RE3."""
    world = three()
    number = world.finish().number
    assert world.ask(rr.SessionAbortRequested, number).code == "SESSION_ENDED"
    assert world.ask(rr.SessionAbortRequested, 999).code == "UNKNOWN_SESSION"


def test_all_sessions_are_aborted_at_once() -> None:
    """RE1: each with an end of its own, queued ones too."""
    world = three()
    numbers = [world.open(), world.open(PULL), world.open(PULL, queues=True)]
    assert world.ask(rr.SessionAbortRequested).status is Status.GRANTED
    assert [world.session(each).status for each in numbers] == [SessionStatus.ABORTED] * 3
    assert world.events(AbortGranted)[0].sessions == tuple(numbers)
    assert world.ask(rr.SessionAbortRequested).status is Status.UNCHANGED


def test_an_abort_keeps_what_was_covered_by_then() -> None:
    """RE29."""
    world = three()
    number = world.open(segments=4)
    world.run(lambda: len(world.events(SegmentEnded)) == 2)
    world.ask(rr.SessionAbortRequested, number)
    ended = world.session(number)
    (opened,) = world.events(SessionOpened)
    assert ended.covered == union(each for plan in opened.segments[:2] for each in plan.ranges)
    assert union((*ended.covered, *ended.left)) == (FULL,)


# Pace.


def test_segments_run_so_many_at_a_time() -> None:
    """RE26: and as many as were asked for while it runs."""
    world = three()
    number = world.open(segments=8, parallel=2)
    assert len({each.segment for each in world.events(StepStarted)}) == 2
    world.ask(rr.SessionAlterationRequested, number, parallel=5)
    assert len({each.segment for each in world.events(StepStarted)}) == 5
    world.run()
    assert world.session(number).covered == (FULL,)
    assert len(world.events(SegmentEnded)) == 8


def test_a_session_that_is_paused_finishes_its_tasks_and_begins_nothing() -> None:
    """RE26: until it goes on."""
    world = three()
    number = world.open(segments=2)
    world.ask(rr.SessionAlterationRequested, number, paused=True)
    world.run()
    assert {task.status for task in world.segment(number).tasks} == {TaskStatus.DONE}
    assert len(world.events(StepStarted)) == 1
    assert world.ask(rr.SessionAlterationRequested, number, paused=True).status is Status.UNCHANGED
    world.ask(rr.SessionAlterationRequested, number, paused=False)
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED
    assert world.ask(rr.SessionAlterationRequested, number, paused=True).code == "SESSION_ENDED"


@pytest.mark.parametrize("changes", [{"intensity": 0}, {"parallel": 65}, {"intensity": 101}])
def test_a_pace_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    world = three()
    assert world.ask(rr.SessionAlterationRequested, world.open(), **changes).code == "BAD_DEFINITION"


@pytest.mark.parametrize("rendezvous", [Rendezvous.EARLY, Rendezvous.ALL])
def test_a_preview_changes_nothing(rendezvous: Rendezvous) -> None:
    """RE29: it tells what a repair would do, and does none of it."""
    world = three(R2=changed())
    asked: SessionDefinition = msgspec.structs.replace(PULL, kind=SessionKind.PREVIEW, rendezvous=rendezvous)
    ended = world.finish(asked)
    assert ended.status is SessionStatus.SUCCEEDED
    assert not {TaskKind.SEND, TaskKind.WRITE} & {each.step.kind for each in world.events(StepStarted)}
    assert not any(server.table.write_calls for server in world.servers.values())
    assert not overlap(ended.covered, ended.left)


# Replicas.


def test_a_replica_is_that_of_the_process_that_declared_it_last() -> None:
    """RE9: another life's withdrawal is no longer about it."""
    world = three()
    old = world.servers["R2"].life
    world.restart("R2")
    assert world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R2", old).status is Status.UNCHANGED
    row_ = replica(world.core.state, TABLE, "R2")
    assert row_ is not None
    assert row_.life == world.servers["R2"].life


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "n" * 41},
        {"name": "ä" * 21},
        {"name": "a@b"},
        {"name": "a b"},
        {"name": "a\nb"},
        {"table": ""},
        {"table": "orders\x1b[2J"},
        {"table": "orders x"},
        {"datacenter": "d\u202e"},
        {"datacenter": "d" * 201},
        {"columns": ()},
        {"columns": (*COLUMNS, COLUMNS[0])},
        {"columns": (Column("c" * 100_001, "string"),), "key": ()},
        {"key": ("none",)},
        {"key": ("id", "id")},
        {"ranges": ()},
        {"ranges": (HIGH, LOW)},
        {"ranges": (LOW, HIGH)},
        {"boundaries": ("x",) * 4_097},
        {"rows": -1},
    ],
)
def test_a_replica_that_cannot_be_right_is_refused(changes: dict[str, object]) -> None:
    world = three()
    declared = msgspec.structs.replace(definition("R4"), **changes)
    assert world.ask(rr.ReplicaDeclarationRequested, declared, 9).code == "BAD_REPLICA"


def test_a_table_has_only_so_many_replicas() -> None:
    world = World({f"R{number:02}": [] for number in range(16)})
    assert world.ask(rr.ReplicaDeclarationRequested, definition("R16"), 9).code == "TOO_MANY_REPLICAS"


# What is kept.


def test_a_long_session_that_ends_is_not_forgotten_for_being_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """RE1: those that ended first go first, whenever they began."""
    monkeypatch.setattr(repair, "ENDED_KEPT", 3)
    world = three()
    long = world.open()
    numbers = []
    for _ in range(4):
        numbers.append(world.open())
        world.ask(rr.SessionAbortRequested, numbers[-1])
    world.run()
    assert world.session(long).status is SessionStatus.SUCCEEDED
    assert [number for number in numbers if session(world.core.state, number)] == numbers[-2:]


def test_what_was_found_before_it_began_anew_is_not_counted() -> None:
    """RE14: a segment that begins anew has found nothing yet."""
    world = three(R2=changed())
    number = world.open(PULL)
    world.run_to(TaskKind.SEND, number)
    world.table("R1").broken["rows"] = [ReplicaFailed("CUT_LOST", "It is gone.")]
    world.table("R2").put(row(7))
    world.run()
    ended = world.session(number)
    assert (ended.status, ended.rows_found, ended.differing) == (SessionStatus.SUCCEEDED, 0, ())


def test_a_key_that_is_another_is_a_mismatch_of_schemas() -> None:
    """RE14: rows that are told apart by other columns are not the same rows."""
    world = World({"R1": [], "R2": []}, R2=definition("R2", key=("note",)))
    assert world.finish().code == "SCHEMA_MISMATCH"
    assert not world.events(StepStarted)
