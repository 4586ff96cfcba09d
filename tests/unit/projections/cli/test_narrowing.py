"""Options that narrow a list, names with two parts, what is meant without a name, imagining and waiting."""

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json

DEMO = "/v1/clusters/demo"


def test_a_list_is_narrowed_as_it_was_meant(cli: Cli, api: FakeApi) -> None:
    """A bare list of lost partitions, usable as input; words of the protocol in either case."""
    ended = cli("get", "partitions", "--state", "lost", "--group", "orders", "--node", "n2", "-o", "name")
    assert ended.code == 0, ended.err
    assert api.asked[-1].params == {"state": "LOST", "group": "orders", "node": "n2"}
    assert ended.out.splitlines() == ["partition/orders/17", "partition/orders/18"]
    assert cli("get", "exchanges", "--type", "join", "--state", "OPEN").code == 0
    assert api.asked[-1].params == {"type": "JOIN", "state": "OPEN"}
    assert cli("get", "leases", "--node", "n1").code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("get types --state LOST", "types have no --state."),
        ("get exchanges --group orders", "They have --state, --type."),
        ("get partition orders/17 --state LOST", "there is nothing to narrow"),
        ("get partition orders", "One looks like orders/17"),
        ("get partition orders/x", "is no partition"),
        ("get partition a/b/1", "is no partition"),
        ("get map orders", "One looks like orders/n1"),
        ("get map /n1", "is no map"),
        ("describe partitions", "Which partition?"),
        ("explain group orders --if dies", "--if is about nodes"),
        ("explain node n1 --if sleeps", "sleeps"),
        ("wait tree 47/0/2", "There is no resource 'tree' here"),
        ("wait exchange 4.0 --for Never", "Never"),
        ("wait exchange 4.0 --for Settled", "Wait for it with --for=Completed"),
        ("wait group orders --for Completed", "Wait for it with --for=Settled"),
        ("wait group", "Which group?"),
        ("get branch n9", "`topolog get branches` lists all"),
        ("describe audit 3", "No audit is asked for by its name"),
        ("watch topics --since 9c.4", "What becomes of topics is not kept."),
        ("diff topics --from 3", "`topolog watch topics` shows what there is."),
        ("wait exchange 4.0 --timeout soon", "--timeout 'soon' is no duration."),
    ],
)
def test_what_cannot_be_meant_is_a_sentence_and_asks_nothing(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    ended = cli(*command.split())
    assert ended.code == 2
    assert said in ended.err
    assert api.asked == []


def test_names_of_two_parts_are_addresses(cli: Cli, api: FakeApi) -> None:
    for command in ("get partition orders/17", "get partition/orders/17", "get pa orders/17"):
        assert cli(*command.split()).code == 0
        assert api.asked[-1].path == f"{DEMO}/partitions/orders/17"
    assert cli("get", "map/orders/n4").code == 0
    assert api.asked[-1].path == f"{DEMO}/maps/orders/n4"


def test_of_exchanges_the_newest_is_meant_without_a_name(cli: Cli, api: FakeApi) -> None:
    api.reply(f"{DEMO}/exchanges/newest", 200, ANSWERS[f"{DEMO}/exchanges/5.0"])
    assert cli("explain", "exchange").code == 0
    assert api.asked[-1].path == f"{DEMO}/exchanges/newest/explain"
    assert cli("wait", "exchange").code == 0
    assert api.asked[-1].path == f"{DEMO}/exchanges/newest"


def test_what_might_happen_is_asked_for_by_its_name(cli: Cli, api: FakeApi) -> None:
    assert cli("explain", "node", "n1", "--if", "removed").code == 0
    assert (api.asked[-1].path, api.asked[-1].params) == (f"{DEMO}/nodes/n1/forecast", {"event": "removed"})


def test_of_a_node_that_is_not_there_nothing_is_imagined(cli: Cli, api: FakeApi) -> None:
    """Exit code 1: it is not there. The list that is asked for a like name knows nothing of what was imagined."""

    def nodes(asked: Asked) -> tuple[int, Json]:
        assert asked.params.keys() <= {"limit"}, "the API refuses parameters that it does not know"
        return 200, ANSWERS[f"{DEMO}/nodes"]

    missing = {"status": 404, "code": "not_found", "detail": "There is no node 'n99'.", "hint": ""}
    api.reply(f"{DEMO}/nodes/n99/forecast", 404, missing)
    api.replies[f"{DEMO}/nodes"] = nodes
    ended = cli("explain", "node", "n99", "--if", "dies")
    assert (ended.code, ended.out) == (1, "")
    assert "There is no node 'n99'." in ended.err
    assert "`topolog get nodes` lists them." in ended.err or "Did you mean" in ended.err


def _open(item: Json) -> Json:
    return {"kind": "Exchange", "asOf": {"position": 1}, "item": item}


def test_waiting_ends_when_it_is_completed(cli: Cli, api: FakeApi) -> None:
    """An exchange that has not begun yet is waited for as well: a view is known before its exchange."""
    answers = [
        (404, {"status": 404, "code": "not_found", "detail": "There is no exchange about view 9.0."}),
        (200, _open({"version": "9.0", "state": "OPEN"})),
        (200, _open({"version": "9.0", "state": "COMPLETED"})),
    ]
    api.replies[f"{DEMO}/exchanges/9.0"] = lambda _: answers.pop(0)
    ended = cli("wait", "exchange/9.0", "--for=Completed", "--timeout", "30s", "-o", "name")
    assert (ended.code, ended.out) == (0, "exchange/9.0\n")
    assert answers == []


def test_waiting_in_vain_ends_with_its_own_code(cli: Cli, api: FakeApi) -> None:
    """Exit code 7, time ran out: who has been asked, and where to look."""

    def still_open(_: Asked) -> tuple[int, Json]:
        return 200, _open({"version": "9.0", "state": "OPEN", "awaited": ["n3"]})

    api.replies[f"{DEMO}/exchanges/9.0"] = still_open
    ended = cli("wait", "exchange", "9.0", "--timeout", "1ms")
    assert ended.code == 7
    assert "not all have answered: n3" in ended.err
    assert "topolog explain exchange 9.0" in ended.err
    newest = {"version": "9.0", "state": "OPEN", "awaited": ["n3", "n4"]}
    api.replies[f"{DEMO}/exchanges/newest"] = lambda _: (200, _open(newest))
    ended = cli("wait", "exchange", "--timeout", "1ms")
    assert "Exchange 9.0 was not completed (asked, not all have answered: n3, n4)" in ended.err
    assert "newest" not in ended.err
    del api.replies[f"{DEMO}/exchanges/9.0"]
    ended = cli("wait", "exchange", "9.0", "--timeout", "1ms")
    assert ended.code == 7
    assert "There was no exchange 9.0 within 1ms." in ended.err


def _lists(api: FakeApi, unsettled: dict[str, list[Json]]) -> None:
    """One partition in each of these states; "OPEN" is about exchanges."""

    def answer(asked: Asked) -> tuple[int, Json]:
        return 200, {"kind": "List", "asOf": {"position": 7}, "items": unsettled.get(asked.params["state"], [])}

    group = {"kind": "Group", "asOf": {"position": 7}, "item": {"name": "orders"}}
    api.reply(f"{DEMO}/groups/orders", 200, group)
    api.replies[f"{DEMO}/partitions"] = api.replies[f"{DEMO}/exchanges"] = answer


def test_a_group_is_waited_for_until_nothing_of_it_moves(cli: Cli, api: FakeApi) -> None:
    """No exchange is open and no partition is on its way; all that is asked about one position. What is lost stays."""
    _lists(api, {"LOST": [{"name": "orders/17"}]})
    ended = cli("wait", "group/orders", "--for=Settled", "-o", "name")
    assert (ended.code, ended.out) == (0, "group/orders\n")
    lists = [asked.params for asked in api.asked if "state" in asked.params]
    assert [params["state"] for params in lists] == ["OPEN", "PAUSED", "MOVING", "SWITCHING", "RENTING"]
    assert {params["as_of"] for params in lists} == {"7"}


@pytest.mark.parametrize("state", ["PAUSED", "MOVING", "SWITCHING", "RENTING"])
def test_a_group_that_does_not_come_to_rest_says_what_moves(state: str, cli: Cli, api: FakeApi) -> None:
    _lists(api, {state: [{"name": "orders/17"}]})
    ended = cli("wait", "group", "orders", "--timeout", "1ms")
    assert ended.code == 7
    assert f"Group orders did not settle: partition orders/17 is {state} within 1ms." in ended.err
    assert "topolog explain partition orders/17" in ended.err


def test_an_open_exchange_is_waited_for_with_the_group(cli: Cli, api: FakeApi) -> None:
    _lists(api, {"OPEN": [{"version": "9.0"}]})
    ended = cli("wait", "group", "orders", "--timeout", "1ms")
    assert ended.code == 7
    assert "Exchange 9.0 was not completed within 1ms." in ended.err


def test_a_group_that_is_not_there_is_not_waited_for(cli: Cli, api: FakeApi) -> None:
    """Unlike an exchange, nothing says that there will be one."""
    assert cli("wait", "group", "nothing").code == 1
    assert [asked.path for asked in api.asked].count(f"{DEMO}/groups/nothing") == 1
