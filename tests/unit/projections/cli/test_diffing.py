"""`topolog diff`: what differs between two moments, and the exit code that says whether anything does."""

import json
from pathlib import Path

import pytest
from tests.unit.projections.cli.conftest import ANSWERS, Asked, Cli, FakeApi, Json, check_golden

from topolog.projections.cli.options import Format

DIFF = "/v1/clusters/demo/diff/nodes"
N1, N2 = ANSWERS["/v1/clusters/demo/nodes"]["items"]
FOUND: list[Json] = [
    {"name": "n2", "change": "ADDED", "before": None, "after": N2, "changes": []},
    {"name": "n1", "change": "CHANGED", "before": N1, "after": N1, "changes": ["standing MEMBER → LEFT", "slot 0 → 1"]},
]
ANSWER: Json = {"kind": "Diff", "apiVersion": "topolog/v1", "items": FOUND, "next": None}


def test_what_differs_is_shown_with_a_sign_and_ends_with_8(cli: Cli, api: FakeApi) -> None:
    api.reply(DIFF, 200, ANSWER)
    ended = cli("diff", "nodes", "--from", "400", "--to", "topology:4.1")
    assert ended.code == 8
    assert ended.out == "+ n2\n~ n1\n    standing MEMBER → LEFT\n    slot 0 → 1\n"
    assert api.asked[-1].params == {"from": "400", "to": "topology:4.1", "limit": "1000"}


def test_nothing_that_differs_ends_with_0_and_no_data(cli: Cli, api: FakeApi) -> None:
    api.reply(DIFF, 200, {**ANSWER, "items": []})
    ended = cli("diff", "nodes", "--from", "exchange:4.0")
    assert (ended.code, ended.out) == (0, "")
    assert "Nothing differs." in ended.err


def test_all_pages_are_read_and_one_name_is_picked(cli: Cli, api: FakeApi) -> None:
    def paged(asked: Asked) -> tuple[int, Json]:
        is_first = "cursor" not in asked.params
        return 200, {**ANSWER, "items": FOUND[:1] if is_first else FOUND[1:], "next": "more" if is_first else None}

    api.replies[DIFF] = paged
    assert cli("diff", "nodes", "--from", "15m", "-o", "name").out == "node/n2\nnode/n1\n"
    assert cli("diff", "node/n1", "--from", "15m", "-o", "name").out == "node/n1\n"
    ended = cli("diff", "node", "n9", "--from", "15m")
    assert ended.code == 1, "a slip is nothing that stays as it is"
    assert "There is no 'n9' here." in ended.err


@pytest.mark.parametrize("output", ["json", "jsonl", "yaml", "csv", "wide"])
def test_every_format_has_it(output: str, cli: Cli, api: FakeApi) -> None:
    api.reply(DIFF, 200, ANSWER)
    ended = cli("diff", "nodes", "--from", "400", "-o", output)
    assert ended.code == 8
    assert "standing MEMBER → LEFT" in ended.out
    if output == "json":
        assert json.loads(ended.out) == ANSWER


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("diff nodes", "Since when?"),
        ("diff nodes --from yesterday", "--from 'yesterday' is no position"),
        ("diff nodes --from 1 --to tomorrow", "--to 'tomorrow' is no position"),
        ("diff lease-health --from 1", "have no past"),
        ("diff nodes --from 1 --state X", "nodes have no --state"),
    ],
)
def test_a_wrong_question_is_wrong_usage(command: str, said: str, cli: Cli, api: FakeApi) -> None:
    ended = cli(*command.split())
    assert ended.code == 2
    assert said in ended.err
    assert not api.asked


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["n1", "n2", "n10"]),
        ("-name", ["n10", "n2", "n1"]),
        ("change,-name", ["n10", "n2", "n1"]),
        ("-change, name", ["n1", "n2", "n10"]),
        ("standing", ["n2", "n10", "n1"]),
        ("-slot,-name", ["n2", "n1", "n10"]),
    ],
)
def test_rows_come_in_the_order_that_is_asked_for(sort: str, names: list[str], cli: Cli, api: FakeApi) -> None:
    """By fields of the row, or of the item as it is, as it was of one that has gone; numbers in names as numbers."""
    rows: list[Json] = [
        {"name": "n2", "change": "ADDED", "before": None, "after": {"standing": "LEAVING", "slot": 7}},
        {"name": "n10", "change": "ADDED", "before": None, "after": {"standing": "LEFT", "slot": None}},
        {"name": "n1", "change": "REMOVED", "before": {"standing": "MEMBER", "slot": 3}, "after": None},
    ]
    api.reply(DIFF, 200, {**ANSWER, "items": rows})
    ended = cli("diff", "nodes", "--from", "1", "--sort", sort, "-o", "name")
    assert ended.out.split() == [f"node/{name}" for name in names]


def test_an_order_by_what_no_row_has_is_wrong_usage(cli: Cli, api: FakeApi) -> None:
    api.reply(DIFF, 200, ANSWER)
    ended = cli("diff", "nodes", "--from", "1", "--sort", "standign")
    assert (ended.code, ended.out) == (2, "")
    assert "Nothing can be ordered by 'standign'." in ended.err


GOLDEN = Path(__file__).parent / "golden-diff"
FORMATS = [output.value for output in Format if output is not Format.SCHEMA]
DIFFS = {
    "nodes": ("diff nodes --from 400 --to topology:4.1", FOUND),
    "node": ("diff node/n1 --from 400", FOUND),
    "sorted": ("diff nodes --from 400 --sort name", FOUND),
    "nothing": ("diff nodes --from exchange:4.0", []),
}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", DIFFS)
def test_a_difference_prints_what_its_golden_file_holds(name: str, output: str, cli: Cli, api: FakeApi) -> None:
    command, rows = DIFFS[name]
    api.reply(DIFF, 200, {**ANSWER, "asOf": ANSWERS["/v1/clusters/demo/nodes"]["asOf"], "items": rows})
    check_golden(GOLDEN / f"{name}.{output}.txt", cli(*command.split(), "-o", output).shown)


def test_there_is_no_golden_file_without_a_test() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{name}.{output}.txt" for name in DIFFS for output in FORMATS}
