"""What strangers have written, in every output: one name is one line, no cell is a formula, nothing drives a terminal.

Names like these are refused at the rule where a thing gets its name; what an older log holds is shown all the same.
"""

import csv
import json
import unicodedata
from io import StringIO

import pytest
import yaml
from tests.unit.projections.cli.conftest import ANSWERS, Cli, FakeApi

from topolog.projections.cli.documents import as_json, as_yaml
from topolog.projections.spreadsheets import cell

NODES = "/v1/clusters/demo/nodes"
HOSTILE = "a\nnode/n2\x1b]0;owned\x07\x9b2J\u202egpj.exe"
FORMULA = "=cmd|'/c calc'!A1"
OUTPUTS = ("table", "wide", "json", "jsonl", "yaml", "name", "csv")


def with_node(api: FakeApi, name: str) -> None:
    """One node is there, of whoever asks and of whoever watches."""
    item = {**ANSWERS[NODES]["items"][0], "node": name, "endpoint": name, "attributes": {"rack": name}}
    api.reply(NODES, 200, {**ANSWERS[NODES], "items": [item]})
    api.streams[NODES] = lambda _: [{"type": "ADDED", "token": "9c.7", "name": name, "item": item}]


def unseen(text: str) -> list[str]:
    return [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")]


@pytest.mark.parametrize("output", OUTPUTS)
def test_nothing_that_a_stranger_wrote_drives_a_terminal(
    output: str, cli: Cli, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OP14: `-o name` printed it raw, JSON and YAML let C1 codes and marks of direction through."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    with_node(api, HOSTILE)
    ended = cli("get", "nodes", "-o", output)
    assert (ended.code, unseen(ended.out)) == (0, [])
    assert "gpj.exe" in ended.out


def test_one_name_is_one_line(cli: Cli, api: FakeApi) -> None:
    """`topolog get nodes -o name | xargs -n1 topolog remove` removed n2, which never was in that list."""
    with_node(api, HOSTILE)
    out = cli("get", "nodes", "-o", "name").out
    assert out == "node/a\\nnode/n2\\x1b]0;owned\\x07\\x9b2J\\u202egpj.exe\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_program_gets_what_the_api_has_said_whole(output: str, cli: Cli, api: FakeApi) -> None:
    with_node(api, HOSTILE)
    out = cli("get", "nodes", "-o", output).out
    assert "\u202e" in out
    found = json.loads(out) if output == "json" else yaml.safe_load(out)
    assert found["items"][0]["node"] == HOSTILE


@pytest.mark.parametrize("text", [HOSTILE, "é 节点 🙂", "\U000e0041", "\ud800", "\u2028", '"\\\x7f'])
def test_what_is_spelt_out_is_read_back_as_the_same(text: str) -> None:
    document = {text: [text, {"a": text}]}
    shown = as_json(document, indent=2, is_seen=True)
    assert (json.loads(shown), unseen(shown)) == (document, [])
    if text.isprintable():
        assert text in as_yaml(document, is_seen=True)
    elif text != "\ud800":  # which no YAML can hold
        shown = as_yaml(document, is_seen=True)
        assert (yaml.safe_load(shown), unseen(shown)) == (document, [])


@pytest.mark.parametrize("command", ["get nodes", "watch nodes --limit 1"])
@pytest.mark.parametrize("name", [FORMULA, "+1+cmd", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_of_a_csv_is_a_formula(name: str, command: str, cli: Cli, api: FakeApi) -> None:
    """OP14: a spreadsheet runs it with whoever looks at the list."""
    with_node(api, name)
    (row,) = csv.DictReader(StringIO(cli(*command.split(), "-o", "csv").out))
    assert not [held for held in row.values() if held.startswith(("=", "+", "@", "\t", "\r"))]
    assert row["node"] == ("'" + name if name[0] in "=+-@" else name.replace("\t", "\\t").replace("\r", "\\r"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-3, -3),
        (-0.5, -0.5),
        (True, True),
        (None, None),
        ("-3", "-3"),
        ("+3.5", "+3.5"),
        ("-1e-9", "-1e-9"),
        ("-", "-"),
        ("", ""),
        ("n-1=2", "n-1=2"),
        ("-3 ms", "'-3 ms"),
        ("-1+1", "'-1+1"),
        ("-٣", "'-٣"),
        ("\t1", "'\t1"),
        ("\r1", "'\r1"),
        ("@x", "'@x"),
        (FORMULA, f"'{FORMULA}"),
    ],
)
def test_numbers_stay_numbers_and_texts_are_texts(value: object, shown: object) -> None:
    assert cell(value) == shown
