"""Every role on a broker with TLS, passwords and access lists, each under a name of its own with the access that
`topolog cluster init --plan` prints: nothing that the plan leaves out is needed, and nothing else is granted.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from tests.broker.conftest import Process, Site, eventually
from tests.broker.secured import SecuredBroker, secured_broker
from tests.broker.test_rendezvous import Table

from topolog.events import kafka
from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.errors import NotAllowed, TopologError
from topolog.events.ids import Offset
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import members
from topolog.events.membership import NodeRemovalRequested
from topolog.events.metadata import ObjectType
from topolog.events.requesters import requester_of
from topolog.events.requests import Status, outcome_of
from topolog.events.sessions import SessionStatus
from topolog.events.topics import Topic, topic_name
from topolog.streams.node.client import Node

ROLES = {"coordinator", "projector", "node", "lease-health", "rendezvous", "validator", "archive", "operator"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, unused_ports: Callable[[int], int]) -> Iterator[SecuredBroker]:
    first = unused_ports(3)
    with secured_broker(tmp_path_factory.mktemp("secured"), first, first + 2) as broker:
        yield broker


class SecuredSite(Site):
    """A cluster whose processes come as who they are; the test reads its log through the other door."""

    def __init__(self, broker: SecuredBroker, cluster: str) -> None:
        self.broker = broker
        self.bootstrap, self.cluster, self.kafka = broker.bootstrap, cluster, {"bootstrap.servers": broker.bootstrap}
        self._processes = []

    def role(self, name: str, *words: str, **more: str) -> Process:
        env = {**os.environ, **self.broker.environment(name, self.cluster), **more}
        return self.started([sys.executable, "-m", "topolog", *words], env)


@pytest.fixture(scope="module")
def secured_site(broker: SecuredBroker, new_cluster: Callable[[], str]) -> Iterator[SecuredSite]:
    """A cluster whose roles may what the plan says; its topics are made by the operator."""
    with contextlib.closing(SecuredSite(broker, new_cluster())) as site:
        broker.add(*ROLES, "stranger")
        assert broker.grant_as_printed(site.cluster) == ROLES
        made = site.role("operator", "cluster", "init")
        assert made.wait() == 0, made.complaints
        yield site


def told(process: Process) -> tuple[int, str]:
    """Exit code and complaints of a command that ends by itself."""
    [code] = eventually(process.ended, "the end of a command")
    return code, "".join(process.complaints)


def fast() -> Mapping[str, str]:
    return {
        "TOPOLOG_LEASE__FENCE": "2s",
        "TOPOLOG_LEASE__MARGIN": "500ms",
        "TOPOLOG_LEASE__HEARTBEAT": "200ms",
    }


def test_each_role_works_with_the_access_that_is_printed(
    secured_site: SecuredSite, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Part 6, the least privilege table: a change goes from the API through the coordinator to a node and back; the
    worker of lease health and the rendezvous do their work; nobody's password is on a command line."""
    site, broker = secured_site, secured_site.broker
    port = unused_port()
    folders = {"TOPOLOG_PROJECTOR__DATA": str(tmp_path / "store"), "TOPOLOG_AUDIT__DATA": str(tmp_path / "audit")}
    processes = [
        site.role("coordinator", "run", "coordinator", **fast()),
        site.role("lease-health", "run", "lease-health", TOPOLOG_HEALTH__DATA=str(tmp_path / "health")),
        site.role("rendezvous", "run", "rendezvous"),
        site.role("projector", "run", "projector", TOPOLOG_API__PORT=str(port), **folders),
    ]
    site.leader()
    with (
        Node(site.cluster, "n1", kafka=broker.settings("node"), join_timeout_s=60) as node,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}", trust_env=False) as api,
    ):
        node.propose(ObjectType("Customer", {"id": "long"}), timeout_s=30)
        eventually(lambda: _answers(api), "the API")
        body = {"kind": "create-group", "name": "orders", "partitions": 4}
        outcome = api.post("/requests", json=body, params={"wait": "accepted"}, timeout=30).json()
        assert outcome["item"]["status"] == "GRANTED", outcome
        assert api.get("/types/Customer").json()["item"]["accepted_version"] == 1
        eventually(lambda: _punctual(api), "a report of lease health")
        differences_are_found(site, broker)
    assert [process.exit_code for process in processes] == [None] * len(processes)
    for process in processes:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        assert not any(password in command for password in broker.passwords.values())
    for process in processes:
        process.close()
    said = "".join(line for process in processes for line in process.complaints)
    assert "uthorization" not in said, said
    assert not any(password in said for password in broker.passwords.values())


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/cluster").status_code == 200
    except httpx.TransportError:
        return False


def _punctual(api: httpx.Client) -> bool:
    items = api.get("/lease-health").json().get("items") or []
    return [(each["node"], each["state"]) for each in items] == [("n1", "OK")]


def differences_are_found(site: SecuredSite, broker: SecuredBroker) -> None:
    """A comparison of three replicas from its trees to its end; the test plays their validators, under their name."""
    table = Table(site)
    table.writer = KafkaWriter(broker.settings("validator"), site.cluster)
    table.operator = KafkaWriter(broker.settings("projector"), site.cluster)
    number = table.open()
    assert table.run(number).status is SessionStatus.SUCCEEDED
    assert len(table.compared(number)[0]) == 3
    table.writer.close()
    table.operator.close()


def test_what_is_for_operators_is_done_for_the_api_and_for_no_node(
    secured_site: SecuredSite, tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Each service's process is a node: it must not take another out of the cluster, under any name. What it writes
    into `requests` is refused, `operations` it may not write at all, and its own call says so; the API's is done."""
    site, broker = secured_site, secured_site.broker
    port, node_s = unused_port(), broker.settings("node")
    folders = {"TOPOLOG_PROJECTOR__DATA": str(tmp_path / "store"), "TOPOLOG_AUDIT__DATA": str(tmp_path / "audit")}
    started = [
        site.role("coordinator", "run", "coordinator", **fast()),
        site.role("projector", "run", "projector", TOPOLOG_API__PORT=str(port), **folders),
    ]
    site.leader()
    with (
        Node(site.cluster, "liar", kafka=node_s, join_timeout_s=60) as liar,
        Node(site.cluster, "other", kafka=node_s, join_timeout_s=60),
        contextlib.closing(KafkaWriter(node_s, site.cluster)) as writer,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/clusters/{site.cluster}", trust_env=False) as api,
    ):
        log_id = site.told().header.log_id
        assert log_id is not None
        mine, ann_s = RequestId(requester_of("liar", 7), 1), RequestId("ann", 1)
        for name, actor in ((mine, "liar"), (ann_s, "ann@token")):
            removal = NodeRemovalRequested(name, log_id, actor, "out", "other")
            writer.append(Topic.REQUESTS, name.requester, encode_request(removal))
        assert writer.flush(30) == 0
        row = eventually(lambda: outcome_of(site.told().state, mine), "the refusal")
        assert (row.status, row.code) == (Status.REFUSED, "OPERATION_ONLY")
        eventually(lambda: [each for each in site.entries(Topic.DEAD) if b"ann@token" in each.value], "a dead letter")
        assert outcome_of(site.told().state, ann_s) is None
        with pytest.raises(
            NotAllowed, match=f"does not let node use topic {topic_name(site.cluster, Topic.OPERATIONS)}"
        ):
            liar.reset_group("orders", timeout_s=30)
        assert liar.propose(ObjectType("Liar", {"id": "long"}), timeout_s=30).accepted, "it goes on"
        assert {row.node for row in members(site.told().state)} >= {"liar", "other"}
        eventually(lambda: _answers(api), "the API")
        body = {"kind": "remove", "resource": "node", "name": "other", "reason": "out"}
        outcome = api.post("/requests", json=body, timeout=30).json()
        assert outcome["item"]["status"] == "GRANTED", outcome
    for process in started:
        process.close()


def test_nobody_may_do_what_is_another_role_s(secured_site: SecuredSite) -> None:
    """The table is least privilege, not a list of wishes: a node may not decide, an archive may write nothing."""
    site, broker = secured_site, secured_site.broker
    for role, topic in (
        ("node", Topic.DECISIONS),
        ("node", Topic.OPERATIONS),
        ("validator", Topic.OPERATIONS),
        ("coordinator", Topic.OPERATIONS),
        ("projector", Topic.DECISIONS),
        ("archive", Topic.REQUESTS),
        ("lease-health", Topic.REQUESTS),
        ("coordinator", Topic.REQUESTS),
        ("rendezvous", Topic.HEARTBEATS),
    ):
        writer = KafkaWriter(broker.settings(role), site.cluster, timeout_ms=60_000)
        said: list[TopologError | None] = []
        try:
            writer.append(topic, "k", b"v", on_delivery=lambda error, _, said=said: said.append(error))  # type: ignore[misc]
            writer.flush(60)
        except NotAllowed as error:  # who may write nowhere is not let in as a writer
            said.append(error)
        assert said, role
        assert any(isinstance(each, NotAllowed) for each in said), (role, said)
        writer.close()


def test_who_may_nothing_is_told_so_with_exit_code_3(secured_site: SecuredSite, tmp_path: Path) -> None:
    more = {"TOPOLOG_AUDIT__DATA": str(tmp_path / "audit"), "TOPOLOG_PROJECTOR__DATA": str(tmp_path / "store")}
    commands = (("run", "coordinator"), ("run", "projector"), ("cluster", "init"))
    started = [secured_site.role("stranger", *words, **more) for words in commands]
    for process in started:
        code, said = told(process)
        assert code == 3, said
        assert f"does not let stranger use topic topolog.{secured_site.cluster}." in said
        assert "topolog cluster init --plan" in said
        assert "Traceback" not in said


def test_a_wrong_password_and_an_unknown_authority_are_told_apart_from_silence(
    secured_site: SecuredSite, tmp_path: Path
) -> None:
    """Exit code 3, not 4: somebody answers, and does not let us in. What was tried is not shown."""
    wrong = tmp_path / "password"
    wrong.touch(0o600)
    wrong.write_text("hunter2")
    password = secured_site.role("operator", "cluster", "init", TOPOLOG_KAFKA__SASL_PASSWORD_FILE=str(wrong))
    authority = secured_site.role("operator", "cluster", "init", TOPOLOG_KAFKA__SSL_CA_LOCATION="")
    for process in (password, authority):
        code, said = told(process)
        assert code == 3, said
        assert "does not let operator in" in said
        assert "hunter2" not in said


def test_a_reader_that_is_denied_its_topic_does_not_wait_for_ever(
    secured_site: SecuredSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To see a topic is not to read it: whoever may not would look well and stand still."""
    monkeypatch.setattr(kafka, "_DENIED_PATIENCE_S", 0.5)
    site, broker = secured_site, secured_site.broker
    assert KafkaAdmin(broker.settings("validator")).topics()
    reader = KafkaReader(broker.settings("validator"), site.cluster)
    reader.assign({(Topic.HEARTBEATS, 0): Offset(0)})

    def polls() -> None:
        for _ in range(200):
            reader.poll(0.1)

    with pytest.raises(NotAllowed, match="does not let validator use topic"):
        polls()
    reader.close()
