"""`topolog watch` and -w: the contract of the API's watch, followed."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path

import pytest
import yaml
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json, check_golden

from topolog.events.errors import Gone
from topolog.projections.cli import client
from topolog.projections.cli.client import Api
from topolog.projections.cli.following import WatchEvent
from topolog.projections.cli.options import Format

NODES = "/v1/clusters/demo/nodes"
N1, N2 = ANSWERS[NODES]["items"]
EVENTS: list[Json] = [
    {"type": "ADDED", "name": "n1", "item": N1},
    {"type": "SYNCED", "token": "9c.412"},
    {"type": "ADDED", "token": "9c.420", "name": "n2", "item": N2},
    {"type": "BOOKMARK", "token": "9c.430"},
    {"type": "DELETED", "token": "9c.431", "name": "n1", "item": N1},
]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are made again without a pause."""
    monkeypatch.setattr(client, "PAUSES_S", (0.001, 0.001))


def in_order(*connections: list[Json]) -> Callable[[Asked], Iterable[Json]]:
    """What one connection after the other sends."""
    left = iter(connections)
    return lambda _: next(left)


def lines(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def test_events_are_printed_as_they_come(cli: Cli, api: FakeApi) -> None:
    api.streams[NODES] = in_order(EVENTS)
    ended = cli("watch", "nodes", "--limit", "3", "-o", "jsonl")
    assert ended.code == 0
    assert [{"token": "", **each} for each in EVENTS] == lines(ended.out)
    assert api.asked[-1].params == {"watch": "present"}, "with leases, as `get nodes` has them"


def test_a_broken_connection_is_resumed_by_token_and_said_on_stderr(cli: Cli, api: FakeApi) -> None:
    """No event is repeated, none is left out: the second connection is asked for what came behind the first."""
    api.streams[NODES] = in_order(EVENTS[:3], EVENTS[3:4], EVENTS[4:])
    ended = cli("watch", "nodes", "--limit", "3", "-o", "jsonl")
    assert [each["type"] for each in lines(ended.out)] == ["ADDED", "SYNCED", "ADDED", "BOOKMARK", "DELETED"]
    assert [asked.params.get("since") for asked in api.asked[-3:]] == [None, "9c.420", "9c.430"]
    assert ended.err.count("has ended the watch. Going on from 9c.") == 2


def test_an_overflow_is_a_break_and_gone_is_an_end(cli: Cli, api: FakeApi) -> None:
    """A reader that was too slow goes on; one whose token is too old cannot."""
    slow = {"type": "ERROR", "token": "9c.412", "code": "overflow", "detail": "This reader was too slow."}
    gone = {"type": "ERROR", "token": "", "code": "gone", "detail": "Position 5 is not kept.", "hint": "Begin anew."}
    api.streams[NODES] = in_order([*EVENTS[:2], slow], [gone])
    ended = cli("watch", "nodes", "-o", "jsonl")
    assert ended.code == 1
    assert "This reader was too slow. Going on from 9c.412" in ended.err
    assert "Error: Position 5 is not kept.\n Hint: Begin anew." in ended.err


@pytest.mark.parametrize("code", ["unauthenticated", "forbidden"])
def test_who_may_be_told_no_more_does_not_ask_again(cli: Cli, api: FakeApi, code: str) -> None:
    over = {"type": "ERROR", "token": "9c.412", "code": code, "detail": "Nobody's token is this one."}
    api.streams[NODES] = in_order([*EVENTS[:2], over])
    ended = cli("watch", "nodes", "-o", "jsonl")
    assert (ended.code, sum(asked.path == NODES for asked in api.asked)) == (3, 1)
    assert "Error: Nobody's token is this one." in ended.err


def test_an_api_that_was_never_reached_is_unreachable(cli: Cli, api: FakeApi) -> None:
    api.reply("/v1/clusters", 503, {"code": "unreachable", "detail": "The disk is away."})
    assert cli("watch", "nodes").code == 4
    api.replies.clear()
    api.reply(NODES, 410, {"code": "gone", "detail": "Not kept."})
    ended = cli("watch", "nodes", "--since", "9c.1")
    assert ended.code == 1
    assert "Not kept." in ended.err


@pytest.mark.parametrize("output", ["table", "wide", "json", "jsonl", "yaml", "name", "csv"])
def test_every_format_tells_every_change(output: str, cli: Cli, api: FakeApi) -> None:
    api.streams[NODES] = in_order(EVENTS)
    out = cli("watch", "nodes", "--limit", "3", "-o", output).out
    match output:
        case "csv":
            rows = list(csv.DictReader(StringIO(out)))
            assert [(row["type"], row["node"]) for row in rows] == [
                ("ADDED", "n1"),
                ("ADDED", "n2"),
                ("DELETED", "n1"),
            ]
        case "name":
            assert out.splitlines() == ["node/n1", "node/n2", "node/n1"]
        case "yaml":
            assert [each["type"] for each in yaml.safe_load_all(out)] == [each["type"] for each in EVENTS]
        case "table" | "wide":
            shown = [line.split()[:2] for line in out.splitlines()]
            assert shown == [["EVENT", "NODE"], ["ADDED", "n1"], ["ADDED", "n2"], ["DELETED", "n1"]]
        case _:
            assert out.count('"type": "ADDED"') == 2


def test_one_thing_is_watched_by_its_name(cli: Cli, api: FakeApi) -> None:
    api.streams[NODES] = in_order(EVENTS)
    out = cli("watch", "node/n2", "--limit", "1", "-o", "name").out
    assert out == "node/n2\n"


def test_w_of_get_is_jsonl_in_a_pipe_unless_something_else_is_chosen(cli: Cli, api: FakeApi) -> None:
    gone: Json = {"type": "ERROR", "code": "gone", "detail": "Over."}
    for output, first in (((), '{"type": "ADDED"'), (("-o", "name"), "node/n1")):
        api.streams[NODES] = in_order([*EVENTS, gone])
        assert cli("get", "nodes", "-w", *output).out.startswith(first)
    assert cli("get", "nodes", "-w", "--as-of", "3").code == 2


def test_w_of_get_draws_in_place_on_a_terminal(cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    api.streams[NODES] = in_order([*EVENTS, {"type": "ERROR", "code": "gone", "detail": "Over."}])
    out = cli("get", "nodes", "-w").out
    drawn = out.split("\x1b[J")
    assert len(drawn) == 3  # when all was there, and after each change
    assert "n1" in drawn[0]
    assert "n2" in drawn[1]
    assert "n1" not in drawn[2]
    assert "as of 9c.431" in drawn[2]


def test_exec_gets_each_event(cli: Cli, api: FakeApi, tmp_path: Path) -> None:
    script, told = tmp_path / "told.py", tmp_path / "told"
    script.write_text(
        "import json, os, sys\n"
        "event = json.load(sys.stdin)\n"
        f"open({str(told)!r}, 'a').write(os.environ['TOPOLOG_EVENT'] + ' ' + event['name'] + '\\n')\n"
        "sys.exit(event['type'] == 'DELETED')\n"
    )
    api.streams[NODES] = in_order(EVENTS)
    ended = cli("watch", "nodes", "--limit", "2", "--changes-only", "--exec", f"{sys.executable} {script}")
    assert told.read_text() == "ADDED n2\nDELETED n1\n"
    assert ended.code == 0
    assert "ended with 1 (DELETED n1)." in ended.err
    api.streams[NODES] = in_order(EVENTS)
    assert cli("watch", "nodes", "--exec", str(tmp_path / "missing")).code == 2
    assert cli("watch", "nodes", "--exec", "'").code == 2


def test_a_client_watches_for_as_long_as_it_is_asked(api: FakeApi) -> None:
    """The client as services use it: a generator, with what broke told to whoever wants to hear."""
    api.streams[NODES] = in_order(EVENTS[:2], EVENTS[2:3], [{"type": "ERROR", "code": "gone", "detail": "Over."}])
    heard: list[str] = []
    with Api(api.url) as asked:
        events = asked.watch(("nodes",), on_break=lambda error, _: heard.append(error.message))
        assert next(events) == WatchEvent("ADDED", "", "n1", N1)
        assert [next(events).type for _ in range(2)] == ["SYNCED", "ADDED"]
        with pytest.raises(Gone, match="Over"):
            next(events)
    assert len(heard) == 2


def test_ctrl_c_says_how_to_go_on(cli: Cli, api: FakeApi) -> None:
    def interrupted(_: Asked) -> Iterable[Json]:
        yield from EVENTS[:2]

    api.streams[NODES] = interrupted

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("topolog.projections.cli.client.time.sleep", interrupt)
        ended = cli("watch", "nodes", "-o", "name")
    assert ended.code == 130
    assert "`topolog watch nodes --since 9c.412` goes on from here." in ended.err


GOLDEN = Path(__file__).parent / "golden-watch"
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
WATCHES: dict[str, tuple[str, Callable[[], Callable[[Asked], Iterable[Json]]]]] = {
    "nodes": ("watch nodes --limit 3", lambda: in_order(EVENTS)),
    "node": ("watch node/n1 --limit 2", lambda: in_order(EVENTS)),
    "changes": ("watch nodes --changes-only --limit 2", lambda: in_order(EVENTS)),
    "broken": ("watch nodes --limit 3", lambda: in_order(EVENTS[:1], EVENTS[:3], EVENTS[3:])),
    "gone": ("watch nodes --since 9c.1", lambda: in_order([{"type": "ERROR", "code": "gone", "detail": "Not kept."}])),
    "get": ("get nodes -w", lambda: in_order([*EVENTS, {"type": "ERROR", "code": "gone", "detail": "Over."}])),
}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", WATCHES)
def test_a_watch_prints_what_its_golden_file_holds(name: str, output: str, cli: Cli, api: FakeApi) -> None:
    command, stream = WATCHES[name]
    api.streams[NODES] = stream()
    check_golden(GOLDEN / f"{name}.{output}.txt", cli(*command.split(), "-o", output).shown)


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {
        f"{name}.{output}.txt" for name in WATCHES for output in FORMATS
    }


@pytest.mark.parametrize("output", ["table", "csv"])
def test_what_happened_to_a_row_is_not_taken_for_a_column_of_it(output: str, cli: Cli, api: FakeApi) -> None:
    """A decision has an `event` of its own."""
    decided = {"type": "ADDED", "token": "9c.7", "name": "7", "item": {"position": 7, "event": "NodeLeft"}}
    api.streams["/v1/clusters/demo/decisions"] = in_order([decided])
    _, row = cli("watch", "decisions", "--limit", "1", "-o", output).out.splitlines()
    assert re.split(r"[ ,]+", row)[0] == "ADDED"
    assert "NodeLeft" in row


def test_what_is_shown_for_ever_takes_no_limit(cli: Cli) -> None:
    ended = cli("get", "nodes", "-w", "--limit", "3")
    assert ended.code == 2
    assert "`topolog watch nodes --limit 3` ends after as many events." in ended.err
