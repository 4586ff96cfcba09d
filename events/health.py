"""Lease health: how punctual each node's heartbeats are, for people and alarms, never for a decision (LE39).

Threat. A lease is lost in an instant, but it seldom comes out of the blue: for minutes before, heartbeats arrive later
and later, of a node whose disk, network or garbage collector is in trouble, or whose service starts again and again.
Who sees it in time can act while nothing is lost yet.

What a heartbeat tells. The log's own time of its arrival, the number it has within its incarnation, and whether its
sender held a valid lease when it sent it. An acknowledgement is an early heartbeat, so only the **gap** between two
heartbeats that follow each other in one incarnation says something: it is `lateness` as far as it is longer than
heartbeat_ms. What was left of fence_ms when a heartbeat came is its **margin**. Of a margin that begins with fence_ms -
heartbeat_ms, the slack, a punctual node uses nothing; half of it gone is the moment to warn, for the echo that makes
the lease takes up to a quarter of fence_ms besides.

The figures are sums, so that those of minutes add up to those of a window. The times are of LogAppendTime, a broker's
wall clock: a step of that clock looks like lateness, which is one more reason why nothing is decided by them.
"""

from collections.abc import Iterable

import msgspec

from topolog.events.ids import Incarnation, NodeId, Offset

MINUTE_MS = 60_000
WINDOW_MINUTES = 10
"""What is shown as «the window»: the minute of the last heartbeat and those before it."""

FLAPS_IN_WINDOW = 3
"""So many starts and returns in one window are flapping; one is a deployment."""

_MOST = 1 << 62
"""Sums stop here: a record that somebody forged must not take the others out of Avro's range."""


class Figures(msgspec.Struct, frozen=True):
    """Sums over the heartbeats of a minute, or of an incarnation.

    `gaps` counts those that followed another of their incarnation, and of these are the longest gap and the sums of
    lateness and of jitter (how much lateness differs from one to the next). `missed`: whole periods in which none came;
    `lost`: numbers that never came; `fencings`: valid before, and now without a lease; `returns`: the other way round;
    `starts`: new incarnations; `strays`: heartbeats of an incarnation after a newer one had begun.
    """

    beats: int = 0
    gaps: int = 0
    gap_max_ms: int = 0
    lateness_ms: int = 0
    jitter_ms: int = 0
    missed: int = 0
    lost: int = 0
    fencings: int = 0
    returns: int = 0
    starts: int = 0
    strays: int = 0

    def plus(self, other: "Figures") -> "Figures":
        sums = {name: min(_MOST, getattr(self, name) + getattr(other, name)) for name in self.__struct_fields__}
        return Figures(**{**sums, "gap_max_ms": max(self.gap_max_ms, other.gap_max_ms)})

    @property
    def lateness_mean_ms(self) -> int | None:
        return self.lateness_ms // self.gaps if self.gaps else None

    @property
    def jitter_mean_ms(self) -> int | None:
        return self.jitter_ms // self.gaps if self.gaps else None

    @property
    def is_flapping(self) -> bool:
        return self.starts + self.returns >= FLAPS_IN_WINDOW

    def margin_ms(self, fence_ms: int) -> int | None:
        """What was left of the fence at the longest gap: the smallest margin. Below 0 the lease was surely over."""
        return fence_ms - self.gap_max_ms if self.gaps else None


class Minute(msgspec.Struct, frozen=True):
    """The figures of one minute of LogAppendTime, which begins at `start_ms`."""

    start_ms: int
    figures: Figures


class LeaseHealth(msgspec.Struct, frozen=True):
    """What the heartbeats of one node say up to the one at `offset` of heartbeats' `partition`, appended at `beat_ms`.

    `fenced` and `released` are that heartbeat's own words, `lateness_ms` is its; `minutes` are those of the window in
    which something came, oldest first, whatever incarnation; `whole` is of this incarnation alone.
    """

    node: NodeId
    incarnation: Incarnation
    log_id: bytes
    partition: int
    offset: Offset
    sequence: int
    beat_ms: int
    lateness_ms: int
    fence_ms: int
    heartbeat_ms: int
    fenced: bool
    released: bool
    minutes: tuple[Minute, ...]
    whole: Figures

    @property
    def window(self) -> Figures:
        return total(each.figures for each in self.minutes)

    @property
    def is_thin(self) -> bool:
        """Whether half of the slack was eaten by some gap in the window."""
        margin_ms = self.window.margin_ms(self.fence_ms)
        return margin_ms is not None and margin_ms < warning_margin_ms(self.fence_ms, self.heartbeat_ms)


class HealthHeard(msgspec.Struct, frozen=True):
    """A worker's own sign of life: it has read heartbeats' `partition` before `offset`, which was its end if `at_end`.

    Without it nobody could tell a node that is punctual from a worker that has died. `passed_over` counts what was no
    heartbeat of this log since this worker took the partition.
    """

    worker: str
    log_id: bytes
    partition: int
    offset: Offset
    at_end: bool
    passed_over: int


HealthRecord = LeaseHealth | HealthHeard


def total(figures: Iterable[Figures]) -> Figures:
    found = Figures()
    for each in figures:
        found = found.plus(each)
    return found


def warning_margin_ms(fence_ms: int, heartbeat_ms: int) -> int:
    """A margin below this has lost half of what a punctual node has left of its fence."""
    return (fence_ms - heartbeat_ms) // 2


def told_every_ms(fence_ms: int) -> int:
    """How often a worker tells what it knows, unless something happens: often enough for half a fence to be noticed."""
    return fence_ms // 8
