"""Rules of the exchange: triggers, merging, owners, loss, late primaries, hand-over (DESIGN §4.3)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams.rules.exchanging import CAPABILITIES, Shared, choose

from topolog.events import changes, ownership
from topolog.events import exchange as x
from topolog.events.codec import CODEC
from topolog.events.groups import LossPolicy
from topolog.events.ids import NOWHERE, Incarnation, NodeId, Position
from topolog.events.levels import NEWEST_LEVEL, announced
from topolog.events.membership import LeaseStopped, LeaveReason, NodeRow
from topolog.events.partitions import PartitionState
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.rules import copies, exchange, hand_over
from topolog.streams.rules.outcome import Ask, Present, outcome

NODES = ("n1", "n2", "n3", "n4")


def shared(*nodes: str, partitions: int = 16, backups: int = 1) -> Shared:
    """A cluster at rest with one group."""
    found = Shared()
    found.join(*nodes)
    found.create("orders", partitions, backups)
    found.rest()
    return found


def kinds(decided: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in decided]


def test_a_new_group_is_owned_at_once_by_all_that_are_wanted() -> None:
    """L9, K11: there is nothing to load, so every wanted copy owns, and the wanted primary acts."""
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
    """L1, L2: whoever acts goes on; the newcomer loads, then the primary is handed over, then surplus is cleared."""
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
    """N1-N4, V3: the open exchange takes them in, awaits the newcomer, and results in the last view."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.answer("n1", "n2")
    found.join("n4")
    assert kinds(found.settle_exchange()) == ["ExchangeMerged"]
    row = x.open_exchange(found.state)
    assert row is not None
    assert {each.node for each in row.awaited} == {"n1", "n2", "n3", "n4"}
    found.leave("n3")
    found.answer("n4")
    decided = found.settle_exchange()
    assert kinds(decided)[0] == "ExchangeMerged"
    assert kinds(decided)[-1] == "ExchangeCompleted"
    assert x.open_exchange(found.state) is None


def test_another_kind_of_trigger_waits_for_the_next_exchange() -> None:
    """N2: a new group is no part of the exchange of a join."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.create("items", 4, 0)
    assert found.settle_exchange() == []
    found.answer("n1", "n2", "n3")
    assert kinds(found.settle_exchange())[-1] == "ExchangeStarted"
    found.answer("n1", "n2", "n3")
    found.settle_exchange()
    assert found.acting(0, "items") is not None


def test_who_answers_before_it_was_restarted_has_not_answered() -> None:
    """T2: only the incarnation that is awaited can give the map."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.answer("n1", "n2", "n3")
    found.leave("n3")
    found.join("n3")
    assert kinds(found.settle_exchange()) == ["ExchangeMerged"]
    assert x.open_exchange(found.state) is not None


def test_a_leave_of_a_rebalanced_cluster_asks_nobody() -> None:
    """P1, P2: one set starts and completes the exchange; the other owners act under a new token at once."""
    found = shared("n1", "n2", "n3")
    found.leave("n1")
    decided = found.settle_exchange()
    assert kinds(decided)[0] == "ExchangeStarted"
    assert kinds(decided)[-1] == "ExchangeCompleted"
    started = decided[0]
    assert isinstance(started, x.ExchangeStarted)
    assert started.awaited == ()
    assert all(found.acting(partition) in ("n2", "n3") for partition in range(16))


def test_a_leave_of_a_cluster_that_is_not_rebalanced_asks_all() -> None:
    """P1: while copies load or are cleared, or primaries move, those that are left say what they have."""
    found = shared("n1", "n2", "n3", "n4")
    found.join("n5")
    found.exchange()
    found.leave("n1")
    (started,) = found.settle_exchange()
    assert isinstance(started, x.ExchangeStarted)
    assert {each.node for each in started.awaited} == {"n2", "n3", "n4", "n5"}


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


def test_a_partition_without_an_owner_is_lost_and_awaits_it() -> None:
    """DS2, O1: nobody begins it empty; the return of the owner with its disk ends the loss."""
    found = shared("n1", "n2", "n3", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    decided = found.exchange()
    lost = [each for each in decided if isinstance(each, x.PartitionsLost)]
    assert [(each.partitions, each.awaited) for each in lost] == [(tuple(gone), ("n1",))]
    assert all(found.one(partition).is_lost and found.acting(partition) is None for partition in gone)
    found.join("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" and not found.one(partition).is_lost for partition in gone)


def test_an_owner_that_comes_back_without_its_disk_ends_no_loss() -> None:
    """DS2: what it held is gone, and only an operator may give that up."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.disks["n1"] = {}
    found.join("n1")
    found.rest()
    assert all(found.one(partition).is_lost for partition in gone)


def test_a_loss_outlasts_the_exchanges_that_follow() -> None:
    """DS2: its owner is back without its disk, so the row names nobody; that is no partition that never was owned."""
    found = shared("n1", backups=0)
    found.leave("n1")
    found.disks["n1"] = {}
    found.join("n1")
    found.rest()
    found.join("n2")
    found.rest()
    assert all(found.one(partition).is_lost for partition in range(16))


def test_who_is_not_asked_is_not_doubted() -> None:
    """P2, DS2: both were away while nobody acted, and own since before they joined; n2 owns when n1 leaves, too."""
    found = shared("n1", "n2")
    found.leave("n1", "n2")
    found.exchange()
    found.join("n1", "n2")
    found.rest()
    found.leave("n1")
    assert found.settle_exchange()
    assert all(found.acting(partition) == "n2" for partition in range(16))


@pytest.mark.parametrize("leaver", ["former", "receiver"])
def test_a_hand_over_is_cancelled_when_a_side_leaves(leaver: str) -> None:
    """4.3.5, DS8: somebody who is there acts under a new token; of a former primary that stays, nobody else."""
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
    """PI4: nobody is asked (P2), so nobody knows how far the former primary has read; it goes on under a new token."""
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
    """PI7: the next one is wanted first then, owns already, and is handed the partition."""
    found = shared("n2", partitions=1, backups=2)
    found.join("n1", "n5")
    found.exchange()
    found.load("n5")
    found.leave("n1")
    found.rest()
    assert found.acting() == "n5"


def test_whoever_has_not_drained_is_not_replaced_when_the_receiver_leaves_an_open_exchange() -> None:
    """PI4: it has answered before, and is not asked again."""
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
    """4.3.5: the hand-over itself, of this very incarnation."""
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
    """V5: that time has passed says nothing of it."""
    found, prepared = prepared_by_n1(capabilities=(announced(NEWEST_LEVEL),))
    assert found.hand_over(waited_through=prepared) == []
    assert kinds(found.hand_over("n1")) == ["AffinitySwitched"]


def test_nothing_is_handed_over_to_who_is_being_stopped() -> None:
    """4.1: it would act for a moment, and then nobody would."""
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


def test_who_leaves_is_awaited_no_more_by_any_exchange() -> None:
    """PI5: also by one that takes no leaves in; the leaving has the next one."""
    found = shared("n1", "n2")
    found.create("items", 4, 0)
    found.settle_exchange()
    found.answer("n1")
    assert found.settle_exchange() == []
    found.leave("n2")
    completed = [each for each in found.settle_exchange() if isinstance(each, x.ExchangeCompleted)]
    assert [each.waited for each in completed] == [(x.Waited(NodeId("n1"), 7),), ()]


def test_an_owner_that_came_back_behind_the_question_is_awaited_not_forgotten() -> None:
    """DS2: the open exchange takes its joining not in, so nobody has asked what it brings; the next one does."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.create("items", 4, 0)
    found.settle_exchange()
    found.leave("n1")
    found.join("n1")
    found.answer("n2")
    found.settle_exchange()
    assert all(found.states(partition) == {"n1": "OWNING"} for partition in gone)
    found.rest()
    assert all(found.acting(partition) == "n1" for partition in gone)


def test_who_is_awaited_has_not_answered_by_being_there() -> None:
    """DS2: an outcome that leaves a partition lost confirms nothing; back without its disk, its owner owns nothing."""
    found = shared("n1", "n2", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    for name in ("items", "carts"):
        found.create(name, 4, 0)
    found.settle_exchange()
    found.leave("n1")
    found.disks["n1"] = {}
    found.join("n1")
    found.answer("n2")
    found.settle_exchange()
    found.answer("n1", "n2")
    found.settle_exchange()
    found.rest()
    assert all(found.one(partition).is_lost and found.acting(partition) is None for partition in gone)


def passed(found: Shared, what: str) -> None:
    """All waits for single maps of this kind are over."""
    row = x.open_exchange(found.state)
    assert row is not None
    keys = [each.key for each in exchange.deadlines(row, exchange.Patience(), gaps=0)]
    found.passed |= {key for key in keys if f"/{what}/" in key}


def test_who_keeps_an_exchange_waiting_is_named_then_stopped() -> None:
    """4.3.9, ON1: a fact that operators see, then STUCK; when it has left, the exchange completes without it."""
    found = shared("n1", "n2", "n3", backups=1)
    found.join("n4")
    found.settle_exchange()
    found.answer("n1", "n2", "n4")
    assert found.settle_exchange() == []
    passed(found, "warn")
    assert found.settle_exchange() == [x.ExchangeOverdue((NodeId("n3"),))]
    assert found.settle_exchange() == [], "said once"
    passed(found, "evict")
    stopped = found.settle_exchange()
    assert [(each.node, each.reason) for each in stopped if isinstance(each, LeaseStopped)] == [
        ("n3", LeaveReason.STUCK)
    ]
    assert found.settle_exchange() == [], "its lease is not over yet"
    found.leave("n3")
    assert kinds(found.settle_exchange())[-1] == "ExchangeCompleted"
    assert all("n3" not in (found.acting(partition), *found.states(partition)) for partition in range(16))


def test_a_silent_server_with_a_last_copy_is_not_stopped() -> None:
    """4.3.9: the exchange completes without it; it goes on acting for what the log knows that it has."""
    found = shared("n1", "n2", backups=0)
    acting = {partition: found.acting(partition) for partition in range(16)}
    found.join("n3")
    found.settle_exchange()
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    decided = found.settle_exchange()
    completed = decided[-1]
    assert isinstance(completed, x.ExchangeCompleted)
    assert completed.unheard == ("n1",)
    assert {partition: found.acting(partition) for partition in range(16)} == acting


def test_silent_servers_that_hold_both_copies_are_not_stopped() -> None:
    """4.3.9: a copy of another one that has not answered either is none to rely on."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.answer("n3")
    passed(found, "warn")
    passed(found, "evict")
    decided = found.settle_exchange()
    completed = decided[-1]
    assert isinstance(completed, x.ExchangeCompleted)
    assert set(completed.unheard) == {"n1", "n2"}
    assert not [each for each in decided if isinstance(each, LeaseStopped)]


def test_an_exchange_is_not_completed_without_one_while_another_has_time_left() -> None:
    """4.3.9: who was asked later is waited for as long, and who is being stopped until it has left."""
    found = shared("n1", "n2", backups=0)
    found.join("n3")
    found.settle_exchange()
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    found.join("n4")
    assert kinds(found.settle_exchange()) == ["ExchangeMerged", "ExchangeOverdue"]
    passed(found, "evict")
    assert kinds(found.settle_exchange()) == ["LeaseStopped"]
    assert found.settle_exchange() == []
    found.leave("n4")
    completed = found.settle_exchange()[-1]
    assert isinstance(completed, x.ExchangeCompleted)
    assert completed.unheard == ("n1",)


def test_what_a_former_life_has_answered_says_nothing_of_a_silent_one() -> None:
    """T2: it answered, was restarted, and nobody knows what it has now."""
    found = shared("n1", "n2", "n3", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.join("n1")
    found.settle_exchange()
    found.answer("n1")
    found.leave("n1")
    found.join("n1")
    found.settle_exchange()
    found.answer_as(2, "n1")
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    completed = [each for each in found.settle_exchange() if isinstance(each, x.ExchangeCompleted)]
    assert [each.unheard for each in completed] == [("n1",)]
    assert all(found.one(partition).is_lost for partition in gone)


def test_who_is_being_stopped_is_given_nothing_more() -> None:
    """4.1: it acts until it has left, and is wanted nowhere."""
    found = shared("n1", "n2", "n3")
    row = found.node("n3")
    found.log(LeaseStopped(None, row.node, row.incarnation, LeaveReason.REMOVED))
    acted = [partition for partition in range(16) if found.acting(partition) == "n3"]
    found.join("n4")
    found.exchange()
    number = ownership.number_of(found.state, NodeId("n3"))
    assert all(number not in each.wanted for _, each in found.all())
    assert [partition for partition in range(16) if found.acting(partition) == "n3"] == acted


def test_a_reset_is_of_one_group() -> None:
    """O5: what another group has lost awaits its owner still."""
    found = shared("n1", "n2", backups=0)
    found.create("items", 16, 0)
    found.rest()
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.reset("items")
    found.exchange()
    assert all(found.acting(partition, "items") == "n2" for partition in gone)
    assert all(found.one(partition).is_lost for partition in gone)


def test_by_the_policy_ignore_what_is_lost_begins_empty() -> None:
    """O2, O3: of a group that lives in memory, and has said so."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders", 16, 0, loss_policy=LossPolicy.IGNORE)
    found.rest()
    found.leave("n1")
    decided = found.exchange()
    assert not [each for each in decided if isinstance(each, x.PartitionsLost)]
    assert all(found.acting(partition) == "n2" for partition in range(16))


def test_what_only_a_silent_server_can_tell_stays_paused_until_it_is_heard() -> None:
    """4.3.9, DS2: it owned them before its restart; nobody knows whether it still has them, so they await it."""
    found = shared("n1", "n2", "n3", backups=0)
    gone = [partition for partition in range(16) if found.acting(partition) == "n1"]
    found.leave("n1")
    found.exchange()
    found.join("n1")
    found.settle_exchange()
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    completed = found.settle_exchange()[-1]
    assert isinstance(completed, x.ExchangeCompleted)
    assert completed.unheard == ("n1",)
    assert all(found.one(partition).is_lost for partition in gone)
    found.answer("n1")
    assert kinds(found.settle_exchange()) == ["ExchangeQueued", "ExchangeStarted"]
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in gone)


def test_a_joiner_is_waited_for_from_when_it_is_asked() -> None:
    """4.3.9: the wait of who is merged in begins then, not with the exchange."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    row = x.open_exchange(found.state)
    assert row is not None
    found.join("n4")
    found.settle_exchange()
    merged = x.open_exchange(found.state)
    assert merged is not None
    by_node = {each.node: each.at for each in merged.awaited}
    assert by_node[NodeId("n4")] > by_node[NodeId("n3")] == row.started_at


def test_an_operator_gives_up_what_is_lost() -> None:
    """O5, DS2: the lost partitions begin anew, in an exchange of their own; where nothing is lost nothing changes."""
    found = shared("n1", "n2", "n3", backups=0)
    kept = [partition for partition in range(16) if found.acting(partition) != "n1"]
    acting = {partition: found.acting(partition) for partition in kept}
    assert kinds(found.reset("orders")) == ["RequestUnchanged"]
    found.leave("n1")
    found.exchange()
    assert kinds(found.reset("orders")) == ["ExchangeQueued"]
    found.exchange()
    assert all(found.acting(partition) in ("n2", "n3") for partition in range(16))
    assert {partition: found.acting(partition) for partition in kept} == acting
    found.join("n1")
    found.rest()
    assert {state for partition in range(16) for state in found.states(partition).values()} == {"OWNING"}


def test_a_reset_gives_up_what_is_lost_and_nothing_else() -> None:
    """DS2, O5: whose owner goes while the reset is under way is lost only then, and awaits that one."""
    found = shared("n1", "n2", "n3", backups=0)
    given_up = [partition for partition in range(16) if found.acting(partition) == "n1"]
    still_owned = [partition for partition in range(16) if found.acting(partition) == "n2"]
    found.leave("n1")
    found.exchange()
    found.reset("orders")
    found.settle_exchange()
    found.leave("n2")
    found.exchange()
    assert all(found.acting(partition) == "n3" for partition in given_up)
    assert all(
        found.one(partition).is_lost and found.states(partition) == {"n2": "OWNING"} for partition in still_owned
    )


def test_an_owner_that_is_back_during_a_reset_is_asked_before_it_is_given_up() -> None:
    """DS2: the exchange of the reset has not asked it, the next one does."""
    found = shared("n1", "n2", "n3")
    gone = [partition for partition in range(16) if set(found.states(partition)) == {"n1", "n2"}]
    assert gone
    found.leave("n1", "n2")
    found.exchange()
    assert all(found.one(partition).is_lost for partition in gone)
    found.reset("orders")
    found.settle_exchange()
    found.join("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in gone)


def test_a_server_that_is_heard_when_the_last_group_is_gone_changes_nothing() -> None:
    """4.3.9: there is nothing that another exchange could mend, and asking for one again and again would never end."""
    found = shared("n1", "n2", backups=0)
    found.join("n3")
    found.settle_exchange()
    found.answer("n2", "n3")
    passed(found, "warn")
    passed(found, "evict")
    completed = found.settle_exchange()[-1]
    assert isinstance(completed, x.ExchangeCompleted)
    assert completed.unheard == ("n1",)
    found.drop("orders")
    found.answer("n1")
    assert exchange.settle(found.state, found._told(), choose) == []


def test_where_the_filter_leaves_nobody_whoever_holds_it_goes_on() -> None:
    """L3: no member is wanted, so nobody is to clear the last copies there are."""
    found = shared("n1", "n2", "n3")
    before = {partition: (found.acting(partition), found.states(partition)) for partition in range(16)}
    found.alter("orders", node_filter={"role": "mistyped"})
    found.rest()
    assert {partition: (found.acting(partition), found.states(partition)) for partition in range(16)} == before
    found.leave("n1")
    found.rest()
    assert all(found.acting(partition) in ("n2", "n3") for partition in range(16))


def test_what_changes_in_many_partitions_takes_as_many_records_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 1: copies of many sizes, each partition with one too many; all of it is one set."""
    monkeypatch.setattr(changes, "PACKED_BYTES_MAX", 1_000)
    found = shared("n1", "n2", "n3", partitions=300, backups=2)
    found.alter("orders", backups=1)
    found.settle_exchange()
    found.answer("n1", "n2", "n3")
    for decided in (found.settle_exchange(), found.rent(), found.clear("n1", "n2", "n3")):
        packed = [each.changes for each in decided if isinstance(each, x.FullPartitionMap | x.PartitionStatesChanged)]
        assert len(packed) > 2
        assert max(map(len, packed)) <= 1_000
    assert all(list(found.states(partition).values()) == ["OWNING", "OWNING"] for partition in range(300))


def test_the_names_of_many_new_nodes_fit_their_records() -> None:
    """DESIGN 1: beside as many changes as a record holds, each name as long as can be."""
    found = Shared()
    nodes = [f"{'x' * 190}{number:010}" for number in range(300)]
    found.join(*nodes)
    found.create("orders", 8, 0)
    found.settle_exchange()
    found.answer(*nodes)
    decided = exchange.settle(found.state, found._told(), choose)
    for each in decided:
        room = changes.PACKED_BYTES_MAX if isinstance(each, x.FullPartitionMap) and each.changes else 0
        assert room + len(CODEC.encode_decision(each, NEWEST_LEVEL)) <= RECORD_BYTES_MAX
    found.log(*decided)
    assert all(found.acting(partition) in nodes for partition in range(8))


def copy(node: int, state: PartitionState) -> ownership.Copy:
    return ownership.Copy(node, state, wanted=False, since=Position(5))


def unserved(*copies: ownership.Copy, is_lost: bool = True) -> ownership.Ownership:
    """A partition for which nobody acts."""
    return ownership.Ownership(0, copies, None, Position(6), is_lost)


def outcome_of(
    before: ownership.Ownership, *wanted: int, ask: Ask, **counters: int
) -> tuple[int | None, dict[int, str]]:
    """Who acts and what copies there are when all nodes are here, with whole copies."""
    present = {number: Present(1, has_whole_copy=True, counter=counters.get(f"n{number}", 0)) for number in range(5)}
    after = outcome(before, wanted, present, ask)
    return after.acting, {each.node: each.state.name for each in after.copies}


def test_of_owners_the_wanted_primary_acts_else_who_counts_highest() -> None:
    """L3, K3."""
    owners = unserved(copy(1, PartitionState.OWNING), copy(2, PartitionState.OWNING), is_lost=False)
    assert outcome_of(owners, 3, 1, ask=Ask(), n1=4, n2=7)[0] == 2
    assert outcome_of(owners, 1, 3, ask=Ask(), n1=4, n2=7)[0] == 1
    assert outcome_of(owners, 3, 2, ask=Ask(), n1=4, n2=4)[0] == 2


def test_counters_are_those_that_nodes_have_told() -> None:
    """K3: both owners were away, and neither is wanted first any more."""
    found = shared("n1", "n2")
    found.leave("n1", "n2")
    found.exchange()
    found.disks["n2"] = dict.fromkeys(found.disks["n2"], 9)
    found.join("n3", "n4", "n1", "n2")
    found.exchange()
    names = ownership.names(found.state)
    neither = [each for _, each in found.all() if names[each.wanted[0]] in ("n3", "n4")]
    assert neither
    assert {names[each.acting or 0] for each in neither} == {"n2"}


def test_a_reset_chooses_one_copy_and_none_that_is_being_cleared() -> None:
    """DS2, O5: the others load from the one; what is being cleared is wanted again, and loads too."""
    lost = unserved(copy(1, PartitionState.LOST), copy(2, PartitionState.LOST))
    assert outcome_of(lost, 1, 2, ask=Ask(reset_at=Position(1_000))) == (1, {1: "OWNING", 2: "MOVING"})
    cleared = unserved(copy(1, PartitionState.RENTING))
    assert outcome_of(cleared, 1, 2, ask=Ask(reset_at=Position(1_000))) == (2, {1: "MOVING", 2: "OWNING"})
    assert outcome_of(cleared, 1, ask=Ask(reset_at=Position(1_000))) == (None, {1: "RENTING"})


def test_what_was_loading_is_lost_with_its_last_owner() -> None:
    """O1, O3: also of a server that was not asked; an absent node's copy that did not own is nothing to wait for."""
    found = shared("n1", backups=1)
    found.join("n2")
    found.exchange()
    found.leave("n1")
    found.exchange()
    assert all(found.states(partition) == {"n1": "OWNING", "n2": "LOST"} for partition in range(16))
    before = unserved(copy(1, PartitionState.MOVING), copy(2, PartitionState.OWNING), copy(3, PartitionState.MOVING))
    after = outcome(before, (1,), {1: Present(1, is_heard=False)})
    assert {each.node: each.state.name for each in after.copies} == {1: "LOST", 2: "OWNING"}


def test_a_reset_is_of_what_was_lost_when_it_was_asked() -> None:
    """O5: what loses its last owner while the reset waits for its turn is not given up with the rest."""
    found = shared("n1", "n2", "n3", backups=0)
    given_up = [partition for partition in range(16) if found.acting(partition) == "n1"]
    later = [partition for partition in range(16) if found.acting(partition) == "n2"]
    assert given_up
    assert later
    found.leave("n1")
    found.exchange()
    found.join("n4")
    found.settle_exchange()
    found.reset("orders")
    found.leave("n2")
    found.answer("n3", "n4")
    found.settle_exchange()
    found.exchange()
    assert all(found.one(partition).is_lost for partition in later)
    assert not any(found.one(partition).is_lost for partition in given_up)


def test_a_copy_on_each_of_many_nodes() -> None:
    """W1: as many backups as there can be, on more nodes than fit a byte."""
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
    """PI8, DS6: neither does a load end, nor is surplus cleared, nor a primary handed over."""
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


acts = st.lists(
    st.tuples(
        st.sampled_from(("join", "leave", "wipe", "exchange", "load", "hand", "drain", "rent", "clear")),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(acts=acts, backups=st.integers(0, 2), bystander=st.booleans())
def test_whatever_comes_in_whatever_order(acts: list[tuple[str, int]], backups: int, bystander: bool) -> None:
    """PI3, PI4, PI7, B12: checked at each set (`Shared`); at rest all that are wanted own what is not lost."""
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
