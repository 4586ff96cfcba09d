"""The adversarial schedules of schema change: late, lost, paused, asleep, and clocks that are off."""

import pytest
from tests.simulation.schedules import OWED_MS, PROCEED_MS, TERMS, Shop
from tests.unit.streams.rules.changing import INT, TEXT, add, alter, drop, drop_column, table

from topolog.events.asked import RequestId
from topolog.events.errors import BeingDeleted, Fenced, Retriable
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.objects import SchemaChangeCommitted

HOUR_MS = 3_600_000


def presumed_fenced(shop: Shop) -> tuple[str, ...]:
    """Who was, at the newest commit."""
    committed = shop.newest(SchemaChangeCommitted)
    assert isinstance(committed, SchemaChangeCommitted)
    return committed.evidence.presumed_fenced


def test_a_heartbeat_that_is_delayed_beyond_the_wait_gives_no_lease_back() -> None:
    """LE2: what is echoed late is of when it was sent, and that is more than a fence ago."""
    shop = Shop()
    late = shop.servers[0]
    late.is_mute = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    assert shop.status() == "COMMITTED"
    assert late.writer.in_flight
    late.is_stopped = True
    late.writer.land(1)
    shop.run(OWED_MS)
    late.session.step(0)
    assert late.look() == "fenced"
    late.is_stopped = late.is_mute = False
    shop.run(2 * PROCEED_MS)
    assert late.look() == "not_found"


def test_a_server_whose_requests_arrive_and_whose_answers_do_not_is_fenced_when_the_drop_is_committed() -> None:
    """TA18: it is heard all the while; its lease hangs on what it reads."""
    shop = Shop()
    deaf = shop.servers[0]
    deaf.is_deaf = True
    shop.change(drop())
    while shop.status() != "COMMITTED":
        assert not deaf.is_fenced or deaf.look() == "fenced"
        shop.run(20)
    assert deaf.look() == "fenced"
    assert presumed_fenced(shop) == ("n1",)


def test_a_server_that_is_stopped_before_it_looks_does_not_answer_when_it_goes_on() -> None:
    """TA18: pause before the check."""
    shop = Shop()
    paused = shop.servers[0]
    paused.is_stopped = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    assert shop.status() == "COMMITTED"
    assert paused.look() == "fenced"


def test_a_read_that_is_stopped_in_its_middle_is_not_answered() -> None:
    """TA28: pause between the check and the effect; drop and creation of the same name pass meanwhile."""
    shop = Shop()
    paused = shop.servers[0]
    reading = paused.schema.using("shop.orders")
    reading.__enter__()
    paused.is_stopped = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    shop.change(table(other=TEXT))
    shop.run(PROCEED_MS + OWED_MS)
    with pytest.raises(Fenced):
        reading.__exit__(None, None, None)


def test_a_read_in_whose_middle_its_server_catches_up_is_not_answered_either() -> None:
    """TA28: the lease is back, under another generation, and the table is another one."""
    shop = Shop()
    paused = shop.servers[0]
    reading = paused.schema.using("shop.orders")
    reading.__enter__()
    paused.is_stopped = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    shop.change(table(other=TEXT))
    shop.run(PROCEED_MS + OWED_MS)
    paused.is_stopped = False
    shop.run(2 * PROCEED_MS)
    assert not paused.is_fenced
    with pytest.raises(BeingDeleted):
        reading.__exit__(None, None, None)


def test_a_short_read_that_meets_a_preparation_is_begun_again() -> None:
    """TA28: the lease has held all the while; the definition has not."""
    shop = Shop()
    server = shop.servers[0]
    reading = server.schema.using("shop.orders")
    reading.__enter__()
    shop.change(alter("shop.orders", drop_column("note")))
    shop.run(OWED_MS)
    with pytest.raises(Retriable):
        reading.__exit__(None, None, None)


def test_whoever_is_stopped_while_it_catches_up_shows_nothing_of_the_past() -> None:
    """TA18: pause during the pull. All of it is applied under a fence, which only an echo behind it ends."""
    shop = Shop()
    slow = shop.servers[0]
    slow.is_deaf = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    shop.change(table(other=TEXT))
    shop.run(PROCEED_MS + OWED_MS)
    slow.is_stopped, slow.is_deaf = True, False
    behind = True
    while behind:
        before = slow.session.core.folded
        slow.read_one()
        behind = slow.session.core.folded != before
        assert slow.look() == "fenced"
    slow.is_stopped = False
    shop.run(2 * PROCEED_MS)
    found = slow.look()
    assert not isinstance(found, str)
    assert [column.name for column in found.columns] == ["id", "other"]


def test_a_lease_ends_although_no_timer_strikes() -> None:
    """LE8: pause of the timer only. Whoever asks looks at the clock."""
    shop = Shop()
    shop.pass_time(TERMS.heartbeat_ms)
    assert not shop.servers[0].is_fenced
    shop.pass_time(TERMS.fence_ms)
    assert [server.look() for server in shop.servers] == ["fenced"] * 3


def test_a_server_that_has_slept_for_an_hour_is_fenced_when_it_wakes() -> None:
    """LE13: its clock has run on."""
    shop = Shop()
    sleeper = shop.servers[0]
    sleeper.is_stopped = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    shop.pass_time(HOUR_MS)
    sleeper.clock.slept(HOUR_MS + PROCEED_MS + OWED_MS)
    assert sleeper.look() == "fenced"
    sleeper.is_stopped = False
    shop.run(2 * PROCEED_MS)
    assert sleeper.look() == "not_found"


def test_a_coordinator_that_sleeps_for_an_hour_has_not_waited() -> None:
    """LE13: its clock has stood still, and whoever was silent before is waited for in full."""
    shop = Shop()
    silent = shop.servers[0]
    silent.is_deaf = silent.is_mute = True
    shop.change(drop())
    shop.run(OWED_MS)
    shop.pass_time(HOUR_MS)
    shop.coordinator_clock.slept(HOUR_MS)
    shop.run(100)
    assert shop.status() == "PREPARED"
    shop.run(PROCEED_MS)
    assert shop.status() == "COMMITTED"


@pytest.mark.parametrize("ppm", [500, 10_000])
def test_clocks_that_run_apart_leave_no_moment_between(ppm: int) -> None:
    """LE1: the slowest holder and the fastest waiter; the margin pays for it."""
    for age_ms in range(0, 240, 40):
        shop = Shop("n2", "n3", ppm=ppm)
        slow = shop.start("n1", ppm=-ppm)
        shop.run(2 * OWED_MS + age_ms)
        assert not slow.is_fenced
        slow.is_deaf = True
        shop.change(alter("shop.orders", add("more", INT)))
        shop.run(TERMS.heartbeat_ms)
        while shop.status() != "COMMITTED":
            shop.run(20)
        assert presumed_fenced(shop) == ("n1",)
        assert slow.look() == "fenced"


def test_a_fence_that_was_lowered_and_raised_again_is_waited_out_in_full() -> None:
    """LE37: a server that has heard of neither holds a lease by the first terms; the longest of them counts."""
    shop = Shop()
    terms(shop, 3_000)
    shop.run(2 * OWED_MS)
    deaf = shop.servers[0]
    assert deaf.session.lease.remaining_ms(deaf.clock.boottime_ns()) > PROCEED_MS
    deaf.is_deaf = deaf.is_mute = True
    terms(shop, 1_000)
    shop.run(100)
    terms(shop, 1_500)
    shop.change(drop())
    while shop.status() != "COMMITTED":
        shop.run(20)
    assert presumed_fenced(shop) == ("n1",)
    assert deaf.look() == "fenced"


def terms(shop: Shop, fence_ms: int) -> None:
    log_id = shop.fold().header.log_id
    assert log_id is not None
    shop.send(LeaseTermsRequested(RequestId(f"bob-{fence_ms}", 1), log_id, "bob", "", fence_ms, fence_ms // 10))
    shop.run(40)


def test_a_write_that_was_admitted_before_the_closing_and_arrives_behind_it_is_dropped() -> None:
    """TA29: no check covers that pause; the token of the write does, on whatever disk it comes to."""
    shop = Shop()
    writer, other = shop.servers[:2]
    with writer.schema.writing("shop.orders") as found:
        token = found.token
    shop.change(drop())
    shop.run(OWED_MS)
    shop.change(table(sum=INT, note=TEXT))
    shop.run(OWED_MS)
    assert shop.ends() == {"committed": 3}
    assert other.schema.is_closed(token.incarnation)
    now = other.look()
    assert not isinstance(now, str)
    assert now.incarnation > token.incarnation
    assert not other.schema.is_closed(now.incarnation)


def test_a_name_that_is_created_dropped_and_created_is_another_table_each_time() -> None:
    """TA12: create, drop, create, all asked for at once; a server that is behind serves none of them meanwhile."""
    shop = Shop()
    slow = shop.servers[0]
    before = slow.look()
    assert not isinstance(before, str)
    shop.change(drop())
    shop.run(OWED_MS)
    shop.change(table(a=INT))
    shop.run(OWED_MS)
    slow.is_deaf = True
    shop.change(drop())
    shop.run(PROCEED_MS + OWED_MS)
    shop.change(table(b=INT))
    shop.run(PROCEED_MS + OWED_MS)
    assert slow.look() == "fenced"
    slow.is_deaf = False
    shop.run(2 * PROCEED_MS)
    found = {server.name: server.look() for server in shop.servers}
    assert len({str(each) for each in found.values()}) == 1
    last = found["n1"]
    assert not isinstance(last, str)
    assert [column.name for column in last.columns] == ["id", "b"]
    assert last.incarnation == before.incarnation + 2


def test_a_fenced_server_applies_what_it_reads() -> None:
    """LE7: a fence stops answers, and nothing that is applied."""
    shop = Shop()
    fenced = shop.servers[0]
    fenced.is_mute = True
    shop.run(PROCEED_MS)
    shop.change(drop())
    shop.run(OWED_MS)
    assert fenced.look() == "fenced"
    assert shop.status() == "COMMITTED"
    assert fenced.session.core.applied.position == shop.fold().header.position
    fenced.is_mute = False
    shop.run(2 * PROCEED_MS)
    assert fenced.look() == "not_found"


def test_a_fenced_server_says_so_and_comes_back_by_itself() -> None:
    """LE7: nothing on the way of a heartbeat asks for a lease."""
    shop = Shop()
    shop.pass_time(2 * PROCEED_MS)
    assert all(server.is_fenced for server in shop.servers)
    shop.run(OWED_MS)
    assert not any(server.is_fenced for server in shop.servers)
    assert not isinstance(shop.servers[0].look(), str)
