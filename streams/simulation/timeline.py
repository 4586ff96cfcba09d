"""The one true time of a simulation, and what is to happen in it.

Everything that happens is an action at a moment; nothing waits and nothing runs beside anything else, so chance decides
the whole history and a seed repeats it. The true time is the simulation's secret: a process knows only its own
machine's clocks.

Each process life draws from a source of its own. What befalls one of them then leaves the draws of all others as they
were, and a plan with one act less meets nearly the same world: without that no failing plan could be shortened.
"""

import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]

NS_PER_MS = 1_000_000
DRIFT_PPM_MAX = 45_000
"""How far the rate of a machine's clock may be off: far more than any real one, so that what drift can do is not lost
among the delays."""

_WALL_MS = 1_700_000_000_000


class Timeline:
    """Actions in the order of their moments, those of one moment in the order in which they were planned."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._planned: list[tuple[int, int, Action]] = []
        self._count = 0

    @property
    def now_ms(self) -> int:
        return self.now_ns // NS_PER_MS

    def wall_ms(self) -> int:
        """The broker's time: UTC, and right."""
        return _WALL_MS + self.now_ms

    def after(self, delay_ms: float, action: Action) -> None:
        self._count += 1
        heapq.heappush(self._planned, (self.now_ns + int(delay_ms * NS_PER_MS), self._count, action))

    def advance(self) -> None:
        """Go to the next moment at which something happens, and let it happen."""
        self.now_ns, _, action = heapq.heappop(self._planned)
        action()

    @property
    def next_ns(self) -> int:
        """The moment to which `advance` goes."""
        return self._planned[0][0]


def between(chance: random.Random, least_ms: float, most_ms: float) -> float:
    return least_ms + chance.random() * (most_ms - least_ms)


class DriftingClock:
    """The clocks of one machine: off by a rate and an offset, and stopped or not while it is suspended.

    Without a boottime both are stopped then: no lease ends by such a clock.
    """

    def __init__(self, timeline: Timeline, chance: random.Random, *, has_boottime: bool = True) -> None:
        self._timeline = timeline
        self._has_boottime = has_boottime
        self.rate_ppm = chance.choice((-DRIFT_PPM_MAX, DRIFT_PPM_MAX, chance.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)))
        self._offset_ns = chance.randrange(10**15)
        self._wall_offset_ms = chance.randint(-60_000, 60_000)
        self._asleep_ns = 0
        self._fell_asleep_ns: int | None = None

    def monotonic_ns(self) -> int:
        now_ns = self._timeline.now_ns if self._fell_asleep_ns is None else self._fell_asleep_ns
        return self._own(now_ns - self._asleep_ns)

    def boottime_ns(self) -> int:
        return self._own(self._timeline.now_ns) if self._has_boottime else self.monotonic_ns()

    def wall_ms(self) -> int:
        return self._timeline.wall_ms() + self._wall_offset_ms

    def sleep(self) -> None:
        """The machine is suspended."""
        if self._fell_asleep_ns is None:
            self._fell_asleep_ns = self._timeline.now_ns

    def wake(self) -> None:
        if self._fell_asleep_ns is not None:
            self._asleep_ns += self._timeline.now_ns - self._fell_asleep_ns
            self._fell_asleep_ns = None

    def _own(self, true_ns: int) -> int:
        return self._offset_ns + true_ns + true_ns * self.rate_ppm // 1_000_000
