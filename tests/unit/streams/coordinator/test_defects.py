"""The defects of the published lease design (docs/design/leases.md), as they apply to a log that is the only arbiter.

Not here, because what they are about does not exist: a recovery pull, broadcasts that are sent again,
a rollback that must be broadcast. LE2 is in `tests/unit/streams/node/test_lease.py`, LE18
and LE16 in `tests/unit/streams/rules`, K8 in `tests/unit/events/test_fold.py`: what cannot be read stops its reader.
"""

from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, TERMS, World

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asked import RequestRef
from topolog.events.codec import CODEC
from topolog.events.evidence import Evidence
from topolog.events.ids import Version
from topolog.events.topics import RECORD_BYTES_MAX

CUSTOMER = md.ObjectType("Customer", {"id": "long"})


def accepted(world: World) -> list[md.MetadataUpdateAccepted]:
    return [each for each in world.events(md.MetadataUpdateAccepted) if isinstance(each, md.MetadataUpdateAccepted)]


def left(world: World) -> list[tuple[str, str]]:
    events = (each for each in world.events(m.NodeLeft) if isinstance(each, m.NodeLeft))
    return [(event.node, event.reason.value) for event in events]


def test_f1_a_node_whose_answers_do_not_arrive_fences_itself() -> None:
    """LE2: its heartbeats get through and no echo comes back. It stops before the cluster goes on without it."""
    world = World(["c1"], ["n1", "n2"])
    deaf = world.nodes["n2"]
    world.run(1_000)
    deaf.reader.batch_max = 0
    world.propose("n1", CUSTOMER)
    while not accepted(world):
        world.run(STEP_MS)
        assert deaf.is_fenced or not accepted(world), "nobody goes on while the node may still answer"
    assert accepted(world)[0].evidence.presumed_fenced == ("n2",)
    assert left(world) == []


def test_f1_a_node_whose_heartbeats_do_not_arrive_fences_itself() -> None:
    """LE2, the other way round: it reads everything and is not heard."""
    world = World(["c1"], ["n1", "n2"])
    mute = world.nodes["n2"]
    world.run(1_000)
    mute.writer.prompt = False
    world.propose("n1", CUSTOMER)
    world.run(TERMS.fence_ms + STEP_MS)
    assert mute.is_fenced
    assert accepted(world) == []
    world.run(PROCEED_MS)
    assert left(world) == [("n2", "FENCED")]
    assert len(accepted(world)) == 1


def test_f4_a_deposed_leader_renews_nobody() -> None:
    """K3: a renewal counts by its term; an isolated old leader's echoes are ignored by the very node they name."""
    world = World(["c1", "c2"], ["n1"])
    old = world.coordinators["c1"]
    world.run(1_000)
    old.writer.prompt = False
    world.nodes["n1"].session.beat()
    old.driver.step(0)
    old.driver.core.renew()
    old.driver.step(0)
    old.paused = True
    world.run(1_200)
    node = world.nodes["n1"]
    before = node.remaining_ms
    node.paused = True
    old.writer.land()
    node.step()
    assert node.remaining_ms == before
    assert node.session.core.state.hash() == world.state.hash()


def test_f7_a_recovering_node_makes_a_change_wait_and_not_fail() -> None:
    """LE16: it is fenced and reachable; nothing it says can fail a stamped proposal."""
    world = World(["c1"], ["n1", "n2"])
    world.process("n2").paused = True
    world.run(TERMS.fence_ms + 100)
    world.propose("n1", CUSTOMER)
    world.settle()
    assert accepted(world) == []
    world.process("n2").paused = False
    world.run(4 * STEP_MS)
    assert accepted(world) == [md.MetadataUpdateAccepted("Customer", Version(1), Evidence(applied=("n1", "n2")))]


def test_f8_a_node_that_dies_within_the_wait_delays_the_change_by_no_more_than_the_wait() -> None:
    """LE17: the wait counts from the change, not from the silence, and ends in going on, never in failing."""
    world = World(["c1"], ["n1", "n2"])
    world.process("n2").paused = True
    world.propose("n1", CUSTOMER)
    world.run(PROCEED_MS - 500)
    world.kill("n2")
    world.run(500 + 3 * STEP_MS)
    (acceptance,) = accepted(world)
    assert acceptance.evidence.applied == ("n1",)


def test_f9_a_half_bad_node_blocks_one_wait_and_no_more() -> None:
    """LE14: its heartbeats are fine and it applies nothing. It is renewed no more, and then it is out."""
    world = World(["c1"], ["n1", "n2"])
    world.run(1_000)
    world.nodes["n2"].reader.batch_max = 0
    world.propose("n1", CUSTOMER)
    world.run(PROCEED_MS + 100)
    assert len(accepted(world)) == 1
    world.run(PROCEED_MS + 500)
    assert left(world) == [("n2", "FENCED")]


def test_f12_a_node_that_joins_during_a_change_has_it() -> None:
    """LE15: it holds no lease before it has applied everything up to its own joining."""
    world = World(["c1"], ["n1", "n2"])
    world.process("n2").paused = True
    world.propose("n1", CUSTOMER)
    world.settle()
    newcomer = world.node("n3")
    assert not newcomer.is_fenced
    assert md.type_row(newcomer.state, "Customer") is not None


def test_f13_at_the_last_moment_of_the_fence_the_node_may_act_and_nobody_goes_on() -> None:
    """LE17: the holder's check is strict where the waiter's is not, and margin_ms lies between them."""
    world = World(["c1"], ["n1", "n2"])
    world.run(1_000)
    node = world.nodes["n2"]
    node.paused = True
    world.propose("n1", CUSTOMER)
    world.run(node.remaining_ms)
    assert not node.is_fenced
    assert accepted(world) == []
    world.clock.advance(0.000001)
    assert node.is_fenced


def test_f14_behind_a_node_that_is_out_nobody_waits_again() -> None:
    """LE15: with one node down a change takes at most proceed_ms, and the next one no time at all."""
    world = World(["c1"], ["n1", "n2"])
    world.kill("n2")
    world.run(PROCEED_MS + 600)
    assert left(world) == [("n2", "FENCED")]
    world.propose("n1", CUSTOMER)
    world.settle()
    assert accepted(world)[0].evidence.applied == ("n1",)


def test_nothing_that_is_asked_again_is_done_again_after_a_take_over() -> None:
    """ME17: each proposal ends in exactly one acceptance, also across coordinators."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.process("n2").paused = True
    world.propose("n1", CUSTOMER)
    world.settle()
    world.kill("c1")
    world.run(1_200)
    world.process("n2").paused = False
    world.run(1_000)
    assert [each.version for each in accepted(world)] == [1]


def test_a_refusal_with_a_fact_about_each_of_ten_thousand_groups_fits_a_record() -> None:
    """LAST_COPY names groups: a leader that decides more than a record holds ends, and so does the next one."""
    facts, message = q.told_of({f"{number:05d}{'g' * 195}": "65000" for number in range(10_000)}, "m" * 10_000)
    refused = q.RequestRefused(RequestRef("t", 1, bytes(8)), "baseline", "LAST_COPY", "BA14", message, facts)
    assert len(CODEC.encode(refused)) < RECORD_BYTES_MAX
    assert next(iter(facts)).startswith("00000")
