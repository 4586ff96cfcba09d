"""What a change leaves: numbers that are given once, data that is closed, rows that are kept (TA2)."""

import pytest
from tests.unit.streams.rules.changing import (
    Changing,
    add,
    alter,
    cancellation,
    change,
    database,
    deletions,
    drop,
    drop_column,
    rename,
    table,
)

from topolog.events import objects as events
from topolog.events.errors import Refused
from topolog.events.evidence import Evidence
from topolog.events.fold import evolve
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Place, Position, Term
from topolog.events.object_definition import ObjectKind, Statement, Verb
from topolog.events.objects import (
    CHANGES_KEPT,
    ChangeRow,
    SchemaChangeCommitted,
    SchemaChangeRolledBack,
    change_row,
)
from topolog.events.state import State
from topolog.streams.rules import objects


def nodes(*names: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, names))


# What is given once.


def test_no_number_of_a_column_is_given_twice() -> None:
    """TA2: dropped and added, over a rename and over rollbacks; data of the former is never the latter's."""
    found = Changing("n1")
    found.make(database(), table())
    found.make(alter("shop.orders", add("a")))
    found.make(alter("shop.orders", drop_column("a")))
    found.make(alter("shop.orders", add("a")))
    assert numbers(found, "shop.orders") == {"id": 1, "a": 3}
    found.ask(change(alter("shop.orders", add("b"))))
    found.ask(cancellation(found.position))
    found.make(rename("shop.orders", "shop.sales"))
    found.ask(change(alter("shop.sales", add("b"), drop_column("a"))))
    found.ask(cancellation(found.position))
    found.make(alter("shop.sales", drop_column("a")))
    found.make(alter("shop.sales", add("a")))
    assert numbers(found, "shop.sales") == {"id": 1, "a": 6}


def numbers(found: Changing, name: str) -> dict[str, int]:
    definition = found.object(name).definition
    assert definition is not None
    return {each.name: each.number for each in definition.columns}


def test_a_chain_of_renames_keeps_the_incarnation_and_a_rollback_gives_the_name_back() -> None:
    """TA2: data is found under the incarnation, whatever the table is called."""
    found = Changing("n1")
    found.make(database(), table())
    born = found.object("shop.orders").incarnation
    for old, new in (("orders", "b"), ("b", "c"), ("c", "orders")):
        found.make(rename(f"shop.{old}", f"shop.{new}"))
    row = found.object("shop.orders")
    assert (row.incarnation, row.version) == (born, 4)
    found.ask(change(rename("shop.orders", "shop.d")))
    assert found.object("shop.d").incarnation == born
    found.ask(cancellation(found.position))
    assert found.names() == ["shop", "shop.orders"]
    found.make(table("shop.d"))
    assert found.object("shop.d").incarnation > born
    found.make(alter("shop.orders", add("x")))
    assert found.object("shop.orders").version == 6


def test_an_incarnation_is_not_given_again_after_a_rollback() -> None:
    """TA2: a server may have seen the one that came to nothing."""
    found = Changing("n1")
    found.make(database())
    found.ask(change(table()))
    seen = found.object("shop.orders").incarnation
    found.ask(cancellation(found.position))
    found.make(table())
    assert found.object("shop.orders").incarnation > seen


# Deletions.


def test_a_server_that_leaves_is_no_longer_waited_for_with_its_deletions() -> None:
    """TA32: it deletes what is closed when it is back."""
    found = Changing("n1", "n2")
    found.make(database(), table())
    number = found.make(drop())
    found.leave("n2")
    assert found.change(number).undeleted == nodes("n1")


def test_a_confirmation_of_a_former_life_or_of_nothing_counts_for_nothing() -> None:
    """ME31: only the present life can say what it has deleted; what it has said is said."""
    found = Changing("n1")
    found.make(database(), table())
    number = found.make(drop())
    with pytest.raises(Refused) as caught:
        found.decide(deletions("n1", number, incarnation=9))
    assert caught.value.code == "STALE_INCARNATION"
    found.ask(deletions("n1", number, number, 77, -1))
    assert found.change(number).undeleted == ()
    (unchanged,) = found.decide(deletions("n1", number))
    assert type(unchanged).__name__ == "RequestUnchanged"


def test_changes_that_are_over_are_forgotten_unless_somebody_still_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """TA34: rows stay few."""
    monkeypatch.setattr(events, "CHANGES_KEPT", 8)
    found = Changing("n1")
    found.make(database(), table())
    number = found.make(alter("shop.orders", add("x")))
    closing = found.make(alter("shop.orders", drop_column("x")))
    for each in range(9):
        found.make(alter("shop.orders", (add if each % 2 == 0 else drop_column)("y")))
    assert change_row(found.state, number) is None
    assert change_row(found.state, closing) is not None


def test_a_second_end_of_a_change_is_folded_by_nobody() -> None:
    """TA14: each preparation ends in exactly one commit or rollback; a log that says more is poisoned (K8)."""
    found = Changing("n1")
    number = found.make(database())
    ends = (
        SchemaChangeCommitted((number,), Evidence()),
        SchemaChangeRolledBack(None, number, "CANCELLED", "TA21", "", {}),
    )
    for event in ends:
        with pytest.raises(AssertionError, match="no open change"):
            evolve(found.state, event, Place(found.position, bytes(16), Term(1)))


@pytest.mark.parametrize("is_committed", [True, False])
def test_how_a_change_has_ended_is_seen_however_many_end_at_once(is_committed: bool) -> None:
    """TA14: whoever waits for one of a thousand changes behind one wait looks when their set is applied."""
    found = Changing("n1")
    numbers = []
    for each in range(CHANGES_KEPT + 20):
        found.take(found.decide(change(database(f"d{each}"), deadline_ms=5)))
        numbers.append(found.position)
    if is_committed:
        found.applied[NodeId("n1")] = Incarnation(1), found.position
    else:
        found.late = {f"change/{number}/deadline" for number in numbers}
    seen: set[Position] = set()
    while decided := objects.settle(found.state, found.applied, {}, NOWHERE, found.late):
        found.take(decided)
        seen.update(row.number for _, row in found.state.rows(ChangeRow) if not row.is_open)
    assert seen == set(numbers)


def test_who_folds_on_from_rows_in_another_order_comes_to_the_same_state() -> None:
    """RD2: a projection that starts again reads its rows by key, a coordinator has them as they came."""
    found = Changing("n2", "n3", "n1")
    found.make(database(), table())
    found.make(alter("shop.orders", add("x")))
    found.begin(drop())
    found.begin(Statement(Verb.ALTER, ObjectKind.DATABASE, "shop", ttl_ms=5_000))
    other = Changing()
    other.state, other.position = State(), found.position
    for kind, key in sorted(found.state.keys()):
        row = found.state.lookup((kind, key))
        assert row is not None
        other.state.put(key, row)
    for each in found.apply() + found.apply():
        other.log(each)
    assert (other.position, other.state.hash()) == (found.position, found.state.hash())
    assert len(found.undeleted("n1")) == 1
