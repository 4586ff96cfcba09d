"""What Prometheus is told of a validator: what its replicas do, how its tasks end, what they have read."""

from collections.abc import Iterator

from topolog.events.families import Families, Metric
from topolog.streams.validator.driver import Driver


class ValidatorMetrics:
    """Read from the driver when Prometheus asks; nothing is told before there is one."""

    def __init__(self, cluster: str) -> None:
        self._driver: Driver | None = None
        self._families = Families("topolog_validator", cluster)

    def show(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterator[Metric]:
        driver, families = self._driver, self._families
        if driver is None:
            return
        measures = driver.measures
        yield families.gauge("replicas", "Replicas that this process serves.", driver.replicas)
        yield families.gauge("lost_replicas", "Of them, those that others serve by now.", len(driver.core.lost))
        yield families.gauge("busy", "Replicas with a task under way.", driver.busy)
        yield families.counters("tasks", "Tasks ended.", dict(tuple(measures.tasks.items())), "outcome")
        yield families.counter("rows", "Rows that ended tasks have looked at.", measures.rows)
        yield families.counter("bytes", "Bytes of these rows.", measures.bytes)
        yield families.durations("task_seconds", "How long tasks took that succeeded.", {"": measures.worked})
