"""The holder's side of the lease: from its own send time, by the exact echo, and not a moment longer (LE2)."""

import ctypes
import os
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import Fenced, NotFound, TopologError
from topolog.events.ids import Incarnation
from topolog.streams.clock import ManualClock
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.lease import SENT_KEPT, Lease

MS = 1_000_000
FENCE_MS = 2_000


def lease_sent_at(*times_ms: int) -> Lease:
    """A lease whose heartbeats 1, 2, … were handed over at these times."""
    lease = Lease(Incarnation(1))
    for sequence, at_ms in enumerate(times_ms, 1):
        lease.sent(sequence, at_ms * MS)
    return lease


def test_it_starts_fenced() -> None:
    """LE6: a node serves only after it has applied the log up to its own echo."""
    assert not Lease(Incarnation(1)).is_valid(0)


def test_it_runs_from_the_time_before_the_heartbeat_was_sent() -> None:
    """LE2: the evidence is as old as the send, however late the echo comes."""
    lease = lease_sent_at(100)
    lease.echoed(1, FENCE_MS, 1_900 * MS)
    assert lease.remaining_ms(1_900 * MS) == lease.remaining_ms(1_900 * MS - 1) == 200
    assert lease.is_valid(2_100 * MS)
    assert not lease.is_valid(2_100 * MS + 1)


def test_an_echo_that_comes_too_late_gives_no_lease() -> None:
    """Read back after the fence, it is evidence of a time that is over."""
    lease = lease_sent_at(100)
    lease.echoed(1, FENCE_MS, 5_000 * MS)
    assert not lease.is_valid(5_000 * MS)
    assert lease.remaining_ms(5_000 * MS) == 0


def test_only_the_exact_echo_counts() -> None:
    """Never «at least»: an echo of a sequence that was not sent, or not sent by this process, extends nothing."""
    lease = lease_sent_at(100)
    lease.echoed(2, FENCE_MS, 200 * MS)
    assert not lease.is_valid(200 * MS)
    lease.echoed(1, FENCE_MS, 200 * MS)
    assert lease.is_valid(200 * MS)


def test_an_echo_counts_once() -> None:
    """A repeat of it says nothing new."""
    lease = lease_sent_at(100)
    lease.echoed(1, FENCE_MS, 200 * MS)
    lease.echoed(1, 9 * FENCE_MS, 300 * MS)
    assert lease.deadline_ns == 2_100 * MS


def test_an_echo_of_an_earlier_heartbeat_takes_nothing_back() -> None:
    """The coordinator echoes the newest it has heard; what is older is forgotten with it."""
    lease = lease_sent_at(100, 300, 500)
    lease.echoed(2, FENCE_MS, 600 * MS)
    lease.echoed(1, FENCE_MS, 600 * MS)
    assert lease.deadline_ns == 2_300 * MS
    lease.echoed(3, FENCE_MS, 600 * MS)
    assert lease.deadline_ns == 2_500 * MS


def test_a_shorter_fence_takes_nothing_back() -> None:
    """Terms that were made shorter count from the next heartbeat on: what an echo has given, others wait for."""
    lease = lease_sent_at(100, 200)
    lease.echoed(1, FENCE_MS, 250 * MS)
    lease.echoed(2, FENCE_MS // 4, 300 * MS)
    assert lease.deadline_ns == 2_100 * MS


def test_a_voided_lease_never_runs_again() -> None:
    """Echoes that still arrive are of heartbeats from before."""
    lease = lease_sent_at(100, 200)
    lease.echoed(1, FENCE_MS, 200 * MS)
    lease.void()
    lease.echoed(2, FENCE_MS, 200 * MS)
    assert not lease.is_valid(200 * MS)
    assert not lease.is_valid(0)


def test_heartbeats_nobody_echoes_do_not_pile_up() -> None:
    """A node that is cut off for a week remembers the last so many only."""
    lease = lease_sent_at(*range(SENT_KEPT + 10))
    lease.echoed(10, FENCE_MS, 0)
    assert not lease.is_valid(0)
    lease.echoed(SENT_KEPT + 10, FENCE_MS, 0)
    assert lease.is_valid(0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500), st.integers(1, 20)), max_size=40))
def test_a_valid_check_rests_on_a_heartbeat_sent_within_the_fence(steps: list[tuple[int, int, int]]) -> None:
    """LE1: at any time a lease is valid, the newest echo that was applied is of a heartbeat sent ≤ fence_ms ago."""
    lease, now_ms, sent, newest = Lease(Incarnation(1)), 0, dict[int, int](), -1
    for kind, later_ms, sequence in steps:
        now_ms += later_ms
        if kind < 5:
            sent[len(sent) + 1] = now_ms
            lease.sent(len(sent), now_ms * MS)
        else:
            lease.echoed(sequence, FENCE_MS, now_ms * MS)
            newest = max(newest, sent.get(sequence, -1))
        if lease.is_valid(now_ms * MS):
            assert now_ms - newest <= FENCE_MS


def test_a_new_generation_begins_when_the_lease_starts_anew() -> None:
    """LE9: a read that spans a lapse did not run under one lease, though both its ends were valid."""
    lease = lease_sent_at(100, 200, 5_000)
    lease.echoed(1, FENCE_MS, 150 * MS)
    first = lease.generation
    lease.echoed(2, FENCE_MS, 250 * MS)
    assert lease.generation == first, "renewed in time, it goes on"
    lease.echoed(3, FENCE_MS, 5_100 * MS)
    assert lease.generation > first, "it had lapsed in between"
    before = lease.generation
    lease.void()
    assert lease.generation > before


# The guard, as a service sees it.


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Holding(msgspec.Struct):
    """A session as a guard sees it."""

    lease: Lease
    heartbeat_ms: int = 200
    margin_ms: int = 500
    failure: TopologError | None = None


def guard_of(lease: Lease, clock: ManualClock) -> LeaseGuard:
    return LeaseGuard(clock, Holding(lease))


@pytest.fixture
def renew(clock: ManualClock) -> Callable[[Lease], None]:
    def renew(lease: Lease) -> None:
        lease.sent(1, clock.boottime_ns())
        lease.echoed(1, FENCE_MS, clock.boottime_ns())

    return renew


def test_nobody_says_late_that_there_is_none(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """LE9: between the look and the answer the process may have been stopped; what it did not find may be there."""
    lease = Lease(Incarnation(1))
    renew(lease)
    guard = guard_of(lease, clock)

    def look(paused_ms: int) -> None:
        with guard.reading():
            clock.advance(paused_ms)
            raise NotFound("There is no table 'shop.orders'.")

    with pytest.raises(NotFound):
        look(0)
    with pytest.raises(Fenced):
        look(FENCE_MS + 1)


def test_require_raises_fenced_with_a_time_to_retry(clock: ManualClock) -> None:
    """LE10: one retryable error, with retry-after; each answer is computed from the clock (LE8)."""
    with pytest.raises(Fenced) as raised:
        guard_of(Lease(Incarnation(1)), clock).require()
    assert (raised.value.code, raised.value.retry_after_ms) == ("fenced", 200)


def test_no_task_has_to_run_for_a_lease_to_end(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """LE8: the pause that breaks the renewal also stops whatever would flip a flag."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    renew(lease)
    guard.require()
    assert guard.remaining_ms == FENCE_MS
    clock.advance(FENCE_MS + 1)
    assert not guard.is_valid
    assert guard.remaining_ms == 0


def test_a_suspended_machine_counts_for_the_holder(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """LE13: the holder's clock runs on while the machine is suspended; the waiter's stops."""
    lease = Lease(Incarnation(1))
    renew(lease)
    before = clock.monotonic_ns()
    clock.suspend(FENCE_MS + 1)
    assert clock.monotonic_ns() == before
    assert not guard_of(lease, clock).is_valid


def test_a_read_that_outlasts_the_lease_is_not_answered(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """LE9: checked again when it is done."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    renew(lease)
    with pytest.raises(Fenced, match="no valid lease"), guard.reading():
        clock.advance(FENCE_MS + 1)
    renew(lease)
    with guard.reading():
        clock.advance(FENCE_MS)


def test_n28_an_operation_that_outlasts_the_margin_is_told(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """LE12: what is done behind a check is what the margin pays for; half of it, and all of it, is said."""
    guard = guard_of(Lease(Incarnation(1)), clock)

    def act(ms: int) -> int:
        began_ns = clock.boottime_ns()
        clock.advance(ms)
        guard.acted(began_ns, clock.boottime_ns())
        return len(caplog.messages)

    assert [act(250), act(251), act(501), act(502), act(1_004)] == [0, 1, 1, 2, 3]
    assert guard.longest_ms == 1_004
    assert "took 251 ms behind its lease check: more than half of the margin of 500 ms" in caplog.messages[0]
    assert "took 502 ms behind its lease check: all of the margin of 500 ms" in caplog.messages[1]
    assert act(10) == 3
    assert guard.longest_ms == 1_004


def test_a_read_that_spans_a_lapse_is_not_answered(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """LE9: the lease ended and began again in the middle; what was read then may be old."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    renew(lease)

    def lapse_and_renew() -> None:
        clock.advance(FENCE_MS + 1)
        renew(lease)

    with pytest.raises(Fenced, match="changed during the read"), guard.reading():
        lapse_and_renew()
    guard.require()


def test_a_read_across_a_renewal_is_answered(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """A lease that is renewed in time is one lease."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    renew(lease)
    with guard.reading():
        clock.advance(FENCE_MS - 1)
        renew(lease)
        clock.advance(FENCE_MS - 1)


def test_a_read_that_was_fenced_from_the_start_is_not_begun(clock: ManualClock) -> None:
    """Nothing inside runs."""
    with pytest.raises(Fenced), guard_of(Lease(Incarnation(1)), clock).reading():
        pytest.fail("read without a lease")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_fenced(clock: ManualClock, renew: Callable[[Lease], None]) -> None:
    """It holds a valid copy of the lease and none of the threads that keep it; the parent goes on."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    os.register_at_fork(after_in_child=guard.fence_child)
    renew(lease)
    child = os.fork()
    if not child:
        os._exit(17 if not guard.is_valid and guard.remaining_ms == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert guard.is_valid


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_was_forked_outside_of_python_is_fenced_too(
    clock: ManualClock, renew: Callable[[Lease], None]
) -> None:
    """No handler of Python's runs there, so nobody tells the copy; the process id does."""
    lease = Lease(Incarnation(1))
    guard = guard_of(lease, clock)
    renew(lease)
    child = ctypes.PyDLL(None).fork()
    if not child:
        os._exit(17 if not guard.is_valid and guard.remaining_ms == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert guard.is_valid
