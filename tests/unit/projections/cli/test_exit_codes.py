"""The exit codes: one table for scripts, the same whichever command fails."""

import socket
import time
from pathlib import Path

import pytest
import typer
from tests.unit.projections.cli.conftest import ANSWERS, Cli, FakeApi

from topolog.events import errors
from topolog.projections.cli.app import run
from topolog.projections.cli.exit_codes import MEANINGS, ExitCode, exit_code

ROOT = Path(__file__).parents[4]
NODES = "/v1/clusters/demo/nodes"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.TopologError("x"), 1),
        (errors.NotFound("x"), 1),
        (errors.Gone("x"), 1),
        (errors.LocalBrokerError("x"), 1),
        (errors.MissingExtra("x"), 12),
        (errors.BadInput("x"), 2),
        (errors.NotAllowed("x"), 3),
        (errors.Unreachable("x"), 4),
        (errors.Refused("CODE", "", "x"), 5),
        (errors.MergeConflict("ME8", "x", {}), 5),
        (errors.Fenced("x", retry_after_ms=1), 6),
        (errors.OutcomeUnknown("x", request_id="r/1"), 7),
        (errors.NotCaughtUp("x"), 7),
        (errors.Overloaded("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: errors.TopologError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("status", "body", "code", "said"),
    [
        (
            400,
            {"detail": "Wrong.", "invalid_params": [{"name": "limit", "reason": "too large"}]},
            2,
            "limit: too large",
        ),
        (
            400,
            {
                "detail": "at_least: 'x' is no token.",
                "invalid_params": [{"name": "at_least", "reason": "'x' is no token."}],
            },
            2,
            "Error: --at-least: 'x' is no token.\n",
        ),
        (
            400,
            {"detail": "level: too high", "invalid_params": [{"name": "level", "reason": "too high"}]},
            2,
            "Error: level: too high.\n",
        ),
        (401, {"title": "Unauthorized"}, 3, "Unauthorized"),
        (403, {"detail": "You may not."}, 3, "You may not."),
        (404, {"detail": "No cluster."}, 1, "No cluster."),
        (409, {"detail": "No.", "code": "HELD", "rule": "LE2"}, 5, "No. [HELD, rule LE2]"),
        (410, {"detail": "Position 3 is no longer kept.", "hint": "The oldest is 40."}, 1, "The oldest is 40."),
        (500, {"detail": "It broke."}, 1, "It broke."),
        (500, "Internal Server Error", 1, "failed (500)"),
        (503, {"detail": "Behind.", "code": "not_caught_up"}, 7, "Try again"),
        (503, {"detail": "No broker.", "code": "unreachable"}, 4, "No broker."),
        (503, {"detail": "Too many.", "code": "overloaded"}, 1, "try again"),
        (503, {"detail": "No word of r/1.", "code": "outcome_unknown", "id": "r/1"}, 7, "topolog get request r/1"),
        (503, {"detail": "Fenced.", "code": "fenced", "retry_after_ms": 20}, 6, "Fenced."),
        (200, "<html>Welcome</html>", 4, "no topolog API"),
        (404, "<html>Not here</html>", 4, "no topolog API"),
    ],
)
def test_each_answer_of_the_api_has_its_exit_code(
    status: int, body: object, code: int, said: str, cli: Cli, api: FakeApi
) -> None:
    api.reply(NODES, status, body)
    ended = cli("get", "nodes")
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


@pytest.mark.parametrize("command", ["get nodes", "describe node n1", "remove node n1 --yes"])
def test_without_an_api_the_command_says_so_at_once(command: str, cli: Cli) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    start = time.monotonic()
    ended = cli(*command.split(), "--api", url)
    assert time.monotonic() - start < 2
    assert (ended.code, ended.out) == (4, "")
    assert f"No API answers at {url}." in ended.err
    assert "topolog up" in ended.err


@pytest.mark.parametrize("url", ["localhost:8642", "ftp://127.0.0.1", "http://[::"])
def test_an_address_that_is_none_is_a_usage_error(url: str, cli: Cli) -> None:
    assert cli("get", "nodes", "--api", url).code == 2


def test_a_request_that_was_cut_off_may_have_been_made(cli: Cli, api: FakeApi) -> None:
    """Unlike a read, whose connection can break without any doubt left."""

    def hang_up(_: object) -> tuple[int, object]:
        raise ConnectionAbortedError

    api.replies["/v1/clusters/demo/requests"] = hang_up
    api.replies[NODES] = hang_up
    ended = cli("remove", "node", "n1", "--yes")
    assert ended.code == 7
    assert "topolog get requests" in ended.err
    assert cli("get", "nodes").code == 4


@pytest.mark.parametrize("asking", ["propose --file {file}", "remove type Customer --yes"])
def test_a_request_keeps_the_id_it_is_given_so_that_a_repeat_makes_it_once(
    asking: str, cli: Cli, api: FakeApi, customer: Path
) -> None:
    """The header is what tells a repeat from a new request; without the option there is none."""
    api.decide("granted")
    command = asking.format(file=customer).split()
    assert cli(*command, "--request-id", "ada-42/1").code == 0
    assert cli(*command).code == 0
    assert [asked.request_id for asked in api.asked if asked.method == "POST"] == ["ada-42/1", None]


@pytest.mark.parametrize("given", ["ada", "ada/0", "ada/x", "/1", "ada/-1", "ad\u00e4/1"])
def test_what_is_no_request_id_is_wrong_usage_before_anything_is_sent(given: str, cli: Cli, api: FakeApi) -> None:
    ended = cli("remove", "type", "Customer", "--yes", "--request-id", given)
    assert ended.code == 2
    assert "is no request id" in ended.err
    assert not api.asked


def test_an_unknown_outcome_names_the_id_and_both_ways_on(cli: Cli, api: FakeApi) -> None:
    """Whether the API says so, or nobody does because the connection broke."""
    body = {"detail": "The broker did not confirm it.", "code": "outcome_unknown", "id": "ada-42/1"}
    api.reply("/v1/clusters/demo/requests", 503, body)
    said = cli("remove", "node", "n1", "--yes")

    def hang_up(_: object) -> tuple[int, object]:
        raise ConnectionAbortedError

    api.replies["/v1/clusters/demo/requests"] = hang_up
    cut_off = cli("remove", "node", "n1", "--yes", "--request-id", "ada-42/1")
    for ended in (said, cut_off):
        assert ended.code == 7
        assert "topolog get request ada-42/1" in ended.err
        assert "--request-id ada-42/1" in ended.err


@pytest.mark.parametrize("command", ["get", "describe", "history", "explain", "remove --yes"])
def test_an_empty_name_is_wrong_usage_before_anything_is_asked(command: str, cli: Cli, api: FakeApi) -> None:
    """Else the address would end in a slash, and whoever answers there would be said to be no API of ours."""
    ended = cli(*command.split(), "type", "")
    assert ended.code == 2
    assert "An empty name names no type. Hint: `topolog get types -o name` lists them." in " ".join(ended.err.split())
    assert not api.asked


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("describe decision abc", "'abc' is no position"),
        ("get decisions event=SnapshotTaken", "is no position"),
        ("explain node a/b", "'a/b' names no node: none has a '/'"),
        ("replay dead-letter 3/4", "names no dead-letter"),
        ("get request ada", "is no request id"),
    ],
)
def test_a_name_that_none_can_have_is_wrong_usage(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    ended = cli(*command.split())
    assert ended.code == 2
    assert said in ended.err
    assert not api.asked


@pytest.mark.parametrize("command", ["", "gte nodes", "get", "get nodes --foo", "get nodes -o xml", "get --limit 0"])
def test_wrong_usage_ends_with_2_and_no_data(command: str, cli: Cli) -> None:
    assert cli(*command.split()).code == 2


def test_a_mistyped_command_gets_a_proposal(cli: Cli) -> None:
    assert "Did you mean 'get'?" in cli("gte", "nodes").err


ALL = (
    "cluster (cl), nodes (no), leases (le), lease-health (lh), types (ty), groups (gr), partitions (pa), maps (ma), "
    "single-maps (sm), exchanges (ex), baselines (bl), views (vi), joins (jo), databases (db), tables (ta), "
    "table-views (tv), grants (gn), changes (ch), sessions (se), trees (tr), differences (di), repairs (rp), "
    "replicas (rl), schedules (sc), decisions (de), requests (re), dead-letters (dl)."
)
WITH_A_PAST = (
    "cluster (cl), nodes (no), types (ty), groups (gr), partitions (pa), exchanges (ex), baselines (bl), views (vi), "
    "databases (db), tables (ta), table-views (tv), grants (gn), changes (ch), sessions (se), replicas (rl), "
    "schedules (sc), requests (re)."
)


@pytest.mark.parametrize(
    ("command", "guess"),
    [
        ("get nods", "Did you mean nodes?"),
        ("get typ Customer", "Did you mean type?"),
        ("remove lease n1", "types (ty)"),
        ("explain pending join/n3", f"There are: {ALL}"),
        ("history lease n1", f"There are: {WITH_A_PAST}"),
        ("history decision/47", f"There are: {WITH_A_PAST}"),
    ],
)
def test_an_unknown_resource_gets_a_proposal(command: str, guess: str, cli: Cli) -> None:
    ended = cli(*command.split())
    assert ended.code == 2
    assert guess in ended.err


@pytest.mark.parametrize(
    ("command", "without"),
    [
        ("history", ("leases", "decisions")),
        ("explain", ("pending",)),
        ("remove", ("cluster (", "leases", "requests")),
    ],
)
def test_help_lists_only_the_resources_that_the_command_takes(command: str, without: tuple[str, ...], cli: Cli) -> None:
    out = cli(command, "--help").out
    assert "(no)" in out
    assert not [resource for resource in without if f"{resource} (" in out or resource in out.partition("One of:")[2]]


@pytest.mark.parametrize("command", ["get", "describe", "history", "explain"])
def test_an_unknown_name_gets_the_names_like_it(command: str, cli: Cli) -> None:
    ended = cli(command, "type", "customers")
    assert ended.code == 1
    assert "Did you mean Customer?" in ended.err


def test_a_request_id_has_two_parts(cli: Cli) -> None:
    ended = cli("get", "request", "17")
    assert ended.code == 2
    assert "no request id" in ended.err


def test_an_outcome_that_did_not_come_in_time_names_the_way_to_ask_again(
    cli: Cli, api: FakeApi, customer: Path
) -> None:
    api.decide("unknown", 202)
    ended = cli("propose", "--file", str(customer), "-o", "json")
    assert ended.code == 7
    assert "topolog get request cli-4f2a/6" in ended.err


def test_a_version_that_was_not_accepted_in_time_ends_with_7_only_for_who_waited(
    cli: Cli, api: FakeApi, customer: Path
) -> None:
    api.decide("pending")
    propose = ("propose", "--file", str(customer))
    assert cli(*propose).code == 0
    ended = cli(*propose, "--wait", "accepted")
    assert ended.code == 7
    assert "`topolog explain type Customer` says who was asked." in ended.err


def test_a_node_whose_removal_is_granted_is_said_to_be_still_there(cli: Cli, api: FakeApi) -> None:
    """Unless its being out was waited for: that ends with 7 and says so itself."""
    item = {**ANSWERS["pending"]["item"], "subject": "node n4"}
    api.reply("/v1/clusters/demo/requests", 200, {**ANSWERS["pending"], "item": item})
    note = "n4 is asked to stop; it is out when its lease is over at the latest (--wait accepted waits for that)\n"
    remove = ("remove", "node", "n4", "--yes")
    for output in ("table", "json"):
        ended = cli(*remove, "-o", output)
        assert ended.code == 0
        assert note.strip() in ended.err
    waited = cli(*remove, "--wait", "accepted")
    assert waited.code == 7
    assert "is asked to stop" not in waited.err
    assert "is asked to stop" not in cli("baseline", "drain", "n4").err
    api.decide("granted")
    assert "is asked to stop" not in cli("remove", "type", "Customer", "--yes").err


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("To wait for it, ask with at_least instead of as_of.", "ask with --at-least instead of --as-of."),
        ("Did you mean as_of?", "Did you mean as_of?"),
    ],
)
def test_a_hint_names_the_options_of_the_command_line(hint: str, shown: str, cli: Cli, api: FakeApi) -> None:
    """The API's names of parameters are of no use here; a type's name is left as it is."""
    api.reply(NODES, 404, {"detail": "Not here.", "hint": hint})
    assert shown in cli("get", "nodes", "--as-of", "999").err


def test_who_does_not_wait_is_not_told_that_time_ran_out(cli: Cli, api: FakeApi, customer: Path) -> None:
    api.decide("unknown", 202)
    ended = cli("propose", "--file", str(customer), "--wait", "none")
    assert ended.code == 0
    assert "cli-4f2a/6" in ended.out


def test_a_conflict_shows_both_sides_the_rule_and_what_to_do(cli: Cli, api: FakeApi, customer: Path) -> None:
    api.decide("conflict", 409)
    ended = cli("propose", "--file", str(customer))
    assert (ended.code, ended.out) == (5, "")
    lines = [line.split() for line in ended.err.splitlines()]
    assert ["name", "String", "int", "contradicts"] in lines
    assert ["id", "long", "long"] in lines
    assert ["age", "-", "int", "new"] in lines
    assert "rule ME8" in ended.err
    assert "topolog describe type Customer" in ended.err


def test_an_ordinal_with_two_names_is_marked(cli: Cli, api: FakeApi, customer: Path) -> None:
    """ME7: the contradiction is between two constants, so it stands beside neither name's own ordinal."""
    sides = {
        "current": {"name": "Colour", "is_enum": True, "enum": {"RED": 0}},
        "proposed": {"name": "Colour", "is_enum": True, "enum": {"BLUE": 0}},
    }
    api.reply("/v1/clusters/demo/requests", 409, {**ANSWERS["conflict"], "rule": "ME7", **sides})
    err = cli("propose", "--file", str(customer)).err
    assert ["BLUE", "RED", "=", "0", "0", "contradicts"] in [line.split() for line in err.splitlines()]


def test_ctrl_c_ends_with_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("topolog.projections.cli.client.Api.get_rows", interrupt)
    assert cli("get", "nodes").code == 130


def test_ctrl_c_at_a_question_ends_with_130(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise typer.Abort

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", interrupt)
    assert cli("remove", "node", "n1").code == 130
    assert not [asked for asked in api.asked if asked.method == "POST"]


def test_every_exit_code_is_explained(cli: Cli) -> None:
    assert set(MEANINGS) == set(ExitCode)
    shown = cli("help", "exit-codes").out
    assert all(f"{int(code)}  {MEANINGS[code]}" in shown for code in ExitCode)


def test_an_error_of_a_command_that_was_added_ends_like_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """The composition root's own commands raise the same tree."""
    app = typer.Typer()
    app.callback()(lambda: None)

    @app.command()
    def broker() -> None:
        raise errors.LocalBrokerError("Port 9092 is in use.", hint="Stop what uses it.")

    assert run(lambda: typer.main.get_command(app), ["broker"]) == 1
    assert capsys.readouterr().err == "Error: Port 9092 is in use.\n Hint: Stop what uses it.\n"


def test_a_trace_is_shown_only_when_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in cli("get", "nods").err
    monkeypatch.setenv("TOPOLOG_DEBUG", "1")
    ended = cli("get", "nods")
    assert ended.code == 2
    assert "Traceback" in ended.err


def test_an_exit_of_a_command_keeps_its_code() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)

    @app.command()
    def leave() -> None:
        raise typer.Exit(8)

    assert run(lambda: typer.main.get_command(app), ["leave"]) == 8


def test_the_documented_exit_codes_are_these() -> None:
    rows = [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    section = (ROOT / "docs/cli.md").read_text().partition("## Exit codes\n")[2].partition("\n## ")[0]
    assert [line for line in section.splitlines() if line.startswith("| ")][1:] == rows
