"""Lease terms that are changed while a cluster runs: how long its coordinators wait (LE37)."""

from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, TERMS, World

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.ids import NOWHERE, Position
from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed, LeaseTermsRequested
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.read_backs import ReadBacks

MS = 1_000_000
SHORT_MS, LONG_MS = 1_000, 6_000
"""Fences; the margin stays."""

SHORT_PROCEED_MS, LONG_PROCEED_MS = SHORT_MS + TERMS.margin_ms, LONG_MS + TERMS.margin_ms
LATE_MS = 10 * STEP_MS
"""What a wait may be late by: some turns, and a thousandth of itself."""


def change(world: World, fence_ms: int | None = None, margin_ms: int | None = None) -> None:
    head = (world.operator_id(), world.log_id, "ada", "")
    world.ask(LeaseTermsRequested(*head, fence_ms, margin_ms))
    world.settle()


def accepted(world: World, name: str) -> bool:
    row = md.type_row(world.state, name)
    return row is not None and row.accepted_version > 0


def propose(world: World, name: str) -> None:
    world.propose("n1", md.ObjectType(name, {"id": "long"}))
    world.settle()


def waited_ms(world: World, name: str, at_most_ms: int = 3 * LONG_PROCEED_MS) -> int:
    """How long a proposal waits for silent n2, to a step."""
    propose(world, name)
    for waited in range(0, at_most_ms, STEP_MS):
        if accepted(world, name):
            return waited
        world.run(STEP_MS)
    raise AssertionError(f"{name} waits for more than {at_most_ms} ms")


def role(world: World, name: str) -> Role:
    return world.coordinators[name].driver.role


def cluster_of_two() -> World:
    world = World(["c1"], ["n1", "n2"])
    world.run(LATE_MS)
    return world


def go_deaf(world: World) -> None:
    """From now on n2 beats and applies nothing, so it is a member that a verdict waits for in full."""
    world.nodes["n2"].reader.batch_max = 0


# The wait of a position.


def test_each_position_waits_by_the_terms_in_force_at_it() -> None:
    """LE37: a fence that is raised later does not make an earlier decision wait longer."""
    read_backs = ReadBacks()
    read_backs.note(0, Position(10), 2_500)
    read_backs.note(100 * MS, Position(20), 6_500)
    assert read_backs.pass_time(2_500 * MS - 1) == NOWHERE
    assert read_backs.pass_time(2_500 * MS) == 10
    assert read_backs.pass_time(6_600 * MS - 1) == 10
    assert read_backs.pass_time(6_600 * MS) == 20


def test_a_later_position_that_has_waited_takes_the_earlier_ones_along() -> None:
    """LE37: behind the confirmation of a shorter fence, whatever was decided before it is waited for as long."""
    read_backs = ReadBacks()
    read_backs.note(0, Position(10), 2_500)
    read_backs.note(2_400 * MS, Position(20), 2_500)
    assert read_backs.pass_time(2_500 * MS) == 10
    read_backs.note(2_600 * MS, Position(30), 1_500)
    assert read_backs.pass_time(4_100 * MS - 1) == 10
    assert read_backs.pass_time(4_100 * MS) == 30


def test_what_has_been_waited_for_is_never_taken_back() -> None:
    """LE19: verdicts are monotone, whatever the terms become."""
    read_backs = ReadBacks()
    read_backs.note(0, Position(10), 1_000)
    assert read_backs.pass_time(1_000 * MS) == 10
    read_backs.note(1_000 * MS, Position(11), 60_000)
    assert read_backs.pass_time(2_000 * MS) == 10


# In a cluster.


def test_b8_a_lowered_fence_counts_for_waits_only_once_it_is_confirmed() -> None:
    """LE37: n2 has a lease by the former fence when it falls silent; all wait for that one, then for the new one."""
    world = cluster_of_two()
    change(world, SHORT_MS)
    go_deaf(world)
    waited = waited_ms(world, "A")
    assert PROCEED_MS <= waited <= PROCEED_MS + LATE_MS
    assert world.events(LeaseTermsConfirmed) != []
    world.nodes["n2"].reader.batch_max = 1_000
    world.run(SHORT_PROCEED_MS)
    go_deaf(world)
    waited = waited_ms(world, "B")
    assert SHORT_PROCEED_MS <= waited <= SHORT_PROCEED_MS + LATE_MS


def test_b5_what_was_decided_just_before_the_confirmation_does_not_wait_by_the_former_fence() -> None:
    """LE37: whatever lease could miss it is by the new fence once the change has been waited for."""
    world = cluster_of_two()
    change(world, SHORT_MS)
    world.run(PROCEED_MS - 200)
    assert world.events(LeaseTermsConfirmed) == []
    go_deaf(world)
    waited = waited_ms(world, "A")
    assert SHORT_PROCEED_MS <= waited <= 200 + SHORT_PROCEED_MS + LATE_MS


def test_f10_a_raised_fence_is_waited_for_at_once() -> None:
    """LE37: n2 was renewed behind the change, so its lease may run as long as the new fence."""
    world = cluster_of_two()
    change(world, LONG_MS)
    world.run(TERMS.fence_ms)
    go_deaf(world)
    waited = waited_ms(world, "A")
    assert LONG_PROCEED_MS <= waited <= LONG_PROCEED_MS + LATE_MS


def test_f10_what_was_decided_before_a_raise_waits_as_it_began() -> None:
    """LE37: an echo behind the raise is read after that decision, so no longer lease can miss it."""
    world = cluster_of_two()
    go_deaf(world)
    propose(world, "A")
    world.run(500)
    change(world, LONG_MS)
    world.run(PROCEED_MS - 500 - LATE_MS)
    assert not accepted(world, "A")
    world.run(2 * LATE_MS)
    assert accepted(world, "A")


def test_b8_lowered_then_raised_and_lowered_again() -> None:
    """LE37: the longest of all terms counts until the last change has been waited for, and no longer."""
    world = cluster_of_two()
    change(world, SHORT_MS)
    world.run(500)
    change(world, LONG_MS)
    world.run(500)
    change(world, SHORT_MS)
    go_deaf(world)
    waited = waited_ms(world, "A")
    assert LONG_PROCEED_MS <= waited <= LONG_PROCEED_MS + LATE_MS
    assert len(world.events(LeaseTermsConfirmed)) == 1
    assert terms.cluster(world.state).proceed_ms == SHORT_PROCEED_MS


def test_a_member_that_is_silent_leaves_by_the_terms_of_its_last_renewal() -> None:
    """LE24: renewed before the change, it is out after the former wait; renewed behind its confirmation, the new."""
    world = cluster_of_two()
    world.process("n2").paused = True
    change(world, SHORT_MS)
    world.run(PROCEED_MS - LATE_MS - TERMS.fence_ms // 4)
    assert world.events(m.NodeLeft) == []
    world.run(TERMS.fence_ms // 4 + 2 * LATE_MS)
    assert len(world.events(m.NodeLeft)) == 1
    world.node("n3")
    world.run(PROCEED_MS)
    world.process("n3").paused = True
    world.run(SHORT_PROCEED_MS + LATE_MS)
    assert len(world.events(m.NodeLeft)) == 2


def test_a_take_over_forgets_no_terms() -> None:
    """LE37: the new leader waits anew, with the longer fence, for what its predecessor had nearly waited for."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.run(LATE_MS)
    change(world, SHORT_MS)
    go_deaf(world)
    propose(world, "A")
    world.run(PROCEED_MS - 300)
    world.kill("c1")
    world.run(TERMS.fence_ms)
    assert role(world, "c2") is Role.LEADING
    led_ms = next(ms for ms in range(0, PROCEED_MS, STEP_MS) if _accepts_in_a_step(world, "A"))
    assert led_ms > PROCEED_MS - TERMS.fence_ms, "it did not go on by the shorter one"
    world.run(LATE_MS)
    assert len(world.events(LeaseTermsConfirmed)) == 1


def _accepts_in_a_step(world: World, name: str) -> bool:
    world.run(STEP_MS)
    return accepted(world, name)


def test_nobody_is_fenced_and_nobody_deposed_by_a_change() -> None:
    """LE37: a lowered fence has the leader beat more often from that moment on, a raised one less often only later."""
    world = World(["c1", "c2"], ["n1", "n2"])
    for fence_ms in (LONG_MS, SHORT_MS, 10_000, TERMS.fence_ms):
        change(world, fence_ms)
        for _ in range(2 * LONG_PROCEED_MS // STEP_MS):
            world.run(STEP_MS)
            assert not any(node.is_fenced for node in world.nodes.values())
    assert len(world.events(terms.TermStarted)) == 1
    assert world.events(m.NodeLeft) == []
    assert len(world.events(LeaseTermsChanged)) == 4
    assert world.leader().driver.core.agenda.gaps == 0, "a shorter limit made nobody deaf"


def test_a_take_over_time_that_is_set_goes_with_the_fence() -> None:
    """K5: a stand-by that acts after 600 ms of 2 s acts after 1.8 s of 6 s, or it would depose every leader."""
    world = World(["c1"], ["n1"])
    world.start("c2", takeover_ms=600)
    change(world, LONG_MS)
    world.run(3 * LONG_PROCEED_MS)
    assert len(world.events(terms.TermStarted)) == 1
    world.kill("c1")
    world.run(1_800 - LONG_MS // 4)
    assert role(world, "c2") is Role.FOLLOWING
    world.run(LONG_MS)
    assert role(world, "c2") is Role.LEADING


def test_a_confirmed_change_says_what_made_it_due() -> None:
    """K12: no input did, a wait did."""
    world = cluster_of_two()
    change(world, SHORT_MS)
    world.run(PROCEED_MS + LATE_MS)
    causes = [each.stamp.cause for each in world.decisions() if isinstance(each.event, LeaseTermsConfirmed)]
    assert causes == ["deadline: proceed_ms since the change"]
