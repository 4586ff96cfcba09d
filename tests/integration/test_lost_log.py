"""The log is taken away under a running cluster: topics deleted and made again.

K9: whoever has folded what the log no longer holds stops, and serves nothing. The rest is for people, so each process
has to say what has happened in a sentence.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.conftest import Process, Site, eventually

from topolog.events.errors import LogDiverged
from topolog.events.kafka import KafkaAdmin
from topolog.events.metadata import ObjectType
from topolog.events.topics import PLANS, Topic, topic_name


class Projector:
    """`topolog run projector` on a port of its own."""

    def __init__(self, site: Site, folder: Path, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._cluster = site.cluster
        settings = {
            "cluster.name": site.cluster,
            "kafka.bootstrap.servers": site.bootstrap,
            "projector.data": str(folder),
            "api.port": str(port),
        }
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.process = site.started([sys.executable, "-m", "topolog", "run", "projector", *sets])
        eventually(lambda: self.as_of() is not None, "the projector's first answer")

    def as_of(self) -> dict[str, Any] | None:
        """What an answer says of its own position and age; None while there is none."""
        try:
            answer = httpx.get(f"{self._url}/v1/clusters/{self._cluster}/cluster", timeout=5, trust_env=False)
        except httpx.HTTPError:
            return None
        found: dict[str, Any] | None = answer.json().get("asOf") if answer.status_code == 200 else None
        return found

    def stopped(self) -> str | None:
        as_of = self.as_of()
        return as_of["stopped"] if as_of else None


def _complaint(process: Process, about: str) -> bool:
    return any(about in line for line in process.complaints)


def _recreate(site: Site, *topics: Topic) -> None:
    names = [topic_name(site.cluster, topic) for topic in topics]
    admin = AdminClient({**site.kafka})
    for future in admin.delete_topics(names).values():
        future.result(30)
    eventually(lambda: KafkaAdmin(site.kafka).topics().isdisjoint(names), "the topics to be gone")
    KafkaAdmin(site.kafka).create_topics(site.cluster, PLANS)


def test_a_log_that_was_deleted_and_made_again_stops_all_who_had_folded_it(
    site: Site, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """K9: node, coordinator, stand-by and projector each stop with a sentence; nobody serves from what is gone."""
    coordinators = [site.coordinator(name) for name in ("c1", "c2")]
    site.leader()
    projector = Projector(site, tmp_path / "store", unused_port())
    with site.node("n1") as node:
        for number in range(20):
            node.propose(ObjectType("Customer", {f"f{number}": "long"}))
        _recreate(site, Topic.DECISIONS)
        failure = eventually(lambda: node.failure, "the node to end")
        assert isinstance(failure, LogDiverged)
        assert not node.lease.is_valid
        with pytest.raises(LogDiverged):
            node.metadata("Customer")
        with pytest.raises(LogDiverged):
            node.propose(ObjectType("Customer", {"more": "long"}))
    for coordinator in coordinators:
        eventually(partial(_complaint, coordinator, "truncated or made again"), "the coordinator's sentence")
    assert "truncated or made again" in str(eventually(projector.stopped, "the projector's sentence"))


def test_inputs_that_were_deleted_and_made_again_cost_what_was_in_them(site: Site) -> None:
    """Requests and heartbeats are read from the new topics' beginning; nobody is removed, and work goes on."""
    site.coordinator("c1")
    with site.node("n1") as node:
        for number in range(20):
            node.propose(ObjectType("Customer", {f"f{number}": "long"}))
        incarnation = node.incarnation
        _recreate(site, Topic.REQUESTS, Topic.HEARTBEATS)
        assert node.propose(ObjectType("Customer", {"more": "long"}), timeout_s=30).accepted
        assert node.incarnation == incarnation
        assert node.failure is None
