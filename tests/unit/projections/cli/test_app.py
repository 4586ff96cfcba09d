"""The app as a program: its commands, its options, its pipes."""

import gc
import inspect
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi

from topolog.commands.tree import root
from topolog.events.errors import BadInput
from topolog.projections import baseline_resources, partition_resources, resources, topic_resources
from topolog.projections.cli import moments

NODES = "/v1/clusters/demo/nodes"


def commands(group: Any) -> Iterator[Any]:
    for command in getattr(group, "commands", {}).values():
        yield command
        yield from commands(command)


def test_no_command_is_a_coroutine() -> None:
    """Typer runs no `async def` command and still exits 0, so that nothing would happen and all would look well."""
    found = list(commands(root()))
    assert len(found) > 50
    assert not [c.name for c in found if inspect.iscoroutinefunction(inspect.unwrap(c.callback))]


@pytest.mark.parametrize(
    "command",
    ["get", "describe", "history", "explain", "watch", "diff", "wait", "propose", "remove", "create", "raise-level"],
)
def test_every_command_takes_the_shared_options_and_explains_them(command: str, cli: Cli) -> None:
    ended = cli(command, "--help")
    assert ended.code == 0
    assert all(option in ended.out for option in ("--api", "--cluster", "--output", "--no-color"))
    assert cli("help", command).out == ended.out


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("nodes", resources.Node),
        ("leases", resources.Lease),
        ("lease-health", resources.LeaseHealth),
        ("types", resources.Type),
        ("groups", resources.Group),
        ("partitions", partition_resources.Partition),
        ("maps", partition_resources.NodeMap),
        ("exchanges", partition_resources.Exchange),
        ("baselines", baseline_resources.Baseline),
        ("views", baseline_resources.View),
        ("decisions", resources.Decision),
        ("requests", resources.Request),
        ("topics", topic_resources.ClusterTopic),
        ("branches", baseline_resources.Branch),
        ("types/Customer/history", resources.Change),
    ],
)
def test_the_answers_of_the_tests_are_those_of_the_api(kind: str, item: Any) -> None:
    """So that a field renamed over there shows up here, and not as an empty column."""
    for given in ANSWERS[f"/v1/clusters/demo/{kind}"]["items"]:
        msgspec.convert(given, item)
    msgspec.convert(ANSWERS["/v1/clusters/demo/cluster"]["item"], resources.Cluster)
    for path, whole in {
        "maps/orders/n4": partition_resources.NodeMapDetail,
        "exchanges/5.0": partition_resources.ExchangeDetail,
        "nodes/n1/forecast": partition_resources.Forecast,
    }.items():
        msgspec.convert(ANSWERS[f"/v1/clusters/demo/{path}"]["item"], whole)
    msgspec.convert(ANSWERS["/v1/clusters/demo/types/Customer/explain"]["item"], resources.Explanation)
    msgspec.convert(ANSWERS["imagined"]["item"], baseline_resources.DryRun)
    msgspec.convert(ANSWERS["/v1/clusters/demo/nodes/n3/join"]["item"], baseline_resources.Join)


def test_the_only_cluster_is_taken_and_of_several_one_must_be_named(cli: Cli, api: FakeApi) -> None:
    assert cli("get", "nodes").code == 0
    api.reply("/v1/clusters", 200, {"kind": "ClusterList", "items": [{"name": "east"}, {"name": "demo"}]})
    ended = cli("get", "nodes")
    assert ended.code == 2
    assert "east, demo" in ended.err
    assert "--cluster" in ended.err
    assert cli("get", "nodes", "--cluster", "demo").code == 0
    api.reply("/v1/clusters", 200, {"kind": "ClusterList", "items": []})
    assert cli("get", "nodes").code == 1


def test_flag_beats_environment_beats_default(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOG_CLUSTER__NAME", "other")
    monkeypatch.setenv("TOPOLOG_API__URL", "http://127.0.0.1:1")
    assert "127.0.0.1:1" in cli("get", "nodes").err
    cli("get", "nodes", "--api", api.url)
    cli("get", "nodes", "--api", api.url, "--cluster", "demo")
    assert [asked.path for asked in api.asked] == ["/v1/clusters/other/nodes", NODES]


def paged(asked: Asked) -> tuple[int, object]:
    """Five nodes, at most two a page, as an API with small pages gives them."""
    start, size = int(asked.params.get("cursor", 0)), min(2, int(asked.params.get("limit", 2)))
    items = [{"node": f"n{number}"} for number in range(start, min(5, start + size))]
    following = str(start + size) if start + size < 5 else None
    return 200, {"kind": "NodeList", "asOf": {"position": 9}, "items": items, "next": following}


@pytest.mark.parametrize(("option", "rows"), [("", 2), ("--all", 5), ("--limit 1", 1), ("--limit 3", 3)])
def test_pages_are_read_as_far_as_asked(option: str, rows: int, cli: Cli, api: FakeApi) -> None:
    api.replies[NODES] = paged
    ended = cli("get", "nodes", "-o", "name", *option.split())
    assert len(ended.out.splitlines()) == rows
    assert ("there are more" in ended.err) == (rows < 5)


def test_the_past_is_asked_for_as_the_api_wants_it(cli: Cli, api: FakeApi) -> None:
    cli("get", "nodes", "--as-of", "381")
    cli("get", "nodes", "--as-of", "2026-11-21T03:00:00+01:00", "--at-least", "412.9c")
    assert [asked.params for asked in api.asked if asked.path == NODES] == [
        {"as_of": "381"},
        {"as_of": "2026-11-21T02:00:00.000Z", "at_least": "412.9c", "wait": "10s"},
    ]


def test_describe_shows_the_history_of_the_position_it_read(cli: Cli, api: FakeApi) -> None:
    cli("describe", "node", "n1")
    assert api.asked[-1].path == f"{NODES}/n1/history"
    assert api.asked[-1].params["as_of"] == "412"


def test_a_duration_is_that_long_ago() -> None:
    now = datetime(2026, 11, 21, 2, 15, tzinfo=UTC)
    assert moments.moment("15m", now) == "2026-11-21T02:00:00.000Z"
    with pytest.raises(BadInput, match="is no position, time, duration, view or exchange"):
        moments.moment("yesterday", now)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(-5, "0 ms"), (350, "350 ms"), (1_000, "1 s"), (119_999, "1 min"), (10_800_000, "3 h"), (172_800_000, "2 d")],
)
def test_an_age_is_shown_in_its_largest_unit(milliseconds: int, shown: str) -> None:
    assert moments.age(milliseconds) == shown


def test_a_proposal_is_sent_as_it_was_meant(cli: Cli, api: FakeApi, customer: Path) -> None:
    api.decide("granted")
    options = ("--wait", "accepted", "--timeout", "3s", "--reason", "first", "--based-on", "2")
    assert cli("propose", "--file", str(customer), *options).code == 0
    asked = api.asked[-1]
    assert asked.params == {"wait": "accepted", "timeout": "3s"}
    assert asked.body is not None
    assert (asked.body["kind"], asked.body["based_on"], asked.body["reason"]) == ("propose", 2, "first")
    assert asked.body["definition"]["fields"] == {"id": "long", "name": "String"}


def test_a_removal_needs_the_name(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.decide("granted")
    ended = cli("remove", "node", "n1")
    assert ended.code == 2
    assert "--yes" in ended.err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for typed in ("y", "n2", ""):
        monkeypatch.setattr("typer.prompt", lambda *_, typed=typed, **__: typed)
        assert cli("remove", "node", "n1").code == 1
    assert not [asked for asked in api.asked if asked.method == "POST"]
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "n1")
    assert cli("remove", "node", "n1").code == 0
    assert cli("remove", "node/n1", "--yes", "--reason", "disk").code == 0
    assert api.asked[-1].body == {"kind": "remove", "resource": "node", "name": "n1", "reason": "disk"}


def test_colours_are_for_terminals_and_can_be_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in cli("get", "nodes").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[32m" in cli("get", "nodes").out
    assert "\x1b[32m" not in cli("get", "nodes", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in cli("get", "nodes").out


@pytest.mark.parametrize("output", ["table", "json", "name"])
def test_a_reader_that_stops_reading_ends_the_command_quietly(
    output: str, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without -u: an unbuffered interpreter takes a write that was cut short for a whole one."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    many = [{"node": f"a-node-with-a-long-name-{number}"} for number in range(6_000)]
    api.reply(NODES, 200, {"kind": "NodeList", "asOf": {"position": 9}, "items": many})
    arguments = [sys.executable, "-m", "topolog", "get", "nodes", "-o", output, "--api", api.url]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("args", ["explain exit-codes", "explain --exit-codes"])
def test_a_command_collects_its_garbage(args: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it loads, it does not (`__main__`); whichever way its words are read, it does when it runs."""
    done: list[str] = []
    monkeypatch.setattr(gc, "isenabled", lambda: False)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("what is loaded is kept"))
    monkeypatch.setattr(gc, "enable", lambda: done.append("what comes is collected"))
    cli(args)
    assert done == ["what is loaded is kept", "what comes is collected"]


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out.startswith("topolog ")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("get nodes -o xml", "--output 'xml' is none of table, wide, json, jsonl, yaml, name, csv, schema."),
        ("get nodes --limit -1", "--limit -1 is less than 1."),
        ("get nodes --limit x", "--limit 'x' is no whole number."),
        ("get nodes --limit 1.5", "--limit '1.5' is no whole number."),
        ("spark archive --to x --metrics-port 70000", "--metrics-port 70000 is more than 65535."),
        ("explain node n1 --if x", "--if 'x' is none of dies, removed."),
    ],
)
def test_what_is_wrong_with_a_value_is_said_in_our_words(args: str, said: str, cli: Cli) -> None:
    """Not in those of the library that checks it."""
    ended = cli(*args.split())
    assert ended.code == 2
    assert ended.err.startswith(f"Error: {said}\n")


def test_of_an_option_that_is_given_twice_the_last_counts(cli: Cli) -> None:
    assert cli("get", "nodes", "-o", "json", "-o", "name").out == cli("get", "nodes", "-o", "name").out
