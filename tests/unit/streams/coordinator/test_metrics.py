"""What a coordinator tells Prometheus: who leads, what was decided, how long verdicts took, how far behind it is."""

from prometheus_client import CollectorRegistry
from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, World

from topolog.events import metadata as md
from topolog.streams.coordinator.metrics import CoordinatorMetrics

CUSTOMER = md.ObjectType("Customer", {"id": "long"})
CONTRADICTION = md.ObjectType("Customer", {"id": "String"})


def told(world: World, name: str = "c1") -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CoordinatorMetrics(world.coordinators[name].driver, "demo", world.clock))
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"topolog_coordinator_{name}", {"cluster": "demo", **labels})


def test_the_leader_says_that_it_leads_and_the_stand_by_that_it_does_not() -> None:
    """After a take-over it is the other way round, and the former one counts its deposition."""
    world = World(["c1", "c2"])
    assert [value(told(world, name), "leading") for name in ("c1", "c2")] == [1, 0]
    assert [value(told(world, name), "take_overs_total") for name in ("c1", "c2")] == [1, 0]
    world.coordinators["c1"].paused = True
    world.run(PROCEED_MS)
    assert value(told(world, "c2"), "leading") == 1
    world.coordinators["c1"].paused = False
    world.settle()
    assert [value(told(world, "c1"), name) for name in ("leading", "depositions_total")] == [0, 1]
    assert value(told(world, "c1"), "term") == value(told(world, "c2"), "term") == 2


def test_requests_count_by_what_became_of_them_and_refusals_by_their_code() -> None:
    """K7: granted, unchanged, refused; a repeat is none of them."""
    world = World(["c1"], ["n1"])
    first = world.propose("n1", CUSTOMER)
    world.settle()
    world.propose("n1", CUSTOMER)
    world.propose("n1", CONTRADICTION)
    world.settle()
    world.nodes["n1"].session.requests.send_again(first)
    registry = told(world)
    assert value(registry, "requests_total", outcome="refused") == 1
    assert value(registry, "requests_total", outcome="unchanged") == 1
    assert value(registry, "refusals_total", code="METADATA_CONFLICT") == 1
    assert value(registry, "decisions_total", event="MetadataUpdateProposed") == 1
    assert value(registry, "read_records_total", input="requests") == 4, "with the join"


def test_a_verdict_is_timed_from_the_proposal_to_its_acceptance() -> None:
    """With a node that is silent it takes as long as the rules say."""
    world = World(["c1"], ["n1", "n2"])
    world.nodes["n2"].paused = True
    world.propose("n1", CUSTOMER)
    world.settle()
    assert value(told(world), "verdict_seconds_count", protocol="metadata") == 0
    world.run(2 * PROCEED_MS)
    registry = told(world)
    assert value(registry, "verdict_seconds_count", protocol="metadata") == 1
    took_s = value(registry, "verdict_seconds_sum", protocol="metadata")
    assert took_s is not None
    assert 1 <= took_s <= 2 * PROCEED_MS / 1000


def test_the_time_to_a_decision_counts_from_the_appending_of_the_request() -> None:
    """By the broker's clock: a request that lay in the topic while nobody led has waited."""
    world = World(["c1"], ["n1"])
    before = value(told(world), "decision_seconds_sum")
    world.coordinators["c1"].paused = True
    world.propose("n1", CUSTOMER)
    world.run(500)
    world.coordinators["c1"].paused = False
    world.settle()
    after = value(told(world), "decision_seconds_sum")
    assert before is not None
    assert after is not None
    assert 0.5 <= after - before < 0.6


def test_lag_is_how_old_the_record_is_at_which_the_reader_stands() -> None:
    """In seconds, measured by itself; 0 at the end of the topic, however long ago its last record came."""
    world = World(["c1"], ["n1"])
    world.run(1_000)
    assert value(told(world), "lag_seconds", input="heartbeats") == 0
    coordinator = world.coordinators["c1"]
    coordinator.paused = True
    for _ in range(60):
        world.nodes["n1"].session.beat()
    world.run(1_000)
    coordinator.paused, coordinator.reader.batch_max = False, 1
    world.run(20 * STEP_MS)
    behind_s = value(told(world), "lag_seconds", input="heartbeats")
    assert behind_s is not None
    assert 1 <= behind_s < 1.5
    coordinator.reader.batch_max = 1_000_000
    world.run(20 * STEP_MS)
    assert value(told(world), "lag_seconds", input="heartbeats") == 0


def test_open_waits_are_counted_by_what_waits() -> None:
    """Each lease has its deadline."""
    world = World(["c1"], ["n1", "n2"])
    assert value(told(world), "open_waits", kind="lease") == 2
    assert value(told(world), "open_waits", kind="exchange") == 0
