"""The verdict on a change: TA15 to TA21, and servers that cannot apply it (docs/design/tables.md).

An own term that is over (K6) is the coordinator's (`tests/unit/streams/coordinator/test_schema.py`).
"""

import pytest
from tests.unit.streams.rules.changing import (
    Changing,
    add,
    alter,
    cancellation,
    change,
    database,
    table,
)
from tests.unit.streams.rules.cluster import node_removal

from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.evidence import Evidence
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.objects import (
    ChangeStatus,
    ObjectStatus,
    SchemaChangeCommitted,
    SchemaChangeRolledBack,
)
from topolog.streams.rules import objects


def prepared(*servers: str) -> tuple[Changing, Position]:
    """A column is being added; gives the change's number, which is the position of its preparation."""
    found = Changing(*(servers or ("n1", "n2", "n3")))
    found.make(database(), table())
    found.ask(change(alter("shop.orders", add("note")), deadline_ms=1_000))
    return found, found.position


def committed(decided: list[Decision]) -> list[tuple[tuple[Position, ...], Evidence]]:
    return [(each.changes, each.evidence) for each in decided if isinstance(each, SchemaChangeCommitted)]


def rolled_back(decided: list[Decision]) -> list[tuple[int, str, str]]:
    return [(each.change, each.code, each.rule) for each in decided if isinstance(each, SchemaChangeRolledBack)]


def nodes(*names: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, names))


# TA19: a server that cannot apply it.


def test_a_server_that_cannot_apply_it_ends_it_although_all_others_have() -> None:
    """TA19: the decision says who, and why."""
    found, number = prepared()
    found.apply("n1", "n2")
    (decided,) = found.block("n3", number)
    assert isinstance(decided, SchemaChangeRolledBack)
    assert (decided.code, decided.rule) == ("BLOCKED", "TA19")
    assert decided.facts == {"node": "n3", "code": "NO_CODEC", "message": "cannot"}
    assert found.object("shop.orders").status is ObjectStatus.USING


def test_a_server_that_says_so_together_with_its_report_is_blocked() -> None:
    """TA19 before TA15: its heartbeat names the position as applied, for it has read it."""
    found, number = prepared()
    for node in nodes("n1", "n2", "n3"):
        found.applied[node] = Incarnation(1), number
    assert rolled_back(found.block("n2", number)) == [(number, "BLOCKED", "TA19")]


def test_a_block_that_comes_behind_the_commit_changes_nothing() -> None:
    """TA14: a change ends once."""
    found, number = prepared()
    assert committed(found.apply()) == [((number,), Evidence(applied=nodes("n1", "n2", "n3")))]
    assert found.block("n3", number) == []
    assert found.change(number).status is ChangeStatus.COMMITTED


def test_a_block_of_a_former_life_says_nothing() -> None:
    """TA19 is about live members."""
    found, number = prepared()
    assert found.block("n3", number, incarnation=7) == []
    assert found.change(number).status is ChangeStatus.PREPARED


def test_a_block_of_a_server_that_has_left_says_nothing() -> None:
    """TA19, TA15: what has left holds nothing."""
    found, number = prepared()
    found.leave("n3")
    assert found.block("n3", number) == []
    assert committed(found.apply("n1", "n2")) == [((number,), Evidence(nodes("n1", "n2"), left=nodes("n3")))]


def test_a_server_that_is_blocked_at_one_change_is_no_evidence_for_later_ones() -> None:
    """TA19: it says one position, the first; what it can do with later ones it says when that one is over."""
    found, number = prepared()
    found.ask(change(table("shop.more")))
    later = found.position
    for node in nodes("n1", "n2", "n3"):
        found.applied[node] = Incarnation(1), later
    assert rolled_back(found.block("n3", number)) == [(number, "BLOCKED", "TA19")]
    assert found.change(later).status is ChangeStatus.PREPARED
    assert rolled_back(found.block("n3", later)) == [(later, "BLOCKED", "TA19")]


def test_no_wait_makes_a_blocked_server_fenced() -> None:
    """TA19: it reads the log and is renewed, so it serves. Until it has said what it can, or left, it is open."""
    found, number = prepared()
    found.ask(change(table("shop.more")))
    later = found.position
    found.apply("n1", "n2")
    found.applied[NodeId("n3")] = Incarnation(1), later
    found.block("n3", number)
    assert found.wait_out() == []
    assert found.change(later).status is ChangeStatus.PREPARED
    assert committed(found.unblock("n3")) == [((later,), Evidence(nodes("n1", "n2", "n3")))]


def test_a_blocked_server_that_dies_is_waited_for_until_it_has_left() -> None:
    """TA15: its lease ends like any other's."""
    found, number = prepared()
    found.ask(change(table("shop.more")))
    later = found.position
    found.apply("n1", "n2")
    found.block("n3", number)
    found.wait_out()
    assert found.change(later).status is ChangeStatus.PREPARED
    assert committed(found.leave("n3"))[0][0] == (later,)


# TA15: everybody has applied it, or is gone.


def test_a_report_of_a_former_life_is_no_evidence() -> None:
    """TA15: the present incarnation has read nothing yet."""
    found, number = prepared("n1", "n2")
    found.apply("n1")
    found.applied[NodeId("n2")] = Incarnation(9), number
    assert found.settle() == []


def test_a_server_that_joins_in_mid_change_is_not_asked() -> None:
    """TA15: it holds no lease before it has applied everything up to its own joining."""
    found, number = prepared("n1")
    found.join("n2")
    assert committed(found.apply("n1")) == [((number,), Evidence(nodes("n1")))]


def test_a_server_that_restarts_inside_the_wait_is_not_asked_again() -> None:
    """TA15, restart inside the wait: its former life has left, its new one has joined behind the preparation."""
    found, number = prepared("n1", "n2")
    found.apply("n1")
    found.leave("n2", settle=False)
    found.join("n2", 2)
    assert committed(found.settle()) == [((number,), Evidence(nodes("n1")))]


def test_a_server_that_dies_inside_the_wait_ends_it() -> None:
    """TA15: what was waited for is gone for certain."""
    found, number = prepared("n1", "n2")
    found.apply("n1")
    assert committed(found.leave("n2")) == [((number,), Evidence(nodes("n1"), left=nodes("n2")))]


def test_without_servers_a_change_is_committed_at_once() -> None:
    """TA15 of nobody: the next server reads it before it serves."""
    found = Changing()
    found.ask(change(database()))
    assert committed(found.settle()) == [((found.position - 1,), Evidence())]


# TA16: who is silent.


def test_a_silent_server_is_presumed_fenced_when_the_wait_is_over() -> None:
    """TA16: the evidence says who was presumed."""
    found, number = prepared()
    found.apply("n1", "n2")
    found.waited_through = Position(number - 1)
    assert found.settle() == []
    assert committed(found.wait_out()) == [((number,), Evidence(nodes("n1", "n2"), presumed_fenced=nodes("n3")))]


def test_a_server_that_never_fences_itself_is_waited_for_until_it_is_removed() -> None:
    """TA16: whatever the silence."""
    found = Changing("n1")
    found.join("n2", fences=False)
    found.ask(change(database()))
    number = found.position
    found.apply("n1")
    assert found.wait_out() == []
    found.ask(node_removal("n2"))
    assert found.settle() == []
    assert committed(found.leave("n2")) == [((number,), Evidence(nodes("n1"), left=nodes("n2")))]


def test_behind_a_server_that_never_fences_itself_the_deadline_ends_the_change() -> None:
    """TA16, TA20: the operator has said how long he waits."""
    found = Changing("n1")
    found.join("n2", fences=False)
    found.ask(change(database(), deadline_ms=1_000))
    number = found.position
    found.apply("n1")
    found.wait_out()
    assert rolled_back(found.pass_deadline(number)) == [(number, "DEADLINE", "TA20")]
    assert found.names() == []


# TA20: deadlines.


def test_what_can_be_committed_is_committed_although_its_deadline_has_passed() -> None:
    """TA15 before TA20: both are due, and everybody has applied it."""
    found, number = prepared("n1")
    (deadline,) = objects.deadlines(found.change(number))
    found.late.add(deadline.key)
    assert rolled_back(found.apply()) == []
    assert found.change(number).status is ChangeStatus.COMMITTED


def test_a_change_in_line_is_given_up_at_its_deadline_too() -> None:
    """TA20: the deadline counts from the change's number, in line or not."""
    found, first = prepared()
    found.ask(change(alter("shop.orders", add("more")), deadline_ms=500))
    number = found.position
    (deadline,) = objects.deadlines(found.change(number))
    assert (deadline.position, deadline.after_ms) == (number, 500)
    assert rolled_back(found.pass_deadline(number)) == [(number, "DEADLINE", "TA20")]
    assert found.open() == (first,)
    found.apply()
    assert found.is_over()


def test_the_deadline_of_a_change_stays_the_same_when_it_is_prepared() -> None:
    """TA20: it counts from the number, so that the agenda's timer goes on."""
    found, _ = prepared("n1")
    found.ask(change(alter("shop.orders", add("more")), deadline_ms=500))
    number = found.position
    before = objects.deadlines(found.change(number))
    found.apply()
    assert found.change(number).status is ChangeStatus.PREPARED
    assert objects.deadlines(found.change(number)) == before
    found.apply()
    assert objects.deadlines(found.change(number)) == []


# TA15, monotone; groups.


def test_changes_with_one_evidence_are_committed_together_and_others_apart() -> None:
    """TA17: one decision for all that stood behind one wait."""
    found = Changing("n1", "n2")
    found.make(database())
    first, second = found.begin(table("shop.a")), found.begin(table("shop.b"))
    found.applied[NodeId("n2")] = Incarnation(1), second
    third = found.begin(table("shop.c"))
    found.applied[NodeId("n1")] = Incarnation(1), third
    found.waited_through = third
    decided = committed(found.settle())
    assert [changes for changes, _ in decided] == [(first, second), (third,)]
    assert [each.presumed_fenced for _, each in decided] == [(), nodes("n2")]


def test_more_reports_never_delay_a_change() -> None:
    """Monotone: whatever is heard beside what is enough, the change proceeds."""
    found, number = prepared("n1", "n2")
    row = found.change(number)
    full = {NodeId("n1"): (Incarnation(1), number), NodeId("n2"): (Incarnation(1), number)}
    for reports in (full, {**full, NodeId("n9"): (Incarnation(1), Position(0))}):
        for waited in (Position(0), number, Position(number + 5)):
            assert objects.verdict_on(found.state, row, reports, {}, waited).proceed


# Cancelling.


def test_a_change_is_cancelled_in_line_and_prepared_and_never_behind_its_commit() -> None:
    """TA14, TA22: exactly one end."""
    found, first = prepared()
    found.ask(change(alter("shop.orders", add("more"))))
    second = found.position
    found.ask(cancellation(second))
    assert found.change(second).code == "CANCELLED"
    found.ask(cancellation(first))
    assert (found.change(first).status, found.change(first).message) == (
        ChangeStatus.ROLLED_BACK,
        f"Change {first} was cancelled by ada.",
    )
    number = found.make(alter("shop.orders", add("again")))
    with pytest.raises(Refused) as caught:
        found.decide(cancellation(number))
    assert (caught.value.code, caught.value.rule) == ("CHANGE_COMMITTED", "TA21")


def test_to_cancel_twice_is_to_cancel_once() -> None:
    """K7: the second has nothing to do; an unknown one is refused."""
    found, number = prepared()
    found.ask(cancellation(number))
    (unchanged,) = found.decide(cancellation(number))
    assert type(unchanged).__name__ == "RequestUnchanged"
    for unknown in (-1, number + 100, 1 << 62):
        with pytest.raises(Refused) as caught:
            found.decide(cancellation(unknown))
        assert caught.value.code == "CHANGE_UNKNOWN"
