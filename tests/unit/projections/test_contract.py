"""What the API answers is what it says of itself: every address is asked, and the answer held against its schema.

The cluster has something of everything: partitions, types, definitions, sessions, letters, lease health, baselines.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from httpx import Client
from openapi_schema_validator import OAS31Validator
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.asking import MAIN, addresses
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.lively import lively
from tests.unit.projections.repairing import Rounds, definition, differing_tables, union_definition
from tests.unit.projections.serving import served
from tests.unit.projections.standing import ACTIVATE, Stage
from tests.unit.projections.test_dead_letters import bury
from tests.unit.projections.test_lease_health import alive, health, tell
from tests.unit.projections.test_objects import ADA, ORDERS, PRICES, SHOP

from topolog.events.repair_definition import SessionKind
from topolog.projections.api import written
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
DOCUMENT: Json = msgspec.json.decode(written.document())
ALWAYS_EMPTY = frozenset({"branches"})
"""Lists of which this cluster has nothing."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    chronicle = lively(Chronicle().start())
    projector = Projector(
        chronicle.log.reader(), tmp_path_factory.mktemp("contract"), "main", wall_ms=lambda: chronicle.now_ms
    )
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        stage = Stage(chronicle, projector, client)
        stage.step()
        _fill(stage)
        yield client
    projector.close()


def _fill(stage: Stage) -> None:
    stage.granted({"kind": "schema-change", "statements": [SHOP, ORDERS, PRICES, ADA]})
    stage.granted(ACTIVATE)
    stage.finish()
    rounds = Rounds(stage.chronicle)
    differing_tables(rounds)
    rounds.run(rounds.start(union_definition()))
    rounds.run(rounds.start(union_definition(SessionKind.REPAIR)))
    rounds.schedule("nightly", definition(), 1_000_000)
    bury(stage.chronicle, b"garbage")
    tell(stage.chronicle, stage.projector, health(stage.chronicle), alive())
    stage.step()


def resolved(part: Json) -> Json:
    while "$ref" in part:
        found: Any = DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


@pytest.mark.parametrize("part", range(4))
def test_every_answer_is_as_its_schema_and_its_example_have_it(client: Client, part: int) -> None:
    """RD12: each GET there is; each item has the fields of the example, no more and no fewer."""
    seen = 0
    for path, address in [*addresses(client)][part::4]:
        answer = client.get(address)
        said = DOCUMENT["paths"][path]["get"]["responses"].get(str(answer.status_code))
        assert said is not None, f"{address} answers {answer.status_code}: {answer.text}"
        kind = answer.headers["Content-Type"].partition(";")[0]
        content = resolved(said).get("content", {}).get(kind, {})
        if "json" in kind and kind != "application/jsonl" and "schema" in content:
            schema = {**content["schema"], "components": DOCUMENT["components"]}
            errors = list(OAS31Validator(schema).iter_errors(answer.json()))
            assert not errors, f"{address}: {errors[0].message}"
            seen += has_fields_of_example(address, answer.json(), content.get("example", {}))
    assert seen > 12


def has_fields_of_example(address: str, answer: Json, example: Json) -> bool:
    """Whether there was something to compare."""
    item, said = (body.get("item") or next(iter(body.get("items", ())), None) for body in (answer, example))
    if item is None or said is None:
        return False
    assert item.keys() == said.keys(), address
    return True


def test_there_is_something_in_every_list(client: Client) -> None:
    """Or nothing would be held against anything."""
    lists = [path for path, _ in addresses(client) if path.startswith("/v1/clusters/{cluster}/export/")]
    names = {path.rsplit("/", 1)[1] for path in lists}
    empty = {name for name in names if not client.get(f"{MAIN}/{name}").json()["items"]}
    assert empty == ALWAYS_EMPTY
