"""How fast something goes, and not faster than it may."""

from collections import deque
from collections.abc import Callable

_WINDOW_S = 10.0
"""A rate is that of the last seconds: what was fast an hour ago says nothing about when it is done."""

_SAVED_S = 1.0


class Pace:
    """`limit` is the most units per second, None for no limit; one thread uses it."""

    def __init__(self, limit: float | None, now_s: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._limit = limit
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()
        self._seen: deque[tuple[float, int]] = deque()

    def spend(self, units: int) -> None:
        """So many were done; waits until as much time has gone as they may take. Of what was not used before, a second
        counts."""
        if self._limit is None:
            return
        now_s = self._now_s()
        self._due_s = max(self._due_s, now_s - _SAVED_S) + units / self._limit
        if self._due_s > now_s:
            self._sleep(self._due_s - now_s)

    def rate(self, done: int) -> float:
        """Units per second of late, `done` being all so far; 0 while nobody knows."""
        now_s = self._now_s()
        self._seen.append((now_s, done))
        while now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        began_s, before = self._seen[0]
        return (done - before) / (now_s - began_s) if now_s > began_s else 0.0
