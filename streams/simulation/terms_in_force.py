"""What lease terms mean for true times, by a reading of the log of its own: which waits may be over, and which leases.

It knows nothing of confirmations, of the larger and the smaller. Of each decision it says from when on no lease can
miss it, on the slowest clock of a holder, and how long a coordinator must have waited for it, on its own fastest one,
straight from the argument of `events/lease_terms.py`: a lease rests on an echo, and runs by the terms at that echo.
"""

from collections import deque

from topolog.events.ids import NOWHERE, Position
from topolog.events.lease_terms import LeaseTermsChanged
from topolog.events.terms import LogStarted
from topolog.streams.simulation.ledger import Standing
from topolog.streams.simulation.timeline import DRIFT_PPM_MAX, NS_PER_MS

_SLOWEST = 1_000_000 - DRIFT_PPM_MAX
_FASTEST = 1_000_000 + DRIFT_PPM_MAX


def longest_ns(ms: int) -> int:
    """The longest true time that passes while any clock shows this."""
    return ms * NS_PER_MS * 1_000_000 // _SLOWEST + 1


def shortest_ns(ms: int) -> int:
    """The shortest true time that passes while any clock shows this."""
    return ms * NS_PER_MS * 1_000_000 // _FASTEST


class TermsInForce:
    """Decisions go in, in order, with the true time since which they stand in the log."""

    def __init__(self) -> None:
        self._fence_ms = self._margin_ms = 0
        self._leases_until_ns = self._waits_until_ns = 0
        self._fences: list[tuple[Position, int]] = []
        self._waited_ns: dict[Position, int] = {}
        self._stands_ns: dict[Position, int] = {}
        self._over: deque[tuple[int, Position]] = deque()
        self._outdated = NOWHERE

    def note(self, standing: Standing) -> None:
        """One more decision. What can miss it rests on the terms before it."""
        at_ns, position = standing.at_ns, standing.place.position
        self._stands_ns[position] = at_ns
        waited_ns = self._waited_ns[position] = max(at_ns + self._shortest_wait_ns, self._waits_until_ns)
        over_ns = max(at_ns + longest_ns(self._fence_ms), self._leases_until_ns)
        self._over.append((over_ns, position))
        match standing.event:
            case LogStarted() as terms:
                self._change(position, terms.fence_ms, terms.margin_ms)
            case LeaseTermsChanged() as terms:
                self._waits_until_ns, self._leases_until_ns = waited_ns, over_ns
                self._change(position, terms.fence_ms, terms.margin_ms)

    def fence_ms_at(self, position: Position) -> int:
        """The fence of a lease that rests on an echo there."""
        return next(fence_ms for since, fence_ms in reversed(self._fences) if since <= position)

    def outdated(self, now_ns: int) -> Position:
        """The last decision that every valid lease has applied by now; times asked for never go back."""
        while self._over and self._over[0][0] <= now_ns:
            self._outdated = self._over.popleft()[1]
        return self._outdated

    def waited_ns(self, position: Position) -> int:
        """The earliest true time at which a coordinator can have waited for this decision, or for a lease that was
        renewed by it."""
        return self._waited_ns[position]

    def silent_ns(self, position: Position) -> int:
        """The same for a client, which holds no lease: after the shortest fence since then."""
        later = (fence_ms for since, fence_ms in self._fences if since > position)
        return self._stands_ns[position] + shortest_ns(min((self.fence_ms_at(position), *later)))

    @property
    def longest_lease_ns(self) -> int:
        """The longest true time for which any lease so far can have run."""
        return longest_ns(max(fence_ms for _, fence_ms in self._fences))

    @property
    def _shortest_wait_ns(self) -> int:
        return shortest_ns(self._fence_ms + self._margin_ms)

    def _change(self, position: Position, fence_ms: int, margin_ms: int) -> None:
        self._fence_ms, self._margin_ms = fence_ms, margin_ms
        self._fences.append((position, fence_ms))
