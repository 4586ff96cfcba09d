"""What differs between two moments: what the two lists say, found by what has changed in between."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served

from topolog.events.topics import Topic
from topolog.projections.api.diffs import COMPARED, differences
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.store import Reading
from topolog.streams.simulation import Faults
from topolog.streams.simulation.run import _Run, drawn


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """The whole history of a simulated cluster."""
    run = _Run(drawn(15, 5_000, Faults()))
    run.through()
    log = run._histories.worlds[0].broker.log
    assert log.entries(Topic.DECISIONS)
    folder: Path = tmp_path_factory.mktemp("store")
    with closing(Projector(log.reader(), folder, "main")) as projector:
        while projector.step():
            pass
        with projector.reading() as reading:
            yield reading


def lasting(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__ if not name.endswith("_ms")}


def listed(listing: Listing[Any], reading: Reading) -> dict[str, dict[str, Any]]:
    return {listing.title_of(each): lasting(each) for each in listing.items(reading.settled(), ListQuery())}


@pytest.mark.parametrize("listing", [each for each in COMPARED if not each.shows_present], ids=lambda each: each.name)
def test_it_is_what_the_two_lists_say(newest: Reading, listing: Listing[Any]) -> None:
    """Whatever was narrowed to what the sets in between can have changed."""
    chance = random.Random(6)
    for _ in range(8):
        first, second = (newest.as_of(at) for at in sorted(chance.sample(range(int(newest.position)), 2)))
        old, new = listed(listing, first), listed(listing, second)
        found = {each.name: each.change for each in differences(listing, first, second, {})}
        expected = dict.fromkeys(new.keys() - old.keys(), "ADDED") | dict.fromkeys(old.keys() - new.keys(), "REMOVED")
        expected |= {name: "CHANGED" for name in old.keys() & new.keys() if old[name] != new[name]}
        assert found == expected


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[httpx.Client]:
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    chronicle.accept("Customer", "n1")
    chronicle.propose("Order", {"id": "long"})
    chronicle.propose("Customer", {"id": "long", "name": "String"})
    projector.step()
    with served(projector, Requester(chronicle.log.writer(), "api", "broker:9092")) as client:
        yield client


def diff(client: httpx.Client, params: dict[str, str], status: int = 200) -> Any:
    answer = client.get("/v1/clusters/main/diff/types", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_field_that_changed_is_told_in_words(client: httpx.Client, chronicle: Chronicle) -> None:
    body = diff(client, {"from": str(chronicle.position - 2)})
    assert (body["asOf"]["position"], body["since"]["position"]) == (chronicle.position, chronicle.position - 2)
    customer, order = body["items"]
    assert (order["name"], order["change"], order["before"]) == ("Order", "ADDED", None)
    assert "pending_version 1 → 2" in customer["changes"]
    assert (customer["before"]["pending_version"], customer["after"]["pending_version"]) == (1, 2)


def test_pages_are_of_the_same_two_moments(client: httpx.Client, chronicle: Chronicle, projector: Projector) -> None:
    first = diff(client, {"from": "3", "limit": "1"})
    chronicle.propose("Aside", {"id": "long"})
    projector.step()
    rest = diff(client, {"limit": "1", "cursor": first["next"]})
    assert [each["name"] for each in (*first["items"], *rest["items"])] == ["Customer", "Order"]
    assert rest["next"] is None


def test_a_cursor_belongs_to_its_filters(client: httpx.Client) -> None:
    """As with every list: the next page of another question is refused, not given."""
    first = diff(client, {"from": "3", "limit": "1", "name": "*er"})
    assert diff(client, {"cursor": first["next"], "name": "*er"})["items"]
    refused = diff(client, {"cursor": first["next"], "name": "Cust*"}, 400)
    assert "other filters" in refused["detail"]


def test_nothing_differs_between_a_moment_and_itself(client: httpx.Client) -> None:
    assert diff(client, {"from": "4", "to": "4"})["items"] == []


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({}, 400),
        ({"from": "5", "to": "4"}, 400),
        ({"from": "yesterday"}, 400),
        ({"from": "900"}, 404),
        ({"from": "3", "sort": "name"}, 400),
    ],
)
def test_what_cannot_be_compared_is_refused(client: httpx.Client, params: dict[str, str], status: int) -> None:
    assert diff(client, params, status)["code"]


def test_decisions_in_between_are_those_that_came(client: httpx.Client, chronicle: Chronicle) -> None:
    answer = client.get("/v1/clusters/main/diff/decisions", params={"from": str(chronicle.position - 2)})
    names = [each["name"] for each in answer.json()["items"]]
    assert names == [str(chronicle.position - 1), str(chronicle.position)]
