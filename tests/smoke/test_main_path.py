"""The main path on a real broker: nodes agree, everyone folds the same, bad input harms nobody."""

import functools
import subprocess
import sys

import pytest
from tests.broker.conftest import Site, eventually

from topolog.events.errors import MergeConflict, Unreachable
from topolog.events.ids import Position
from topolog.events.kafka import KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.log import Entry
from topolog.events.metadata import MetadataUpdateAccepted, ObjectType, type_row
from topolog.events.requests import Status
from topolog.events.topics import Topic
from topolog.streams.node.client import Node

CUSTOMER = ObjectType("Customer", {"id": "long", "name": "String"}, affinity_key="id")


def test_three_nodes_agree_on_a_type_and_all_folds_are_equal(site: Site) -> None:
    """ME11, ME15, ME16: proposed, accepted with the evidence of every server, the same everywhere."""
    site.coordinator("c1")
    with site.node("n1") as one, site.node("n2") as two, site.node("n3") as three:
        outcome = one.propose(CUSTOMER)
        assert (outcome.status, outcome.version, outcome.accepted) == (Status.GRANTED, 1, True)
        more = two.propose(ObjectType("Customer", {"email": "String"}, affinity_key="id"))
        assert more.version == 2
        for node in (one, two, three):
            eventually(functools.partial(_has_applied, node, more.position), "everyone to apply version 2")
            metadata = node.metadata("Customer")
            assert metadata is not None
            assert set(metadata.definition.fields) == {"id", "name", "email"}
        accepted = [each.event for each in site.told().decisions if isinstance(each.event, MetadataUpdateAccepted)]
        assert set(accepted[-1].evidence.applied) == {"n1", "n2", "n3"}
        assert all(site.agrees_with(node) for node in (one, two, three))


def _has_applied(node: Node, position: Position) -> bool:
    return node.position >= position


def _two_of(site: Site, topic: Topic) -> list[Entry] | None:
    found = site.entries(topic)
    return found if len(found) == 2 else None


def test_a_conflicting_proposal_is_refused_with_both_sides(site: Site) -> None:
    """ME8, ME13: the refusal names both types, takes no version and changes nothing."""
    site.coordinator("c1")
    with site.node("n1") as node:
        node.propose(CUSTOMER)
        with pytest.raises(MergeConflict) as refusal:
            node.propose(ObjectType("Customer", {"name": "long"}, affinity_key="id"))
        assert (refusal.value.facts["current"], refusal.value.facts["proposed"]) == ("String", "long")
        row = type_row(site.told().state, "Customer")
        assert row is not None
        assert (row.pending_version, row.accepted_version) == (1, 1)


def test_many_proposals_under_way_get_one_version_each(site: Site) -> None:
    """ME14, K7: pipelined proposals of several nodes to one type each get a version of their own."""
    site.coordinator("c1")
    with site.node("n1") as one, site.node("n2") as two:
        nodes = (one, two)
        futures = [nodes[n % 2].submit(ObjectType("Wide", {f"f{n}": "long"})) for n in range(200)]
        versions = [submitted.outcome.result(30).version for submitted in futures]
        assert sorted(versions) == list(range(1, 201))


def test_undecodable_input_goes_to_dead_and_work_goes_on(site: Site) -> None:
    """Bad input: garbage on `requests` and `heartbeats` lands on `dead`, bytes untouched, with its reasons."""
    site.coordinator("c1")
    writer = KafkaWriter(site.kafka, site.cluster)
    writer.append(Topic.REQUESTS, "someone", b"no avro at all", (("theirs", b"kept"),))
    writer.append(Topic.HEARTBEATS, "n1", b"\xc3\x01 neither is this")
    writer.flush(10)
    with site.node("n1") as node:
        assert node.propose(CUSTOMER).accepted
        dead = eventually(functools.partial(_two_of, site, Topic.DEAD), "two dead letters")
    by_topic = {dict(entry.headers)["__dlq.errors.topic"]: entry for entry in dead}
    assert by_topic[b"requests"].value == b"no avro at all"
    assert dict(by_topic[b"requests"].headers)["theirs"] == b"kept"
    assert by_topic[b"heartbeats"].value == b"\xc3\x01 neither is this"


def test_a_foreign_record_on_decisions_counts_for_nobody(site: Site) -> None:
    """K3: a record without our stamp is refused by every reader alike, and never decoded."""
    site.coordinator("c1")
    with site.node("n1") as node:
        writer = KafkaWriter(site.kafka, site.cluster)
        writer.append(Topic.DECISIONS, site.cluster, b"who am I")
        writer.flush(10)
        assert node.propose(CUSTOMER).accepted


def test_an_unreachable_broker_is_named_within_ten_seconds() -> None:
    """Bad input: no broker, one clear error that names the address."""
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}).topics()


def test_init_says_how_many_copies_the_topics_have(kafka: str, cluster: str) -> None:
    """What is there counts, not what is asked for; too few brokers are named."""

    def init(*args: str) -> subprocess.CompletedProcess[str]:
        sets = ("--set", f"cluster.name={cluster}", "--set", f"kafka.bootstrap.servers={kafka}")
        command = [sys.executable, "-m", "topolog", "cluster", "init", *args, *sets]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    too_many = init("--replicas", "3")
    assert (too_many.returncode, "need 3 brokers, there are 1" in too_many.stderr) == (2, True)
    made = init()
    assert (made.returncode, "One copy of decisions" in made.stderr) == (0, True)
    other = init("--replicas", "3")
    assert (other.returncode, "decisions 1" in other.stderr) == (8, True)
