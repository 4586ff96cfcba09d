"""A seeded simulation of the real cores: `simulate(seed, span_ms, budget)` runs one cluster through one plan."""

from topolog.streams.simulation.faults import Act, Faults
from topolog.streams.simulation.rules import Rule
from topolog.streams.simulation.run import Case, Report, Violation, drawn, replay, simulate
from topolog.streams.simulation.shrinking import shrink

__all__ = ["Act", "Case", "Faults", "Report", "Rule", "Violation", "drawn", "replay", "shrink", "simulate"]
