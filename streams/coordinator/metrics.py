"""What Prometheus is told of a coordinator: who it is, what it has decided, how long that takes, what it waits for."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from topolog.events.families import Families, Metric
from topolog.events.views import REFUSED_KINSHIPS
from topolog.streams.clock import Clock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.coordinator.measures import INPUTS, Measures

_OUTCOMES = dict.fromkeys(("granted", "unchanged", "refused", "repeated"), 0.0)
_FORKS = dict.fromkeys(REFUSED_KINSHIPS, 0.0)
"""What an alarm looks at is there from the beginning: Prometheus sees no increase in what appears with 1."""

_WAITS = ("lease", "idle", "exchange", "adjust", "change", "session", "task", "retry", "schedule")


class CoordinatorMetrics:
    """Read from the driver when Prometheus asks. A stand-by has the same metrics as a leader."""

    def __init__(self, driver: Driver, cluster: str, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._families = Families("topolog_coordinator", cluster)

    def collect(self) -> Iterator[Metric]:
        driver, core, families = self._driver, self._driver.core, self._families
        measures, waits = driver.measures, driver.waits
        yield families.gauge("leading", "1 if this process leads.", int(core.role is Role.LEADING))
        yield families.gauge(
            "deaf", "1 if this process cannot tell who is silent: nobody is put out.", int(driver.is_deaf)
        )
        yield families.gauge("term", "The term in force, as far as this process has read.", core.confirmed.term)
        yield families.gauge("position", "Position of the newest decision that is read back.", core.confirmed.position)
        yield families.gauge("unread_decisions", "Own decisions appended and not yet read back.", core.unread)
        yield families.gauge("parked_requests", "Requests that are read and not yet decided.", driver.parked)
        open_waits = {kind: waits[kind] for kind in _WAITS}
        yield families.gauges("open_waits", "Deadlines that run or are to, by what waits.", open_waits, "kind")
        yield families.counter("take_overs", "How often this process began to lead.", measures.take_overs)
        yield families.counter("depositions", "How often this process was deposed.", measures.depositions)
        yield families.counters("decisions", "Decisions of this process.", _copied(measures.decided), "event")
        text = "Requests taken up, by what became of them at once."
        yield families.counters("requests", text, {**_OUTCOMES, **_copied(measures.requests)}, "outcome")
        refusals = {**_FORKS, **_copied(measures.refusals)}
        yield families.counters("refusals", "Requests refused, at once or later.", refusals, "code")
        ignored = _copied(driver.ignored)
        yield families.counters("ignored_records", "Records of `decisions` that do not count.", ignored, "reason")
        yield families.counter("dead_letters", "Input that could not be read or used.", driver.dead_count)
        yield from self._of_inputs(measures)
        text = "From the appending of a request, by the broker's clock, to its decision."
        yield families.durations("decision_seconds", text, {"": measures.decision})
        text = "From what is proposed to its verdict, within one term."
        yield families.durations("verdict_seconds", text, measures.verdicts, "protocol")

    def _of_inputs(self, measures: Measures) -> Iterator[Metric]:
        read = {topic.short_name: measures.read[topic] for topic in INPUTS}
        yield self._families.counters("read_records", "Records read.", read, "input")
        now_ms = self._clock.wall_ms()
        lags = {
            topic.short_name: 0.0 if newest_ms is None else max(0, now_ms - newest_ms) / 1000
            for topic, newest_ms in tuple(measures.behind_ms.items())
        }
        text = "How old the record was at which this reader stands; 0 at the end of its topic."
        yield self._families.gauges("lag_seconds", text, lags, "input")


def _copied(counts: Mapping[Any, int]) -> dict[str, float]:
    """As they are now: the driver goes on counting."""
    return {key.name.lower() if isinstance(key, Enum) else key: count for key, count in tuple(counts.items())}
