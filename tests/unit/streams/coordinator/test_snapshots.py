"""The leader's snapshots: when they are due, in how small steps they are made, and what ends one (K10)."""

import pytest
from tests.unit.scenarios.world import TERMS, World

from topolog.events import metadata as md
from topolog.events.log import InMemoryWriter
from topolog.events.membership import LeasesRenewed
from topolog.events.snapshots import SnapshotTaken
from topolog.events.topics import Topic
from topolog.streams.coordinator import snapshots
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.snapshots import Cadence

BEAT_MS = TERMS.fence_ms // 4


def announced(world: World) -> list[SnapshotTaken]:
    return [event for event in world.events(SnapshotTaken) if isinstance(event, SnapshotTaken)]


def work(world: World, count: int) -> None:
    for _ in range(count):
        world.propose("n1", md.ObjectType(f"T{len(world.decisions())}", {"id": "long"}))
        world.run(30)


def test_snapshots_are_due_after_so_many_positions() -> None:
    """Counted from where the last one was said, so that its own decision makes none due."""
    world = World(["c1"], ["n1"], Cadence(positions=30))
    work(world, 60)
    said = [each.place.position for each in world.decisions() if isinstance(each.event, SnapshotTaken)]
    assert len(said) >= 3
    for before, taken in zip(said, announced(world)[1:], strict=False):
        assert 30 <= taken.position - before < 45


def test_an_idle_cluster_takes_one_for_each_beat_at_most() -> None:
    """Even if one is due after every position."""
    world = World(["c1"], ["n1"], Cadence(positions=1))
    world.run(10 * BEAT_MS)
    assert 5 <= len(announced(world)) <= len(world.events(LeasesRenewed)) + 3


def test_snapshots_are_due_after_so_many_bytes_of_log() -> None:
    """A few huge decisions are as long to read as many small ones."""
    world = World(["c1"], ["n1"], Cadence(positions=10_000, log_bytes=5_000))
    work(world, 60)
    assert 2 <= len(announced(world)) <= 12


def test_none_is_taken_where_none_is_wanted() -> None:
    """`snapshot.every` 0, or a cluster without the topic."""
    world = World(["c1"], ["n1"], Cadence(positions=0, log_bytes=1))
    work(world, 30)
    assert world.log.entries(Topic.SNAPSHOTS) == []


def test_a_snapshot_is_made_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that encodes everything at once is silent meanwhile: here it takes its turns, and beats between."""
    monkeypatch.setattr(snapshots, "STEP_ROWS_MAX", 1)
    world = World(["c1"], ["n1"], Cadence(positions=0))
    work(world, 60)
    leader = world.leader().driver
    assert leader._snapshots is not None
    leader._snapshots._cadence = Cadence(positions=1)
    rows = sum(len(each) for each in leader.core.state.copies().values())
    turns = 0
    while not announced(world):
        leader.step(0)
        turns += 1
    assert turns >= rows


def test_one_chunk_is_on_its_way_at_a_time() -> None:
    """Decisions on the same connection wait behind one chunk, never behind all."""
    world = World(["c1"], ["n1"], Cadence(positions=20, piece_bytes=200))
    writer = world.coordinators["c1"].writer
    most = 0
    serve = writer.serve

    def counted() -> None:
        nonlocal most
        most = max(most, chunks_on_their_way(writer))
        serve()

    writer.serve = counted  # type: ignore[method-assign]
    writer.prompt = False
    for _ in range(40):
        world.propose("n1", md.ObjectType(f"T{len(world.decisions())}", {"id": "long"}))
        for _ in range(3):
            world.run(10)
            writer.land()
    assert announced(world)
    assert most == 1


def chunks_on_their_way(writer: InMemoryWriter) -> int:
    return sum(each.topic is Topic.SNAPSHOTS for each in writer._in_flight)


def lose_chunks(writer: InMemoryWriter) -> None:
    """What else is on its way reaches the log."""
    sends = list(writer._in_flight)
    for is_chunk, end in ((False, writer.land), (True, writer.fail)):
        writer._in_flight.clear()
        writer._in_flight.extend(each for each in sends if (each.topic is Topic.SNAPSHOTS) is is_chunk)
        end()


def test_a_lost_chunk_ends_the_attempt_and_not_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    """The topic is gone: that is said, tried again after a minute, and costs nobody anything."""
    world = World(["c1"], ["n1"], Cadence(positions=20))
    coordinator = world.coordinators["c1"]
    coordinator.writer.prompt = False
    while not chunks_on_their_way(coordinator.writer):
        world.propose("n1", md.ObjectType(f"T{len(world.decisions())}", {"id": "long"}))
        world.run(10)
        if not chunks_on_their_way(coordinator.writer):
            coordinator.writer.land()
    lose_chunks(coordinator.writer)
    coordinator.writer.prompt = True
    work(world, 30)
    assert coordinator.driver.role is Role.LEADING
    assert announced(world) == []
    assert sum("given up" in each for each in caplog.messages) == 1
    world.run(61_000)
    assert announced(world)
