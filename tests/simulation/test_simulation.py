"""Seeds of the simulation: the real cores under every fault at once, under none, and twice the same."""

import os
import subprocess
import sys

import pytest

from topolog.streams.simulation import Case, Faults, Rule, Violation, replay, simulate
from topolog.streams.simulation.processes import ProjectorProcess
from topolog.streams.simulation.world import World

SEEDS = 150
SEEDS_OF_TERMS = 60
SEEDS_OF_HANGS = 60
SPAN_MS = 10_000


def test_no_seed_breaks_a_rule() -> None:
    """Every rule holds after every step of every seed, and each run comes to rest."""
    broken = []
    reports = []
    for seed in range(SEEDS):
        try:
            reports.append(simulate(seed, SPAN_MS, Faults()))
        except Violation as violation:
            broken.append(violation)
    assert not broken, f"seeds {[each.seed for each in broken]}\n\n{broken[0]}"
    assert sum(report.terms for report in reports) > 2 * SEEDS, "leaders change"
    assert sum(report.nodes_left for report in reports) > SEEDS, "nodes leave"
    assert sum(report.requests for report in reports) > 20 * SEEDS, "requests are answered"


def test_no_seed_breaks_a_rule_while_lease_terms_change() -> None:
    """LE37: lowered, raised, twice at once, over take-overs and cuts; the rules judge by the terms at each echo."""
    reports = [simulate(seed, SPAN_MS, Faults(terms=8)) for seed in range(SEEDS_OF_TERMS)]
    assert sum(report.nodes_left for report in reports) > SEEDS_OF_TERMS, "nodes leave"


def test_no_seed_breaks_a_rule_while_servers_hang() -> None:
    """DS10-DS19: two services, whose hooks do not return for a while, whose maps come late, twice or never."""
    budget = Faults(hangs=8, garbles=3, mutes=4, services=8)
    reports = [simulate(seed, SPAN_MS, budget) for seed in range(SEEDS_OF_HANGS)]
    assert sum(report.nodes_left for report in reports) > SEEDS_OF_HANGS, "nodes leave"


@pytest.mark.parametrize("seed", range(10))
def test_nothing_happens_to_a_calm_cluster(seed: int) -> None:
    """Without faults one coordinator leads for good, nobody leaves, and the cluster is at rest as soon as work ends."""
    report = simulate(seed, SPAN_MS, Faults.calm())
    assert report.nodes_left == 0
    assert report.rest_ms < 500


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_repeats_its_history(seed: int) -> None:
    """Every byte of the log is the same, in this process and in one whose strings hash otherwise."""
    report = simulate(seed, SPAN_MS, Faults())
    assert simulate(seed, SPAN_MS, Faults()) == report
    assert digest_elsewhere(seed) == report.digest
    assert simulate(seed + 1, SPAN_MS, Faults()).digest != report.digest


def digest_elsewhere(seed: int) -> str:
    """The digest of the seed's log, as another process computes it."""
    code = (
        "import logging; logging.disable()\n"
        "from topolog.streams.simulation import Faults, simulate\n"
        f"print(simulate({seed}, {SPAN_MS}, Faults()).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(seed + 1)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_part_of_a_plan_can_be_run() -> None:
    """The acts of a run are data: the same ones give the same run, fewer a run of their own."""
    report = simulate(5, SPAN_MS, Faults())
    assert replay(report.case) == report
    part = Case(5, SPAN_MS, report.case.acts[:1])
    assert replay(part).case == part


def test_what_befalls_one_process_leaves_the_others_as_they_were() -> None:
    """Until they feel it: without that a plan with one act less would be another world."""
    quiet, struck = World(3), World(3)
    struck.pause(struck.coordinators[0], 10_000)
    turns: list[list[tuple[int, str]]] = [[], []]
    for world, turned in zip((quiet, struck), turns, strict=True):
        while world.timeline.now_ms < 300:
            world.step()
            if isinstance(world.turned, ProjectorProcess):
                turned.append((world.timeline.now_ns, world.turned.name))
    assert turns[0] == turns[1] != []


def test_a_violation_names_its_seed_and_tells_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it can run the seed again and see what led to it."""
    monkeypatch.setattr("topolog.streams.rules.metadata.settle", lambda *_: [])
    with pytest.raises(Violation) as caught:
        simulate(7, SPAN_MS, Faults.calm())
    assert caught.value.rule is Rule.CONVERGES
    assert f"seed 7, after {caught.value.at_ms} ms: CONVERGES" in str(caught.value)
    assert "rows of proposal wait" in str(caught.value)
    assert " s  position " in str(caught.value)
