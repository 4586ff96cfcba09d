"""Whom an exchange waits for, for how long, and what it does without (DESIGN §4.3.9)."""

from tests.unit.streams.rules.exchanging import choose, kinds, passed, shared

from topolog.events import exchange as x
from topolog.events import ownership
from topolog.events.ids import NodeId
from topolog.events.membership import LeaseStopped, LeaveReason
from topolog.streams.rules import exchange


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
