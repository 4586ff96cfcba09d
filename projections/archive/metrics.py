"""/metrics of a job that lands: how far each partition has come, how far behind it is, what each table has."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topolog.projections.archive.progress import PlaceProgress, Progress

_BY_PLACE = {
    "landed_offset": "All before this offset of the partition has landed.",
    "end_offset": "The offset after the newest record of the partition.",
    "behind_records": "Offsets of the partition that have not landed.",
    "behind_seconds": "How long ago the oldest record that has not landed was appended.",
}
_BY_CLUSTER = {
    "landings": "Landings that the archive is made of.",
    "quarantined_records": "Records that could not be decoded and were set aside.",
    "lost_records": "Offsets that were deleted before they landed.",
    "records_per_second": "How fast the newest batch was landed.",
    "last_landing_timestamp_seconds": "When the newest landing was made.",
}


class ArchiveMetrics(Collector):
    """What was told last: one progress for each cluster that lands, and which others do not."""

    def __init__(self) -> None:
        self._told: Sequence[Progress] = ()
        self._set_aside: Collection[str] = ()

    def tell(self, found: Sequence[Progress], set_aside: Collection[str] = ()) -> None:
        """Instead of all that was told before: nothing is known of the progress of a cluster that is set aside."""
        self._told, self._set_aside = found, set_aside

    def collect(self) -> Iterator[Metric]:
        told = self._told
        for name, text in _BY_PLACE.items():
            family = _gauge(name, text, "cluster", "topic", "partition")
            for each in told:
                for place in each.places:
                    if (value := _of_place(place)[name]) is not None:
                        family.add_metric([each.cluster, place.topic, str(place.partition)], value)
            yield family
        for name, text in _BY_CLUSTER.items():
            family = _gauge(name, text, "cluster")
            for each in told:
                family.add_metric([each.cluster], _of_cluster(each)[name])
            yield family
        yield self._of_tables(told)
        family = _gauge("set_aside", "1 if the cluster cannot be landed and is left out.", "cluster")
        for cluster in self._set_aside:
            family.add_metric([cluster], 1)
        for each in told:
            if each.cluster not in self._set_aside:
                family.add_metric([each.cluster], 0)
        yield family

    @staticmethod
    def _of_tables(told: Iterable[Progress]) -> Metric:
        family = _gauge("rows", "Rows of the archive's tables.", "cluster", "table")
        for each in told:
            for table, rows in sorted(each.rows.items()):
                family.add_metric([each.cluster, table], rows)
        return family


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"topolog_archive_{name}", text, labels=labels)


def _of_place(place: PlaceProgress) -> dict[str, float | None]:
    return {
        "landed_offset": place.landed,
        "end_offset": place.end,
        "behind_records": place.behind,
        "behind_seconds": None if place.behind_ms is None else place.behind_ms / 1000,
    }


def _of_cluster(found: Progress) -> dict[str, float]:
    return {
        "landings": found.landings,
        "quarantined_records": found.quarantined,
        "lost_records": found.lost,
        "records_per_second": found.rows_per_s,
        "last_landing_timestamp_seconds": found.landed_ms / 1000,
    }
