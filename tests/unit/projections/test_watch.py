"""Watches over HTTP: list, SYNCED, changes; resumed without gap or repeat, cut off when too slow, ended in order."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.broker.conftest import eventually
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.serving import served

from topolog.projections.api.watch import feed
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

LINES = {"Accept": "application/jsonl"}
TYPES = "/v1/clusters/main/types"


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[httpx.Client]:
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    chronicle.accept("Customer", "n1")
    projector.step()
    with serving(chronicle, projector) as client:
        yield client


@contextmanager
def serving(chronicle: Chronicle, projector: Projector) -> Iterator[httpx.Client]:
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api", "broker:9092")) as client:
        yield client


class Told:
    """What a watch has said so far, one event at a time."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200, response.read()
        self._lines = response.iter_lines()

    def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(next(self._lines))
        return event

    def until(self, type_: str) -> list[dict[str, Any]]:
        events = [self.next()]
        while events[-1]["type"] != type_:
            events.append(self.next())
        return events


@contextmanager
def watching(client: httpx.Client, path: str = TYPES, **params: str) -> Iterator[Told]:
    with client.stream("GET", path, params={"watch": "true", **params}, headers=LINES) as response:
        yield Told(response)


def summary(events: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(each["type"], each.get("name")) for each in events]


def test_a_watch_is_the_list_then_its_changes(client: httpx.Client, chronicle: Chronicle, projector: Projector) -> None:
    with watching(client) as told:
        assert summary(told.until("SYNCED")) == [("ADDED", "Customer"), ("SYNCED", None)]
        chronicle.propose("Order", {"id": "long"})
        projector.step()
        event = told.next()
        assert (event["type"], event["name"], event["item"]["pending_version"]) == ("ADDED", "Order", 1)
        chronicle.accept("Order", "n1")
        projector.step()
        assert summary([told.next()]) == [("MODIFIED", "Order")]
        chronicle.remove_type("Order")
        projector.step()
        assert ("DELETED", "Order") in summary(told.until("DELETED"))


def test_server_sent_events_carry_the_token_as_id(client: httpx.Client) -> None:
    """An item of the beginning has none: who lost the connection there has to begin anew."""
    with client.stream("GET", TYPES, params={"watch": "true"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        first = [next(lines) for _ in range(3)]
        assert (first[0], first[1][:6], first[2]) == ("event: ADDED", "data: ", "")
        synced = [next(lines) for _ in range(4)]
    assert synced[0] == "event: SYNCED"
    assert synced[1].removeprefix("id: ") == json.loads(synced[2].removeprefix("data: "))["token"]


def test_it_goes_on_behind_a_token_at_a_server_that_was_started_anew(
    client: httpx.Client, chronicle: Chronicle, projector: Projector, make_projector: MakeProjector
) -> None:
    """Neither a gap nor a repeat, by `since` and by Last-Event-ID."""
    with watching(client) as told:
        token = told.until("SYNCED")[-1]["token"]
    names = [f"T{number}" for number in range(6)]
    for name in names[:3]:
        chronicle.propose(name, {"id": "long"})
    with watching(client, since=token) as told:
        projector.step()
        first = [told.next() for _ in range(2)]
    for name in names[3:]:
        chronicle.propose(name, {"id": "long"})
    anew = make_projector()
    while anew.step():
        pass
    with (
        serving(chronicle, anew) as other,
        other.stream(
            "GET", TYPES, params={"watch": "true"}, headers={**LINES, "Last-Event-ID": first[-1]["token"]}
        ) as response,
    ):
        told = Told(response)
        rest = [told.next() for _ in range(4)]
    assert summary(first + rest) == [("ADDED", name) for name in names]


def test_a_long_poll_tells_what_came_and_where_to_go_on(
    client: httpx.Client, chronicle: Chronicle, projector: Projector
) -> None:
    def changes(token: str, **params: str) -> Any:
        answer = client.get(TYPES, params={"changes_since": token, **params})
        assert answer.status_code == 200, answer.text
        return answer.json()

    token = client.get(TYPES).headers["X-Topolog-Token"]
    empty = changes(token, wait="50ms")
    assert (empty["kind"], empty["items"], empty["next"]) == ("ChangeList", [], token)
    woken: list[Any] = []
    waiting = threading.Thread(target=lambda: woken.append(changes(token, wait="30s")))
    waiting.start()
    for name in ("A", "B"):
        chronicle.propose(name, {"id": "long"})
    projector.step()
    waiting.join(20)
    first, rest = woken[0]["items"], changes(woken[0]["next"], wait="50ms")["items"]
    assert summary(first + rest) == [("ADDED", "A"), ("ADDED", "B")]
    assert summary(changes(token, limit="1")["items"]) == [("ADDED", "A")]


def test_filters_and_fields_narrow_a_watch(client: httpx.Client, chronicle: Chronicle, projector: Projector) -> None:
    """An item that comes to fit is ADDED, one that no longer does is DELETED."""
    with watching(client, status="PENDING", fields="name") as told:
        assert summary(told.until("SYNCED")) == [("SYNCED", None)]
        chronicle.propose("Order", {"id": "long"})
        chronicle.accept("Order", "n1")
        projector.step()
        came = told.next()
        assert (came["type"], came["item"]) == ("ADDED", {"name": "Order"})
        assert summary([told.next()]) == [("DELETED", "Order")]


def test_the_newest_decisions_then_every_new_one(
    client: httpx.Client, chronicle: Chronicle, projector: Projector
) -> None:
    with watching(client, "/v1/clusters/main/decisions", limit="2") as told:
        newest = [("ADDED", str(chronicle.position - 1)), ("ADDED", str(chronicle.position))]
        assert summary(told.until("SYNCED")) == [*newest, ("SYNCED", None)]
        chronicle.renew("n1")
        chronicle.propose("Order", {"id": "long"})
        projector.step()
        assert summary([told.next()]) == [("ADDED", str(chronicle.position))]


def test_decisions_of_one_set_can_be_told_one_by_one(
    client: httpx.Client, chronicle: Chronicle, projector: Projector
) -> None:
    """A token may stand between two decisions of one set: nothing behind it is left out."""
    start = chronicle.position
    chronicle.replace_in_one_set("n1", "n2")
    chronicle.replace_in_one_set("n2", "n1")
    projector.step()
    expected = [str(at) for at in range(start + 1, chronicle.position + 1)]
    token, heard = str(start), list[str]()
    while len(heard) < len(expected):
        params = {"changes_since": token, "limit": "1", "wait": "0ms"}
        answer = client.get("/v1/clusters/main/decisions", params=params).json()
        assert answer["items"], f"nothing behind {token}, of {expected}"
        heard += [each["name"] for each in answer["items"]]
        token = answer["next"]
    assert heard == expected
    with watching(client, "/v1/clusters/main/decisions", since=str(start + 1)) as told:
        assert told.next()["name"] == expected[1]


def test_what_has_no_past_begins_anew_each_time(
    client: httpx.Client, chronicle: Chronicle, projector: Projector
) -> None:
    with watching(client, "/v1/clusters/main/leases") as told:
        events = told.until("SYNCED")
        assert (summary(events), events[-1].get("token")) == ([("ADDED", "n1"), ("SYNCED", None)], None)
        chronicle.join("n2", renewed=False)
        projector.step()
        assert summary([told.next()]) == [("ADDED", "n2")]
    assert client.get("/v1/clusters/main/leases", params={"changes_since": "1"}).status_code == 400


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"since": "98+x"}, 400, "bad_input"),
        ({"since": f"{'ab' * 16}.1"}, 409, "token_foreign"),
        ({"since": "900", "wait": "10ms"}, 503, "not_caught_up"),
        ({"as_of": "2"}, 400, "bad_input"),
        ({"sort": "name"}, 400, "bad_input"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    client: httpx.Client, params: dict[str, str], status: int, code: str
) -> None:
    answer = client.get(TYPES, params={"watch": "true", **params})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("params", [{"watch": "true", "since": "900"}, {"changes_since": "900"}], ids=str)
def test_patience_is_also_what_a_header_prefers(client: httpx.Client, params: dict[str, str]) -> None:
    answer = client.get(TYPES, params=params, headers={"Prefer": "wait=0"})
    assert (answer.status_code, answer.json()["code"]) == (503, "not_caught_up")
    assert "within 0 ms" in answer.json()["hint"]


def test_a_filter_that_names_nothing_is_not_waited_for(client: httpx.Client) -> None:
    answer = client.get("/v1/clusters/main/partitions", params={"watch": "true", "group": "nowhere"})
    assert answer.status_code == 404


def test_an_idle_watch_is_told_how_far_it_has_read(
    chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BOOKMARK_S", 0.05)
    chronicle.join("n1")
    projector.step()
    with serving(chronicle, projector) as client, watching(client) as told:
        synced = told.until("SYNCED")[-1]
        chronicle.join("n2")
        projector.step()
        marks = [told.until("BOOKMARK")[-1]["token"] for _ in range(3)]
    assert marks[-1] > synced["token"]


def test_no_more_lists_are_followed_than_a_server_can_read(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list that is narrowed in its own way is a feed of its own; what is followed already takes more readers."""
    monkeypatch.setattr(feed, "FEEDS_MAX", 2)
    token = client.get(TYPES).headers["X-Topolog-Token"]
    with watching(client) as first, watching(client, status="PENDING") as second:
        first.until("SYNCED")
        second.until("SYNCED")
        with watching(client, status="ACCEPTED") as third:
            told = third.next()
        assert (told["type"], told["code"]) == ("ERROR", "overloaded")
        poll = client.get(TYPES, params={"changes_since": token, "wait": "0ms", "name": "Customer"})
        assert (poll.status_code, poll.json()["code"]) == (503, "overloaded")
        with watching(client) as another:
            another.until("SYNCED")
    eventually(lambda: client.get(TYPES, params={"changes_since": token, "wait": "0ms", "name": "T"}).is_success)


def test_a_watch_ends_in_order_when_its_server_does(
    client: httpx.Client, chronicle: Chronicle, projector: Projector
) -> None:
    """At once, with the token to go on at."""
    with serving(chronicle, projector) as other:
        stream = client.stream("GET", str(other.base_url.join(TYPES)), params={"watch": "true"}, headers=LINES)
        response = stream.__enter__()
        told = Told(response)
        told.until("SYNCED")
    assert told.next()["type"] == "BOOKMARK"
    with pytest.raises(StopIteration):
        told.next()
    stream.__exit__(None, None, None)
