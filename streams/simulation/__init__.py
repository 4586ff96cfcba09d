"""A seeded simulation of the real cores: `simulate(seed, steps, budget)` runs one cluster through one plan."""

from topolog.streams.simulation.checks import Rule
from topolog.streams.simulation.faults import Act, Faults
from topolog.streams.simulation.run import Report, Violation, simulate

__all__ = ["Act", "Faults", "Report", "Rule", "Violation", "simulate"]
