"""Whose turn it is: one task of a replica at a time, the oldest session first (RE25)."""

import pytest
from tests.unit.streams.rules.repairing import TABLE, World, at_leaves, definition, rows, three

from topolog.events import repair_requests as rr
from topolog.events.errors import ReplicaFailed
from topolog.events.repair import SegmentEnded, TaskAssigned, TaskFailed
from topolog.events.repair_definition import Order
from topolog.events.repair_tasks import TaskKind
from topolog.events.sessions import SessionStatus


def asked(world: World, number: int) -> list[tuple[int, str]]:
    """(segment, replica) of the tasks of a session that are open."""
    return [(index, name) for index in world.session(number).running for name in world.assigned(number, index)]


def test_a_segment_behind_a_slow_scan_waits_without_a_deadline() -> None:
    """RE7: what has not been asked for cannot be late, so a replica that works is never taken for dead."""
    world = three()
    number = at_leaves(world, segments=2)
    world.servers["R2"].is_up = False
    world.ask(rr.SessionAlterationRequested, number, parallel=2)
    world.run()
    assert asked(world, number) == [(0, "R2")]
    assert {task.replica for task in world.segment(number, 1).tasks} == {"R1", "R3"}
    (first,) = world.due("task/")
    world.report(world.task("R2", number), size=1)
    (second,) = world.due("task/")
    assert first != second
    world.restart("R2")
    world.run()
    assert world.session(number).status is SessionStatus.SUCCEEDED
    assert not world.events(TaskFailed)


def test_the_oldest_session_is_asked_first() -> None:
    """RE25: whoever waits longest is next, whatever the others' tasks are."""
    world = three()
    numbers = [world.open(), world.open(), world.open()]
    assert [bool(asked(world, number)) for number in numbers] == [True, False, False]
    world.run()
    ends = [each.session for each in world.events(SegmentEnded)]
    assert ends == numbers
    assert all(world.session(number).status is SessionStatus.SUCCEEDED for number in numbers)


def test_replicas_of_other_tables_do_not_wait() -> None:
    """A replica is one of a table: the same name elsewhere is another."""
    world = three()
    for name in ("R1", "R2"):
        replica = definition(name, table="others")
        world.ask(rr.ReplicaDeclarationRequested, replica, 77)
    first, second = world.open(), world.open(table="others")
    assert asked(world, first) == [(0, "R1"), (0, "R2"), (0, "R3")]
    assert asked(world, second) == [(0, "R1"), (0, "R2")]
    assert TABLE != "others"


def test_a_task_that_rests_before_it_is_asked_for_again_keeps_nobody_waiting() -> None:
    """RE7: its replica may work for others meanwhile."""
    world = three()
    first = at_leaves(world)
    second = world.open()
    world.table("R2").broken["leaves"] = [ReplicaFailed("IO", "not now")]
    world.run(lambda: bool(world.events(TaskFailed)))
    assert world.due("retry/")
    assert (0, "R2") in asked(world, second)
    world.run()
    assert [world.session(number).status for number in (first, second)] == [SessionStatus.SUCCEEDED] * 2


def test_a_session_that_is_paused_keeps_no_replica() -> None:
    """RE26: what it had asked for ends, and then others have their turn."""
    world = three()
    first = at_leaves(world, order=Order.SEQUENTIAL, segments=2, parallel=2)
    world.ask(rr.SessionAlterationRequested, first, paused=True)
    second = world.finish(order=Order.SEQUENTIAL)
    assert second.status is SessionStatus.SUCCEEDED
    assert not asked(world, first)
    world.ask(rr.SessionAlterationRequested, first, paused=False)
    world.run()
    assert world.session(first).status is SessionStatus.SUCCEEDED


@pytest.mark.parametrize(("order", "most"), [(Order.SEQUENTIAL, 1), (Order.DATACENTER_PARALLEL, 2)])
def test_one_scans_at_a_time_in_all_segments_together(order: Order, most: int) -> None:
    """RE25: several segments under way are no reason to scan in several places."""
    places = {name: definition(name, datacenter=name[0]) for name in ("a1", "a2", "b1", "b2")}
    world = World({name: rows() for name in places}, **places)
    number = world.open(order=order, segments=3, parallel=3)
    seen = 0
    while not world.session(number).status.is_end:
        scans = [name for index, name in asked(world, number) if world.is_at(TaskKind.LEAVES, number, index)]
        seen = max(seen, len(scans))
        assert len(scans) <= most
        moved = [name for name, server in world.servers.items() if server.step()]
        assert world.turn_of_the_rendezvous() or moved, "nobody moves"
    assert seen == most
    assert len(world.events(TaskAssigned)) == 3 * 2 * 4
