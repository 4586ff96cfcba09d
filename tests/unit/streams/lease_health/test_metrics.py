"""What a worker of lease health tells Prometheus: nodes by what is the matter, and how far it is behind."""

from prometheus_client import CollectorRegistry
from tests.unit.streams.lease_health.beats import TERMS

from topolog.events.ids import NodeId
from topolog.streams.clock import ManualClock
from topolog.streams.lease_health.metrics import HealthMeasures, HealthMetrics
from topolog.streams.lease_health.silence import Silence

OF_CLUSTER = {"cluster": "demo"}


def told(measures: HealthMeasures, clock: ManualClock) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(HealthMetrics(measures, "demo", clock))
    return registry


def test_lag_is_that_of_the_partition_furthest_behind() -> None:
    """0 at the end of all of them; not there while none is read."""
    measures, clock = HealthMeasures(), ManualClock()
    name = "topolog_lease_health_lag_seconds"
    assert told(measures, clock).get_sample_value(name, OF_CLUSTER) is None
    measures.newest_ms = {0: None, 1: None}
    assert told(measures, clock).get_sample_value(name, OF_CLUSTER) == 0
    measures.newest_ms = {0: None, 1: clock.wall_ms() - 4_000, 2: clock.wall_ms() - 1_000}
    assert told(measures, clock).get_sample_value(name, OF_CLUSTER) == 4
    assert told(measures, clock).get_sample_value("topolog_lease_health_partitions", OF_CLUSTER) == 3


def test_a_silent_node_counts_until_it_is_heard_of_or_another_run_begins() -> None:
    measures, clock = HealthMeasures(), ManualClock()
    silence = Silence(TERMS)
    measures.start_over(lambda: silence.count)
    silence.heard(NodeId("n1"), 0.0, is_last=False)
    assert list(silence.news(TERMS.fence_ms / 1000))
    silent = {**OF_CLUSTER, "state": "silent"}
    assert told(measures, clock).get_sample_value("topolog_lease_health_nodes", silent) == 1
    silence.heard(NodeId("n1"), TERMS.fence_ms / 1000, is_last=False)
    assert told(measures, clock).get_sample_value("topolog_lease_health_nodes", silent) == 0
