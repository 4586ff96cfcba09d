"""Whom partitions are placed over where there is a baseline (BA11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.counted import Counted, activation, add, remove, set_

from topolog.events import baseline as b
from topolog.events.groups import Affinity

FIVE: tuple[str, ...] = ("n1", "n2", "n3", "n4", "n5")


def counted(*servers: str, partitions: int = 32, backups: int = 1) -> Counted:
    """An active cluster at rest with a persistent group."""
    found = Counted(*servers)
    found.create(partitions=partitions, backups=backups)
    found.rest()
    return found


def without(node: str, placed: dict[int, list[tuple[str, str]]]) -> dict[int, list[tuple[str, str]]]:
    return {partition: [each for each in copies if each[0] != node] for partition, copies in placed.items()}


@pytest.mark.parametrize("node", FIVE)
def test_nothing_moves_when_a_member_leaves_and_comes_back_but_for_its_own_copies(node: str) -> None:
    """BA11: what the others have stays where it is, and in its order, however long it is away."""
    found = counted(*FIVE)
    before = found.placed()
    found.leave(node)
    found.rest()
    assert found.placed() == without(node, before)
    found.join(node)
    found.exchange()
    assert without(node, found.placed()) == without(node, before)
    found.rest()
    assert {partition: set(copies) for partition, copies in found.placed().items()} == {
        partition: set(copies) for partition, copies in before.items()
    }


def test_only_copies_of_who_comes_back_are_loaded() -> None:
    """None of those that stayed loads anything, at no moment."""
    found = counted(*FIVE)
    found.leave("n2")
    found.rest()
    found.join("n2")
    found.exchange()
    loading = {node for copies in found.placed().values() for node, state in copies if state == "MOVING"}
    assert loading == {"n2"}


def test_who_joins_from_outside_gets_nothing_of_a_persistent_group() -> None:
    """BA11: admitted, not used for data until it is added."""
    found = counted(*FIVE)
    before = found.placed()
    found.join("n6")
    found.rest()
    assert found.placed() == before
    found.ask(add("n6"))
    found.rest()
    assert "n6" in found.holders()


def test_a_set_moves_what_is_wanted_elsewhere() -> None:
    """Who is dropped while it is away is no longer waited for: others take what it had."""
    found = counted(*FIVE)
    found.leave("n5")
    found.rest()
    assert any(len(copies) == 1 for copies in found.placed().values())
    found.ask(remove("n5"))
    found.rest()
    assert {len(copies) for copies in found.placed().values()} == {2}


def test_a_removed_member_that_comes_back_is_emptied() -> None:
    """BA11: its local partitions are dropped, once all that are wanted own."""
    found = counted(*FIVE)
    found.leave("n5")
    found.rest()
    found.ask(remove("n5"))
    found.rest()
    found.join("n5")
    found.rest()
    assert found.holders() == {"n1", "n2", "n3", "n4"}


def test_a_removed_member_that_comes_back_with_a_last_copy_brings_it() -> None:
    """Better than Ignite: what was given up by name is not lost while its owner may come, and is taken over from it."""
    found = counted("n1", "n2", "n3", backups=0)
    found.leave("n3")
    found.settle()
    found.ask(remove("n3", accepts_loss=True))
    found.rest()
    lost = [partition for partition in range(32) if found.one(partition).is_lost]
    assert lost
    found.join("n3")
    found.rest()
    assert not any(found.one(partition).is_lost for partition in range(32))
    assert found.holders() == {"n1", "n2"}


def test_groups_in_memory_are_placed_over_all_servers() -> None:
    """An outsider has all that they need: a process."""
    found = counted("n1", "n2")
    found.create("cache", 32, 1, persistent=False)
    found.rest()
    found.join("n3")
    found.rest()
    assert found.holders("cache") == {"n1", "n2", "n3"}
    assert found.holders() == {"n1", "n2"}
    found.leave("n3")
    found.rest()
    assert {len(copies) for copies in found.placed("cache").values()} == {2}


def test_filters_hold_for_members_that_are_away() -> None:
    """BA11: by the attributes that they were taken in with; n2 would take no copy of n1's place meanwhile."""
    found = Counted(active=False)
    found.join("n1", "n2", zone="eu")
    found.join("n3", "n4", zone="us")
    found.ask(activation())
    found.settle()
    found.create(partitions=32, backups=0, affinity=Affinity(node_filter={"zone": "eu"}))
    found.rest()
    before = found.placed()
    assert found.holders() == {"n1", "n2"}
    found.leave("n1")
    found.rest()
    acting = {partition for partition, copies in before.items() if copies == [("n2", "OWNING")]}
    assert {partition for partition in range(32) if found.acting(partition) == "n2"} == acting


def test_attributes_that_changed_meanwhile_count_from_the_next_set_on() -> None:
    """BA11: whoever comes back from another zone is placed as it was until an operator says otherwise."""
    found = Counted(active=False)
    found.join("n1", "n2", zone="eu")
    found.ask(activation())
    found.settle()
    found.create(partitions=32, backups=0, affinity=Affinity(node_filter={"zone": "eu"}))
    found.rest()
    found.leave("n2")
    found.rest()
    found.join("n2", zone="us")
    found.rest()
    assert found.holders() == {"n1", "n2"}
    found.ask(set_("n1", "n2"))
    found.rest()
    assert found.holders() == {"n1"}


def test_a_new_group_is_served_at_once_though_members_are_away() -> None:
    """Where all that would be wanted are away others begin, and hand over when these are back."""
    found = Counted(*FIVE)
    found.leave("n4", "n5")
    found.create(partitions=64)
    found.rest()
    assert all(found.acting(partition) for partition in range(64))
    assert found.holders() == {"n1", "n2", "n3"}
    found.join("n4", "n5")
    found.rest()
    alone = counted(*FIVE, partitions=64)
    assert {partition: set(copies) for partition, copies in found.placed().items()} == {
        partition: set(copies) for partition, copies in alone.placed().items()
    }


def test_a_loss_can_be_given_up_while_the_members_that_had_it_are_away() -> None:
    """EX19: a reset begins it with those that are here, though none of them would be wanted."""
    found = counted(*FIVE, partitions=64)
    found.leave("n4", "n5")
    found.rest()
    lost = {partition for partition in range(64) if found.one(partition).is_lost}
    assert lost
    found.reset("orders")
    found.rest()
    assert {found.acting(partition) for partition in lost} <= {"n1", "n2", "n3"}
    found.join("n4", "n5")
    found.rest()
    assert all(len(copies) == 2 for copies in found.placed().values())


acts = st.lists(
    st.tuples(st.sampled_from(("leave", "join", "add", "remove", "exchange", "rest")), st.sampled_from(FIVE)),
    max_size=25,
)


@given(acts)
def test_at_rest_persistent_copies_are_with_present_members_only(acts: list[tuple[str, str]]) -> None:
    """EX12 at each step (`Shared`); at rest each partition that is served is owned by all of its wanted members."""
    found = counted("n1", "n2", "n3", partitions=8)
    for act, node in acts:
        here = set(b.online(found.state))
        match act:
            case "leave" if node in here:
                found.leave(node)
            case "join" if node not in here:
                found.join(node)
            case "add" if node in here:
                found.ask(add(node))
            case "remove" if node in found.baseline.nodes and node not in here and len(found.baseline.nodes) > 1:
                found.ask(remove(node, accepts_loss=True))
            case "exchange":
                found.settle()
        found.rest() if act == "rest" else None
    found.join(*sorted(set(found.baseline.nodes) - set(b.online(found.state))))
    found.rest()
    for _, each in found.all():
        if each.acting is not None:
            assert set(found.states(each.partition)) <= set(found.baseline.nodes)
            assert set(each.wanted) == set(each.owners)
