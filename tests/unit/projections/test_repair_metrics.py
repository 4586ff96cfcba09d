"""What Prometheus is told of repairs (OP25): ranges by state, the last success, leaves that differ."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.repairing import Rounds, definition, differing_tables

from topolog.events.repair_definition import Policy, SessionKind
from topolog.projections.api.metrics import ProjectionMetrics
from topolog.projections.projector import Projector

Value = Callable[..., float | None]


@pytest.fixture
def rounds(chronicle: Chronicle) -> Rounds:
    chronicle.join("n1")
    rounds = Rounds(chronicle)
    differing_tables(rounds)
    return rounds


@pytest.fixture
def value(projector: Projector) -> Value:
    registry = CollectorRegistry()
    registry.register(ProjectionMetrics(projector))

    def told(name: str, **labels: str) -> float | None:
        while projector.step():
            pass
        return registry.get_sample_value(f"topolog_{name}", {"cluster": "main", **labels})

    return told


def test_ranges_are_those_of_open_sessions(rounds: Rounds, value: Value) -> None:
    """Nothing is told to be done that is not: a session that has ended has no ranges any more."""
    assert value("repair_ranges", state="RUNNING") == 0
    number = rounds.start(definition("orders"))
    assert value("repair_ranges", state="RUNNING") == 1
    rounds.run(number)
    assert value("repair_ranges", state="RUNNING") == 0
    assert value("repair_sessions", state="SUCCEEDED") == 1
    assert value("repair_sessions", state="FAILED") == 0


def test_a_success_has_its_time_and_what_differs_its_leaves(rounds: Rounds, value: Value, chronicle: Chronicle) -> None:
    """By table; before any session of a table nothing is told of it."""
    assert value("repair_last_success_timestamp_seconds", table="orders") is None
    assert value("merkle_diff_leaves", table="orders") is None
    number = rounds.start(definition("orders"))
    rounds.run(number)
    ended_s = value("repair_last_success_timestamp_seconds", table="orders")
    assert ended_s is not None
    assert chronicle.now_ms / 1000 - 10 < ended_s <= chronicle.now_ms / 1000
    assert value("merkle_diff_leaves", table="orders") == 3, "each row has a leaf of its own"


def test_leaves_that_were_repaired_differ_no_more(rounds: Rounds, value: Value) -> None:
    """By the comparison that verified the repair, not by the one that found what was to be repaired."""
    number = rounds.start(definition("orders", kind=SessionKind.REPAIR, policy=Policy.PULL, source="R1"))
    rounds.run(number)
    assert value("repair_sessions", state="SUCCEEDED") == 1
    assert value("merkle_diff_leaves", table="orders") == 0


def test_a_session_that_is_aborted_is_no_success(rounds: Rounds, value: Value) -> None:
    number = rounds.start(definition("orders"))
    rounds.abort(number)
    assert value("repair_last_success_timestamp_seconds", table="orders") is None
    assert value("repair_sessions", state="ABORTED") == 1
