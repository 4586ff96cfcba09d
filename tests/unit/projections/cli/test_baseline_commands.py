"""`cluster …`, `baseline …`, `explain join`: what is typed becomes the request that was meant, or nothing is sent."""

from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json
from tests.unit.projections.cli.test_sharing import sent

from topolog.events import past_file
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.views import Echo, Past, Point

BRANCHES = "/v1/clusters/demo/branches"
JOIN = "/v1/clusters/demo/nodes/n3/join"


@pytest.fixture(autouse=True)
def _granting(api: FakeApi) -> None:
    api.decide("activated")


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """The data folder of n3."""
    at = Point(Position(330), bytes([7] * 16))
    content = Past(bytes(16), NodeId("n3"), (at,), Echo(Incarnation(7), 3, at), 64)
    (tmp_path / "topolog-past.json").write_bytes(past_file.encode(content))
    return tmp_path


def baseline(verb: str, *nodes: str, **more: object) -> Json:
    return {"kind": "baseline", "verb": verb, "nodes": list(nodes), **more}


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("cluster activate", {"kind": "cluster-state", "state": "ACTIVE"}),
        ("cluster read-only", {"kind": "cluster-state", "state": "ACTIVE_READ_ONLY"}),
        ("cluster deactivate --yes", {"kind": "cluster-state", "state": "INACTIVE"}),
        ("cluster lease-terms --fence 10s", {"kind": "lease-terms", "fence_ms": 10_000}),
        ("cluster lease-terms --margin 1.5s", {"kind": "lease-terms", "margin_ms": 1_500}),
        (
            "cluster lease-terms --fence 1m --margin 5s",
            {"kind": "lease-terms", "fence_ms": 60_000, "margin_ms": 5_000},
        ),
        ("baseline set n1 n2", baseline("SET", "n1", "n2")),
        ("baseline set --version 5.0", baseline("SET", version="5.0")),
        ("baseline set n1 --accept-loss --yes", baseline("SET", "n1", accept_loss=True)),
        ("baseline add n3 n4", baseline("ADD", "n3", "n4")),
        ("baseline remove n2 -y", baseline("REMOVE", "n2")),
        ("baseline drain n2", {"kind": "drain", "node": "n2", "cancel": False}),
        ("baseline drain n2 --cancel", {"kind": "drain", "node": "n2", "cancel": True}),
        ("baseline auto-adjust --on", {"kind": "auto-adjust", "enabled": True}),
        (
            "baseline auto-adjust --off --soft 5m --hard 30m",
            {"kind": "auto-adjust", "enabled": False, "soft_ms": 300_000, "hard_ms": 1_800_000},
        ),
        ("baseline hold --on", {"kind": "hold", "on": True}),
        ("baseline hold --off", {"kind": "hold", "on": False}),
        ("baseline warm --yes", {"kind": "warm"}),
    ],
)
def test_a_request_is_sent_as_it_was_meant(command: str, body: Json, cli: Cli, api: FakeApi) -> None:
    """What is not said is not sent, and stays as it is."""
    ended = cli(*command.split(), "--reason", "shop")
    assert ended.code == 0, ended.err
    assert sent(api) == [{**body, "reason": "shop"}]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("baseline set", "Name the nodes that are to count, or a view with --version."),
        ("baseline set n1 --version 5.0", "Name the nodes that are to count, or a view with --version."),
        ("baseline add", "Which nodes?"),
        ("baseline remove --yes", "Which nodes?"),
        ("baseline drain", "Missing argument"),
        ("baseline auto-adjust", "Nothing is to be changed of auto-adjust."),
        ("baseline auto-adjust --soft 5", "--soft '5' is no duration."),
        ("cluster lease-terms", "No terms are to be changed."),
        ("cluster lease-terms --fence 5", "--fence '5' is no duration."),
        ("baseline hold", "Shall the cluster be held, or let go?"),
        ("baseline remove n2", "--yes asks no question."),
        ("baseline set n1 --accept-loss", "--yes asks no question."),
        ("baseline warm", "--yes asks no question."),
        ("cluster deactivate", "--yes asks no question."),
        ("cluster activate --request-id ada", "no request id"),
        ("baseline grow n1", "No such command 'grow'"),
        ("explain node n1 --past x.json", "--past is about joins, not about nodes."),
        ("explain join", "Which join?"),
        ("explain join n3 --past /nowhere/at/all", "Cannot read /nowhere/at/all"),
        ("get joins", "There is no resource 'joins' here."),
    ],
)
def test_a_slip_is_named_and_nothing_is_sent(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    """Exit code 2: usage; and where nobody can be asked, nothing is done."""
    ended = cli(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert sent(api) == []


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("cluster deactivate", "Deactivate the cluster? Nothing is read or written until it is activated again."),
        ("baseline warm", "Go on without the members that are away?"),
        ("baseline remove n{2}", "Remove n{2} from the baseline?"),
        ("baseline set n1 --accept-loss", "Change the baseline though the last copies of partitions may go?"),
    ],
)
def test_what_cannot_be_taken_back_is_asked_about(
    command: str, question: str, cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is text of somebody's, not a pattern; a dry run asks nothing."""
    asked: list[str] = []

    def confirm(question: str, err: bool) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", confirm)
    assert cli(*command.split()).code == 1
    assert sent(api) == []
    assert cli(*command.split()).code == 0
    assert asked[0].startswith(question)
    assert asked[0].endswith("(cluster demo)")
    api.decide("imagined")
    assert cli(*command.split(), "--dry-run").code == 0
    assert len(asked) == 2


@pytest.mark.parametrize(
    "command",
    [
        "baseline remove n2",
        "remove node n1",
        "drop group orders",
        "create group orders",
        "start-exchange",
        "raise-level 2",
    ],
)
def test_a_dry_run_is_no_request(command: str, cli: Cli, api: FakeApi) -> None:
    """Every command that asks for a change can be imagined: the API is told so, and says what would be decided."""
    api.decide("imagined")
    ended = cli(*command.split(), "--dry-run")
    assert ended.code == 0, ended.err
    assert "Nothing was sent." in ended.out
    assert [asked.params for asked in api.asked if asked.method == "POST"] == [{"dry_run": "true"}]


def test_what_would_be_refused_ends_as_the_refusal(cli: Cli, api: FakeApi) -> None:
    """Exit code 5, with the command that would be right."""
    api.decide("member-online", 409)
    ended = cli("baseline", "remove", "n1", "--dry-run")
    assert ended.code == 5
    assert "[MEMBER_ONLINE, rule BA13]" in ended.err
    assert "topolog baseline drain n1" in ended.err


def test_a_change_that_not_all_have_applied_says_where_to_look(cli: Cli, api: FakeApi) -> None:
    ended = cli("cluster", "activate", "--wait", "accepted")
    assert ended.code == 7
    assert "`topolog explain cluster` says who was asked." in ended.err


def _judge(api: FakeApi, **changed: object) -> None:
    api.reply(JOIN, 200, {**ANSWERS[JOIN], "item": {**ANSWERS[JOIN]["item"], **changed}})


def test_a_join_is_explained_and_scripts_see_the_answer(cli: Cli, api: FakeApi, past: Path) -> None:
    """Exit code 8 for a node that would be refused; the file or its folder is sent as it is."""
    _judge(api)
    ended = cli("explain", "join", "n3", "--past", str(past))
    assert ended.code == 8
    assert "FORKED: Node n3 has written in another history of this log." in ended.out
    assert "the last common one" in ended.out
    posted = api.asked[-1]
    assert (posted.method, posted.path) == ("POST", JOIN)
    assert posted.body is not None
    assert posted.body["node"] == "n3"
    _judge(api, is_admitted=True, kinship="WIPED")
    assert cli("explain", "join", "n3", "-o", "name").out == "join/n3\n"
    assert api.asked[-1].method == "GET"


def test_what_is_no_past_is_named_and_nothing_is_asked(cli: Cli, api: FakeApi, past: Path) -> None:
    file = past / "topolog-past.json"
    file.write_bytes(file.read_bytes().replace(b"330", b"331"))
    ended = cli("explain", "join", "n3", "--past", str(file))
    assert ended.code == 2
    assert "topolog-past.json is no past of a node: its checksum is wrong." in ended.err
    assert not api.asked


def test_the_graph_shows_the_branch_of_a_node(cli: Cli, api: FakeApi, past: Path) -> None:
    """With --past that of the node with this folder too, beside those of nodes that were refused."""
    plain = cli("baseline", "graph")
    assert plain.code == 0, plain.err
    first, second = plain.out.splitlines()[:2]
    assert first.startswith("  ○  470  090909090909  n9 has written here, and at 2 more views since")
    assert second.startswith("◉ │  260  6a1b2c3d4e5f  baseline 1 activated, 1 of 2 online: n1")
    _judge(api)
    drawn = cli("baseline", "graph", "--past", str(past)).out
    assert drawn.startswith("FORKED: Node n3 has written in another history of this log.")
    assert "the last place that n3 has too" in drawn
    assert cli("baseline", "graph", "-o", "name").out == "baseline/1\nbaseline/0\n"


def test_the_graph_of_nothing_says_so(cli: Cli, api: FakeApi) -> None:
    def nothing(_: Asked) -> tuple[int, Json]:
        return 200, {"kind": "List", "asOf": {"position": 1}, "items": []}

    api.replies["/v1/clusters/demo/baselines"] = api.replies[BRANCHES] = nothing
    assert cli("baseline", "graph").out == "There is no baseline yet: every server counts.\n"
