"""The adversarial schedules of schema change: coordinators that crash or meet, servers that come, go and lag."""

from collections.abc import Callable

import pytest
from tests.simulation.schedules import OWED_MS, PROCEED_MS, Shop
from tests.unit.streams.rules.changing import INT, LONG, TEXT, add, alter, drop, grant, retype, table

from topolog.events.asked import RequestId
from topolog.events.errors import CannotApply
from topolog.events.log import Entry
from topolog.events.membership import NodeRemovalRequested
from topolog.events.object_requests import ChangeCancellationRequested
from topolog.events.objects import (
    ChangeRow,
    DataDeletionConfirmed,
    ObjectStatus,
    SchemaChangeCommitted,
    SchemaChangePrepared,
    SchemaChangeQueued,
    SchemaChangeRolledBack,
    object_row,
)
from topolog.events.stamp import HEADER_NAME
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role

TAKEOVER_MS = 600


def committed(shop: Shop) -> SchemaChangeCommitted:
    found = shop.newest(SchemaChangeCommitted)
    assert isinstance(found, SchemaChangeCommitted)
    return found


def cancel(shop: Shop) -> None:
    """The newest change is given up."""
    log_id = shop.fold().header.log_id
    assert log_id is not None
    shop.send(ChangeCancellationRequested(RequestId("bob", 99), log_id, "bob", "", shop.row().number))


def run_until(shop: Shop, holds: Callable[[], bool]) -> None:
    """For three waits at most."""
    for _ in range(3 * PROCEED_MS // 20):
        if holds():
            return
        shop.run(20)
    raise AssertionError(f"{holds} does not come: {shop.row()}")


STEPS = (SchemaChangeQueued, SchemaChangePrepared, SchemaChangeCommitted, SchemaChangeRolledBack, DataDeletionConfirmed)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_coordinator_that_crashes_behind_any_step_leaves_nothing_half_done(step: type) -> None:
    """TA14: another one goes on from the log; each change ends once, and the wait begins anew."""
    shop = Shop()
    silent = shop.servers[0]
    silent.is_deaf = silent.is_mute = True
    seen = sum(isinstance(each.event, step) for each in shop.decided())
    shop.change(drop())
    shop.run(40)
    shop.change(grant("ada@shop.orders"), deadline_ms=300)
    shop.run(40)
    shop.change(table("shop.more", a=INT))
    shop.change(alter("shop.more", add("b")), deadline_ms=60)
    run_until(shop, lambda: sum(isinstance(each.event, step) for each in shop.decided()) > seen)
    shop.drivers.clear()
    shop.run(100)
    shop.start_coordinator()
    silent.is_deaf = silent.is_mute = False
    shop.run(TAKEOVER_MS + 3 * PROCEED_MS)
    assert sum(shop.ends().values()) >= 3
    assert not [row for _, row in shop.fold().state.rows(ChangeRow) if row.is_open or row.undeleted]
    assert [server.look() for server in shop.servers] == ["not_found"] * 3


def test_of_two_coordinators_one_ends_the_change() -> None:
    """K3: both lead for a moment, both decide; the log takes one of them at its word."""
    shop = Shop()
    first, second = shop.drivers[0], shop.start_coordinator()
    shop.run(100)
    silent = shop.servers[0]
    silent.is_deaf = silent.is_mute = True
    shop.change(drop())
    shop.run(OWED_MS)
    second.core.claim()
    shop.stopped.add(first)
    shop.run(40)
    assert (first.role, second.role) == (Role.LEADING, Role.LEADING)
    shop.stopped.clear()
    shop.run(2 * PROCEED_MS)
    assert second.role is Role.LEADING
    assert shop.ends() == {"committed": 2}


def test_an_old_leader_renews_nobody() -> None:
    """K3: what it still writes is of a term that is over; a server that heard only that is fenced in time."""
    shop = Shop()
    old, new = shop.drivers[0], shop.start_coordinator()
    shop.run(100)
    new.core.claim()
    shop.stopped.add(old)
    shop.run(OWED_MS)
    assert new.role is Role.LEADING
    shop.stopped.add(new)
    deadlines = [server.session.lease.deadline_ns for server in shop.servers]
    old.core.renew()
    for each in old.core.outbox:
        shop.log.put(Topic.DECISIONS, "", each.value, ((HEADER_NAME, each.stamp),))
    old.core.outbox.clear()
    shop.run(OWED_MS)
    assert [server.session.lease.deadline_ns for server in shop.servers] == deadlines
    shop.run(PROCEED_MS)
    assert [server.look() for server in shop.servers] == ["fenced"] * 3


def test_a_request_that_comes_again_long_after_changes_nothing() -> None:
    """K7: the table was dropped meanwhile; the retry of its creation is the answered request, byte for byte."""
    shop = Shop()
    asked = shop.change(table("shop.more", a=INT))
    shop.run(OWED_MS)
    shop.change(drop("shop.more"))
    shop.run(OWED_MS)
    ended = shop.ends()
    shop.send(asked)
    shop.run(OWED_MS)
    assert shop.ends() == ended
    assert object_row(shop.fold().state, "shop.more") is None


def test_a_decision_of_a_former_term_that_lands_late_changes_nothing() -> None:
    """K3: a preparation, sent again when the table has another definition."""
    shop = Shop()
    shop.change(alter("shop.orders", add("a")))
    shop.run(OWED_MS)
    entries = list(shop.log.entries(Topic.DECISIONS))
    shop.change(alter("shop.orders", add("b")))
    shop.run(OWED_MS)
    before = shop.fold().header.position
    for entry in entries[-3:]:
        _land_again(shop, entry)
    for server in shop.servers:
        server.turn()
    assert shop.fold().header.position == before
    shop.run(OWED_MS)
    assert shop.servers[0].look() == shop.servers[1].look()
    assert shop.ends() == {"committed": 3}


def _land_again(shop: Shop, entry: Entry) -> None:
    shop.log.put(entry.topic, entry.key or "", entry.value, entry.headers)


def test_a_server_that_has_lost_everything_serves_nothing_before_it_has_read_the_log() -> None:
    """TA18: an empty state is no state. It says fenced, and not that there is no such table."""
    shop = Shop()
    shop.kill(shop.servers[0])
    new = shop.start("n1")
    assert new.look() == "fenced"
    for _ in range(40):
        new.read_one()
        assert new.look() == "fenced"
    shop.run(3 * PROCEED_MS)
    assert not isinstance(new.look(), str)


def test_a_server_that_restarts_inside_the_wait_ends_it() -> None:
    """TA15: its new life has read the preparation, and its lock proves the former one dead."""
    shop = Shop("n2", "n3")
    first = shop.start("n1", folder="disk of n1")
    shop.run(2 * OWED_MS)
    first.is_stopped = True
    shop.change(drop())
    shop.run(OWED_MS)
    assert shop.status() == "PREPARED"
    shop.kill(first)
    again = shop.start("n1", folder="disk of n1")
    shop.run(OWED_MS)
    assert shop.status() == "COMMITTED"
    assert committed(shop).evidence.presumed_fenced == ()
    shop.run(OWED_MS)
    assert again.look() == "not_found"


def test_a_server_that_dies_inside_the_wait_costs_no_failure() -> None:
    """TA16: it was well when the change was prepared; the wait ends by its being fenced."""
    shop = Shop()
    silent, dying = shop.servers[:2]
    silent.is_deaf = silent.is_mute = True
    shop.change(drop())
    shop.run(OWED_MS)
    shop.kill(dying)
    shop.run(2 * PROCEED_MS)
    assert shop.status() == "COMMITTED"
    assert shop.ends() == {"committed": 2}


def test_a_server_that_is_well_but_for_what_it_should_apply_holds_nothing_up() -> None:
    """TA17: its heartbeats come all the while. It applies one record at a time, far too slowly."""
    shop = Shop()
    half = shop.servers[0]
    half.is_deaf = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    assert shop.status() == "COMMITTED"
    assert committed(shop).evidence.presumed_fenced == ("n1",)
    assert half.look() == "fenced"


def test_a_server_that_never_fences_is_waited_for_until_an_operator_removes_it() -> None:
    """TA16: rolling upgrade with one that has no such capability."""
    shop = Shop("n2", "n3")
    old = shop.start("n1", fences=False)
    shop.run(2 * OWED_MS)
    old.is_stopped = True
    shop.change(drop())
    shop.run(5 * PROCEED_MS)
    assert shop.status() == "PREPARED"
    shop.kill(old)
    log_id = shop.fold().header.log_id
    assert log_id is not None
    shop.send(NodeRemovalRequested(RequestId("bob", 99), log_id, "bob", "it is switched off", "n1"))
    shop.run(2 * PROCEED_MS)
    assert shop.status() == "COMMITTED"


def test_the_users_deadline_ends_the_wait_for_a_server_that_never_fences() -> None:
    """TA16, TA20: the change is rolled back, which needs nobody (TA22)."""
    shop = Shop("n2", "n3")
    old = shop.start("n1", fences=False)
    shop.run(2 * OWED_MS)
    old.is_stopped = True
    shop.change(drop(), deadline_ms=2 * PROCEED_MS)
    shop.run(3 * PROCEED_MS)
    assert (shop.status(), shop.row().code) == ("ROLLED_BACK", "DEADLINE")
    assert not isinstance(shop.servers[0].look(), str)


def test_a_server_that_joins_in_the_middle_of_a_change_is_not_waited_for() -> None:
    """TA15: its first lease stands behind the preparation."""
    shop = Shop()
    silent = shop.servers[0]
    silent.is_deaf = silent.is_mute = True
    shop.change(drop())
    shop.run(100)
    new = shop.start("n4")
    run_until(shop, lambda: not new.is_fenced)
    assert shop.status() == "PREPARED"
    assert new.look() == "being_deleted"
    new.is_stopped = True
    shop.run(PROCEED_MS + OWED_MS)
    assert shop.status() == "COMMITTED"
    assert "n4" not in (*committed(shop).evidence.applied, *committed(shop).evidence.presumed_fenced)


def test_a_drop_that_is_rolled_back_leaves_its_marker_only_where_nobody_has_heard_it() -> None:
    """TA22: a later decision takes it away; nobody has to be reached for the rollback."""
    shop = Shop()
    marked, silent, well = shop.servers
    silent.is_deaf = silent.is_mute = True
    shop.change(drop())
    shop.run(100)
    marked.is_deaf = True
    assert marked.look() == "being_deleted"
    cancel(shop)
    shop.run(100)
    assert shop.status() == "ROLLED_BACK"
    assert marked.look() == "being_deleted"
    assert not isinstance(well.look(), str)
    marked.is_deaf = False
    shop.run(OWED_MS)
    assert marked.look() == well.look()
    row = object_row(shop.fold().state, "shop.orders")
    assert row is not None
    assert row.status is ObjectStatus.USING


def test_whoever_has_not_heard_a_rollback_is_fenced_before_the_next_change_is_committed() -> None:
    """TA23: it goes by a definition that nobody has committed, and never beside one that follows the next."""
    shop = Shop()
    behind, silent, _ = shop.servers
    silent.is_deaf = silent.is_mute = True
    shop.change(alter("shop.orders", retype("sum", LONG)))
    shop.run(60)
    behind.is_deaf = True
    found = behind.look()
    assert not isinstance(found, str)
    assert [column.type for column in found.columns] == [LONG, LONG, TEXT]
    cancel(shop)
    shop.change(alter("shop.orders", add("more", TEXT)))
    shop.run(60)
    assert (shop.status(), shop.ends()) == ("PREPARED", {"committed": 1, "rolled back": 1})
    assert behind.look() == found
    run_until(shop, lambda: shop.status() == "COMMITTED")
    assert "n1" in committed(shop).evidence.presumed_fenced
    assert behind.look() == "fenced"


def test_a_server_that_cannot_apply_a_change_ends_it_for_all() -> None:
    """TA19: nobody has used what it would have been, and the next change is not held up."""
    shop = Shop()
    for server in shop.servers:
        server.schema.on_change(_no_codec if server.name == "n2" else _any)
    shop.change(alter("shop.orders", add("more", TEXT)))
    shop.run(OWED_MS)
    assert (shop.status(), shop.row().code) == ("ROLLED_BACK", "BLOCKED")
    assert len({str(server.look()) for server in shop.servers}) == 1
    shop.change(drop())
    shop.run(OWED_MS)
    assert shop.status() == "COMMITTED"


def _no_codec(change: ChangeRow) -> None:
    if any(step.definition for step in change.steps):
        raise CannotApply("NO_CODEC", "no codec for TEXT")


def _any(_: ChangeRow) -> None:
    """It can."""
