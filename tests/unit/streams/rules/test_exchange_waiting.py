"""Whom an exchange waits for, for how long, and what it does without (DS10-DS19)."""

from tests.unit.streams.rules.counted import Counted
from tests.unit.streams.rules.exchanging import Shared, choose, kinds, passed, shared

from topolog.events import exchange as x
from topolog.events import ownership
from topolog.events.awaited import unheard
from topolog.events.groups import LossPolicy
from topolog.events.ids import Incarnation, NodeId
from topolog.events.last_owners import lists_former_life
from topolog.events.leases import LeaveReason
from topolog.events.membership import LeaseStopped
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.views import DiskRow
from topolog.streams.rules import exchange


def awaited(found: Shared) -> set[str]:
    row = x.open_exchange(found.state)
    assert row is not None
    return {each.node for each in row.awaited}


def missed(found: Shared) -> set[str]:
    row = unheard(found.state)
    return {each.node for each in row.servers} if row else set()


def acted_by(found: Shared, node: str) -> list[int]:
    return [partition for partition in range(16) if found.acting(partition) == node]


def owns(found: Shared, node: str, partition: int, group: str) -> bool:
    return found.states(partition, group).get(node) == "OWNING"


def gather(found: Shared) -> list[str]:
    """The exchange waits no more for whoever has not answered."""
    passed(found, "gather")
    return kinds(found.settle_exchange())


def back_without_a_word() -> tuple[Shared, list[int]]:
    """n1 left with partitions of which it had the only copy, and is back; n2 and n3 have answered, n1 has not."""
    found = shared("n1", "n2", "n3", backups=0)
    alone = acted_by(found, "n1")
    assert alone
    found.leave("n1")
    found.exchange()
    assert all(found.one(partition).is_lost for partition in alone)
    found.join("n1")
    found.settle_exchange()
    found.answer("n2", "n3")
    return found, alone


# Whom.


def test_a_leave_waits_for_nobody_who_holds_nothing_of_the_group() -> None:
    """DS10: a stranger may hang; the others are there, and act at once."""
    found = shared("n1", "n2", "n3")
    found.alter("orders", node_filter={"role": "store"})
    found.rest()
    found.join("stranger")
    found.settle_exchange()
    acted = acted_by(found, "n1")
    found.leave("n1")
    found.settle_exchange()
    assert "stranger" not in awaited(found)
    found.apply("n2", "n3")
    assert kinds(found.settle_exchange())[-1] == "ExchangeCompleted"
    assert all(found.acting(partition) in ("n2", "n3") for partition in acted)
    assert missed(found) == set()


def test_a_present_owner_that_is_there_acts_before_one_that_hangs() -> None:
    """DS10: present copies are equal in safety, so the one whose node answers is taken."""
    found = shared("n1", "n2", "n3", backups=2)
    acted = acted_by(found, "n1")
    found.leave("n1")
    found.settle_exchange()
    found.apply("n3")
    assert gather(found)[-1] == "ExchangeCompleted"
    assert {found.acting(partition) for partition in acted} == {"n3"}
    assert all(found.states(partition)["n2"] == "OWNING" for partition in acted), "silence is not absence (DS14)"


def test_what_the_log_lists_of_a_former_life_never_acts_alone() -> None:
    """DS10, DS12: n1 is back and is a member; only it can say what it still has, so they stay as they are."""
    found, alone = back_without_a_word()
    before = {partition: found.one(partition) for partition in alone}
    assert gather(found) == ["ExchangeCompleted"]
    assert {partition: found.one(partition) for partition in alone} == before
    assert missed(found) == {"n1"}


def test_a_partition_is_not_lost_while_an_owner_may_be_back() -> None:
    """DS12: both owners were away at once; n1, the last of them, is back and has only not answered yet."""
    found = shared("n1", "n2", "n3")
    both = [partition for partition in range(16) if set(found.states(partition)) == {"n1", "n2"}]
    found.leave("n2", "n1")
    found.join("n1")
    found.settle_exchange()
    found.answer("n3")
    gather(found)
    last = [each for each in both if "n1" in found.states(each) and found.acting(each) is None]
    assert last
    assert not any(found.one(partition).is_lost for partition in last)
    found.answer("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in last)


def test_a_policy_begins_nothing_empty_while_an_owner_may_be_back() -> None:
    """DS12: IGNORE gives up what has no owner; whether it has one, only n1 can say."""
    found = Shared()
    found.join("n1", "n2")
    found.create("orders", backups=0, loss_policy=LossPolicy.IGNORE)
    found.rest()
    alone = acted_by(found, "n1")
    found.leave("n1")
    found.join("n1")
    found.settle_exchange()
    found.answer("n2")
    gather(found)
    assert all(found.acting(partition) is None for partition in alone)
    found.answer("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in alone)


def test_what_a_former_life_has_answered_says_nothing_of_the_next_one() -> None:
    """DS13, EX28: it answered, was restarted, and nobody knows what it has now."""
    found, alone = back_without_a_word()
    found.answer("n1")
    found.leave("n1")
    found.join("n1")
    found.settle_exchange()
    found.answer_as(2, "n1")
    assert "ExchangeCompleted" in gather(found)
    assert missed(found) == {"n1"}
    assert all(found.acting(partition) is None for partition in alone)


def test_who_acts_and_is_silent_goes_on_acting() -> None:
    """DS14: its lease is not over, so nobody else may."""
    found = shared("n1", "n2", "n3")
    acted = acted_by(found, "n2")
    found.leave("n1")
    found.settle_exchange()
    found.apply("n3")
    gather(found)
    assert set(acted) <= set(acted_by(found, "n2"))


def test_a_newcomer_that_hangs_is_listed_nowhere() -> None:
    """DS15: each write would wait for its copy; it is listed when it is heard."""
    found = shared("n1", "n2")
    before = {partition: found.states(partition) for partition in range(16)}
    found.join("n3")
    found.settle_exchange()
    assert awaited(found) == {"n3"}
    assert gather(found)[-1] == "ExchangeCompleted"
    assert {partition: found.states(partition) for partition in range(16)} == before
    found.answer("n3")
    assert kinds(found.settle_exchange())[:2] == ["ExchangeQueued", "ExchangeStarted"]
    assert any("n3" in found.states(partition) for partition in range(16))


def test_a_new_group_begins_with_those_that_are_there() -> None:
    """DS10, DS15: a partition waits for one wanted server; whom the others want loads when it is heard."""
    found = Shared()
    found.join("n1", "n2", "n3")
    found.create("orders", 16, 1)
    found.settle_exchange()
    found.answer("n1", "n2")
    gather(found)
    assert all(found.acting(partition) in ("n1", "n2") for partition in range(16))
    assert not any("n3" in found.states(partition) for partition in range(16))
    found.answer("n3")
    found.exchange()
    assert {found.states(partition).get("n3") for partition in range(16)} == {None, "MOVING"}


# When it ends.


def test_what_can_be_decided_is_and_the_rest_stays_paused() -> None:
    """DS16: n1 alone can tell of some partitions; another one leaves, and what it acted for is served at once."""
    found = shared("n1", "n2", "n3", backups=0)
    found.create("items", 16, 1)
    found.rest()
    found.leave("n1")
    found.exchange()
    found.join("n1")
    found.settle_exchange()
    found.answer("n2", "n3")
    gather(found)
    paused = [each for each in range(16) if found.acting(each) is None]
    acted = [each for each in range(16) if found.acting(each, "items") == "n2" and owns(found, "n3", each, "items")]
    assert paused
    assert acted
    found.leave("n2")
    found.settle_exchange()
    assert awaited(found) == {"n3"}, "n1 has been waited for once"
    found.apply("n3")
    found.settle_exchange()
    assert missed(found) == {"n1"}
    assert {found.acting(each, "items") for each in acted} == {"n3"}
    assert {found.acting(each) for each in paused} == {None}


def test_another_kind_of_trigger_waits_no_longer_than_for_an_answer() -> None:
    """DS16: a group that is created behind an exchange that somebody leaves waiting."""
    found, _ = back_without_a_word()
    found.create("items", 4, 2)
    assert found.settle_exchange() == []
    gather(found)
    assert all(found.acting(partition, "items") for partition in range(4))


def test_a_late_answer_starts_the_next_exchange_and_counts_in_it() -> None:
    """DS17: nobody is asked again for what it has said, or exchanges would follow each other without end."""
    found, alone = back_without_a_word()
    gather(found)
    found.answer("n1")
    decided = kinds(found.settle_exchange())
    assert decided[:2] == ["ExchangeQueued", "ExchangeStarted"]
    assert "ExchangeCompleted" in decided or awaited(found) != {"n1"}
    assert found.exchange() is not None
    assert all(found.acting(partition) == "n1" for partition in alone)
    assert missed(found) == set()


def test_the_next_exchange_reads_maps_from_where_the_first_one_has() -> None:
    """DS17, K4: a new coordinator must see the answer that counts."""
    found, _ = back_without_a_word()
    first = x.newest_exchange(found.state)
    gather(found)
    found.create("items", 4, 0)
    found.settle_exchange()
    row = x.newest_exchange(found.state)
    assert row is not None
    assert first is not None
    assert row.started_at > first.started_at
    assert (row.counts_from, row.maps) == (first.started_at, first.maps)


def test_answers_count_no_longer_once_all_were_heard() -> None:
    """DS17: the exchange that misses nobody is the last one that old answers are of."""
    found, _ = back_without_a_word()
    gather(found)
    found.answer("n1")
    found.exchange()
    found.join("n4")
    found.settle_exchange()
    row = x.open_exchange(found.state)
    assert row is not None
    assert row.counts_from == row.started_at


def test_who_has_left_is_missed_no_more() -> None:
    found, alone = back_without_a_word()
    gather(found)
    found.leave("n1")
    found.exchange()
    assert missed(found) == set()
    assert all(found.one(partition).is_lost for partition in alone)


def test_who_is_asked_for_a_map_is_not_heard_by_a_heartbeat() -> None:
    """DS10: that it has applied the question says nothing of its copies."""
    found, _ = back_without_a_word()
    assert x.open_exchange(found.state).awaited[-1].needs_map  # type: ignore[union-attr]
    found.apply("n1", "n2", "n3")
    assert found.settle_exchange() == []


def test_who_only_has_to_be_there_need_not_send_its_map() -> None:
    """DS10: a heartbeat of this life that has applied the question is enough, of an earlier position is not."""
    found = shared("n1", "n2")
    found.apply("n2")
    found.leave("n1")
    assert kinds(found.settle_exchange()) == ["ExchangeStarted"]
    found.apply("n2")
    assert kinds(found.settle_exchange())[-1] == "ExchangeCompleted"


# What is wanted and not listed (DS19).


def test_nothing_is_handed_over_or_cleared_while_a_wanted_copy_is_missing() -> None:
    """DS19, DS6: all that are listed own, but n3 is wanted too and hangs; n1 acts on, and nobody's copy is surplus."""
    found = shared("n1", "n2")
    found.join("n3", "n4")
    found.settle_exchange()
    found.answer("n4")
    gather(found)
    found.load("n4")
    left_out = found.left_out()["orders"]
    assert left_out
    found.hand_over("n1", "n2")
    found.rent()
    for partition in left_out:
        assert "RENTING" not in found.states(partition).values()
        assert found.acting(partition) in ("n1", "n2")
    found.answer("n3")
    found.rest()
    assert found.left_out() == {}


def test_what_nobody_is_missing_from_goes_on() -> None:
    """DS19: only partitions that want the silent one wait for it."""
    found = shared("n1", "n2", partitions=64)
    found.join("n3", "n4")
    found.settle_exchange()
    found.answer("n4")
    gather(found)
    found.load("n4")
    found.hand_over()
    found.hand_over("n1", "n2")
    assert any(found.acting(partition) == "n4" for partition in range(64))


# For how long.


def test_who_answers_nobody_is_named_then_stopped() -> None:
    """EX32, DS17: a fact that operators see, then STUCK; both from when it was first asked."""
    found = shared("n1", "n2", "n3")
    found.join("n4")
    found.settle_exchange()
    gather(found)
    assert found.settle_exchange() == []
    passed(found, "warn")
    assert found.settle_exchange() == [x.ExchangeOverdue((NodeId("n4"),))]
    assert found.settle_exchange() == [], "said once"
    passed(found, "evict")
    stopped = found.settle_exchange()
    assert [(each.node, each.reason) for each in stopped if isinstance(each, LeaseStopped)] == [
        ("n4", LeaveReason.STUCK)
    ]
    assert found.settle_exchange() == [], "its lease is not over yet"
    found.leave("n4")
    assert kinds(found.exchange())[-1] == "ExchangeCompleted"
    assert missed(found) == set()


def test_other_exchanges_do_not_give_a_silent_server_more_time() -> None:
    """DS17: its deadlines run from the position that asked it first, however many exchanges end without it."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    gather(found)
    first = unheard(found.state)
    passed(found, "evict")
    keys, found.passed = found.passed, set()
    found.create("items", 4, 0)
    found.settle_exchange()
    found.answer("n1", "n2")
    gather(found)
    second = unheard(found.state)
    assert first is not None
    assert second is not None
    assert [each.at for each in second.servers] == [each.at for each in first.servers]
    found.passed = keys
    assert [each.node for each in found.settle_exchange() if isinstance(each, LeaseStopped)] == ["n3"]


def test_a_silent_server_with_a_last_copy_is_not_stopped() -> None:
    """EX32: what it alone has would be lost."""
    found, alone = back_without_a_word()
    gather(found)
    passed(found, "warn")
    passed(found, "evict")
    assert kinds(found.settle_exchange()) == ["ExchangeOverdue"]
    found.answer("n1")
    found.exchange()
    assert all(found.acting(partition) == "n1" for partition in alone)


def test_silent_servers_that_hold_both_copies_are_not_stopped() -> None:
    """EX32: a copy of another one that has not answered either is none to rely on."""
    found = shared("n1", "n2", "n3")
    found.leave("n3")
    found.settle_exchange()
    gather(found)
    assert missed(found) == {"n1", "n2"}
    passed(found, "evict")
    assert not [each for each in found.settle_exchange() if isinstance(each, LeaseStopped)]


def test_who_is_being_stopped_is_given_nothing_more() -> None:
    """LE28: it acts until it has left, and is wanted nowhere."""
    found = shared("n1", "n2", "n3")
    row = found.node("n3")
    found.log(LeaseStopped(None, row.node, row.incarnation, LeaveReason.REMOVED))
    acted = acted_by(found, "n3")
    found.join("n4")
    found.exchange()
    number = ownership.number_of(found.state, NodeId("n3"))
    assert all(number not in each.wanted for _, each in found.all())
    assert acted_by(found, "n3") == acted


def test_a_server_that_is_heard_when_the_last_group_is_gone_changes_nothing() -> None:
    """DS17: there is nothing that another exchange could mend, and asking for one again and again would never end."""
    found, _ = back_without_a_word()
    gather(found)
    found.drop("orders")
    found.answer("n1")
    assert exchange.settle(found.state, found._told(), choose) == []


# Who is merged in.


def test_a_merge_asks_whoever_it_needs_besides() -> None:
    """EX22, DS16: n4 joins while n3 is awaited; n2, which has to be there once n1 has left, is asked too."""
    found = shared("n1", "n2")
    found.join("n3")
    found.settle_exchange()
    found.join("n4")
    found.leave("n1")
    merged = found.settle_exchange()[0]
    assert isinstance(merged, x.ExchangeMerged)
    assert {each.node for each in merged.awaited} == {"n2", "n4"}


def test_a_merge_asks_for_the_map_of_whom_only_a_heartbeat_was_asked() -> None:
    """DS10: n2 had to be there; it is restarted meanwhile, and now only it can tell what it has."""
    found = shared("n1", "n2", "n3")
    found.leave("n1")
    found.settle_exchange()
    found.leave("n2")
    found.join("n2")
    found.settle_exchange()
    row = x.open_exchange(found.state)
    assert row is not None
    asked = {str(each.node): (each.incarnation, each.needs_map) for each in row.awaited}
    assert asked["n2"] == (Incarnation(2), True)
    assert asked["n3"] == (Incarnation(1), False)


# Who hangs later, and what is carried on.


def test_who_has_hung_since_is_not_there() -> None:
    """DS10: n4 has been missed; n2, which was there then, hangs when n1 dies: n3 acts, which is there now."""
    found = shared("n1", "n2", "n3", backups=2)
    found.join("n4")
    found.settle_exchange()
    gather(found)
    found.apply("n1", "n2", "n3")
    acted = acted_by(found, "n1")
    found.leave("n1")
    assert kinds(found.settle_exchange()) == ["ExchangeStarted"]
    assert awaited(found) == {"n2", "n3"}
    found.apply("n3")
    gather(found)
    assert {found.acting(partition) for partition in acted} == {"n3"}


def test_who_has_hung_since_is_newly_listed_nowhere() -> None:
    """DS15: n5 has answered once, while n4 was missed, and hangs when a group is created."""
    found = shared("n1", "n2")
    found.join("n4")
    found.settle_exchange()
    gather(found)
    found.join("n5")
    found.settle_exchange()
    found.answer("n5")
    found.settle_exchange()
    found.create("items", 16, 1)
    found.settle_exchange()
    found.answer("n1", "n2")
    gather(found)
    assert {found.acting(partition, "items") for partition in range(16)} <= {"n1", "n2", None}
    assert not any("n5" in found.states(partition, "items") for partition in range(16))


def test_a_reset_is_carried_out_when_those_have_answered_that_its_exchange_has_missed() -> None:
    """DS2, DS17: the operator was told that it is granted."""
    found = shared("n1", "n2", "n3", backups=0)
    gone = acted_by(found, "n1")
    found.leave("n1")
    found.exchange()
    found.reset("orders")
    found.settle_exchange()
    gather(found)
    assert all(found.one(partition).is_lost for partition in gone)
    found.answer("n2", "n3")
    found.exchange()
    assert not any(found.one(partition).is_lost for partition in gone)


def test_a_reset_is_carried_out_when_an_owner_that_was_silent_has_nothing() -> None:
    """DS2, DS12, DS17: it is back without its disk, and was asked before the reset."""
    found, alone = back_without_a_word()
    found.disks["n1"] = {}
    gather(found)
    found.reset("orders")
    found.exchange_but("n1")
    assert all(found.one(partition).is_lost for partition in alone)
    found.answer("n1")
    found.exchange()
    assert not any(found.one(partition).is_lost for partition in alone)


def test_what_is_given_up_begins_with_the_best_of_what_is_left() -> None:
    """DS10: the choice is by content, so all that have something are asked for it, and waited for."""
    found = Shared()
    found.join("n1")
    found.create("orders", 16, 2)
    found.rest()
    found.join("n2", "n3")
    found.exchange()
    found.disks["n2"] = dict.fromkeys((("orders", each) for each in range(16)), 1)
    found.disks["n3"] = dict.fromkeys((("orders", each) for each in range(16)), 900)
    found.leave("n1")
    found.exchange()
    found.reset("orders")
    found.settle_exchange()
    found.answer("n2")
    gather(found)
    assert {found.acting(partition) for partition in range(16)} == {None}
    found.answer("n3")
    found.exchange()
    assert all(found.acting(partition) for partition in range(16))


def test_who_may_have_the_last_copy_is_not_stopped_because_another_life_is_listed() -> None:
    """EX32, DS10: n2 is listed of a former life, and has said that it has nothing; n1 alone may have it."""
    found = shared("n1", "n2", "n3")
    both = [each for each in range(16) if set(found.states(each)) == {"n1", "n2"}]
    assert both
    found.leave("n1", "n2")
    found.exchange()
    found.disks["n2"] = {}
    found.join("n1", "n2")
    found.settle_exchange()
    found.answer("n2", "n3")
    gather(found)
    assert missed(found) == {"n1"}
    passed(found, "evict")
    assert not [each for each in found.settle_exchange() if isinstance(each, LeaseStopped)]


def test_what_a_disk_has_lost_is_remembered_while_a_row_lists_it() -> None:
    """DS2, DS10: n3 came back with an older disk while the partition waited for n2, so nothing was made of its answer;
    in its next life it must not be believed either."""
    found = Counted("n1", "n2", "n3")
    found.create(backups=2)
    found.rest()
    found.renew(n1=20, n2=20, n3=20)
    found.leave("n1")
    found.settle_exchange()
    gather(found)
    found.leave("n3")
    found.disks["n3"] = {}
    found.join("n3")
    found.settle_exchange()
    found.answer("n3")
    found.settle_exchange()
    disk = found.state.get(DiskRow, "n3")
    assert disk is not None
    number = ownership.number_of(found.state, NodeId("n3"))
    assert number is not None
    is_listed = any(
        lists_former_life(row, number, found.node("n3").joined_at) for _, row in found.state.rows(OwnershipRow)
    )
    assert is_listed
    assert disk.lost
