"""Every fault has its turn, and a seed always means the same ones."""

from tests.soak.schedule import FAULTS_MAX, PAIRS, SHORTEST_MS, WINDOW_MS, Kind, moments, plan


def test_a_seed_always_means_the_same_faults() -> None:
    """Or a violation could not be played again."""
    assert [plan(seed) for seed in range(200)] == [plan(seed) for seed in range(200)]
    assert len({plan(seed) for seed in range(200)}) == 200


def test_as_many_rounds_as_there_are_faults_have_had_each() -> None:
    """From whatever seed on; a draw alone would leave out one or another for hundreds of rounds."""
    for first in (0, 17, 1000):
        seen = {(fault.kind, fault.target) for seed in range(first, first + len(PAIRS)) for fault in plan(seed)}
        assert seen == set(PAIRS)


def test_faults_keep_to_their_window() -> None:
    """So a round takes some seconds; a zombie sleeps through a take-over."""
    for fault in (fault for seed in range(500) for fault in plan(seed)):
        assert 0 <= fault.at_ms < WINDOW_MS
        assert SHORTEST_MS.get(fault.kind, 100) <= fault.for_ms < WINDOW_MS
        assert fault.size or fault.kind not in (Kind.CLOCK, Kind.DELAY)
    assert {len(plan(seed)) for seed in range(500)} == set(range(1, FAULTS_MAX + 1))


def test_each_fault_begins_before_it_ends() -> None:
    """Moments come in the order of time."""
    for seed in range(100):
        times = [at_ms for at_ms, _, _ in moments(plan(seed))]
        assert times == sorted(times)
        open_faults: set[int] = set()
        for _, begins, fault in moments(plan(seed)):
            (open_faults.add if begins else open_faults.remove)(id(fault))
        assert not open_faults
