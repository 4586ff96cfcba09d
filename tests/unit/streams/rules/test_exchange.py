"""Rules of the exchange: triggers, merging, owners, late primaries (docs/design/exchange.md)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.rules.exchanging import Shared, choose, kinds, shared

from topolog.events import changes
from topolog.events import exchange as x
from topolog.events.codec import CODEC
from topolog.events.ids import NodeId
from topolog.events.leases import NodeRow
from topolog.events.levels import FIRST_LEVEL
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.rules import exchange

NODES = ("n1", "n2", "n3", "n4")


def test_a_new_group_is_owned_at_once_by_all_that_are_wanted() -> None:
    """EX27: there is nothing to load, so every wanted copy owns, and the wanted primary acts."""
    found = Shared()
    found.join("n1", "n2", "n3")
    found.create("orders", 16, 1)
    decided = found.exchange()
    assert kinds(decided) == ["ExchangeStarted", "FullPartitionMap", "ExchangeCompleted"]
    for partition in range(16):
        assert set(found.states(partition).values()) == {"OWNING"}
        assert len(found.states(partition)) == 2
        assert found.acting(partition) == next(iter(found.states(partition)))


def test_without_groups_nothing_is_exchanged() -> None:
    """Joins and leaves concern nobody's partitions."""
    found = Shared()
    found.join("n1", "n2")
    found.leave("n2")
    assert found.exchange() == []


def test_a_join_moves_no_primary() -> None:
    """EX13: whoever acts goes on; the newcomer loads, then the primary is handed over, then surplus is cleared."""
    found = shared("n1", "n2", partitions=64)
    acting = {partition: found.acting(partition) for partition in range(64)}
    found.join("n3")
    found.exchange()
    assert {partition: found.acting(partition) for partition in range(64)} == acting
    assert found.hand_over() == [], "nobody is ready yet"
    found.load("n3")
    prepared = found.hand_over()
    assert {type(each) for each in prepared} == {x.HandOverPrepared}
    assert {partition: found.acting(partition) for partition in range(64)} == acting
    found.hand_over("n1", "n2")
    found.hand_over("n1", "n2")
    assert "n3" in {found.acting(partition) for partition in range(64)}


def test_joins_and_leaves_that_come_meanwhile_are_merged() -> None:
    """EX22: the open exchange takes them in, awaits the newcomer, and results in the last view."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.join("n4")
    assert kinds(found.settle_exchange()) == ["ExchangeMerged"]
    row = x.open_exchange(found.state)
    assert row is not None
    assert {each.node for each in row.awaited} == {"n3", "n4"}
    found.leave("n3")
    found.answer("n4")
    decided = found.settle_exchange()
    assert kinds(decided)[0] == "ExchangeMerged"
    assert kinds(decided)[-1] == "ExchangeCompleted"
    assert x.open_exchange(found.state) is None


def test_another_kind_of_trigger_waits_for_the_next_exchange() -> None:
    """EX22: a new group is no part of the exchange of a join."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.create("items", 4, 0)
    assert found.settle_exchange() == []
    found.answer("n3")
    assert kinds(found.settle_exchange())[-1] == "ExchangeStarted"
    found.answer("n1", "n2", "n3")
    found.settle_exchange()
    assert found.acting(0, "items") is not None


def test_who_answers_before_it_was_restarted_has_not_answered() -> None:
    """DS13: only the incarnation that is awaited can give the map."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.answer("n1", "n2", "n3")
    found.leave("n3")
    found.join("n3")
    assert kinds(found.settle_exchange()) == ["ExchangeMerged"]
    assert x.open_exchange(found.state) is not None


def test_a_leave_asks_nobody_for_a_map() -> None:
    """EX25, DS10: the log knows which copies are present, also while others load; their nodes need only be there."""
    found = shared("n1", "n2", "n3", "n4")
    found.join("n5")
    found.exchange()
    found.leave("n1")
    (started,) = found.settle_exchange()
    assert isinstance(started, x.ExchangeStarted)
    assert {each.node for each in started.awaited} == {"n2", "n3", "n4", "n5"}
    assert not any(each.needs_map for each in started.awaited)
    found.apply("n2", "n3", "n4", "n5")
    assert kinds(found.settle_exchange())[-1] == "ExchangeCompleted"
    assert all(found.acting(partition) in ("n2", "n3", "n4", "n5") for partition in range(16))


def test_an_exchange_in_which_nobody_is_needed_is_over_at_once() -> None:
    """DS16: n3 is wanted nowhere; one set says that it has joined."""
    found = shared("n1", "n2")
    found.alter("orders", node_filter={"role": "store"})
    found.rest()
    found.join("n3")
    assert kinds(found.settle_exchange()) == ["ExchangeStarted", "ExchangeCompleted"]


def test_what_an_owner_missed_it_loads_again() -> None:
    """DS1: it left while another acted; back with its disk it is MOVING, whatever its map says."""
    found = shared("n1", "n2")
    found.leave("n1")
    found.rest()
    found.join("n1")
    found.exchange()
    for partition in range(16):
        assert found.states(partition)["n1"] == "MOVING"
        assert found.acting(partition) == "n2"


def test_who_leaves_is_awaited_no_more_by_any_exchange() -> None:
    """EX24: also by one that takes no leaves in; the leaving has the next one."""
    found = shared("n1", "n2")
    found.create("items", 4, 0)
    found.settle_exchange()
    found.answer("n1")
    assert found.settle_exchange() == []
    found.leave("n2")
    completed = [each for each in found.settle_exchange() if isinstance(each, x.ExchangeCompleted)]
    assert [each.waited for each in completed] == [(x.Waited(NodeId("n1"), 7),), ()]


def test_where_the_filter_leaves_nobody_whoever_holds_it_goes_on() -> None:
    """EX17: no member is wanted, so nobody is to clear the last copies there are."""
    found = shared("n1", "n2", "n3")
    before = {partition: (found.acting(partition), found.states(partition)) for partition in range(16)}
    found.alter("orders", node_filter={"role": "mistyped"})
    found.rest()
    assert {partition: (found.acting(partition), found.states(partition)) for partition in range(16)} == before
    found.leave("n1")
    found.rest()
    assert all(found.acting(partition) in ("n2", "n3") for partition in range(16))


def test_what_changes_in_many_partitions_takes_as_many_records_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """K23: copies of many sizes, each partition with one too many; all of it is one set."""
    monkeypatch.setattr(changes, "PACKED_BYTES_MAX", 1_000)
    found = shared("n1", "n2", "n3", partitions=300, backups=2)
    found.alter("orders", backups=1)
    for decided in (found.settle_exchange(), found.rent(), found.clear("n1", "n2", "n3")):
        packed = [each.changes for each in decided if isinstance(each, x.FullPartitionMap | x.PartitionStatesChanged)]
        assert len(packed) > 2
        assert max(map(len, packed)) <= 1_000
    assert all(list(found.states(partition).values()) == ["OWNING", "OWNING"] for partition in range(300))


def test_the_names_of_many_new_nodes_fit_their_records() -> None:
    """K23: beside as many changes as a record holds, each name as long as can be."""
    found = Shared()
    nodes = [f"{'x' * 190}{number:010}" for number in range(300)]
    found.join(*nodes)
    found.create("orders", 8, 0)
    found.settle_exchange()
    found.answer(*nodes)
    decided = exchange.settle(found.state, found._told(), choose)
    for each in decided:
        room = changes.PACKED_BYTES_MAX if isinstance(each, x.FullPartitionMap) and each.changes else 0
        assert room + len(CODEC.encode_decision(each, FIRST_LEVEL)) <= RECORD_BYTES_MAX
    found.log(*decided)
    assert all(found.acting(partition) in nodes for partition in range(8))


def test_a_copy_on_each_of_many_nodes() -> None:
    """EX3: as many backups as there can be, on more nodes than fit a byte."""
    found = Shared()
    nodes = [f"n{number}" for number in range(300)]
    found.join(*nodes)
    found.create("orders", 2, 2**31 - 1)
    found.exchange()
    assert set(found.states(1)) == set(nodes)
    acting = found.acting(1)
    assert acting is not None
    found.leave(acting, *(node for node in nodes if node != acting))
    decided = found.exchange()
    assert found.one(1).is_lost
    assert len(found.one(1).owners) == 300
    packed = next(each.changes for each in decided if isinstance(each, x.FullPartitionMap))
    assert changes.pack_changes(changes.unpacked(packed)) == packed


acts = st.lists(
    st.tuples(
        st.sampled_from(("join", "leave", "wipe", "exchange", "load", "hand", "drain", "rent", "clear")),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(acts=acts, backups=st.integers(0, 2), bystander=st.booleans())
def test_whatever_comes_in_whatever_order(acts: list[tuple[str, int]], backups: int, bystander: bool) -> None:
    """EX12, EX16, EX8: checked at each set (`Shared`); at rest all that are wanted own what is not lost."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders", 8, backups)
    for act, number in acts:
        perform(found, act, NODES[number], bystander=bystander)
    found.rest()
    for _, each in found.all():
        if each.is_lost or each.acting is None:
            continue
        assert each.acting == each.wanted[0]
        assert set(each.wanted) == set(each.owners)


def perform(found: Shared, act: str, node: str, *, bystander: bool) -> None:
    row = found.state.get(NodeRow, node)
    is_member = row is not None and row.is_member
    match act:
        case "join" if not is_member:
            found.join(node)
        case "leave" if is_member:
            found.leave(node)
        case "wipe" if not is_member:
            found.disks[node] = {}
        case "exchange":
            found.settle_exchange() if bystander else found.exchange()
        case "load":
            found.load(node)
        case "hand":
            found.hand_over()
        case "drain" if is_member:
            found.hand_over(node)
        case "rent":
            found.rent()
        case "clear":
            found.clear(node)
