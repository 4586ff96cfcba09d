"""`apply`, `drop`, `rename`, `cancel` and `wait` about definitions: what is asked for, and how each ends."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json

DEMO = "/v1/clusters/demo"
FILE = """
databases: {shop: {}}
tables:
  shop.orders:
    columns: {id: INT64, price: INT32}
    key: id
  shop.parts:
    columns: {id: INT64, name: STRING}
    key: id
"""


def sent(api: FakeApi) -> list[Json]:
    return [asked.body for asked in api.asked if asked.method == "POST" and asked.body is not None]


def change(state: str, **rest: Any) -> Json:
    item = {"number": 60, "state": state, "does": "drop table shop.orders", "age_ms": 14_000, **rest}
    return {"kind": "SchemaChange", "apiVersion": "topolog/v1", "asOf": {"position": 70}, "item": item}


@pytest.fixture
def schema(tmp_path: Path, api: FakeApi) -> str:
    """A file; shop.orders is there as it wants it, shop.parts is not."""
    file = tmp_path / "schema.yaml"
    file.write_text(FILE)
    tables: Json = ANSWERS[f"{DEMO}/tables"]
    orders = {**tables["items"][0], "state": "USING", "pending": None, "change": None}
    api.reply(f"{DEMO}/tables", 200, {**tables, "items": [orders]})
    api.decide("change-begun")
    api.reply(f"{DEMO}/changes/60", 200, change("COMMITTED"))
    return str(file)


def test_exactly_the_plan_that_was_shown_is_asked_for(cli: Cli, api: FakeApi, schema: str) -> None:
    """OP16: the gap between what was reviewed and what is run; one change, at one position, or PLAN_IS_OLD."""
    ended = cli("apply", "-f", schema, "--yes", "--reason", "parts", "--deadline", "30s")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("+ table shop.parts\n    + id INT64 (key)\n    + name STRING\n")
    assert sent(api) == [
        {
            "kind": "schema-change",
            "statements": [
                {
                    "verb": "CREATE",
                    "kind": "TABLE",
                    "name": "shop.parts",
                    "definition": {
                        "columns": [{"name": "id", "type": "INT64"}, {"name": "name", "type": "STRING"}],
                        "key": "id",
                    },
                    "if_needed": False,
                    "planned_on": -1,
                }
            ],
            "reason": "parts",
            "deadline_ms": 30_000,
        }
    ]
    reads = [asked for asked in api.asked if asked.method == "GET" and "changes" not in asked.path]
    assert [each.params.get("as_of") for each in reads[-3:]] == ["412", "412", "412"]
    assert "Not in the file, and kept: grant ada@shop.orders, view shop.prices. --prune drops that." in ended.err


def test_nothing_is_asked_where_nobody_can_be_asked(cli: Cli, api: FakeApi, schema: str) -> None:
    ended = cli("apply", "-f", schema)
    assert (ended.code, sent(api)) == (2, [])
    assert "Nothing was applied: nobody is here to be asked." in ended.err


def test_a_no_leaves_everything_as_it_is(cli: Cli, api: FakeApi, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert cli("apply", "-f", schema, "--prune").code == 1
    assert sent(api) == []


def test_a_file_that_is_reached_already_asks_for_nothing(cli: Cli, api: FakeApi, schema: str, tmp_path: Path) -> None:
    file = tmp_path / "same.yaml"
    file.write_text("tables: {shop.orders: {columns: {id: INT64, price: INT32}, key: id}}")
    ended = cli("apply", "-f", str(file))
    assert (ended.code, sent(api)) == (0, [])
    assert "Nothing is to be changed: all is as the file says at position 412." in ended.err


def test_what_cannot_be_reached_in_one_change_is_refused_before_it_is_sent(
    cli: Cli, api: FakeApi, schema: str, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("tables: {shop.prices: {columns: {id: INT64}, key: id}}")
    ended = cli("apply", "-f", str(file), "--yes")
    assert (ended.code, sent(api)) == (5, [])
    assert "shop.prices is there, and is a view" in ended.err


def test_a_plan_that_became_old_ends_as_refused(cli: Cli, api: FakeApi, schema: str) -> None:
    old = {**ANSWERS["object-in-use"], "code": "PLAN_IS_OLD", "detail": "Make the plan again."}
    api.reply(f"{DEMO}/requests", 409, old)
    ended = cli("apply", "-f", schema, "--yes")
    assert ended.code == 5
    assert "PLAN_IS_OLD" in ended.err


@pytest.mark.parametrize(
    ("command", "statement"),
    [
        ("drop table shop.orders --yes", {"verb": "DROP", "kind": "TABLE", "name": "shop.orders"}),
        ("drop database/shop --yes", {"verb": "DROP", "kind": "DATABASE", "name": "shop"}),
        ("drop view shop.prices --yes", {"verb": "DROP", "kind": "VIEW", "name": "shop.prices"}),
        (
            "drop grant ada@shop.orders --yes --if-exists",
            {"verb": "DROP", "kind": "GRANT", "name": "ada@shop.orders", "if_needed": True},
        ),
        (
            "rename table shop.orders shop.sales",
            {"verb": "RENAME", "kind": "TABLE", "name": "shop.orders", "new_name": "shop.sales"},
        ),
        (
            "rename view/shop.prices shop.costs",
            {"verb": "RENAME", "kind": "VIEW", "name": "shop.prices", "new_name": "shop.costs"},
        ),
    ],
)
def test_one_statement_is_sent_as_it_was_meant(
    command: str, statement: Json, cli: Cli, api: FakeApi, schema: str
) -> None:
    ended = cli(*command.split())
    assert ended.code == 0, ended.err
    (request,) = sent(api)
    assert request["statements"] == [{"if_needed": False, **statement}]
    assert "COMMITTED" in ended.out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("drop table", "Which table?"),
        ("drop group orders --if-exists --yes", "--if-exists is not of groups."),
        ("drop exchange 4.0", "There is no resource 'exchange' here"),
        ("rename table shop.orders", "What is table shop.orders to be called?"),
        ("rename database shop mall", "There is no resource 'database' here"),
        ("cancel change", "Which change?"),
        ("cancel change x", "'x' is no number of a change."),
        ("cancel node n1", "There is no resource 'node' here"),
        ("wait change 60 --for Settled", "Wait for it with --for=Committed or Deleted or Over."),
        ("apply -f nowhere.yaml", "There is no file nowhere.yaml."),
        ("drop table shop.orders --yes --timeout soon", "--timeout 'soon' is no duration."),
    ],
)
def test_what_cannot_be_meant_is_refused_here(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    ended = cli(*command.split())
    assert ended.code == 2
    assert said in ended.err
    assert sent(api) == []


def test_a_change_is_followed_until_it_is_in_force(cli: Cli, api: FakeApi, schema: str) -> None:
    """TA17: a change takes as long as a fence at most, and who drops a table wants to know that it is dropped."""
    states = [change("QUEUED", behind=[47]), change("PREPARED", asked=["n3"], at_most_ms=9_000), change("COMMITTED")]
    api.replies[f"{DEMO}/changes/60"] = lambda _: (200, states.pop(0))
    ended = cli("drop", "table", "shop.orders", "--yes", "-o", "name")
    assert (ended.code, ended.out, states) == (0, "change/60\n", [])


def test_a_change_that_was_rolled_back_is_a_failure(cli: Cli, api: FakeApi, schema: str) -> None:
    given_up = change("ROLLED_BACK", code="BLOCKED", rule="TA19", message="Node 'n2' cannot apply it: no room")
    api.reply(f"{DEMO}/changes/60", 200, given_up)
    ended = cli("drop", "table", "shop.orders", "--yes")
    assert ended.code == 5
    assert "Node 'n2' cannot apply it: no room [BLOCKED, rule TA19]" in ended.err
    assert cli("wait", "change/60").code == 5
    assert cli("wait", "change/60", "--for", "deleted").code == 5
    assert cli("wait", "change/60", "--for", "over").code == 0


def test_waiting_in_vain_for_a_change_names_whom_it_waits_for(cli: Cli, api: FakeApi) -> None:
    """Exit code 7: for whom, how long at most, and what can be done."""
    waits = change("PREPARED", asked=["n1", "n3"], silent=["n3"], at_most_ms=11_000)
    api.reply(f"{DEMO}/changes/60", 200, waits)
    ended = cli("wait", "change", "60", "--timeout", "1ms")
    assert ended.code == 7
    said = "Change 60 (drop table shop.orders): waiting 14 s for n3, at most 11 s more; that takes longer than 1ms."
    assert said in ended.err
    assert "`topolog cancel change/60`" in ended.err


def test_who_waits_for_deletions_waits_longer_than_for_the_commit(cli: Cli, api: FakeApi) -> None:
    answers = [change("COMMITTED", undeleted=["n2"]), change("COMMITTED", undeleted=[])]
    api.replies[f"{DEMO}/changes/60"] = lambda _: (200, answers.pop(0))
    assert cli("wait", "change/60", "--for=Deleted").code == 0
    assert answers == []
    api.reply(f"{DEMO}/changes/60", 200, change("COMMITTED", undeleted=["n2"]))
    assert cli("wait", "change/60").code == 0
    ended = cli("wait", "change/60", "--for=Deleted", "--timeout", "1ms")
    assert (ended.code, "waiting for n2 to delete data" in ended.err) == (7, True)


def test_less_can_be_awaited(cli: Cli, api: FakeApi, schema: str) -> None:
    assert cli("apply", "-f", schema, "--yes", "--wait", "decided").code == 0
    assert not any(asked.path.endswith("/changes/60") for asked in api.asked)


def test_a_terminal_shows_for_whom_a_change_waits(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, written over; gone when the change is over."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    states = [change("PREPARED", silent=["n3"], at_most_ms=11_000), change("COMMITTED")]

    def answer(_: Asked) -> tuple[int, Json]:
        return 200, states.pop(0)

    api.replies[f"{DEMO}/changes/60"] = answer
    err = cli("wait", "change/60").err
    assert "\r\x1b[Kchange 60 (drop table shop.orders): waiting 14 s for n3, at most 11 s" in err
    assert "\r\x1b[K" in err.split("at most 11 s")[1]
