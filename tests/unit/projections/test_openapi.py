"""The API's description of itself: what is committed is what is served, it is valid, and what it says is so."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import Client
from openapi_schema_validator import OAS31Validator
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.topics import Topic
from topolog.projections.api import contract, written
from topolog.projections.api.listings import LISTINGS
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
COMMITTED = Path(__file__).parents[3] / "docs" / "openapi.json"
MAIN = "/v1/clusters/main"
OF_THIS_PROCESS = ("can-i", "projections")
"""What is read at no position of the log."""


@pytest.fixture(scope="module")
def document() -> Json:
    found: Json = msgspec.json.decode(written.document())
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def resolved(document: Json, part: Json) -> Json:
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def test_what_is_committed_is_what_is_served() -> None:
    """RD12: `make openapi` writes it anew."""
    assert COMMITTED.read_text(encoding="utf-8") == written.document(), "run `make openapi`"


def test_every_address_tells_its_parameters_errors_and_headers(document: Json) -> None:
    """Nothing that can be asked or answered is left out, and everything is explained."""
    for path, method, operation in operations(document):
        assert operation["description"], path
        parameters = [resolved(document, each) for each in operation.get("parameters", ())]
        assert "422" not in operation["responses"], path
        for each in parameters:
            assert each["in"] == "path" or each.get("description") or each["schema"].get("description"), (path, each)
        if not path.startswith("/v1/clusters/{cluster}/"):
            continue
        errors = {status for status in operation["responses"] if status >= "400"}
        assert errors >= {"400", "404", "503"}, (path, method)
        for response in operation["responses"].values():
            assert "X-Topolog-Token" in resolved(document, response)["headers"], path
        names = {each["name"] for each in parameters}
        if method == "get" and path.split("/")[4] not in OF_THIS_PROCESS:
            assert "as_of" in names or names >= {"from", "to"}, path
            assert names >= {"at_least", "wait", "max_age", "Topolog-At-Least", "Prefer", "If-None-Match"}


def test_every_example_is_as_its_schema_says(document: Json) -> None:
    """Of every answer and of every body; a field too many or too few is noticed."""
    seen = 0
    for path, method, operation in operations(document):
        for part in (operation.get("requestBody"), operation["responses"].get("200")):
            content = resolved(document, part or {}).get("content", {}).get("application/json", {})
            examples = [content["example"]] if "example" in content else []
            examples += [each["value"] for each in content.get("examples", {}).values()]
            for example in examples:
                schema = {**content["schema"], "components": document["components"]}
                errors = list(OAS31Validator(schema).iter_errors(example))
                assert not errors, (path, method, errors[0].message)
                seen += 1
    assert seen > 100


@pytest.fixture
def writer(chronicle: Chronicle, projector: Projector) -> AnsweringWriter:
    for node in ("n1", "n2", "n3"):
        chronicle.join(node)
    projector.step()
    return AnsweringWriter(chronicle, projector)


@pytest.fixture
def client(projector: Projector, writer: AnsweringWriter) -> Iterator[Client]:
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield client


@pytest.mark.parametrize("name", sorted(contract.BODIES))
def test_every_kind_of_request_can_be_tried_and_repeated(client: Client, chronicle: Chronicle, name: str) -> None:
    """Each example is understood. A dry run sends nothing and says what the request then does; with one
    Idempotency-Key it is decided once, however often it is sent."""
    body = contract.BODIES[name]["value"]
    tried = client.post(f"{MAIN}/requests", json=body, params={"dry_run": "true"})
    assert chronicle.log.entries(Topic.OPERATIONS) == []
    key = {"Idempotency-Key": "cli-7/1"}
    first, second = (client.post(f"{MAIN}/requests", json=body, headers=key) for _ in range(2))
    assert tried.status_code == first.status_code == second.status_code
    assert first.status_code in (HTTPStatus.OK, HTTPStatus.CONFLICT), first.text
    assert len(chronicle.log.entries(Topic.OPERATIONS)) == 1
    for answer in (tried, first, second):
        assert answer.headers["X-Topolog-Token"].split(".")[0] == chronicle.log_id.hex()
    if first.status_code == HTTPStatus.OK:
        assert tried.json()["item"]["status"] == first.json()["item"]["status"]
        assert first.json()["item"]["position"] == second.json()["item"]["position"]
    else:
        assert tried.json()["code"] == first.json()["code"] == second.json()["code"]


def test_every_list_is_declared_once_and_exported(document: Json) -> None:
    for name in LISTINGS:
        listed = document["paths"][f"/v1/clusters/{{cluster}}/{name}"]["get"]
        exported = document["paths"][f"/v1/clusters/{{cluster}}/export/{name}"]["get"]
        filters = [
            {resolved(document, each)["name"] for each in operation["parameters"]} for operation in (listed, exported)
        ]
        assert filters[0] - filters[1] == {"limit", "cursor", "sort", "watch", "since", "changes_since"}
        assert filters[1] - filters[0] == {"format"}
