"""A rolling upgrade: processes of today's build beside those of one that knows a made-up feature level 2 (K28).

The newer build is the same tree with other schemas, which stands first on its processes' path.
"""

import os
import sys
from collections.abc import Mapping

import pytest
from tests import second_level
from tests.broker.conftest import MEMBER, Process, Site, eventually

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.codec import CODEC
from topolog.events.ids import NodeId
from topolog.events.kafka import KafkaWriter
from topolog.events.leases import NodeRow
from topolog.events.levels import FIRST_LEVEL, LevelRaiseRequested, level_of
from topolog.events.membership import JoinRequested, NodeJoined
from topolog.events.requests import OutcomeRow, Status, outcome_of
from topolog.events.terms import cluster
from topolog.events.topics import Topic

LEVEL, NEWER = second_level.LEVEL, second_level.CODEC


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process of the newer build."""
    return {**os.environ, "PYTHONPATH": str(second_level.write_tree(tmp_path_factory.mktemp("newer")))}


def member(site: Site, name: str, env: Mapping[str, str] | None = None) -> Process:
    """A node, not yet a member."""
    return site.started([sys.executable, "-m", MEMBER, site.cluster, name, site.bootstrap, "True"], env)


def propose(member: Process, type_name: str, field: str) -> bool:
    member.tell(do="propose", type=type_name, fields={field: "long"})
    return bool(member.hear("proposed")["accepted"])


def raise_level(site: Site, sequence: int) -> OutcomeRow:
    """Ask for the newer level, as the API does, and wait for the outcome."""
    name = RequestId("operator", sequence)
    log_id = bytes.fromhex(cluster(site.told().state).log_id)
    writer = KafkaWriter(site.kafka, site.cluster)
    writer.append(Topic.OPERATIONS, "operator", encode_request(LevelRaiseRequested(name, log_id, "ada", "", LEVEL)))
    writer.flush(10)
    return eventually(lambda: outcome_of(site.told().state, name), "the outcome of the request to raise the level")


def announced(site: Site, name: str) -> int | None:
    row = site.told().state.get(NodeRow, NodeId(name))
    return level_of(row.capabilities) if row and row.is_member else None


def of_newer_schemas(site: Site, topic: Topic, kind: type) -> list[bool]:
    """Of each record of this kind, whether only the newer build can read it."""
    values = [entry.value for entry in site.entries(topic)]
    return [CODEC.read(value) is None for value in values if NEWER.type_of(value) is kind]


def complained(process: Process, text: str) -> bool:
    return eventually(process.ended, "its end") != (0,) and any(text in line for line in process.complaints)


def test_members_of_two_builds_agree_until_the_level_is_raised(site: Site, newer: Mapping[str, str]) -> None:
    """K28: at the first level both builds read every record; the level rises when the last node is upgraded; from then
    on newer schemas are written, and today's build is told that it is too old."""
    first = site.coordinator("c1")
    old = {name: site.member(name) for name in ("n1", "n2")}
    assert propose(old["n1"], "Customer", "id")
    assert cluster(site.told().state).feature_level == FIRST_LEVEL

    site.coordinator("c2", newer)
    assert first.end() == 0
    new = member(site, "n3", newer)
    new.hear("member")
    assert propose(new, "Customer", "name"), "the older members apply what the newer coordinator decides"
    assert propose(old["n2"], "Customer", "email")
    assert (announced(site, "n2"), announced(site, "n3")) == (FIRST_LEVEL, LEVEL)
    refused = raise_level(site, 1)
    assert (refused.status, refused.code) == (Status.REFUSED, "LEVEL_UNSUPPORTED")
    assert set(refused.facts) == {"n1", "n2"}

    for name, process in old.items():
        assert process.leave() == 0, f"{name} has read nothing it does not know: {process.complaints[-3:]}"
        member(site, name, newer).hear("member")
    assert raise_level(site, 2).status is Status.GRANTED
    assert cluster(site.told().state).feature_level == LEVEL
    assert not any(of_newer_schemas(site, Topic.DECISIONS, NodeJoined))
    assert complained(member(site, "n4"), "Upgrade it"), "nobody waits for who cannot read the next decision"

    member(site, "n5", newer).hear("member")
    assert propose(new, "Customer", "phone")
    assert of_newer_schemas(site, Topic.DECISIONS, NodeJoined) == [False] * 5 + [True]
    assert of_newer_schemas(site, Topic.REQUESTS, JoinRequested)[-1]
    assert complained(member(site, "n6"), "upgrade it"), "it stops at what it cannot read"
