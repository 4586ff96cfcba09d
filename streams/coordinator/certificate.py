"""A coordinator beside its sentinel: when its process has died, a stand-by need not wait for its silence (K13)."""

from collections.abc import Callable

from topolog.events.codec import CODEC
from topolog.events.terms import CoordinatorDied
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.node.sentinel import Sentinel

KEY = "coordinators"
"""One key for all of them, hence one partition."""


def run_beside_sentinel(driver: Driver, sentinel: Sentinel, stopping: Callable[[], bool]) -> None:
    """Step until `stopping`; the sentinel is silent after an end in order, and after that alone."""
    sentinel.speak_for(KEY, CODEC.encode(CoordinatorDied(driver.instance, driver.life)))

    def look() -> bool:
        sentinel.look_after()
        return stopping()

    driver.run(look)
    sentinel.end(said_goodbye=driver.role in (Role.FOLLOWING, Role.RETIRED))
