"""What a coordinator must not take for its own, must not count as read, and must not name as a cause."""

import msgspec
from tests.unit.scenarios.world import World
from tests.unit.streams.coordinator.desk import Desk

from topolog.events import exchange as x
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events.codec import CODEC
from topolog.events.groups import GroupDefinition
from topolog.events.ids import NodeId
from topolog.events.leases import LeaveReason, members
from topolog.events.partitions import PartitionState
from topolog.events.stamp import decode_stamp
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role


def test_two_coordinators_of_one_name_never_take_each_others_claim_for_their_own() -> None:
    """K5: same name, same millisecond, same header, and still only one of them leads."""
    first = Desk.leading()
    first.core.retire()
    first.land()
    twins = [Desk(first.log, "c2", life=life) for life in (5, 6)]
    for twin in twins:
        twin.follow()
        twin.core.at_ms = 1_700_000_000_000
        twin.core.claim()
    for twin in twins:
        twin.send(twin.take())
    for twin in twins:
        twin.follow()
    assert [twin.role() for twin in twins] == [Role.LEADING, Role.FOLLOWING]


def test_a_release_is_read_again_by_the_next_leader_if_what_followed_was_never_logged() -> None:
    """K4: a set that answers a request does not count heartbeats as read whose consequence is not logged yet."""
    desk = Desk.leading()
    desk.join("n1")
    desk.land()
    desk.hear(desk.beat(1))
    desk.land()
    release = desk.beat(2, release=True)
    desk.core.hear(desk.log.put(Topic.HEARTBEATS, "n1", CODEC.encode(release)))
    desk.ask(desk.update("T", id="long"))
    desk.send(desk.take())
    successor = Desk(desk.log, "c2", life=2)
    successor.follow()
    successor.core.claim()
    successor.land()
    partition = next(p for p in range(4) if desk.log.entries(Topic.HEARTBEATS, p))
    resume_at = successor.core.resume_at()[Topic.HEARTBEATS, partition]
    assert resume_at == 1
    for entry in desk.log.entries(Topic.HEARTBEATS, partition)[resume_at:]:
        successor.core.hear(entry)
    successor.core.settle()
    left = [event for event in successor.decided() if isinstance(event, m.NodeLeft)]
    assert [each.reason for each in left] == [LeaveReason.LEFT]


def test_a_decision_names_what_made_it_due_and_not_what_was_read_last() -> None:
    """K12: n1's leaving is caused by n1's release, though a request of somebody else was read after it."""
    desk = Desk.leading()
    desk.join("n1")
    desk.join("n2")
    desk.land()
    desk.core.hear(desk.log.put(Topic.HEARTBEATS, "n1", CODEC.encode(desk.beat(1, release=True))))
    desk.ask(desk.update("T", id="long"))
    desk.core.settle()
    causes = {
        type(event).__name__: decode_stamp(each.stamp).cause
        for event, each in zip(desk.decided(), desk.core.outbox, strict=True)
    }
    assert causes["MetadataUpdateProposed"].startswith("operations@")
    assert causes["NodeLeft"].startswith("heartbeats/")
    assert causes["NodeLeft"].endswith(" n1")


def test_a_lapsed_lease_and_an_acceptance_by_waiting_name_their_deadlines() -> None:
    """K12: what no input caused is caused by a deadline."""
    desk = Desk.leading()
    desk.join("n1")
    desk.ask(desk.update("T", id="long"))
    desk.land()
    for key in list(desk.core.agenda.drain()):
        desk.core.pass_deadline(key)
    desk.core.settle()
    events = dict(zip(map(type, desk.decided()), desk.core.outbox, strict=True))
    assert decode_stamp(events[m.NodeLeft].stamp).cause.startswith("deadline lease/n1/")
    assert md.MetadataUpdateAccepted in events


def test_an_actor_who_says_nothing_is_known_by_the_requester() -> None:
    """K12: a decision is never shown as the coordinator's own wish when somebody asked for it."""
    desk = Desk.leading()
    desk.ask(msgspec.structs.replace(desk.update("T", id="long"), actor=""))
    assert decode_stamp(desk.core.outbox[-1].stamp).actor == "t"


def test_a_node_with_the_name_of_an_operator_is_not_taken_for_it() -> None:
    """Anybody who may write `requests` joins under any name that is free, and asks in it."""
    desk = Desk.leading()
    assert desk.join("ann").actor == "ann"
    assert decode_stamp(desk.core.outbox[-1].stamp).actor == "node:ann"
    assert NodeId("ann") in {row.node for row in members(desk.core.state)}


def test_what_is_decided_about_partitions_names_its_trigger_its_map_or_its_deadline() -> None:
    """K12: never the heartbeat that happened to be read last."""
    world = World(["c1"], ["n1"])
    world.create_group("n1", GroupDefinition("orders", 16))
    world.settle()
    world.node("n2")
    world.nodes["n2"].finish(PartitionState.MOVING)
    world.settle()
    causes = _causes(world)
    assert causes[x.ExchangeStarted] == ["view 1.1: GROUP_CREATED orders", "view 2.0: JOIN n2"]
    assert [each.split("@")[0] for each in causes[x.FullPartitionMap]] == ["maps/0", "maps/0"]
    assert causes[x.HandOverPrepared] == ["all wanted copies own"]
    assert causes[x.AffinitySwitched][0].startswith("heartbeats/")
    loaded, surplus = causes[x.PartitionStatesChanged][:2]
    assert loaded.startswith("maps/0@")
    assert loaded.endswith(" n2")
    assert surplus == "all wanted copies own"
    world.kill("n1")
    world.run(60_000)
    assert _causes(world)[x.ExchangeStarted][-1].endswith(": LEAVE n1")


def _causes(world: World) -> dict[type, list[str]]:
    found: dict[type, list[str]] = {}
    for entry in world.log.entries(Topic.DECISIONS, 0):
        assert entry.stamp is not None
        found.setdefault(type(CODEC.decode(entry.value)), []).append(decode_stamp(entry.stamp).cause)
    return found
