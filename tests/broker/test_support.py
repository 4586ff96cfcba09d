"""The tools for the worst hour while the API is down: they find the cluster on the broker, and bring its log along.

The broker of the tests is shared, so the cluster is the one of which an earlier command has heard from that API; which
clusters count where nobody has said anything is a matter of `clusters_meant.py` and its test.
"""

from pathlib import Path

import pytest
from tests.broker.conftest import Site

from topolog.commands import support
from topolog.projections.cli.bundle import read_bundle
from topolog.projections.cli.contexts import state_folder
from topolog.projections.cli.doctor import examine, meant
from topolog.projections.cli.options import Target
from topolog.projections.cli.session_tokens import FileTokens

DOWN = Target(api="http://127.0.0.1:1")


@pytest.fixture
def heard(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A cluster that somebody has asked about while its API was up."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOPOLOG_CLUSTER__NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    FileTokens(state_folder() / "sessions.json", "http://127.0.0.1:1").keep(site.cluster, "ab.1")
    return site


def test_doctor_and_bundle_find_the_cluster_without_the_api(heard: Site, tmp_path: Path) -> None:
    """Nobody is sent to a cluster of the default name, and the log that can be read is brought along."""
    heard.coordinator("c1")
    heard.leader()
    pairs = [f"kafka.bootstrap.servers={heard.bootstrap}"]
    around, _, broken = support._settings(None, pairs)
    assert around is not None
    assert list(meant(DOWN, around).heard) == [heard.cluster]
    found = examine(DOWN, around, broken)
    (chosen,) = (each.about for each in found if each.check == "cluster")
    assert chosen == f"{heard.cluster}: earlier commands asked this API about it"
    assert not any("cluster init" in each.fix for each in found)
    support.bundle(Path("b.zip"), 16, None, None, pairs, target=DOWN)
    manifest, logs = read_bundle(tmp_path / "b.zip")
    assert (manifest["clusters"], list(logs)) == ([heard.cluster], [heard.cluster])
    assert {name.partition("/")[0] for name in manifest["missing"]} == {"resources"}
