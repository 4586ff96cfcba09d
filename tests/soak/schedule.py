"""Which faults a round has, when and for how long: a function of its seed. Pure.

The first fault of a round goes through all kinds and targets in turn, seed by seed, so that a few dozen rounds have had
each; up to three more are drawn, and may overlap with it and with each other.
"""

import random
from collections.abc import Iterator
from enum import Enum

import msgspec

WINDOW_MS = 3_000
"""When faults begin; what is left of them ends within another such window."""

FAULTS_MAX = 4


class Kind(Enum):
    """`KILL` is kill -9, started again at the fault's end; `PAUSE` is SIGSTOP and SIGCONT; `RESTART` ends in order."""

    KILL = "kill -9"
    PAUSE = "pause"
    RESTART = "restart"
    CUT = "cut"
    HOLD = "black hole"
    HOLD_OUT = "black hole to the broker"
    HOLD_IN = "black hole from the broker"
    DELAY = "delay"
    ZOMBIE = "zombie"
    FOREIGN = "foreign records"
    CLOCK = "wall clock step"


class Target(Enum):
    """A role, found when the fault begins: who leads then, who leads the partition of `decisions` then."""

    LEADER = "coordinator"
    STAND_BY = "stand-by"
    NODE = "node"
    PROJECTOR = "projector"
    BROKER = "broker"
    BROKER_LEADER = "broker that leads decisions"
    TOPICS = "topics"


PROCESSES = (Target.LEADER, Target.STAND_BY, Target.NODE, Target.PROJECTOR)
BROKERS = (Target.BROKER_LEADER, Target.BROKER)
NETWORK = (Kind.CUT, Kind.HOLD, Kind.HOLD_OUT, Kind.HOLD_IN, Kind.DELAY)

PAIRS = (
    *((kind, target) for kind in (Kind.KILL, Kind.PAUSE) for target in (*PROCESSES, *BROKERS)),
    *((Kind.RESTART, target) for target in PROCESSES),
    *((kind, target) for kind in NETWORK for target in PROCESSES),
    (Kind.ZOMBIE, Target.LEADER),
    (Kind.FOREIGN, Target.TOPICS),
    *((Kind.CLOCK, target) for target in PROCESSES),
)
"""Every fault there is."""

SHORTEST_MS = {Kind.ZOMBIE: 2_000}
"""A zombie is one only if it has slept through a take-over."""


class Fault(msgspec.Struct, frozen=True):
    """`which` picks one where a target has several; `size` is how far a clock steps in s, or a delay in ms."""

    at_ms: int
    for_ms: int
    kind: Kind
    target: Target
    which: int = 0
    size: int = 0

    def __str__(self) -> str:
        size = {Kind.DELAY: f" of {self.size} ms", Kind.CLOCK: f" by {self.size} s"}.get(self.kind, "")
        return f"{self.kind.value}{size} {self.target.value} at {self.at_ms} ms for {self.for_ms} ms"


def plan(seed: int) -> tuple[Fault, ...]:
    """The faults of one round in the order of their beginnings."""
    chance = random.Random(seed)
    pairs = [PAIRS[seed % len(PAIRS)], *(chance.choice(PAIRS) for _ in range(chance.randrange(FAULTS_MAX)))]
    return tuple(sorted((_fault(*pair, chance) for pair in pairs), key=lambda fault: fault.at_ms))


def _fault(kind: Kind, target: Target, chance: random.Random) -> Fault:
    return Fault(
        at_ms=chance.randrange(WINDOW_MS),
        for_ms=chance.randrange(SHORTEST_MS.get(kind, 100), WINDOW_MS),
        kind=kind,
        target=target,
        which=chance.randrange(1 << 16),
        size=_size(kind, chance),
    )


def _size(kind: Kind, chance: random.Random) -> int:
    if kind is Kind.DELAY:
        return chance.choice((20, 100, 400, 1_500))
    if kind is Kind.CLOCK:
        return chance.choice((-86_400, -3_600, -5, 5, 3_600, 86_400))
    return 0


def moments(faults: tuple[Fault, ...]) -> Iterator[tuple[int, bool, Fault]]:
    """(ms, begins or ends, fault) in the order of time."""
    begins = [(fault.at_ms, True, fault) for fault in faults]
    ends = [(fault.at_ms + fault.for_ms, False, fault) for fault in faults]
    yield from sorted([*begins, *ends], key=lambda moment: moment[0])
