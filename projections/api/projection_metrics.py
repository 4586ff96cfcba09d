"""What Prometheus is told of a projector's stores beside the one that is shown."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topolog.projections.projection_resources import Generation
from topolog.projections.projector import Projector
from topolog.projections.upkeep.stores import listed

STATES = ("SHOWN", "PAUSED", "DAMAGED", "BUILDING", "FORMER", "REFUSED")


class GenerationMetrics(Collector):
    """One cluster's."""

    def __init__(self, projector: Projector) -> None:
        self._projector = projector

    def collect(self) -> Iterator[Metric]:
        found = list(self._projector.told(listed))
        shown = found[0]
        building = next((each for each in found if each.state == "BUILDING"), None)
        scrub = shown.scrub
        yield self._by_state("generations", "Stores of this process by state.", [1.0] * len(found), found)
        yield self._by_state("bytes", "What stores take on the disk, by state.", [each.bytes for each in found], found)
        gauges = {
            "paused": ("1 while projecting is paused.", shown.state == "PAUSED"),
            "damaged": ("1 while something of the store that is shown cannot be read.", shown.state == "DAMAGED"),
            "recovery_eta_seconds": ("Until a reader that has started is at the end, if it can be told.", shown.eta_s),
            "rebuild_position": ("How far another store is built; none while none is.", _of(building, "position")),
            "rebuild_records_per_second": ("How fast it is built.", _of(building, "rate")),
            "rebuild_eta_seconds": (
                "Until it is where the shown one is, if it can be told.",
                _of(building, "eta_s"),
            ),
            "scrub_findings": (
                "What could not be read when all of the store was read.",
                len(scrub.findings) if scrub else None,
            ),
        }
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(f"topolog_projection_{name}", text, labels=["cluster"])
            if value is not None:
                gauge.add_metric([self._projector.cluster], float(value))
            yield gauge

    def _by_state(self, name: str, text: str, values: list[float], found: list[Generation]) -> Metric:
        gauge = GaugeMetricFamily(f"topolog_projection_{name}", text, labels=["cluster", "state"])
        for state in STATES:
            total = sum(value for value, each in zip(values, found, strict=True) if each.state == state)
            gauge.add_metric([self._projector.cluster, state.lower()], total)
        return gauge


def _of(generation: Generation | None, field: str) -> float | None:
    value: float | None = getattr(generation, field) if generation else None
    return value
