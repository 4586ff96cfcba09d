"""What a node acts for, and which operations still run: the guard of one partition, step by step (DS8)."""

from topolog.events.ids import Position
from topolog.streams.node.acting import Acting

PLACE = ("orders", 3)
OLD, NEW = Position(5), Position(9)
NONE: frozenset[tuple[str, int]] = frozenset()


def acting() -> Acting:
    found = Acting()
    found.grant({PLACE: OLD})
    return found


def test_what_runs_behind_a_hand_over_ends_within_the_lease_that_was_held_then() -> None:
    """EX15: the next primary acts when that one must be over; a renewal since changes nothing."""
    found = acting()
    for _ in range(3):
        assert found.begin(PLACE) == OLD
    found.revoke({PLACE}, {PLACE: OLD}, {PLACE}, by_ns=100)
    assert found.end(PLACE, OLD, 100)
    assert not found.end(PLACE, OLD, 101)
    found.revoke({PLACE}, {PLACE: OLD}, {PLACE}, by_ns=500)
    assert not found.end(PLACE, OLD, 101)
    assert found.running({PLACE}) == set()


def test_nothing_begins_between_one_token_and_the_next() -> None:
    """DS8: the same node acts again, but the service has not heard of it yet; what ran under the old one fails."""
    found = acting()
    assert found.begin(PLACE) == OLD
    found.revoke({PLACE}, {PLACE: NEW}, NONE, by_ns=0)
    assert found.begin(PLACE) is None
    found.grant({PLACE: NEW})
    assert found.begin(PLACE) == NEW
    assert not found.end(PLACE, OLD, 1)
    assert found.end(PLACE, NEW, 1)


def test_a_partition_drains_once_it_is_closed_and_nothing_runs() -> None:
    """EX14: before that an operation may still begin."""
    found = acting()
    assert found.running({PLACE}) == {PLACE}
    found.revoke({PLACE}, {PLACE: OLD}, {PLACE}, by_ns=100)
    assert found.running({PLACE}) == set()
    assert found.begin(PLACE) is None


def test_a_hand_over_that_is_off_leaves_no_trace() -> None:
    """It was cancelled: the same node acts under its new token, however long an operation takes."""
    found = acting()
    found.revoke({PLACE}, {PLACE: OLD}, {PLACE}, by_ns=100)
    found.revoke({PLACE}, {PLACE: NEW}, NONE, by_ns=100)
    found.grant({PLACE: NEW})
    assert found.begin(PLACE) == NEW
    assert found.end(PLACE, NEW, 1_000)
