"""Roles as processes on a real broker: what they tell Prometheus, what they say in their logs, which headers stand in
the topics."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tests.broker.conftest import Process, Site, eventually
from tests.exported import exported

from topolog.events.codec import CODEC
from topolog.events.metadata import MetadataUpdateProposed, UpdateRequested
from topolog.events.stamp import HEADER_NAME
from topolog.events.telemetry import HEADER
from topolog.events.topics import Topic

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BODY = {"kind": "propose", "definition": {"name": "Customer", "fields": {"id": "long"}}, "reason": "needed"}
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scraped(port: int) -> Samples:
    """The samples at a port by name, then by labels; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def started(site: Site, role: str, port: int, **flags: str) -> Process:
    given = {
        "cluster.name": site.cluster,
        "kafka.bootstrap.servers": site.bootstrap,
        "metrics.port": str(port),
        **{key.replace("_", "."): value for key, value in flags.items()},
    }
    sets = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    return site.started([sys.executable, "-m", "topolog", "run", role, *sets])


def lines(process: Process) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tuple(process.complaints) if line.startswith("{")]


def header(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    return next((value.decode() for name, value in headers if name == HEADER), None)


def test_each_role_serves_its_metrics_logs_json_and_a_trace_goes_through(
    site: Site, unused_port: Callable[[], int], tmp_path: Path
) -> None:
    ports = {role: unused_port() for role in ("coordinator", "projector", "lease-health", "rendezvous", "api")}
    environ = {**os.environ, "TOPOLOG_METRICS__PORT": str(ports["coordinator"]), "TOPOLOG_LOG__LEVEL": "warning"}
    coordinator = site.coordinator("c1", env=environ)
    started(
        site, "projector", ports["projector"], api_port=str(ports["api"]), projector_data=str(tmp_path / "projector")
    )
    started(site, "lease-health", ports["lease-health"], health_data=str(tmp_path / "health"))
    started(site, "rendezvous", ports["rendezvous"])
    of_cluster = (("cluster", site.cluster),)

    with site.node("n1") as node:
        leads = scraped_until(ports["coordinator"], "topolog_coordinator_leading", of_cluster, 1)
        assert leads["topolog_coordinator_take_overs_total"][of_cluster] == 1
        scraped_until(ports["projector"], "topolog_projection_members", of_cluster, 1)
        asked = httpx.post(
            f"http://127.0.0.1:{ports['api']}/v1/clusters/{site.cluster}/requests",
            json=BODY,
            params={"wait": "accepted"},
            headers={"traceparent": TRACEPARENT},
            timeout=30,
            trust_env=False,
        )
        assert asked.json()["item"]["status"] == "GRANTED"
        heard = eventually(lambda: measured(ports["lease-health"], of_cluster), "a measured heartbeat")
        assert heard["topolog_lease_health_nodes"][(*of_cluster, ("state", "measured"))] == 1
        scraped_until(ports["rendezvous"], "topolog_rendezvous_ready", of_cluster, 1)
        told = scraped(ports["coordinator"])
        verdicts = (*of_cluster, ("protocol", "metadata"))
        assert told["topolog_coordinator_verdict_seconds_count"][verdicts] == 1
        assert node.members()

    (request,) = (each for each in site.entries(Topic.OPERATIONS) if CODEC.type_of(each.value) is UpdateRequested)
    decisions = site.entries(Topic.DECISIONS)
    (proposed,) = (each for each in decisions if CODEC.type_of(each.value) is MetadataUpdateProposed)
    assert [header(request.headers), header(proposed.headers)] == [TRACEPARENT, TRACEPARENT]
    assert {name for each in decisions if each is not proposed for name, _ in each.headers} == {HEADER_NAME}

    known = {series for each in exported() for series in each.series}
    found = {name for port in ports.values() for name in scraped(port) if not name.endswith("_created")}
    assert {name for name in found if name.startswith("topolog_")} <= known
    assert "process_resident_memory_bytes" in found

    assert {each["level"] for each in lines(coordinator)} <= {"warning"}, "as the settings say"
    coordinator.send(signal.SIGUSR1)
    site.coordinator("c2")
    coordinator.end()
    said = eventually(
        lambda: [each for each in lines(coordinator) if each["level"] == "info"], "what it says of its end"
    )
    about = {key: said[-1][key] for key in ("cluster", "role", "term")}
    assert about == {"cluster": site.cluster, "role": "coordinator", "term": 1}


def scraped_until(port: int, name: str, labels: tuple[tuple[str, str], ...], value: float) -> Samples:
    def look() -> Samples | None:
        found = scraped(port)
        return found if found.get(name, {}).get(labels) == value else None

    return eventually(look, f"{name} to be {value:g}")


def measured(port: int, of_cluster: tuple[tuple[str, str], ...]) -> Samples | None:
    found = scraped(port)
    return found if found.get("topolog_lease_health_heartbeats_total", {}).get(of_cluster, 0) > 0 else None
