"""Schedules, each with a reason why it did not run, and the share of time that is worked (RE32, RE26)."""

from itertools import combinations
from typing import Any

import msgspec
import pytest
from tests.unit.streams.rules.repairing import (
    PREVIEW,
    PULL,
    TABLE,
    UNION,
    World,
    causes,
    changed,
    definition,
    rows,
    three,
)

from topolog.events import repair_requests as rr
from topolog.events.repair import SegmentEnded, SessionOpened, StepStarted
from topolog.events.repair_definition import Order, SessionDefinition
from topolog.events.repair_tasks import Pair, Result, TaskKind
from topolog.events.requests import Status
from topolog.events.schedules import SchedulePostponed, ScheduleRow
from topolog.events.sessions import SessionStatus
from topolog.events.topics import Topic
from topolog.events.tree_spec import Column
from topolog.streams.rules import repair
from topolog.streams.rules.schedules import SCHEDULES_MAX

DAY_MS = 86_400_000


def scheduled(world: World, asked: SessionDefinition = PREVIEW, name: str = "nightly", **rest: Any) -> Status:
    fields = {"every_ms": DAY_MS, "paused": False, **rest}
    return world.ask(rr.ScheduleRequested, name, asked, **fields).status


def schedule(world: World, name: str = "nightly") -> ScheduleRow:
    found = world.core.state.get(ScheduleRow, name)
    assert found is not None
    return found


def reasons(world: World) -> list[str]:
    return [each.code for each in world.events(SchedulePostponed)]


def test_a_schedule_opens_a_session_each_time_it_is_due() -> None:
    """RE32: first after its interval, then that after each."""
    world = three(R2=changed())
    assert scheduled(world, PULL) is Status.GRANTED
    assert not world.open_sessions()
    for _ in range(3):
        (key,) = world.due("schedule/")
        world.expire("schedule/")
        (number,) = world.open_sessions()
        assert (world.session(number).schedule, schedule(world).session) == ("nightly", number)
        world.run()
        assert world.session(number).status is SessionStatus.SUCCEEDED
        assert key not in world.due()
    assert [each.schedule for each in world.events(SessionOpened)] == ["nightly"] * 3
    assert causes(world, SessionOpened)[0].startswith("deadline schedule/")
    assert world.contents() == [rows()] * 3


def test_a_schedule_whose_session_has_not_ended_is_postponed() -> None:
    """RE32: with the reason, for a minute, or longer each time, and its own interval at most."""
    world = three()
    scheduled(world)
    world.expire("schedule/")
    world.expire("schedule/")
    assert reasons(world) == ["STILL_RUNNING"]
    assert (schedule(world).code, schedule(world).wait_ms) == ("STILL_RUNNING", 60_000)
    assert causes(world, SchedulePostponed)[0].startswith("deadline schedule/")
    world.run()
    world.expire("schedule/")
    assert (schedule(world).code, schedule(world).wait_ms) == ("", DAY_MS)
    scheduled(world, name="often", every_ms=90_000)
    waits = []
    for _ in range(3):
        world.expire("schedule/", "often")
        waits.append(schedule(world, "often").wait_ms)
    assert waits == [90_000, 60_000, 90_000]


def test_a_schedule_that_cannot_run_for_long_is_looked_at_less_and_less_often() -> None:
    """RE32: the log keeps each postponement; another reason is told as soon as the first was."""
    world = three()
    scheduled(world)
    world.expire("schedule/")
    waits = []
    for _ in range(11):
        world.expire("schedule/")
        waits.append(schedule(world).wait_ms // 60_000)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
    for name in ("R1", "R2", "R3"):
        world.ask(rr.ReplicaWithdrawalRequested, TABLE, name)
    assert not world.open_sessions()
    world.expire("schedule/")
    assert (schedule(world).code, schedule(world).wait_ms) == ("UNKNOWN_TABLE", 60_000)
    world.restart("R1")
    world.restart("R2")
    world.expire("schedule/")
    assert (schedule(world).code, schedule(world).wait_ms) == ("", DAY_MS)
    world.expire("schedule/")
    assert schedule(world).wait_ms == 60_000


def test_a_schedule_waits_for_who_repairs_the_same() -> None:
    """RE32, RE27."""
    world = three()
    scheduled(world, PULL)
    number = world.open(PULL)
    world.expire("schedule/")
    assert reasons(world) == ["OVERLAP"]
    assert str(number) in schedule(world).message
    assert world.open_sessions() == [number]


def test_a_schedule_says_that_there_is_no_room() -> None:
    """RE28: schedules are not more than people."""
    world = three()
    scheduled(world)
    for _ in range(64):
        world.open()
    world.expire("schedule/")
    assert reasons(world) == ["TOO_MANY_SESSIONS"]


def test_a_schedule_says_what_is_missing() -> None:
    """RE32: a replica that is gone, a policy that cannot be followed any more."""
    world = three()
    scheduled(world, PULL)
    world.ask(rr.ReplicaWithdrawalRequested, TABLE, "R1")
    world.expire("schedule/")
    for name in ("R2", "R3"):
        world.ask(rr.ReplicaWithdrawalRequested, TABLE, name)
    world.expire("schedule/")
    assert reasons(world) == ["UNKNOWN_REPLICA", "UNKNOWN_TABLE"]


def test_a_schedule_whose_session_cannot_begin_has_one_that_says_so() -> None:
    """RE14: schemas that do not go together are the end of a session, not of a schedule."""
    world = three()
    scheduled(world)
    wider = definition("R2", columns=(*definition("R2").columns, Column("more", "string")))
    world.ask(rr.ReplicaDeclarationRequested, wider, world.servers["R2"].life)
    world.expire("schedule/")
    number = schedule(world).session
    assert number is not None
    assert (world.session(number).status, world.session(number).code) == (SessionStatus.FAILED, "SCHEMA_MISMATCH")


def test_a_schedule_that_is_paused_or_dropped_opens_nothing() -> None:
    """RE32."""
    world = three()
    scheduled(world)
    assert scheduled(world) is Status.UNCHANGED
    assert scheduled(world, paused=True) is Status.GRANTED
    assert not world.due("schedule/")
    assert scheduled(world) is Status.GRANTED
    assert world.due("schedule/")
    assert world.ask(rr.ScheduleDropRequested, "nightly").status is Status.GRANTED
    assert not world.due("schedule/")
    assert world.ask(rr.ScheduleDropRequested, "nightly").status is Status.UNCHANGED


def test_schedules_that_are_due_at_one_moment_all_run() -> None:
    world = three()
    for name in ("a", "b/c", "d"):
        scheduled(world, name=name)
    world.expire("schedule/")
    assert [each.schedule for each in world.events(SessionOpened)] == ["a", "b/c", "d"]


def test_a_scheduled_session_reviews_what_is_forgotten_by_its_own_time() -> None:
    """RE23: who set the schedule knew nothing of what has been deleted since."""
    world = three()
    scheduled(world, msgspec.structs.replace(UNION, reviewed_at_ms=3_000))
    world.core.at_ms = 50_000
    world.expire("schedule/")
    assert world.events(SessionOpened)[0].definition.reviewed_at_ms == 50_000


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ""}, "BAD_SCHEDULE"),
        ({"name": "n" * 201}, "BAD_SCHEDULE"),
        ({"name": "every night"}, "BAD_SCHEDULE"),
        ({"name": "n\nm"}, "BAD_SCHEDULE"),
        ({"every_ms": 59_999}, "BAD_SCHEDULE"),
        ({"every_ms": 367 * DAY_MS}, "BAD_SCHEDULE"),
        ({"asked": msgspec.structs.replace(PULL, preview=5)}, "BAD_SCHEDULE"),
        ({"asked": msgspec.structs.replace(PREVIEW, table="none")}, "UNKNOWN_TABLE"),
        ({"asked": msgspec.structs.replace(PREVIEW, segments=0)}, "BAD_DEFINITION"),
    ],
)
def test_a_schedule_that_cannot_run_is_refused(changes: dict[str, Any], code: str) -> None:
    fields = {"name": "n", "asked": PREVIEW, "every_ms": DAY_MS, **changes}
    world = three()
    outcome = world.ask(rr.ScheduleRequested, fields["name"], fields["asked"], fields["every_ms"], False)
    assert outcome.code == code


def test_there_are_only_so_many_schedules_each_at_most_once_a_minute() -> None:
    """RE32: what they come to is decided in one pass, and the log keeps it for ever."""
    world = World({"R1": rows()})
    fields = (PREVIEW, 60_000, False)
    for number in range(SCHEDULES_MAX):
        assert world.ask(rr.ScheduleRequested, f"s{number}", *fields).status is Status.GRANTED
    outcome = world.ask(rr.ScheduleRequested, "one-more", *fields)
    assert (outcome.code, outcome.message) == ("TOO_MANY_SCHEDULES", "There are 256 schedules already.")
    assert world.ask(rr.ScheduleRequested, "s0", PREVIEW, 60_000, True).status is Status.GRANTED
    often = world.ask(rr.ScheduleRequested, "s0", PREVIEW, 59_999, True)
    assert often.message == "A schedule runs at most once a minute and at least once a year."
    before = len(world.log.entries(Topic.DECISIONS))
    world.expire("schedule/")
    assert len(world.log.entries(Topic.DECISIONS)) - before == 2 * (SCHEDULES_MAX - 1)


# The share of time that is worked.


def work(world: World, number: int, worked_ms: int) -> None:
    """All tasks that are open end, and each has taken so long."""
    for index in world.session(number).running:
        for name in world.assigned(number, index):
            step = world.segment(number, index).step
            assert step is not None
            digest = bytes(32) if step.kind is TaskKind.LEAVES else b""
            result = Result(digest=digest, pages=int(bool(digest)), worked_ms=worked_ms)
            world.report(world.task(name, number, index), result=result)


def compare(world: World, number: int, index: int) -> None:
    """The rendezvous says that all are equal."""
    found = world.segment(number, index)
    assert found.step is not None
    for left, right in combinations(sorted(found.replicas), 2):
        both = (world.task(left, number, index), world.task(right, number, index))
        pair = Pair(left, right, (), 0, 0, 0, 0)
        world.ask(rr.ComparisonReported, number, index, found.step.number, both, pair)


def rest_of(world: World, number: int) -> int:
    """How long the pause is that has begun, 0 for none."""
    found = repair.deadlines(world.core.state, world.session(number))
    return sum(each.after_ms for each in found if "/rest/" in each.key)


@pytest.mark.parametrize(("intensity", "rest_ms"), [(50, 20), (100, 0), (25, 60), (1, 1_980)])
def test_behind_work_there_is_a_pause_in_proportion(intensity: int, rest_ms: int) -> None:
    """RE26: at one half there is as much of the one as of the other."""
    world = three()
    number = world.open(segments=2, intensity=intensity)
    work(world, number, 10)
    work(world, number, 10)
    compare(world, number, 0)
    assert len(world.events(SegmentEnded)) == 1
    assert rest_of(world, number) == rest_ms
    begun = {each.segment for each in world.events(StepStarted)}
    assert begun == ({0} if rest_ms else {0, 1})
    if rest_ms:
        world.expire(f"session/{number}/rest/")
        assert {each.segment for each in world.events(StepStarted)} == {0, 1}
        assert causes(world, StepStarted)[-1].startswith(f"deadline session/{number}/rest/")
        assert rest_of(world, number) == 0


@pytest.mark.parametrize(
    ("order", "rest_ms"), [(Order.PARALLEL, 20), (Order.DATACENTER_PARALLEL, 30), (Order.SEQUENTIAL, 40)]
)
def test_what_replicas_do_at_one_time_counts_once(order: Order, rest_ms: int) -> None:
    """RE25, RE26: three replicas, each 10 ms to prepare and 10 ms for its tree; two share a datacenter."""
    places = {"R1": "ams", "R2": "ber", "R3": "ber"}
    replicas = {name: definition(name, datacenter=place) for name, place in places.items()}
    world = World({name: rows() for name in places}, **replicas)
    number = world.open(segments=2, intensity=50, order=order)
    for _ in range(4):
        work(world, number, 10)
    compare(world, number, 0)
    assert rest_of(world, number) == rest_ms


def test_segments_that_end_one_after_the_other_add_up_their_pauses() -> None:
    """RE26: however many run at a time, all work is followed by its pause."""
    world = three()
    number = world.open(segments=3, parallel=2, intensity=50)
    for _ in range(4):
        work(world, number, 10)
    compare(world, number, 0)
    assert rest_of(world, number) == 20
    compare(world, number, 1)
    assert rest_of(world, number) == 40


def test_a_higher_intensity_is_in_force_from_the_next_segment_on() -> None:
    """RE26: and it ends the pause that was for a lower one."""
    world = three()
    number = world.open(segments=2, intensity=1)
    work(world, number, 10)
    work(world, number, 10)
    compare(world, number, 0)
    assert {each.segment for each in world.events(StepStarted)} == {0}
    world.ask(rr.SessionAlterationRequested, number, intensity=100)
    assert {each.segment for each in world.events(StepStarted)} == {0, 1}
