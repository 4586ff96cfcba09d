"""Where a node's requests go, under which names, and what becomes of those that the broker does not let it write."""

import pytest
from tests.unit.scenarios.world import World

from topolog.events import requests as q
from topolog.events.asked import UNNUMBERED, Request, RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, NotAllowed
from topolog.events.exchange_requests import LossResetRequested
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupCreationRequested
from topolog.events.requesters import AHEAD_MAX
from topolog.events.topics import Topic

G, H = GroupDefinition("G", 4), GroupDefinition("H", 4)

DENIED = NotAllowed("The broker does not let n1 use topic topolog.demo.operations.", hint="Its own.")


def world() -> World:
    return World(["c1"], ["n1"])


def create(world: World, group: GroupDefinition) -> RequestId:
    asked = GroupCreationRequested(UNNUMBERED, world.log_id, "n1", "", group)
    return world.nodes["n1"].session.requests.ask(asked)


def reset(world: World) -> RequestId:
    return world.nodes["n1"].session.requests.ask(LossResetRequested(UNNUMBERED, world.log_id, "n1", "", "G"))


def ids(world: World, topic: Topic) -> list[RequestId]:
    found = (CODEC.decode(entry.value) for entry in world.log.entries(topic))
    return [each.id for each in found if isinstance(each, Request)]


def test_what_is_an_operator_s_goes_to_operations_under_a_requester_of_its_own() -> None:
    """Each topic has an order of its own, so each has its own numbers; the broker says who may write which."""
    cluster = world()
    created, given_up = create(cluster, G), reset(cluster)
    cluster.settle()
    assert ids(cluster, Topic.REQUESTS)[1:] == [created]
    assert ids(cluster, Topic.OPERATIONS) == [given_up]
    assert created.requester.startswith("n1-")
    assert given_up == RequestId(f"{created.requester}.op", 1)
    assert [row and row.status for row in map(cluster.outcome, (created, given_up))] == [
        q.Status.GRANTED,
        q.Status.UNCHANGED,
    ]


def test_what_the_broker_does_not_let_a_node_write_is_an_error_and_is_not_sent_again() -> None:
    """It would be tried for ever, and its caller would wait; the node itself goes on."""
    cluster = world()
    node = cluster.nodes["n1"]
    node.writer.prompt = False
    request = reset(cluster)
    node.writer.fail(error=DENIED)
    node.step()
    node.writer.prompt = True
    cluster.settle()
    with pytest.raises(NotAllowed, match="does not let n1 use topic") as denied:
        node.session.requests.decided(request)
    assert "Ask the API" in denied.value.hint, "who runs a service gives a node no right to operate"
    assert ids(cluster, Topic.OPERATIONS) == []
    assert cluster.outcome(create(cluster, G)) is None
    cluster.settle()
    assert node.session.failure is None


def test_what_each_node_may_write_is_sent_again_though_it_was_denied() -> None:
    """A node that starts right behind `topolog cluster init`: the broker has not heard of its rights yet, and a joining
    that is given up would be waited for in vain."""
    cluster = world()
    node = cluster.nodes["n1"]
    node.writer.prompt = False
    request = create(cluster, G)
    node.writer.fail(error=DENIED)
    node.step()
    node.writer.prompt = True
    cluster.settle()
    assert cluster.outcome(request) is not None


def test_what_is_merely_lost_is_sent_again() -> None:
    cluster = world()
    node = cluster.nodes["n1"]
    node.writer.prompt = False
    request = reset(cluster)
    node.writer.fail()
    node.step()
    node.writer.prompt = True
    cluster.settle()
    assert ids(cluster, Topic.OPERATIONS) == [request]


def test_numbers_that_are_never_sent_stand_in_nobody_s_way() -> None:
    """Coordinators take what is numbered far above the last for somebody else's: a node that has tried in vain for so
    often goes on under another name."""
    cluster = world()
    too_long = "x" * q.REQUEST_BYTES_MAX
    for _ in range(AHEAD_MAX + 10):
        with pytest.raises(BadInput):
            cluster.nodes["n1"].session.requests.ask(
                GroupCreationRequested(UNNUMBERED, cluster.log_id, "n1", too_long, G)
            )
    request = create(cluster, H)
    cluster.settle()
    row = cluster.outcome(request)
    assert row is not None
    assert row.status is q.Status.GRANTED
