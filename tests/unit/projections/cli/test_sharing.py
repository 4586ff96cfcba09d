"""`create`, `alter`, `drop`: what is typed becomes the request that was meant, or a sentence and nothing is sent."""

from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import Cli, FakeApi, Json


def sent(api: FakeApi) -> list[Json]:
    return [asked.body for asked in api.asked if asked.method == "POST" and asked.body is not None]


@pytest.fixture(autouse=True)
def _granting(api: FakeApi) -> None:
    api.decide("group-created")


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("create group orders", {"kind": "create-group", "name": "orders"}),
        ("create groups/orders --persistent", {"kind": "create-group", "name": "orders", "persistent": True}),
        (
            "create gr orders --partitions 9 --node-filter zone=eu --node-filter disk=a=b --loss-policy read_only_safe",
            {
                "kind": "create-group",
                "name": "orders",
                "partitions": 9,
                "node_filter": {"zone": "eu", "disk": "a=b"},
                "loss_policy": "READ_ONLY_SAFE",
            },
        ),
        (
            "alter group orders --backups 0 --exclude-neighbours-by host",
            {"kind": "alter-group", "name": "orders", "backups": 0, "exclude_neighbours_by": "host"},
        ),
        (
            "alter group orders --partitions 128 --not-persistent",
            {"kind": "alter-group", "name": "orders", "partitions": 128, "persistent": False},
        ),
        ("drop group orders --yes", {"kind": "drop-group", "name": "orders"}),
        ("reset group orders --yes", {"kind": "reset-group", "name": "orders"}),
        ("start-exchange", {"kind": "exchange"}),
    ],
)
def test_a_request_is_sent_as_it_was_meant(command: str, body: Json, cli: Cli, api: FakeApi) -> None:
    """What is not said is not sent: of a new group the API says what is usual, of an old one it stays."""
    ended = cli(*command.split(), "--reason", "shop", "--wait", "accepted")
    assert ended.code == 0, ended.err
    assert sent(api) == [{**body, "reason": "shop"}]


def test_an_empty_text_takes_a_rule_away(cli: Cli, api: FakeApi) -> None:
    assert cli("alter", "group", "orders", "--node-filter", "", "--backup-filter", "").code == 0
    assert sent(api) == [
        {"kind": "alter-group", "name": "orders", "node_filter": {}, "backup_filter": "", "reason": ""}
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("create group", "Which group?"),
        ("create type Customer", "There are: groups (gr)."),
        ("create group g --partitions 70000", "--partitions 70000 is more than 65000"),
        ("create group g --backups -1", "--backups -1 is less than 0"),
        ("create group g --node-filter zone", "One looks like zone=eu."),
        ("create group g --node-filter =eu", "One looks like zone=eu."),
        ("create group g --node-filter zone=eu --node-filter zone=us", "no node has both"),
        ("create group g --loss-policy ignored", "ignored"),
        ("create group g --request-id ada", "no request id"),
        ("alter group g", "Nothing is to be altered of group g."),
        ("drop group g", "--yes"),
        ("reset group g", "--yes"),
        ("reset group", "Which group?"),
    ],
)
def test_a_slip_is_named_and_nothing_is_sent(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    """Exit code 2: usage."""
    ended = cli(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert sent(api) == []


def test_a_group_that_is_another_one_is_a_refusal(cli: Cli, api: FakeApi) -> None:
    """Exit code 5, with what differs and what to do."""
    api.decide("group-exists", 409)
    ended = cli("create", "group", "orders", "--partitions", "128")
    assert ended.code == 5
    assert "partitions 64, asked for: 128" in ended.err
    assert "[GROUP_EXISTS, rule EX1]" in ended.err


def test_a_drop_is_asked_about(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is text of somebody's, not a pattern."""
    asked: list[str] = []

    def prompt(question: str, **_: object) -> str:
        asked.append(question)
        return "a{b}" if len(asked) > 1 else "yes"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", prompt)
    assert cli("drop", "group", "a{b}").code == 1
    assert sent(api) == []
    assert cli("drop", "group", "a{b}").code == 0
    assert asked[0] == (
        "Drop group a{b} from cluster demo? Every copy of its partitions goes with it. Its name, to go on"
    )


YAML = "name: orders\npartitions: 64\nnode_filter:\n  zone: eu\nloss_policy: READ_ONLY_SAFE\n"


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ("", {}),
        ("orders", {}),
        ("--partitions 32 --node-filter disk=ssd", {"partitions": 32, "node_filter": {"disk": "ssd"}}),
    ],
)
def test_a_file_says_what_is_not_said_here(options: str, changes: Json, cli: Cli, api: FakeApi, tmp_path: Path) -> None:
    """What stands in the version control of a service is created as it stands there."""
    (tmp_path / "orders.yaml").write_text(YAML)
    ended = cli("create", "group", *options.split(), "--file", str(tmp_path / "orders.yaml"))
    assert ended.code == 0, ended.err
    whole = {"name": "orders", "partitions": 64, "node_filter": {"zone": "eu"}, "loss_policy": "READ_ONLY_SAFE"}
    assert sent(api) == [{"kind": "create-group", **whole, **changes, "reason": ""}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "orders",\n"partition": 64}', "g.json, line 2: a definition has no key 'partition'"),
        ('{"name": "orders", "partitions": "64"}', "g.json: This is no definition of a group: Expected `int`"),
        ('{"name": "orders", "node_filter": {"zone": 1}}', "$.node_filter"),
        ('{"name": "orders", "partitions": 0}', "g.json: Group 'orders': 0 partitions are not 1 to 65000."),
        ('{"name": "orders", "loss_policy": "NONE"}', "Invalid enum value 'NONE'"),
        ('{"partitions": 64}', "g.json: This is no definition of a group: Object missing required field `name`."),
        ('{"name": "carts"}', "g.json is about group 'carts', not 'orders'."),
        ("[]", "g.json holds a list, not the definition of one group."),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_sent(text: str, said: str, cli: Cli, api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(text)
    name = ["orders"] if "carts" in text else []
    ended = cli("create", "group", *name, "--file", str(tmp_path / "g.json"))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not api.asked
