"""Sessions of anti-entropy as people see them: through the API, now, as of the past, and when they are long over."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows, union_definition
from tests.unit.projections.serving import served

from topolog.events.ids import Position
from topolog.events.repair_definition import Policy, SessionKind
from topolog.events.repair_tasks import TaskKind
from topolog.events.sessions import SessionRow
from topolog.events.token_range import TokenRange
from topolog.projections.layout import Decided
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.store import Reading

Json = dict[str, Any]
MAIN = "/v1/clusters/main"
HALVES = (TokenRange(0, 1 << 31), TokenRange(1 << 31, 1 << 32))


class Site:
    """A cluster whose tables are compared, and a client of its API."""

    def __init__(self, chronicle: Chronicle, projector: Projector, client: Client) -> None:
        self.rounds = Rounds(chronicle)
        self.chronicle, self.projector, self.client = chronicle, projector, client

    def step(self) -> None:
        while self.projector.step():
            pass
        assert self.projector.stopped is None

    def get(self, path: str, expected: int = 200, **parameters: str | int) -> Any:
        self.step()
        answer = self.client.get(f"{MAIN}/{path}", params=parameters)
        assert answer.status_code == expected, answer.text
        body: Json = answer.json()
        return body.get("item", body.get("items", body))

    def post(self, **body: Any) -> Response:
        self.step()
        answer = self.client.post(f"{MAIN}/requests", json=body, headers={"X-Topolog-Actor": "ada"})
        self.rounds.settle()
        return answer

    def granted(self, **body: Any) -> Json:
        answer = self.post(**body)
        assert answer.status_code == 200, answer.text
        item: Json = answer.json()["item"]
        return item


@pytest.fixture
def site(chronicle: Chronicle, projector: Projector) -> Iterator[Site]:
    chronicle.join("n1")
    projector.step()
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield Site(chronicle, projector, client)


def test_a_preview_says_what_differs_and_what_its_policy_would_do(site: Site) -> None:
    """RE2: of three rows that differ one is newer, one is missing, and one nobody can decide."""
    differing_tables(site.rounds)
    number = site.rounds.start(union_definition(), reason="after the outage")
    site.rounds.run(number)
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["verdict"], found["rows_differ"]) == ("SUCCEEDED", "DIFFER", 3)
    assert (found["kinds"], found["unresolved"]) == ({"CHANGED": 2, "MISSING": 1}, {"CONFLICT": 1})
    assert (found["to_copy"], found["rows_written"]) == (2, 0)
    assert (found["covered"], found["covered_percent"], found["percent"]) == (["FULL"], 100, 100)
    assert found["differing"] == ["07000005..07000006", "08000005..08000006", "09000005..09000006"]
    assert (found["actor"], found["reason"], found["replicas"]) == ("ann", "after the outage", ["R1", "R2"])
    assert found["parts"][0]["state"] == "DIFFERENT"


def test_replicas_that_are_equal_agree(site: Site) -> None:
    """RE17: equal roots, and not a row is looked at."""
    for name in ("R1", "R2", "R3"):
        site.rounds.declare(name, rows(1, 2, 3))
    number = site.rounds.start(definition(segments=2))
    site.rounds.run(number)
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["verdict"], found["rows_differ"]) == ("SUCCEEDED", "AGREE", 0)
    assert found["segments_by_state"] == {"EQUAL": 2}
    leaves = site.get("trees", session=number, kind="LEAVES")
    assert [(each["roots"], each["pairs_compared"], each["leaves"]) for each in leaves] == [(1, 3, 0), (1, 3, 0)]


def test_nobody_agrees_before_everything_is_compared(site: Site) -> None:
    """One of two segments is equal: that says nothing of the other."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(1, 2, 200))
    number = site.rounds.start(definition(segments=2))
    site.rounds.run_until(number, TaskKind.LEAVES, index=1)
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["verdict"], found["segments_done"]) == ("RUNNING", None, 1)
    assert (found["covered"], found["covered_percent"]) == (["00000000..80000000"], 50)


def test_a_difference_without_read_points_is_inconclusive(site: Site) -> None:
    """RE19."""
    site.rounds.has_cuts = False
    differing_tables(site.rounds)
    number = site.rounds.start(definition())
    site.rounds.run(number)
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["verdict"], found["code"]) == ("PARTIAL", "INCONCLUSIVE", "NO_CUT")
    assert "no read point" in site.get(f"sessions/{number}/explain")["sentence"]


def test_a_repair_says_what_went_where_and_that_it_is_verified(site: Site) -> None:
    site.rounds.declare("R1", {**rows(1, 2), 7: ("new", 2)})
    site.rounds.declare("R2", {**rows(1, 2), 7: ("old", 1)})
    site.rounds.declare("R3", rows(1, 2))
    preview = site.rounds.start(union_definition())
    site.rounds.run(preview)
    number = site.rounds.start(union_definition(SessionKind.REPAIR, preview=Position(preview)))
    assert site.rounds.run(number).status.value == "SUCCEEDED"
    found = site.get(f"repairs/{number}")
    assert (found["verdict"], found["rows"], found["written"], found["verified"]) == ("REPAIRED", 2, 2, 1)
    assert [(each["source"], each["target"], each["rows"]) for each in found["copies"]] == [
        ("R1", "R2", 1),
        ("R1", "R3", 1),
    ]
    assert [(each["replica"], each["written"]) for each in found["targets"]] == [("R2", 1), ("R3", 1)]
    assert site.rounds.tables["orders"]["R3"][7] == ("new", 2)
    assert [each["number"] for each in site.get("repairs")] == [number]
    assert "preview" in site.get(f"repairs/{preview}", 404)["detail"]
    purposes = [(each["kind"], each["purpose"]) for each in site.get("trees", session=number)]
    assert purposes[-4:] == [("SEND", "REPAIR"), ("WRITE", "REPAIR"), ("PREPARE", "VERIFY"), ("LEAVES", "VERIFY")]


def test_a_task_says_how_far_it_is_and_when_it_is_given_up(site: Site) -> None:
    """RE7: a slow replica whose progress grows is never given up."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(*range(100)))
    number = site.rounds.start(definition(stall_ms=60_000))
    row = site.rounds.run_until(number, TaskKind.LEAVES)
    assert site.get(f"sessions/{number}")["tasks"][0]["eta_ms"] is None
    site.chronicle.now_ms += 9_000
    site.rounds.report(row, "R2", rows=25, bytes_=1_250)
    site.chronicle.now_ms += 4_000
    found = site.get(f"sessions/{number}")
    task = next(each for each in found["tasks"] if each["replica"] == "R2")
    assert (task["rows"], task["rows_expected"], task["percent"]) == (25, 100, 25)
    assert (task["silent_ms"], task["at_most_ms"]) == (5_000, 55_000)
    assert task["eta_ms"] == pytest.approx(3 * 15_000, abs=3_000)
    assert 0 < found["percent"] < 50
    said = site.get(f"sessions/{number}/explain")
    assert "R2 to send its tree, 25 % of about 100 rows" in said["sentence"]
    assert said["facts"]["segment 0: R2"].startswith("came further 5 s ago, is given up in 55 s unless it does")
    assert [(each["node"], each["at_most_ms"]) for each in said["waiting_for"]][1] == ("R2", 55_000)


def test_what_a_session_takes_to_read_does_not_grow_with_its_progress(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--wait` and explain look often at what may run for days."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(*range(100)))
    number = site.rounds.start(definition())
    row = site.rounds.run_until(number, TaskKind.LEAVES)
    counted: Counter[str] = Counter()
    kept_decision, kept_history = Reading.decision, Reading._history

    def decision(self: Reading, position: int) -> Decided | None:
        counted["reads"] += 1
        return kept_decision(self, position)

    def history(self: Reading, stem: bytes) -> Iterator[tuple[Position, bytes]]:
        for each in kept_history(self, stem):
            counted["reads"] += 1
            yield each

    def reads() -> int:
        site.get(f"sessions/{number}")
        counted.clear()
        eta_ms = site.get(f"sessions/{number}")["tasks"][1]["eta_ms"]
        site.get(f"sessions/{number}/explain")
        assert eta_ms is not None
        return counted["reads"]

    monkeypatch.setattr(Reading, "decision", decision)
    monkeypatch.setattr(Reading, "_history", history)
    site.rounds.report(row, "R2", rows=1, bytes_=50)
    first = reads()
    for done in range(2, 60):
        site.rounds.report(row, "R2", rows=done, bytes_=done * 50)
    assert reads() == first


def test_how_much_of_a_session_is_over_never_goes_back(site: Site) -> None:
    """People watch the number: a second look and what is written come behind the first look."""
    differing_tables(site.rounds)
    number = site.rounds.start(union_definition(SessionKind.REPAIR))
    told = []
    while not site.rounds.row(number).status.is_end:
        told.append(site.get(f"sessions/{number}")["percent"])
        assert site.rounds.answer_all(number)
        site.rounds.settle()
    assert told == sorted(told)
    assert told[0] == 0
    assert 90 <= told[-1] < 100


def test_a_failed_attempt_stays_to_be_seen(site: Site) -> None:
    """RE7: the second attempt is a task of its own, the first says why it failed."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(1, 2))
    number = site.rounds.start(definition())
    row = site.rounds.run_until(number, TaskKind.LEAVES)
    site.rounds.report(row, "R2", code="IO", message="the disk was away")
    site.rounds.answer(row, row.tasks[0])
    said = site.get(f"sessions/{number}/explain")["sentence"]
    assert "waits a moment before R2 is asked again to send its tree (IO: the disk was away)" in said
    assert site.rounds.run(number).status.value == "SUCCEEDED"
    tree = site.get(f"trees/{number}/0/2")
    attempts = [(each["replica"], each["attempt"], each["state"], each["code"]) for each in tree["tasks"]]
    assert attempts == [("R2", 1, "FAILED", "IO"), ("R1", 1, "DONE", ""), ("R2", 2, "DONE", "")]
    assert (tree["roots"], tree["awaited"], tree["is_over"]) == (1, [], True)


def test_a_session_that_fails_says_of_which_tokens_nothing_is_known(site: Site) -> None:
    """RE7."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(1, 200))
    number = site.rounds.start(definition(segments=2))
    row = site.rounds.run_until(number, TaskKind.LEAVES, index=1)
    site.rounds.report(row, "R1", code="CORRUPT", message="part-7.parquet")
    site.rounds.run(number)
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["code"], found["verdict"]) == ("PARTIAL", "CORRUPT", None)
    assert (found["covered_percent"], found["left"]) == (50, ["80000000..100000000"])
    said = site.get(f"sessions/{number}/explain")
    assert "part-7.parquet" in said["sentence"]
    assert said["facts"]["does not cover"] == "80000000..100000000"
    assert "mend" in said["facts"]["what helps"]


def test_a_queued_repair_says_behind_which_it_waits(site: Site) -> None:
    """RE27."""
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(2))
    first = site.rounds.start(union_definition(SessionKind.REPAIR))
    site.rounds.settle()
    second = site.rounds.start(union_definition(SessionKind.REPAIR, queues=True))
    found = site.get(f"sessions/{second}")
    assert (found["state"], found["segments"], found["percent"]) == ("QUEUED", 0, None)
    assert f"behind session {first}" in site.get(f"sessions/{second}/explain")["sentence"]
    assert [each["number"] for each in site.get("sessions", state="QUEUED")] == [second]
    site.rounds.abort(first)
    site.rounds.settle()
    assert site.get(f"sessions/{second}")["state"] == "RUNNING"


def test_the_past_of_a_session_is_what_it_was(site: Site) -> None:
    """As of a moment in the middle it runs, and its steps up to then are there."""
    differing_tables(site.rounds)
    number = site.rounds.start(union_definition())
    site.rounds.run_until(number, TaskKind.DIGESTS)
    middle = site.chronicle.position
    site.rounds.run(number)
    then = site.get(f"sessions/{number}", as_of=middle)
    assert (then["state"], then["verdict"], then["rows_differ"]) == ("RUNNING", None, 0)
    assert {each["kind"] for each in then["tasks"]} == {"DIGESTS"}
    steps = site.get("trees", session=number, as_of=middle)
    assert [(each["kind"], each["is_over"]) for each in steps] == [
        ("PREPARE", True),
        ("LEAVES", True),
        ("DIGESTS", False),
    ]
    assert [each["number"] for each in site.get("sessions", as_of=number - 1)] == []


def test_a_session_that_coordinators_forgot_is_still_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are gone from the state; what it found is read from its decisions."""
    monkeypatch.setattr("topolog.events.repair.ENDED_KEPT", 1)
    differing_tables(site.rounds)
    numbers = []
    for _ in range(3):
        numbers.append(site.rounds.start(union_definition()))
        site.rounds.run(numbers[-1])
    assert sum(1 for _ in site.chronicle.fold.state.rows(SessionRow)) == 1
    assert [each["number"] for each in site.get("sessions")] == numbers[2:]
    found = site.get(f"sessions/{numbers[0]}")
    assert (found["state"], found["kinds"], found["to_copy"]) == ("SUCCEEDED", {"CHANGED": 2, "MISSING": 1}, 2)
    assert site.get(f"trees/{numbers[0]}/0/2")["leaves"] == 3


def test_what_happens_in_one_set_is_not_lost(site: Site) -> None:
    """A coordinator ends a step, a segment and the session at once: rows of the steps before are in no row any more."""
    for name in ("R1", "R2"):
        site.rounds.declare(name, rows(1))
    number = site.rounds.start(definition())
    site.rounds.run(number)
    ends = [each for each in site.get("decisions") if each["event"] in ("PairCompared", "SegmentEnded", "SessionEnded")]
    assert len(ends) == 3
    assert len({each["set_end"] for each in ends}) == 1
    found = site.get(f"sessions/{number}")
    assert (found["verdict"], found["rows_read"]) == ("AGREE", 2)
    assert [each["kind"] for each in site.get("trees", session=number)] == ["PREPARE", "LEAVES"]


def test_the_history_of_a_session_has_who_paused_it(site: Site) -> None:
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1))
    number = site.rounds.start(definition())
    site.rounds.settle()
    site.granted(kind="alter-session", session=number, paused=True, intensity=50, reason="rush hour")
    newest = site.get(f"sessions/{number}/history")[0]
    assert (newest["event"], newest["actor"], newest["reason"]) == ("SessionAltered", "ada", "rush hour")
    assert newest["changes"] == {"paused": [False, True], "intensity": [100, 50]}
    said = site.get(f"sessions/{number}/explain")["sentence"]
    assert "is paused, and waits for R1 to fix a read point" in said


def test_replicas_say_what_they_hold_and_who_asks_them(site: Site) -> None:
    site.rounds.declare("R1", rows(1), datacenter="ams", ranges=HALVES[:1])
    site.rounds.declare("R2", rows(1), is_writable=False)
    number = site.rounds.start(definition(ranges=HALVES[:1]))
    site.rounds.settle()
    first, second = site.get("replicas", table="orders")
    assert (first["name"], first["datacenter"], first["percent"]) == ("orders@R1", "ams", 50)
    assert (first["ranges"], first["open_sessions"]) == (["00000000..80000000"], [number])
    assert (second["is_writable"], second["percent"], second["schema"]) == (False, 100, first["schema"])
    assert site.get("replicas/orders@R1")["columns"]["note"] == "string"
    assert "orders@R1" in site.get("replicas/orders@R", 404)["hint"]
    site.granted(kind="withdraw-replica", table="orders", name="R2", reason="its disk is sold")
    assert [each["name"] for each in site.get("replicas")] == ["orders@R1"]
    assert site.get("replicas/orders@R2/history")[0]["event"] == "ReplicaWithdrawn"


def test_a_schedule_says_when_it_is_due_and_why_it_was_put_off(site: Site) -> None:
    """RE32: a stated reason for each postponement."""
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1))
    asked = {"table": "orders", "segments": 4}
    site.granted(kind="set-schedule", name="nightly", definition=asked, every_ms=600_000, reason="each night")
    site.chronicle.now_ms += 99_000
    found = site.get("schedules/nightly")
    assert (found["every_ms"], found["due_in_ms"], found["session"]) == (600_000, 500_000, None)
    assert found["definition"] == {"table": "orders", "kind": "PREVIEW", "policy": "REPORT", "segments": 4}
    site.rounds.due("nightly")
    number = site.get("schedules/nightly")["session"]
    assert site.get(f"sessions/{number}")["schedule"] == "nightly"
    site.rounds.due("nightly")
    found = site.get("schedules/nightly")
    assert (found["code"], found["session"]) == ("STILL_RUNNING", number)
    assert site.get("schedules/nightly/history")[0]["event"] == "SchedulePostponed"
    site.granted(kind="drop-schedule", name="nightly")
    assert site.get("schedules") == []


def test_a_session_is_asked_for_paused_and_aborted_through_the_api(site: Site) -> None:
    """RE3: an abort is an end of its own, and a second one changes nothing."""
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1))
    outcome = site.granted(kind="start-session", table="orders", ranges=["80000000..00000000"], reason="to see")
    kind, _, number = outcome["subject"].partition(" ")
    assert (kind, outcome["status"]) == ("session", "GRANTED")
    assert site.get(f"sessions/{number}")["ranges"] == ["80000000..100000000"]
    site.granted(kind="alter-session", session=int(number), paused=True)
    assert site.get(f"sessions/{number}")["paused"] is True
    assert site.granted(kind="alter-session", session=int(number), paused=True)["status"] == "UNCHANGED"
    site.granted(kind="abort-sessions", session=None, reason="wrong table")
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["code"], found["message"]) == ("ABORTED", "ABORTED", "Aborted: wrong table")
    assert site.granted(kind="abort-sessions", session=int(number))["status"] == "UNCHANGED"


def test_a_session_request_takes_effect_when_the_session_has_ended(site: Site) -> None:
    """`wait=accepted` is what `--wait accepted` asks for."""
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1))
    outcome = site.granted(kind="start-session", table="orders")
    assert outcome["accepted"] is False
    site.rounds.run_all()
    site.step()
    requester, _, sequence = outcome["id"].rpartition("/")
    said = site.get(f"requests/{requester}/{sequence}/explain")
    assert "granted" in said["sentence"]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"kind": "start-session", "table": "orderz"}, "UNKNOWN_TABLE", "orderz"),
        ({"kind": "start-session", "table": "orders", "session": "REPAIR"}, "BAD_POLICY", "--policy"),
        ({"kind": "start-session", "table": "orders", "replicas": ["R9"]}, "UNKNOWN_REPLICA", "R9"),
        ({"kind": "start-session", "table": "orders", "preview": 1}, "NO_PREVIEW", "no preview 1"),
        ({"kind": "alter-session", "session": 1, "paused": True}, "UNKNOWN_SESSION", "no session 1"),
        ({"kind": "abort-sessions", "session": 1}, "UNKNOWN_SESSION", "no session 1"),
    ],
)
def test_what_rules_refuse_is_a_conflict_with_its_code(site: Site, body: Json, code: str, words: str) -> None:
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1))
    answer = site.post(**body)
    assert (answer.status_code, answer.json()["code"]) == (409, code)
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"kind": "start-session"}, "body"),
        ({"kind": "start-session", "table": "orders", "ranges": ["7..7"]}, "ranges"),
        ({"kind": "start-session", "table": "orders", "ranges": ["x"]}, "ranges"),
        ({"kind": "start-session", "table": "orders", "intensity": 0}, "intensity"),
        ({"kind": "start-session", "table": "orders", "policy": "PUSH"}, "policy"),
        ({"kind": "set-schedule", "name": "n", "every_ms": 1, "definition": {"table": ""}}, "definition.table"),
        ({"kind": "abort-sessions"}, "body"),
    ],
)
def test_what_is_malformed_is_never_sent(site: Site, body: Json, parameter: str) -> None:
    """RE12: equal ends name no range; FULL is asked for by name."""
    answer = site.post(**body)
    assert answer.status_code == 400
    assert answer.json()["invalid_params"][0]["name"] == parameter


@pytest.mark.parametrize(
    ("path", "status"),
    [("sessions/x", 400), ("sessions/9", 404), ("trees/1/2", 404), ("trees/1/2/x", 400), ("differences/1/2/3", 404)],
)
def test_names_of_nothing_are_told_from_no_names(site: Site, path: str, status: int) -> None:
    assert site.get(path, status)["detail"]


def test_a_schema_mismatch_says_both_schemas(site: Site) -> None:
    """RE14: it fails before any scan."""
    site.rounds.declare("R1", rows(1))
    site.rounds.declare("R2", rows(1), columns=Rounds.columns_with("extra", "string"))
    number = site.rounds.start(definition())
    found = site.get(f"sessions/{number}")
    assert (found["state"], found["code"], found["segments"]) == ("FAILED", "SCHEMA_MISMATCH", 0)
    assert "extra" in found["message"]
    assert "--columns" in site.get(f"sessions/{number}/explain")["facts"]["what helps"]


def test_lists_are_cut_into_pages_that_fit_together(site: Site) -> None:
    """Cursors: every step once, whatever the size of a page."""
    differing_tables(site.rounds)
    for _ in range(2):
        site.rounds.run(site.rounds.start(definition(policy=Policy.PULL, source="R1")))
    for path in ("trees", "sessions", "differences"):
        whole = site.get(path, limit=1_000)
        key = "number" if path == "sessions" else "name"
        found, cursor = [], None
        while True:
            given = {"limit": "1", **({"cursor": cursor} if cursor else {})}
            page = site.client.get(f"{MAIN}/{path}", params=given).json()
            found += [each[key] for each in page["items"]]
            cursor = page["next"]
            if not cursor:
                break
        assert found == [each[key] for each in whole]
        assert len(found) == len(set(found)) > 1


def test_metrics_say_what_differs_and_since_when_all_was_well(site: Site) -> None:
    """OP25: the age of the last success and the outcome, of every table."""
    differing_tables(site.rounds)
    site.rounds.run(site.rounds.start(definition()))
    running = site.rounds.start(definition())
    site.rounds.settle()
    site.chronicle.now_ms += 60_000
    site.step()
    told = site.client.get("/metrics").text
    assert 'topolog_projection_table_rows_differ{cluster="main",table="orders"} 3.0' in told
    assert 'topolog_projection_open_sessions{cluster="main"} 1.0' in told
    assert "table_verified_seconds{" not in told
    site.rounds.abort(running)
    whole = rows(1)
    for name in ("R1", "R2"):
        site.rounds.declare(name, whole)
    site.rounds.run(site.rounds.start(definition()))
    site.chronicle.now_ms += 60_000
    site.step()
    told = site.client.get("/metrics").text
    assert 'table_rows_differ{cluster="main",table="orders"} 0.0' in told
    verified = next(line for line in told.splitlines() if line.startswith("topolog_projection_table_verified_seconds{"))
    assert 60 <= float(verified.rpartition(" ")[2]) < 120
