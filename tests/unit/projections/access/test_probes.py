"""What /readyz and /startupz tell: everybody whether, and only who is known why, and of which cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Client
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import serving

from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

ACTIONS = "/v1/clusters/main/projections/actions"
SECRET = "ACME moves to fr-2, ask bob 555"


@pytest.fixture
def keeper(tmp_path: Path) -> Doorkeeper:
    (tmp_path / "door").mkdir()
    return Doorkeeper(tmp_path / "door")


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector, keeper: Doorkeeper, tmp_path: Path) -> Iterator[Client]:
    """Of two clusters, `main` and `other`, of which nothing has been read."""
    requester = Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")
    other = Projector(chronicle.log.reader(), tmp_path / "other", "other", wall_ms=lambda: chronicle.now_ms)
    with serving([Served(projector, requester), Served(other, requester)], keeper.access) as client:
        yield client
    other.close()


def test_nobody_is_told_who_operates_and_why(client: Client, keeper: Doorkeeper, projector: Projector) -> None:
    """A pause showed everybody who had asked for it, and what for."""
    projector.step()
    assert client.get("/readyz").json() == {"ready": False, "reasons": ["behind"], "stopped": None, "clusters": []}
    root, stranger = keeper.let_in("root", "admin"), keeper.let_in("ann", "admin@other")
    client.post(ACTIONS, json={"action": "pause", "reason": SECRET}, headers=root).raise_for_status()
    told = client.get("/readyz")
    assert told.status_code == 503
    assert told.json() == {"ready": False, "reasons": ["paused", "behind"], "stopped": "paused", "clusters": []}
    elsewhere = client.get("/readyz", headers=stranger).json()
    assert [each["cluster"] for each in elsewhere["clusters"]] == ["other"]
    assert elsewhere["reasons"][0] == elsewhere["stopped"] == "paused"
    assert "Nothing has been decided" in elsewhere["reasons"][1]
    known = client.get("/readyz", headers=root).json()
    assert known["stopped"] == f"It is paused by root: {SECRET}"
    assert [each["cluster"] for each in known["clusters"]] == ["main", "other"]


def test_nobody_is_told_what_stopped_a_reader(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    chronicle.append_accepted(b"poison")
    projector.step()
    told = client.get("/readyz").json()
    assert (told["reasons"][0], told["stopped"]) == ("stopped", "stopped")


def test_a_start_is_over_when_all_readers_have_started(
    client: Client, keeper: Doorkeeper, projector: Projector
) -> None:
    """Where callers are known the orchestrator, who is not, was told at once that all had started, and killed them."""
    assert client.get("/startupz").status_code == 503
    projector.step()
    assert client.get("/startupz").json() == {"started": False, "clusters": []}
    ann = client.get("/startupz", headers=keeper.let_in("ann", "viewer@main"))
    assert (ann.status_code, [each["cluster"] for each in ann.json()["clusters"]]) == (503, ["main"])


@pytest.mark.parametrize("shown", ["Bearer topolog_x", "Bearer a.b.c", "Basic YTpi"])
def test_a_probe_is_answered_whatever_is_shown(client: Client, shown: str) -> None:
    for path in ("/livez", "/readyz", "/startupz"):
        assert client.get(path, headers={"Authorization": shown}).text == client.get(path).text
