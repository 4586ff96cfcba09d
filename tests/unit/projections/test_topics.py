"""Topics through the API: what they are to be like, and how far the reader has come, as it has seen it itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.serving import served

from topolog.events.topics import PLANS, Topic
from topolog.projections import topics
from topolog.projections.api.watch import feed
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
TOPICS = "/v1/clusters/main/topics"


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    chronicle.join("n1")
    projector.step()
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        yield client


def test_every_topic_is_there_with_what_it_is_for(client: Client) -> None:
    """RD19: partitions, retention, policy, key; of those that are read, how far."""
    items: list[Json] = client.get(TOPICS).json()["items"]
    assert [item["name"] for item in items] == [plan.topic.short_name for plan in PLANS]
    assert set(topics.ABOUT) == set(Topic)
    by_name = {item["name"]: item for item in items}
    assert by_name["decisions"]["topic"] == "topolog.main.decisions"
    assert (by_name["decisions"]["retention_ms"], by_name["lease-health"]["policy"]) == (-1, "compact")
    is_read = [name for name, item in by_name.items() if item["is_read"]]
    assert is_read == ["decisions", "dead", "maps", "lease-health", "trees"]
    assert client.get(TOPICS, params={"is_read": "true", "fields": "name"}).json()["items"][0] == {"name": "decisions"}
    assert by_name["requests"] | {"records": None, "lag_s": None, "read": []} == by_name["requests"]
    for name in ("decisions", "topolog.main.decisions"):
        assert client.get(f"{TOPICS}/{name}").json()["item"]["name"] == "decisions"
    assert client.get(f"{TOPICS}/decision").json()["hint"] == "Did you mean decisions?"
    assert client.get(TOPICS, params={"as_of": 1}).status_code == 400


def test_how_far_is_counted_where_it_is_read(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    length = len(chronicle.log.entries(Topic.DECISIONS))
    item: Json = client.get(f"{TOPICS}/decisions").json()["item"]
    assert (item["records"], item["lag_s"]) == (length, 0.0)
    (read,) = item["read"]
    assert (read["offset"], read["records"]) == (length, length)
    chronicle.log.put(Topic.DEAD, "x", b"garbage")
    projector.step()
    dead: Json = client.get(f"{TOPICS}/dead").json()["item"]
    assert (dead["records"], dead["read"][0]["offset"]) == (1, 1)
    assert dead["read"][0]["last_time"] is not None


def test_every_page_shows_the_present(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """A page that is gone on with is of an older position by then; how far topics are read is not."""
    first: Json = client.get(TOPICS, params={"limit": 1}).json()
    chronicle.join("n2")
    projector.step()
    rest: Json = client.get(TOPICS, params={"cursor": first["next"]}).json()
    assert rest["asOf"]["position"] < projector.meta.position
    assert [item["name"] for item in rest["items"] if item["is_read"]] == ["dead", "maps", "lease-health", "trees"]


def test_a_watch_tells_how_far_the_reader_comes(
    client: Client, chronicle: Chronicle, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is about the present: no token leads back to it."""
    monkeypatch.setattr(feed, "LOOK_S", 0.05)
    lines = {"Accept": "application/jsonl"}
    with client.stream("GET", TOPICS, params={"watch": "true", "is_read": "true"}, headers=lines) as answer:
        events = map(json.loads, answer.iter_lines())
        *found, synced = [next(events) for _ in range(6)]
        assert [each["name"] for each in found] == ["dead", "decisions", "lease-health", "maps", "trees"]
        assert (synced["type"], synced.get("token")) == ("SYNCED", None)
        chronicle.log.put(Topic.DEAD, "x", b"garbage")
        projector.step()
        event: Json = next(events)
    assert (event["type"], event["name"], event["item"]["records"]) == ("MODIFIED", "dead", 1)
    assert client.get(TOPICS, params={"changes_since": "1"}).status_code == 400


def test_a_restart_goes_on_where_it_was_and_counts_anew(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """The place is the store's; `records` are this process's."""
    make_projector().step()
    length = len(chronicle.log.entries(Topic.DECISIONS))
    again = make_projector()
    with again.reading() as reading:
        (read,) = topics.topic(reading, 0, "decisions").read
        assert (read.offset, read.records) == (length - 1, 0), "the last one is read again, to prove it"
    again.step()
    with again.reading() as reading:
        assert topics.topic(reading, 0, "decisions").read[0].offset == length


def test_lag_is_the_time_since_the_end_was_known(chronicle: Chronicle, tmp_path: Any) -> None:
    """By the reader's own monotonic clock; what has no end in sight has none."""
    now = [0.0]
    projector = Projector(chronicle.log.reader(), tmp_path, "main", now_s=lambda: now[0])
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        while projector.step():
            pass
        assert client.get(f"{TOPICS}/decisions").json()["item"]["lag_s"] == 0.0
        chronicle.log.reachable = False
        now[0] = 42.0
        for name in ("decisions", "dead"):
            assert client.get(f"{TOPICS}/{name}").json()["item"]["lag_s"] == 42.0, name
    projector.close()
