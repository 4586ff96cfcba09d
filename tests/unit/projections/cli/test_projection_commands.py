"""`topolog projection …` against golden files of its own, and what it waits for."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.projections.cli.conftest import Asked, Cli, FakeApi, check_golden

from topolog.projections.cli.options import Format

GOLDEN = Path(__file__).parent / "golden-projection"
PATH = "/v1/clusters/demo/projections"
ACTIONS = f"{PATH}/actions"
HASH = "5c91b589ff86c1be5251ad5ab56b71c8"
Json = dict[str, Any]


def row(name: str, state: str, **more: object) -> Json:
    nothing = dict.fromkeys(("position", "of", "rate", "eta_s", "age_ms", "started_at", "phase", "compared", "scrub"))
    base = {"hash": "", "shape": "4f0c2f1e7d9b", "bytes": 0, "why": "", "by": ""}
    return {"name": name, "state": state, **nothing, **base, **more}


COMPARED = {
    "store": "rows-4f0c2f1e7d9b-2",
    "position": 18_190,
    "rows": 61_733,
    "differences": 0,
    "state_hash": HASH,
    "other_hash": HASH,
    "examples": [],
}
SCRUB = {"state": "WELL", "bytes": 7_012_441, "of": 7_012_441, "time": "2026-11-23T07:11:40.733Z", "findings": []}
SHOWN = row(
    "3",
    "SHOWN",
    position=18_204,
    of=18_204,
    rate=0.0,
    eta_s=0,
    age_ms=12,
    hash=HASH,
    bytes=7_340_032,
    started_at="2026-11-23T06:58:11.020Z",
    why="a new disk",
    compared=COMPARED,
    scrub=SCRUB,
)
BUILDING = row(
    "building",
    "BUILDING",
    position=9_101,
    of=18_204,
    rate=3_010.2,
    eta_s=3,
    hash="77e4c2f9d0a34c05a1f3e2b1d7c60a94",
    bytes=3_145_728,
    started_at="2026-11-23T07:20:00.000Z",
    why="weekly",
    by="ann",
    phase="FOLDING",
)
FORMER = row("2", "FORMER", position=18_190, hash=HASH, bytes=7_100_416, started_at="2026-11-20T06:00:00.000Z")
REFUSED = row(
    "refused", "REFUSED", started_at="2026-11-23T07:20:00.000Z", why="The log has said nothing for 30 s.", by="ann"
)
DAMAGED = row(
    "3",
    "DAMAGED",
    position=18_204,
    of=18_204,
    rate=0.0,
    eta_s=0,
    age_ms=12,
    hash=HASH,
    bytes=7_340_032,
    why="RocksDB cannot read what it has written.",
    scrub={**SCRUB, "state": "FOUND", "findings": [{"place": "000009.sst offset 1927190", "what": "a bad checksum"}]},
)
LISTS = {
    "status": [SHOWN, BUILDING, FORMER],
    "status-damaged": [DAMAGED, {**BUILDING, "by": "topolog"}],
    "status-refused": [SHOWN, REFUSED],
    "get-projections": [SHOWN, BUILDING, FORMER],
}
FORMATS = [output.value for output in Format]


def answer(*items: Json) -> Json:
    return {"kind": "ProjectionList", "apiVersion": "topolog/v1", "items": list(items), "next": None}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_prints_what_its_golden_file_holds(name: str, output: str, cli: Cli, api: FakeApi) -> None:
    api.reply(PATH, 200, answer(*LISTS[name]))
    command = "get projections" if name.startswith("get") else "projection status"
    check_golden(GOLDEN / f"{name}.{output}.txt", cli(*command.split(), "-o", output).shown)


def test_there_is_no_golden_file_without_a_test() -> None:
    expected = {f"{name}.{output}.txt" for name in LISTS for output in FORMATS} | {f"{name}.txt" for name in ASKED}
    assert {file.name for file in GOLDEN.iterdir()} == expected


ASKED = {
    "rebuild": ("rebuild --reason weekly --rate 5000", {"action": "rebuild", "reason": "weekly", "rate": 5000.0}),
    "back": ("back", {"action": "back", "reason": ""}),
    "cancel": ("cancel", {"action": "cancel", "reason": ""}),
    "pause": ("pause --reason disk", {"action": "pause", "reason": "disk"}),
    "resume": ("resume", {"action": "resume", "reason": ""}),
    "drop": ("drop", {"action": "drop-former", "reason": ""}),
    "scrub": ("scrub", {"action": "scrub", "reason": ""}),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_action_is_asked_for_and_answered(name: str, cli: Cli, api: FakeApi) -> None:
    command, body = ASKED[name]
    api.reply(PATH, 200, answer(SHOWN, FORMER))
    api.reply(ACTIONS, 202, answer(SHOWN, BUILDING, FORMER))
    check_golden(GOLDEN / f"{name}.txt", cli("projection", *command.split()).shown)
    assert [asked.body for asked in api.asked if asked.method == "POST"] == [body]


def test_who_waits_is_shown_what_has_become_of_it(cli: Cli, api: FakeApi) -> None:
    left = [answer(SHOWN, BUILDING), answer({**SHOWN, "name": "4"}, {**SHOWN, "name": "3", "state": "FORMER"})]
    api.reply(ACTIONS, 202, answer(SHOWN, BUILDING))
    api.replies[PATH] = lambda _: (200, left.pop(0))
    ended = cli("projection", "rebuild", "--wait", "-o", "name")
    assert (ended.code, ended.out) == (0, "projection/4\nprojection/3\n")


def test_who_waits_for_what_came_to_nothing_is_told_why(cli: Cli, api: FakeApi) -> None:
    api.reply(ACTIONS, 202, answer(SHOWN, BUILDING))
    api.reply(PATH, 200, answer(SHOWN, REFUSED))
    ended = cli("projection", "rebuild", "--wait")
    assert ended.code == 1
    assert "It came to nothing: The log has said nothing for 30 s." in ended.err


def test_who_waits_long_enough_is_told_that_it_goes_on(cli: Cli, api: FakeApi) -> None:
    api.reply(ACTIONS, 202, answer(SHOWN, BUILDING))
    api.reply(PATH, 200, answer(SHOWN, BUILDING))
    ended = cli("projection", "back", "--wait", "--timeout", "10ms")
    assert ended.code == 7
    assert "goes on" in ended.err


def test_a_scrub_that_is_waited_for_says_what_it_has_found(cli: Cli, api: FakeApi) -> None:
    found = {**SHOWN, "scrub": {**DAMAGED["scrub"], "time": "2026-11-23T07:30:00.000Z"}}
    left = [answer(SHOWN), answer(SHOWN), answer(found)]
    api.reply(ACTIONS, 202, answer(SHOWN))
    api.replies[PATH] = lambda _: (200, left.pop(0) if len(left) > 1 else left[0])
    ended = cli("projection", "scrub", "--wait")
    assert ended.code == 8
    assert "000009.sst offset 1927190: a bad checksum" in ended.out


def test_what_makes_no_sense_is_refused_with_the_reason(cli: Cli, api: FakeApi) -> None:
    problem = {"title": "Conflict", "status": 409, "code": "NO_FORMER", "detail": "No former store is kept."}
    api.reply(ACTIONS, 409, problem)
    ended = cli("projection", "back")
    assert ended.code == 5
    assert "No former store is kept. [NO_FORMER]" in ended.err


def test_one_can_be_asked_for_alone(cli: Cli, api: FakeApi) -> None:
    api.reply(f"{PATH}/building", 200, {"kind": "Projection", "apiVersion": "topolog/v1", "item": BUILDING})
    ended = cli("projection", "status", "building", "-o", "name")
    assert (ended.code, ended.out) == (0, "projection/building\n")
    assert api.asked[-1] == Asked("GET", f"{PATH}/building", {}, None)


def test_a_store_is_read_as_any_resource(cli: Cli, api: FakeApi) -> None:
    api.reply(f"{PATH}/3", 200, {"kind": "Projection", "apiVersion": "topolog/v1", "item": SHOWN})
    assert cli("get", "projection/3", "--fields", "state", "-o", "csv").out == "state\nSHOWN\n"
    assert "a new disk" in cli("describe", "pr", "3").out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("get projections --sort state", "Leave sort out."),
        ("get projections --as-of 15", "Leave as_of out."),
        ("get projections --limit 1", "Leave limit out."),
        ("get projections --filter state=SHOWN", "Leave state out."),
        ("describe projection 3 --as-of 15", "Leave as_of out."),
        ("get projections -w", "`topolog get projections` lists what there is."),
        ("watch projections", "What becomes of projections is not told."),
        ("diff projections --from 15", "projections have no past."),
        ("wait projection 3", "There is no resource 'projection' here."),
    ],
)
def test_what_a_process_does_not_say_of_its_stores_is_wrong_usage(
    command: str, said: str, cli: Cli, api: FakeApi
) -> None:
    """The API would leave it unheeded, and its answer would be taken for one to the question."""
    ended = cli(*command.split())
    assert (ended.code, api.asked) == (2, [])
    assert said in ended.err
