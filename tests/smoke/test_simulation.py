"""A smoke of the simulation: some seeds under every fault, and one broken rule of each protocol.

All of it, with many more seeds and every rule, is in tests/simulation (`make test-long`).
"""

import pytest
from tests.simulation import test_baseline_teeth, test_exchange_teeth, test_schema_teeth, test_teeth
from tests.simulation.test_teeth import Defect, run_row

from topolog.streams.simulation import Faults, Rule, simulate

SEEDS = 40
SPAN_MS = 10_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_seed_breaks_a_rule(seed: int) -> None:
    """Every rule holds after every step, and each run comes to rest."""
    assert simulate(seed, SPAN_MS, Faults()).requests > 0, "requests are answered"


ONE_OF_EACH = (
    test_teeth.repeats_are_applied,  # the log
    test_teeth.lease_before_read_back,  # leases
    test_teeth.accepted_without_waiting,  # metadata
    test_teeth.snapshots_of_what_was_read_back,  # snapshots
    test_teeth.half_a_set_is_applied,  # the fold
    test_exchange_teeth.the_former_primary_does_not_stop,  # partitions
    test_baseline_teeth.who_is_behind_is_refused,  # the baseline
    test_schema_teeth.committed_without_verdict,  # tables
)
TABLES = (test_teeth, test_exchange_teeth, test_baseline_teeth, test_schema_teeth)
ROWS = [row for table in TABLES for row in table.DEFECTS if row[0] in ONE_OF_EACH]


@pytest.mark.parametrize(("defect", "budget", "seed", "rule"), ROWS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_rule_of_each_protocol_is_caught(
    defect: Defect, budget: Faults, seed: int, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of the simulation can bite; repair has a table of its own, in tests/unit/streams/rules."""
    run_row(defect, budget, seed, rule, monkeypatch)


def test_each_protocol_has_its_row() -> None:
    """A table that is new here has one that runs, and a defect that has left its table is missed."""
    defects = {row[0] for row in ROWS}
    assert defects == set(ONE_OF_EACH)
    assert all(defects & {row[0] for row in table.DEFECTS} for table in TABLES)
