"""A primary moves between two live nodes: prepared, drained, switched, or cancelled (EX14)."""

import pytest
from tests.unit.streams.rules.exchanging import CAPABILITIES, Shared, kinds, shared

from topolog.events import exchange as x
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.leases import LeaveReason
from topolog.events.membership import LeaseStopped
from topolog.streams.rules import hand_over


@pytest.mark.parametrize("leaver", ["former", "receiver"])
def test_a_hand_over_is_cancelled_when_a_side_leaves(leaver: str) -> None:
    """EX14, DS8: somebody who is there acts under a new token; of a former primary that stays, nobody else."""
    found = shared("n1", "n2", "n3", partitions=64, backups=2)
    found.join("n4")
    found.exchange()
    found.load("n4")
    prepared = next(each for each in found.hand_over() if isinstance(each, x.HandOverPrepared))
    partition, receiver = prepared.moves[0].partitions[0], prepared.moves[0].to
    token = found.one(partition).token
    found.leave(prepared.node if leaver == "former" else receiver)
    assert found.acting(partition) == (None if leaver == "former" else prepared.node)
    found.exchange()
    assert found.acting(partition) not in (None, prepared.node if leaver == "former" else receiver)
    assert found.one(partition).token > token


def test_whoever_has_not_stopped_for_a_hand_over_is_not_replaced_when_its_receiver_leaves() -> None:
    """EX12: nobody is asked, so nobody knows how far the former primary has read; it goes on under a new token."""
    found = shared("n2", partitions=1, backups=2)
    found.join("n1", "n5")
    found.exchange()
    found.load("n1", "n5")
    (prepared,) = found.hand_over()
    assert isinstance(prepared, x.HandOverPrepared)
    assert (prepared.node, prepared.moves[0].to) == ("n2", "n1")
    found.leave("n1")
    found.exchange()
    assert found.acting() == "n2"
    assert found.hand_over() != [], "the next one is given it in order"


def test_a_wanted_primary_that_leaves_stands_in_nobodys_way() -> None:
    """EX16: the next one is wanted first then, owns already, and is handed the partition."""
    found = shared("n2", partitions=1, backups=2)
    found.join("n1", "n5")
    found.exchange()
    found.load("n5")
    found.leave("n1")
    found.rest()
    assert found.acting() == "n5"


def test_whoever_has_not_drained_is_not_replaced_when_the_receiver_leaves_an_open_exchange() -> None:
    """EX12: it has answered before, and is not asked again."""
    found = shared("n1", "n2", partitions=64)
    found.join("n3", "n4")
    found.exchange()
    found.load("n3", "n4")
    prepared = [each for each in found.hand_over() if isinstance(each, x.HandOverPrepared)]
    to_leave = {p: each.node for each in prepared for move in each.moves if move.to == "n4" for p in move.partitions}
    assert to_leave
    found.join("n5")
    found.settle_exchange()
    found.answer("n1", "n2", "n3", "n5")
    found.leave("n4")
    found.settle_exchange()
    assert x.open_exchange(found.state) is None
    assert {partition: found.acting(partition) for partition in to_leave} == to_leave


def test_a_switch_waits_for_the_drain_or_for_the_lease() -> None:
    """F, DS8: neither a heartbeat from before the hand-over nor another node's says that the former primary stopped."""
    found = shared("n1", "n2", partitions=64)
    found.join("n3")
    found.exchange()
    found.load("n3")
    prepared = found.hand_over()
    assert prepared
    assert found.hand_over("n3") == []
    position = found.position
    assert found.hand_over(waited_through=Position(position - len(prepared))) == []
    assert {type(each) for each in found.hand_over(waited_through=position)} == {x.AffinitySwitched}


def prepared_by_n1(*, capabilities: tuple[str, ...] = CAPABILITIES) -> tuple[Shared, Position]:
    """n1 is to hand a partition over to n3; and where that stands in the log."""
    found = Shared()
    found.join("n1", capabilities=capabilities)
    found.create("orders", 16, 1)
    found.rest()
    found.join("n3")
    found.exchange()
    found.load("n3")
    assert kinds(found.hand_over()) == ["HandOverPrepared"]
    return found, found.position


def test_who_drained_before_it_was_told_or_in_another_life_has_not_drained() -> None:
    """EX14: the hand-over itself, of this very incarnation."""
    found, prepared = prepared_by_n1()
    n1, n3 = NodeId("n1"), NodeId("n3")
    life, other = Incarnation(1), Incarnation(2)
    for told in (
        {},
        {n1: (life, Position(prepared - 1))},
        {n1: (other, Position(prepared + 9))},
        {n3: (life, Position(prepared + 9))},
    ):
        assert hand_over.settle(found.state, told, NOWHERE) == []
    assert kinds(hand_over.settle(found.state, {n1: (life, prepared)}, NOWHERE)) == ["AffinitySwitched"]


def test_who_does_not_fence_itself_is_waited_for_until_it_has_drained() -> None:
    """EX14: that time has passed says nothing of it."""
    found, prepared = prepared_by_n1(capabilities=())
    assert found.hand_over(waited_through=prepared) == []
    assert kinds(found.hand_over("n1")) == ["AffinitySwitched"]


def test_nothing_is_handed_over_to_who_is_being_stopped() -> None:
    """LE28: it would act for a moment, and then nobody would."""
    found = shared("n1")
    found.join("n3")
    found.exchange()
    found.load("n3")
    row = found.node("n3")
    found.log(LeaseStopped(None, row.node, row.incarnation, LeaveReason.REMOVED))
    assert found.hand_over() == []


def test_a_node_hands_over_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next when these have switched; meanwhile nothing is cleared."""
    monkeypatch.setattr(hand_over, "MOVED_AT_ONCE_MAX", 3)
    found = shared("n1", partitions=64, backups=0)
    found.join("n3")
    found.exchange()
    found.load("n3")
    moved = 0
    while decided := found.hand_over():
        (prepared,) = decided
        assert isinstance(prepared, x.HandOverPrepared)
        assert found.rent() == []
        count = sum(len(move.partitions) for move in prepared.moves)
        assert 0 < count <= 3
        moved += count
        assert kinds(found.hand_over("n1")) == ["AffinitySwitched"]
    assert moved == sum(found.acting(partition) == "n3" for partition in range(64)) > 3
    assert found.rent() != []
