"""What the adversary found in the query side (issue 10). Each says what should be, and fails until that is mended."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.projections.access.door import Door
from tests.projections.answering import AnsweringWriter
from tests.projections.chronicle import Chronicle
from tests.projections.lively import lively
from tests.projections.serving import served

from topolog.events.errors import Permanent, Retriable
from topolog.projections.api.access import tokens
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.grants import fits
from topolog.projections.api.access.limits import Limits
from topolog.projections.api.access.tokens import TokensFile
from topolog.projections.api.watch import stream
from topolog.projections.api.watch.events import Event, Watched
from topolog.projections.api.watch.feed import Feed
from topolog.projections.cli.bundle import redacted
from topolog.projections.cli.declared_file import read_declared
from topolog.projections.cli.declared_plan import There, steps
from topolog.projections.cli.following import Follower, WatchEvent
from topolog.projections.cli.session_tokens import FileTokens
from topolog.projections.cursors import Cursor
from topolog.projections.listing import Order
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.resources import Decision

MAIN = "/v1/clusters/main"
LINES = {"Accept": "application/jsonl"}


def found(why: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=why)


@pytest.fixture
def full(chronicle: Chronicle, projector: Projector) -> Projector:
    lively(chronicle)
    while projector.step():
        pass
    return projector


@pytest.fixture
def requester(chronicle: Chronicle, full: Projector) -> Requester:
    return Requester(AnsweringWriter(chronicle, full), "api", "broker:9092")


@pytest.fixture
def client(full: Projector, requester: Requester) -> Iterator[httpx.Client]:
    with served(full, requester) as client:
        yield client


def token_at(client: httpx.Client, position: int) -> str:
    token: str = client.get(f"{MAIN}/cluster").json()["asOf"]["token"]
    return f"{token.rpartition('.')[0]}.{position}"


def changes(client: httpx.Client, name: str, since: str, **params: str) -> Any:
    return client.get(f"{MAIN}/{name}", params={"changes_since": since, **params}).json()


# 1. A token of a list that grows stands inside of a set, and a watch that goes on from it goes on behind the set.


@found("asking._mark rounds a token up to its set, and the tokens of decisions and views stand inside of sets")
def test_decisions_one_poll_after_the_other_are_all_decisions(client: httpx.Client) -> None:
    token = token_at(client, 0)
    every = [each["name"] for each in changes(client, "decisions", token, limit="1000")["items"]]
    told: list[str] = []
    while len(told) < len(every):
        body = changes(client, "decisions", token, limit="1", wait="300ms")
        if not body["items"]:
            break
        told += [each["name"] for each in body["items"]]
        token = body["next"]
    assert told == every


@found("the same, by Last-Event-ID")
def test_a_watch_of_decisions_goes_on_behind_the_last_event(client: httpx.Client) -> None:
    every = changes(client, "decisions", token_at(client, 0), limit="1000")["items"]
    for event, following in pairwise(every):
        headers = {**LINES, "Last-Event-ID": event["token"]}
        with client.stream("GET", f"{MAIN}/decisions", params={"watch": "true"}, headers=headers) as answer:
            assert json.loads(next(answer.iter_lines()))["name"] == following["name"]


@found(
    "the client asks behind the last event but one, and drops what the server has left out already: one more is lost"
)
def test_the_client_loses_no_decision_when_its_connection_breaks(client: httpx.Client) -> None:
    every = changes(client, "decisions", token_at(client, 0), limit="1000")["items"]
    for cut in range(2, len(every) - 1):
        follower = Follower(token_at(client, 0))
        follower.connect()
        told = [
            event.name
            for each in every[:cut]
            for event in follower.feed(WatchEvent(each["type"], each["token"], each["name"], each["item"]))
        ]
        since = follower.connect()
        assert since is not None
        again = changes(client, "decisions", since, limit="1000", wait="300ms")["items"]
        told += [
            event.name
            for each in again
            for event in follower.feed(WatchEvent(each["type"], each["token"], each["name"], each["item"]))
        ]
        assert told == [each["name"] for each in every]


# 2. A cursor of `diff` brings filters of its own, of which the door knows nothing.


@found("diffs._asked takes the filters of the cursor and looks at none beside it; the door has judged those beside it")
def test_a_grant_over_one_group_shows_no_other_by_a_cursor(
    full: Projector, requester: Requester, tmp_path: Path
) -> None:
    access, header = _access(tmp_path, "viewer@main:partitions/parts/*")
    path = f"{MAIN}/diff/partitions"
    with served(full, requester, access) as client:
        assert client.get(path, params={"from": "3"}, headers=header).status_code == 403
        forged = str(Cursor(path, 40, "", {}, since=3))
        answer = client.get(path, params={"from": "3", "group": "parts", "cursor": forged}, headers=header)
        groups = {each["name"].partition("/")[0] for each in answer.json().get("items", [])}
    assert groups <= {"parts"}


# 3. A watch goes on when the grant by which it was opened is gone.


@found("the door is asked once, when a watch begins; it may go on for months")
def test_a_watch_ends_when_its_token_is_taken_back(
    chronicle: Chronicle, full: Projector, requester: Requester, tmp_path: Path
) -> None:
    access, header = _access(tmp_path, "viewer@main")
    with served(full, requester, access) as client:
        params, headers = {"watch": "true"}, {**header, **LINES}
        with client.stream("GET", f"{MAIN}/types", params=params, headers=headers) as answer:
            lines = answer.iter_lines()
            while json.loads(next(lines))["type"] != "SYNCED":
                pass
            (tmp_path / "tokens").write_text("# nobody\n")
            assert client.get(f"{MAIN}/types", headers=header).status_code == 401
            chronicle.propose("Secret", {"id": "long"})
            full.step()
            assert not any(json.loads(line).get("name") == "Secret" for line in [next(lines, "{}")])


# 4. Bodies that cannot be written down are asked for without a record.


@found("half a surrogate, which JSON may hold, cannot be written as UTF-8: 500, and nothing in the audit")
@pytest.mark.parametrize("body", ['{"kind": "drop-group", "name": "orders", "reason": "\\ud800"}', None])
def test_whoever_is_turned_away_is_in_the_audit(
    full: Projector, requester: Requester, tmp_path: Path, body: str | None
) -> None:
    door = Door(tmp_path)
    body = body or '{"kind": "drop-group", "name": "orders", "reason": "x", "a": %s}' % ("[" * 700 + "]" * 700)
    headers = {**door.of("viewer"), "Content-Type": "application/json"}
    try:
        with served(full, requester, door.access) as client:
            answer = client.post(f"{MAIN}/requests", content=body, headers=headers)
        assert answer.status_code in (400, 403)
        assert [each.principal for each in door.ledger.newest_first()] == ["viewer"]
    finally:
        door.access.close()


# 5. See upkeep/test_adversary10_upkeep.py.


# 6. An error within the list that a watch begins with has a token behind which the rest of the list is not.


@found("ERROR within the beginning is said with the token of its position, which SSE gives back as Last-Event-ID")
def test_an_error_within_the_beginning_is_nothing_to_go_on_from(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_PAGE", 2)
    whole = Watched.snapshot

    def broken(self: Watched, reading: Any, after: str | None, limit: int) -> tuple[list[Event], str | None]:
        if after is not None:
            raise Retriable("The store is being opened again.")
        return whole(self, reading, after, limit)

    monkeypatch.setattr(Watched, "snapshot", broken)
    with client.stream("GET", f"{MAIN}/partitions", params={"watch": "true"}, headers=LINES) as answer:
        told = [json.loads(line) for line in answer.iter_lines()]
    assert [each["type"] for each in told] == ["ADDED", "ADDED", "ERROR"]
    assert "token" not in told[-1]


# 7. A feed that dies of a defect is waited for by its readers for ever.


@found(
    "Feed._follow ends at what is no TopologError; has_ended stays false, and whoever joins later joins the dead one"
)
def test_a_feed_that_meets_a_defect_ends_its_watches(
    client: httpx.Client, chronicle: Chronicle, full: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Feed.read

    def broken(self: Feed, behind: Any) -> Any:
        if behind.position >= start:
            raise RuntimeError("can't start new thread")
        return whole(self, behind)

    start = full.meta.position
    with client.stream("GET", f"{MAIN}/types", params={"watch": "true"}, headers=LINES, timeout=3) as answer:
        lines = answer.iter_lines()
        while json.loads(next(lines))["type"] != "SYNCED":
            pass
        monkeypatch.setattr(Feed, "read", broken)
        chronicle.propose("Late", {"id": "long"})
        full.step()
        try:
            rest = [json.loads(line)["type"] for line in lines]
        except httpx.ReadTimeout:
            rest = ["nothing"]
    assert rest[-1:] in ([], ["ERROR"])


@found("whoever watches the present is told SYNCED with no item at all if the first look ends the feed")
def test_a_list_that_could_not_be_read_is_not_told_as_empty(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise Permanent("It cannot be read.")

    monkeypatch.setattr(Watched, "present", broken)
    with client.stream("GET", f"{MAIN}/leases", params={"watch": "true"}, headers=LINES) as answer:
        told = [json.loads(line)["type"] for line in answer.iter_lines()]
    assert told == ["ERROR"]


# 8. A long poll that waits less than the store takes is told nothing, for ever.


@found("the time of `wait` runs while what is there already is read")
def test_what_is_there_is_told_without_waiting(client: httpx.Client) -> None:
    assert changes(client, "types", token_at(client, 0), wait="0ms")["items"]


@found("a poll that is slower than `wait` comes to nothing and is made again from the same token")
def test_short_polls_come_further(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Feed.read

    def slow(self: Feed, behind: Any) -> Any:
        time.sleep(0.3)
        return whole(self, behind)

    monkeypatch.setattr(Feed, "read", slow)
    token = token_at(client, 0)
    for _ in range(5):
        body = changes(client, "types", token, wait="200ms")
        token = body["next"]
    assert token != token_at(client, 0)


# 9. Long polls are counted by no limit.


@found("only watch=true counts for auth.watches; a long poll has a feed of its own for up to a minute, too")
def test_long_polls_are_limited_as_watches_are(full: Projector, requester: Requester, tmp_path: Path) -> None:
    access, header = _access(tmp_path, "viewer@main", Limits(1_000, 2, time.monotonic))
    with served(full, requester, access) as client:
        token = client.get(f"{MAIN}/cluster", headers=header).headers["X-Topolog-Token"]

        def poll(number: int) -> int:
            params = {"changes_since": token, "wait": "3s", "name": f"T{number}"}
            return client.get(f"{MAIN}/types", params=params, headers=header).status_code

        with ThreadPoolExecutor(6) as pool:
            assert 429 in list(pool.map(poll, range(6)))


# 10. Filters in a cursor are checked by their type alone.


@found("`after` and `until` of a cursor are text that int() is asked to read: 500")
@pytest.mark.parametrize("filters", [{"after": "abc"}, {"until": "9" * 5_000}])
@pytest.mark.parametrize("path", [f"{MAIN}/decisions", f"{MAIN}/diff/exchanges"])
def test_a_cursor_of_nobodys_is_no_defect(client: httpx.Client, path: str, filters: dict[str, str]) -> None:
    params = {"cursor": str(Cursor(path, 20, "19", filters, since=3))}
    answer = client.get(path, params=params | ({"from": "3"} if "diff" in path else {}))
    assert answer.status_code == 400


# 11. The topics that a watch tells are not those of the list.


@found("topics has no past and does not say that it shows the present: it is read `settled`, without any progress")
def test_a_watch_of_topics_begins_with_the_list(client: httpx.Client) -> None:
    listed = client.get(f"{MAIN}/topics").json()["items"]
    with client.stream("GET", f"{MAIN}/topics", params={"watch": "true"}, headers=LINES) as answer:
        first = json.loads(next(answer.iter_lines()))["item"]
    assert first["is_read"] == listed[0]["is_read"]


# 12. The command line's tokens.


@found("read, then written, without a lock: what the other has written in between is gone, with its own write's token")
def test_two_commands_at_once_keep_the_newest_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokens.json"
    mine, theirs = FileTokens(file, "http://a"), FileTokens(file, "http://a")
    write = mine._write

    def late(held: dict[str, str]) -> None:
        theirs.keep("main", "log.10")
        theirs.keep("other", "log2.3")
        write(held)

    monkeypatch.setattr(mine, "_write", late)
    mine.keep("main", "log.7")
    assert (theirs.newest("main"), theirs.newest("other")) == ("log.10", "log2.3")


# 13. Secrets in bundles.


@found('written with ensure_ascii=False, looked through for the raw secret and its ASCII form: `ä"` is neither')
def test_no_secret_is_in_a_bundle_however_it_is_written() -> None:
    secret = 'pä"sswört'
    text = json.dumps({"value": secret}, ensure_ascii=False)
    assert "sswört" not in redacted(text, [secret])


# 14. What `apply` has shown and what it asks for.


@found("a SET of the whole baseline, shown as `+ n3`: who has begun to count in between counts no more")
def test_no_node_leaves_the_baseline_that_the_plan_does_not_name(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("baseline: [n1, n2, n3]\n")
    (step,) = steps(read_declared(str(file)), There({}, {}, {}, ("n1", "n2"))).planned
    assert step.details == ("+ n3",)
    is_guarded = any(name.startswith(("based_on", "version")) for name in step.request)
    assert step.request["verb"] == "ADD" or is_guarded


# 15. One question that takes the process from everybody.


@found("Order.parse keeps a field as often as it is named: 12 us each time, for each of up to 50,000 items")
def test_a_field_sorts_once() -> None:
    assert len(Order.parse(",".join(["event"] * 3_000), Decision).by) == 1


@found("`*` is `.*`: five of them take a second of the interpreter, eight, as what=*a*a*a*a*a*a*a*b, for ever")
def test_a_pattern_of_the_audit_is_judged_at_once() -> None:
    began_s = time.process_time()
    assert not fits("*a" * 5 + "*b", "a" * 90)
    assert time.process_time() - began_s < 0.05


# 16. Figures of all clusters go with the store of one.


@found("collect() raises for the one cluster whose store cannot be read, and /metrics is 503 for all of them")
def test_there_are_figures_while_a_store_cannot_be_read(
    client: httpx.Client, full: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise Retriable("The store is being opened again.")

    monkeypatch.setattr(full, "reading", broken)
    assert "topolog_projection_stopped" in client.get("/metrics").text


# 17. Every page of the console has the time slider, which says what has happened.


@found("Frame.slider tells the last decisions of all the log, on the page of whoever may see one group, and on `help`")
@pytest.mark.parametrize("page", ["help", "partitions?group=parts&as_of=40"])
def test_a_page_tells_nobody_of_decisions_that_are_denied_to_them(
    full: Projector, requester: Requester, tmp_path: Path, page: str
) -> None:
    access, header = _access(tmp_path, "viewer@main:partitions/parts/*")
    with served(full, requester, access) as client:
        assert client.get(f"{MAIN}/decisions", headers=header).status_code == 403
        answer = client.get(f"/clusters/main/{page}", headers=header)
    assert answer.status_code == 200
    assert "group orders" not in answer.text


# 18. A number under somebody else's name.


@found("Idempotency-Key names any requester: one number far ahead, and all lower ones of its owner are refused")
def test_nobody_uses_up_the_numbers_of_somebody_else(full: Projector, requester: Requester, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("mallory", "billing")]
    for folder, name, grants in zip(
        folders, ("mallory", "billing"), ("operator@main:types/Mine*", "operator@main:types/Bill*"), strict=True
    ):
        folder.mkdir()
        access, header = _access(folder, grants)
        number = 9_000_000_000_000_000 if name == "mallory" else 1
        body = {"kind": "propose", "definition": {"name": grants[20:24], "fields": {"id": "long"}}}
        with served(full, requester, access) as client:
            headers = {**header, "Idempotency-Key": f"billing/{number}"}
            answer = client.post(f"{MAIN}/requests", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def _access(folder: Path, grants: str, limits: Limits | None = None) -> tuple[Access, dict[str, str]]:
    token = tokens.new()
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text(tokens.line_of("somebody", grants, token) + "\n")
    access = Access(Authentication(TokensFile(file)), limits or Limits(1_000, 10, time.monotonic))
    return access, {"Authorization": f"Bearer {token}"}
