"""What waits: all that is open in the state and nothing that is over; whom it waits for, until when at the latest."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.projections.chronicle import FENCE_MS, Chronicle
from tests.unit.projections.simulated import reading_of

from topolog.events.awaited import unheard
from topolog.events.baseline import ClusterStateRow
from topolog.events.drains import DrainRow
from topolog.events.errors import NotFound
from topolog.events.exchange import ExchangeRow, HandOverRow, QueueRow, newest_exchange
from topolog.events.ids import Position, TopologyVersion
from topolog.events.leases import NodeKind, NodeRow, Standing
from topolog.events.log import InMemoryLog
from topolog.events.membership import Joiner, NodeJoined, WaitingJoinRow
from topolog.events.metadata import ProposalRow, RemovalRow
from topolog.events.objects import ChangeRow
from topolog.events.ownership import lost_in
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import OutcomeRow
from topolog.events.sessions import SessionRow
from topolog.events.state import State
from topolog.events.terms import cluster
from topolog.events.views import REFUSED_KINSHIPS
from topolog.projections import explain_cluster, pending
from topolog.projections.pending_resources import Pending
from topolog.projections.projector import Projector
from topolog.projections.store import Reading
from topolog.streams.rules.verdict import holders

PLACES = 12
"""Positions of each history that are looked at."""

ALWAYS = {"SILENT", "LOADING", "PAUSED", "ACTIVATION", "ADJUSTMENT", "SCHEDULE", "COORDINATOR"}
"""Kinds that are told from more than one row, and have tests of their own."""


def open_in(state: State) -> Iterator[str]:
    """What is open, straight from the rows: the names that must be told, and no others."""
    yield from (f"join/{row.joiner.node}" for _, row in state.rows(WaitingJoinRow))
    yield from (f"removal/{row.node}" for _, row in state.rows(NodeRow) if row.standing is Standing.STOPPING)
    yield from (f"proposal/{row.name}/{row.version}" for _, row in state.rows(ProposalRow))
    yield from (f"type-removal/{row.name}" for _, row in state.rows(RemovalRow))
    yield from (f"exchange/{row.version}" for _, row in state.rows(ExchangeRow) if row.completed_at is None)
    missed, newest = unheard(state), newest_exchange(state)
    if missed is not None and missed.servers and newest is not None and newest.completed_at is not None:
        yield f"exchange/{newest.version}"
    yield from (f"queue/{row.triggers[0].version}" for _, row in state.rows(QueueRow))
    yield from (f"hand-over/{row.prepared_at}" for _, row in state.rows(HandOverRow))
    yield from (f"change/{row.number}" for _, row in state.rows(ChangeRow) if row.is_open)
    yield from (f"deletion/{row.number}" for _, row in state.rows(ChangeRow) if row.undeleted)
    yield from (f"drain/{row.node}" for _, row in state.rows(DrainRow) if row.finished_at is None)
    yield from (f"session/{row.number}" for _, row in state.rows(SessionRow) if not row.status.is_end)
    yield from (f"terms/{former.changed_at}" for former in [cluster(state).former] if former)
    yield from (f"state/{row.target.value}" for _, row in state.rows(ClusterStateRow) if row.target)
    yield from (f"cold/{row.cold_at}" for _, row in state.rows(ClusterStateRow) if row.cold_at is not None)
    yield from {f"lost/{row.group}" for _, row in state.rows(OwnershipRow) if lost_in(row)}


def refused_in(state: State) -> Iterator[str]:
    """Nodes of which the last that is known is that their disk is of another history."""
    for _, row in state.rows(OutcomeRow):
        node = state.get(NodeRow, row.subject.removeprefix("node "))
        if row.code in REFUSED_KINSHIPS and (node is None or node.joined_at < row.position):
            yield row.subject.removeprefix("node ")


def verdict_on(state: State, each: Pending) -> Position | None:
    """The position whose verdict ends it, if one does."""
    kind, _, name = each.name.partition("/")
    if kind == "change":
        row = state.get(ChangeRow, name)
        return row.prepared_at if row else None
    return Position(each.since) if kind in ("proposal", "type-removal", "state") else None


@pytest.mark.parametrize("log", range(12), indirect=True)
def test_all_that_is_open_is_told_and_nothing_that_is_over(log: InMemoryLog, tmp_path: Path) -> None:
    """Against the rows of the state, now and in the past; whom a verdict waits for is as its own rule has it."""
    with reading_of(log, tmp_path) as newest:
        chance = random.Random(int(newest.position))
        places = sorted(chance.sample(range(2, newest.position), PLACES))
        for reading in (newest, *(newest.as_of(place) for place in places)):
            found, state = pending.pending(reading, 0), reading.state()
            told = [each.name for each in found if each.kind not in ALWAYS]
            assert len(set(told)) == len(told)
            refused = {f"refused-join/{node}" for node in refused_in(state)} if reading.is_current else set()
            assert set(told) == {*open_in(state), *refused}
            for each in found:
                check(state, reading, each)


def check(state: State, reading: Reading, each: Pending) -> None:
    """What holds of everything that waits."""
    assert 0 <= each.since <= reading.position
    assert each.ends
    assert (each.at_most_ms is None) == each.ends.startswith(("at no fixed time", "when", "at once")), each
    assert pending.told(each) == f"{each.sentence} It ends {each.ends}."
    assert 1 <= len(each.next) <= 3
    assert all(command.startswith("topolog ") for command in each.next)
    if not reading.is_current:
        assert all(held.heard_ms is None for held in each.waits_for)
    position = verdict_on(state, each)
    if position is not None:
        asked = holders(state, position)
        assert {held.node for held in each.waits_for} == {row.node for row in asked}


def read(projector: Projector, as_of: int | None = None) -> list[Pending]:
    while projector.step():
        pass
    with projector.reading() as reading:
        return pending.pending(reading if as_of is None else reading.as_of(as_of), 0)


def test_what_no_time_ends_says_why(chronicle: Chronicle, projector: Projector) -> None:
    """A server that does not fence itself must answer: no time proves that it has stopped."""
    chronicle.join("n1")
    slot, view = cluster(chronicle.fold.state).next_slot, TopologyVersion(9, 0)
    joiner = Joiner("n2", 1, NodeKind.SERVER, "n2:7000", {}, ())
    chronicle.decide(NodeJoined(chronicle.ref(), joiner, slot, view))
    chronicle.propose("Customer", {"id": "long"})
    (found,) = [each for each in read(projector) if each.kind == "PROPOSAL"]
    assert [held.node for held in found.waits_for] == ["n2", "n1"]
    assert found.at_most_ms is None
    assert found.ends == "at no fixed time, because n2 must answer or be removed, for it does not fence itself"
    assert [(held.at_most_ms or 0) <= FENCE_MS + 5_000 for held in found.waits_for] == [True, True]


def test_the_past_says_what_waited_then(chronicle: Chronicle, projector: Projector) -> None:
    chronicle.join("n1")
    proposed = chronicle.propose("Customer", {"id": "long"})
    chronicle.accept("Customer", "n1")
    assert [each.name for each in read(projector, proposed)] == ["proposal/Customer/1"]
    assert not [each for each in read(projector) if each.kind == "PROPOSAL"]


def test_one_is_found_by_its_name_until_it_is_over(chronicle: Chronicle, projector: Projector) -> None:
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    read(projector)
    with projector.reading() as reading:
        assert pending.named(reading, 0, "proposal/Customer/1").kind == "PROPOSAL"
        with pytest.raises(NotFound) as raised:
            pending.named(reading, 0, "proposal/Customr/1")
        assert "Did you mean proposal/Customer/1?" in raised.value.hint


def test_the_worst_comes_first_and_the_cluster_tells_of_it(chronicle: Chronicle, projector: Projector) -> None:
    """A join that waits for a lease stands before a version that is proposed."""
    chronicle.join("n1")
    chronicle.propose("Customer", {"id": "long"})
    chronicle.wait_to_join("n1")
    found = [each for each in read(projector) if each.kind != "SILENT"]
    assert [each.kind for each in found] == ["JOIN", "PROPOSAL"]
    with projector.reading() as reading:
        explained = explain_cluster.explain_cluster(reading, 0)
    assert "pending: join/n1" in explained.facts
    assert "topolog get pending" in explained.next
