"""Keys that differ, as a projector keeps them from the topic `trees`: which, how many, for how long."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.conftest import MakeProjector
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows, union_definition
from tests.unit.projections.serving import served

from topolog.events.codec import CODEC
from topolog.events.ids import Offset, Position
from topolog.events.log import Entry
from topolog.events.repair_definition import Policy
from topolog.events.repair_plan import Difference, Version
from topolog.events.repair_tasks import TaskId
from topolog.events.topics import PLANS, Topic
from topolog.events.tree_pages import PageKind, TreePage, digest_of
from topolog.projections import findings
from topolog.projections.findings import KEYS_MAX, SESSIONS_MAX, findings_write
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.sides import FindingsBodyRow, FindingsRow

Json = dict[str, Any]
DIFFERENCES = "/v1/clusters/main/differences"


@pytest.fixture
def rounds(chronicle: Chronicle) -> Rounds:
    chronicle.join("n1")
    return Rounds(chronicle)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client


def listed(projector: Projector, client: Client, expected: int = 200, **parameters: str | int) -> list[Json]:
    while projector.step():
        pass
    answer = client.get(DIFFERENCES, params=parameters)
    assert answer.status_code == expected, answer.text
    found: list[Json] = answer.json().get("items", [])
    return found


def difference(key: int) -> Difference:
    return Difference(f"[{key}]", key, (Version(("R1",), key, 0, None, False),), ("R2",))


def entry(
    offset: int, session: int, step: int, page: int, keys: range, *, last: bool = True, segment: int = 0
) -> Entry:
    payload = msgspec.msgpack.encode([difference(key) for key in keys])
    task = TaskId(Position(session), segment, step, "", 0)
    value = CODEC.encode(TreePage(task, 7, bytes(16), PageKind.FINDINGS, page, last, payload))
    return Entry(Topic.TREES, 0, Offset(offset), "k", value, (), 1_000 + offset)


def held(*entries: Entry) -> tuple[dict[str, FindingsRow], dict[str, FindingsBodyRow]]:
    """What is held after these entries, each written by itself."""
    heads: dict[str, FindingsRow] = {}
    bodies: dict[str, FindingsBodyRow] = {}
    for each in entries:
        for (_, key), row in findings_write(heads.values(), [each]).items():
            if isinstance(row, FindingsRow):
                heads[key] = row
            elif isinstance(row, FindingsBodyRow):
                bodies[key] = row
            else:
                heads.pop(key, None)
                bodies.pop(key, None)
    assert heads.keys() == bodies.keys()
    assert all(len(bodies[key].differences) == row.kept for key, row in heads.items())
    return heads, bodies


def test_each_key_says_who_has_what_and_what_the_plan_does(
    rounds: Rounds, projector: Projector, client: Client
) -> None:
    """RE2; a conflict is left alone with its reason."""
    differing_tables(rounds)
    number = rounds.start(union_definition())
    rounds.run(number)
    changed, missing, conflict = listed(projector, client)
    assert (changed["name"], changed["key"], changed["kind"]) == (f"{number}/0/0", "[7]", "CHANGED")
    assert [(each["replicas"], each["version"]) for each in changed["versions"]] == [(["R1"], "2"), (["R2"], "1")]
    assert (changed["source"], changed["targets"], changed["left_alone"]) == ("R1", ["R2"], "")
    assert (missing["kind"], missing["missing"], missing["token"]) == ("MISSING", ["R2"], "08000005")
    assert (conflict["left_alone"], conflict["targets"]) == ("CONFLICT", [])
    assert client.get(f"{DIFFERENCES}/{number}/0/1").json()["item"] == missing
    assert [each["key"] for each in listed(projector, client, kind="MISSING", session=number)] == ["[8]"]
    assert [each["key"] for each in listed(projector, client, replica="R2")] == ["[7]", "[8]"]


def test_an_extra_row_is_never_to_be_deleted_unless_that_was_asked_for(
    rounds: Rounds, projector: Projector, client: Client
) -> None:
    """RE2."""
    rounds.declare("R1", rows(1))
    rounds.declare("R2", rows(1, 200))
    rounds.run(rounds.start(definition(policy=Policy.PULL, source="R1")))
    rounds.run(rounds.start(definition(policy=Policy.PULL, source="R1", deletes_extra=True)))
    deleted, left = listed(projector, client)
    assert (deleted["kind"], deleted["deletes"], deleted["targets"]) == ("EXTRA", True, ["R2"])
    assert (left["kind"], left["deletes"], left["targets"], left["left_alone"]) == ("EXTRA", False, [], "EXTRA")


def test_they_have_no_past(rounds: Rounds, projector: Projector, client: Client) -> None:
    differing_tables(rounds)
    rounds.run(rounds.start(definition()))
    listed(projector, client)
    answer = client.get(DIFFERENCES, params={"as_of": 3})
    assert (answer.status_code, "no past" in answer.json()["detail"]) == (400, True)


def test_pages_that_the_log_does_not_speak_of_are_not_believed(
    rounds: Rounds, projector: Projector, client: Client
) -> None:
    """Somebody else writes a page in the place of one that was compared: nothing is shown rather than that."""
    differing_tables(rounds)
    number = rounds.start(definition())
    rounds.run(number)
    assert len(listed(projector, client)) == 3
    forged = entry(0, number, rounds_step(projector, number), 0, range(1), last=False)
    rounds.chronicle.log.put(Topic.TREES, "k", forged.value, ())
    assert listed(projector, client) == []


def rounds_step(projector: Projector, number: int) -> int:
    with projector.reading() as reading:
        return next(row.step for _, row in reading.sides(FindingsRow) if row.session == number)


def test_what_is_kept_outlives_the_process(rounds: Rounds, make_projector: MakeProjector) -> None:
    """Rows and the offset up to which the topic is read are one write."""
    differing_tables(rounds)
    rounds.run(rounds.start(definition()))
    before = make_projector()
    while before.step():
        pass
    with before.reading() as reading:
        rows_before = list(reading.sides(FindingsRow))
    after = make_projector()
    while after.step():
        pass
    with after.reading() as reading:
        assert list(reading.sides(FindingsRow)) == rows_before
        assert len(rows_before) == 2


def test_pages_go_when_their_topic_has_dropped_them(rounds: Rounds, make_projector: MakeProjector) -> None:
    differing_tables(rounds)
    rounds.run(rounds.start(definition()))
    projector = make_projector()
    while projector.step():
        pass
    kept_ms = next(plan.retention_ms for plan in PLANS if plan.topic is Topic.TREES)
    rounds.chronicle.now_ms += kept_ms + 60_000
    projector = make_projector()
    projector.step()
    projector.step()
    with projector.reading() as reading:
        assert list(reading.sides(FindingsRow)) == []
        assert list(reading.sides(FindingsBodyRow)) == []


def test_of_a_session_only_the_first_keys_are_kept() -> None:
    """Two tables with nothing in common: the rest is counted, and whole pages are still known to be whole."""
    most = KEYS_MAX - 10
    heads, _ = held(entry(0, 9, 3, 0, range(most), last=False), entry(1, 9, 3, 1, range(most, most + 100)))
    assert [(row.rows, row.kept) for _, row in sorted(heads.items())] == [(most, most), (100, 10)]
    payloads = [
        msgspec.msgpack.encode([difference(key) for key in keys]) for keys in (range(most), range(most, most + 100))
    ]
    assert findings.digest_of([row for _, row in sorted(heads.items())]) == digest_of(payloads)


def test_pages_that_are_not_whole_have_no_digest() -> None:
    heads, _ = held(entry(0, 9, 3, 1, range(3)))
    assert findings.digest_of(list(heads.values())) is None
    heads, _ = held(entry(0, 9, 3, 0, range(3), last=False))
    assert findings.digest_of(list(heads.values())) is None
    assert findings.digest_of([]) is None


def test_a_newer_comparison_takes_the_place_of_an_older_one() -> None:
    """RECHECK looks at the same rows again; a late page of the comparison before changes nothing."""
    old, new, late = entry(0, 9, 3, 0, range(5)), entry(1, 9, 5, 0, range(2)), entry(2, 9, 3, 1, range(5))
    heads, bodies = held(old, new, late)
    assert [(row.step, row.kept) for row in heads.values()] == [(5, 2)]
    other = entry(3, 9, 3, 0, range(4), segment=1)
    assert len(held(old, new, other)[0]) == 2
    assert [len(each.differences) for each in bodies.values()] == [2]


def test_a_page_that_comes_again_is_the_same_row() -> None:
    """The rendezvous was started again."""
    first = entry(0, 9, 3, 0, range(KEYS_MAX))
    heads, _ = held(first, first)
    assert [row.kept for row in heads.values()] == [KEYS_MAX]


def test_only_the_newest_sessions_are_kept() -> None:
    entries = [entry(number, number, 3, 0, range(2)) for number in range(SESSIONS_MAX + 5)]
    heads, _ = held(*entries)
    assert sorted(row.session for row in heads.values()) == list(range(5, SESSIONS_MAX + 5))
    assert held(*entries, entry(99, 1, 3, 0, range(2)))[0] == heads


@pytest.mark.parametrize(
    ("payload", "session", "page"),
    [
        (b"no msgpack", 9, 0),
        (msgspec.msgpack.encode([1, 2]), 9, 0),
        (b"\x90", -1, 0),
        (b"\x90", 9, -1),
        (b"\x90", 9, 10**9),
    ],
)
def test_what_is_no_page_of_findings_is_passed_over(payload: bytes, session: int, page: int) -> None:
    """Anybody who may write to the topic writes anything."""
    task = TaskId(Position(session), 0, 3, "", 0)
    value = CODEC.encode(TreePage(task, 7, bytes(16), PageKind.FINDINGS, page, True, payload))
    for each in (value, b"\x00\x01", payload):
        assert findings_write([], [Entry(Topic.TREES, 0, Offset(0), "k", each, (), 1)]) == {}
