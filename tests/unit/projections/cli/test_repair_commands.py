"""`verify`, `repair`, `wait session` and `explain session` against the real API and the real rules: what is asked for,
what is shown, and with which exit code each ends."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.cli.conftest import Ended
from tests.unit.projections.repairing import Rounds, differing_tables, rows
from tests.unit.projections.serving import served

from topolog.commands.tree import root
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput
from topolog.events.repair_definition import Order, Policy, Rendezvous, SessionDefinition, SessionKind
from topolog.events.repair_requests import SessionRequested
from topolog.events.token_range import TokenRange
from topolog.events.topics import Topic
from topolog.events.tree_spec import Strength
from topolog.projections import patience
from topolog.projections.cli.app import run
from topolog.projections.cli.column import size
from topolog.projections.cli.contexts import Defaults
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.resources import SESSIONS, find_item
from topolog.projections.cli.session_wait import in_words, meaning, progress
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester


class Validators(AnsweringWriter):
    """A coordinator, validators and a rendezvous that do at once what follows from a request; `idle`: nobody does."""

    def __init__(self, chronicle: Chronicle, projector: Projector) -> None:
        super().__init__(chronicle, projector)
        self.rounds = Rounds(chronicle)
        self.reader = projector
        self.idle = False

    def decide(self, value: bytes) -> None:
        super().decide(value)
        self.rounds.settle()
        if not self.idle:
            self.rounds.run_all()
        while self.reader.step():
            pass


class Desk:
    """Runs `topolog ARGS` against the API; `asked` are the sessions that were asked for."""

    def __init__(self, url: str, writer: Validators, chronicle: Chronicle, capsys: pytest.CaptureFixture[str]) -> None:
        self._url, self._chronicle, self._capsys = url, chronicle, capsys
        self.writer, self.rounds = writer, writer.rounds

    def __call__(self, *args: str) -> Ended:
        while self.writer.reader.step():
            pass
        code = run(root, args, Defaults(lambda: self._url, lambda: None))
        written = self._capsys.readouterr()
        return Ended(int(code), written.out, written.err)

    @property
    def asked(self) -> list[SessionDefinition]:
        requests = [CODEC.decode(entry.value) for entry in self._chronicle.log.entries(Topic.OPERATIONS)]
        return [each.definition for each in requests if isinstance(each, SessionRequested)]


@pytest.fixture
def desk(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    monkeypatch.setattr(patience, "wall_ms", lambda: chronicle.now_ms)
    chronicle.join("n1")
    projector = Projector(chronicle.log.reader(), tmp_path / "store", "main", wall_ms=lambda: chronicle.now_ms)
    writer = Validators(chronicle, projector)
    with served(projector, Requester(writer, "api-1", "broker:9092")) as client:
        yield Desk(str(client.base_url), writer, chronicle, capsys)
    projector.close()


@pytest.fixture
def chronicle() -> Chronicle:
    return Chronicle(pace_ms=10).start()


def test_replicas_that_agree_end_with_0(desk: Desk) -> None:
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1, 2, 3))
    ended = desk("verify", "orders")
    assert ended.code == 0, ended.err
    assert "The replicas of orders agree." in ended.err
    assert "AGREE" in ended.out


def test_replicas_that_differ_end_with_8_and_say_what_to_do(desk: Desk) -> None:
    """OP4: 8 is for what was found."""
    differing_tables(desk.rounds)
    ended = desk("verify", "orders")
    assert ended.code == ExitCode.FOUND
    assert "3 rows of orders differ (2 CHANGED, 1 MISSING)." in ended.err
    assert "`topolog repair plan 6`" in ended.err
    shown = desk("get", "differences", "--session", "6", "-o", "csv")
    assert [line.split(",")[1] for line in shown.out.splitlines()[1:]] == ["[7]", "[8]", "[9]"]


def test_what_nobody_can_say_ends_with_10(desk: Desk) -> None:
    """RE19."""
    desk.rounds.has_cuts = False
    differing_tables(desk.rounds)
    assert desk("verify", "orders").code == ExitCode.INCONCLUSIVE


def test_a_part_ends_with_9_and_a_failure_with_11(desk: Desk) -> None:
    """RE14, RE11: one replica for these tokens; and schemas that do not go together."""
    desk.rounds.declare("R1", rows(1))
    desk.rounds.declare("R2", rows(1), columns=Rounds.columns_with("extra", "string"))
    failed = desk("verify", "orders")
    assert (failed.code, "SCHEMA_MISMATCH" in failed.out) == (ExitCode.FAILED, True)
    assert "do not have the same columns" in failed.err
    half = (TokenRange(0, 1 << 31),)
    desk.rounds.declare("P1", rows(1), table="parts")
    desk.rounds.declare("P2", rows(1), table="parts", ranges=half)
    partial = desk("verify", "parts", "--node", "P1")
    assert partial.code == ExitCode.PARTIAL
    assert "Only 50 % of what was asked for is covered." in partial.err


def test_each_option_is_asked_for_as_it_was_said(desk: Desk) -> None:
    """RE12: a range that wraps is taken apart."""
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1), datacenter="ams")
    options = (
        "--ranges f0000000..10000000 --replica R1 --replica R2 --columns id --columns note --ignore note "
        "--strength strong --order sequential --early --local ams --segments 3 --bits 9 --allow-partial --halve "
        "--no-recheck --initiator R2 --intensity 50 --parallel 2 --retries 1 --stall 90s --deadline 1h"
    )
    desk.writer.idle = True
    ended = desk("verify", *options.split(), "orders", "--reason", "to see", "--no-wait")
    assert ended.code == 0, ended.err
    assert desk.asked == [
        SessionDefinition(
            table="orders",
            kind=SessionKind.PREVIEW,
            replicas=("R1", "R2"),
            initiator="R2",
            datacenter="ams",
            ranges=(TokenRange(0, 0x1000_0000), TokenRange(0xF000_0000, 1 << 32)),
            columns=("id", "note"),
            ignored=("note",),
            strength=Strength.STRONG,
            bits=9,
            order=Order.SEQUENTIAL,
            rendezvous=Rendezvous.EARLY,
            segments=3,
            parallel=2,
            intensity=50,
            retries=1,
            halves=True,
            recheck=False,
            allow_partial=True,
            prepare_ms=90_000,
            stall_ms=90_000,
            deadline_ms=3_600_000,
        )
    ]


def test_a_name_is_all_that_a_pipe_needs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """`topolog verify orders -o name | topolog repair plan -f -`."""
    differing_tables(desk.rounds)
    named = desk("verify", "orders", "-o", "name", "--policy", "union", "--version-column", "changed_at")
    assert (named.code, named.out) == (ExitCode.FOUND, "session/6\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(named.out))
    plan = desk("repair", "plan", "-f", "-")
    assert plan.code == 0, plan.err
    assert "3 rows of orders differ; policy UNION." in plan.out
    assert "2 rows would be written, about 100 B." in plan.out
    assert "1 row left alone: two contents have the same version." in plan.out
    assert len(desk.asked) == 1


def test_a_plan_by_another_policy_looks_again_at_what_differs(desk: Desk) -> None:
    """The preview reported only; the new one compares the differing tokens, and writes nothing."""
    differing_tables(desk.rounds)
    desk("verify", "orders", "--segments", "2")
    before = json.dumps(desk.rounds.tables)
    ended = desk("repair", "plan", "session/6", "--policy", "pull", "--source", "R1", "-o", "json")
    assert ended.code == 0, ended.err
    plan = json.loads(ended.out)["item"]
    assert (plan["policy"], plan["source"], plan["rows"], plan["bytes"]) == ("PULL", "R1", 3, 150)
    assert plan["copies"] == [{"source": "R1", "target": "R2", "rows": 3, "deletes": 0, "bytes": 150}]
    assert plan["ranges"] == ["07000005..07000006", "08000005..08000006", "09000005..09000006"]
    again = desk.asked[1]
    assert (again.kind, again.policy, again.preview, again.segments) == (SessionKind.PREVIEW, Policy.PULL, 6, 2)
    assert json.dumps(desk.rounds.tables) == before


def test_a_repair_does_just_what_was_planned_and_is_verified(desk: Desk) -> None:
    desk.rounds.declare("R1", {**rows(1), 7: ("new", 2)})
    desk.rounds.declare("R2", {**rows(1), 7: ("old", 1)})
    desk("verify", "orders", "--policy", "union", "--version-column", "changed_at")
    ended = desk("repair", "run", "6", "--yes", "--reason", "the outage")
    assert ended.code == 0, ended.err
    assert "1 row would be written" in ended.err
    assert "The replicas of orders agree now: 1 row written." in ended.err
    assert desk.rounds.tables["orders"]["R2"][7] == ("new", 2)
    assert (desk.asked[1].kind, desk.asked[1].preview, desk.asked[1].policy) == (SessionKind.REPAIR, 6, Policy.UNION)
    assert desk("verify", "orders").code == 0


def test_a_repair_that_leaves_rows_alone_ends_with_9(desk: Desk) -> None:
    differing_tables(desk.rounds)
    ended = desk("repair", "run", "orders", "--policy", "union", "--version-column", "changed_at", "-y")
    assert ended.code == ExitCode.PARTIAL, ended.err
    assert [each.kind for each in desk.asked] == [SessionKind.PREVIEW, SessionKind.REPAIR]
    assert desk.rounds.tables["orders"]["R2"][8] == ("only here", 1)
    assert desk.rounds.tables["orders"]["R2"][9] == ("or so", 1)


def test_nothing_is_repaired_that_nobody_was_asked_about(desk: Desk) -> None:
    """Nobody is at the terminal, and --yes was not said."""
    differing_tables(desk.rounds)
    desk("verify", "orders", "--policy", "pull", "--source", "R1")
    ended = desk("repair", "run", "6")
    assert (ended.code, len(desk.asked)) == (ExitCode.USAGE, 1)
    assert "Nothing was repaired" in ended.err


def test_nothing_that_is_equal_is_repaired(desk: Desk) -> None:
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1))
    ended = desk("repair", "run", "orders", "--policy", "pull", "--source", "R1", "--yes")
    assert (ended.code, len(desk.asked)) == (0, 1)
    assert "Nothing is to be repaired" in ended.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("repair", "plan"), "Which preview?"),
        (("repair", "plan", "x"), "names no session"),
        (("repair", "run", "orders"), "which way rows go"),
        (("repair", "abort"), "Which session"),
        (("repair", "abort", "6", "--all"), "Which session"),
        (("repair", "pace", "6"), "Nothing is to be changed"),
        (("repair", "withdraw", "R1", "--yes"), "is no replica"),
        (("verify", "orders", "--policy", "pull"), "--source"),
        (("verify", "orders", "--policy", "union"), "--version-column"),
        (("verify", "orders", "--delete-extra"), "Only pull"),
        (("verify", "orders", "--ranges", "7..7"), "no range of tokens"),
        (("verify", "orders", "--bits", "3"), "--bits"),
        (("get", "session", "x"), "no number of a session"),
        (("get", "tree", "1/2"), "is no tree"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(desk: Desk, args: tuple[str, ...], words: str) -> None:
    desk.rounds.declare("R1", rows(1))
    desk.rounds.declare("R2", rows(1))
    ended = desk(*args)
    assert ended.code == ExitCode.USAGE
    assert words in ended.err
    assert desk.asked == []


def test_a_preview_of_reports_only_needs_a_policy(desk: Desk) -> None:
    differing_tables(desk.rounds)
    desk("verify", "orders")
    ended = desk("repair", "run", "6", "--yes")
    assert (ended.code, "which way rows go" in ended.err) == (ExitCode.USAGE, True)
    assert len(desk.asked) == 1


def test_what_the_rules_refuse_ends_with_5(desk: Desk) -> None:
    ended = desk("verify", "orderz")
    assert (ended.code, "UNKNOWN_TABLE" in ended.err) == (ExitCode.REJECTED, True)


def test_a_session_is_paused_paced_resumed_and_ended(desk: Desk) -> None:
    """RE3."""
    desk.writer.idle = True
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1))
    assert desk("verify", "orders", "--no-wait", "-o", "name").out == "session/6\n"
    assert desk("repair", "pause", "6", "--reason", "rush hour").code == 0
    assert desk("repair", "pace", "6", "--intensity", "50", "--parallel", "2").code == 0
    row = desk.rounds.row(6)
    assert (row.paused, row.definition.intensity, row.definition.parallel) == (True, 50, 2)
    assert "is paused" in desk("explain", "session", "6").out
    assert desk("repair", "resume", "session/6").code == 0
    late = desk("wait", "session/6", "--timeout", "1ms")
    assert (late.code, "did not end within 1ms" in late.err) == (ExitCode.UNKNOWN, True)
    assert desk("repair", "abort", "--all", "--reason", "wrong table").code == 0
    ended = desk("wait", "session/6")
    assert (ended.code, "Aborted: wrong table" in ended.err) == (ExitCode.FAILED, True)


def test_a_plan_waits_for_a_preview_that_is_under_way(desk: Desk) -> None:
    """`verify --no-wait -o name | repair plan -f -`."""
    desk.writer.idle = True
    differing_tables(desk.rounds)
    desk("verify", "orders", "--no-wait")
    late = desk("repair", "plan", "6", "--timeout", "1ms")
    assert late.code == ExitCode.UNKNOWN
    desk.rounds.run_all()
    assert "3 rows of orders differ; policy REPORT." in desk("repair", "plan", "6").out


def test_schedules_are_set_listed_and_dropped(desk: Desk) -> None:
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1))
    said = ("--every", "1d", "--segments", "4", "--reason", "each night")
    assert desk("repair", "schedule", "set", "nightly", "orders", *said).code == 0
    listed = desk("repair", "schedule", "list", "-o", "jsonl")
    assert [(each["name"], each["every_ms"]) for each in map(json.loads, listed.out.splitlines())] == [
        ("nightly", 86_400_000)
    ]
    assert "nightly" in desk("get", "schedules").out
    assert desk("repair", "schedule", "drop", "nightly").code == 0
    assert desk("repair", "schedule", "list", "-o", "name").out == ""


def test_a_replica_that_nobody_serves_is_withdrawn(desk: Desk) -> None:
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1))
    assert desk("repair", "withdraw", "replica/orders@R2", "--yes").code == 0
    assert desk("get", "replicas", "-o", "name").out == "replica/orders@R1\n"


def test_a_dry_run_sends_nothing(desk: Desk) -> None:
    for name in ("R1", "R2"):
        desk.rounds.declare(name, rows(1))
    ended = desk("verify", "orders", "--dry-run")
    assert ended.code == 0, ended.err
    assert "It would be decided: SessionOpened" in ended.out
    assert desk.asked == []


def test_verify_has_room_for_other_things_to_verify(desk: Desk) -> None:
    """A command of the group wins over a table of its name, which `verify table NAME` still reaches."""
    desk.rounds.declare("R1", rows(1), table="table")
    desk.rounds.declare("R2", rows(1), table="table")
    assert desk("verify", "table", "table").code == 0
    assert [each.table for each in desk.asked] == ["table"]
    assert "TABLE" in desk("verify", "--help").out


@pytest.mark.parametrize("output", ["table", "wide", "csv", "yaml", "json", "jsonl", "name"])
def test_every_resource_is_shown_in_every_form(desk: Desk, output: str) -> None:
    differing_tables(desk.rounds)
    desk("repair", "run", "orders", "--policy", "pull", "--source", "R1", "--yes")
    for kind in ("sessions", "trees", "differences", "repairs", "replicas", "schedules"):
        ended = desk("get", kind, "-o", output)
        assert ended.code == 0, ended.err
        assert ended.out or kind == "schedules"
    numbers = [label.partition("/")[2] for label in desk("get", "sessions", "-o", "name").out.splitlines()]
    for label in (
        f"session/{numbers[0]}",
        f"repair/{numbers[0]}",
        f"tree/{numbers[0]}/0/2",
        f"difference/{numbers[0]}/0/0",
    ):
        assert desk("describe", label, "-o", output).code == 0
    assert desk("history", f"session/{numbers[0]}", "-o", output).code == 0


def test_progress_says_rows_bytes_and_how_long_it_takes() -> None:
    task = {"replica": "R2", "kind": "LEAVES", "state": "ASSIGNED", "rows": 200_000, "bytes": 13_600_000, "percent": 40}
    session = {
        "number": 47,
        "state": "RUNNING",
        "segments": 4,
        "segments_done": 1,
        "percent": 31,
        "rows_read": 1_000_000,
        "bytes_read": 68_000_000,
        "eta_ms": 12_400,
        "tasks": [task, {**task, "replica": "R1", "state": "DONE"}],
    }
    assert progress(session) == (
        "session 47: 1/4 segments, 31 %, 1200000 rows, 81.6 MB read; R2 LEAVES 40 %; about 12 s more"
    )
    assert progress({"number": 47, "state": "QUEUED", "age_ms": 3_000}) == "session 47: waits 3 s for another repair"
    assert [size(each) for each in (7, 1_500, 2 * 10**9)] == ["7 B", "1.5 kB", "2.0 GB"]


@pytest.mark.parametrize(
    ("kind", "state", "verdict", "code"),
    [
        ("PREVIEW", "SUCCEEDED", "AGREE", ExitCode.OK),
        ("PREVIEW", "SUCCEEDED", "DIFFER", ExitCode.FOUND),
        ("PREVIEW", "PARTIAL", "DIFFER", ExitCode.FOUND),
        ("PREVIEW", "PARTIAL", None, ExitCode.PARTIAL),
        ("PREVIEW", "PARTIAL", "INCONCLUSIVE", ExitCode.INCONCLUSIVE),
        ("PREVIEW", "ABORTED", "DIFFER", ExitCode.FAILED),
        ("PREVIEW", "SKIPPED", None, ExitCode.FAILED),
        ("PREVIEW", "EXPIRED", None, ExitCode.FAILED),
        ("REPAIR", "SUCCEEDED", "REPAIRED", ExitCode.OK),
        ("REPAIR", "PARTIAL", "DIFFER", ExitCode.PARTIAL),
        ("REPAIR", "FAILED", None, ExitCode.FAILED),
    ],
)
def test_each_end_has_its_exit_code(kind: str, state: str, verdict: str | None, code: ExitCode) -> None:
    """An abort is never a success, a part is never the whole (RE1: false success)."""
    assert meaning({"kind": kind, "state": state, "verdict": verdict}) is code


def test_leaves_that_differ_are_told_from_rows_that_do() -> None:
    """RE21: where whole leaves differ, their rows are not looked at."""
    session = {"number": 47, "table": "orders", "kind": "PREVIEW", "verdict": "DIFFER", "covered_percent": 100}
    assert in_words({**session, "rows_differ": 0}).startswith("Whole leaves of orders differ: rows not counted.")
    assert in_words({**session, "rows_differ": 1}).startswith("1 row of orders differ")


def test_the_name_that_a_list_prints_is_taken_beside_its_kind_too() -> None:
    """`topolog get sessions -o name` prints session/47."""
    assert find_item("session", "session/47") == find_item("session/47", None) == (SESSIONS, "47")
    with pytest.raises(BadInput, match="no number"):
        find_item("session", "change/47")
