"""The coordinator's loop on a log and a clock: take-over, outages, failed sends, dead letters (K5-K8)."""

import pytest
from tests.unit.scenarios.world import PROCEED_MS, STEP_MS, TERMS, Coordinator, Member, World

from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import LogDiverged, Poisoned
from topolog.events.fold import Ignored
from topolog.events.group_definition import GroupDefinition
from topolog.events.log import Entry, Headers, InMemoryReader, OnDelivery
from topolog.events.stamp import HEADER_NAME, Stamp, decode_stamp, encode_stamp
from topolog.events.topics import Topic
from topolog.streams.coordinator import driver
from topolog.streams.coordinator.core import Core, Role
from topolog.streams.coordinator.snapshots import PAUSE_S
from topolog.streams.rules.exchange import Patience

TAKEOVER_MS = TERMS.fence_ms * 2 // 5
LATEST_TAKEOVER_MS = TAKEOVER_MS * 5 // 4 + TAKEOVER_MS // 8 + 2 * STEP_MS
CUSTOMER = md.ObjectType("Customer", {"id": "long"})
NAMED = md.ObjectType("Customer", {"name": "String"})


def role(world: World, name: str) -> Role:
    return world.coordinators[name].driver.role


def leaders(world: World) -> list[str]:
    """Who has led, term by term."""
    return [event.instance for event in world.events(terms.TermStarted) if isinstance(event, terms.TermStarted)]


def status(world: World, request: RequestId) -> q.Status | None:
    row = world.outcome(request)
    return row.status if row else None


def type_row(world: World, name: str = "Customer") -> md.TypeRow:
    row = md.type_row(world.state, name)
    assert row is not None
    return row


def fenced(*nodes: Member) -> list[bool]:
    return [node.is_fenced for node in nodes]


# Founding and taking over (K1, K5).


def test_of_two_founders_one_founds_the_log() -> None:
    """K1: both append LogStarted; the first wins, the other's is foreign, and both go on with one log."""
    world = World()
    world.log.reachable = False
    world.start("c1")
    world.start("c2")
    world.log.reachable = True
    world.settle()
    assert len(world.events(terms.LogStarted)) == 1
    assert sorted(each.driver.role.value for each in world.coordinators.values()) == ["following", "leading"]
    assert len({each.driver.core.confirmed.log_id for each in world.coordinators.values()}) == 1


def test_a_stand_by_takes_over_after_silence_and_not_before() -> None:
    """K5: fence x 0.4, and up to a quarter more, since the last record of the term that counted."""
    world = World(["c1", "c2"])
    world.kill("c1")
    world.run(TAKEOVER_MS - STEP_MS)
    assert role(world, "c2") is Role.FOLLOWING
    world.run(LATEST_TAKEOVER_MS - TAKEOVER_MS + STEP_MS)
    assert role(world, "c2") is Role.LEADING


def test_the_time_of_a_take_over_can_be_chosen() -> None:
    """K5: `takeover_ms` stands for fence x 0.4."""
    world = World(["c1"])
    world.start("c2", takeover_ms=100)
    world.kill("c1")
    world.run(160)
    assert role(world, "c2") is Role.LEADING


def test_a_leader_that_has_nothing_to_say_is_not_silent() -> None:
    """K5: it writes at least every fence / 4, so a stand-by waits for ever."""
    world = World(["c1", "c2"])
    world.run(10 * TERMS.fence_ms)
    assert leaders(world) == ["c1"]


def test_stand_bys_wait_for_different_times() -> None:
    """K5: the jitter parts them, so that they do not claim at once."""
    times = set()
    for name in ("c2", "c3", "c4", "c5", "c6"):
        world = World(["c1", name])
        world.kill("c1")
        start_ns = world.clock.monotonic_ns()
        while role(world, name) is not Role.LEADING:
            world.run(STEP_MS)
        times.add((world.clock.monotonic_ns() - start_ns) // 1_000_000)
    assert len(times) >= 3
    assert min(times) >= TAKEOVER_MS
    assert max(times) <= LATEST_TAKEOVER_MS


def claims_of(world: World, name: str) -> int:
    stamps = [decode_stamp(entry.stamp or b"") for entry in world.log.entries(Topic.DECISIONS)]
    return sum(stamp.cause == f"claimed by {name}" for stamp in stamps)


def test_of_several_stand_bys_one_leads() -> None:
    """K5: the others see its term and wait on."""
    world = World(["c1", "c2", "c3", "c4"])
    world.kill("c1")
    world.run(LATEST_TAKEOVER_MS)
    assert [each.driver.role for each in world.coordinators.values()].count(Role.LEADING) == 1
    assert sum(claims_of(world, name) for name in world.coordinators) == 1


def test_a_stand_by_that_is_still_reading_claims_nothing() -> None:
    """K5: on its way through an old log it meets terms that have ended; only at the end does that matter."""
    world = World(["c1", "c2"])
    world.leader().driver.retire()
    world.settle()
    newcomer = Coordinator(world, "c3", None)
    newcomer.reader.batch_max = 1
    while not newcomer.reader.at_end(Topic.DECISIONS):
        newcomer.step()
    assert newcomer.driver.role is Role.FOLLOWING
    assert claims_of(world, "c3") == 0


def test_two_that_claim_the_same_term_are_no_harm() -> None:
    """K5: one of them reads its own record first, the other one follows on."""
    world = World(["c1", "c2", "c3"])
    world.process("c1").paused = True
    for name in ("c2", "c3"):
        world.coordinators[name].driver.core.claim()
    world.settle()
    assert sorted([role(world, "c2").value, role(world, "c3").value]) == ["following", "leading"]
    assert world.ignored == [Ignored.REPEAT]


def test_silence_counts_only_for_a_stand_by_that_reads_to_the_end() -> None:
    """K5: one that lags does not know whether the leader is silent."""
    world = World(["c1", "c2"])
    world.coordinators["c2"].reader.batch_max = 0
    world.run(3 * TERMS.fence_ms)
    assert leaders(world) == ["c1"]
    world.coordinators["c2"].reader.batch_max = 1_000
    world.run(TERMS.fence_ms)
    assert leaders(world) == ["c1"]


def test_a_stand_by_whose_own_connection_is_gone_calls_nobody_silent() -> None:
    """K5: a consumer without a connection goes on to say that it is at the end of what it has read. Only the log itself
    can say that it holds no more."""

    def says_so_still(topic: Topic) -> bool:
        return True

    world = World(["c1", "c2"])
    reader = world.coordinators["c2"].reader
    reader.batch_max = 0
    reader.hears = reader.at_end  # type: ignore[method-assign]  # which knows the log's end, as the log does
    reader.at_end = says_so_still  # type: ignore[method-assign]
    world.run(3 * TERMS.fence_ms)
    assert leaders(world) == ["c1"]
    reader.batch_max = 1_000
    world.run(TERMS.fence_ms)
    assert leaders(world) == ["c1"]


def test_an_outage_of_the_broker_deposes_nobody_and_removes_nobody() -> None:
    """K5, LE30: all are silent alike; nodes stop serving when their lease ends, and go on when the log is back."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.run(1_000)
    world.log.reachable = False
    world.run(TERMS.fence_ms + 100)
    assert fenced(*world.nodes.values()) == [True, True]
    world.run(3 * PROCEED_MS)
    world.log.reachable = True
    world.run(1_000)
    assert leaders(world) == ["c1"]
    assert world.events(m.NodeLeft) == []
    assert fenced(*world.nodes.values()) == [False, False]


def test_who_cannot_hear_says_so_once_until_he_hears_again(caplog: pytest.LogCaptureFixture) -> None:
    """LE27, K5: a leader that puts nobody out and a stand-by that follows nobody look well."""
    world = World(["c1", "c2"], ["n1"])
    world.run(2 * TERMS.fence_ms)
    both = [world.coordinators[name].driver for name in ("c1", "c2")]
    assert [each.is_deaf for each in both] == [False, False]
    world.log.reachable = False
    world.run(3 * TERMS.fence_ms)
    assert [each.is_deaf for each in both] == [True, True]
    told = [record.getMessage() for record in caplog.records]
    assert sum("nobody's silence counts until it does" in each for each in told) == 1
    assert sum("nobody is followed until it does" in each for each in told) == 1
    world.log.reachable = True
    world.run(TERMS.fence_ms)
    assert [each.is_deaf for each in both] == [False, False]


def test_a_leader_that_was_stopped_hears_again_before_it_calls_anybody_silent() -> None:
    """LE27: silence must be heard to count. It was the leader that slept, and nobody stood by."""
    world = World(["c1"], ["n1"])
    world.process("n1").paused = True
    world.run(1_000)
    world.process("c1").paused = True
    world.run(3 * PROCEED_MS)
    world.process("c1").paused = False
    world.run(PROCEED_MS - 100)
    assert world.events(m.NodeLeft) == []
    world.run(200)
    assert len(world.events(m.NodeLeft)) == 1


def test_a_leader_that_does_not_get_to_the_heartbeats_removes_nobody() -> None:
    """LE27: reading its own decisions back is no proof of having heard the nodes."""
    world = World(["c1"], ["n1"])
    world.run(1_000)
    world.leader().reader.batch_max = 1
    for _ in range(2 * PROCEED_MS // STEP_MS):
        world.log.put(Topic.DECISIONS, "demo", b"noise that is read first")
        world.run(STEP_MS)
    assert world.events(m.NodeLeft) == []


def test_a_leader_presumes_nobody_fenced_while_it_hears_nobody() -> None:
    """LE27: a wait may be over meanwhile, and counts once it hears again. Read back and waited for is enough to be
    safe; but who may hear an answer that is on its way has no reason to presume."""
    world = World(["c1"], ["n1"])
    world.run(1_000)
    driver, reader = world.leader().driver, world.leader().reader
    hears = reader.hears
    reader.hears = lambda topic: topic is not Topic.HEARTBEATS and hears(topic)  # type: ignore[method-assign]  # goes deaf
    while not driver.is_deaf:
        world.run(STEP_MS)
    deaf_from, before = driver.core.confirmed.position, driver.core.agenda.waited_through
    world.run(2 * PROCEED_MS)
    assert driver.core.agenda.waited_through == before < deaf_from
    reader.hears = hears  # type: ignore[method-assign]  # as it was
    world.run(TERMS.fence_ms)
    assert driver.core.agenda.waited_through > deaf_from


class Deaf:
    """A reader that `maps` does not reach until `hears_maps`."""

    def __init__(self, world: World) -> None:
        self.hears_maps = False
        self._held: list[Entry] = []
        self._poll, self._hears = world.leader().reader.poll, world.leader().reader.hears
        world.leader().reader.poll = self.poll  # type: ignore[method-assign]
        world.leader().reader.hears = self.hears  # type: ignore[method-assign]

    def poll(self, timeout_s: float) -> list[Entry]:
        found = [*self._held, *self._poll(timeout_s)]
        self._held = [] if self.hears_maps else [each for each in found if each.topic is Topic.MAPS]
        return [each for each in found if self.hears_maps or each.topic is not Topic.MAPS]

    def hears(self, topic: Topic) -> bool:
        return self._hears(topic) and (self.hears_maps or topic is not Topic.MAPS)


def completed(world: World) -> list[x.ExchangeCompleted]:
    return [each for each in world.events(x.ExchangeCompleted) if isinstance(each, x.ExchangeCompleted)]


def test_a_leader_that_cannot_read_maps_calls_nobody_stuck() -> None:
    """EX32: a missing right to read, a missing topic: no silence of the nodes. The exchange ends as it always does,
    and what is read at last is an answer."""
    patience = Patience(warn_ms=2_000, evict_ms=15_000)
    world = World(["c1"], ["n1", "n2"], patience=patience)
    deaf = Deaf(world)
    world.create_group("n1", GroupDefinition("orders", 4, 1))
    world.run(2 * patience.evict_ms)
    assert world.events(m.LeaseStopped) == []
    assert [each.unheard for each in completed(world)] == [("n1", "n2")]
    deaf.hears_maps = True
    world.run(patience.evict_ms)
    assert world.events(m.LeaseStopped) == []
    assert completed(world)[-1].unheard == ()


def test_a_new_leader_waits_from_its_own_read_back() -> None:
    """K5, LE17: what its predecessor had waited does not count; nobody is presumed fenced before proceed_ms."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.process("n2").paused = True
    request = world.propose("n1", CUSTOMER)
    world.run(PROCEED_MS - 500)
    world.kill("c1")
    world.run(LATEST_TAKEOVER_MS)
    assert role(world, "c2") is Role.LEADING
    world.run(PROCEED_MS - LATEST_TAKEOVER_MS + TAKEOVER_MS - 100)
    assert type_row(world).accepted_version == 0
    world.run(LATEST_TAKEOVER_MS)
    assert type_row(world).accepted_version == 1
    assert status(world, request) is q.Status.GRANTED


def test_a_planned_hand_over_needs_no_silence() -> None:
    """TermEnded lets a stand-by act at once, without any time passing; the one that ended it is out."""
    world = World(["c1", "c2"], ["n1"])
    world.leader().driver.retire()
    world.settle()
    assert leaders(world) == ["c1", "c2"]
    assert world.coordinators["c1"].driver.role in (Role.RETIRED, Role.FOLLOWING)


def test_a_loop_that_is_told_to_stop_hands_over() -> None:
    """`run` steps until it is told to stop, then retires in order."""
    world = World(["c1", "c2"])
    steps = iter([False, False, True])
    world.coordinators["c1"].driver.run(lambda: next(steps))
    world.kill("c1")
    world.settle()
    assert world.events(terms.TermEnded) == [terms.TermEnded(1)]
    assert role(world, "c2") is Role.LEADING


def test_a_planned_hand_over_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The term's end is appended before the next wait for records; K26's proof is asked for again after moments."""
    world = World(["c1", "c2"])
    one, other = world.coordinators["c1"], world.coordinators["c2"]
    poll, ended, waits, unproven = one.reader.poll, list[int](), list[float](), [False, False]

    def look(timeout_s: float) -> list[Entry]:
        ended.append(len(world.events(terms.TermEnded)))
        return poll(timeout_s)

    def wait(timeout_s: float) -> list[Entry]:
        waits.append(timeout_s)
        return InMemoryReader.poll(other.reader, 0)

    monkeypatch.setattr(one.reader, "poll", look)
    one.driver.retire()
    assert ended[0] == 1
    monkeypatch.setattr(other.reader, "poll", wait)
    monkeypatch.setattr(other.reader, "proven", lambda: unproven.pop() if unproven else True)
    steps = iter(range(20))
    while other.driver.role is not Role.LEADING and next(steps) < 19:
        other.driver.step(0.05)
    assert (other.driver.role, unproven) == (Role.LEADING, [])
    assert waits.count(0.05) == len(waits) - 2
    assert sorted(waits)[:2] == [PAUSE_S, PAUSE_S]


# What deposes a leader (K6).


def test_a_zombie_that_goes_on_writes_into_a_term_that_is_over() -> None:
    """K3, K6: its late sends are ignored by all, it starts again from the log, and each request has one outcome."""
    world = World(["c1", "c2"], ["n1"])
    zombie = world.coordinators["c1"]
    zombie.writer.prompt = False
    request = world.propose("n1", CUSTOMER)
    zombie.step()
    zombie.paused = True
    assert zombie.writer.in_flight
    world.run(LATEST_TAKEOVER_MS)
    assert status(world, request) is q.Status.GRANTED
    zombie.writer.land()
    zombie.writer.prompt = True
    zombie.paused = False
    world.run(100)
    assert Ignored.OLD_TERM in world.ignored
    assert role(world, "c1") is Role.FOLLOWING
    assert len(world.events(md.MetadataUpdateProposed)) == 1


def test_a_failed_append_deposes_the_leader_which_starts_again() -> None:
    """K6: what it had decided ahead is dropped, read again from the inputs and decided anew under the next term."""
    world = World(["c1"], ["n1"])
    leader = world.coordinators["c1"]
    leader.writer.prompt = False
    request = world.propose("n1", CUSTOMER)
    leader.step()
    leader.writer.fail(1)
    leader.writer.prompt = True
    world.run(LATEST_TAKEOVER_MS + 100)
    assert leaders(world) == ["c1", "c1"]
    assert status(world, request) is q.Status.GRANTED
    assert type_row(world).accepted_version == 1


def test_late_failures_of_a_former_self_depose_nobody() -> None:
    """K6: a delivery fails minutes after the core that asked for it was deposed; the present one is not concerned."""
    world = World(["c1"], ["n1"])
    leader = world.coordinators["c1"]
    leader.writer.prompt = False
    world.propose("n1", CUSTOMER)
    leader.step()
    held = leader.writer.in_flight
    assert held
    leader.driver.core.depose()
    leader.step()
    core = leader.driver.core
    leader.writer.fail(held)
    leader.writer.prompt = True
    leader.step()
    assert leader.driver.core is core
    world.run(LATEST_TAKEOVER_MS + 100)
    assert role(world, "c1") is Role.LEADING
    assert leaders(world) == ["c1", "c1"]


def test_a_gap_in_its_own_records_deposes_the_leader() -> None:
    """K3, K6: the gap closed its term for everybody, itself included."""
    world = World(["c1"], ["n1"])
    leader = world.coordinators["c1"]
    leader.writer.prompt = False
    for definition in (CUSTOMER, NAMED):
        world.propose("n1", definition)
    leader.step()
    leader.writer.fail(1)
    leader.writer.land()
    leader.writer.prompt = True
    world.run(LATEST_TAKEOVER_MS + 100)
    assert Ignored.GAP in world.ignored
    assert leaders(world) == ["c1", "c1"]
    assert dict(type_row(world).pending.fields) == {"id": "long", "name": "String"}
    assert type_row(world).pending_version == 2


# Requests and dead letters (K7, K15, K24).


def test_k7_each_request_has_one_outcome_whoever_reads_it_how_often() -> None:
    """K7: sent three times, decided by one leader, read again by the next."""
    world = World(["c1", "c2"], ["n1"])
    request = world.propose("n1", CUSTOMER)
    entry = world.log.entries(Topic.REQUESTS)[-1]
    for _ in range(2):
        world.log.put(Topic.REQUESTS, "n1", entry.value)
    world.settle()
    world.kill("c1")
    world.log.put(Topic.REQUESTS, "n1", entry.value)
    world.run(LATEST_TAKEOVER_MS)
    assert [decode_stamp(each.stamp or b"").cause for each in proposals(world)] == [f"requests@1 {request}"]
    assert status(world, request) is q.Status.GRANTED


def proposals(world: World) -> list[Entry]:
    return [
        entry
        for entry in world.log.entries(Topic.DECISIONS)
        if isinstance(CODEC.decode(entry.value), md.MetadataUpdateProposed)
    ]


def test_input_that_cannot_be_decoded_goes_to_dead_and_work_goes_on() -> None:
    """Bytes untouched, with Kafka's own names for topic, partition, offset and reason."""
    world = World(["c1"], ["n1"])
    world.log.put(Topic.REQUESTS, "who", b"\x00garbage", [("from", b"nowhere")])
    world.log.put(Topic.HEARTBEATS, "n1", b"more of it")
    request = world.propose("n1", CUSTOMER)
    world.settle()
    heartbeat, asked = sorted(world.log.entries(Topic.DEAD), key=lambda entry: entry.value, reverse=True)
    headers = {name: value.decode() for name, value in asked.headers}
    assert (asked.key, asked.value) == ("who", b"\x00garbage")
    assert headers.pop("__dlq.errors.message").endswith("are no record this version knows.")
    assert headers == {
        "from": "nowhere",
        "__dlq.errors.topic": "requests",
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": "1",
        "__dlq.errors.exception": "Undecodable",
    }
    assert (heartbeat.key, heartbeat.value) == ("n1", b"more of it")
    assert world.leader().driver.dead_count == 2
    assert status(world, request) is q.Status.GRANTED


def test_no_decision_says_that_input_was_read_before_its_letter_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """K24: a broker may take what goes to one topic before what went to another, and the sender may die in between."""
    world = World(["c1"], ["n1"])
    writer = world.leader().writer
    append, delivered = writer.append, list[int]()

    def note(
        topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is Topic.DECISIONS:
            delivered.append(len(world.log.entries(Topic.DEAD)))
        writer.prompt = topic is not Topic.DEAD
        append(topic, key, value, headers, on_delivery)

    def flush(_: float) -> int:
        writer.land()
        return 0

    monkeypatch.setattr(writer, "append", note)
    monkeypatch.setattr(writer, "flush", flush)
    world.log.put(Topic.REQUESTS, "who", b"\x00garbage")
    world.propose("n1", CUSTOMER)
    world.settle()
    assert delivered
    assert set(delivered) == {1}


def test_heartbeats_do_not_wait_behind_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """K15: while too much of its own is unread requests are parked, in their order; leases are renewed all the same."""
    world = World(["c1"], ["n1"])
    monkeypatch.setattr(driver, "UNREAD_MAX", 1)
    requests = [world.propose("n1", md.ObjectType(f"T{number}", {"id": "long"})) for number in range(5)]
    world.nodes["n1"].session.beat()
    leader = world.coordinators["c1"]
    leader.step()
    assert leader.driver.core.reports.hearing[world.nodes["n1"].session.core.node].sequence == 2
    assert [status(world, each) for each in requests].count(q.Status.GRANTED) == 1
    world.settle()
    outcomes = [world.outcome(each) for each in requests]
    positions = [row.position for row in outcomes if row]
    assert len(positions) == 5
    assert positions == sorted(positions)


def test_a_batch_of_requests_that_take_long_is_answered_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """K15: big proposals must not silence the leader; what is left over comes first at the next step."""
    world = World(["c1"], ["n1"])
    ask = Core.ask

    def slowly(core: Core, entry: Entry) -> None:
        world.clock.advance(driver.ANSWER_MS_MAX * 0.6)
        ask(core, entry)

    monkeypatch.setattr(Core, "ask", slowly)
    requests = [world.propose("n1", md.ObjectType(f"T{number}", {"id": "long"})) for number in range(5)]
    leader = world.coordinators["c1"]
    answered = []
    for _ in range(3):
        leader.step()
        answered.append([status(world, each) for each in requests].count(q.Status.GRANTED))
    assert answered == [2, 4, 5]


# A log that cannot be followed (K8, K9).


def test_a_poisoned_log_stops_the_coordinator() -> None:
    """K8: with position and reason; it neither skips the record nor claims another term."""
    world = World(["c1", "c2"])
    world.kill("c1")
    core = world.coordinators["c2"].driver.core
    header = core.confirmed
    stamp = decode_stamp(world.log.entries(Topic.DECISIONS)[-1].stamp or b"")
    assert header.log_id is not None
    poison = encode_stamp(
        type(stamp)(header.log_id, header.term, header.next_sequence, 0, 1, header.chain, 0, stamp.inputs)
    )
    world.log.put(Topic.DECISIONS, "demo", b"poison", [(HEADER_NAME, poison)])
    with pytest.raises(Poisoned, match="no single-object marker"):
        world.coordinators["c2"].step()


def test_a_log_cut_short_stops_the_coordinator() -> None:
    """K9: its own position is not in the log any more."""
    world = World(["c1"])
    world.log.truncate(Topic.DECISIONS, 2)
    with pytest.raises(LogDiverged):
        world.run(STEP_MS)


def put_back_a_copy(world: World, stand_by: str, first: int) -> None:
    """An older copy of the log stands there, grown past the stand-by's place. Its leader has the term that the stand-by
    knows; `first` is the sequence of the first record behind that place, counted from the one the stand-by expects."""
    header = world.coordinators[stand_by].driver.core.confirmed
    assert header.log_id is not None
    length = len(world.log.entries(Topic.DECISIONS))
    world.log.truncate(Topic.DECISIONS, length - 2)
    for sequence in range(header.next_sequence + first - 2, header.next_sequence + first + 1):
        stamp = Stamp(header.log_id, header.term, sequence, 0, 1, bytes(16), 0)
        world.log.put(Topic.DECISIONS, "demo", b"of the copy", [(HEADER_NAME, encode_stamp(stamp))])


@pytest.mark.parametrize(("first", "why"), [(3, Ignored.GAP), (-2, Ignored.REPEAT)])
def test_nobody_claims_a_term_in_a_copy_of_the_log(first: int, why: Ignored) -> None:
    """K26: all of the copy is ignored, so the stand-by believes the term over, or its leader silent. To lead by
    what it has folded of the lost log would end every reader of the copy, for good."""
    world = World(["c1", "c2"])
    world.run(4 * TERMS.fence_ms)
    world.kill("c1")
    put_back_a_copy(world, "c2", first)
    length = len(world.log.entries(Topic.DECISIONS))
    with pytest.raises(LogDiverged, match="holds another record"):
        world.run(2 * LATEST_TAKEOVER_MS)
    assert world.coordinators["c2"].driver.ignored[why]
    assert len(world.log.entries(Topic.DECISIONS)) == length


def swapped_under_its_leader(world: World) -> int:
    """A leader of an older copy of the log, cut off while the newer one comes back; the number of its records."""
    world.run(2 * TERMS.fence_ms)
    older = world.log.copy()
    world.run(4 * TERMS.fence_ms)
    newer = world.log.copy()
    world.kill("c1")
    world.log.put_back(older)
    world.start("c2")
    world.run(2 * LATEST_TAKEOVER_MS)
    assert role(world, "c2") is Role.LEADING
    world.log.reachable = False
    world.coordinators["c2"].writer.interrupt()
    world.log.put_back(newer)
    return len(newer[Topic.DECISIONS, 0])


def test_a_leader_writes_nothing_into_another_copy_of_the_log() -> None:
    """K26: what it has decided continues a log that is gone. In the one that came back it would be a record of a term
    without beginning, at which every reader ends, now and whenever it is read."""
    world = World(["c1"], ["n1"])
    length = swapped_under_its_leader(world)
    world.run(TERMS.fence_ms)
    world.log.reachable = True
    with pytest.raises(LogDiverged, match="holds another record"):
        world.run(TERMS.fence_ms)
    assert len(world.log.entries(Topic.DECISIONS)) == length
    world.kill("c2")
    world.start("c3")
    world.run(2 * LATEST_TAKEOVER_MS)
    assert role(world, "c3") is Role.LEADING


def test_a_leader_goes_on_in_the_log_that_it_finds_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """K6: what it has decided meanwhile is appended in order once the log is proven to be the same; nobody follows."""
    world = World(["c1"], ["n1"])
    leader = world.coordinators["c1"]
    world.run(TERMS.fence_ms)
    leader.writer.interrupt()
    with monkeypatch.context() as unanswered:
        unanswered.setattr(leader.reader, "proven", lambda: False)
        length = len(world.log.entries(Topic.DECISIONS))
        request = world.propose("n1", CUSTOMER)
        world.run(10 * STEP_MS)
        assert (len(world.log.entries(Topic.DECISIONS)), status(world, request)) == (length, None)
    world.run(10 * STEP_MS)
    assert status(world, request) is q.Status.GRANTED
    assert leaders(world) == ["c1"]
