"""The page of a session: strips of the ring that say where replicas differ, and the overview that leads to it."""

import re
from collections.abc import Iterator

import pytest
from httpx import Client
from tests.unit.projections.answering import AnsweringWriter
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows, union_definition
from tests.unit.projections.serving import served

from topolog.events.ids import Position
from topolog.events.repair_definition import SessionKind
from topolog.events.repair_tasks import Pair, Purpose, TaskKind
from topolog.events.token_range import RING, TokenRange
from topolog.projections import sessions
from topolog.projections.projector import Projector
from topolog.projections.requester import Requester
from topolog.projections.session_course import course
from topolog.projections.web.heat import Cell
from topolog.projections.web.session_picture import CELLS, cells, compared_pairs

RING_RANGE = [TokenRange(0, RING)]


@pytest.fixture
def rounds(chronicle: Chronicle) -> Rounds:
    chronicle.join("n1")
    return Rounds(chronicle)


@pytest.fixture
def client(chronicle: Chronicle, projector: Projector) -> Iterator[Client]:
    with served(projector, Requester(AnsweringWriter(chronicle, projector), "api-1", "broker:9092")) as client:
        yield client


def page(projector: Projector, client: Client, path: str = "/", **parameters: str | int) -> str:
    while projector.step():
        pass
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", answer.text)


def strips(html: str) -> dict[str, str]:
    """What each strip says in words, by its name."""
    return dict(re.findall(r'aria-label="([^":]+): ([^"]+)"', html))


def test_a_pair_has_a_strip_and_the_same_in_words(rounds: Rounds, projector: Projector, client: Client) -> None:
    """OP21: a text equivalent of each picture."""
    differing_tables(rounds)
    number = rounds.start(union_definition(segments=2), reason="to see")
    rounds.run(number)
    html = page(projector, client, f"/clusters/main/sessions/{number}")
    assert f"Session {number} (preview of orders) succeeded" in html
    assert strips(html) == {
        "segments": "1 different, 1 equal",
        "R1 – R2": "3 of 9 leaves differ, with 3 rows in them",
        "0": "different; 3 rows differ; differs in 07000000..0a000000",
        "1": "equal",
    }
    assert '<rect x="28.0" width="12.0" height="16" class="differs4"/>' in html
    assert "two contents have the same version" in html
    assert "<code>[8]</code>" in html


def test_a_repair_shows_what_is_left_after_it(rounds: Rounds, projector: Projector, client: Client) -> None:
    rounds.declare("R1", {**rows(1), 7: ("new", 2)})
    rounds.declare("R2", {**rows(1), 7: ("old", 1)})
    preview = rounds.start(union_definition())
    rounds.run(preview)
    number = rounds.start(union_definition(SessionKind.REPAIR, preview=Position(preview)))
    rounds.run(number)
    html = page(projector, client, f"/clusters/main/sessions/{number}")
    assert "R1 – R2, after the repair" in html
    assert "The replicas agree now: 1 row written." in html
    assert 'class="sentence ok"' in html


def test_a_session_that_runs_asks_for_itself_again(rounds: Rounds, projector: Projector, client: Client) -> None:
    differing_tables(rounds)
    number = rounds.start(definition())
    row = rounds.run_until(number, TaskKind.LEAVES)
    rounds.report(row, "R2", rows=2, bytes_=100)
    html = page(projector, client, f"/clusters/main/sessions/{number}")
    assert 'data-refresh="3"' in html
    assert "<td>R2</td><td>leaves, compare</td>" in html
    assert "No two trees have been compared yet." in html
    middle = rounds.chronicle.position
    rounds.run(number)
    then = page(projector, client, f"/clusters/main/sessions/{number}", as_of=middle)
    assert ("the past" in then, 'data-refresh="0"' in then) == (True, True)


@pytest.mark.parametrize(("name", "status"), [("x", 400), ("999", 404), ("-1", 400), ("1/2", 400)])
def test_a_page_of_no_session_says_so(
    rounds: Rounds, projector: Projector, client: Client, name: str, status: int
) -> None:
    rounds.declare("R1", rows(1))
    page(projector, client)
    answer = client.get(f"/clusters/main/sessions/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_what_a_stranger_has_named_is_text(rounds: Rounds, projector: Projector, client: Client) -> None:
    """Names of tables and reasons come from anybody."""
    name = "<script>alert(1)</script>"
    for replica in ("R1", "<b>"):
        rounds.declare(replica, rows(1), table=name)
    number = rounds.start(definition(name), reason=name)
    rounds.run(number)
    for path in ("/", f"/clusters/main/sessions/{number}"):
        html = page(projector, client, path)
        assert "<script>alert" not in html
        assert "&lt;script&gt;" in html


def test_the_overview_says_which_session_runs_and_leads_to_it(
    rounds: Rounds, projector: Projector, client: Client
) -> None:
    differing_tables(rounds)
    assert "Do replicas agree" not in page(projector, client)
    number = rounds.start(definition())
    rounds.run_until(number, TaskKind.LEAVES)
    html = page(projector, client)
    assert f"session {number} compares replicas of orders, 5 %" in html
    assert f'<a href="/clusters/main/sessions/{number}">{number}</a>' in html
    assert 'class="sentence busy"' in html
    rounds.alter(number, paused=True)
    assert f"session {number} compares replicas of orders, paused" in page(projector, client)
    rounds.abort()
    html = page(projector, client)
    assert f"session {number} compares" not in html
    assert "aborted" in html


def test_the_overview_is_not_flooded_by_the_steps_of_sessions(
    rounds: Rounds, projector: Projector, client: Client
) -> None:
    differing_tables(rounds)
    rounds.run(rounds.start(definition(segments=8)))
    html = page(projector, client)
    assert "a replica is asked" not in html
    assert "<b>node n1</b>" in html


def test_finer_leaves_take_the_place_of_coarse_ones(rounds: Rounds, projector: Projector) -> None:
    """What is looked at in more detail is still compared in whole."""
    differing_tables(rounds)
    number = rounds.start(definition())
    rounds.run(number)
    while projector.step():
        pass
    with projector.reading() as reading:
        taken = course(reading, sessions.surely(reading, str(number)))
    found = compared_pairs(taken, Purpose.COMPARE)["R1", "R2"]
    assert [(each.segment, each.within, each.pair.leaves) for each in found] == [(0, (RING_RANGE[0],), 3)]
    assert isinstance(found[0].pair, Pair)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ([], []),
        ([(RING_RANGE[0], "a")], [Cell(0, CELLS, "a")]),
        ([(RING_RANGE[0], "a"), (TokenRange(0, 1), "b")], [Cell(0, 1, "b"), Cell(1, CELLS - 1, "a")]),
        ([(TokenRange(RING - 1, RING), "b")], [Cell(CELLS - 1, 1, "b")]),
        ([(TokenRange(1 << 24, 3 << 24), "b")], [Cell(1, 2, "b")]),
    ],
)
def test_a_cell_has_what_lies_in_it(about: list[tuple[TokenRange, str]], expected: list[Cell]) -> None:
    """One token is seen, at either end of the ring."""
    assert list(cells(RING_RANGE, about)) == expected


def test_a_strip_of_a_few_tokens_is_drawn() -> None:
    few = [TokenRange(7, 9)]
    assert list(cells(few, [(few[0], "a")])) == [Cell(0, 2, "a")]
