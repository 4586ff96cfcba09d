"""By what terms a worker measures: those of the log's end (LE39)."""

from tests.unit.scenarios.world import TERMS, World

from topolog.events.lease_terms import LeaseTermsRequested
from topolog.streams.lease_health.terms import Follower
from topolog.streams.lease_health.windows import Terms


def change(world: World, fence_ms: int) -> None:
    world.ask(LeaseTermsRequested(world.operator_id(), world.log_id, "ada", "", fence_ms))
    world.settle()


def test_the_terms_are_those_of_the_newest_change() -> None:
    """Of a log that was changed before and is changed again while it is read, over a take-over as well."""
    world = World(["c1", "c2"], ["n1"])
    change(world, 3_000)
    follower = Follower(world.log.reader())
    follower.step(0)
    assert follower.newest == Terms(world.log_id, 3_000, TERMS.heartbeat_ms)
    world.leader().driver.retire()
    world.settle()
    change(world, 1_500)
    follower.step(0)
    assert follower.newest == Terms(world.log_id, 1_500, TERMS.heartbeat_ms)


def test_nothing_is_said_before_the_end_of_the_log_is_reached() -> None:
    """Terms that were changed long ago would begin a worker's run for nothing."""
    world = World(["c1"], ["n1"])
    change(world, 3_000)
    reader = world.log.reader()
    reader.batch_max = 1
    follower = Follower(reader)
    said = []
    for _ in world.decisions():
        follower.step(0)
        said.append(follower.newest)
    assert said[:-1] == [None] * (len(said) - 1)
    assert said[-1] == Terms(world.log_id, 3_000, TERMS.heartbeat_ms)


def test_an_empty_log_has_no_terms() -> None:
    follower = Follower(World().log.reader())
    follower.step(0)
    assert follower.newest is None


def test_what_does_not_count_changes_nothing() -> None:
    """K3: what a deposed leader had decided lands behind a later change of its successor's."""
    world = World(["c1", "c2"], ["n1"])
    zombie = world.coordinators["c1"]
    zombie.writer.prompt = False
    world.ask(LeaseTermsRequested(world.operator_id(), world.log_id, "ada", "", 3_000))
    zombie.step()
    zombie.paused = True
    world.run(TERMS.fence_ms)
    change(world, 1_500)
    assert zombie.writer.in_flight
    zombie.writer.land()
    follower = Follower(world.log.reader())
    follower.step(0)
    assert follower.newest == Terms(world.log_id, 1_500, TERMS.heartbeat_ms)
