"""`topolog wait` on everything: its conditions, how it learns of changes, how it ends."""

import time

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json

from topolog.projections.cli import conditions
from topolog.projections.cli.resources import AWAITED

DEMO = "/v1/clusters/demo"
CHANGED: Json = {"kind": "ChangeList", "items": [{"type": "MODIFIED", "token": "9c.413"}], "next": "9c.413"}


@pytest.mark.parametrize(
    "command",
    [
        "cluster --for Active",
        "cluster --for held=yes",
        "node/n1",
        "node n2 --for left",
        "node n9 --for gone",
        "node n1 --for kind=SERVER",
        "lease/n1 --for Valid",
        "type/Customer --for exists",
        "type/Nobody --for gone",
        "partition/orders/17 --for exists",
        "exchange/5.0",
        "exchange/5.0 --for exists",
        "baseline",
        "table/shop.orders --for state=PRE_ALTER",
        "request/cli-4f2a/3",
        "request/cli-4f2a/3 --for granted",
        "group/orders --for exists",
        "session/44 --for exists",
        "change/44 --for state=COMMITTED",
    ],
)
def test_what_holds_already_is_not_waited_for(command: str, cli: Cli) -> None:
    ended = cli("wait", *command.split(), "--timeout", "1ms")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("node n1 --for left", "Node n1 was not Left (standing MEMBER) within 1ms."),
        ("node n9", "There was no node n9 within 1ms."),
        ("node n1 --for gone", "Node n1 was not Gone (state -) within 1ms."),
        ("cluster --for inactive", "Cluster was not Inactive (state ACTIVE) within 1ms."),
        ("exchange/9.0", "There was no exchange 9.0 within 1ms."),
        ("node n1 --for lease.state=OVERDUE", "Node n1 was not lease.state=OVERDUE (lease.state VALID) within 1ms."),
    ],
)
def test_waiting_in_vain_says_how_it_stands_and_ends_with_7(command: str, said: str, cli: Cli) -> None:
    ended = cli("wait", *command.split(), "--timeout", "1ms")
    assert ended.code == 7
    assert said in ended.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("node n1 --for completed", "Wait for it with --for=Member or Left or Healthy or Drained or Exists or Gone"),
        ("exchange/5.0 --for settled", "Wait for it with --for=Completed."),
        ("partition --for owning", "Which partition?"),
        ("map orders/n1", "There is no resource 'map' here."),
        ("node n1 --timeout soon", "no duration"),
    ],
)
def test_a_condition_that_nothing_of_the_kind_has_is_wrong_usage(command: str, said: str, cli: Cli) -> None:
    ended = cli("wait", *command.split())
    assert ended.code == 2
    assert said in ended.err


def test_the_api_tells_when_to_look_again(cli: Cli, api: FakeApi) -> None:
    """No busy loop: between two looks there is one question that the API answers when something has changed."""
    told = list[Asked]()

    def nodes(asked: Asked) -> tuple[int, Json]:
        told.append(asked)
        joined = {**ANSWERS[f"{DEMO}/nodes/n1"], "item": {"node": "n3", "standing": "MEMBER"}}
        api.reply(f"{DEMO}/nodes/n3", 200, joined)
        return 200, CHANGED

    coming = {**ANSWERS[f"{DEMO}/nodes/n1"], "item": {"node": "n3", "standing": "STOPPING"}}
    api.reply(f"{DEMO}/nodes/n3", 200, coming)
    api.replies[f"{DEMO}/nodes"] = nodes
    assert cli("wait", "node/n3", "--timeout", "20s").code == 0
    assert [asked.params["changes_since"] for asked in told] == ["412.9c"]
    assert 10_000 < int(told[0].params["wait"].removesuffix("ms")) <= 20_000


def test_an_api_that_cannot_tell_is_looked_at_again_and_again(cli: Cli, api: FakeApi) -> None:
    looks = iter([{"standing": "STOPPING"}, {"standing": "STOPPING"}, {"standing": "MEMBER"}])
    api.replies[f"{DEMO}/nodes/n3"] = lambda _: (200, {**ANSWERS[f"{DEMO}/nodes/n1"], "item": next(looks)})
    api.reply(f"{DEMO}/nodes", 400, {"detail": "changes_since: there is no such parameter."})
    assert cli("wait", "node/n3").code == 0
    assert [asked.path for asked in api.asked].count(f"{DEMO}/nodes") == 1, "it is asked once, and then known"


def test_a_wait_ends_in_time_though_much_changes(cli: Cli, api: FakeApi) -> None:
    api.reply(f"{DEMO}/nodes", 200, CHANGED)
    started_s = time.monotonic()
    assert cli("wait", "node/n1", "--for", "left", "--timeout", "200ms").code == 7
    assert time.monotonic() - started_s < 10
    looks = [asked.path for asked in api.asked].count(f"{DEMO}/nodes/n1")
    assert looks <= 6, "at most one look each 50 ms"


def test_everything_that_settles_has_a_condition_of_its_own() -> None:
    for kind in AWAITED:
        assert conditions.names_of(kind)[-2:] == ["Exists", "Gone"]
