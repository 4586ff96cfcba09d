"""Loads and clearings that nodes report between two exchanges (EX10, DS5, DS6)."""

import pytest
from tests.unit.streams.rules.exchanging import kinds, shared

from topolog.events import changes
from topolog.events import exchange as x
from topolog.events.ids import NodeId, Position
from topolog.streams.rules import copies


def test_a_report_of_what_is_not_there_changes_nothing() -> None:
    """Other groups, partitions and nodes than there are."""
    found = shared("n1", "n2")
    for node, group, partition in (("n1", "items", 0), ("n1", "orders", 16), ("n1", "orders", -1), ("n9", "orders", 0)):
        report = copies.Cleared(NodeId(node), group, partition, Position(1))
        assert copies.settle(found.state, [report]) == []


def test_a_report_of_another_life_of_the_copy_changes_nothing() -> None:
    """DS5, DS6: the load ended, but of a listing or under a token that is no more."""
    found = shared("n1", "n2", "n3", partitions=4, backups=1)
    found.leave("n3")
    found.rest()
    found.join("n3")
    found.exchange()
    stale = [(group, each) for group, each in found.all() if "MOVING" in found.states(each.partition).values()]
    assert stale
    found.leave("n3")
    found.rest()
    found.join("n3")
    found.exchange()
    for group, each in stale:
        copy = next(copy for copy in each.copies if copy.state.name == "MOVING")
        report = copies.Loaded("n3", group, each.partition, copy.since, each.token)  # type: ignore[arg-type]
        assert copies.settle(found.state, [report]) == []


def test_a_load_under_a_former_token_changes_nothing() -> None:
    """DS5, DS6: what the former primary supplied is not what the present one holds."""
    found = shared("n1", "n2", partitions=4, backups=2)
    found.join("n3")
    found.exchange()
    loading = [each for _, each in found.all() if found.states(each.partition)["n3"] == "MOVING"]
    found.leave("n1")
    found.exchange()
    again = [each for each in loading if found.one(each.partition).token != each.token]
    assert again
    for each in again:
        assert found.states(each.partition)["n3"] == "MOVING"
        since = next(copy.since for copy in each.copies if copy.state.name == "MOVING")
        report = copies.Loaded("n3", "orders", each.partition, since, each.token)  # type: ignore[arg-type]
        assert copies.settle(found.state, [report]) == []


def test_nothing_else_changes_while_an_exchange_is_open() -> None:
    """EX10, DS6: neither does a load end, nor is surplus cleared, nor a primary handed over."""
    found = shared("n1", "n2")
    found.join("n3")
    found.exchange()
    found.join("n4")
    found.settle_exchange()
    assert found.load("n3") == found.rent() == found.hand_over() == []
    found.exchange()
    assert found.load("n3", "n4") != []
    found.join("n5")
    found.settle_exchange()
    assert found.hand_over() == [], "though all is there that it needs"
    found.exchange()
    assert found.hand_over() != []


def test_a_surplus_copy_stays_until_all_that_are_wanted_own() -> None:
    """DS6: where the primary is the wanted one already, the former backup is the only other copy while the next one
    loads."""
    found = shared("n1", "n2")
    found.join("n3")
    found.exchange()
    former = [each for _, each in found.all() if "MOVING" in found.states(each.partition).values()]
    alone = [each.partition for each in former if each.acting == each.wanted[0]]
    assert alone, "some lose their backup alone"
    assert found.rent() == []
    found.load("n3")
    assert found.rent() != []
    assert all("RENTING" in found.states(partition).values() for partition in alone)


def test_loads_that_end_together_are_decided_in_as_many_records_as_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """65,000 partitions of three copies are 975 kB of changes, and a record has 900 kB."""
    found = shared("n1", "n2", "n3", backups=2)
    found.leave("n3")
    found.disks["n3"] = {}
    found.join("n3")
    found.exchange()
    monkeypatch.setattr(changes, "PACKED_BYTES_MAX", 100)
    decided = found.load("n3")
    assert kinds(decided) == ["PartitionStatesChanged"] * 3
    assert all(len(each.changes) <= 100 for each in decided if isinstance(each, x.PartitionStatesChanged))
    assert all(set(found.states(partition).values()) == {"OWNING"} for partition in range(16))
