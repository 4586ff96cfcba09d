"""How tables stand after all their sessions: RE11, and alarms that neither lie nor forget."""

from collections.abc import Callable

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables, rows

from topolog.events.ids import Position
from topolog.events.repair_definition import Policy, SessionKind
from topolog.events.repair_tasks import TaskKind
from topolog.events.token_range import RING, TokenRange
from topolog.events.tree_spec import TokenMode
from topolog.projections.projector import Projector
from topolog.projections.verified_tables import TableVerified, tables

LOW, HIGH = (TokenRange(0, 1 << 31),), (TokenRange(1 << 31, 1 << 32),)
ELSEWHERE = (TokenRange(0x20000000, 0x40000000),)

Orders = Callable[[], TableVerified]


@pytest.fixture
def rounds(chronicle: Chronicle) -> Rounds:
    chronicle.join("n1")
    return Rounds(chronicle)


@pytest.fixture
def orders(projector: Projector) -> Orders:
    def told() -> TableVerified:
        while projector.step():
            pass
        with projector.reading() as reading:
            return tables(reading)["orders"]

    return told


def _ran(rounds: Rounds, **said: object) -> int:
    number = rounds.start(definition("orders", **said))
    rounds.run(number)
    return number


def _repaired(rounds: Rounds, preview: int, **said: object) -> None:
    _ran(rounds, kind=SessionKind.REPAIR, policy=Policy.PULL, source="R1", preview=Position(preview), **said)


def _three_equal(rounds: Rounds) -> None:
    for name, datacenter in (("R1", "ams"), ("R2", "ams"), ("R3", "ber")):
        rounds.declare(name, rows(1, 2, 200), datacenter=datacenter)


@pytest.mark.parametrize(
    "part",
    [{"datacenter": "ams"}, {"replicas": ("R1", "R2")}, {"ranges": LOW}, {"columns": ("id", "note")}],
    ids=repr,
)
def test_a_session_of_a_part_verifies_no_table(rounds: Rounds, orders: Orders, part: dict[str, object]) -> None:
    """RE11."""
    _three_equal(rounds)
    _ran(rounds, **part)
    assert orders().verified_ms is None
    _ran(rounds)
    rounds.chronicle.now_ms += 60_000
    before = orders().verified_ms
    _ran(rounds, **part)
    now = orders().verified_ms
    assert before is not None
    assert now is not None
    assert now >= before >= 60_000


def test_a_preview_that_found_differences_verifies_no_table(rounds: Rounds, orders: Orders) -> None:
    differing_tables(rounds)
    _ran(rounds)
    assert orders() == TableVerified(3, None)


def test_parts_that_make_up_a_table_verify_it_since_the_oldest_of_them(rounds: Rounds, orders: Orders) -> None:
    _three_equal(rounds)
    _ran(rounds, ranges=LOW)
    rounds.chronicle.now_ms += 60_000
    _ran(rounds, ranges=HIGH)
    verified_ms = orders().verified_ms
    assert verified_ms is not None
    assert 60_000 <= verified_ms < 120_000


def test_what_is_repaired_is_verified_with_the_rest_of_its_preview(rounds: Rounds, orders: Orders) -> None:
    differing_tables(rounds)
    preview = _ran(rounds)
    _repaired(rounds, preview)
    found = orders()
    assert found.rows_differ == 0
    assert found.verified_ms is not None


@pytest.mark.parametrize("part", [{"ranges": ELSEWHERE}, {"replicas": ("R1", "R3")}, {"datacenter": "ams"}], ids=repr)
def test_a_newer_session_that_looked_elsewhere_hides_no_difference(
    rounds: Rounds, orders: Orders, part: dict[str, object]
) -> None:
    differing_tables(rounds)
    rounds.declare("R3", rounds.tables["orders"]["R1"], datacenter="ams")
    _ran(rounds)
    _ran(rounds, **part)
    assert orders().rows_differ == 3


def test_a_session_that_is_aborted_hides_no_difference(rounds: Rounds, orders: Orders) -> None:
    differing_tables(rounds)
    _ran(rounds)
    number = rounds.start(definition())
    rounds.run_until(number, TaskKind.LEAVES)
    rounds.abort(number)
    assert orders().rows_differ == 3


def test_of_ranges_that_are_equal_again_the_rows_no_longer_count(rounds: Rounds, orders: Orders) -> None:
    differing_tables(rounds)
    preview = _ran(rounds)
    _repaired(rounds, preview)
    rounds.declare("R2", {**rounds.tables["orders"]["R2"], 200: ("alone", 1), 201: ("alone", 1)})
    _ran(rounds)
    assert orders().rows_differ == 2
    _ran(rounds, ranges=(TokenRange(200 << 24, 201 << 24),))
    assert orders().rows_differ == 2
    rounds.tables["orders"]["R1"][200] = ("alone", 1)
    _ran(rounds, ranges=(TokenRange(200 << 24, 201 << 24),))
    assert orders().rows_differ == 1


def test_a_part_of_other_tokens_is_other_rows(rounds: Rounds, orders: Orders) -> None:
    """A difference by hashed tokens is seen again by the same tokens, or by all of any."""
    differing_tables(rounds)
    for name, held in dict(rounds.tables["orders"]).items():
        rounds.declare(name, held, boundaries=("100", "200"))
    _ran(rounds)
    rounds.tables["orders"]["R2"] = dict(rounds.tables["orders"]["R1"])
    both = (*LOW, TokenRange(1 << 31, RING - 1))
    _ran(rounds, ranges=both, mode=TokenMode.ORDERED)
    assert orders().rows_differ == 3
    _ran(rounds, mode=TokenMode.ORDERED)
    assert orders().rows_differ == 0


def test_a_replica_that_is_new_is_not_verified(rounds: Rounds, orders: Orders) -> None:
    _three_equal(rounds)
    _ran(rounds)
    assert orders().verified_ms is not None
    rounds.declare("R4", rows(1), ranges=LOW)
    assert orders().verified_ms is None
