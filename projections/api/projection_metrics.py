"""What Prometheus is told of a projector's stores beside the one that is shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.registry import Collector

from topolog.events.families import Families, Metric
from topolog.projections.projection_resources import Generation
from topolog.projections.projector import Projector
from topolog.projections.upkeep.stores import listed

STATES = ("SHOWN", "PAUSED", "DAMAGED", "BUILDING", "FORMER", "REFUSED")


class GenerationMetrics(Collector):
    """One cluster's."""

    def __init__(self, projector: Projector) -> None:
        self._projector = projector
        self._families = Families("topolog_projection", projector.cluster)

    def collect(self) -> Iterator[Metric]:
        families, found = self._families, list(self._projector.told(listed))
        shown = found[0]
        building = next((each for each in found if each.state == "BUILDING"), None)
        count = _by_state(found, lambda _: 1)
        yield families.gauges("generations", "Stores of this process by state.", count, "state")
        size = _by_state(found, lambda each: each.bytes)
        yield families.gauges("bytes", "What stores take on the disk, by state.", size, "state")
        yield families.gauge("paused", "1 while projecting is paused.", shown.state == "PAUSED")
        text = "1 while something of the store that is shown cannot be read."
        yield families.gauge("damaged", text, shown.state == "DAMAGED")
        text = "Until a reader that has started is at the end, if it can be told."
        yield families.gauge("recovery_eta_seconds", text, shown.eta_s)
        text = "How far another store is built; none while none is."
        yield families.gauge("rebuild_position", text, building.position if building else None)
        yield families.gauge("rebuild_records_per_second", "How fast it is built.", building.rate if building else None)
        text = "Until it is where the shown one is, if it can be told."
        yield families.gauge("rebuild_eta_seconds", text, building.eta_s if building else None)
        scrubbed = None if shown.scrub is None else len(shown.scrub.findings)
        text = "What could not be read when all of the store was read."
        yield families.gauge("scrub_findings", text, scrubbed)


def _by_state(found: Iterable[Generation], of: Callable[[Generation], float]) -> Mapping[str, float]:
    totals = dict.fromkeys((state.lower() for state in STATES), 0.0)
    for each in found:
        totals[each.state.lower()] += of(each)
    return totals
