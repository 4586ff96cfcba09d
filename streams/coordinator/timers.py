"""Monotonic timers for deadlines: a wait starts when the position it counts from has been read back."""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable

from topolog.events.ids import Position
from topolog.streams.rules.deadlines import Deadline

_NS_PER_MS = 1_000_000


class Timers:
    """Deadlines not yet started (by position) and running (by the time they pass)."""

    def __init__(self) -> None:
        self._live: dict[str, tuple[int, Deadline]] = {}
        self._unstarted: list[tuple[Position, int, str]] = []
        self._running: list[tuple[int, int, str]] = []
        self._numbers = itertools.count()

    def change(self, changed: Iterable[tuple[str, Deadline | None]]) -> None:
        """Deadlines that are new, and keys that are gone."""
        for key, deadline in changed:
            if deadline is None:
                self._live.pop(key, None)
            else:
                number = next(self._numbers)
                self._live[key] = number, deadline
                heapq.heappush(self._unstarted, (deadline.position, number, key))
        self._compact()

    def pass_time(self, now_ns: int, confirmed: Position) -> list[str]:
        """Start the waits whose position is read back by now; returns the keys whose time has passed."""
        while self._unstarted and self._unstarted[0][0] <= confirmed:
            _, number, key = heapq.heappop(self._unstarted)
            if self._is_live(number, key):
                _, deadline = self._live[key]
                heapq.heappush(self._running, (now_ns + deadline.after_ms * _NS_PER_MS, number, key))
        passed = []
        while self._running and self._running[0][0] <= now_ns:
            _, number, key = heapq.heappop(self._running)
            if self._is_live(number, key):
                del self._live[key]
                passed.append(key)
        return passed

    def kinds(self) -> Counter[str]:
        """How many there are by what the key begins with; any thread may ask."""
        return Counter(key.partition("/")[0] for key in tuple(self._live))

    def _compact(self) -> None:
        """Forget entries of keys that are gone, or a day of short-lived keys would pile up."""
        if len(self._unstarted) + len(self._running) > 2 * len(self._live) + 1000:
            self._unstarted = [entry for entry in self._unstarted if self._is_live(*entry[1:])]
            self._running = [entry for entry in self._running if self._is_live(*entry[1:])]
            heapq.heapify(self._unstarted)
            heapq.heapify(self._running)

    def _is_live(self, number: int, key: str) -> bool:
        """A key that has come anew since, or with another time, has begun to wait anew."""
        return key in self._live and self._live[key][0] == number
