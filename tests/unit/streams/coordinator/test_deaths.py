"""Certificates as a coordinator hears them: what they end, what is kept of them, who leads after a leader died."""

from collections.abc import Iterable

import msgspec
import pytest
from tests.unit.scenarios.world import PROCEED_MS, TERMS, Coordinator, World
from tests.unit.streams.coordinator.desk import Desk
from tests.unit.streams.coordinator.test_driver import leaders
from tests.unit.streams.rules.cluster import secret

from topolog.events import membership as m
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asking import digest_of
from topolog.events.codec import CODEC
from topolog.events.ids import Incarnation, NodeId, Offset
from topolog.events.leases import LeaveReason, NodeRow
from topolog.events.log import Entry
from topolog.events.stamp import HEADER_NAME, InputOffset, decode_stamp
from topolog.events.state import State
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.deaths import DEAD_LIVES_KEPT
from topolog.streams.coordinator.obituary import CERTIFICATES_KEPT, HELD_MS, Obituary

N1 = NodeId("n1")
TAKEOVER_MS = TERMS.fence_ms * 2 // 5


def certificate(life: int, node: str = "n1") -> m.NodeDied:
    return m.NodeDied(NodeId(node), Incarnation(life), secret(life))


def put(desk: Desk, *signs: m.Heartbeat | m.NodeDied, at_ms: int = 2_000) -> list[Entry]:
    """These come to stand on the heartbeats topic, in one partition."""
    entries = [desk.log.put(Topic.HEARTBEATS, "n1", CODEC.encode(sign)) for sign in signs]
    return [msgspec.structs.replace(entry, appended_at_ms=at_ms) for entry in entries]


def hear(desk: Desk, entries: Iterable[Entry]) -> list[object]:
    """What the leader decides when it has read these in one go."""
    for entry in entries:
        desk.core.hear(entry)
    desk.core.settle()
    return list(desk.decided())


def successor_of(desk: Desk) -> Desk:
    """Another coordinator that has come to lead by what the log says."""
    successor = Desk(desk.log, "c2", life=2)
    successor.sequence = desk.sequence
    successor.follow()
    successor.core.claim()
    successor.land()
    assert successor.role() is Role.LEADING
    return successor


def resume(successor: Desk) -> list[object]:
    """What a new leader decides from the heartbeats that are not yet read."""
    decided: list[object] = []
    for (topic, number), at in successor.core.resume_at().items():
        if topic is Topic.HEARTBEATS:
            decided = hear(successor, successor.log.entries(topic, number)[at or 0 :])
    return decided


# Nodes.


def test_a_certificate_is_answered_by_its_consequence_at_once() -> None:
    """LE26: NodeLeft follows in the step in which the certificate was read, with the certificate as its cause."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    entries = put(desk, certificate(1))
    (left,) = hear(desk, entries)
    assert isinstance(left, m.NodeLeft)
    assert decode_stamp(desk.core.outbox[-1].stamp).cause == f"heartbeats/{entries[0].partition}@0 n1"


FORGED = m.NodeDied(N1, Incarnation(1), b"what a liar shows")


def test_a_certificate_without_the_secret_ends_nothing_and_is_a_dead_letter() -> None:
    """LE34: whoever may write heartbeats declares nobody dead; the member is renewed as before."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    assert hear(desk, put(desk, FORGED)) == []
    (dead,) = desk.core.dead
    assert dead.reason == "a NodeDied that ends a life and does not show its secret"
    (renewed,) = hear(desk, put(desk, desk.beat(1)))
    assert isinstance(renewed, m.LeasesRenewed)


def test_a_release_without_the_secret_ends_nothing_and_is_a_dead_letter() -> None:
    """LE34: nor does its number count, so the heartbeats that the node sends go on being heard."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    forged = msgspec.structs.replace(desk.beat(1_000), secret=b"what a liar shows")
    assert hear(desk, put(desk, forged)) == []
    assert [each.reason for each in desk.core.dead] == ["a Heartbeat that ends a life and does not show its secret"]
    (renewed,) = hear(desk, put(desk, desk.beat(1)))
    assert isinstance(renewed, m.LeasesRenewed)
    desk.land()
    (left,) = hear(desk, put(desk, desk.beat(2, release=True)))
    assert isinstance(left, m.NodeLeft)


def test_what_was_said_of_a_life_before_its_join_counts_only_with_its_secret() -> None:
    """LE34: a lie that was there first neither keeps the process out nor hides the truth behind it."""
    desk = Desk.leading()
    hear(desk, put(desk, FORGED))
    desk.join("n1")
    assert isinstance(desk.decided()[0], m.NodeJoined)
    late = Desk.leading()
    hear(late, put(late, FORGED, certificate(1)))
    late.join("n1")
    (refused,) = late.decided()
    assert isinstance(refused, q.RequestRefused)
    assert refused.code == "PROCESS_DIED"


def test_nothing_that_the_dead_have_sent_renews_them() -> None:
    """Late sends stand before and behind the certificate; read in one go, none of them is echoed."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    decided = hear(desk, put(desk, desk.beat(1, fenced=True), certificate(1), desk.beat(2, fenced=True), desk.beat(3)))
    assert [type(each) for each in decided] == [m.NodeLeft]


def test_a_renewal_in_flight_stands_before_the_leaving_it_does_not_hinder() -> None:
    """LE26: the log's order is kept, and the NodeLeft names the renewal that was decided ahead of it."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    hear(desk, put(desk, desk.beat(5, fenced=True)))
    renewed, left = hear(desk, put(desk, certificate(1)))
    assert isinstance(renewed, m.LeasesRenewed)
    assert isinstance(left, m.NodeLeft)
    assert left.last_sequence == 5


def test_a_certificate_that_is_read_before_the_join_refuses_it() -> None:
    """A service killed while it joined leaves no member behind; its request has an outcome."""
    desk = Desk.leading()
    assert hear(desk, put(desk, certificate(1))) == []
    request = desk.join("n1")
    outcome = desk.outcome(request)
    assert outcome is not None
    assert (outcome.status, outcome.code) == (q.Status.REFUSED, "PROCESS_DIED")
    assert desk.core.state.get(NodeRow, "n1") is None


def test_the_next_leader_hears_a_certificate_that_nothing_has_followed_from() -> None:
    """LE35: inputs do not count as read past it, whatever else is decided meanwhile."""
    desk = Desk.leading()
    desk.join("n2")
    hear(desk, put(desk, certificate(1), desk.beat(1, node="n2", fenced=True)))
    desk.core.renew()
    desk.land()
    successor = successor_of(desk)
    resume(successor)
    request = successor.join("n1")
    outcome = successor.outcome(request)
    assert outcome is not None
    assert outcome.code == "PROCESS_DIED"


def test_what_counts_as_read_before_a_certificate_is_known_by_its_bytes() -> None:
    """K4: a topic that is made anew is not taken for the one that was, whatever trickle of certificates is held."""
    desk = Desk.leading()
    desk.join("n2")
    (beat,) = put(desk, desk.beat(1, node="n2", fenced=True))
    hear(desk, [beat, *put(desk, certificate(1), desk.beat(2, node="n2", fenced=True))])
    desk.core.renew()
    inputs = decode_stamp(desk.core.outbox[-1].stamp).inputs
    assert InputOffset(Topic.HEARTBEATS.code, beat.partition, Offset(1), digest_of(beat.value)) in inputs


def test_a_certificate_that_has_had_its_effect_is_not_read_again() -> None:
    """Only what is undecided is held back: the next leader begins behind it."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    entries = put(desk, certificate(1))
    hear(desk, entries)
    desk.core.renew()
    desk.land()
    successor = successor_of(desk)
    assert successor.core.resume_at()[Topic.HEARTBEATS, entries[0].partition] == 1


def test_a_certificate_of_a_process_that_never_joins_is_not_held_for_ever() -> None:
    """After HELD_MS of the log's own time the inputs count as read, and the certificate is still known."""
    desk = Desk.leading()
    hear(desk, put(desk, certificate(1), at_ms=2_000))
    entries = put(desk, desk.beat(1, node="n2"), at_ms=2_000 + HELD_MS + 1)
    hear(desk, entries)
    desk.core.renew()
    desk.land()
    assert desk.core.resume_at()[Topic.HEARTBEATS, entries[0].partition] == 2
    desk.join("n1")
    assert desk.core.state.get(NodeRow, "n1") is None


def test_the_clock_of_another_partition_ends_no_holding() -> None:
    """Its broker's clock may be ahead: the certificate is read again by the next leader all the same."""
    desk = Desk.leading()
    (certified,) = put(desk, certificate(1), at_ms=2_000)
    hear(desk, [certified])
    (ahead,) = put(desk, desk.beat(1, node="n2"), at_ms=2_000 + 10 * HELD_MS)
    hear(desk, [msgspec.structs.replace(ahead, partition=(certified.partition + 1) % 4, offset=Offset(0))])
    desk.core.renew()
    desk.land()
    assert desk.core.resume_at()[Topic.HEARTBEATS, certified.partition] is None


def test_what_is_remembered_of_the_dead_is_bounded() -> None:
    """The oldest is forgotten first, and holds nothing back any more."""
    obituary, state = Obituary(), State()
    entries = [Entry(Topic.HEARTBEATS, 0, Offset(at), None, b"", (), 0) for at in range(CERTIFICATES_KEPT + 1)]
    for number, entry in enumerate(entries):
        obituary.pass_over(entry)
        assert obituary.hear(state, certificate(number), entry)
    assert len(obituary.dead) == CERTIFICATES_KEPT
    assert list(obituary.read_through()) == [entries[0]]


def test_a_damaged_certificate_is_a_dead_letter() -> None:
    """K24: undecodable input is buried by the leader; nobody is declared dead by it."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    entry = desk.log.put(Topic.HEARTBEATS, "n1", CODEC.encode(certificate(1))[:-1])
    assert hear(desk, [entry]) == []
    assert len(desk.core.dead) == 1


def test_a_node_killed_and_started_again_is_a_member_without_time_passing() -> None:
    """The certificate of the former life, and the join of the new one, in either order."""
    for certified_first in (True, False):
        world = World(["c1"], ["n1"])
        killed = world.kill("n1")
        if certified_first:
            world.certify(killed)
        world.node("n1")
        if not certified_first:
            world.certify(killed)
        world.settle()
        assert not world.nodes["n1"].is_fenced
        assert [each.reason for each in world.events(m.NodeLeft) if isinstance(each, m.NodeLeft)] == [LeaveReason.DIED]


# Coordinators.


def test_a_stand_by_leads_at_once_when_the_leader_has_died() -> None:
    """K13: without any time passing; a new leader is heard of by the nodes as ever."""
    world = World(["c1", "c2"], ["n1"])
    world.certify(world.kill("c1"))
    world.settle()
    assert leaders(world) == ["c1", "c2"]
    world.run(PROCEED_MS)
    assert not world.nodes["n1"].is_fenced


def test_of_two_stand_bys_one_leads() -> None:
    """Both claim at once; the log takes the first, and the other goes on standing by."""
    world = World(["c1", "c2", "c3"])
    world.certify(world.kill("c1"))
    world.settle()
    assert leaders(world) == ["c1", "c2"]
    assert world.coordinators["c3"].driver.role is Role.FOLLOWING


def test_a_certificate_that_is_read_before_the_term_it_ends_counts() -> None:
    """The TermStarted of a process that has died meanwhile comes late, and is over at once."""
    world = World(["c1", "c2"])
    ghost = world.start("c3")
    world.certify(world.kill("c3"))
    world.settle()
    claim = terms.TermStarted(2, "c3", ghost.driver.life)
    ghost.driver.core.claim()
    (outgoing,) = ghost.driver.core.outbox
    assert CODEC.decode(outgoing.value) == claim
    world.log.put(Topic.DECISIONS, "demo", outgoing.value, [(HEADER_NAME, outgoing.stamp)])
    world.settle()
    assert leaders(world)[:2] == ["c1", "c3"]
    assert len(leaders(world)) == 3


def test_a_certificate_of_a_life_that_no_longer_leads_changes_nothing() -> None:
    """A former leader's, a stand-by's, a stranger's."""
    world = World(["c1", "c2", "c3"])
    former = world.kill("c1")
    world.certify(former)
    world.settle()
    world.certify(former)
    world.certify(world.kill("c3"))
    world.log.put(Topic.HEARTBEATS, "x", CODEC.encode(terms.CoordinatorDied("c2", life=1)))
    world.settle()
    assert leaders(world) == ["c1", "c2"]


def test_a_false_certificate_is_slow_and_never_wrong() -> None:
    """Safety does not rest on it: the living leader is deposed by the log and follows."""
    world = World(["c1", "c2"], ["n1"])
    world.certify(world.leader())
    world.settle()
    assert leaders(world) == ["c1", "c2"]
    assert world.coordinators["c1"].driver.role is Role.FOLLOWING
    assert not world.nodes["n1"].is_fenced


def test_false_certificates_cost_one_change_each() -> None:
    """One for each of two coordinators: both live, and would depose each other for ever, if they remembered that."""
    world = World(["c1", "c2"], ["n1"])
    for expected in (["c1", "c2"], ["c1", "c2", "c1"], ["c1", "c2", "c1", "c2"]):
        world.certify(world.leader())
        world.settle()
        assert leaders(world) == expected
    world.run(2 * PROCEED_MS)
    assert leaders(world) == ["c1", "c2", "c1", "c2"]


def test_a_false_certificate_that_is_read_again_costs_nothing_more() -> None:
    """A certificate of a process that never joined, before it, keeps the place from which heartbeats are read again."""
    world = World(["c1", "c2"], ["n1"])
    world.log.put(Topic.HEARTBEATS, "c1", CODEC.encode(certificate(1, "unknown")))
    for expected in (["c1", "c2"], ["c1", "c2", "c1"]):
        world.log.put(Topic.HEARTBEATS, "c1", CODEC.encode(false_certificate(world.leader())))
        world.settle()
        assert leaders(world) == expected
    world.run(2 * PROCEED_MS)
    assert leaders(world) == ["c1", "c2", "c1"]


def false_certificate(leader: Coordinator) -> terms.CoordinatorDied:
    return terms.CoordinatorDied(leader.name, leader.driver.life)


def test_a_stand_by_that_starts_later_finds_the_certificate() -> None:
    """It reads heartbeats from where the dead leader had read them, so that a lone coordinator restarts at once."""
    world = World(["c1"], ["n1"])
    world.certify(world.kill("c1"))
    world.run(100)
    world.start("c2")
    assert leaders(world) == ["c1", "c2"]


def test_a_new_leader_reads_the_heartbeats_that_it_passed_over_as_a_stand_by() -> None:
    """K4: a stand-by looks for one sort of record only; from its place on, a leader must hear them all."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.process("c1").paused = True
    world.certify(world.kill("n2"))
    world.run(50)
    assert world.events(m.NodeLeft) == []
    world.certify(world.kill("c1"))
    world.settle()
    assert [each.node for each in world.events(m.NodeLeft) if isinstance(each, m.NodeLeft)] == ["n2"]


def test_what_arrives_with_the_start_of_the_own_term_does_not_count_as_read() -> None:
    """K4: the batch that makes a stand-by a leader holds heartbeats behind those that it passed over."""
    world = World(["c1", "c2"], ["n1", "n2"])
    world.process("c1").paused = world.process("n1").paused = True
    dead = world.kill("n2")
    world.certify(dead)
    partition, offset = place_of_newest(world, dead.name)
    stand_by = world.coordinators["c2"]
    stand_by.step()
    stand_by.driver.core.claim()
    stand_by.step()
    world.log.put(Topic.HEARTBEATS, dead.name, CODEC.encode(certificate(1, "unknown")))
    stand_by.step()
    assert stand_by.driver.role is Role.LEADING
    inputs = decode_stamp(world.log.entries(Topic.DECISIONS)[-1].stamp or b"").inputs
    assert all(each.next_offset <= offset for each in inputs if (each.topic, each.partition) == partition)


def place_of_newest(world: World, key: str) -> tuple[tuple[int, int], int]:
    """Topic code and partition of the newest heartbeat under this key, and its offset."""
    number = next(n for n in range(4) if any(each.key == key for each in world.log.entries(Topic.HEARTBEATS, n)))
    return (Topic.HEARTBEATS.code, number), world.log.entries(Topic.HEARTBEATS, number)[-1].offset


def test_a_leader_does_not_bury_the_certificate_of_another() -> None:
    """It is not addressed to it, and no dead letter either."""
    world = World(["c1", "c2"])
    world.certify(world.kill("c2"))
    world.settle()
    assert world.leader().driver.dead_count == 0


def test_one_life_is_kept_however_often_a_process_starts_again() -> None:
    """Driver: a deposed core is replaced, the process is the same, and its certificate names all its terms."""
    world = World(["c1", "c2"])
    life = world.coordinators["c1"].driver.life
    world.coordinators["c1"].driver.core.depose()
    world.settle()
    world.run(2 * TAKEOVER_MS)
    started = [each.life for each in world.events(terms.TermStarted) if isinstance(each, terms.TermStarted)]
    assert world.coordinators["c1"].driver.life == life == started[0]
    row = world.state.get(terms.ClusterRow, "")
    assert row is not None
    assert row.life == started[-1]


def test_dead_lives_are_bounded() -> None:
    """Whoever writes them."""
    world = World(["c1", "c2"])
    for life in range(DEAD_LIVES_KEPT + 10):
        world.log.put(Topic.HEARTBEATS, "x", CODEC.encode(terms.CoordinatorDied("x", life)))
    world.settle()
    assert all(len(each.driver._deaths) == DEAD_LIVES_KEPT for each in world.coordinators.values())


@pytest.mark.parametrize("retires", [True, False])
def test_an_end_in_order_names_no_life(retires: bool) -> None:
    """ClusterRow: 0 when nobody leads, so that no certificate can name it."""
    world = World(["c1"])
    if retires:
        world.leader().driver.retire()
        world.kill("c1")
    row = world.state.get(terms.ClusterRow, "")
    assert row is not None
    assert (row.life == 0) is retires
