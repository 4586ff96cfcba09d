"""What the simulation has found, each as the smallest schedule that showed it."""

import random

import pytest
from tests.unit.scenarios import world as scenarios

from topolog.events import ownership as o
from topolog.events.errors import Refused
from topolog.events.exchange import open_exchange
from topolog.events.exchange_requests import ExchangeRequested
from topolog.events.group_definition import GroupDefinition
from topolog.events.ids import NodeId
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.log import InMemoryLog, InMemoryWriter
from topolog.events.membership import Joiner
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.node.core import Phase
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.node.session import Session
from topolog.streams.rules.exchange import Patience
from topolog.streams.simulation.checks import Checks
from topolog.streams.simulation.faults import Act, Kind
from topolog.streams.simulation.run import Case, replay
from topolog.streams.simulation.world import World

LOCKED = Joiner("n1", 0, NodeKind.SERVER, "", {}, ("fencing",), folder="disk of n1")


class Cluster:
    """One coordinator and whatever nodes a schedule starts, stepped by hand; `log`: one that is there already."""

    def __init__(self, log: InMemoryLog | None = None, seed: int = 1) -> None:
        self.clock = ManualClock()
        self.chance = random.Random(seed)
        self.log = log or InMemoryLog(self.clock.wall_ms)
        self.driver = Driver(
            self.log.reader(),
            self.log.writer(),
            self.clock,
            "demo",
            "c1",
            terms=LeaseTerms(1_000, 10, 200),
            chance=self.chance,
        )
        self.run()

    def node(self, writer: InMemoryWriter | None = None, disk: MemoryDisk | None = None) -> Session:
        writer, chance = writer or self.log.writer(), lambda: self.chance.getrandbits(63)
        key = LOCKED.folder.encode()
        return Session(self.log.reader(), writer, self.clock, LOCKED, chance=chance, disk=disk, key=key)

    def copy(self) -> "Cluster":
        """All topics, record by record; another coordinator leads there."""
        copied = InMemoryLog(self.clock.wall_ms)
        for topic, count in PARTITIONS.items():
            for number in range(count):
                for entry in self.log.entries(topic, number):
                    copied.put(topic, entry.key or "", entry.value, entry.headers)
        return Cluster(copied, seed=2)

    def run(self, *nodes: Session, turns: int = 10) -> None:
        for _ in range(turns):
            self.clock.advance(20)
            self.driver.step(0)
            for node in nodes:
                node.step(0)
                node.beat_if_due()


def test_a_join_that_lands_after_its_process_died_replaces_nobody() -> None:
    """The lock was held when the join was sent; it proves nothing about a process that came later."""
    cluster = Cluster()
    held = cluster.log.writer(prompt=False)
    cluster.run(cluster.node(held))
    assert held.in_flight
    restarted = cluster.node()
    cluster.run(restarted)
    assert restarted.core.lease.is_valid(cluster.clock.boottime_ns())
    held.land()
    cluster.run(restarted)
    row = restarted.core.state.get(NodeRow, "n1")
    assert row is not None
    assert row.incarnation == restarted.core.incarnation
    assert restarted.core.phase is Phase.MEMBER


def test_a_restart_that_holds_the_lock_replaces_its_former_life_at_once() -> None:
    """The lock proves the member that its holder read of dead, so nobody waits for that lease."""
    cluster = Cluster()
    cluster.run(cluster.node())
    restarted = cluster.node()
    cluster.run(restarted)
    assert restarted.core.lease.is_valid(cluster.clock.boottime_ns())


def test_a_leader_that_cannot_read_heartbeats_removes_nobody() -> None:
    """Reading its own decisions back is no proof of having heard the nodes: their silence does not count."""
    world = World(2)
    checks = Checks(world)
    live(world, checks, 1_000)
    leader = next(each for each in world.coordinators if each.driver.role is Role.LEADING)
    world.cut(leader, 3_000, reads=frozenset({Topic.HEARTBEATS}), sends=False, loses=False)
    live(world, checks, 5_000)
    assert checks.left == []
    assert checks.unrest() == ""


def test_a_heartbeat_that_was_copied_with_the_log_is_not_renewed_in_both_histories() -> None:
    """The original renews it, and the node writes under that; the copy, too, has the heartbeat, and must not."""
    cluster, disk = Cluster(), MemoryDisk()
    node = cluster.node(disk=disk)
    cluster.run(node)
    node.beat()
    copy = cluster.copy()
    copy.run(turns=50)
    cluster.clock.advance(300)
    cluster.driver.step(0)
    node.step(0)
    assert disk.past is not None
    assert disk.past.echo.sequence == node.core.sent
    moved = copy.node(disk=disk)
    with pytest.raises(Refused) as refused:
        copy.run(moved, turns=100)
    assert refused.value.code == "AHEAD", "nobody has gone on with the copy"


@pytest.mark.parametrize("folder", ["", "disk of n1"])
def test_the_disk_of_a_life_before_the_last_one_is_no_owners_return(folder: str) -> None:
    """DS2, seed 1950: another process of the node has owned since, and has died; the first one's disk comes back."""
    world = scenarios.World(["c1"])
    first = world.node("n1", folder=folder)
    world.node("n2")
    world.create_group("operator", GroupDefinition("orders", 8, 1))
    world.settle()
    first.paused = True
    world.node("n1", process="twin", folder=folder and "another disk")
    world.run(scenarios.PROCEED_MS + 1_000)
    load(world)
    world.kill("n2")
    world.run(scenarios.PROCEED_MS + 1_000)
    assert len(owned_by(world, "n1")) == 8
    world.kill("twin")
    world.kill("n1")
    back = world.node("n1", folder=folder, disk=True)
    world.run(scenarios.PROCEED_MS + 1_000)
    assert not back.is_fenced
    assert back.service.disk, "its service says that it has whole copies"
    assert owned_by(world, "n1") == []


def test_while_no_coordinator_runs_nothing_is_at_rest() -> None:
    """Seed 13 at a span of 8 s: the faults ended in a power cut, and what only an open exchange was to find again was
    judged as if nothing were to come any more (FOUND_AGAIN)."""
    world = World(2)
    checks = Checks(world)
    live(world, checks, 1_000)
    assert checks.unrest() == ""
    for each in list(world.coordinators):
        world.kill(each, 500)
    assert world.coordinators == []
    assert checks.unrest() == "no coordinator runs"
    live(world, checks, 3_000)
    assert len(world.coordinators) > 1
    assert checks.unrest() == ""


def test_an_owner_that_came_back_behind_the_question_is_found_by_the_next_coordinator() -> None:
    """DS2, K4, seed 13: its joining waits behind an open exchange when the only coordinator dies; till the next one
    leads the partitions stay lost."""
    world = scenarios.World(["c1"], patience=Patience(gather_ms=60_000))
    world.node("n1", folder="disk of n1")
    asked = world.node("n2")
    world.create_group("operator", GroupDefinition("orders", 8, 0))
    world.settle()
    gone = owned_by(world, "n1")
    assert gone
    world.kill("n1")
    world.run(scenarios.PROCEED_MS + 1_000)
    assert owned_by(world, "n1") == []
    asked.wire.is_mute = True
    world.ask(ExchangeRequested(world.operator_id(), world.log_id, "ada", ""))
    world.settle()
    back = world.node("n1", folder="disk of n1", disk=True)
    world.run(500)
    assert not back.is_fenced
    assert open_exchange(world.state) is not None
    world.kill("c1")
    asked.wire.is_mute = False
    world.run(500)
    assert owned_by(world, "n1") == []
    world.start("c2")
    world.run(scenarios.PROCEED_MS)
    assert owned_by(world, "n1") == gone


def load(world: scenarios.World) -> None:
    """Let all be loaded that is to be."""
    for node in world.nodes.values():
        if not node.paused:
            node.finish(PartitionState.MOVING)
    world.run(500)


def owned_by(world: scenarios.World, name: str) -> list[int]:
    """The partitions that the node owns as the log has it."""
    number = o.number_of(world.state, NodeId(name))
    assert number is not None
    rows = [row for _, row in world.state.rows(OwnershipRow)]
    every = [each for row in rows for each in o.ownerships(row, range(row.first, row.first + row.count))]
    return [each.partition for each in every if number in each.owners and not each.is_lost]


def live(world: World, checks: Checks, ms: int) -> None:
    """Let so much true time pass, checking each step."""
    until_ms = world.timeline.now_ms + ms
    while world.timeline.now_ms < until_ms:
        world.step()
        checks.look()


def test_a_reset_whose_exchange_has_missed_somebody_is_known_for_one_by_the_checks() -> None:
    """DS17: the exchange that hears it gives up what is lost, though that one was asked for by nobody. No partition has
    changed in between, and the check had looked only where one had."""
    acts = (
        Act(2_349, Kind.SHARE, 20.0, 3_139_519_090),
        Act(3_017, Kind.WIPE, 20.0, 3_977_841_873),
        Act(4_337, Kind.SLOW, 500.0, 1_840_577_845),
        Act(4_603, Kind.SHARE, 20.0, 491_605_016),
    )
    replay(Case(8_259, 4_894, acts))


def test_a_lease_of_a_new_life_may_end_before_that_of_the_former_one() -> None:
    """LE12: where the fence was made shorter meanwhile; the checks took its renewal for its beginning, and a read that
    ran under it for one across two leases."""
    acts = (
        Act(268, Kind.TERMS, 20.0, 2_188_942_435),
        Act(454, Kind.PROPOSE, 20.0, 4_000_504_426),
        Act(563, Kind.PROPOSE, 20.0, 4_227_122_461),
        Act(573, Kind.CUT, 1_080.952_534_736_440_2, 2_111_785_949),
        Act(980, Kind.FORGE, 20.0, 1_270_996_511),
        Act(1_137, Kind.PROPOSE, 20.0, 689_738_724),
    )
    replay(Case(36_900, 2_573, acts))


def test_while_nothing_is_shared_out_nobody_who_has_answered_late_is_waited_for() -> None:
    """DS17, BA16: the cluster is cold from 6.28 s to 7.81 s, and nothing changes in between. The checks had looked at
    that only where something changed, and took the answer for one that had come 1.5 s before it could count."""
    acts = [
        (152, Kind.COPY, 20.0, 1_346_296_404),
        (534, Kind.REMOVE_NODE, 20.0, 1_205_259_397),
        (745, Kind.REMOVE_TYPE, 20.0, 3_309_198_790),
        (1_384, Kind.REPEAT, 20.0, 2_359_474_841),
        (1_741, Kind.SHARE, 20.0, 3_801_539_330),
        (2_024, Kind.OPERATE, 20.0, 1_651_153_313),
        (2_786, Kind.REPEAT, 20.0, 799_604_468),
        (2_838, Kind.RESTORE, 1734.18906619352, 4_103_665_735),
        (2_864, Kind.OPERATE, 20.0, 3_059_075_970),
        (2_990, Kind.WIPE, 1574.5130704594621, 1_198_208_868),
        (3_053, Kind.RETIRE, 20.0, 3_846_160_658),
        (3_289, Kind.REMOVE_NODE, 20.0, 3_664_205_380),
        (3_310, Kind.MOVE, 1538.5031118384584, 251_491_537),
        (3_716, Kind.REPEAT, 20.0, 1_808_427_288),
        (3_986, Kind.OPERATE, 20.0, 1_499_366_107),
        (4_106, Kind.LEAVE, 20.0, 564_364_211),
        (4_875, Kind.OPERATE, 20.0, 4_085_417_855),
        (4_971, Kind.MOVE, 20.0, 526_006_979),
        (5_402, Kind.TERMS, 20.0, 4_084_233_112),
        (5_496, Kind.MOVE, 20.0, 4_159_601_771),
        (6_117, Kind.MOVE, 485.03086470669376, 1_173_668_272),
        (6_409, Kind.OPERATE, 20.0, 661_432_691),
    ]
    replay(Case(36_591, 7_810, tuple(Act(*each) for each in acts)))
