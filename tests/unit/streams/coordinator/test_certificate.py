"""When a coordinator's sentinel may be silent: only when nothing of its process can lead any more (K13)."""

from tests.unit.scenarios.world import World

from topolog.streams.coordinator.certificate import run_beside_sentinel
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.node.sentinel import Sentinel


class Noting(Sentinel):
    """Starts no process; notes whether it was told that its coordinator has said goodbye."""

    def __init__(self) -> None:
        super().__init__({}, "demo", is_wanted=False)
        self.ends: list[bool] = []

    def end(self, *, said_goodbye: bool) -> None:
        self.ends.append(said_goodbye)


def test_a_coordinator_that_ends_while_its_claim_is_on_its_way_has_not_said_goodbye() -> None:
    """Its TermStarted may land behind its end, and then it leads: who waits for it would wait for its silence."""
    world = World(["c1"])
    world.run(1_000)
    claiming = world.start("c2")
    claiming.writer.prompt = False
    world.leader().paused = True
    for _ in range(100):
        world.run(100)
        if claiming.driver.role is Role.CLAIMING:
            break
    assert claiming.driver.role is Role.CLAIMING
    assert ended_as(claiming.driver) == [False]


def test_a_stand_by_and_a_leader_that_has_retired_have_said_goodbye() -> None:
    """Nothing follows that a stand-by could wait for."""
    world = World(["c1"])
    world.run(1_000)
    standing_by = world.start("c2")
    world.run(1_000)
    assert standing_by.driver.role is Role.FOLLOWING
    assert ended_as(standing_by.driver) == [True]
    leading = world.leader()
    assert ended_as(leading.driver) == [True]
    assert leading.driver.role is Role.RETIRED


def ended_as(driver: Driver) -> list[bool]:
    """What its sentinel is told at the end of a coordinator that is to stop at once."""
    sentinel = Noting()
    run_beside_sentinel(driver, sentinel, lambda: True)
    return sentinel.ends
