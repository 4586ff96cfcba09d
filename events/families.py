"""Families of metrics as Prometheus reads them: names, label `cluster`, and how one is made of plain numbers.

Roles count without a library (`measuring.py`); that becomes metrics here, when Prometheus asks. Labels come from small
closed sets, never from ids: a metric per node or per request would outgrow any Prometheus.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from topolog.events.measuring import Durations

__all__ = ["Families", "Metric", "Source"]


class Source(Protocol):
    """What a registry of prometheus_client takes."""

    def collect(self) -> Iterator[Metric]: ...


class Families:
    """Those of one role of one cluster: `prefix` stands before each name, such as `topolog_coordinator`."""

    def __init__(self, prefix: str, cluster: str) -> None:
        self._prefix = prefix
        self._cluster = cluster

    def gauge(self, name: str, text: str, value: float | None) -> Metric:
        """Without a sample while there is nothing to tell."""
        return self.gauges(name, text, {} if value is None else {"": value})

    def gauges(self, name: str, text: str, values: Mapping[str, float], label: str = "") -> Metric:
        """One by value of the label; of none, the one that stands under the empty text."""
        family = GaugeMetricFamily(f"{self._prefix}_{name}", text, labels=self._labels(label))
        for of, value in sorted(values.items()):
            family.add_metric(self._values(label, of), value)
        return family

    def counter(self, name: str, text: str, value: float) -> Metric:
        return self.counters(name, text, {"": value})

    def counters(self, name: str, text: str, values: Mapping[str, float], label: str = "") -> Metric:
        family = CounterMetricFamily(f"{self._prefix}_{name}", text, labels=self._labels(label))
        for of, value in sorted(values.items()):
            family.add_metric(self._values(label, of), value)
        return family

    def durations(self, name: str, text: str, values: Mapping[str, Durations], label: str = "") -> Metric:
        family = HistogramMetricFamily(f"{self._prefix}_{name}", text, labels=self._labels(label))
        for of, each in sorted(values.items()):
            family.add_metric(self._values(label, of), each.buckets(), each.sum_s)
        return family

    @staticmethod
    def _labels(label: str) -> list[str]:
        return ["cluster", label] if label else ["cluster"]

    def _values(self, label: str, of: str) -> list[str]:
        return [self._cluster, of] if label else [self._cluster]
