"""The clocks, passed in everywhere: one real, one that a test moves.

Holders of a lease use the clock that runs on while the machine is suspended, waiters the one that stops, so that a
suspended machine errs to the safe side on both ends (LE13). Wall time is for people only.
"""

import sys
import time
from typing import Protocol

CAN_FENCE = sys.platform == "linux"
"""Whether this platform has a clock that surely runs through suspend; elsewhere a node announces no fencing."""


class Clock(Protocol):
    def monotonic_ns(self) -> int:
        """For waiters: stops while the machine is suspended."""

    def boottime_ns(self) -> int:
        """For holders of a lease: runs on while the machine is suspended."""

    def wall_ms(self) -> int:
        """UTC in ms, for people."""


class SystemClock:
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def boottime_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if CAN_FENCE else time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; `suspend` moves only what runs through suspend."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ns = 1_000_000_000
        self._boottime_ns = 1_000_000_000
        self._wall_ms = wall_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def boottime_ns(self) -> int:
        return self._boottime_ns

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, ms: float) -> None:
        self._monotonic_ns += int(ms * 1_000_000)
        self.suspend(ms)

    def suspend(self, ms: float) -> None:
        self._boottime_ns += int(ms * 1_000_000)
        self._wall_ms += int(ms)
