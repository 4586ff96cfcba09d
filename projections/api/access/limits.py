"""How much one principal may ask at once: changes a minute, and watches that are open, or
whatever else waits. Pure but for the clock given.

Threat: one script that has gone wild, or one stolen token, takes the API from everybody else.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from topolog.projections.api.access.principals import Denied, Key, Principal

_MINUTE_S = 60.0


class Limits:
    """For each principal a bucket of changes, refilled evenly, and a count of watches. Of one event loop."""

    def __init__(self, changes_per_minute: int, watches: int, now_s: Callable[[], float]) -> None:
        self._per_minute = changes_per_minute
        self._watches_max = watches
        self._now_s = now_s
        self._buckets: dict[Key, tuple[float, float]] = {}
        self._open: Counter[Key] = Counter()

    def change(self, principal: Principal) -> None:
        """Count a change; raises Denied for one too many."""
        who, now_s = principal.key, self._now_s()
        left, at_s = self._buckets.get(who, (float(self._per_minute), now_s))
        left = min(self._per_minute, left + (now_s - at_s) * self._per_minute / _MINUTE_S)
        if left < 1:
            raise too_many(
                f"{principal.name} has made {self._per_minute} changes within a minute.", "auth.changes_per_minute"
            )
        self._buckets[who] = (left - 1, now_s)
        self._forget(now_s)

    @contextmanager
    def watching(self, principal: Principal) -> Iterator[None]:
        """A watch, or a question that waits, as long as it is open; raises Denied for one too many."""
        who = principal.key
        if self._open[who] >= self._watches_max:
            raise too_many(
                f"{principal.name} has {self._watches_max} watches open, or questions that wait.", "auth.watches"
            )
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    def _forget(self, now_s: float) -> None:
        """Principals whose buckets are full again are as good as new."""
        if len(self._buckets) > 1_000:
            self._buckets = {who: held for who, held in self._buckets.items() if now_s - held[1] < _MINUTE_S}


def too_many(why: str, setting: str) -> Denied:
    return Denied(HTTPStatus.TOO_MANY_REQUESTS, "too_many", why, hint=f"Wait a little; the limit is {setting}.")
