"""The log is taken away under a running cluster: topics deleted and made again, an older copy put back.

K9: whoever has folded what the log no longer holds stops, and serves nothing. The rest is for people, so each process
has to say what has happened in a sentence.
"""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.conftest import Process, Site, eventually

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.errors import LogDiverged
from topolog.events.kafka import KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.metadata import ObjectType, UpdateRequested
from topolog.events.requests import outcome_of
from topolog.events.topics import PLANS, Topic, topic_name
from topolog.streams.local.broker import LocalBroker


@pytest.fixture
def broker(tmp_path: Path, unused_port: Callable[[], int]) -> Iterator[LocalBroker]:
    """A broker of the test's own, whose data are swapped."""
    broker = LocalBroker(tmp_path / "broker", port=unused_port())
    broker.start(ready=_usable)
    yield broker
    broker.stop()


def _usable(bootstrap: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()


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
        eventually(partial(_complaint, coordinator, "made again"), "the coordinator's sentence")
    assert "made again" in str(eventually(projector.stopped, "the projector's sentence"))


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


def test_requests_that_were_made_again_while_nobody_led_are_read_from_their_beginning(site: Site) -> None:
    """K7: the new leader's place in them is gone. Work goes on, and the node stays."""
    coordinator = site.coordinator("c1")
    with site.node("n1") as node:
        for number in range(20):
            node.propose(ObjectType("Customer", {f"f{number}": "long"}))
        coordinator.kill()
        _recreate(site, Topic.REQUESTS)
        site.coordinator("c2")
        assert node.propose(ObjectType("Customer", {"more": "long"}), timeout_s=60).accepted
        assert node.failure is None


def test_requests_that_were_made_again_and_are_more_than_before_all_have_their_outcome(site: Site) -> None:
    """K4: where the former leader was there is another record now, so nothing of the new topic has been read."""
    coordinator = site.coordinator("c1")
    site.leader()
    log_id = site.told().header.log_id
    assert log_id is not None
    before = _ask(site, log_id, "before", 5)
    eventually(lambda: _outcomes(site, before) == 5, "the first ones to be decided")
    coordinator.kill()
    _recreate(site, Topic.OPERATIONS)
    asked = _ask(site, log_id, "behind", 20)
    site.coordinator("c2")
    eventually(lambda: _outcomes(site, asked) == 20, "all to be decided")


def _ask(site: Site, log_id: bytes, requester: str, count: int) -> list[RequestId]:
    """So many requests of an operator, which are in the topic when this returns."""
    asked = [RequestId(requester, number) for number in range(1, count + 1)]
    with closing(KafkaWriter(site.kafka, site.cluster)) as writer:
        for each in asked:
            definition = ObjectType(f"Of{requester}", {f"f{each.sequence}": "long"})
            request = UpdateRequested(each, log_id, "ada", "", definition, 0)
            writer.append(Topic.OPERATIONS, requester, encode_request(request))
        assert writer.flush(30) == 0
    return asked


def _outcomes(site: Site, asked: list[RequestId]) -> int:
    state = site.told().state
    return sum(outcome_of(state, each) is not None for each in asked)


def test_an_older_copy_of_the_log_stops_all_who_were_ahead_of_it(
    broker: LocalBroker, cluster: str, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """K9: who had folded more than the copy holds stops and fences, whether it was awake or asleep at the swap.

    The one who slept comes back when the copy has grown past its own place, so that only the chain can tell.
    """
    with closing(Site(broker.bootstrap, cluster)) as site:
        coordinator = site.coordinator("c1")
        projector = Projector(site, tmp_path / "store", unused_port())
        asleep = site.member("n2")
        with site.node("n1") as node:
            node.propose(ObjectType("Customer", {"id": "long"}))
            _swap(broker, lambda: shutil.copytree(broker.folder, tmp_path / "copy", symlinks=True))
            eventually(lambda: node.lease.is_valid, "the node to serve again")
            for number in range(10):
                node.propose(ObjectType("Customer", {f"lost{number}": "long"}), timeout_s=30)
            asleep.send(signal.SIGSTOP)
            _swap(broker, lambda: _put_back(tmp_path / "copy", broker.folder))
            assert isinstance(eventually(lambda: node.failure, "the node to end"), LogDiverged)
            assert not node.lease.is_valid
        eventually(partial(_has_said_why, coordinator), "the coordinator's sentence", patience_s=60)
        assert "no longer holds" in str(eventually(projector.stopped, "the projector's sentence"))

        site.coordinator("c3")
        with site.node("n3") as other:
            for number in range(60):
                other.propose(ObjectType("Order", {f"f{number}": "long"}), timeout_s=30)
            asleep.tell(do="metadata", type="Customer")
            asleep.tell(do="require")
            asleep.send(signal.SIGCONT)
            assert asleep.hear("metadata", "valid", "error")["said"] == "error"
            assert asleep.hear("metadata", "valid", "error")["said"] == "error"
            assert eventually(lambda: _failure(asleep), "the sleeper to end") == "log_diverged"
            assert other.metadata("Customer") is not None, "those who started on the copy go on"


def test_a_leader_of_an_older_copy_writes_nothing_into_the_newer_one(
    broker: LocalBroker, cluster: str, tmp_path: Path
) -> None:
    """K9: its term has no beginning there, so one record of it would end every reader, now and ever after. It decides
    while Kafka is down, for it must show that it lives, and finds another log when it is back."""
    with closing(Site(broker.bootstrap, cluster)) as site:
        first = site.coordinator("c1")
        with site.node("n1") as node:
            node.propose(ObjectType("Customer", {"id": "long"}))
        _swap(broker, lambda: shutil.copytree(broker.folder, tmp_path / "older", symlinks=True))
        with site.node("n1") as node:
            node.propose(ObjectType("Customer", {"more": "long"}))
        first.kill()
        newer = site.told().header

        def put_back_older() -> None:
            shutil.copytree(broker.folder, tmp_path / "newer", symlinks=True)
            _put_back(tmp_path / "older", broker.folder)

        _swap(broker, put_back_older)
        second = site.coordinator("c2")
        eventually(lambda: site.leader() == "c2", "c2 to lead in the older copy")
        _swap(broker, lambda: _put_back(tmp_path / "newer", broker.folder))
        eventually(partial(_complaint, second, "no longer holds"), "c2 to end")
        assert site.told().header.position >= newer.position
        site.coordinator("c3")
        eventually(lambda: site.leader() == "c3", "c3 to lead in the newer one")


def _has_said_why(process: Process) -> bool:
    """Whichever it meets first: what it has read is gone, or what it has written."""
    return _complaint(process, "no longer holds") or _complaint(process, "has lost what it acknowledged")


def _failure(process: Process) -> str | None:
    process.tell(do="require")
    answer = process.hear("valid", "error")
    assert answer["said"] == "error", "whoever is ahead of its log never serves again"
    return None if answer["code"] == "fenced" else str(answer["code"])


def _swap(broker: LocalBroker, act: Callable[[], object]) -> None:
    assert broker.stop()
    act()
    broker.start(ready=_usable)


def _put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(copy, folder, symlinks=True)
