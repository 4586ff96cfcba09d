"""The door in front of the real app: who gets in, what each may, what the log and the audit say of it."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest
from httpx import Client, Response
from tests.broker.conftest import eventually
from tests.unit.projections.access.door import KEY, NARROW, Door
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served, serving

from topolog.events.topics import Topic
from topolog.projections.api.access.access import Access
from topolog.projections.api.access.authn import Authentication
from topolog.projections.api.access.grants import parse_all
from topolog.projections.api.access.limits import Limits
from topolog.projections.api.served import Served
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
REQUESTS = f"{MAIN}/requests"
DROP_COLUMN = {"verb": "ALTER", "kind": "TABLE", "name": "shop.t", "columns": [{"verb": "DROP", "name": "ssn"}]}
SHORTER = {"verb": "ALTER", "kind": "TABLE", "name": "shop.t"}
GROUP = {"kind": "create-group", "name": "orders", "partitions": 4, "reason": "orders"}


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    (tmp_path / "door").mkdir()
    made = Door(tmp_path / "door")
    yield made
    made.access.close()


@pytest.fixture
def writer(chronicle: Chronicle, projector: Projector) -> AnsweringWriter:
    chronicle.join("n1")
    projector.step()
    return AnsweringWriter(chronicle, projector)


@pytest.fixture
def client(projector: Projector, writer: AnsweringWriter, door: Door) -> Iterator[Client]:
    with served(projector, Requester(writer, "api-1", "broker:9092"), door.access) as client:
        yield client


def sent(chronicle: Chronicle) -> int:
    return len(chronicle.log.entries(Topic.OPERATIONS))


def problem(answer: Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("path", [f"{MAIN}/groups", "/v1/clusters", "/openapi.json", "/", "/metrics", "/nowhere"])
def test_who_shows_nothing_gets_nothing(client: Client, path: str) -> None:
    answer = client.get(path)
    assert problem(answer) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "TOPOLOG_API__TOKEN_FILE" in answer.json()["hint"]


def test_probes_ask_nobody_who_they_are_and_name_no_cluster(client: Client) -> None:
    """An orchestrator has no token; whoever can reach the port learns no tenant's name."""
    assert client.get("/livez").status_code == 200
    ready = client.get("/readyz")
    assert ready.json()["clusters"] == []
    assert "main" not in ready.text


@pytest.mark.parametrize(
    "shown", ["Bearer topolog_wrong", "Bearer", "Basic YTpi", "Bearer a.b.c", "topolog_x", "Bearer \u00e9"]
)
def test_credentials_that_do_not_hold_are_no_way_in(client: Client, shown: str) -> None:
    answer = client.get(f"{MAIN}/groups", headers=[(b"Authorization", shown.encode())])
    assert answer.status_code == 401
    credential = shown.partition(" ")[2]
    assert not credential or credential not in answer.text


def test_bad_credentials_are_not_taken_for_none(projector: Projector, writer: AnsweringWriter, door: Door) -> None:
    """Where strangers may look, a token that has run out is told so."""
    authentication = Authentication(door.access.authentication.tokens, anonymous=parse_all("viewer"))
    access = Access(authentication)
    with served(projector, Requester(writer, "api-1", "broker:9092"), access) as client:
        assert client.get(f"{MAIN}/groups").status_code == 200
        assert client.get(f"{MAIN}/groups", headers={"Authorization": "Bearer topolog_x"}).status_code == 401
        assert problem(client.post(REQUESTS, json=GROUP)) == (403, "forbidden")


WHO_MAY = {
    ("GET", f"{MAIN}/nodes"): {"viewer", "operator", "admin", "auditor", "root"},
    ("GET", f"{MAIN}/groups/orders"): {"viewer", "operator", "admin", "auditor", "narrow", "root"},
    ("GET", f"{MAIN}/groups"): {"viewer", "operator", "admin", "auditor", "root"},
    ("GET", f"{MAIN}/differences"): {"operator", "admin", "root"},
    ("GET", f"{MAIN}/dead-letters/9"): {"operator", "admin", "root"},
    ("GET", f"{MAIN}/audit"): {"admin", "auditor", "root"},
    ("GET", "/metrics"): {"root"},
    ("GET", "/"): {"viewer", "operator", "admin", "auditor", "root"},
    ("GET", f"{MAIN}/can-i?right=read&resource=nodes"): {"viewer", "operator", "admin", "auditor", "narrow", "root"},
    ("POST", f"{MAIN}/dead-letters/9/replay"): {"admin", "root"},
    ("POST", f"{MAIN}/nodes/n9/join"): {"viewer", "operator", "admin", "auditor", "root"},
}


@pytest.mark.parametrize(("method", "path"), WHO_MAY)
def test_each_role_may_what_the_table_says(client: Client, door: Door, method: str, path: str) -> None:
    """Part 6: roles by cluster and resource. Whoever may is answered by the route, whatever it says."""
    answers = {name: client.request(method, path, headers=door.of(name), json={}) for name in door.tokens}
    let_in = {name for name, answer in answers.items() if answer.status_code not in (401, 403)}
    foreign = {"stranger"} if "/clusters/main" in path else set()
    assert let_in - foreign == WHO_MAY[method, path]


def test_a_refusal_says_which_grant_is_missing(client: Client, door: Door) -> None:
    answer = client.get(f"{MAIN}/audit", headers=door.of("viewer"))
    assert problem(answer) == (403, "forbidden")
    assert answer.json()["missing"] == ["auditor@main:audit"]
    assert "viewer (token) may not audit audit of cluster main" in answer.json()["detail"]


def test_a_tenant_of_others_is_not_there(client: Client, door: Door) -> None:
    """Part 6: 404 and not 403, to the letter as for a cluster that nobody has."""
    foreign = client.get(f"{MAIN}/groups", headers=door.of("stranger"))
    nowhere = client.get("/v1/clusters/mail/groups", headers=door.of("stranger"))
    assert problem(foreign) == (404, "not_found")
    assert foreign.text.replace("main", "mail") == nowhere.text
    assert client.get("/v1/clusters", headers=door.of("stranger")).json()["items"] == []
    assert client.get("/v1/whoami", headers=door.of("stranger")).json()["item"]["clusters"] == []


def test_two_tenants_see_each_their_own(tmp_path: Path, door: Door) -> None:
    made = [Chronicle().start() for _ in range(2)]
    pairs = zip(made, ("main", "other"), strict=True)
    projectors = [Projector(each.log.reader(), tmp_path / name, name) for each, name in pairs]
    clusters = [
        Served(each, Requester(chronicle.log.writer(), "api-1", "broker:9092"))
        for each, chronicle in zip(projectors, made, strict=True)
    ]
    for each in projectors:
        each.step()
    with serving(clusters, door.access) as client:
        names = {
            who: [each["name"] for each in client.get("/v1/clusters", headers=door.of(who)).json()["items"]]
            for who in ("viewer", "stranger", "root")
        }
        assert names == {"viewer": ["main"], "stranger": ["other"], "root": ["main", "other"]}
        assert client.get("/v1/clusters/other/nodes", headers=door.of("viewer")).status_code == 404
        assert client.get("/v1/clusters/other/nodes", headers=door.of("stranger")).status_code == 200
    for each in projectors:
        each.close()


def test_the_log_names_the_principal_and_never_the_header(client: Client, door: Door, chronicle: Chronicle) -> None:
    headers = {**door.of("operator"), "X-Topolog-Actor": "root"}
    assert client.post(REQUESTS, json=GROUP, headers=headers).status_code == 200
    decision = client.get(f"{MAIN}/decisions?event=GroupCreated", headers=door.of("viewer")).json()["items"][0]
    assert decision["actor"] == "operator"


def test_somebody_of_the_issuer_acts_under_the_name_it_gives(client: Client) -> None:
    headers = {"Authorization": f"Bearer {KEY.token(sub='Ånn Ö|7')}"}
    who = client.get("/v1/whoami", headers=headers).json()["item"]
    assert (who["name"], who["method"], who["grants"]) == ("Ånn Ö|7", "oidc", ["operator@main"])
    assert client.post(REQUESTS, json=GROUP, headers=headers).status_code == 200
    decision = client.get(f"{MAIN}/decisions?event=GroupCreated", headers=headers).json()["items"][0]
    assert decision["actor"] == "%C3%85nn %C3%96|7"


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [
        ("viewer", GROUP, 403),
        ("operator", GROUP, 200),
        ("narrow", GROUP, 200),
        ("narrow", {**GROUP, "name": "invoices"}, 403),
        ("operator", {"kind": "drop-group", "name": "orders", "reason": "x"}, 403),
        ("narrow", {"kind": "propose", "definition": {"name": "Orders", "fields": {}}}, 403),
        ("operator", {"kind": "remove", "resource": "node", "name": "n1", "reason": "x"}, 403),
        ("operator", {"kind": "raise-level", "level": 2, "reason": "x"}, 403),
        ("operator", {"kind": "nonsense"}, 400),
        ("viewer", {"kind": "nonsense"}, 403),
        ("stranger", GROUP, 404),
    ],
)
def test_a_form_needs_the_right_over_what_it_names(
    client: Client, door: Door, chronicle: Chronicle, who: str, body: Json, status: int
) -> None:
    answer = client.post(REQUESTS, json=body, headers=door.of(who))
    assert answer.status_code == status, answer.text
    assert sent(chronicle) == (status == 200)


def test_a_dry_run_takes_the_right_to_read_and_nothing_is_sent(
    client: Client, door: Door, chronicle: Chronicle
) -> None:
    """Ask 13: a dry run needs no approval. But one that says both is none."""
    params = {"dry_run": "true"}
    assert client.post(REQUESTS, json=GROUP, params=params, headers=door.of("viewer")).json()["kind"] == "DryRun"
    both = client.post(f"{REQUESTS}?dry_run=true&dry_run=false", json=GROUP, headers=door.of("viewer"))
    assert (both.status_code, sent(chronicle)) == (403, 0)


def test_what_is_done_to_this_process_is_an_administrator_s_and_kept(client: Client, door: Door) -> None:
    action = {"action": "pause", "reason": "the disk is slow"}
    address = f"{MAIN}/projections/actions"
    assert client.post(address, json=action, headers=door.of("operator")).status_code == 403
    assert problem(client.post(address, json={"action": "pause"}, headers=door.of("admin"))) == (400, "reason_required")
    assert client.post(address, json=action, headers=door.of("admin")).status_code < 300
    kept = [(each["what"], each["result"], each["reason"]) for each in records(client, door, who="admin")]
    assert ("pause projections", "DONE", "the disk is slow") in kept


def test_what_cannot_be_undone_takes_a_reason(client: Client, door: Door) -> None:
    client.post(REQUESTS, json=GROUP, headers=door.of("admin"))
    drop = {"kind": "drop-group", "name": "orders"}
    answer = client.post(REQUESTS, json=drop, headers=door.of("admin"))
    assert problem(answer) == (400, "reason_required")
    assert client.post(REQUESTS, json={**drop, "reason": " "}, headers=door.of("admin")).status_code == 400
    assert client.post(REQUESTS, json={**drop, "reason": "closed"}, headers=door.of("admin")).status_code == 200


COPIES = {"kind": "create-group", "name": "orders", "partitions": 4, "backups": 2, "reason": "orders"}


@pytest.mark.parametrize(
    ("loss", "lost"),
    [
        ({"kind": "alter-group", "name": "orders", "loss_policy": "IGNORE", "backups": 0}, "backups, loss_policy"),
        ({"kind": "schema-change", "statements": [DROP_COLUMN]}, "column ssn"),
        ({"kind": "schema-change", "statements": [{**SHORTER, "ttl_ms": 1}]}, "ttl_ms"),
        ({"kind": "start-session", "table": "t", "session": "REPAIR", "policy": "PULL"}, "rows that the repair"),
    ],
)
def test_what_loses_data_takes_the_right_and_the_reason_of_dropping_it(
    client: Client, door: Door, chronicle: Chronicle, loss: Json, lost: str
) -> None:
    """OP11: the verb was looked at, so ALTER destroyed what DROP was denied."""
    client.post(REQUESTS, json=COPIES, headers=door.of("operator"))
    before = sent(chronicle)
    denied = client.post(REQUESTS, json={**loss, "reason": "x"}, headers=door.of("operator"))
    assert problem(denied) == (403, "forbidden")
    assert f"It can lose data: {lost}" in denied.json()["detail"]
    silent = client.post(REQUESTS, json=loss, headers=door.of("admin"))
    assert (problem(silent), sent(chronicle)) == ((400, "reason_required"), before)
    assert f"It can lose data: {lost}" in silent.json()["detail"]
    client.post(REQUESTS, json={**loss, "reason": "closed"}, headers=door.of("admin"))
    assert sent(chronicle) == before + 1


def test_what_loses_nothing_beside_what_is_served_is_an_operator_s(
    client: Client, door: Door, chronicle: Chronicle, projector: Projector
) -> None:
    """More backups are no loss; where the reader has stopped nobody knows whether they are more."""
    client.post(REQUESTS, json=COPIES, headers=door.of("operator"))
    more = {"kind": "alter-group", "name": "orders", "backups": 3}
    assert client.post(REQUESTS, json=more, headers=door.of("operator")).status_code == 200
    chronicle.poison(b"nobody can read this")
    projector.step()
    assert projector.stopped
    again = client.post(REQUESTS, json={**more, "backups": 4}, headers=door.of("operator"))
    assert problem(again) == (403, "forbidden")


def test_who_may_not_take_a_right_away_may_not_call_that_off(
    client: Client, door: Door, writer: AnsweringWriter
) -> None:
    """An administrator's revocation would wait for its verdict, and whoever may change tables could keep the right."""

    def asked(who: str, **body: Any) -> Response:
        return client.post(REQUESTS, json={"reason": "x", **body}, headers=door.of(who))

    def changed(*statements: Json) -> int:
        answer = asked("admin", kind="schema-change", statements=statements)
        return int(answer.json()["item"]["subject"].removeprefix("change "))

    columns = {"columns": [{"name": "id", "type": "INT64"}], "key": "id"}
    right = {"kind": "GRANT", "name": "ada@shop.t"}
    changed(
        {"verb": "CREATE", "kind": "DATABASE", "name": "shop", "definition": {}},
        {"verb": "CREATE", "kind": "TABLE", "name": "shop.t", "definition": columns},
        {"verb": "CREATE", **right, "definition": {"privileges": ["READ"]}},
    )
    writer.accepts = False
    revoked = changed({"verb": "DROP", **right})
    added = changed({"verb": "CREATE", "kind": "DATABASE", "name": "stock", "definition": {}})
    denied = asked("operator", kind="cancel-change", change=revoked)
    assert (problem(denied), denied.json()["missing"]) == (
        (403, "forbidden"),
        [f"admin@main:changes/{revoked}", "admin@main:grants/ada@shop.t"],
    )
    assert problem(asked("admin", kind="cancel-change", change=revoked, reason="")) == (400, "reason_required")
    assert asked("admin", kind="cancel-change", change=revoked).status_code == 200
    assert asked("operator", kind="cancel-change", change=added, reason="").status_code == 200
    unknown = asked("operator", kind="cancel-change", change=999)
    assert (problem(unknown), "no change 999" in unknown.json()["detail"]) == ((404, "not_found"), True)


def test_a_group_that_is_not_there_is_not_found_where_more_rights_would_not_help(
    client: Client, door: Door, chronicle: Chronicle, projector: Projector
) -> None:
    """What has no group loses nothing: the slip is named, and the nearest names to whoever may list them."""
    client.post(REQUESTS, json=COPIES, headers=door.of("operator"))
    fewer = {"kind": "alter-group", "name": "ordrs", "backups": 1, "reason": "x"}
    answer = client.post(REQUESTS, json=fewer, headers=door.of("operator"))
    assert (problem(answer), answer.json()["detail"]) == ((404, "not_found"), "There is no group 'ordrs'.")
    assert answer.json()["hint"] == "Did you mean orders?"
    answer = client.post(REQUESTS, json={**fewer, "name": "orders2"}, headers=door.of("narrow"))
    assert (problem(answer), "hint" in answer.json()) == ((404, "not_found"), False)
    chronicle.poison(b"nobody can read this")
    projector.step()
    assert problem(client.post(REQUESTS, json=fewer, headers=door.of("operator"))) == (403, "forbidden")


def test_what_a_change_would_lose_is_told_to_whoever_may_read_the_thing(client: Client, door: Door) -> None:
    """From what is denied and what is not, how many copies a group of somebody else has could be found out."""
    client.post(REQUESTS, json={**COPIES, "name": "paid"}, headers=door.of("operator"))

    def denied(name: str, backups: int) -> str:
        alter = {"kind": "alter-group", "name": name, "backups": backups, "reason": "x"}
        answer = client.post(REQUESTS, json=alter, headers=door.of("narrow"))
        assert problem(answer) == (403, "forbidden")
        return answer.text.replace(name, "paid")

    assert denied("paid", 1) == denied("paid", 3) == denied("none", 1)


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_a_page_of_another_site_changes_nothing(
    client: Client, door: Door, chronicle: Chronicle, headers: dict[str, str]
) -> None:
    """A proxy's cookie would go with it; the door looks at none, and lets no such page through."""
    answer = client.post(REQUESTS, json=GROUP, headers={**door.of("operator"), **headers})
    assert (problem(answer), sent(chronicle)) == ((403, "foreign_origin"), 0)


def test_a_page_of_our_own_may(client: Client, door: Door) -> None:
    own = {"Origin": str(client.base_url), **door.of("operator")}
    assert client.post(REQUESTS, json=GROUP, headers=own).status_code == 200


@pytest.fixture
def open_client(projector: Projector, writer: AnsweringWriter) -> Iterator[Client]:
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield client


def test_an_open_api_is_for_this_machine_under_its_own_names(open_client: Client) -> None:
    """A name of another site that was made to mean 127.0.0.1 would let its pages read everything here."""
    assert problem(open_client.get(f"{MAIN}/nodes", headers={"Host": "evil.example"})) == (403, "foreign_host")
    for host in ("localhost:8642", "127.0.0.1", "[::1]:8642"):
        assert open_client.get(f"{MAIN}/nodes", headers={"Host": host}).status_code == 200
    who = open_client.get("/v1/whoami", headers={"X-Topolog-Actor": "ada"}).json()["item"]
    assert (who["name"], who["method"], who["grants"]) == ("ada", "open", ["admin"])


def records(client: Client, door: Door, **filters: str) -> list[Json]:
    answer = client.get(f"{MAIN}/audit", params=filters, headers=door.of("auditor"))
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["items"]
    return found


def test_a_change_is_kept_with_all_that_is_known_of_it(client: Client, door: Door) -> None:
    """Part 6: principal, method, address, agent, operation, parameters, reason, result, ids; and the log's outcome."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {**door.of("operator"), "User-Agent": "script/1", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    client.post(REQUESTS, json=GROUP, params={"wait": "accepted"}, headers=headers)
    [record] = records(client, door)
    assert (record["principal"], record["method"], record["client"]) == ("operator", "token", "127.0.0.1")
    assert (record["agent"], record["trace_id"], record["reason"]) == ("script/1", trace, "orders")
    assert record["what"] == "create-group groups/orders"
    assert record["parameters"] == {
        "wait": "accepted",
        "body": {"kind": "create-group", "name": "orders", "partitions": 4},
    }
    assert (record["result"], record["status"], record["request_id"]) == ("DONE", 200, "api-1/1")
    assert (record["outcome"], record["dry_run"]) == ("GRANTED", False)
    assert record["position"] > 0


def test_a_dry_run_leaves_no_record_among_changes(client: Client, door: Door) -> None:
    """OP2: whoever may read pushed the records of changes out. One that is turned away is kept as such."""
    client.post(REQUESTS, json=GROUP, params={"dry_run": "true"}, headers=door.of("viewer"))
    client.post(REQUESTS, json=GROUP, params={"dry_run": "true"}, headers=door.of("narrow"))
    client.post(REQUESTS, json={**GROUP, "name": "x"}, params={"dry_run": "true"}, headers=door.of("narrow"))
    assert [(each["result"], each["dry_run"]) for each in records(client, door)] == [("DENIED", True)]


def test_what_was_turned_away_is_kept_too(client: Client, door: Door) -> None:
    client.post(REQUESTS, json=GROUP, headers=door.of("viewer"))
    client.get(f"{MAIN}/nodes")
    client.get(f"{MAIN}/nodes", headers=door.of("stranger"))
    found = [(each["principal"], each["result"], each["status"]) for each in records(client, door)]
    assert sorted(found) == [("-", "DENIED", 401), ("stranger", "DENIED", 404), ("viewer", "DENIED", 403)]


def test_the_same_again_and_again_is_counted(client: Client, door: Door) -> None:
    """A flood of refusals must not push out what matters, nor fill the disk."""
    for _ in range(50):
        client.get(f"{MAIN}/nodes")
        client.get(f"{MAIN}/audit", headers=door.of("viewer"))
    found = records(client, door)
    assert len(found) == 2
    door.ledger.tell_repeats(at_once=True)
    assert sorted(each["count"] for each in records(client, door)) == [1, 1, 49, 49]


def test_refused_by_the_cluster_and_refused_here_are_told_apart(client: Client, door: Door) -> None:
    body = {"kind": "alter-group", "name": "nothing", "loss_policy": "READ_ONLY_SAFE"}
    client.post(REQUESTS, json=body, headers=door.of("operator"))
    client.post(REQUESTS, json={"kind": "nonsense"}, headers=door.of("operator"))
    found = {each["result"]: (each["status"], each["code"], each["outcome"]) for each in records(client, door)}
    assert found["FAILED"] == (400, "bad_input", "")
    assert found["REFUSED"][0] == 409
    assert found["REFUSED"][2] == "REFUSED"


def test_the_audit_is_narrowed_and_read_page_by_page(client: Client, door: Door) -> None:
    for number in range(5):
        client.post(REQUESTS, json={**GROUP, "name": f"g{number}"}, headers=door.of("operator"))
    client.post(REQUESTS, json={**GROUP, "name": "g9"}, headers=door.of("admin"))
    assert len(records(client, door, who="operator")) == 5
    assert [each["what"] for each in records(client, door, what="*g3")] == ["create-group groups/g3"]
    assert records(client, door, result="DENIED") == []
    assert len(records(client, door, within="1h")) == 6
    seen, cursor = [], None
    while True:
        params = {"cursor": cursor} if cursor else {"limit": 2}
        page = client.get(f"{MAIN}/audit", params=params, headers=door.of("auditor")).json()
        seen += [each["what"][-1] for each in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert "".join(seen) == "943210"
    for wrong in ({"within": "soon"}, {"as_of": "2"}, {"whoo": "x"}):
        assert client.get(f"{MAIN}/audit", params=wrong, headers=door.of("auditor")).status_code == 400


def test_without_a_record_nothing_happens(client: Client, door: Door, chronicle: Chronicle) -> None:
    """Part 6: the audit fails closed. A read goes on; when the disk is back, so does everything."""
    client.post(REQUESTS, json=GROUP, headers=door.of("operator"))
    while [each["result"] for each in records(client, door)] != ["DONE"]:
        pass
    shutil.rmtree(door.audit)
    door.audit.write_text("no folder any more")
    answer = client.post(REQUESTS, json={**GROUP, "name": "b"}, headers=door.of("operator"))
    assert (problem(answer), sent(chronicle)) == ((503, "audit_failed"), 1)
    assert client.get(f"{MAIN}/groups", headers=door.of("viewer")).status_code == 200
    assert client.get(f"{MAIN}/groups").status_code == 401
    door.audit.unlink()
    door.audit.mkdir()
    assert client.post(REQUESTS, json={**GROUP, "name": "b"}, headers=door.of("operator")).status_code == 200


def test_a_defect_of_the_audit_refuses_changes_as_a_full_disk_does(
    client: Client, door: Door, chronicle: Chronicle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        for _ in range(2):
            answer = client.post(REQUESTS, json=GROUP, headers=door.of("operator"))
            assert (problem(answer), sent(chronicle)) == ((503, "audit_failed"), 0)
    assert client.post(REQUESTS, json=GROUP, headers=door.of("operator")).status_code == 200


def test_no_credential_is_in_the_audit(client: Client, door: Door) -> None:
    body = {**GROUP, "node_filter": {"password": "hunter2", "rack": "r1"}}
    client.post(f"{REQUESTS}?token=hunter3", json=body, headers=door.of("operator"))
    client.get(f"{MAIN}/nodes?access_token=hunter4", headers={"Authorization": "Bearer hunter5"})
    door.ledger.close()
    kept = "".join(path.read_text() for path in door.audit.iterdir())
    assert "r1" in kept
    for secret in ("hunter2", "hunter3", "hunter4", "hunter5", *door.tokens.values()):
        assert secret not in kept


def test_one_principal_gets_no_more_than_its_share(
    projector: Projector, writer: AnsweringWriter, tmp_path: Path
) -> None:
    (tmp_path / "door").mkdir()
    door = Door(tmp_path / "door", limits=Limits(3, 1, time.monotonic))
    with served(projector, Requester(writer, "api-1", "broker:9092"), door.access) as client:
        statuses = [
            client.post(REQUESTS, json={**GROUP, "name": f"g{n}"}, headers=door.of("operator")).status_code
            for n in range(5)
        ]
        assert statuses == [200, 200, 200, 429, 429]
        assert client.post(REQUESTS, json=GROUP, headers=door.of("admin")).status_code == 200
        assert client.get(f"{MAIN}/groups", headers=door.of("operator")).status_code == 200
    door.access.close()


def test_can_i_answers_as_the_door_would(client: Client, door: Door) -> None:
    params = {"right": "change", "resource": "groups", "name": "orders2"}
    answer = client.get(f"{MAIN}/can-i", params=params, headers=door.of("narrow")).json()["item"]
    assert (answer["allowed"], answer["by"], answer["missing"]) == (True, NARROW, None)
    params = {"right": "administer", "resource": "groups"}
    answer = client.get(f"{MAIN}/can-i", params=params, headers=door.of("narrow")).json()["item"]
    assert (answer["allowed"], answer["missing"]) == (False, "admin@main:groups")
    assert answer["grants"] == [
        {"grant": NARROW, "allows": False, "why_not": "operator has not the right administer"},
    ]


def test_the_body_that_was_judged_is_the_body_that_is_done(client: Client, door: Door, chronicle: Chronicle) -> None:
    """In many parts, or longer than a request may be, it is read once and handed on."""
    text = json.dumps(GROUP).encode()
    parts = (text[at : at + 7] for at in range(0, len(text), 7))
    headers = {**door.of("operator"), "Content-Type": "application/json"}
    assert client.post(REQUESTS, content=parts, headers=headers).status_code == 200
    long = client.post(REQUESTS, content=b'{"kind": "' + b"x" * 2_000_000, headers=headers)
    assert (long.status_code, sent(chronicle)) == (413, 1)


@pytest.mark.parametrize(
    "more",
    [
        '"reason": "\\ud800"',
        '"\\ud800": "\\ud800"',
        '"a": ' + "[" * 700 + "]" * 700,
        '"a": ' + '{"a": ' * 700 + "1" + "}" * 700,
        '"a": ' + "[" * 50_000 + "]" * 50_000,
        '"definition": ' + '{"a": ' * 50_000 + "1" + "}" * 50_000,
    ],
    ids=["reason", "key", "lists", "objects", "lists without end", "objects without end"],
)
@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("admin", 400)])
def test_a_body_that_cannot_be_written_down_leaves_a_record_all_the_same(
    client: Client, door: Door, more: str, who: str, status: int
) -> None:
    """Half a surrogate, which JSON can hold and UTF-8 cannot; more depth than whoever keeps it can follow."""
    body = f'{{"kind": "drop-group", "name": "orders", {more}}}'
    headers = {**door.of(who), "Content-Type": "application/json"}
    assert client.post(REQUESTS, content=body, headers=headers).status_code == status
    eventually(lambda: [each["status"] for each in records(client, door)] == [status], "the end of the record")
    assert records(client, door)[0]["principal"] == who


@pytest.mark.parametrize("waits", ["?at_least={}&wait=5s", "?changes_since={}&wait=5s", ""])
def test_whoever_waits_has_a_share_too(
    chronicle: Chronicle, projector: Projector, writer: AnsweringWriter, tmp_path: Path, waits: str
) -> None:
    """Questions that wait for a position yet to come were no watches, so that one viewer's took all places."""
    (tmp_path / "door").mkdir()
    door = Door(tmp_path / "door", limits=Limits(3, 1, time.monotonic))
    with served(projector, Requester(writer, "api-1", "broker:9092"), door.access) as client:
        token = client.get(f"{MAIN}/nodes", headers=door.of("viewer")).json()["asOf"]["token"]
        later = f"{token.partition('.')[0]}.{projector.meta.position + 1}"
        asked = f"{MAIN}/nodes{waits.format(later)}"
        headers = {**door.of("viewer"), **({} if waits else {"Topolog-At-Least": later, "Prefer": "wait=5"})}
        with ThreadPoolExecutor() as pool:
            waiting = [pool.submit(_head, client, asked, headers) for _ in range(2)]
            assert next(as_completed(waiting, timeout=10)).result() == 429
            assert client.get(f"{MAIN}/nodes", headers=door.of("viewer")).status_code == 200
            chronicle.join("n2")
            projector.step()
            assert sorted(each.result(10) for each in waiting) == [200, 429]
    door.access.close()


def _head(client: Client, path: str, headers: dict[str, str]) -> int:
    """The status, once there is one and, if it is 200, something behind it."""
    with client.stream("GET", path, headers=headers) as answer:
        next(answer.iter_bytes())
        return answer.status_code
