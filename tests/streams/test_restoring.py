"""Starting from a snapshot (K10): what is used, what is not, and that it gives what the whole log gives."""

from tests.scenarios.world import World

from topolog.events import metadata as md
from topolog.events.codec import CODEC
from topolog.events.snapshots import SnapshotChunk, SnapshotTaken
from topolog.events.topics import Topic
from topolog.streams.coordinator.snapshots import Cadence

OFTEN = Cadence(positions=20, piece_bytes=300)


def world_with_snapshots(count: int = 1) -> World:
    world = World(["c1"], ["n1", "n2"], OFTEN)
    number = 0
    while len(world.events(SnapshotTaken)) < count:
        number += 1
        world.propose("n1", md.ObjectType(f"T{number}", {"id": "long"}))
        world.run(50)
    return world


def test_smoke() -> None:
    world = world_with_snapshots()
    taken = world.events(SnapshotTaken)[-1]
    records = [CODEC.decode(each.value) for each in world.log.entries(Topic.SNAPSHOTS)]
    assert [type(each) for each in records] == [SnapshotChunk] * taken.chunks + [SnapshotTaken]
    member = world.node("n3")
    world.run(200)
    assert not member.is_fenced
    print(taken, member.session.ignored, member.session.core.folded)
    assert member.state.hash() == world.state.hash()
    world.start("c2")
    world.kill("c1")
    world.run(3000)
    assert world.leader().driver.core.state.hash() == world.state.hash()
    assert 0
