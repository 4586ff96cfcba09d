"""A node's past on its disk: when it is noted, how it is kept, and what becomes of who comes back (BA22)."""

import contextlib
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.scenarios.world import PROCEED_MS, TERMS, Member, World

from topolog.events import membership as m
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, DiskFailed, Injected, Refused
from topolog.events.failpoints import VARIABLE, arm
from topolog.events.fold import Folded
from topolog.events.group_definition import GroupDefinition
from topolog.events.ids import Incarnation, NodeId, Place, Position, Term, TopologyVersion
from topolog.events.leases import FENCING, LeaveReason, NodeKind, NodeRow
from topolog.events.log import InMemoryWriter
from topolog.events.object_types import ObjectType
from topolog.events.past_file import FILE_NAME, decode, encode
from topolog.events.requests import LastGrantedRow
from topolog.events.stamp import chain_after
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.views import DiskRow, Echo, Kinship, Past, Point, Relied, newest_point, note_view, relied_on
from topolog.streams.node.core import Phase
from topolog.streams.node.lease import Lease
from topolog.streams.node.past import POINTS_MAX, RESERVED_AT_ONCE, noted, thinned, with_reserve
from topolog.streams.node.past_disk import MemoryDisk, PastFile
from topolog.streams.node.session import Session
from topolog.streams.node.testing import LocalCluster
from topolog.streams.rules.past import judge

LOG_ID = bytes(range(16))
NODE = NodeId("n2")
FOLDER = "folder of n2"


def point(position: int, history: str = "") -> Point:
    return Point(Position(position), chain_after(bytes(16), history.encode(), str(position).encode()))


def past_of(*positions: int, sequence: int = 3, reserved: int = 64) -> Past:
    echo = Echo(Incarnation(7), sequence, point(positions[-1]))
    return Past(LOG_ID, NODE, tuple(map(point, positions)), echo, reserved)


class WatchedDisk(MemoryDisk):
    """Calls `before` with what is about to be stored; what that raises comes in its place."""

    def __init__(self, before: Callable[[Past], None] = lambda _: None) -> None:
        super().__init__()
        self.before = before

    def store(self, past: Past) -> None:
        self.before(past)
        super().store(past)


def beaten(world: World) -> list[m.Heartbeat]:
    """What n2 has sent, but for its releases."""
    entries = [entry for each in range(4) for entry in world.log.entries(Topic.HEARTBEATS, each) if entry.key == NODE]
    decoded = [CODEC.decode(entry.value) for entry in entries]
    return [each for each in decoded if isinstance(each, m.Heartbeat) and not each.is_release]


def row_of(world: World) -> NodeRow:
    row = world.state.get(NodeRow, NODE)
    assert row is not None
    return row


def with_disk(world: World, disk: MemoryDisk) -> Member:
    """n2 comes up with this disk in its folder."""
    world.pasts[FOLDER] = disk
    return world.node(NODE, folder=FOLDER)


def past_on(disk: MemoryDisk) -> Past:
    assert disk.past is not None
    return disk.past


# What the next past is.


def test_a_life_that_joins_begins_a_past() -> None:
    """The place of its joining, and numbers for its heartbeats."""
    echo = Echo(Incarnation(1), 0, point(5))
    assert noted(None, LOG_ID, NODE, point(5), echo, 0) == Past(LOG_ID, NODE, (point(5),), echo, RESERVED_AT_ONCE)


def test_what_former_lives_have_noted_stays() -> None:
    """The points; the echo and the numbers are of the newest life alone."""
    echo = Echo(Incarnation(8), 0, point(30))
    after = noted(past_of(10, 20, reserved=500), LOG_ID, NODE, point(30), echo, 0)
    points, relied = (point(10), point(20), point(30)), Relied(Echo(Incarnation(7), 3, point(20)), 500)
    assert after == Past(LOG_ID, NODE, points, echo, RESERVED_AT_ONCE, relied)


def test_a_life_that_is_never_renewed_leaves_what_was_noted_before_it() -> None:
    """It has written nothing, whichever log it joined; the next life that is renewed forgets the former ones."""
    before = past_of(10, 20, reserved=500)
    elsewhere = noted(before, LOG_ID, NODE, point(30, "copy"), Echo(Incarnation(8), 0, point(30, "copy")), 0)
    assert relied_on(elsewhere) == before
    back = noted(elsewhere, LOG_ID, NODE, point(40), Echo(Incarnation(9), 0, point(40)), 0)
    assert relied_on(back) == before
    assert back.points == (point(10), point(20), point(40))
    renewed = noted(back, LOG_ID, NODE, point(40), Echo(Incarnation(9), 1, point(41)), 1)
    assert relied_on(renewed) == renewed
    assert renewed.before is None


def test_a_first_life_that_is_never_renewed_has_no_past() -> None:
    assert relied_on(noted(None, LOG_ID, NODE, point(5), Echo(Incarnation(1), 0, point(5)), 0)) is None


def test_a_renewal_under_the_same_view_changes_the_echo_and_reserves_more() -> None:
    """What is written anyway reserves anew, so that a disk put back is hardly ever taken for the newest; a set that
    changes neither view nor lease writes nothing."""
    before = past_of(10, 20)
    echo = Echo(Incarnation(7), 4, point(25))
    after = noted(before, LOG_ID, NODE, point(20), echo, 5)
    assert after == msgspec.structs.replace(before, echo=echo, reserved=5 + RESERVED_AT_ONCE)
    assert noted(after, LOG_ID, NODE, point(20), echo, 6) is after


def test_who_sends_many_heartbeats_between_two_renewals_reserves_ever_more() -> None:
    """A burst of proposals is a burst of acknowledgements, and each reservation costs a write to the disk."""
    past, written = noted(None, LOG_ID, NODE, point(5), Echo(Incarnation(1), 0, point(5)), 0), 0
    for sent in range(10_000):
        if past.reserved <= sent:
            past, written = with_reserve(past, sent), written + 1
    assert written < 10


def test_points_are_thinned_from_their_old_end() -> None:
    """The oldest and the newest stay, the gaps double and double towards the past, and there are never too many."""
    past: Past | None = None
    for position in range(5_000):
        past = noted(past, LOG_ID, NODE, point(position), Echo(Incarnation(7), 0, point(0)), 0)
        assert len(past.points) <= POINTS_MAX
    assert past is not None
    positions = [each.position for each in past.points]
    assert positions[0] == 0
    assert positions[-200:] == list(range(4_800, 5_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise(positions)]
    assert gaps == sorted(gaps, reverse=True)
    assert 256 < max(gaps) < 5_000


class History:
    """A log of nothing but views, and one that parts from it."""

    def __init__(self, chance: random.Random) -> None:
        self.common = chance.randrange(1, 900)
        self.points = self._grown("ours", self.common + chance.choice((0, chance.randrange(1, 500))))
        self.others = self._grown("theirs", self.common + chance.randrange(1, 1_000))
        self.state = State()
        for number, each in enumerate(self.points):
            note_view(self.state, TopologyVersion(number, 0), (), Place(each.position, each.chain, Term(1)))
        if len(self.points) > self.common:
            self.state.put("", LastGrantedRow(self.points[-1].position))

    def _grown(self, side: str, length: int) -> list[Point]:
        return [point(3 * number, side if number >= self.common else "") for number in range(length)]

    def judge(self, points: tuple[Point, ...]) -> tuple[Kinship, Point | None]:
        past = Past(LOG_ID, NODE, points, Echo(Incarnation(1), 0, points[0]), 64)
        found = judge(self.state, LOG_ID, NODE, past, DiskRow(None, 0, past.echo.incarnation))
        return found.kinship, found.common


def test_a_past_that_is_thinned_is_judged_as_the_whole_one() -> None:
    """Whoever is let in is let in, whoever is refused is refused; only where they part is known less well."""
    chance, told = random.Random(6), list[Kinship]()
    for _ in range(8):
        history = History(chance)
        for side in (history.points, history.others):
            whole = tuple(side[: chance.randrange(1, len(side))]) if chance.random() < 0.7 else tuple(side)
            kept: tuple[Point, ...] = ()
            for each in whole:
                kept = thinned((*kept, each))
            (expected, common), (found, known) = history.judge(whole), history.judge(kept)
            told.append(expected)
            if expected in (Kinship.FORKED, Kinship.AHEAD):
                assert found in (Kinship.FORKED, Kinship.AHEAD)
                assert common is not None
                assert known is not None
                assert known <= common
            else:
                assert (found, known) == (expected, common)
    assert set(told) == {Kinship.EQUAL, Kinship.BEHIND, Kinship.FORKED, Kinship.AHEAD}


# The file.


def test_what_was_stored_is_loaded(tmp_path: Path) -> None:
    """And nothing where nothing was."""
    file = PastFile(tmp_path, NODE)
    assert file.load() is None
    for past in (past_of(10), past_of(10, 20)):
        file.store(past)
        assert PastFile(tmp_path, NODE).load() == past
    assert [each.name for each in tmp_path.iterdir()] == [FILE_NAME]


def test_people_can_read_it() -> None:
    """JSON, bytes in hex."""
    text = encode(past_of(10, 20)).decode()
    assert '"log_id": "000102030405060708090a0b0c0d0e0f"' in text
    assert f'"chain": "{point(20).chain.hex()}"' in text


def test_a_damaged_file_is_never_taken_for_another_past() -> None:
    """Whatever is lost of it, and whichever byte is another."""
    past, chance = past_of(10, 20, 30), random.Random(6)
    data = encode(past)
    flipped = (data[:at] + bytes([byte ^ 1 << chance.randrange(8)]) + data[at + 1 :] for at, byte in enumerate(data))
    for damaged in itertools.chain((data[:length] for length in range(len(data))), flipped):
        with contextlib.suppress(ValueError):
            assert decode(damaged) == past, damaged


def forged(**changes: Any) -> bytes:
    """A file with its checksum in order that says something impossible."""
    return encode(msgspec.structs.replace(past_of(10, 20), **changes))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"{}", "missing required field"),
        (encode(past_of(10)).replace(b'"sequence": 3', b'"sequence": 4'), "its checksum is wrong"),
        (encode(past_of(10)).replace(b'"format": 1', b'"format": 2'), "its format is 2, this build reads 1"),
        (forged(points=()), "its points do not ascend"),
        (forged(points=(point(20), point(10))), "its points do not ascend"),
        (forged(points=(Point(Position(1), b"short"),)), "a chain hash has 16 bytes"),
    ],
)
def test_a_file_that_says_nothing_sensible_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """Never taken for that of a new node: which file it is, why, and what to do."""
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(BadInput) as refused:
        PastFile(tmp_path, NODE).load()
    assert str(tmp_path / FILE_NAME) in refused.value.message
    assert reason in refused.value.message
    assert "empty folder" in refused.value.hint


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """As no file of that name would not be."""
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(BadInput, match=r"cannot read .*: Is a directory"):
        PastFile(tmp_path, NODE).load()


def test_a_file_is_safe_before_it_takes_the_place_of_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is synced, then it is renamed, then the folder is synced: any crash leaves one of both, whole."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().relative_to(tmp_path)}")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        steps.append(f"rename {path.name}")
        assert decode(path.read_bytes()) == past_of(10, 20)
        return replace(path, target)

    file = PastFile(tmp_path, NODE)
    file.store(past_of(10))
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    file.store(past_of(10, 20))
    assert steps == ["sync topolog-past.new", "rename topolog-past.new", "sync ."]


def test_what_a_crash_has_left_half_written_is_nothing(tmp_path: Path) -> None:
    """The former one counts, and the next one is written over it."""
    file = PastFile(tmp_path, NODE)
    file.store(past_of(10))
    (tmp_path / "topolog-past.new").write_bytes(encode(past_of(10, 20))[:40] * 99)
    assert file.load() == past_of(10)
    file.store(past_of(10, 20))
    assert file.load() == past_of(10, 20)


def test_a_disk_that_is_full_is_an_error_of_ours(tmp_path: Path) -> None:
    """And the former content stays."""
    file = PastFile(tmp_path, NODE)
    file.store(past_of(10))
    (tmp_path / "topolog-past.new").symlink_to("/dev/full")
    with pytest.raises(DiskFailed, match=rf"cannot write .*{FILE_NAME}: No space left on device"):
        file.store(past_of(10, 20))
    assert file.load() == past_of(10)


# When it is noted.


def test_no_heartbeat_is_sent_before_the_disk_names_its_life_and_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """(b) Of each life; also where the thread that beats is alone for long."""
    world = World(["c1"], ["n1"])
    disk = WatchedDisk()
    node = with_disk(world, disk)
    append, seen = InMemoryWriter.append, list[int]()

    def watched(writer: InMemoryWriter, topic: Topic, key: str, value: bytes, *rest: Any) -> None:
        if topic is Topic.HEARTBEATS and key == NODE:
            heartbeat, past = CODEC.decode(value), past_on(disk)
            assert isinstance(heartbeat, m.Heartbeat)
            assert past.echo.incarnation == heartbeat.incarnation
            assert heartbeat.sequence <= past.reserved
            assert past.points[-1] == newest_point(node.state)
            seen.append(heartbeat.sequence)
        append(writer, topic, key, value, *rest)

    monkeypatch.setattr(InMemoryWriter, "append", watched)
    for _ in range(200):
        node.session.beat()
    assert seen == list(range(seen[0], seen[0] + 200))
    node.paused = True
    world.run(PROCEED_MS + 600)
    node.paused = False
    world.run(100)
    assert node.session.core.phase is Phase.MEMBER
    assert seen[-1] < 10, "another life has begun"


@pytest.fixture
def echoed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Sequences of the echoes that have counted, each of them with the disk of its node, by the name `disk`."""
    real, found = Lease.echoed, list[int]()

    def watched(lease: Lease, sequence: int, fence_ms: int, now_ns: int) -> None:
        disk = DISKS.get(lease.incarnation)
        if disk is not None:
            echo = past_on(disk).echo
            assert (echo.incarnation, echo.sequence) == (lease.incarnation, sequence)
            found.append(sequence)
        real(lease, sequence, fence_ms, now_ns)

    monkeypatch.setattr(Lease, "echoed", watched)
    yield found
    DISKS.clear()


DISKS: dict[Incarnation, MemoryDisk] = {}
"""Of lives that are watched."""


def test_no_renewal_counts_before_the_disk_has_its_echo(echoed: list[int]) -> None:
    """(c) With the very place of the decision."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    node = with_disk(world, disk)
    DISKS[node.session.core.incarnation] = disk
    world.run(3 * TERMS.fence_ms)
    assert len(echoed) > 5
    at = past_on(disk).echo.at
    (renewed,) = [each for each in world.decisions() if each.place.position == at.position]
    assert isinstance(renewed.event, m.LeasesRenewed)
    assert renewed.place.chain == at.chain


def test_nobody_hears_of_a_view_before_the_disk_has_its_point() -> None:
    """(d) Not the service, whose hooks begin to store under it; and then it cannot count as applied either."""
    world = World(["c1"], ["n1"])
    disk, told = MemoryDisk(), list[str]()

    def hook(folded: Folded) -> None:
        session = world.nodes[NODE].session if NODE in world.nodes else None
        if session and session.core.phase is Phase.MEMBER:
            assert past_on(disk).points[-1] == newest_point(session.core.state)
            told.append(type(folded.event).__name__)

    world.pasts[FOLDER] = disk
    world.node(NODE, folder=FOLDER, hook=hook)
    world.create_group("n1", GroupDefinition("orders", 4))
    world.settle()
    world.node("n3")
    world.kill("n3")
    world.run(PROCEED_MS + 600)
    assert {"GroupCreated", "NodeJoined", "NodeLeft", "LeasesRenewed"} <= set(told)
    assert [each.position for each in past_on(disk).points][-1] == newest_point(world.state).position  # type: ignore[union-attr]


def test_a_set_costs_one_sync_and_most_sets_none() -> None:
    """Whatever of it is to be noted; what changes neither the view nor the own lease is not."""
    world = World(["c1"], ["n1"])
    positions: list[Position] = []
    disk = WatchedDisk()
    node = with_disk(world, disk)
    disk.before = lambda _: positions.append(node.session.core.folded)
    before = disk.syncs
    world.create_group("n1", GroupDefinition("orders", 4))
    world.run(2 * TERMS.fence_ms)
    assert len(set(positions)) == len(positions) == disk.syncs - before > 5
    before = disk.syncs
    world.propose("n1", ObjectType("Customer", {"id": "long"}))
    world.settle()
    assert node.session.core.applied.position == world.decisions()[-1].place.position
    assert disk.syncs == before


def test_what_a_node_reads_without_a_lease_is_not_noted() -> None:
    """It went on behind a pause: the lease that is renewed there is over, so nothing is written under the new views,
    and a disk that named them would be refused by another copy of the log for nothing. Its next lease notes both."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    node = with_disk(world, disk)
    world.run(TERMS.fence_ms)
    node.session.beat()
    node.paused = True
    world.run(TERMS.heartbeat_ms)
    world.create_group("n1", GroupDefinition("orders", 4))
    world.run(TERMS.fence_ms + 100)
    before = past_on(disk)
    node.step()
    assert node.session.core.applied.position > before.points[-1].position
    assert past_on(disk) == before
    node.paused = False
    world.run(TERMS.heartbeat_ms * 2)
    assert not node.is_fenced
    assert past_on(disk).echo.sequence > before.echo.sequence
    assert past_on(disk).points[-1] == newest_point(world.state)


def test_a_beat_does_not_wait_for_a_sync_of_the_other_thread() -> None:
    """The disk hangs while a view is noted: the lease must not run out for want of heartbeats."""
    world = World(["c1"], ["n1"])
    is_syncing, goes_on = threading.Event(), threading.Event()
    disk = WatchedDisk()
    node = with_disk(world, disk)
    node.paused = True
    world.create_group("n1", GroupDefinition("orders", 4))
    world.settle()

    def hang(_: Past) -> None:
        is_syncing.set()
        assert goes_on.wait(30)

    disk.before = hang
    applying = threading.Thread(target=node.step)
    applying.start()
    assert is_syncing.wait(30)
    before = len(beaten(world))
    node.session.beat()
    assert len(beaten(world)) == before + 1
    goes_on.set()
    applying.join()


# When it cannot be noted.


class Worn(WatchedDisk):
    """Stores so many times, and never again."""

    def __init__(self, left: int) -> None:
        super().__init__(self._wear)
        self.left = left

    def _wear(self, _: Past) -> None:
        if not self.left:
            raise DiskFailed("No space left on device.")
        self.left -= 1


@pytest.mark.parametrize("left", range(6))
def test_a_node_whose_disk_fails_does_nothing_that_it_does_not_name(left: int) -> None:
    """It is fenced and fails, its release lets the others go on at once, and what it has sent is reserved."""
    world = World(["c1"], ["n1"])
    disk = Worn(left)
    node = with_disk(world, disk)
    world.create_group("n1", GroupDefinition("orders", 4))
    world.run(3 * TERMS.fence_ms)
    assert isinstance(node.session.failure, DiskFailed)
    assert node.is_fenced
    assert row_of(world).left_reason in (LeaveReason.LEFT, LeaveReason.DIED), "it has said so, whatever it was"
    sent = beaten(world)
    assert bool(sent) is bool(left)
    assert all(each.sequence <= past_on(disk).reserved for each in sent)
    disk.left = 1_000
    world.node(NODE, folder=FOLDER)
    assert row_of(world).kinship in ((Kinship.EQUAL, Kinship.BEHIND) if left else (Kinship.NEW,))


def test_a_beat_whose_number_cannot_be_reserved_is_not_sent() -> None:
    """The thread that beats is alone: nothing is read meanwhile, so nothing else reserves."""
    world = World(["c1"], ["n1"])
    disk = Worn(1_000)
    node = with_disk(world, disk)
    disk.left = 0
    with contextlib.suppress(DiskFailed):
        for _ in range(10 * RESERVED_AT_ONCE):
            node.session.beat()
    assert beaten(world)[-1].sequence == past_on(disk).reserved


@pytest.fixture
def armed() -> Iterator[Callable[[str], None]]:
    yield lambda entry: arm({VARIABLE: entry})
    arm({})


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("place", ["node.past-syncing", "node.past-synced"])
def test_who_dies_over_a_sync_comes_back(place: str, count: int, armed: Callable[[str], None]) -> None:
    """It has relied on nothing that the disk does not say, so its next life is let in with all that it has."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    armed(f"{place}:{count}=error")
    node = with_disk(world, disk)
    world.create_group("n1", GroupDefinition("orders", 4))
    world.run(3 * TERMS.fence_ms)
    assert isinstance(node.session.failure, Injected)
    assert node.is_fenced
    world.kill(NODE)
    world.node(NODE, folder=FOLDER)
    is_first = (place, count) == ("node.past-syncing", 1)
    assert row_of(world).kinship in ((Kinship.NEW,) if is_first else (Kinship.EQUAL, Kinship.BEHIND))
    world.run(TERMS.fence_ms)
    assert not world.nodes[NODE].is_fenced


def test_a_client_and_a_node_without_a_folder_note_nothing(tmp_path: Path) -> None:
    """They store nothing."""
    with (
        LocalCluster() as cluster,
        cluster.node("c", kind=NodeKind.CLIENT, folder=tmp_path),
        cluster.node("n") as node,
    ):
        assert {row.kinship for row in node.members()} == {None}
        assert not (tmp_path / FILE_NAME).exists()


# Who comes back.


def test_a_node_that_comes_back_is_equal_or_behind() -> None:
    """EQUAL where nothing has changed since, as when it is replaced by its next life; else BEHIND."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    with_disk(world, disk)
    assert row_of(world).kinship is Kinship.NEW
    world.run(TERMS.fence_ms)
    world.kill(NODE)
    world.node(NODE, folder=FOLDER)
    assert row_of(world).kinship is Kinship.EQUAL
    world.run(TERMS.fence_ms)
    world.kill(NODE)
    world.node("n3")
    world.node(NODE, folder=FOLDER)
    assert row_of(world).kinship is Kinship.BEHIND


def test_a_process_that_joins_again_says_what_it_has_noted() -> None:
    """It was put out in silence: it is BEHIND by its own leaving, and not RESTORED."""
    world = World(["c1"], ["n1"])
    node = with_disk(world, MemoryDisk())
    node.paused = True
    world.run(PROCEED_MS + 600)
    node.paused = False
    world.run(100)
    assert not node.is_fenced
    assert row_of(world).kinship is Kinship.BEHIND


def test_a_disk_that_is_older_than_the_last_life_is_restored_and_none_is_wiped() -> None:
    """BA24: the node is let in, and the log says what has become of what it had."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    with_disk(world, disk)
    world.run(TERMS.fence_ms)
    for older, expected in ((disk.past, Kinship.RESTORED), (None, Kinship.WIPED)):
        world.kill(NODE)
        world.node(NODE, folder=FOLDER)
        world.run(TERMS.fence_ms)
        world.kill(NODE)
        disk.past = older
        world.node(NODE, folder=FOLDER)
        assert row_of(world).kinship is expected
        world.run(TERMS.fence_ms)
        assert not world.nodes[NODE].is_fenced


def copy_of(world: World) -> World:
    """A copy of the whole log goes live, with a coordinator of its own."""
    copied = World()
    copied.lives = world.lives + 100  # by which chance is made: no life is to be that of another
    for topic, count in PARTITIONS.items():
        for each in range(count):
            for entry in world.log.entries(topic, each):
                copied.log.put(topic, entry.key or "", entry.value, entry.headers)
    return copied


def refusal_in(world: World, disk: MemoryDisk) -> Refused:
    """What n2 is told that comes up there with this disk."""
    node = with_disk(world, disk)
    assert isinstance(node.session.failure, Refused)
    assert node.is_fenced
    return node.session.failure


def test_a_node_that_has_written_in_another_history_is_refused() -> None:
    """BA23: by its echo where no view tells; AHEAD of a copy with which nobody has gone on, however long."""
    world = World(["c1"], ["n1"])
    disk = MemoryDisk()
    with_disk(world, disk)
    world.run(TERMS.fence_ms)
    copied = copy_of(world)
    world.run(TERMS.fence_ms)
    written = past_on(disk)
    world.run(20 * PROCEED_MS)
    copied.start("c2")
    copied.run(5 * PROCEED_MS)
    ahead = refusal_in(copied, MemoryDisk(written))
    assert ahead.code == "AHEAD"
    assert f"position {written.echo.at.position}" in ahead.message
    assert refusal_in(copied, disk).code == "AHEAD"
    copied.node("n3")
    copied.run(TERMS.fence_ms)
    assert refusal_in(copied, MemoryDisk(written)).code == refusal_in(copied, disk).code == "FORKED"


def test_a_refused_node_keeps_its_past() -> None:
    """So that it can be brought to where it belongs."""
    source, world = World(["c1"], ["n1"]), World(["c2"], ["n1"])
    disk = MemoryDisk()
    with_disk(source, disk)
    source.kill(NODE)
    before = disk.past
    assert refusal_in(world, disk).code == "FOREIGN"
    assert disk.past == before
    source.node(NODE, folder=FOLDER)
    assert row_of(source).kinship is Kinship.EQUAL


# The same with a real folder.


def kinship_in(cluster: LocalCluster, folder: Path) -> Kinship | None:
    """How n1 is let in with this folder."""
    with cluster.node("n1", folder=folder) as node:
        cluster.advance(2)
        (row,) = [row for row in node.members() if row.node == "n1"]
        return row.kinship


def test_a_folder_is_new_known_restored_or_wiped(tmp_path: Path) -> None:
    """As the log says in the node's row."""
    with LocalCluster() as cluster:
        file = tmp_path / FILE_NAME
        assert kinship_in(cluster, tmp_path) is Kinship.NEW
        older = file.read_bytes()
        assert kinship_in(cluster, tmp_path) is Kinship.BEHIND
        file.write_bytes(older)
        assert kinship_in(cluster, tmp_path) is Kinship.RESTORED
        assert kinship_in(cluster, tmp_path) is Kinship.BEHIND
        file.unlink()
        assert kinship_in(cluster, tmp_path) is Kinship.WIPED


def test_a_folder_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    """The node says so and does not start; the folder is free again, and as it was."""
    with LocalCluster() as source, LocalCluster("other") as other:
        kinship_in(source, tmp_path)
        content = (tmp_path / FILE_NAME).read_bytes()
        with pytest.raises(Refused, match="belongs to node 'n1' of another cluster's log") as refused:
            kinship_in(other, tmp_path)
        assert refused.value.code == "FOREIGN"
        with pytest.raises(Refused, match="The folder of node 'n2' is that of node 'n1'"):
            source.node("n2", folder=tmp_path).__enter__()
        assert (tmp_path / FILE_NAME).read_bytes() == content
        assert kinship_in(source, tmp_path) is Kinship.BEHIND


def test_a_node_with_a_damaged_file_does_not_start(tmp_path: Path) -> None:
    """It would pass for a new one; its folder is free again."""
    with LocalCluster() as cluster:
        kinship_in(cluster, tmp_path)
        content = (tmp_path / FILE_NAME).read_bytes()
        (tmp_path / FILE_NAME).write_bytes(content[:100])
        with pytest.raises(BadInput, match=FILE_NAME):
            cluster.node("n1", folder=tmp_path).__enter__()
        (tmp_path / FILE_NAME).write_bytes(content)
        assert kinship_in(cluster, tmp_path) is Kinship.BEHIND


def test_a_node_whose_disk_is_full_fails(tmp_path: Path) -> None:
    """In the midst of its life: it is fenced, and says why."""
    with LocalCluster() as cluster, cluster.node("n1", folder=tmp_path) as node:
        (tmp_path / "topolog-past.new").symlink_to("/dev/full")
        cluster.advance(2)
        assert isinstance(node.failure, DiskFailed)
        assert not node.lease.is_valid


def test_a_session_is_given_the_past_that_its_disk_says() -> None:
    """Once, when it is made: what lies there then is what it may find."""
    world = World(["c1"])
    disk = MemoryDisk(past_of(10))
    joiner = m.Joiner(NODE, 0, NodeKind.SERVER, "", {}, (FENCING,), FOLDER)
    session = Session(world.log.reader(), world.log.writer(), world.clock, joiner, disk=disk, key=FOLDER.encode())
    disk.past = None
    while session.core.phase is not Phase.JOINING:
        session.step(0)
    asked = CODEC.decode(world.log.entries(Topic.REQUESTS)[-1].value)
    assert isinstance(asked, m.JoinRequested)
    assert asked.past == past_of(10)
