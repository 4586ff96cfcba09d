"""Dead letters in the API: listed, shown in full, replayed to the byte, or refused with the reason."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import LOG_ID, Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.serving import served

from topolog.events.asked import RequestId, RequestRef
from topolog.events.codec import CODEC
from topolog.events.ids import Offset
from topolog.events.log import Entry, Headers
from topolog.events.metadata import UpdateRequested
from topolog.events.object_types import ObjectType
from topolog.events.requests import RequestersForgotten
from topolog.events.topics import PLANS, Topic
from topolog.projections.api import replays
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.streams.coordinator.core import Dead
from topolog.streams.coordinator.letters import letter

Json = dict[str, Any]
LETTERS = "/v1/clusters/main/dead-letters"
READABLE = CODEC.encode(
    UpdateRequested(RequestId("op", 1), LOG_ID, "ada", "", ObjectType("Customer", {"id": "long"}), 0)
)
DAY_MS = 24 * 3_600_000


@pytest.fixture
def writer(chronicle: Chronicle, projector: Projector) -> AnsweringWriter:
    chronicle.join("n1")
    projector.step()
    return AnsweringWriter(chronicle, projector)


@pytest.fixture
def client(writer: AnsweringWriter, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield client


def errors(topic: str = "requests", reason: str = "no record this version knows", **more: str) -> Headers:
    said = {"topic": topic, "partition": "0", "offset": "17", "message": reason, **more}
    return [(f"__dlq.errors.{name}", text.encode()) for name, text in said.items()]


def bury(chronicle: Chronicle, value: bytes, headers: Headers = (), key: str = "type Customer") -> str:
    """A letter as a coordinator writes it; its id."""
    return str(chronicle.log.put(Topic.DEAD, key, value, headers or errors()).offset)


def get(client: Client, name: str = "", **parameters: str | int) -> Json:
    answer = client.get(f"{LETTERS}/{name}" if name else LETTERS, params=parameters)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def replay(client: Client, name: str, reason: str = "upgraded") -> tuple[int, Json]:
    answer = client.post(f"{LETTERS}/{name}/replay", json={"reason": reason}, headers={"X-Topolog-Actor": "ada"})
    return answer.status_code, answer.json()


def test_letters_come_newest_first_page_by_page(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """RD10: each with where it stood, why it is dead and how big it is."""
    for number in range(5):
        bury(chronicle, b"\xff" * number)
    projector.step()
    first = get(client, limit=3)
    second = get(client, limit=3, cursor=first["next"])
    assert [each["id"] for each in first["items"] + second["items"]] == ["4", "3", "2", "1", "0"]
    assert second["next"] is None
    newest = first["items"][0]
    assert (newest["topic"], newest["partition"], newest["offset"], newest["size"]) == ("requests", 0, 17, 4)
    assert newest["reason"] == "no record this version knows"


def test_a_letter_in_full_shows_its_bytes_headers_and_key(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """Bytes that are no text are shown as they are, in hexadecimal."""
    name = bury(chronicle, b"\xc3\x01 a newer one", key=b"\xffkey".decode("utf-8", "surrogateescape"))
    projector.step()
    item = get(client, name)["item"]
    assert item["dump"] == "000000  c3 01 20 61 20 6e 65 77 65 72 20 6f 6e 65        .. a newer one"
    assert item["key_hex"] == b"\xffkey".hex()
    assert item["headers"]["__dlq.errors.topic"] == "requests"
    assert (item["readable"], item["request"], item["replayed_as"]) == (None, None, [])


def test_a_letter_without_the_headers_of_one_is_shown_all_the_same(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """Whoever may write to the topic may write anything."""
    said = [("__dlq.errors.partition", b"-1"), ("__dlq.errors.offset", b"9" * 40), ("topolog-replays", b"\xff")]
    name = bury(chronicle, b"", said)
    projector.step()
    item = get(client, name)["item"]
    assert (item["topic"], item["partition"], item["offset"], item["replays"]) == ("", None, None, None)
    assert replay(client, name)[0] == 409


def test_a_replayed_letter_is_appended_to_the_byte_and_gets_its_outcome(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """K7: what an older coordinator could not read, this one decides; a second replay changes nothing."""
    name = bury(chronicle, READABLE, [("trace", b"\x00\xff"), *errors()])
    projector.step()
    assert get(client, name)["item"]["readable"] == "UpdateRequested"
    tried = client.post(f"{LETTERS}/{name}/replay", json={}, params={"dry_run": "true"})
    assert tried.json()["item"]["sentence"].endswith("It holds request op/1.")
    assert not chronicle.log.entries(Topic.REQUESTS)
    for _ in range(2):
        status, answer = replay(client, name)
        assert (status, answer["item"]["request"]) == (200, "op/1")
    again = chronicle.log.entries(Topic.REQUESTS)[0]
    assert (again.key, again.value) == ("type Customer", READABLE)
    assert again.headers == (
        ("trace", b"\x00\xff"),
        ("topolog-replays", name.encode()),
        ("topolog-replay-actor", b"ada"),
        ("topolog-replay-reason", b"upgraded"),
    )
    assert get(client, name)["item"]["request_status"] == "GRANTED"
    assert [each["event"] for each in client.get("/v1/clusters/main/decisions").json()["items"]].count(
        "MetadataUpdateProposed"
    ) == 1


def test_a_letter_of_a_forgotten_requester_is_not_replayed(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """K7: nobody could say whether its request was carried out before, so nothing would come of it, and it is said."""
    chronicle.propose("Order", {"id": "long"}, ref=RequestRef("op", 5, b"digest"))
    chronicle.decide(RequestersForgotten(("op",)))
    name = bury(chronicle, READABLE)
    projector.step()
    status, answer = replay(client, name)
    assert (status, answer["code"], answer["facts"]) == (409, "OUTCOME_FORGOTTEN", {"forgotten_to": "5"})
    assert not chronicle.log.entries(Topic.REQUESTS)


def test_a_letter_goes_back_to_the_topic_of_its_own(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """What an operator asked stands in `operations`, and nowhere else would it be taken."""
    name = bury(chronicle, READABLE, errors("operations"))
    projector.step()
    assert get(client, name)["item"]["topic"] == "operations"
    assert replay(client, name)[1]["item"]["topic"] == "operations"
    assert [entry.value for entry in chronicle.log.entries(Topic.OPERATIONS)] == [READABLE]
    assert not chronicle.log.entries(Topic.REQUESTS)


def test_a_letter_is_of_the_topic_in_which_it_stood_whatever_its_writer_says(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """Whoever writes `requests` chooses a record's headers: its replay must not become an operator's request."""
    forged = (("__dlq.errors.topic", b"operations"), ("__dlq.errors.truncated.from.bytes", b"9"))
    stood = Entry(Topic.REQUESTS, 0, Offset(17), "k", READABLE, forged, 0)
    found = letter(Dead(stood, "it is forged"))
    name = bury(chronicle, found.value, found.headers)
    projector.step()
    item = get(client, name)["item"]
    assert (item["topic"], item["reason"], item["truncated_from"]) == ("requests", "it is forged", None)


def test_a_letter_that_dies_again_says_which_one_it_replays(
    client: Client, chronicle: Chronicle, projector: Projector
) -> None:
    """The header survives, because a coordinator buries a record with the headers it has."""
    first = bury(chronicle, b"garbage")
    second = bury(chronicle, b"garbage", [("topolog-replays", first.encode()), *errors(offset="18")])
    projector.step()
    assert get(client, first)["item"]["replayed_as"] == [second]
    assert [each["id"] for each in get(client, replays=first)["items"]] == [second]


@pytest.mark.parametrize(
    ("headers", "code", "words"),
    [
        (errors(**{"truncated.from.bytes": "900001"}), "TRUNCATED", "7 of 900001 bytes"),
        (errors("heartbeats"), "NOT_REPLAYABLE", "speaks of a moment that is past"),
        (errors("decisions"), "NOT_REPLAYABLE", "Nothing that was meant for decisions"),
    ],
)
def test_what_makes_no_sense_is_not_replayed(
    client: Client, chronicle: Chronicle, projector: Projector, headers: Headers, code: str, words: str
) -> None:
    """Nothing is sent, and the reason is said."""
    name = bury(chronicle, b"garbage", headers)
    projector.step()
    status, answer = replay(client, name)
    assert (status, answer["code"]) == (409, code)
    assert words in answer["detail"]
    assert not chronicle.log.entries(Topic.REQUESTS)


def test_a_broker_that_confirms_no_replay_is_said_in_time(
    client: Client,
    chronicle: Chronicle,
    projector: Projector,
    writer: AnsweringWriter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may still come; to ask again does no harm."""
    monkeypatch.setattr(replays, "DELIVERY_TIMEOUT_S", 0.05)
    writer.lost = True
    name = bury(chronicle, READABLE)
    projector.step()
    status, answer = replay(client, name)
    assert (status, answer["code"]) == (503, "unreachable")
    assert f"did not confirm the replay of dead letter {name}" in answer["detail"]


@pytest.mark.parametrize("name", ["7", "x", "-1", "9" * 30, "%FF", "1/2"])
def test_a_letter_that_is_not_there_is_not_found(client: Client, name: str) -> None:
    """Whatever is asked for."""
    assert client.get(f"{LETTERS}/{name}").status_code == 404


def test_letters_have_no_past(client: Client) -> None:
    assert client.get(LETTERS, params={"as_of": "1"}).status_code == 400


def test_a_body_that_is_no_form_is_refused(client: Client, chronicle: Chronicle, projector: Projector) -> None:
    """A browser must not be made to replay anything, and a typo must not be taken for no reason."""
    name = bury(chronicle, READABLE)
    projector.step()
    assert client.post(f"{LETTERS}/{name}/replay", content=b"{}").status_code == 400
    assert client.post(f"{LETTERS}/{name}/replay", json={"raeson": ""}).status_code == 400
    assert not chronicle.log.entries(Topic.REQUESTS)


def test_letters_go_when_their_topic_has_dropped_them(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """RD10: after 30 days; those that come later stay."""
    bury(chronicle, b"old")
    projector = make_projector()
    projector.step()
    (kept_ms,) = {plan.retention_ms for plan in PLANS if plan.topic is Topic.DEAD}
    chronicle.now_ms += kept_ms + DAY_MS
    young = bury(chronicle, b"young")
    again = make_projector()
    again.step()
    with served(again, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        assert [each["id"] for each in get(client)["items"]] == [young]
        assert client.get(f"{LETTERS}/0").status_code == 404


def test_letters_are_kept_over_a_restart_and_never_twice(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """RD9: a side family has an offset of its own."""
    bury(chronicle, b"one")
    make_projector().step()
    bury(chronicle, b"two")
    again = make_projector()
    again.step()
    with served(again, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        assert [each["size"] for each in get(client)["items"]] == [3, 3]


def test_letters_come_in_while_the_projector_has_stopped(chronicle: Chronicle, make_projector: MakeProjector) -> None:
    """K8: what the log has poisoned is the state of the cluster, not what its operators must see to mend it."""
    chronicle.append_accepted(b"poison")
    projector = make_projector()
    projector.step()
    name = bury(chronicle, b"one")
    projector.step()
    projector.step()
    assert projector.stopped
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        assert [each["id"] for each in get(client)["items"]] == [name]
        assert replay(client, name)[0] == 503
