"""Starting from a snapshot (K10): what is used, what is not, and that it gives what the whole log gives."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.events.examples import STARTED, Leader, proposed
from tests.unit.events.following import Reader
from tests.unit.scenarios.world import PROCEED_MS, Hooked, World
from tests.unit.streams.coordinator.test_voiding import poison, revived, void

from topolog.events import metadata as md
from topolog.events import terms
from topolog.events.codec import CODEC
from topolog.events.errors import DamagedStore, HookFailed
from topolog.events.fold import Fold, Header, Judge
from topolog.events.ids import NodeId, Offset, Position
from topolog.events.leases import FENCING, NodeKind
from topolog.events.log import InMemoryReader, InMemoryWriter
from topolog.events.membership import Joiner
from topolog.events.rows import row_format
from topolog.events.snapshot_content import Content, Cut
from topolog.events.snapshots import SnapshotAnchor, SnapshotChunk, SnapshotTaken
from topolog.events.stamp import HEADER_NAME, decode_stamp
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.events.voiding import RecordVoided
from topolog.streams import restoring
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.answers import Metadata
from topolog.streams.node.core import NodeCore, Phase
from topolog.streams.node.hooks import Hooks
from topolog.streams.node.session import Session
from topolog.streams.restoring import PATIENCE_NS, TRIES_MAX

OFTEN = Cadence(positions=20, piece_bytes=300)
NEVER = Cadence(positions=0)
TAKEOVER_MS = 1_500
RUBBISH = 300


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


# What is not used.


def values(world: World, topic: Topic) -> list[bytes]:
    return [each.value for each in world.log.entries(topic)]


def refill(world: World, contents: list[bytes]) -> None:
    """The topic of snapshots holds these records from now on."""
    world.log.truncate(Topic.SNAPSHOTS, 0)
    for value in contents:
        world.log.put(Topic.SNAPSHOTS, "demo", value)


def change_chunk(value: bytes, **changes: Any) -> bytes:
    return CODEC.encode(msgspec.structs.replace(CODEC.decode(value), **changes))


def test_rubbish_behind_a_snapshot_is_stepped_over(caplog: pytest.LogCaptureFixture) -> None:
    """Foreign records, and the chunks of a snapshot that nobody has finished."""
    world = world_with_snapshots()
    (taken,) = announced(world)
    chunks = values(world, Topic.SNAPSHOTS)[:-1]
    for value in (b"rubbish", *(change_chunk(each, chain=bytes(16)) for each in chunks[:5]), b"", chunks[0]):
        world.log.put(Topic.SNAPSHOTS, "x", value)
    assert start_node(world) == taken.position + 1
    assert caplog.messages == []


def test_chunks_of_others_and_repeats_between_the_chunks_do_not_matter() -> None:
    """A deposed leader's sends land late, and twice."""
    world = world_with_snapshots()
    (taken,) = announced(world)
    *chunks, closing = values(world, Topic.SNAPSHOTS)
    mixed = [each for chunk in chunks for each in (chunk, change_chunk(chunk, chain=bytes(16)), chunk, b"?")]
    refill(world, [*mixed, closing])
    assert start_node(world) == taken.position + 1


def missing(chunks: list[bytes]) -> list[bytes]:
    return [*chunks[:2], b"", *chunks[3:]]


def damaged(chunks: list[bytes]) -> list[bytes]:
    chunk = CODEC.decode(chunks[2])
    assert isinstance(chunk, SnapshotChunk)
    return [*chunks[:2], change_chunk(chunks[2], content=chunk.content[::-1]), *chunks[3:]]


def swapped(chunks: list[bytes]) -> list[bytes]:
    return [*chunks[:2], chunks[3], chunks[2], *chunks[4:]]


@pytest.mark.parametrize("spoil", [missing, damaged, swapped])
def test_of_a_spoilt_snapshot_the_next_older_one_is_used(
    spoil: Callable[[list[bytes]], list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    """K10: chunks that are lost, changed or out of order are found out; it is said once."""
    world = world_with_snapshots(2)
    older, newer = announced(world)
    contents = values(world, Topic.SNAPSHOTS)
    refill(world, contents[: newer.first_offset] + spoil(contents[newer.first_offset : -1]) + contents[-1:])
    assert start_node(world) == older.position + 1
    (said,) = caplog.messages
    assert f"position {newer.position}" in said


def test_a_snapshot_of_which_the_oldest_chunks_are_no_longer_kept_is_not_used() -> None:
    """The topic keeps them for a while only; its offsets stay what they were."""
    world = world_with_snapshots()
    contents = values(world, Topic.SNAPSHOTS)
    refill(world, [b""] * 3 + contents[3:])
    assert start_node(world) == 0


@pytest.mark.parametrize("changes", [{"row_format": "another"}, {"digest": bytes(32)}, {"chain": bytes(16)}])
def test_a_snapshot_that_says_something_else_than_the_log_is_not_used(changes: dict[str, Any]) -> None:
    """Another version's rows, another content, another place: nothing of it is believed."""
    world = world_with_snapshots()
    contents = values(world, Topic.SNAPSHOTS)
    refill(world, [*contents[:-1], change_chunk(contents[-1], **changes)])
    assert start_node(world) == 0


def test_a_snapshot_of_another_log_is_not_used() -> None:
    """A topic that was copied from another cluster."""
    world, other = world_with_snapshots(), world_with_snapshots()
    contents = [change_chunk(value, log_id=bytes(16)) for value in values(other, Topic.SNAPSHOTS)]
    refill(world, contents)
    assert start_node(world) == 0


def test_snapshots_are_given_up_after_a_few(caplog: pytest.LogCaptureFixture) -> None:
    """Each costs its loading and a look through the log: a topic of nothing but spoilt ones must not cost an hour."""
    world = world_with_snapshots()
    *chunks, closing = values(world, Topic.SNAPSHOTS)
    wrong = change_chunk(closing, digest=bytes(32))
    refill(world, [*chunks, *[wrong] * (TRIES_MAX + 3)])
    assert start_node(world) == 0
    assert len(caplog.messages) == TRIES_MAX + 1


def test_a_topic_full_of_rubbish_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look backwards is a round trip to the broker."""
    monkeypatch.setattr(restoring, "LOOKS_MAX", 10)
    world = world_with_snapshots()
    for number in range(11):
        world.log.put(Topic.SNAPSHOTS, "x", b"%d" % number)
    assert start_node(world) == 0


def test_a_topic_that_does_not_answer_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is what counts: a broker that has lost the snapshots alone stops nobody."""
    world = world_with_snapshots()
    poll = InMemoryReader._take
    monkeypatch.setattr(InMemoryReader, "_take", lambda reader: [] if _is_silent(reader) else poll(reader))
    monkeypatch.setattr(InMemoryReader, "at_end", lambda reader, _: not _is_silent(reader))
    folded: list[Position] = []
    member = world.node("n9", hook=lambda each: folded.append(each.place.position))
    world.run(PATIENCE_NS // 1_000_000 - 100)
    assert folded == []
    world.run(1_000)
    assert folded[0] == 0
    assert rows_of(member.state) == rows_of(world.state)


def _is_silent(reader: InMemoryReader) -> bool:
    return any(topic is Topic.SNAPSHOTS for topic, _ in reader._next)


# The log has the last word.


def test_a_snapshot_newer_than_the_log_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """The log was restored from an older copy: what was decided behind it never was."""
    world = world_with_snapshots(2)
    older, newer = announced(world)
    kept = older.anchor.offset + (newer.anchor.offset - older.anchor.offset) // 2
    again = copied(world, kept)
    refill(again, values(world, Topic.SNAPSHOTS))
    assert start_stand_by(again) == older.position
    assert any("newer than the log" in each for each in caplog.messages)


def test_a_snapshot_whose_place_another_term_has_taken_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """The log was restored from an older copy and has grown since: at the snapshot's place stands something else."""
    world = world_with_snapshots(2)
    older, newer = announced(world)
    again = copied(world, newer.anchor.offset + 1)
    again.start("c8")
    again.run(TAKEOVER_MS + 20_000)
    assert len(again.log.entries(Topic.DECISIONS)) > newer.anchor.offset + 5
    refill(again, values(world, Topic.SNAPSHOTS))
    assert start_stand_by(again) == older.position
    assert any("its term ended" in each for each in caplog.messages)


def copied(world: World, length: int) -> World:
    """A world without processes whose log is an older copy of this one's, so long; its inputs are all there."""
    copy = World([], [], NEVER)
    for topic in (Topic.DECISIONS, Topic.REQUESTS, Topic.HEARTBEATS):
        for number in range(PARTITIONS[topic]):
            entries = world.log.entries(topic, number)
            for entry in entries[:length] if topic is Topic.DECISIONS else entries:
                copy.log.put(topic, entry.key or "", entry.value, entry.headers)
    return copy


def start_stand_by(world: World) -> Position | None:
    """A new coordinator reads to the end and has the rows of the log; the snapshot that it has started from."""
    driver = world.start("c9").driver
    world.run(100)
    assert rows_of(driver.core.state) == rows_of(world.state)
    return driver.started_from


def test_a_deposed_leaders_snapshot_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """Whole, in good order and named by its own SnapshotTaken, which stands behind the term that deposed it."""
    world, _ = world_of_a_zombie(World(["c1"], ["n1"], OFTEN))
    assert announced(world) == []
    assert start_stand_by(world) is None
    assert any("its term ended" in each or "otherwise" in each for each in caplog.messages)


@pytest.mark.parametrize("look_back", [1, RUBBISH])
def test_a_repeat_of_the_anchor_behind_the_next_term_proves_nothing(
    look_back: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a copy whose offsets are lower the hint leads right to it, and all that the deposed leader sent follows.

    The search comes upon the anchor itself, which the next term follows, or at least upon that term.
    """
    monkeypatch.setattr(restoring, "LOOK_BACK", look_back)
    world = World([], [], OFTEN)
    for _ in range(RUBBISH):
        world.log.put(Topic.DECISIONS, "x", b"rubbish that the mirror leaves out")
    world.start("c1")
    world.node("n1")
    world, deposed_at = world_of_a_zombie(world)
    entries = world.log.entries(Topic.DECISIONS)
    taken = next(each for each in map(CODEC.read, values(world, Topic.SNAPSHOTS)) if isinstance(each, SnapshotTaken))
    anchor = taken.anchor.offset
    repeats = [each for each in entries[anchor:deposed_at] if decode_stamp(each.stamp or b"").term == taken.term]
    mirror = copied(world, 0)
    for each in [*entries[deposed_at - anchor : deposed_at], *repeats, *entries[deposed_at:]]:
        mirror.log.put(Topic.DECISIONS, "demo", each.value, each.headers)
    assert mirror.log.entries(Topic.DECISIONS)[anchor].value == entries[anchor].value
    refill(mirror, values(world, Topic.SNAPSHOTS))
    assert start_stand_by(mirror) is None
    assert any("its term ended" in each for each in caplog.messages)


def world_of_a_zombie(world: World) -> tuple[World, int]:
    """The leader's sends land when it has been deposed, from this offset on; a SnapshotTaken is among them."""
    for _ in range(4):
        work(world)
    zombie = world.process("c1")
    zombie.writer.prompt = False
    while not any(_is_snapshot_taken(value) for value in in_flight(zombie.writer, Topic.DECISIONS)):
        world.propose("n1", md.ObjectType(f"Lost{len(world.log.entries(Topic.REQUESTS))}", {"id": "long"}))
        world.run(20)
        land(zombie.writer, Topic.SNAPSHOTS)
    world.cadence = NEVER
    world.start("c2", takeover_ms=100)
    zombie.paused = True
    world.run(1_000)
    deposed_at = len(world.log.entries(Topic.DECISIONS))
    zombie.writer.land()
    assert any(_is_snapshot_taken(value) for value in values(world, Topic.DECISIONS))
    return world, deposed_at


def _is_snapshot_taken(value: bytes) -> bool:
    return CODEC.type_of(value) is SnapshotTaken


def in_flight(writer: InMemoryWriter, topic: Topic) -> list[bytes]:
    return [each.value for each in writer._in_flight if each.topic is topic]


def land(writer: InMemoryWriter, topic: Topic) -> None:
    """The sends to one topic reach the log, those to others stay on their way."""
    sends = list(writer._in_flight)
    writer._in_flight.clear()
    writer._in_flight.extend(each for each in sends if each.topic is topic)
    writer.land()
    writer._in_flight.extend(each for each in sends if each.topic is not topic)


@pytest.mark.parametrize(("shift", "look_back"), [(-7, 1), (-7, 7), (40, 0)])
def test_a_mirrored_log_has_other_offsets_and_the_same_truth(
    shift: int, look_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets are hints: the anchor is looked for from a while before them on; behind it the log is read from 0."""
    monkeypatch.setattr(restoring, "LOOK_BACK", look_back)
    world = World([], [], OFTEN)
    for _ in range(max(0, -shift)):
        world.log.put(Topic.DECISIONS, "x", b"rubbish that the mirror leaves out")
    world.start("c1")
    world.node("n1")
    while not announced(world):
        work(world)
    (taken,) = announced(world)
    mirror = copied(world, 0)
    for _ in range(max(0, shift)):
        mirror.log.put(Topic.DECISIONS, "x", b"rubbish")
    for entry in world.log.entries(Topic.DECISIONS)[max(0, -shift) :]:
        mirror.log.put(Topic.DECISIONS, "demo", entry.value, entry.headers)
    refill(mirror, values(world, Topic.SNAPSHOTS))
    assert start_stand_by(mirror) == (taken.position if shift + look_back >= 0 else None)


# What a service sees.


def test_a_service_is_told_of_the_types_in_the_snapshot_first() -> None:
    """Once each, at the version that is accepted there, in the order of acceptance; before any decision behind it."""
    world = world_with_snapshots()
    (taken,) = announced(world)
    for name in ("Later", "T0"):
        world.propose("n1", md.ObjectType(name, {"id": "long"}))
        world.run(50)
    told: list[tuple[str, int]] = []
    hooks = Hooks()
    hooks.on_type.append(lambda name, metadata: told.append((name, metadata.version if metadata else 0)))
    session = begin_session(world, lambda session: hooks.begin(session.core))
    before = [row for _, row in session.core.state.rows(md.TypeRow) if row.accepted]
    assert 0 < len(before) < len(list(world.state.rows(md.TypeRow)))
    in_order = sorted(before, key=lambda row: row.accepted_at or 0)
    assert told == [(row.name, row.accepted_version) for row in in_order]
    assert session.core.applied.position == taken.position


def begin_session(world: World, begin: Callable[[Session], None]) -> Session:
    """A node's loop that stands at the snapshot and has read nothing behind it."""
    joiner = Joiner("n9", 0, NodeKind.SERVER, "", {}, (FENCING,))
    sessions: list[Session] = []
    session = Session(
        world.log.reader(),
        world.log.writer(),
        world.clock,
        joiner,
        Hooked(begin=lambda: begin(sessions[0])),
        chance=lambda: 9,
    )
    sessions.append(session)
    while session.started_from is None:
        session.step(0)
    return session


def test_a_service_that_fails_over_the_snapshot_has_failed() -> None:
    """K9: what its hook has not done does not count as applied, here as behind any decision."""
    world = world_with_snapshots()

    def fail(_: Session) -> None:
        raise RuntimeError("no room")

    with pytest.raises(HookFailed, match="at the snapshot of position"):
        begin_session(world, fail)


def test_no_lease_comes_from_a_snapshot() -> None:
    """A node whose former life was a member in the snapshot is fenced until the log has echoed its own heartbeat."""
    world = world_with_snapshots()
    world.kill("n2")
    session = begin_session(world, lambda _: None)
    assert not session.lease.is_valid(world.clock.boottime_ns())
    again = world.node("n2")
    assert again.is_fenced
    world.run(PROCEED_MS + 500)
    assert not again.is_fenced


def test_a_snapshot_that_holds_what_was_voided_since_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K8: an older version has folded what this one cannot read; who starts from its snapshot meets the voiding."""
    world, leader = World(), Leader()
    write(world, leader.set(STARTED))
    leader = Leader(term=1, chain=leader.chain)
    write(world, leader.set(terms.TermStarted(1, "c1", 7)) + leader.set(proposed("A")))
    kept, judge = Fold(), Judge()
    for entry in world.log.entries(Topic.DECISIONS):
        kept.read(entry.stamp, entry.value)
        judge.judge(entry.stamp, entry.value)
    judge.stand(kept.judge().standing)
    (voided,) = leader.raw_set(b"of a version that this one does not know")
    judge.judge(*voided)
    write(world, [voided])
    write(world, leader.set(snapshot_at(world, judge.header, kept.state)))
    leader = Leader(term=2, chain=leader.chain)
    voiding = RecordVoided(judge.header.position, judge.header.chain)
    write(world, leader.set(terms.TermStarted(2, "void", 7)) + leader.set(voiding) + leader.set(terms.TermEnded(2)))
    member = world.node("n9")
    world.run(100)
    assert any("starting again" in each or "starts again" in each for each in caplog.messages)
    assert member.session.started_from is None
    assert member.session.failure is None
    assert member.session.core.folded == judge.header.position + 4


@pytest.mark.parametrize("changes", [{"row_format": "another"}, {"position": 1}, {"log_id": bytes(16)}])
def test_a_snapshot_that_does_not_fit_its_content_is_not_used_whoever_names_it(changes: dict[str, Any]) -> None:
    """The rows of another version, or of another place: also where the log itself says so."""
    world, leader = World(), Leader()
    write(world, leader.set(STARTED))
    leader = Leader(term=1, chain=leader.chain)
    write(world, leader.set(terms.TermStarted(1, "c1", 7)) + leader.set(proposed("A")))
    fold = Fold()
    for entry in world.log.entries(Topic.DECISIONS):
        fold.read(entry.stamp, entry.value)
    write(world, leader.set(snapshot_at(world, fold.header, fold.state, **changes)))
    folded: list[Position] = []
    world.node("n9", hook=lambda each: folded.append(each.place.position))
    world.run(100)
    assert folded[0] == 0


def write(world: World, records: list[tuple[bytes, bytes]]) -> None:
    for stamp, value in records:
        world.log.put(Topic.DECISIONS, "demo", value, [(HEADER_NAME, stamp)])


def snapshot_at(world: World, header: Header, state: State, **changes: Any) -> SnapshotTaken:
    """A snapshot of this state comes to stand in its topic; what the log must say of it, with these changes."""
    content = Content(Cut(header, state.copies()))
    (piece,) = (each for each in content.pieces() if each)
    assert header.log_id is not None
    chunk = SnapshotChunk(header.log_id, header.position, header.chain, 0, piece)
    world.log.put(Topic.SNAPSHOTS, "demo", CODEC.encode(chunk))
    end = Offset(len(world.log.entries(Topic.DECISIONS)) - 1)
    taken = SnapshotTaken(
        log_id=header.log_id,
        term=header.term,
        position=header.position,
        chain=header.chain,
        state_hash=content.state_hash,
        row_format=row_format(),
        digest=content.digest,
        rows=content.rows,
        content_bytes=content.size,
        chunks=1,
        first_offset=Offset(0),
        anchor=SnapshotAnchor(end, header.next_sequence - 1, header.position, header.chain),
    )
    taken = msgspec.structs.replace(taken, **changes)
    world.log.put(Topic.SNAPSHOTS, "demo", CODEC.encode(taken))
    return taken


def test_a_node_whose_snapshot_holds_what_was_voided_reads_the_log_from_its_beginning() -> None:
    """K8, K10: rows made before a voiding cannot be mended; the service is told that they count no longer."""
    world = world_with_snapshots()
    world.kill("c1")
    poison(world.log, Reader(world.log).run().fold.header, CODEC.encode(RecordVoided(1, bytes(16))))
    again = revived(world.log, void(world.log))
    told: list[str] = []
    joiner = Joiner("n9", 0, NodeKind.SERVER, "", {}, ())
    session = Session(
        world.log.reader(),
        world.log.writer(),
        again.clock,
        joiner,
        Hooked(lambda folded: told.append(f"position {folded.place.position}"), lambda: told.append("begin")),
    )
    for _ in range(10):
        session.step(0)
        again.settle()
    assert session.core.phase is Phase.MEMBER
    assert session.started_from is None
    assert told[0] == "begin"
    assert told[told.index("begin", 1) + 1] == "position 0"
    assert rows_of(session.core.state) == rows_of(again.state)


def test_a_member_whose_snapshot_holds_what_is_voided_ends_and_starts_again() -> None:
    """K4: it may have served from rows that are not the log's, so its lease ends with it; a restart mends it."""
    world = world_with_snapshots()
    start_node(world)
    world.kill("c1")
    poison(world.log, Reader(world.log).run().fold.header, CODEC.encode(RecordVoided(1, bytes(16))))
    member = world.nodes["n9"]
    member.step()
    assert isinstance(member.session.failure, DamagedStore)
    assert member.is_fenced
    again = revived(world.log, void(world.log))
    start_node(again)
    assert again.nodes["n9"].session.started_from is None


def test_hooks_take_back_each_type_before_the_log_is_said_again() -> None:
    """A service keeps no type that only a voided record had made."""
    world = world_with_snapshots()
    hooks, told = Hooks(), dict[str, Metadata | None]()
    hooks.on_type.append(told.__setitem__)
    core = NodeCore(NodeId("n9"), ())
    core.begin_from(Fold(world.state))
    hooks.begin(core)
    assert told
    assert None not in told.values()
    hooks.begin(NodeCore(NodeId("n9"), ()))
    assert set(told.values()) == {None}
