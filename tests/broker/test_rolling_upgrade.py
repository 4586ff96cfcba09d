"""A rolling upgrade with a real older build: the first release, out of this history, beside the present one.

Both builds run in this environment; the older one's code stands first on its processes' path.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.broker.conftest import Process, Site, eventually

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request
from topolog.events.ids import NodeId
from topolog.events.kafka import KafkaWriter
from topolog.events.levels import FIRST_LEVEL, NEWEST_LEVEL, level_of
from topolog.events.membership import NodeRow
from topolog.events.requests import LevelRaiseRequested, OutcomeRow, Status, outcome_of
from topolog.events.terms import cluster
from topolog.events.topics import Topic

ROOT = Path(__file__).parents[2]
FIRST_RELEASE = "8d7b6f5"
"""The last commit that knows level 1 only: what it wrote is what every later build reads."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the first release."""
    folder = tmp_path_factory.mktemp("older")
    if subprocess.run(["git", "cat-file", "-e", FIRST_RELEASE], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip(f"this copy has no history: the older build is taken from commit {FIRST_RELEASE}")
    archive = subprocess.run(["git", "archive", FIRST_RELEASE], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def of_build(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src")}


def older_member(site: Site, tree: Path, name: str) -> Process:
    """A node of the older build, not yet a member."""
    script = str(tree / "tests" / "integration" / "member.py")
    return site.started([sys.executable, script, site.cluster, name, site.bootstrap], env=of_build(tree))


def propose(member: Process, type_name: str, field: str) -> bool:
    member.tell(do="propose", type=type_name, fields={field: "long"})
    return bool(member.hear("proposed")["accepted"])


def raise_level(site: Site, sequence: int) -> OutcomeRow:
    """Ask for the newest level, as the API does, and wait for the outcome."""
    name = RequestId("operator", sequence)
    log_id = bytes.fromhex(cluster(site.told().state).log_id)
    writer = KafkaWriter(site.kafka, site.cluster)
    writer.append(
        Topic.REQUESTS, "operator", encode_request(LevelRaiseRequested(name, log_id, "ada", "", NEWEST_LEVEL))
    )
    writer.flush(10)
    return eventually(lambda: outcome_of(site.told().state, name), "the outcome of the request to raise the level")


def announced(site: Site, name: str) -> int | None:
    row = site.told().state.get(NodeRow, NodeId(name))
    return level_of(row.capabilities) if row and row.is_member else None


def test_members_of_two_builds_agree_until_the_level_is_raised(site: Site, older: Path) -> None:
    """K8: at level 1 both builds read every record; the level rises when the last node is upgraded; then the older
    build is told that it is too old."""
    first = site.coordinator("c1", env=of_build(older))
    old = {name: older_member(site, older, name) for name in ("n1", "n2")}
    for member in old.values():
        member.hear("member")
    assert propose(old["n1"], "Customer", "id")
    assert cluster(site.told().state).feature_level == FIRST_LEVEL

    site.coordinator("c2")
    eventually(lambda: (first.end(), True)[1], "the older coordinator to stop")
    new = site.member("n3")
    assert propose(new, "Customer", "name"), "the older members apply what the newer coordinator decides"
    assert propose(old["n2"], "Customer", "email")
    assert (announced(site, "n2"), announced(site, "n3")) == (FIRST_LEVEL, NEWEST_LEVEL)
    refused = raise_level(site, 1)
    assert (refused.status, refused.code) == (Status.REFUSED, "LEVEL_UNSUPPORTED")
    assert set(refused.facts) == {"n1", "n2"}

    for name, member in old.items():
        assert member.leave() == 0, f"{name} has read nothing it does not know: {member.complaints[-3:]}"
        site.member(name)
    raised = raise_level(site, 2)
    assert raised.status is Status.GRANTED
    told = site.told()
    assert cluster(told.state).feature_level == NEWEST_LEVEL
    assert propose(new, "Customer", "phone")

    late = older_member(site, older, "n4")
    eventually(functools.partial(_has_ended, late), "the older build to stop")
    assert any("cannot be folded" in line for line in late.complaints), late.complaints[-3:]
    assert announced(site, "n4") is None


def _has_ended(process: Process) -> bool:
    return process.exit_code is not None
