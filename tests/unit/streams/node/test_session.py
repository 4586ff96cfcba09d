"""A node's loop: joining, echoes behind hooks, releasing, failing for good; stepped by hand."""

import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.projections.chronicle import SECRET, Chronicle
from tests.unit.scenarios.world import PROCEED_MS, TERMS, Hooked, Member, World

from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events.asking import LANES
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, HookFailed, LeftCluster, LogDiverged, Refused, Unreachable
from topolog.events.exchange import open_exchange
from topolog.events.fold import Folded, Ignored
from topolog.events.group_definition import GroupDefinition
from topolog.events.ids import Incarnation, NodeId, Offset
from topolog.events.leases import FENCING, LeaveReason, NodeKind, NodeRow
from topolog.events.log import Headers, InMemoryLog, InMemoryWriter, OnDelivery
from topolog.events.object_types import DeclaredType
from topolog.events.proof import seal_of
from topolog.events.stamp import HEADER_NAME, decode_stamp, encode_stamp
from topolog.events.state import Row, State
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.node.core import NodeCore, Phase
from topolog.streams.node.folder import FolderLock
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.node.session import Session
from topolog.streams.node.waits import Waits

CUSTOMER = md.ObjectType("Customer", {"id": "long"})


def heartbeats(world: World, node: str) -> list[m.Heartbeat]:
    """What one node has sent, in order."""
    entries = [entry for each in range(4) for entry in world.log.entries(Topic.HEARTBEATS, each) if entry.key == node]
    decoded = [CODEC.decode(entry.value) for entry in entries]
    return [each for each in decoded if isinstance(each, m.Heartbeat)]


def certificates(world: World) -> list[m.NodeDied]:
    """The death certificates on the heartbeats topic."""
    decoded = [CODEC.decode(entry.value) for each in range(4) for entry in world.log.entries(Topic.HEARTBEATS, each)]
    return [each for each in decoded if isinstance(each, m.NodeDied)]


def phase_of(session: Session) -> Phase:
    return session.core.phase


# Death certificates (LE32).


def test_an_incarnation_is_announced_before_it_asks_to_join() -> None:
    """What the sentinel does not know when the request is sent it could never say."""
    world = World(["c1"])
    seen: list[tuple[m.NodeDied, int]] = []
    joiner = m.Joiner("n1", 0, NodeKind.SERVER, "", {}, (FENCING,))
    session = Session(
        world.log.reader(),
        world.log.writer(),
        world.clock,
        joiner,
        Hooked(announce=lambda died: seen.append((died, len(world.log.entries(Topic.REQUESTS))))),
    )
    for _ in range(5):
        session.step(0)
        world.settle()
    secret = seen[0][0].secret
    assert seen == [(m.NodeDied(session.core.node, session.core.incarnation, secret), 0)]
    row = session.core.state.get(NodeRow, "n1")
    assert row is not None
    assert row.seal == seal_of(secret)
    assert session.core.phase is Phase.MEMBER


def test_a_session_that_is_closed_while_it_joins_leaves_no_ghost() -> None:
    """Its join is granted or not: it says that nothing of that incarnation acts, and no member remains."""
    for is_granted in (False, True):
        world = World(["c1"])
        world.process("c1").paused = True
        joining = world.node("n1").session
        if is_granted:
            world.coordinators["c1"].step()
        assert phase_of(joining) is Phase.JOINING
        joining.close()
        assert phase_of(joining) is Phase.GONE
        world.process("c1").paused = False
        world.settle()
        row = world.state.get(NodeRow, "n1")
        assert row is None or not row.is_member
        assert phase_of(joining) is Phase.GONE
        assert len(certificates(world)) == 1
        assert heartbeats(world, "n1") == []


def test_a_session_that_is_closed_twice_says_so_once() -> None:
    """As a node does that closes it again when its threads have ended."""
    world = World(["c1"])
    world.process("c1").paused = True
    joining = world.node("n1").session
    joining.close()
    joining.close()
    assert len(certificates(world)) == 1


def test_a_session_that_is_closed_before_it_joins_never_joins() -> None:
    """It has read to the end of the log, and asks for nothing."""
    world = World(["c1"])
    member = Member(world, m.Joiner("n1", 0, NodeKind.SERVER, "", {}, (FENCING,)), lambda _: None)
    member.session.close()
    for _ in range(3):
        member.step()
    assert len(world.log.entries(Topic.REQUESTS)) == 0
    assert certificates(world) == []


def test_a_member_that_leaves_in_order_needs_no_certificate() -> None:
    """Its release says all."""
    world = World(["c1"], ["n1"])
    world.nodes["n1"].session.close()
    world.settle()
    assert certificates(world) == []


def test_a_node_that_is_declared_dead_although_it_lives_joins_again() -> None:
    """A false certificate is nobody's decision: the node is fenced by the log, and comes back through it."""
    world = World(["c1"], ["n1"])
    session = world.nodes["n1"].session
    before = session.core.incarnation
    world.certify(world.nodes["n1"])
    world.settle()
    assert session.core.phase is Phase.MEMBER
    assert session.core.incarnation != before
    assert session.failure is None


# Heartbeats and echoes (K9, LE2).


def test_the_beat_may_be_asked_for_while_the_first_decision_is_being_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that beats asks at any moment: its death in between left a node without heartbeats."""
    world = World(["c1"], ["n1"])
    joiner = m.Joiner("n2", 0, NodeKind.SERVER, "", {}, (FENCING,))
    session = Session(world.log.reader(), world.log.writer(), world.clock, joiner)
    asked: list[int] = []
    put = State.put

    def put_after_a_question(state: State, key: str, row: Row) -> None:
        if isinstance(row, ClusterRow):
            asked.append(session.heartbeat_ms)
        put(state, key, row)

    monkeypatch.setattr(State, "put", put_after_a_question)
    for _ in range(5):
        session.step(0)
    assert asked[0] == 1_000
    assert session.heartbeat_ms == TERMS.heartbeat_ms


def test_a_node_acknowledges_at_once_what_asks_for_it() -> None:
    """LE4: an early heartbeat with position and hash, without time passing."""
    world = World(["c1"], ["n1", "n2"])
    before = len(heartbeats(world, "n2"))
    world.propose("n1", CUSTOMER)
    world.settle()
    acknowledgement = heartbeats(world, "n2")[before]
    at = md.type_row(world.state, "Customer")
    assert at is not None
    assert acknowledgement.applied.position == at.proposed_at


def test_the_next_beat_is_due_by_when_this_one_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that takes its time, or a thread that is not run, makes no beat later than it is due."""
    world = World(["c1"], ["n1"])
    session = world.nodes["n1"].session
    append = InMemoryWriter.append

    def append_slowly(
        self: InMemoryWriter, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: Any = None
    ) -> None:
        append(self, topic, key, value, headers, on_delivery)
        world.clock.advance(TERMS.heartbeat_ms)

    with monkeypatch.context() as patch:
        patch.setattr(InMemoryWriter, "append", append_slowly)
        session.beat()
    before = len(heartbeats(world, "n1"))
    session.beat_if_due()
    assert len(heartbeats(world, "n1")) == before + 1


def test_acknowledgements_are_coalesced() -> None:
    """LE4: however many decisions were read in one step, they are acknowledged by one heartbeat."""
    world = World(["c1"], ["n1", "n2"])
    world.process("n2").paused = True
    for number in range(5):
        world.propose("n1", md.ObjectType(f"T{number}", {"id": "long"}))
    world.settle()
    before = len(heartbeats(world, "n2"))
    world.nodes["n2"].step()
    assert len(heartbeats(world, "n2")) == before + 1


def test_an_echo_counts_only_after_the_hooks_of_everything_before_it() -> None:
    """LE2: a node that passes a check has applied all that stands before the echo, hooks included."""
    world = World(["c1"], ["n1"])
    seen: list[tuple[str, bool, int]] = []

    def hook(folded: Folded) -> None:
        node = world.nodes.get("n2")
        if node is not None:
            seen.append((type(folded.event).__name__, node.is_fenced, node.session.core.applied.position))

    world.node("n2", hook=hook)
    world.process("n2").paused = True
    world.run(TERMS.fence_ms + 100)
    world.propose("n1", CUSTOMER)
    world.settle()
    seen.clear()
    world.process("n2").paused = False
    world.run(100)
    at = next(place for place, (name, _, _) in enumerate(seen) if name == "MetadataUpdateProposed")
    assert seen[at][1], "fenced while the decision before its echo is applied"
    assert not world.nodes["n2"].is_fenced


def test_what_a_heartbeat_reports_is_the_end_of_a_whole_set_with_its_hooks_done() -> None:
    """K9: inside a hook the decision does not count as applied yet."""
    world = World(["c1"], ["n1"])
    positions: list[tuple[int, int]] = []

    def hook(folded: Folded) -> None:
        if "n2" in world.nodes:
            positions.append((folded.place.position, world.nodes["n2"].session.core.applied.position))

    world.node("n2", hook=hook)
    world.propose("n1", CUSTOMER)
    world.settle()
    assert positions
    assert all(applied < position for position, applied in positions)


def test_a_hook_that_raises_ends_the_node() -> None:
    """Going on would count as applied what the service has not done: it is fenced, and says where."""
    world = World(["c1"], ["n1"])

    def hook(folded: Folded) -> None:
        if isinstance(folded.event, md.MetadataUpdateProposed):
            raise RuntimeError("disk full")

    broken = world.node("n2", hook=hook)
    world.propose("n1", CUSTOMER)
    world.settle()
    assert isinstance(broken.session.failure, HookFailed)
    assert "RuntimeError('disk full')" in broken.session.failure.message
    assert broken.is_fenced
    world.run(PROCEED_MS + 100)
    assert len(world.events(md.MetadataUpdateAccepted)) == 1


# Joining and leaving.


def test_a_node_joins_when_it_has_read_the_log_to_its_end() -> None:
    """It folds everything before it asks: one that lags does not ask yet."""
    world = World(["c1"], ["n1"])
    world.propose("n1", CUSTOMER)
    world.settle()
    before = len(world.log.entries(Topic.REQUESTS))
    joiner = m.Joiner("n2", 0, NodeKind.SERVER, "", {}, (FENCING,))
    node = Member(world, joiner, lambda _: None)
    node.reader.batch_max = 1
    while not node.reader.at_end(Topic.DECISIONS):
        assert len(world.log.entries(Topic.REQUESTS)) == before
        node.step()
    assert len(world.log.entries(Topic.REQUESTS)) == before + 1
    assert md.type_row(node.state, "Customer") is not None


def test_after_a_removal_in_silence_a_node_comes_back_as_a_new_incarnation() -> None:
    """FENCED: it joins again by itself, and its heartbeats count from 1 again."""
    world = World(["c1"], ["n1", "n2"])
    node = world.nodes["n2"]
    first = node.session.core.incarnation
    node.paused = True
    world.run(PROCEED_MS + 600)
    node.paused = False
    world.run(100)
    assert node.session.core.incarnation != first
    assert not node.is_fenced
    assert heartbeats(world, "n2")[-1].sequence <= 2


def test_a_removed_node_stays_out() -> None:
    """REMOVED is somebody's decision: the node says so and does not come back."""
    world = World(["c1"], ["n1"])
    node = world.nodes["n1"]
    world.remove_node("n1")
    world.settle()
    assert isinstance(node.session.failure, LeftCluster)
    assert node.session.core.left_reason is LeaveReason.REMOVED
    assert node.is_fenced


def test_a_release_is_the_last_word_of_an_incarnation() -> None:
    """No heartbeat follows it, whichever thread sends them: it would take the release back."""
    world = World(["c1"], ["n1"])
    session = world.nodes["n1"].session
    session.close()
    session.beat()
    session.beat_if_due()
    assert heartbeats(world, "n1")[-1].is_release
    assert session.core.phase is Phase.STOPPING


class PhaseNoting(InMemoryWriter):
    """A writer that notes in which phase its session hands records over."""

    def __init__(self, log: InMemoryLog) -> None:
        super().__init__(log, True)
        self.session: Session | None = None
        self.phases: list[Phase] = []

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if self.session:
            self.phases.append(self.session.core.phase)
        super().append(topic, key, value, headers, on_delivery)


def test_a_node_is_stopping_before_it_hands_over_its_release() -> None:
    """Else the thread of the regular heartbeats, which waits for its turn meanwhile, would send one behind it."""
    world = World(["c1"])
    writer = PhaseNoting(world.log)
    joiner = m.Joiner("n1", 0, NodeKind.SERVER, "", {}, (FENCING,))
    writer.session = session = Session(world.log.reader(), writer, world.clock, joiner)
    while session.core.phase is not Phase.MEMBER:
        session.step(0)
        world.settle()
    session.close()
    assert heartbeats(world, "n1")[-1].is_release
    assert writer.phases[-1] is Phase.STOPPING


def test_a_node_whose_join_is_refused_says_why() -> None:
    """The refusal is the error; the node does not try again."""
    world = World(["c1"], ["n1"])
    world.propose("n1", CUSTOMER)
    world.settle()
    wrong = DeclaredType(md.ObjectType("Customer", {"id": "String"}), 0)
    node = world.node("n2", types=(wrong,))
    assert isinstance(node.session.failure, Refused)
    assert node.session.failure.code == "METADATA_CONFLICT"


# Requests.


def test_a_request_that_failed_to_send_is_sent_again_byte_for_byte() -> None:
    """K7: the same id, so it is done once or not at all."""
    world = World(["c1"], ["n1"])
    node = world.nodes["n1"]
    node.writer.prompt = False
    request = world.propose("n1", CUSTOMER)
    node.writer.fail(1)
    node.writer.prompt = True
    world.settle()
    outcome = world.outcome(request)
    assert outcome is not None
    assert outcome.status is q.Status.GRANTED


def test_a_request_over_the_limit_is_not_sent() -> None:
    """BadInput where it is made: what no record can hold has no id and no outcome."""
    world = World(["c1"], ["n1"])
    before = len(world.log.entries(Topic.REQUESTS))
    with pytest.raises(BadInput, match="the limit is"):
        world.propose("n1", md.ObjectType("T", {f"field {number}": "x" * 900 for number in range(1_000)}))
    assert len(world.log.entries(Topic.REQUESTS)) == before


# A log that cannot be followed (K9).


def test_a_log_cut_short_fences_the_node() -> None:
    """K9: its own position is not in the log: it must not answer from a history that is gone."""
    world = World(["c1"], ["n1"])
    node = world.nodes["n1"]
    world.log.truncate(Topic.DECISIONS, 3)
    node.step()
    assert isinstance(node.session.failure, LogDiverged)
    assert node.is_fenced


def test_a_log_that_goes_on_in_another_way_fences_the_node() -> None:
    """K3, K9: the next record's chain is not the one this node has folded."""
    world = World(["c1"], ["n1"])
    node, core = world.nodes["n1"], world.leader().driver.core
    core.renew()
    (outgoing,) = core.outbox
    stamp = msgspec.structs.replace(decode_stamp(outgoing.stamp), chain=bytes(16))
    world.log.put(Topic.DECISIONS, "demo", outgoing.value, [(HEADER_NAME, encode_stamp(stamp))])
    node.step()
    assert isinstance(node.session.failure, LogDiverged)
    assert node.is_fenced


# The lock on a data folder.


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    """The kernel holds the lock for the process; a second one is told whose it is."""
    first, second = FolderLock(tmp_path / "data", "n1"), FolderLock(tmp_path / "data", "n1")
    first.acquire()
    with pytest.raises(BadInput, match="Another process uses the folder"):
        second.acquire()
    first.let_go()
    second.acquire()
    second.let_go()
    second.let_go()


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "data").touch()
    with pytest.raises(BadInput, match="cannot use"):
        FolderLock(tmp_path / "data", "n1").acquire()


# What callers wait for.


def test_a_wait_is_over_when_its_condition_holds() -> None:
    """At once, or at the next look after something was applied."""
    waits, applied = Waits(), list[int]()
    assert waits.when(lambda: "now").result(0) == "now"
    later: Future[int] = waits.when(lambda: applied[0] if applied else None)
    waits.check()
    assert not later.done()
    applied.append(7)
    waits.check()
    assert later.result(0) == 7


def test_an_error_in_a_condition_belongs_to_its_caller() -> None:
    """Others go on waiting."""
    waits, applied = Waits(), list[int]()

    def refused() -> int | None:
        if applied:
            raise BadInput("no")
        return None

    one: Future[int] = waits.when(refused)
    other: Future[int] = waits.when(lambda: None)
    applied.append(1)
    waits.check()
    with pytest.raises(BadInput):
        one.result(0)
    assert not other.done()


def test_a_caller_may_give_up_at_any_moment() -> None:
    """Even while its condition is looked at: the thread that applies the log must survive it."""
    waits = Waits()
    futures: list[Future[int]] = []

    def given_up() -> int | None:
        if futures:
            futures[0].cancel()
            return 1
        return None

    futures.append(waits.when(given_up))
    waits.check()
    assert futures[0].cancelled()
    waits.check()


def test_when_no_condition_can_hold_any_more_every_wait_ends() -> None:
    """ME22: every waiter ends; those who come later are told at once."""
    waits = Waits()
    before: Future[int] = waits.when(lambda: None)
    gone: Future[int] = waits.when(lambda: None)
    gone.cancel()
    waits.fail(LeftCluster("out"))
    after: Future[int] = waits.when(lambda: 1)
    for future in (before, after):
        with pytest.raises(LeftCluster):
            future.result(0)


def test_a_node_with_all_its_requests_under_way_still_joins_again() -> None:
    """A join has an id of its own kind: however many requests are open, a removed node comes back."""
    world = World(["c1"], ["n1"])
    node = world.nodes["n1"]
    node.writer.prompt = False
    for number in range(LANES * q.OUTCOMES_KEPT):
        world.propose("n1", md.ObjectType(f"T{number}", {"id": "long"}))
    world.run(4_000)
    node.writer.prompt = True
    node.writer.serve()
    world.run(3_000)
    assert node.session.failure is None
    assert not node.is_fenced


def test_an_outcome_under_our_id_that_answers_another_request_is_none_of_ours() -> None:
    """K7: whoever uses somebody else's id does not speak for him; the sender sees it by the digest."""
    world = World(["c1"], ["n1"])
    node = world.nodes["n1"]
    node.writer.prompt = False
    ours = world.propose("n1", CUSTOMER)
    log_id = node.session.core.log_id
    assert log_id is not None
    world.ask(md.UpdateRequested(ours, log_id, "somebody", "", md.ObjectType("Other", {"id": "int"}), 0))
    node.writer.prompt = True
    world.settle()
    outcome = node.session.requests.outcome(ours)
    assert outcome is not None
    assert (outcome.status, outcome.code) == (q.Status.REFUSED, "REQUEST_ID_REUSED")


# Whether the goodbye was heard.


def has_said_goodbye(session: Session) -> bool:
    return session.said_goodbye


def member_with(world: World, writer: InMemoryWriter) -> Session:
    """A member of this world that sends by this writer."""
    session = Session(world.log.reader(), writer, world.clock, m.Joiner("n1", 0, NodeKind.SERVER, "", {}, (FENCING,)))
    while session.core.phase is not Phase.MEMBER:
        session.step(0)
        world.settle()
    return session


def test_a_goodbye_is_said_when_the_log_has_it() -> None:
    """An empty queue proves nothing: it is empty, too, when the release was lost."""
    for is_lost in (True, False):
        world = World(["c1"])
        writer = world.log.writer()
        session = member_with(world, writer)
        writer.prompt = False
        session.close()
        assert not has_said_goodbye(session)
        if is_lost:
            writer.fail()
        else:
            writer.land()
        assert writer.flush(0) == 0
        assert has_said_goodbye(session) is not is_lost


def test_a_renouncement_that_is_lost_is_no_goodbye() -> None:
    """Its join may be granted, and then only the sentinel can say that nobody acts."""
    world = World(["c1"])
    writer = world.log.writer()
    session = Session(world.log.reader(), writer, world.clock, m.Joiner("n1", 0, NodeKind.SERVER, "", {}, ()))
    assert has_said_goodbye(session)
    session.step(0)
    assert phase_of(session) is Phase.JOINING
    assert not has_said_goodbye(session)
    writer.prompt = False
    session.close()
    writer.fail()
    writer.serve()
    assert phase_of(session) is Phase.GONE
    assert not has_said_goodbye(session)


def test_what_the_log_says_of_the_end_is_proof_as_well() -> None:
    """A node that was removed has nothing left to say, nor has one whose join was refused."""
    world = World(["c1"], ["n1"])
    world.propose("n1", CUSTOMER)
    world.settle()
    refused = world.node("n2", types=(DeclaredType(md.ObjectType("Customer", {"id": "String"}), 0),)).session
    assert refused.said_goodbye
    removed = world.nodes["n1"].session
    assert not has_said_goodbye(removed)
    world.remove_node("n1")
    world.settle()
    assert phase_of(removed) is Phase.GONE
    assert has_said_goodbye(removed)


class FullOnce(InMemoryWriter):
    """Refuses the next heartbeat, once it is told to."""

    is_full = False

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if self.is_full and topic is Topic.HEARTBEATS:
            self.is_full = False
            raise Unreachable("The queue is full.")
        super().append(topic, key, value, headers, on_delivery)


def test_a_release_that_the_producer_did_not_take_is_said_later() -> None:
    """By the next step, or by whoever closes the session again."""
    for say_again in (lambda session: session.step(0), Session.close):
        world = World(["c1"])
        writer = FullOnce(world.log, prompt=True)
        session = member_with(world, writer)
        writer.is_full = True
        with pytest.raises(Unreachable):
            session.close()
        assert phase_of(session) is Phase.STOPPING
        say_again(session)
        assert [each.is_release for each in heartbeats(world, "n1")].count(True) == 1


# Single maps (EX31).


def test_a_map_that_did_not_reach_the_log_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange waits for it; and no report that comes at that moment is lost over it."""
    world = World(["c1"], ["n1"])
    session = world.nodes["n1"].session
    append, unsay_map = session._writer.append, session.core.unsay_map
    lost: list[OnDelivery | None] = []
    guarded: list[bool] = []

    def lossy(
        topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is Topic.MAPS and not lost:
            lost.append(on_delivery)
        else:
            append(topic, key, value, headers, on_delivery)

    def unsay() -> None:
        guarded.append(session.folding.locked())
        unsay_map()

    monkeypatch.setattr(session._writer, "append", lossy)
    monkeypatch.setattr(session.core, "unsay_map", unsay)
    world.create_group("n1", GroupDefinition("orders", 4))
    world.settle()
    assert open_exchange(world.state) is not None
    (on_delivery,) = lost
    assert on_delivery is not None
    on_delivery(Unreachable("timed out"), None)
    world.settle()
    assert open_exchange(world.state) is None
    assert guarded == [True]


def test_a_copy_of_a_folder_is_another_folder(tmp_path: Path) -> None:
    """LE23: its lock says nothing of the process that holds the original's, and must not put that one out."""
    original = FolderLock(tmp_path / "data", "n1")
    told = original.acquire()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    copy = FolderLock(tmp_path / "copy", "n1")
    assert copy.acquire() != told
    copy.let_go()
    original.let_go()
    assert FolderLock(tmp_path / "data", "n1").acquire() == told, "the next process on it proves the former one gone"


@pytest.mark.parametrize(("seal", "phase"), [(seal_of(SECRET), Phase.MEMBER), (b"another one's", Phase.JOINING)])
def test_a_joining_in_ones_name_counts_only_with_ones_seal(seal: bytes, phase: Phase) -> None:
    """LE21: incarnations stand in the log while they wait, so somebody else can join as one of them; whoever took that
    for its own would serve under a lease that the other can end."""
    chronicle = Chronicle().start()
    core = NodeCore(NodeId("n1"), (FENCING,))
    core.incarnate(Incarnation(1), {}, seal)
    reader = chronicle.log.reader()
    reader.assign({(Topic.DECISIONS, 0): Offset(0)})
    chronicle.join("n1", renewed=False)
    for entry in reader.poll(0):
        found = core.read(entry)
        assert not isinstance(found, Ignored)
        for folded in found:
            core.apply(folded, 0)
    assert (core.phase, core.has_joined) == (phase, phase is Phase.MEMBER)


def test_no_secret_is_shown_from_a_copy_of_the_folder() -> None:
    """LE23: a copy has the key of the original, which may be alive; what would prove nothing is not shown, for all read
    the log."""
    world = World(["c1"])
    world.settle()
    original, copied = (m.Joiner("n1", 0, NodeKind.SERVER, "", {}, (FENCING,), folder) for folder in ("a", "b"))
    for joiner in (original, copied):
        session = Session(
            world.log.reader(), world.log.writer(), world.clock, joiner, disk=MemoryDisk(), key=b"the key of both"
        )
        for _ in range(5):
            session.step(0)
            world.settle()
    asked = [CODEC.decode(entry.value) for entry in world.log.entries(Topic.REQUESTS)]
    joins = [each.joiner for each in asked if isinstance(each, m.JoinRequested)]
    assert [(each.folder, each.replaces, each.proof) for each in joins] == [("a", None, b""), ("b", None, b"")]
