"""Counting how long things take, without a library: what a role measures of itself, for whoever shows it.

The node client and the coordinator are of the base install, and their cores are pure: they count here, and the file
that speaks to Prometheus reads it when Prometheus asks.
"""

from bisect import bisect_left
from collections.abc import Sequence

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds: from an answer on one machine to an exchange that waits for a node which is gone."""


class Durations:
    """How many durations were at most each bound, and their sum. One thread observes; any thread reads `buckets`."""

    def __init__(self, bounds_s: Sequence[float] = BOUNDS_S) -> None:
        self.sum_s = 0.0
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)

    def observe(self, seconds: float) -> None:
        """One more; a negative one, as two clocks make it, counts as 0."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, int]]:
        """As Prometheus has them: (upper bound, how many are not above it), the last one without a bound."""
        found, total = [], 0
        for bound, count in zip((*map(str, self._bounds_s), "+Inf"), tuple(self._counts), strict=True):
            total += count
            found.append((bound, total))
        return found
