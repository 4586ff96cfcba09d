"""The known defects of leases and of schema broadcasts, one test each, for schema change.

Each was seen to fail with its remedy broken; «Broken» says which line was, and how. Most remedies are shared with
metadata agreement, whose tests of the same defects stand in `tests/unit/streams/coordinator/test_defects.py`; here a
table is what is served. LE37, a fence that changes while it is in force, is in the tests of lease terms.
"""

import msgspec
import pytest
from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, TERMS, Member, World
from tests.unit.streams.coordinator.test_schema import Study, asked
from tests.unit.streams.rules.changing import Changing, add, alter, cancellation, change, database, drop, table

from topolog.events.claims import line
from topolog.events.errors import Undecodable
from topolog.events.evidence import Evidence
from topolog.events.fold import Ignored
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.object_definition import Statement
from topolog.events.objects import (
    ChangeStatus,
    ObjectRow,
    ObjectStatus,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeRolledBack,
    object_row,
)
from topolog.events.snapshot_content import Content, Cut, Loader

ORDERS = "shop.orders"
ADD_NOTE = alter(ORDERS, add("note"))


def shop(*coordinators: str) -> World:
    """A table that two servers have applied."""
    world = World(coordinators or ("c1",), ["n1", "n2"])
    asked(world, database(), table())
    world.run(1_000)
    assert len(commits(world)) == 1
    return world


def commits(world: World) -> list[Evidence]:
    events = world.events(SchemaChangeCommitted)
    return [each.evidence for each in events if isinstance(each, SchemaChangeCommitted)]


def is_changing(member: Member, status: ObjectStatus = ObjectStatus.PRE_ALTER) -> bool:
    row = object_row(member.state, ORDERS)
    return row is not None and row.status is status


def serves(member: Member) -> tuple[ObjectStatus, int] | None:
    """Status and version of the table it answers from; None while it is fenced."""
    row = object_row(member.state, ORDERS)
    return None if member.is_fenced or row is None else (row.status, row.version)


def begin(world: World, *statements: Statement) -> None:
    asked(world, *statements)
    world.settle()


def test_f1_a_server_that_hears_nothing_stops_before_the_change_goes_on() -> None:
    """TA18, asymmetric reachability: its heartbeats arrive, and nothing reaches it.

    Broken: `elif waited and` without `waited` in `verdict` (`streams/rules/verdict.py`).
    """
    world = shop()
    deaf = world.nodes["n2"]
    deaf.reader.batch_max = 0
    asked(world, ADD_NOTE)
    while len(commits(world)) == 1:
        world.run(STEP_MS)
        assert deaf.is_fenced or len(commits(world)) == 1, "a server answers from what a commit has ended"
    assert commits(world)[-1].presumed_fenced == ("n2",)


def test_f2_a_server_that_catches_up_slowly_serves_no_longer_for_that() -> None:
    """LE2: what it has read is as old as its heartbeat, however long it took to read.

    Broken: `self._sent[sequence] = at_ns` noted at the echo instead (`echoed` with `at_ns = now_ns`,
    `streams/node/lease.py`).
    """
    world = shop()
    slow = world.nodes["n2"]
    slow.paused = True
    world.run(TERMS.heartbeat_ms * 2)
    before = world.clock.boottime_ns()
    slow.session.beat()
    world.leader().step()
    begin(world, ADD_NOTE)
    world.run(1_500)
    slow.step()
    assert is_changing(slow)
    assert slow.session.core.lease.deadline_ns <= before + TERMS.fence_ms * 1_000_000


def test_f3_a_fenced_server_comes_back_only_with_the_preparation() -> None:
    """TA18: there is no pull beside the log, so nobody comes back with what was before.

    Broken: `self.deadline_ns = ...` set in `sent` already (`streams/node/lease.py`).
    """
    world = shop()
    away = world.nodes["n2"]
    away.paused = True
    world.run(TERMS.fence_ms + STEP_MS)
    assert serves(away) is None
    away.reader.batch_max = 0
    begin(world, ADD_NOTE)
    away.paused = False
    served = []
    for _ in range(40):
        world.run(STEP_MS)
        away.reader.batch_max = 1
        served.append(serves(away))
    assert any(served)
    assert (ObjectStatus.USING, 1) not in served


def test_f4_what_a_deposed_leader_decides_about_a_change_is_nothing() -> None:
    """K3: its rollback arrives behind the new term, and nobody rolls back.

    Broken: `if stamp.term < header.term` made False in `Judge` (`events/fold.py`).
    """
    first = Study.of("n1")
    number = first.begin(database())
    first.ask(msgspec.structs.replace(cancellation(number), log_id=first.core.ahead.log_id))
    late = first.take()
    second = first.successor()
    before = second.core.state.hash()
    second.send(late)
    assert second.follow() == [Ignored.OLD_TERM]
    assert second.core.state.hash() == before
    assert second.change(number).status is ChangeStatus.PREPARED


def test_f5_a_preparation_that_arrives_again_overwrites_nothing() -> None:
    """K3: a record that is sent again is a repeat, whatever has come meanwhile; a version of an object comes once.

    Broken: `if stamp.sequence < header.next_sequence` made False in `Judge` (`events/fold.py`).
    """
    desk = Study.of("n1")
    desk.ask(msgspec.structs.replace(change(database()), log_id=desk.core.ahead.log_id))
    sent = desk.take()
    desk.send(sent)
    desk.follow()
    desk.hear_all(2)
    desk.land()
    before = desk.core.state.hash()
    desk.send(sent)
    assert desk.follow() == [Ignored.REPEAT]
    assert desk.core.state.hash() == before
    row = object_row(desk.core.state, "shop")
    assert row is not None
    assert row.status is ObjectStatus.USING


def test_f6_a_server_that_cannot_fence_itself_is_never_presumed_to_be() -> None:
    """TA16: during a rolling upgrade an old server is waited for, or removed by somebody who knows.

    Broken: `FENCING in row.capabilities` made True in `verdict` (`streams/rules/verdict.py`).
    """
    found = Changing("n1")
    found.join("old", fences=False)
    number = found.begin(database())
    found.apply("n1")
    assert found.wait_out() == []
    assert found.change(number).status is ChangeStatus.PREPARED
    (committed,) = found.leave("old")
    assert isinstance(committed, SchemaChangeCommitted)
    assert committed.evidence.presumed_fenced == ()


def test_f7_a_recovering_server_makes_a_change_wait_and_not_fail() -> None:
    """TA19: that it is fenced is no answer to the change; only `blocked` is.

    Broken: `reports.blocks()` in `Core._due_objects` (`streams/coordinator/core.py`) with every fenced node added, as
    blocked at the first open preparation.
    """
    desk = Study.of("n1", "n2")
    number = desk.begin(database())
    desk.hear_all(2, "n1")
    desk.hear(msgspec.structs.replace(desk.beat(2, Position(0), node="n2"), fenced=True))
    desk.land()
    assert desk.change(number).status is ChangeStatus.PREPARED
    desk.hear_all(3, "n2")
    desk.land()
    assert desk.change(number).status is ChangeStatus.COMMITTED


def test_f8_a_server_that_dies_within_the_wait_delays_the_change_by_no_more_than_the_wait() -> None:
    """TA16: the wait counts from the preparation and ends in going on, not in failing shortly before it could.

    Broken: `waited=position <= waited_through` made False in `verdict_on` (`streams/rules/objects.py`).
    """
    world = shop()
    world.nodes["n2"].reader.batch_max = 0
    begin(world, ADD_NOTE)
    world.run(PROCEED_MS - 500)
    world.kill("n2")
    world.run(500 + 3 * STEP_MS)
    assert commits(world)[1:] == [Evidence(applied=(NodeId("n1"),), presumed_fenced=(NodeId("n2"),))]
    assert world.events(SchemaChangeRolledBack) == []


def test_f9_a_half_bad_server_costs_one_wait_and_is_out() -> None:
    """TA17: its heartbeats are fine and it applies nothing. It is renewed no more, so the next change does not wait.

    Broken: `and heard.applied >= needed` left out in `_grown` (`streams/rules/membership.py`).
    """
    world = shop()
    world.nodes["n2"].reader.batch_max = 0
    begin(world, ADD_NOTE)
    world.run(2 * PROCEED_MS + 600)
    begin(world, alter(ORDERS, add("more")))
    assert [each.presumed_fenced for each in commits(world)] == [(), ("n2",), ()]
    assert commits(world)[-1].applied == ("n1",)


def test_f11_a_state_without_its_objects_is_no_state() -> None:
    """TA18: a server that recovers with an empty state would serve that as the truth.

    Broken: `if self._state.hash() != state_hash` made False in `Loader.finish` (`events/snapshot_content.py`).
    """
    found = Changing("n1")
    found.make(database(), table())
    rows = {kind: each for kind, each in found.state.copies().items() if kind != ObjectRow.KIND}
    content, loader = Content(Cut(Study.of().core.ahead, rows)), Loader()
    for piece in content.pieces():
        if piece:
            loader.feed(piece)
    with pytest.raises(Undecodable, match="state hash"):
        loader.finish(content.digest, found.state.hash())


def test_f12_a_server_that_joins_in_mid_change_has_it_and_is_not_waited_for() -> None:
    """TA15: it holds no lease before it has applied everything up to its own joining.

    Broken: `and row.joined_at < position` left out in `holders` (`streams/rules/verdict.py`). What it serves rests on
    TA18.
    """
    world = shop()
    world.process("n2").paused = True
    begin(world, ADD_NOTE)
    newcomer = world.node("n3")
    assert not newcomer.is_fenced
    assert is_changing(newcomer)
    newcomer.paused = True
    world.process("n2").paused = False
    world.run(300)
    assert commits(world)[1:] == [Evidence(applied=(NodeId("n1"), NodeId("n2")))]


def test_f13_the_wait_is_over_at_the_very_position_that_was_waited_for_and_not_before() -> None:
    """TA16: one comparison, not two that differ.

    Broken: `position <= waited_through` made `<`, and made `<= waited_through + 1`, in `verdict_on`
    (`streams/rules/objects.py`).
    """
    found = Changing("n1", "n2")
    number = found.begin(database())
    found.apply("n1")
    found.waited_through = Position(number - 1)
    assert found.settle() == []
    found.waited_through = number
    assert len(found.settle()) == 1


def test_f14_behind_a_server_that_is_out_nobody_waits_and_one_wait_serves_all() -> None:
    """TA17: three changes behind one silent server are committed together; the next one at once.

    Broken: `row.holds_lease and` left out in `holders` (`streams/rules/verdict.py`); for the one wait, `break` moved
    behind the first that is found in `_committed` (`streams/rules/objects.py`).
    """
    world = shop()
    world.kill("n2")
    for name in ("a", "b", "c"):
        begin(world, table(f"shop.{name}"))
    world.run(PROCEED_MS + 100)
    together = world.events(SchemaChangeCommitted)[-1]
    assert isinstance(together, SchemaChangeCommitted)
    assert len(together.changes) == 3
    world.run(1_000)
    begin(world, table("shop.d"))
    assert commits(world)[-1] == Evidence(applied=(NodeId("n1"),))
    assert line(world.state) == ()


def test_f15_a_rollback_needs_nobody_and_never_fails() -> None:
    """TA22: one server is silent and another one blocked; the change is over, and the name is free for others.

    Broken: `state.drop(ObjectRow, step.name)` left out in `_roll_back_step` (`events/objects.py`).
    """
    found = Changing("n1", "n2", "n3")
    found.make(database())
    number = found.begin(table())
    (rolled_back,) = found.block("n2", number)
    assert isinstance(rolled_back, SchemaChangeRolledBack)
    assert found.is_over()
    assert object_row(found.state, ORDERS) is None
    (prepared,) = found.ask(change(table(a=table().definition.columns[0].type)))  # type: ignore[union-attr]
    assert isinstance(prepared, SchemaChangePrepared)


def test_f15_a_server_that_was_away_rolls_back_when_it_is_back() -> None:
    """TA22: whatever marker it has, the log takes it away. Beside it, the drop that was rolled back left nothing.

    Broken: `status=ObjectStatus.USING` left out in `_roll_back_step` (`events/objects.py`).
    """
    world = shop()
    away = world.nodes["n2"]
    begin(world, ADD_NOTE)
    asked(world, drop())
    world.leader().step()
    away.step()
    away.paused = True
    number = line(world.state)[-1]
    world.ask(msgspec.structs.replace(cancellation(number), id=world.operator_id(), log_id=world.log_id))
    world.settle()
    assert line(world.state) == ()
    assert is_changing(away, ObjectStatus.PRE_DELETE)
    away.paused = False
    world.settle()
    assert is_changing(away, ObjectStatus.USING)
    assert not away.is_fenced


def test_a_blocked_server_that_never_says_more_is_no_reason_to_presume_anything() -> None:
    """TA17 with TA19: a server that lives and says that it cannot apply an earlier decision is open until it leaves.

    Broken: `unable=unable` left out in `verdict_on` (`streams/rules/objects.py`).
    """
    found = Changing("n1", "n2")
    first = found.begin(database())
    second = found.begin(database("mall"))
    found.apply("n1")
    found.applied[NodeId("n2")] = Incarnation(1), second
    found.block("n2", first)
    assert found.wait_out() == []
    assert found.change(second).status is ChangeStatus.PREPARED
    assert len(found.leave("n2")) == 1
