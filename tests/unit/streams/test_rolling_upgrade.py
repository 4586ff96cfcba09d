"""Processes of two builds in one cluster, moved by hand: today's, and one that knows a made-up level 2 (K28)."""

import pytest
from tests import second_level
from tests.unit.scenarios.world import PROCEED_MS, World

from topolog.events.codec import CODEC
from topolog.events.errors import Poisoned
from topolog.events.leases import NodeRow, members
from topolog.events.levels import FIRST_LEVEL, LevelRaiseRequested, level_of
from topolog.events.membership import JoinRequested, NodeJoined
from topolog.events.metadata import ObjectType
from topolog.events.requests import OutcomeRow, Status
from topolog.events.terms import cluster
from topolog.events.topics import Topic

LEVEL, NEWER = second_level.LEVEL, second_level.CODEC


def of_two_builds() -> World:
    """The newer build leads, and is the member n3; n1 and n2 are of today's."""
    world = World(["c1"], ["n1", "n2"], codec=NEWER)
    world.leader().driver.retire()
    world.settle()
    world.kill("c1")
    world.build = NEWER
    world.start("c2")
    world.node("n3")
    return world


def upgrade(world: World, *names: str) -> None:
    """Each is replaced, one after the other, by a process of the newer build."""
    for name in names:
        world.nodes[name].session.close()
        world.settle()
        world.kill(name)
        world.node(name)


def raise_level(world: World) -> OutcomeRow:
    """Ask for level 2; the outcome."""
    request = world.ask(LevelRaiseRequested(world.operator_id(), world.log_id, "ada", "", LEVEL))
    world.settle()
    outcome = world.outcome(request)
    assert outcome is not None
    return outcome


def of_newer_schemas(world: World, topic: Topic, kind: type) -> list[bool]:
    """Of each record of this kind, whether only the newer build can read it."""
    values = [entry.value for entry in world.log.entries(topic)]
    return [CODEC.read(value) is None for value in values if NEWER.type_of(value) is kind]


def agree(world: World) -> bool:
    """Whether all members have folded the same up to the end of the log."""
    return {node.session.core.state.hash() for node in world.nodes.values()} == {world.state.hash()}


def test_members_of_two_builds_read_all_that_either_writes() -> None:
    """K28: while the level is the first, the newer build writes requests and decisions in the older schemas."""
    world = of_two_builds()
    for node in ("n1", "n3"):
        world.propose(node, ObjectType("T", {node: "long"}))
    world.settle()
    assert cluster(world.state).feature_level == FIRST_LEVEL
    assert [level_of(row.capabilities) for row in members(world.state)] == [FIRST_LEVEL, FIRST_LEVEL, LEVEL]
    assert of_newer_schemas(world, Topic.REQUESTS, JoinRequested) == [False] * 3
    assert of_newer_schemas(world, Topic.DECISIONS, NodeJoined) == [False] * 3
    assert agree(world)


def test_the_level_rises_when_the_last_member_is_upgraded() -> None:
    """K28: refused with the names of those that could not read it, granted when there are none."""
    world = of_two_builds()
    refused = raise_level(world)
    assert (refused.status, refused.code) == (Status.REFUSED, "LEVEL_UNSUPPORTED")
    assert refused.facts == {"n1": str(FIRST_LEVEL), "n2": str(FIRST_LEVEL)}
    upgrade(world, "n1")
    assert raise_level(world).facts == {"n2": str(FIRST_LEVEL)}
    upgrade(world, "n2")
    assert raise_level(world).status is Status.GRANTED
    assert cluster(world.state).feature_level == LEVEL


def test_from_the_raise_on_the_newer_schemas_are_written() -> None:
    """K28: by nodes as by the coordinator; what stands before it is read as it was."""
    world = of_two_builds()
    upgrade(world, "n1", "n2")
    raise_level(world)
    world.node("n4")
    assert of_newer_schemas(world, Topic.REQUESTS, JoinRequested) == [False] * 5 + [True]
    assert of_newer_schemas(world, Topic.DECISIONS, NodeJoined) == [False] * 5 + [True]
    assert agree(world)


def test_a_process_of_the_older_build_is_refused_once_the_level_has_risen() -> None:
    """K28: it could not read the next decision, so nobody waits for it; it is told to be upgraded."""
    world = of_two_builds()
    upgrade(world, "n1", "n2")
    raise_level(world)
    world.build = CODEC
    failure = world.node("n4").session.failure
    assert failure is not None
    assert "Upgrade it" in failure.message
    assert world.state.get(NodeRow, "n4") is None
    del world.nodes["n4"]
    assert agree(world)


def test_a_stand_by_of_the_older_build_stops_and_says_so() -> None:
    """K28: at the first record of the newer schemas, which it neither skips nor takes for damage."""
    world = of_two_builds()
    upgrade(world, "n1", "n2")
    raise_level(world)
    world.node("n4")
    world.build = CODEC
    with pytest.raises(Poisoned, match=f"level {LEVEL} is in force .* up to {FIRST_LEVEL}: upgrade it"):
        world.start("c3")
    world.kill("c3")
    world.run(PROCEED_MS)
    assert world.leader().name == "c2"


def test_a_log_that_the_newer_build_founds_begins_at_its_level() -> None:
    """K28: an older build reads its LogStarted, and that it is too old for what follows."""
    world = World(codec=NEWER)
    world.build = NEWER
    world.start("c1")
    assert cluster(world.state).feature_level == LEVEL
    world.node("n1")
    world.build = CODEC
    with pytest.raises(Poisoned, match="upgrade it"):
        world.start("c2")
