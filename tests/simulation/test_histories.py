"""Seeds with a baseline, power cuts, disks lost and put back, with a copy of the log that goes live beside it, and with
definitions that change."""

from topolog.streams.simulation import Faults, Violation, simulate

SEEDS = 8
SPAN_MS = 10_000


def test_no_seed_of_disks_or_of_two_logs_breaks_a_rule() -> None:
    """Every rule holds after every step, in each history by itself, and each run comes to rest."""
    broken = []
    reports = []
    for budget in (Faults.of_disks(), Faults.of_histories()):
        for seed in range(SEEDS):
            try:
                reports.append(simulate(seed, SPAN_MS, budget))
            except Violation as violation:
                broken.append(violation)
    assert not broken, f"seeds {[each.seed for each in broken]}\n\n{broken[0]}"
    assert sum(report.requests for report in reports) > 20 * SEEDS, "requests are answered"


def test_a_seed_of_two_logs_repeats_both() -> None:
    """The digest is over every byte of both."""
    report = simulate(5, SPAN_MS, Faults.of_histories())
    assert simulate(5, SPAN_MS, Faults.of_histories()) == report


def test_no_seed_of_changing_definitions_breaks_a_rule() -> None:
    """Every rule holds after every step, and each run comes to rest: every change ends."""
    broken = []
    for seed in range(SEEDS):
        try:
            simulate(seed, SPAN_MS, Faults.of_schema())
        except Violation as violation:
            broken.append(violation)
    assert not broken, f"seeds {[each.seed for each in broken]}\n\n{broken[0]}"
