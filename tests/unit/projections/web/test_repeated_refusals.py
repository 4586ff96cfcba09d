"""What is refused again and again is one row of a page, with how often and from when to when."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.requests import RequestRefused
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

REFUSED = 5


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Over a cluster that has refused n9 again and again, and n8 once."""
    chronicle = Chronicle().start()
    for node in ("n8", *["n9"] * REFUSED):
        ref, subject = chronicle.ref(f"{node}.join"), f"node {node}"
        chronicle.decide(RequestRefused(ref, subject, "AHEAD", "BA23", "It is on.", {}))
    projector = Projector(chronicle.log.reader(), tmp_path, "main")
    while projector.step():
        pass
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client
    projector.close()


@pytest.mark.parametrize("view", ["requests", "decisions?event=RequestRefused"])
def test_refusals_of_the_same_are_one_row(client: httpx.Client, view: str) -> None:
    shown = client.get(f"/clusters/main/{view}", headers={"Accept": "text/html"}).text
    rows = [row for row in re.findall(r"<tr>.*?</tr>", shown, re.DOTALL) if "node n" in row]
    assert [f"{REFUSED} times" in row for row in rows] == [True, False]
    assert rows[0].count("<time") >= 3
