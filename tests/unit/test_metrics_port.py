"""The port at which a role tells Prometheus what it counts."""

import sys
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from topolog.commands.metrics_port import registry_served, served
from topolog.events.errors import MissingExtra
from topolog.settings.model import Metrics, load
from topolog.streams.clock import ManualClock
from topolog.streams.lease_health.metrics import HealthMeasures, HealthMetrics


def text(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        said: str = answer.read().decode()
    return said


def test_nothing_is_made_or_served_unless_a_port_is_set() -> None:
    """Off by default: the collectors' library need not be there."""

    def never() -> object:
        raise AssertionError("made without a port")

    with served(load({}, environ={}).settings.metrics, never):
        pass


def test_what_a_role_counts_is_served_with_what_its_process_takes(unused_port: Callable[[], int]) -> None:
    port = unused_port()
    with served(Metrics(port=port), lambda: HealthMetrics(HealthMeasures(), "demo", ManualClock())):
        said = text(port)
    assert 'topolog_lease_health_nodes{cluster="demo",state="silent"} 0.0' in said
    assert "process_resident_memory_bytes" in said
    with pytest.raises(OSError, match="refused"):
        text(port)


def test_a_registry_that_is_there_already_is_served_as_it_is(unused_port: Callable[[], int]) -> None:
    """That of the API."""
    port, registry = unused_port(), CollectorRegistry()
    registry.register(HealthMetrics(HealthMeasures(), "demo", ManualClock()))
    with registry_served(Metrics(port=port), registry):
        assert "process_" not in text(port)
    with registry_served(Metrics(), registry):
        pass


def test_a_base_installation_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator runs without prometheus_client until it is given a port."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"prometheus_client.*topolog\[metrics\]"):
        served(Metrics(port=1))
