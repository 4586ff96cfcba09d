"""Where a new leader goes on with its inputs, and that it knows them from others of the same name (K4, K16)."""

import pytest
from tests.unit.scenarios.world import World

from topolog.events import requests as q
from topolog.events.asked import RequestId
from topolog.events.asking import digest_of
from topolog.events.ids import Offset
from topolog.events.log import Entry
from topolog.events.metadata import UpdateRequested
from topolog.events.object_types import ObjectType
from topolog.events.stamp import InputOffset
from topolog.events.topics import Topic
from topolog.streams.coordinator.resuming import Resumption

REQUESTS, MAPS = (Topic.REQUESTS, 0), (Topic.MAPS, 0)


def entries(*values: str, first: int = 0, topic: Topic = Topic.REQUESTS) -> list[Entry]:
    return [Entry(topic, 0, Offset(at), None, value.encode(), (), 0) for at, value in enumerate(values, first)]


def read_through(offset: int, value: str, topic: Topic = Topic.REQUESTS) -> InputOffset:
    return InputOffset(topic.code, 0, Offset(offset), digest_of(value.encode()))


def test_it_goes_on_behind_the_record_that_was_read_last() -> None:
    """That one is read again, and not heard again."""
    resumption = Resumption({REQUESTS: Offset(3)}, [read_through(3, "c")])
    assert resumption.starts == {REQUESTS: 2}
    assert resumption.take(entries("c", "d", first=2)) == entries("d", first=3)
    assert resumption.take(entries("e", first=4)) == entries("e", first=4)


def test_a_topic_with_another_record_in_that_place_is_read_from_its_beginning() -> None:
    """Nothing of it has been read, however long it is; who begins again does not look twice."""
    places, inputs = {REQUESTS: Offset(3)}, [read_through(3, "c")]
    resumption = Resumption(places, inputs)
    assert resumption.take(entries("z", "d", first=2)) is None
    again = Resumption(places, inputs, resumption.remade)
    assert again.starts == {REQUESTS: None}
    assert again.take(entries("x", "y", "z")) == entries("x", "y", "z")


@pytest.mark.parametrize("found", [entries("x", "y"), entries("e", first=4)], ids=["shorter", "kept from later on"])
def test_a_topic_that_lacks_the_record_is_read_as_it_comes(found: list[Entry]) -> None:
    """The log begins with the oldest record that there is: nothing is passed over."""
    resumption = Resumption({REQUESTS: Offset(3)}, [read_through(3, "c")])
    assert resumption.take(found) == found
    assert resumption.take(entries("z", first=5)) == entries("z", first=5)


def test_an_input_that_was_never_read_begins_with_its_oldest_record() -> None:
    resumption = Resumption({REQUESTS: None}, [])
    assert resumption.starts == {REQUESTS: None}
    assert resumption.take(entries("a", "b")) == entries("a", "b")


def test_maps_are_read_again_from_where_the_exchange_began() -> None:
    """K4: from further back than they were read through; there too the last one tells whether they are the same."""
    resumption = Resumption({MAPS: Offset(1)}, [read_through(3, "c", Topic.MAPS)])
    assert resumption.starts == {MAPS: 1}
    assert resumption.take(entries("b", "c", "d", first=1, topic=Topic.MAPS)) is not None
    other = Resumption({MAPS: Offset(1)}, [read_through(3, "c", Topic.MAPS)])
    assert other.take(entries("y", "z", first=1, topic=Topic.MAPS)) is None


def test_an_exchange_that_began_behind_what_is_read_has_begun_in_a_topic_that_is_gone() -> None:
    """Its maps were made anew since: what answers it may stand anywhere in the new topic."""
    assert Resumption({MAPS: Offset(9)}, [read_through(3, "c", Topic.MAPS)]).starts == {MAPS: None}


def update(world: World, name: str, number: int) -> RequestId:
    definition = ObjectType(name, {f"f{number}": "long"})
    return world.ask(UpdateRequested(world.operator_id(), world.log_id, "ada", "", definition, 0))


def test_a_topic_that_ends_before_the_record_is_another_one_too() -> None:
    """What stands in it would wait for the next request, for nothing comes that could tell; of one that is being read
    from its beginning nothing waits."""
    resumption = Resumption({REQUESTS: Offset(3)}, [read_through(3, "c")])
    assert not resumption.misses(lambda _: False)
    assert resumption.misses(lambda topic: topic is Topic.REQUESTS)
    again = Resumption({REQUESTS: Offset(3)}, [read_through(3, "c")], resumption.remade)
    assert again.starts == {REQUESTS: None}
    assert not again.misses(lambda _: True)
    known = Resumption({REQUESTS: Offset(3)}, [read_through(3, "c")])
    assert known.take(entries("c", first=2)) == []
    assert not known.misses(lambda _: True)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_requests_of_a_topic_that_was_made_anew_while_nobody_led_all_have_their_outcome(count: int) -> None:
    """K16, K7: also when it has grown past the place where the former leader was in the one before, or ends there."""
    world = World(["c1"])
    for number in range(3):
        update(world, "Customer", number)
    world.settle()
    world.kill("c1")
    world.log.put_back({**world.log.copy(), (Topic.OPERATIONS, 0): ()})
    asked = [update(world, "Order", number) for number in range(count)]
    world.start("c2")
    world.run(4_000)
    assert [row.status for each in asked if (row := world.outcome(each))] == [q.Status.GRANTED] * count
