"""Starting from a snapshot (K10): what is used, what is not, and that it gives what the whole log gives."""

import pytest
from tests.scenarios.world import World

from topolog.events import metadata as md
from topolog.events.codec import CODEC
from topolog.events.ids import Position
from topolog.events.snapshots import SnapshotChunk, SnapshotTaken
from topolog.events.state import State
from topolog.events.topics import Topic
from topolog.streams.coordinator.snapshots import Cadence

OFTEN = Cadence(positions=20, piece_bytes=300)
TAKEOVER_MS = 1_500


def world_with_snapshots(count: int = 1) -> World:
    """A world whose leader has announced so many snapshots."""
    world = World(["c1"], ["n1", "n2"], OFTEN)
    while len(announced(world)) < count:
        work(world)
    return world


def work(world: World) -> None:
    """One type more, and time for all to agree on it."""
    world.propose("n1", md.ObjectType(f"T{len(world.decisions())}", {"id": "long"}))
    world.run(50)


def announced(world: World) -> list[SnapshotTaken]:
    return [event for event in world.events(SnapshotTaken) if isinstance(event, SnapshotTaken)]


def start_node(world: World, name: str = "n9") -> Position:
    """A new node comes up, becomes a member and has the rows of the log; the first position that it has folded."""
    folded: list[Position] = []
    member = world.node(name, hook=lambda each: folded.append(each.place.position))
    world.run(300)
    assert not member.is_fenced
    assert member.session.ignored == {}
    assert rows_of(member.state) == rows_of(world.state)
    return folded[0]


def rows_of(state: State) -> dict[str, list[tuple[str, object]]]:
    """Every row, volatile ones too, in the order in which the keys first appeared."""
    return {kind: list(rows.items()) for kind, rows in state.copies().items() if rows}


def test_a_snapshot_is_its_chunks_and_then_what_the_log_says() -> None:
    """The closing record of the chunks and the decision are the same bytes."""
    world = world_with_snapshots()
    (taken,) = announced(world)
    entries = world.log.entries(Topic.SNAPSHOTS)
    assert [type(CODEC.decode(each.value)) for each in entries] == [SnapshotChunk] * taken.chunks + [SnapshotTaken]
    assert entries[-1].value in [each.value for each in world.log.entries(Topic.DECISIONS)]
    assert taken.chunks > 3
    assert taken.first_offset == 0


def test_a_node_that_starts_from_a_snapshot_reads_only_what_is_behind_it() -> None:
    """K10: it has the same rows as the reader of the whole log, in the same order."""
    world = world_with_snapshots()
    (taken,) = announced(world)
    assert start_node(world) == taken.position + 1


def test_a_stand_by_that_starts_from_a_snapshot_takes_over() -> None:
    """Header, inputs and rows are those of the log: nothing is asked, echoed or decided twice."""
    world = world_with_snapshots()
    world.start("c2")
    world.run(50)
    world.kill("c1")
    world.run(TAKEOVER_MS)
    assert world.leader().name == "c2"
    work(world)
    work(world)
    assert not any(node.is_fenced for node in world.nodes.values())
    assert rows_of(world.leader().driver.core.state) == rows_of(world.state)
    assert world.ignored == []


@pytest.mark.parametrize("names", [["c1"], ["c1", "c2"]])
def test_without_a_snapshot_the_log_is_read_from_its_beginning(names: list[str]) -> None:
    """An empty topic costs nothing: no wait, no word."""
    world = World(names, ["n1"])
    assert start_node(world) == 0
