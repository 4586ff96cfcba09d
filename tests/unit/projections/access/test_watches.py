"""A watch lasts as long as whoever opened it would be let in: tokens taken back, run out, or narrowed meanwhile."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.broker.conftest import eventually
from tests.unit.projections.access.letting_in import Doorkeeper
from tests.unit.projections.chronicle import Chronicle

from topolog.events.errors import Retriable
from topolog.projections.api.access.admission import Admission, NotAllowedNow, NotKnownNow, Sight
from topolog.projections.api.access.ledger import Ledger
from topolog.projections.api.access.principals import Denied, Principal, Unknown
from topolog.projections.api.watch import feed
from topolog.projections.projector import Projector

TYPES = "/v1/clusters/main/types"
LINES = {"Accept": "application/jsonl"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "audit", 1 << 20, 2, time.monotonic)) as ledger:
        yield ledger


@pytest.fixture
def keeper(tmp_path: Path, ledger: Ledger) -> Doorkeeper:
    return Doorkeeper(tmp_path, ledger)


Told = Iterator[dict[str, Any]]


@contextmanager
def watching(client: httpx.Client, headers: Any) -> Iterator[Told]:
    """What a watch tells behind its list."""
    with client.stream("GET", TYPES, params={"watch": "true"}, headers={**headers, **LINES}) as answer:
        told = (json.loads(line) for line in answer.iter_lines())
        while next(told)["type"] != "SYNCED":
            pass
        yield told


def test_a_watch_ends_when_its_token_is_taken_back(
    client: httpx.Client, chronicle: Chronicle, projector: Projector, keeper: Doorkeeper, ledger: Ledger
) -> None:
    """Before anything more is told, though nobody else asks; the audit knows of it. Others go on."""
    ann, ben = keeper.let_in("ann", "viewer@main"), keeper.let_in("ben", "viewer@main")
    with watching(client, ann) as told, watching(client, ben) as others:
        keeper.shut_out("ann")
        chronicle.propose("Secret", {"id": "long"})
        projector.step()
        rest = list(told)
        assert [(each["type"], each["code"]) for each in rest] == [("ERROR", "unauthenticated")]
        assert "Secret" not in json.dumps(rest)
        assert next(others)["name"] == "Secret"
    eventually(lambda: [(each.principal, each.status) for each in ledger.newest_first()] == [("ann", 401)], "a record")


def test_server_sent_events_end_alike(
    client: httpx.Client, chronicle: Chronicle, projector: Projector, keeper: Doorkeeper
) -> None:
    with client.stream("GET", TYPES, params={"watch": "true"}, headers=keeper.let_in("ann", "viewer@main")) as answer:
        lines = answer.iter_lines()
        while next(lines) != "event: SYNCED":
            pass
        keeper.shut_out("ann")
        chronicle.propose("Secret", {"id": "long"})
        projector.step()
        rest = list(lines)
    assert [line for line in rest if line.startswith("event: ")] == ["event: ERROR"]
    assert "Secret" not in "".join(rest)


def test_an_idle_watch_ends_at_its_next_bookmark(
    client: httpx.Client, keeper: Doorkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BOOKMARK_S", 0.05)
    with watching(client, keeper.let_in("ann", "viewer@main")) as told:
        assert next(told)["type"] == "BOOKMARK"
        keeper.shut_out("ann")
        assert next(each for each, _ in zip(told, range(200), strict=False) if each["type"] != "BOOKMARK")["code"] == (
            "unauthenticated"
        )


def test_a_watch_ends_when_it_is_granted_no_longer_and_at_no_other_change(
    client: httpx.Client, chronicle: Chronicle, projector: Projector, keeper: Doorkeeper
) -> None:
    with watching(client, keeper.let_in("ann", "viewer@main")) as told:
        for number, grants in enumerate(("viewer@main:types", "operator@main,viewer@other")):
            keeper.let_in("ann", grants)
            keeper.let_in(f"ben{number}", "viewer")
            chronicle.propose(f"T{number}", {"id": "long"})
            projector.step()
            assert next(told)["name"] == f"T{number}"
        keeper.let_in("ann", "viewer@main:groups")
        chronicle.propose("Secret", {"id": "long"})
        projector.step()
        assert [(each["type"], each["code"]) for each in told] == [("ERROR", "forbidden")]


@pytest.mark.parametrize(("grants", "status", "code"), [("", 401, "unauthenticated"), ("viewer@x", 403, "forbidden")])
def test_a_long_poll_that_waits_is_told_no_more_either(
    client: httpx.Client,
    chronicle: Chronicle,
    projector: Projector,
    keeper: Doorkeeper,
    grants: str,
    status: int,
    code: str,
) -> None:
    headers = keeper.let_in("ann", "viewer@main")
    token = client.get(TYPES, headers=headers).headers["X-Topolog-Token"]
    root = keeper.let_in("root", "admin")
    answers: list[httpx.Response] = []

    def poll() -> None:
        answers.append(client.get(TYPES, params={"changes_since": token, "wait": "30s"}, headers=headers))

    waiting = threading.Thread(target=poll)
    waiting.start()
    waits = 'topolog_api_watchers{cluster="main"} 1.0'
    eventually(lambda: waits in client.get("/metrics", headers=root).text, "somebody who waits for what becomes of it")
    if grants:
        keeper.let_in("ann", grants)
    else:
        keeper.shut_out("ann")
    chronicle.propose("Secret", {"id": "long"})
    projector.step()
    waiting.join(20)
    assert (answers[0].status_code, answers[0].json()["code"]) == (status, code)
    assert "Secret" not in answers[0].text


def test_whoever_is_known_for_a_while_is_judged_anew_behind_it() -> None:
    """A bearer token runs out although nothing of the settings changes; an issuer that is away ends nobody for good."""
    now_s = 1_000.0
    verdicts: list[Principal | Denied] = [
        Principal("ann", "oidc", (), until_s=1_060.0),
        Principal("ann", "oidc", (), until_s=1_120.0),
        Denied(HTTPStatus.SERVICE_UNAVAILABLE, "issuer_unreachable", "keys cannot be had"),
        Denied(HTTPStatus.FORBIDDEN, "forbidden", "roles were taken away"),
        Unknown("it has expired"),
    ]
    ended: list[Denied] = []

    async def judge() -> Principal:
        verdict = verdicts.pop(0)
        if isinstance(verdict, Denied):
            raise verdict
        return verdict

    async def course() -> None:
        nonlocal now_s
        admitted = Admission(judge, Sight(lambda: None), ended.append, lambda: now_s)
        await admitted.judged()
        for at_s, left in ((1_059.0, 4), (1_060.0, 3), (1_119.0, 3)):
            now_s = at_s
            await admitted.check()
            assert len(verdicts) == left
        now_s = 1_120.0
        for error, why in ((Retriable, "keys"), (NotAllowedNow, "roles"), (NotKnownNow, "expired")):
            with pytest.raises(error, match=why):
                await admitted.check()

    asyncio.run(course())
    assert [each.status for each in ended] == [503, 403, 401]


def test_a_thousand_watchers_look_once_and_judge_nobody_anew() -> None:
    """What a watcher costs more is a comparison: the file's times are looked at once in a turn of the event loop."""
    looks, judged = [0], [0]
    is_changed = False

    def look() -> object:
        looks[0] += 1
        return is_changed

    async def judge() -> Principal:
        judged[0] += 1
        return Principal("ann", "token", ())

    async def course() -> None:
        nonlocal is_changed
        sight = Sight(look)
        admitted = [Admission(judge, sight, lambda _: None) for _ in range(1_000)]
        await asyncio.gather(*(each.judged() for each in admitted))
        looks[0] = judged[0] = 0
        for _ in range(3):
            await asyncio.gather(*(each.check() for each in admitted))
        assert (looks, judged) == ([3], [0])
        is_changed = True
        await asyncio.gather(*(each.check() for each in admitted))
        assert judged == [1_000]

    asyncio.run(course())
