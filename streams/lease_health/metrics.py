"""What Prometheus is told of a worker of lease health: how far it has read, and how the nodes that it measures do."""

from collections.abc import Callable, Iterator

from topolog.events.families import Families, Metric
from topolog.events.health import LeaseHealth
from topolog.events.ids import NodeId
from topolog.streams.clock import Clock


class HealthMeasures:
    """What one worker counts, over all runs of its app. The app's thread writes; any thread reads.

    `newest_ms`: by partition, when the newest heartbeat was appended that was read, None at the partition's end.
    """

    def __init__(self) -> None:
        self.heartbeats = 0
        self.passed_over = 0
        self.told = 0
        self.newest_ms: dict[int, int | None] = {}
        self.silent: Callable[[], int] = lambda: 0
        self._health: dict[NodeId, LeaseHealth] = {}

    def note(self, node: NodeId, health: LeaseHealth) -> None:
        self._health[node] = health
        self.told += 1

    def start_over(self, silent: Callable[[], int]) -> None:
        """Another run of the app begins; `silent` counts the nodes that it misses."""
        self.silent = silent
        self.newest_ms.clear()
        self._health.clear()

    def nodes(self) -> dict[str, float]:
        """How many nodes this worker measures, and with how many something is the matter."""
        found = tuple(self._health.values())
        return {
            "measured": len(found),
            "silent": self.silent(),
            "thin": sum(each.is_thin for each in found),
            "flapping": sum(each.window.is_flapping for each in found),
        }


class HealthMetrics:
    """Read from the measures when Prometheus asks."""

    def __init__(self, measures: HealthMeasures, cluster: str, clock: Clock) -> None:
        self._measures = measures
        self._clock = clock
        self._families = Families("topolog_lease_health", cluster)

    def collect(self) -> Iterator[Metric]:
        measures, families = self._measures, self._families
        yield families.counter("heartbeats", "Heartbeats counted.", measures.heartbeats)
        text = "Records of `heartbeats` that are no heartbeat of this log."
        yield families.counter("passed_over", text, measures.passed_over)
        yield families.counter("told", "Records written to `lease-health`.", measures.told)
        newest = tuple(measures.newest_ms.values())
        yield families.gauge("partitions", "Partitions of `heartbeats` that this worker reads.", len(newest))
        yield families.gauges("nodes", "Nodes, by what is the matter with them.", measures.nodes(), "state")
        now_ms = self._clock.wall_ms()
        lags = {"": max((max(0, now_ms - at_ms) / 1000 for at_ms in newest if at_ms is not None), default=0.0)}
        text = "How old the heartbeat is at which this worker stands, in the partition where it is furthest behind."
        yield families.gauges("lag_seconds", text, lags if newest else {})
