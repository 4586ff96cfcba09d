"""One process serves several clusters: each has its own store, its own answers and its own requests."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import serving

from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Clusters `east`, of which n1 is a member, and `west`, of which n2 is."""
    with ExitStack() as stack:
        served = []
        for name, node in (("east", "n1"), ("west", "n2")):
            chronicle = Chronicle().start()
            chronicle.join(node)
            projector = stack.enter_context(closing(Projector(chronicle.log.reader(), tmp_path / name, name)))
            projector.step()
            served.append(Served(projector, Requester(AnsweringWriter(chronicle, projector), "api", "broker:9092")))
        yield stack.enter_context(serving(served))


def test_each_address_answers_for_its_own_cluster(client: httpx.Client) -> None:
    for name, node in (("east", "n1"), ("west", "n2")):
        items = client.get(f"/v1/clusters/{name}/nodes").json()["items"]
        assert [each["node"] for each in items] == [node]
    assert [each["name"] for each in client.get("/v1/clusters").json()["items"]] == ["east", "west"]
    assert client.get("/v1/clusters/north/nodes").status_code == 404


def test_a_request_to_one_cluster_leaves_the_others_alone(client: httpx.Client) -> None:
    body = {"kind": "propose", "definition": {"name": "Customer", "fields": {"id": "long"}}}
    assert client.post("/v1/clusters/west/requests", json=body).status_code == 200
    types = {name: client.get(f"/v1/clusters/{name}/types").json()["items"] for name in ("east", "west")}
    assert [len(types["east"]), [each["name"] for each in types["west"]]] == [0, ["Customer"]]


def test_all_must_be_ready_and_metrics_tell_them_apart(client: httpx.Client) -> None:
    ready = client.get("/readyz").json()
    assert [ready["ready"], [each["cluster"] for each in ready["clusters"]]] == [True, ["east", "west"]]
    lines = client.get("/metrics").text.splitlines()
    assert sum(line.startswith("# TYPE topolog_projection_members ") for line in lines) == 1
    assert {line for line in lines if line.startswith("topolog_projection_members{")} == {
        'topolog_projection_members{cluster="east"} 1.0',
        'topolog_projection_members{cluster="west"} 1.0',
    }
