"""Any request to the API: whatever the path, the parameters, the headers and the body, never a 500 and always our form.

Paths, parameters and their names come from the API's own OpenAPI document, so that what is added is tried as well.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.test_projector import eventful

from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

REQUESTS = "/v1/clusters/main/requests"
KNOWN = ("main", "n1", "Customer", "0", "3", "-1", "api-1/1", "9" * 40, "", ".", "..", "%2F", "é/ö", "\x00")
fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 4)

PARTS = 6
"""Of the reads, so that each test is short."""

texts = st.text(max_size=30) | st.sampled_from(KNOWN)
values = (
    texts | st.integers().map(str) | st.floats().map(str) | st.sampled_from(("now", "20ms", "2027-01-15T08:00:00Z"))
)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
bodies = st.recursive(leaves, lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each, max_size=4))
definitions = st.fixed_dictionaries(
    {"name": texts | bodies, "fields": st.dictionaries(texts, texts | bodies, max_size=3) | bodies},
    optional={"affinity_key": texts | bodies, "enum": bodies, "schemas": bodies},
)
requests = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            (
                *("propose", "remove", "create-group", "alter-group", "drop-group", "reset-group", "exchange"),
                *("cluster-state", "baseline", "auto-adjust", "hold", "warm", "drain", "lease-terms"),
                *("start-session", "alter-session", "abort-sessions", "set-schedule", "drop-schedule"),
                "withdraw-replica",
            )
        )
        | texts
    },
    optional={
        "definition": definitions | bodies,
        "resource": st.sampled_from(("type", "node")) | texts,
        "name": texts | bodies,
        "reason": texts | bodies,
        "based_on": st.integers() | bodies,
        "partitions": st.integers() | bodies,
        "backups": st.integers() | bodies,
        "node_filter": st.dictionaries(texts, texts, max_size=3) | bodies,
        "backup_filter": texts | bodies,
        "loss_policy": st.sampled_from(("IGNORE", "READ_ONLY_SAFE")) | texts,
        "persistent": st.booleans() | bodies,
        "state": st.sampled_from(("ACTIVE", "INACTIVE")) | texts,
        "verb": st.sampled_from(("SET", "ADD", "REMOVE")) | texts,
        "nodes": st.lists(texts, max_size=3) | bodies,
        "version": st.sampled_from(("1.0", "3.0")) | texts,
        "soft_ms": st.integers() | bodies,
        "on": st.booleans() | bodies,
        "node": st.sampled_from(("n1", "n3")) | texts | bodies,
        "table": st.sampled_from(("orders", "shop.orders")) | texts | bodies,
        "session": st.sampled_from(("PREVIEW", "REPAIR")) | st.integers() | st.none() | bodies,
        "ranges": st.lists(st.sampled_from(("FULL", "7..7", "f0000000..10000000")) | texts, max_size=3) | bodies,
        "intensity": st.integers() | bodies,
        "every_ms": st.integers() | bodies,
        "paused": st.booleans() | bodies,
    },
)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    eventful(chronicle)
    projector.step()
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client


def assert_ours(answer: Response) -> None:
    """Below 500, or a 503 that says why; an error is a problem with code and sentence."""
    assert answer.status_code < 500 or answer.status_code == 503, (answer.request.url, answer.text)
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        problem = answer.json()
        assert answer.headers["content-type"].startswith("application/problem+json"), answer.headers
        assert problem["status"] == answer.status_code
        assert problem["code"]
        assert problem["detail"] or problem["title"]


def reads(client: Client) -> list[tuple[str, list[str]]]:
    """(path, names of its query parameters) of everything that can be asked for with GET, but for watches, which do not
    come to an end."""
    document = client.get("/openapi.json").json()
    shared = document["components"]["parameters"]

    def names(operation: dict[str, Any]) -> list[str]:
        given = (shared.get(each.get("$ref", "").rpartition("/")[2], each) for each in operation.get("parameters", []))
        return [each["name"] for each in given if each["in"] == "query" and each["name"] != "watch"]

    return [(path, names(methods["get"])) for path, methods in document["paths"].items() if "get" in methods]


@pytest.mark.parametrize("part", range(PARTS))
@settings(fuzz, max_examples=fuzz.max_examples // 2)
@given(data=st.data())
def test_any_read_is_answered(client: Client, part: int, data: st.DataObject) -> None:
    """Names that are not there, positions that never were, cursors of nobody, moments that are no moments."""
    path, parameters = data.draw(st.sampled_from(reads(client)[part::PARTS]))
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + _quoted(data.draw(texts)) + rest.partition("}")[2]
    asked: dict[str, Any] = data.draw(st.dictionaries(st.sampled_from(parameters or ["x"]) | texts, values, max_size=4))
    answer = client.get(path, params={"timeout": "20ms", **asked})
    if answer.headers.get("content-type", "").startswith("application/problem") or answer.status_code >= 400:
        assert_ours(answer)


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


@fuzz
@given(
    body=requests | bodies,
    key=st.none() | st.text(st.characters(codec="ascii", categories=("L", "N", "P")), max_size=20),
)
@example(body={"kind": "propose", "definition": {"name": "\x00", "fields": {}}}, key=None)
@example(body={"kind": "remove", "resource": "type", "name": "x" * 70_000}, key="/")
def test_any_request_that_is_made_is_answered(client: Client, body: Any, key: str | None) -> None:
    """K7: what is malformed is refused by the API, what is not gets its one outcome."""
    headers = {"Idempotency-Key": key} if key else {}
    assert_ours(client.post(REQUESTS, json=body, params={"timeout": "20ms"}, headers=headers))


@fuzz
@given(
    body=st.binary(max_size=200),
    kind=st.sampled_from(("application/json", "text/plain", "application/x-www-form-urlencoded", "")),
)
@example(body=b'{"kind": "propose", "based_on": NaN}', kind="application/json")
@example(body=b"[" * 100_000, kind="application/json")
def test_any_bytes_as_a_request_are_refused(client: Client, body: bytes, kind: str) -> None:
    """Bytes that are no JSON, JSON that is no request, and other media types."""
    answer = client.post(REQUESTS, content=body, headers={"Content-Type": kind}, params={"timeout": "20ms"})
    assert 400 <= answer.status_code < 500
    assert_ours(answer)


@fuzz
@example(method="PUT", path=["", "", "", ""])
@given(
    method=st.sampled_from(("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "GET", "POST")),
    path=st.lists(texts.map(_quoted), max_size=5),
)
def test_any_path_is_answered(client: Client, method: str, path: list[str]) -> None:
    """What is not there is not found, in our form; what is there takes no other method."""
    root = str(client.base_url).rstrip("/")  # by itself a path of "//" would name another host
    answer = client.request(method, f"{root}/{'/'.join(path)}")
    assert answer.status_code < 500
    if path and answer.status_code >= 400:
        assert_ours(answer)
