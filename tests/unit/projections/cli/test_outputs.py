"""Every command in every output format, against golden files: what scripts read must not change unnoticed."""

import csv
import json
import re
from io import StringIO
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml
from rich.console import Console
from tests.unit.projections.cli.conftest import ANSWERS, Cli, Ended, FakeApi, check_golden

from topolog.projections.cli.columns import BY_RESOURCE
from topolog.projections.cli.log_columns import HISTORY
from topolog.projections.cli.options import Format
from topolog.projections.cli.resources import RESOURCES, find
from topolog.projections.cli.rows import Rows
from topolog.projections.cli.terminal import plain

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_NAMES = Path(__file__).parent / "golden-names.txt"
READS = {
    "status": "status",
    "get-cluster": "get cluster",
    "get-nodes": "get nodes",
    "get-leases": "get leases",
    "get-lease-health": "get lease-health",
    "get-types": "get types",
    "get-groups": "get groups",
    "get-partitions": "get partitions",
    "get-maps": "get maps",
    "get-single-maps": "get single-maps",
    "get-exchanges": "get exchanges",
    "get-baselines": "get baselines",
    "get-views": "get views",
    "get-decisions": "get decisions",
    "get-requests": "get requests",
    "get-request": "get request cli-4f2a/3",
    "get-dead-letters": "get dead-letters",
    "get-audit": "get audit --filter who=ann",
    "get-topics": "get topics",
    "describe-topic": "describe topic decisions",
    "get-branches": "get branches",
    "get-databases": "get databases",
    "get-tables": "get tables",
    "get-table-views": "get tv",
    "get-grants": "get grants",
    "get-changes": "get changes",
    "describe-table": "describe table shop.orders",
    "describe-change": "describe change 47",
    "history-table": "history ta/shop.orders",
    "explain-table": "explain table shop.orders",
    "explain-change": "explain change/47",
    "describe-dead-letter": "describe dl 3",
    "replay-dead-letter": "replay dead-letter 3 --reason upgraded",
    "describe-cluster": "describe cluster",
    "describe-node": "describe node n1",
    "describe-lease": "describe lease n1",
    "describe-lease-health": "describe lh n1",
    "describe-type": "describe type Customer",
    "describe-group": "describe group orders",
    "describe-partition": "describe partition orders/17",
    "describe-map": "describe map orders/n4",
    "describe-single-map": "describe sm n4",
    "describe-exchange": "describe exchange 5.0",
    "describe-baseline": "describe baseline",
    "describe-view": "describe vi 4.1",
    "describe-decision": "describe decision 399",
    "describe-request": "describe request cli-4f2a/3",
    "history-node": "history node n1",
    "history-type": "history type Customer",
    "history-group": "history group orders",
    "history-partition": "history partition orders/17",
    "history-baseline": "history bl",
    "history-view": "history view 4.1",
    "explain-node": "explain node n1",
    "explain-type": "explain type Customer",
    "explain-group": "explain gr/orders",
    "explain-join": "explain join n3",
    "get-pending": "get pending",
    "explain-decision": "explain decision 399",
    "baseline-graph": "baseline graph",
    "explain-partition": "explain pa/orders/17",
    "explain-exchange": "explain exchange",
    "explain-node-if": "explain node n1 --if dies",
    "wait-exchange": "wait exchange/5.0 --for completed",
    "wait-change": "wait change/44",
    "get-sessions": "get sessions",
    "get-trees": "get trees --session 47",
    "get-differences": "get differences --session 47",
    "get-repairs": "get repairs",
    "get-replicas": "get replicas --table orders",
    "get-schedules": "repair schedule list",
    "describe-session": "describe session 47",
    "explain-session": "explain se/47",
    "history-session": "history session 47",
    "wait-session": "wait session/44",
    "repair-plan": "repair plan session/44",
}
ASKS = {
    "propose-granted": ("propose", "granted", 200),
    "propose-undecided": ("propose", "unknown", 202),
    "propose-conflict": ("propose", "conflict", 409),
    "remove-granted": ("remove type Customer --yes", "granted", 200),
    "create-granted": ("create group orders --partitions 64", "group-created", 200),
    "create-refused": ("create group orders --partitions 128", "group-exists", 409),
    "activate-granted": ("cluster activate", "activated", 200),
    "baseline-imagined": ("baseline remove n2 --accept-loss --dry-run", "imagined", 200),
    "drop-granted": ("drop table shop.orders --yes --wait decided", "change-begun", 200),
    "drop-imagined": ("drop database shop --dry-run", "change-imagined", 200),
    "drop-refused": ("drop table shop.orders --yes", "object-in-use", 409),
    "cancel-granted": ("cancel change/47", "change-cancelled", 200),
    "cancel-refused": ("cancel change/44", "change-committed", 409),
    "baseline-refused": ("baseline remove n1 --yes", "member-online", 409),
}
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
FOR_PEOPLE = ["table", "wide"]
"""Made by hand for each resource, so each has its golden files. The formats for programs are one function for all."""

EVERY_FORMAT = {
    "get-nodes",
    "get-decisions",
    "describe-node",
    "history-node",
    "explain-partition",
    "repair-plan",
    "propose-granted",
    "propose-conflict",
    "baseline-imagined",
    "activate-granted",
}
"""One of each shape of answer has golden files of all formats."""

KEPT = [
    *((name, output) for name in [*READS, *ASKS] for output in FOR_PEOPLE),
    *((name, output) for name in sorted(EVERY_FORMAT) for output in FORMATS if output not in FOR_PEOPLE),
]


@pytest.mark.parametrize(("name", "output"), KEPT)
def test_a_command_prints_what_its_golden_file_holds(
    name: str, output: str, cli: Cli, api: FakeApi, customer: Path
) -> None:
    if name in READS:
        arguments = READS[name].split()
    else:
        command, answer, status = ASKS[name]
        api.decide(answer, status)
        arguments = [*command.split(), *(["--file", str(customer)] if command == "propose" else [])]
    check_golden(GOLDEN / f"{name}.{output}.txt", cli(*arguments, "-o", output).shown)


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{output}.txt" for name, output in KEPT}


@pytest.mark.parametrize("name", READS)
def test_programs_read_the_items_of_the_answer_in_each_format(name: str, cli: Cli) -> None:
    """JSON lines are the items of the JSON, names and rows of CSV are as many, and CSV has the columns of the table."""
    printed = {output: cli(*READS[name].split(), "-o", output).out for output in ("json", "jsonl", "name", "csv")}
    answer = json.loads(printed["json"])
    items = [json.loads(line) for line in printed["jsonl"].splitlines()]
    assert items == answer.get("items", [answer.get("item")])
    names = printed["name"].splitlines()
    assert len(names) == len(items)
    assert all(re.fullmatch(r"[a-z-]+/\S+", line) for line in names), names
    header, *rows = list(csv.reader(StringIO(printed["csv"])))
    assert len(rows) == len(items)
    assert len(set(header)) == len(header)
    assert not any(re.search(r"[A-Z\s]", title) for title in header), header
    assert {len(row) for row in rows} <= {len(header)}


def test_the_names_of_the_items_are_those_that_the_golden_list_holds(cli: Cli) -> None:
    """`-o name` is what scripts pass on: one line for each command that reads, with the names that it prints."""
    printed = {command: cli(*command.split(), "-o", "name").out.split() for command in READS.values()}
    lines = [f"{command} → {' '.join(names)}\n" for command, names in printed.items()]
    check_golden(GOLDEN_NAMES, "".join(lines))


@pytest.mark.parametrize("name", [*READS, *(name for name, (_, _, status) in ASKS.items() if status < 400)])
def test_the_schema_of_an_output_describes_it(name: str, cli: Cli, api: FakeApi, customer: Path) -> None:
    """`-o schema` is the JSON Schema of what -o json prints; a later release may print more."""
    if name in READS:
        arguments = READS[name].split()
    else:
        command, answer, status = ASKS[name]
        api.decide(answer, status)
        file = ["--file", str(customer)] if command == "propose" else []
        arguments = [*command.split(), *file]
    printed = json.loads(cli(*arguments, "-o", "json").out)
    asked = len(api.asked)
    schema = json.loads(cli(*arguments, "-o", "schema").out)
    assert len(api.asked) == asked, "a schema is printed without asking anybody"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(printed, schema)


@pytest.mark.parametrize("name", READS)
def test_json_and_yaml_are_the_envelope_of_the_api(name: str, cli: Cli) -> None:
    """kind, apiVersion, asOf and the items, unknown fields included: a later release may add, never take away."""
    as_json = json.loads(cli(*READS[name].split(), "-o", "json").out)
    assert as_json == yaml.safe_load(cli(*READS[name].split(), "-o", "yaml").out)
    assert as_json in ANSWERS.values() or name == "repair-plan"  # which is made of several answers
    assert {"kind", "apiVersion", "asOf"} <= set(as_json)


@pytest.mark.parametrize("output", FORMATS)
def test_every_answer_names_its_position_on_stderr(output: str, cli: Cli) -> None:
    assert "as of position 412, 350 ms old" in cli("get", "types", "-o", output).err


@pytest.mark.parametrize(
    "command", ["get types", "get type Customer", "describe node n1", "history type Customer", "explain node n1"]
)
def test_an_answer_about_the_past_names_its_time_and_no_age(command: str, cli: Cli) -> None:
    err = cli(*command.split(), "--as-of", "412").err
    assert "as of position 412, 2026-11-21 02:00:00Z (the past)\n" in err
    assert " old" not in err


def test_describe_says_when_there_are_more_decisions_than_it_shows(cli: Cli, api: FakeApi) -> None:
    path = "/v1/clusters/demo/types/Customer/history"
    assert "shows all" not in cli("describe", "type", "Customer").out
    api.reply(path, 200, {**ANSWERS[path], "items": ANSWERS[path]["items"][:1] * 5, "next": "more"})
    out = cli("describe", "type", "Customer").out
    assert "Last decisions (the last 5; `topolog history type Customer` shows all)\n" in out


def test_names_can_be_given_to_get_again(cli: Cli) -> None:
    """What `-o name` prints is what `get` takes."""
    for resource in ("types", "groups", "partitions", "nodes", "leases", "decisions", "requests"):
        first = cli("get", resource, "-o", "name").out.splitlines()[0]
        assert cli("get", first, "-o", "name").out == f"{first}\n"


def test_csv_is_read_back_by_a_csv_reader(cli: Cli) -> None:
    rows = list(csv.DictReader(StringIO(cli("get", "types", "-o", "csv").out)))
    assert [(row["name"], row["field_names"]) for row in rows] == [
        ("Customer", "id, name"),
        ("Colour", "RED, GREEN"),
    ]


def test_a_type_that_was_never_accepted_shows_what_is_pending(cli: Cli, api: FakeApi) -> None:
    new = {"name": "Order", "accepted_version": 0, "fields": {}, "pending": {"name": "Order", "fields": {"id": "long"}}}
    api.reply("/v1/clusters/demo/types", 200, {"kind": "TypeList", "asOf": {}, "items": [new]})
    assert cli("get", "types").out.splitlines()[1].split() == ["Order", "0", "-", "1", "-"]


def test_rows_of_an_unknown_shape_are_shown_all_the_same(cli: Cli, api: FakeApi) -> None:
    """An older or newer API leaves columns empty; it does not stop the command."""
    odd = {"kind": "NodeList", "asOf": {"position": 1}, "items": [{"node": "n9", "attributes": 7}, {}]}
    api.reply("/v1/clusters/demo/nodes", 200, odd)
    ended = cli("get", "nodes", "-o", "wide")
    assert ended.code == 0
    assert "n9" in ended.out


def test_nothing_to_show_is_said_and_is_no_data(cli: Cli, api: FakeApi) -> None:
    api.reply("/v1/clusters/demo/nodes", 200, {"kind": "NodeList", "asOf": {"position": 1}, "items": []})
    assert cli("get", "nodes") == Ended(0, "", "There is nothing to show.\nas of position 1, 0 ms old\n")


def test_a_stopped_reader_is_reported_with_every_answer(cli: Cli, api: FakeApi) -> None:
    stopped = {"position": 7, "age_ms": 7_200_000, "stopped": "record 8 cannot be decoded"}
    api.reply("/v1/clusters/demo/nodes", 200, {"kind": "NodeList", "asOf": stopped, "items": [{"node": "n1"}]})
    ended = cli("get", "nodes", "-o", "name")
    assert ended.out == "node/n1\n"
    assert "as of position 7, 2 h old" in ended.err
    assert "stopped: record 8 cannot be decoded" in ended.err


def test_text_of_strangers_does_not_drive_the_terminal(cli: Cli, api: FakeApi) -> None:
    item = {"position": 1, "event": "NodeLeft", "reason": "\x1b[2J\nbye [bold]"}
    api.reply("/v1/clusters/demo/decisions", 200, {"kind": "DecisionList", "asOf": {}, "items": [item]})
    out = cli("get", "decisions").out
    assert "\x1b" not in out
    assert r"\x1b[2J bye [bold]" in out


@pytest.mark.parametrize("width", [30, 80, 140])
@pytest.mark.parametrize(
    "kind",
    [
        "nodes",
        "types",
        "groups",
        "partitions",
        "exchanges",
        "maps",
        "baselines",
        "views",
        "tables",
        "changes",
        "decisions",
        "requests",
    ],
)
def test_nothing_is_cut_off_on_a_narrow_terminal(kind: str, width: int) -> None:
    """Names and numbers stay whole; only columns of long text fold, and they keep every character."""
    items, columns = ANSWERS[f"/v1/clusters/demo/{kind}"]["items"], BY_RESOURCE[find(kind)]
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        console.print(Rows(items, columns, wide=True), crop=False)
    shown = captured.get()
    for column in columns:
        for item in items:
            value = plain(column.brief(column.of(item)))
            assert value in shown or column.folds
    if width == 30:
        assert len(shown.splitlines()) == len(items) + 1


def test_other_copies_are_those_that_neither_act_nor_are_whole() -> None:
    """A backup that is whole stands in a column of its own: named twice it would look like one more copy."""
    states = {"n1": "OWNING", "n2": "OWNING", "n3": "MOVING"}
    copies = [{"node": node, "state": state} for node, state in states.items()]
    (column,) = (each for each in BY_RESOURCE[find("partitions")] if each.title == "OTHER COPIES")
    assert column.of({"primary": "n1", "backups": ["n2"], "copies": copies}) == ["n3 MOVING"]


def test_long_text_folds_where_that_helps() -> None:
    item = {"position": 7, "time": "2026-11-21T02:00:00Z", "event": "NodeLeft", "reason": "-"}
    item["changes"] = {"x": ["a" * 40, "b" * 40]}
    console = Console(file=StringIO(), width=80)
    with console.capture() as captured:
        console.print(Rows([item], HISTORY, wide=False), crop=False)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(lines).count("a") == 40


@pytest.mark.parametrize(
    ("command", "field"),
    [("get pending", "waits_for"), ("get pending join/n3", "waits_for"), ("diff nodes --from 1", "changes")],
)
def test_the_schema_names_the_fields_of_an_item(command: str, field: str, cli: Cli) -> None:
    """An item that may be anything would tell a script nothing."""
    schema = json.loads(cli(*command.split(), "-o", "schema").out)
    properties = schema["properties"]
    item = properties["items"]["items"] if "items" in properties else properties["item"]
    assert field in schema["$defs"][item["$ref"].rpartition("/")[2]]["properties"]


def test_every_resource_has_a_schema_of_its_own(cli: Cli) -> None:
    for kind in RESOURCES:
        schema = json.loads(cli("get", kind.usual, "-o", "schema").out)
        assert schema["$defs"], kind.usual
