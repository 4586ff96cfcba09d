"""What an answer must know: tokens, waiting, ages; errors that say what they reflect; and reads that ask no broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from tests.unit.projections.asking import addresses
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.lively import lively
from tests.unit.projections.serving import served

from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

MAIN = "/v1/clusters/main"
PARTS = 2


class Counting:
    """Passes every call on to a reader or a writer of a log, and counts them."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._inner, name)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    lively(chronicle)
    while projector.step():
        pass
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def test_a_read_can_demand_a_token_by_header(client: Client, chronicle: Chronicle) -> None:
    """As `at_least` and `wait`; what is in the address counts more."""
    here, late = (f"{LOG_ID.hex()}.{chronicle.position + more}" for more in (0, 1))
    assert client.get(f"{MAIN}/nodes", headers={"Topolog-At-Least": here}).status_code == 200
    answer = client.get(f"{MAIN}/nodes/n1", headers={"Topolog-At-Least": late, "Prefer": "wait=0"})
    assert (answer.status_code, answer.json()["code"]) == (503, "not_caught_up")
    assert answer.json()["hint"] == "It did not come within 0 ms; ask again."
    given = {"at_least": here, "wait": "1ms"}
    assert client.get(f"{MAIN}/nodes", params=given, headers={"Topolog-At-Least": late}).status_code == 200
    bad = client.get(f"{MAIN}/nodes", headers={"Topolog-At-Least": "x"}).json()
    assert bad["invalid_params"][0]["name"] == "Topolog-At-Least"


def test_who_waits_is_answered_when_it_has_come(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    chronicle.renew("n1")
    projector.step()
    headers = {"Topolog-At-Least": str(chronicle.position), "Prefer": "respond-async, wait=20"}
    assert client.get(f"{MAIN}/cluster", headers=headers).json()["asOf"]["position"] == chronicle.position


def test_an_answer_can_be_wanted_no_older_than_that(tmp_path: Path) -> None:
    """503 `stale` where the reader knows less; the past too is only as good as its reader."""
    chronicle, now = lively(Chronicle().start()), [0.0]
    projector = Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: now[0])
    while projector.step():
        pass
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        for path in ("/nodes", "/nodes/n1", "/decisions", "/export/nodes"):
            now[0] = 0.0
            assert client.get(f"{MAIN}{path}", params={"max_age": "0ms"}).status_code == 200
            now[0] = 60.0
            answer = client.get(f"{MAIN}{path}", params={"max_age": "59s", "as_of": 5})
            assert (answer.status_code, answer.json()["code"]) == (503, "stale")
            assert answer.headers["Retry-After"] == "1"
            assert client.get(f"{MAIN}{path}", params={"max_age": "61s"}).status_code == 200
    projector.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nodes/n77", 404), ("/partitions?group=none", 404), ("/partitions?sort=-nope", 400), ("/nodes?as_of=0", 200)],
)
def test_an_error_says_which_position_it_reflects(client: Client, path: str, status: int) -> None:
    """What is not there now may be there later: a token with every answer for which something was read."""
    answer = client.get(f"{MAIN}{path}")
    assert answer.status_code == status
    assert ("X-Topolog-Token" in answer.headers) == (status != 400)
    if status == 404:
        assert answer.headers["X-Topolog-Age-Ms"].isdecimal()


@pytest.mark.parametrize("part", range(PARTS))
def test_reads_ask_nothing_of_the_broker(chronicle: Chronicle, tmp_path: Path, part: int) -> None:
    """RD13: 0 broker calls on GET paths. Every one of them is asked for, a part of them in each test."""
    lively(chronicle)
    reader, writer = Counting(chronicle.log.reader()), Counting(chronicle.log.writer())
    projector = Projector(reader, tmp_path, "main")
    while projector.step():
        pass
    assert "poll" in reader.calls
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        reader.calls.clear()
        writer.calls.clear()
        asked = 0
        for _, path in list(addresses(client))[part::PARTS]:
            assert client.get(path).status_code in (200, 400, 404, 409), path
            asked += 1
        assert asked > 100 // PARTS
        assert (reader.calls, writer.calls) == ([], [])
    projector.close()
