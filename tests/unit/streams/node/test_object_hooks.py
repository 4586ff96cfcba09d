"""What a service is told as tables change: registries, what it loads lazily, what it refuses, what it deletes."""

import pytest
from tests.unit.streams.node.shop import ORDERS, Shop, columns
from tests.unit.streams.rules.changing import add, alter, database, drop, drop_column, table

from topolog.events.errors import (
    CannotApply,
    Changing,
    HookFailed,
    Refused,
)
from topolog.events.objects import ChangeRow, ChangeStatus, DataDeletionConfirmed
from topolog.streams.node.client import Node
from topolog.streams.node.deletions import Deletion
from topolog.streams.node.objects import Table


def test_a_registry_hears_of_each_table_before_anybody_uses_it(shop: Shop) -> None:
    """TA33: registry kinds are complete before the node leaves the fence; it is told first what is there."""
    told: list[tuple[str, int | None]] = []
    refused: list[str] = []
    node = shop.cluster.node("n3")

    def hook(name: str, found: Table | None) -> None:
        told.append((name, found.version if found else None))
        if node.lease.is_valid:
            with pytest.raises(Changing):
                node.table(name)
            refused.append(name)

    node.on_table(hook)
    shop.enter(node)
    assert told == [(ORDERS, 1)]
    shop.cluster.change(alter(ORDERS, add("city")))
    shop.cluster.change(drop())
    shop.cluster.change(table(), database("other"))
    assert told[1:] == [(ORDERS, 2), (ORDERS, 2), (ORDERS, None), (ORDERS, 1)]
    assert refused == [ORDERS] * 4
    assert node.table(ORDERS).version == 1


def test_what_is_loaded_lazily_is_loaded_anew_for_another_definition_or_lease(shop: Shop) -> None:
    """TA33: lazy kinds are dropped and loaded again on use."""
    loaded: list[tuple[int, int]] = []
    node = shop.one

    def load(found: Table) -> int:
        loaded.append((found.incarnation, found.version))
        return len(loaded)

    codecs = node.lazy(load)

    def use() -> int:
        with node.using(ORDERS) as found:
            return codecs.of(found)

    assert (use(), use()) == (1, 1)
    shop.cluster.change(alter(ORDERS, add("city")))
    assert (use(), use()) == (2, 2)
    with shop.cluster.leases_expired():
        pass
    shop.cluster.advance(1)
    assert (use(), use()) == (3, 3)
    shop.cluster.change(drop())
    shop.cluster.change(table())
    assert use() == 4
    first, second = loaded[0][0], loaded[-1][0]
    assert loaded == [(first, 1), (first, 2), (first, 2), (second, 1)]


def refusing(node: Node, column: str) -> list[int]:
    """The node cannot apply what gives a table this column; gives the changes it was asked about."""
    asked: list[int] = []

    def hook(change: ChangeRow) -> None:
        asked.append(change.number)
        columns = [each.name for step in change.steps if step.definition for each in step.definition.columns]
        if column in columns:
            raise CannotApply("NO_CODEC", f"There is no codec for {column}.")

    node.on_change(hook)
    return asked


def test_a_node_that_cannot_apply_a_change_ends_it_for_everybody(shop: Shop) -> None:
    """TA19: rolled back with the node's own words; it goes on."""
    node = shop.cluster.node("n3")
    asked = refusing(node, "city")
    shop.enter(node)
    with pytest.raises(Refused) as refused:
        shop.cluster.change(alter(ORDERS, add("city")))
    assert refused.value.code == "BLOCKED"
    assert refused.value.facts["node"] == "n3"
    assert refused.value.facts["code"] == "NO_CODEC"
    assert columns(shop.one.table(ORDERS)) == columns(node.table(ORDERS)) == ["id", "note"]
    shop.cluster.change(alter(ORDERS, add("town")))
    assert "town" in columns(node.table(ORDERS))
    assert len(asked) == 2
    assert node._session.core.blocked is None


def test_a_node_that_cannot_apply_two_changes_ends_both(shop: Shop) -> None:
    """TA19: it says the first, and the next one when that is over."""
    node = shop.cluster.node("n3")
    refusing(node, "city")
    shop.enter(node)
    shop.cluster.change(table("shop.other"))
    with shop.cluster.cut_off("n3"):
        numbers = [shop.cluster.change(alter(name, add("city")), wait=False) for name in (ORDERS, "shop.other")]
    shop.cluster.settle()
    assert [shop.row(number).status for number in numbers] == [ChangeStatus.ROLLED_BACK] * 2
    node.table(ORDERS)


def test_what_a_node_cannot_apply_it_does_not_serve_and_if_it_is_committed_the_node_ends(shop: Shop) -> None:
    """TA19: who was waited out has no say."""
    node = shop.cluster.node("n3")
    told: list[Table | None] = []
    refusing(node, "city")
    node.on_table(lambda _, found: told.append(found))
    shop.enter(node)
    with shop.cluster.cut_off("n3"):
        shop.cluster.change(alter(ORDERS, add("city")))
    shop.cluster.advance(1)
    assert isinstance(node.failure, HookFailed)
    assert "NO_CODEC" in str(node.failure)
    with pytest.raises(HookFailed):
        node.table(ORDERS)
    assert [found.version if found else None for found in told] in ([1, None], [1])


def test_a_change_that_is_open_when_a_node_joins_is_ended_by_it_too(shop: Shop) -> None:
    """TA19: a node that joins in the middle has its say."""
    node = shop.cluster.node("n3")
    asked = refusing(node, "city")
    with shop.cluster.cut_off("n2"):
        number = shop.cluster.change(alter(ORDERS, add("city")), wait=False)
        shop.enter(node)
        shop.cluster.advance(0.4)
        assert asked[-1] == number
        assert shop.row(number).code == "BLOCKED"


def test_a_change_that_was_over_before_a_node_asked_to_join_does_not_end_it(shop: Shop) -> None:
    """TA19: what it cannot apply any more it need not; it is told the tables as they are."""
    shop.cluster.change(alter(ORDERS, add("city")))
    shop.cluster.change(alter(ORDERS, drop_column("city")))
    node = shop.cluster.node("n3")
    refusing(node, "city")
    shop.enter(node)
    assert columns(node.table(ORDERS)) == ["id", "note"]


def deleting(node: Node) -> list[Deletion]:
    told: list[Deletion] = []
    node.on_deletion(told.append)
    return told


def test_a_node_that_joins_hears_of_what_is_there_and_not_of_its_history(shop: Shop) -> None:
    """TA33: tables as they are by now, each once; no change that is over, no table that is gone."""
    shop.cluster.change(alter(ORDERS, add("city")))
    shop.cluster.change(table("shop.gone"))
    shop.cluster.change(drop("shop.gone"))
    node = shop.cluster.node("n3")
    asked, told = refusing(node, "city"), list[tuple[str, Table | None]]()
    node.on_table(lambda name, found: told.append((name, found)))
    shop.enter(node)
    assert not asked
    assert [(name, found and columns(found)) for name, found in told] == [(ORDERS, ["id", "note", "city"])]


def test_a_service_that_cannot_serve_a_table_that_is_there_ends_before_it_serves_anything(shop: Shop) -> None:
    """TA19: also when it is started again behind a change that it had refused."""
    shop.cluster.change(alter(ORDERS, add("city")))

    def read(name: str, found: Table | None) -> None:
        if found and found.column("city"):
            raise CannotApply("NO_CODEC", f"There is no codec for {name}.")

    node = shop.cluster.node("n3")
    node.on_table(read)
    with pytest.raises(HookFailed, match="no codec"), node:
        pass


def test_a_node_without_data_has_deleted_it_at_once(shop: Shop) -> None:
    """TA32: nobody waits for who has nothing."""
    number = shop.cluster.change(drop())
    shop.cluster.settle()
    assert shop.row(number).undeleted == ()


def test_a_service_is_told_what_to_delete_and_says_when_it_has(shop: Shop) -> None:
    """TA32: after the commit, in its own time, several changes in one request."""
    node = shop.cluster.node("n3")
    told = deleting(node)
    shop.enter(node)
    incarnation = node.table(ORDERS).incarnation
    numbers = [shop.cluster.change(alter(ORDERS, drop_column("note"))), shop.cluster.change(drop())]
    assert [each.change for each in told] == numbers
    assert [each.number for each in told[0].columns] == [2]
    assert [each.incarnation for each in told[1].tables] == [incarnation]
    shop.cluster.advance(1)
    assert [shop.row(number).undeleted for number in numbers] == [("n3",), ("n3",)]
    with shop.cluster.cut_off("n3"):
        for number in (*numbers, 4_711):
            node.deleted(number)
    shop.cluster.settle()
    assert [shop.row(number).undeleted for number in numbers] == [(), ()]
    confirmed = [each.changes for each in shop.cluster.decisions(DataDeletionConfirmed) if each.node == "n3"]
    assert sorted(number for changes in confirmed for number in changes) == sorted(numbers)
    assert node._session.core.deletions.due() == ()


def test_a_node_that_comes_back_owes_nothing_and_finds_on_its_disk_what_is_closed(shop: Shop) -> None:
    """TA32: nobody waits for who is away; it asks for all that it has when it has joined."""
    node = shop.cluster.node("n3")
    told = deleting(node)
    incarnation, on_disk = shop.one.table(ORDERS).incarnation, list[tuple[bool, bool, bool]]()
    node.on_joined(
        lambda: on_disk.append(
            (node.is_closed(incarnation), node.is_closed(incarnation, 1), node.is_closed(incarnation, 2))
        )
    )
    shop.enter(node)
    first = shop.cluster.change(alter(ORDERS, drop_column("note")))
    with shop.cluster.cut_off("n3"):
        shop.cluster.advance(4)
        second = shop.cluster.change(drop())
    shop.cluster.advance(1)
    assert [shop.row(number).undeleted for number in (first, second)] == [(), ()]
    assert [each.change for each in told] == [first]
    assert on_disk == [(False, False, False), (True, True, True)]
    node.deleted(first)
    shop.cluster.settle()
    assert node._session.core.deletions.due() == ()
