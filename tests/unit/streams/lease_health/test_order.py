"""What faust gives out of order, or not at all, is read again, and is not acknowledged before."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from faust.types import TP

from topolog.streams.lease_health.order import InOrder

TOPIC = "heartbeats"
PARTITION = TP(TOPIC, 0)
OTHER = TP("changelog", 0)


class Consumer:
    """A partition with these offsets, of which this place is committed; it says where it was sent to."""

    def __init__(self, *, committed: int | None = None, oldest: int = 0) -> None:
        self.committed = committed
        self.oldest = oldest
        self.sought: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self._read_offset: dict[TP, int | None] = {}

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        return {PARTITION: self.committed, OTHER: None}

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return dict.fromkeys(partitions, self.oldest)

    async def seek_wait(self, places: Mapping[TP, int]) -> None:
        assert set(places) == {PARTITION}, "the table's own topic is left alone"
        self.sought += places.values()

    async def _add_gap(self, tp: TP, first: int, last: int) -> None:
        self.gaps.append((first, last))


def taken(order: InOrder, offsets: Iterable[int]) -> list[int]:
    async def judged() -> list[int]:
        return [offset for offset in offsets if await order.takes(0, offset)]

    return asyncio.run(judged())


def assigned(consumer: Consumer) -> InOrder:
    order = InOrder(consumer, TOPIC)
    asyncio.run(order.seek_to_committed())
    return order


def test_what_comes_in_order_is_taken_from_the_committed_place_on() -> None:
    """And what comes twice: it is counted once all the same."""
    consumer = Consumer(committed=10)
    assert taken(assigned(consumer), [8, 9, 10, 11, 9, 10, 11, 12]) == [8, 9, 10, 11, 9, 10, 11, 12]
    assert consumer.sought == []


def test_what_a_queue_has_lost_is_read_again() -> None:
    """10 to 14 lay in it when it was emptied: what follows is not taken before they are, and is asked for once."""
    consumer = Consumer(committed=10)
    assert taken(assigned(consumer), [15, 16, 17, 10, 11, 12, 13, 14, 15]) == [10, 11, 12, 13, 14, 15]
    assert consumer.sought == [10]


def test_what_is_lost_again_is_read_once_more() -> None:
    consumer = Consumer(committed=10)
    assert taken(assigned(consumer), [10, 15, 16, 13, 14, 11]) == [10, 11]
    assert consumer.sought == [11, 11]


def test_what_comes_before_the_seek_to_the_committed_place_is_not_taken() -> None:
    """It lies in a queue that is emptied, or comes again behind that."""
    order = InOrder(Consumer(committed=10), TOPIC)
    assert taken(order, [10, 11]) == []
    asyncio.run(order.seek_to_committed())
    assert taken(order, [10, 11]) == [10, 11]


def test_a_partition_without_a_committed_place_is_read_from_its_oldest_record_on() -> None:
    """aiokafka leaves it where it stands, behind what was read before."""
    consumer = Consumer(oldest=3)
    assert taken(assigned(consumer), [5, 3, 4]) == [3, 4]
    assert consumer.sought == [3, 3]


@pytest.mark.parametrize(("offsets", "sought"), [([100], []), ([105, 100], [100])])
def test_what_was_deleted_is_not_waited_for(offsets: list[int], sought: list[int]) -> None:
    """The topic keeps an hour; faust is told, for it would commit nothing behind such a hole."""
    consumer = Consumer(committed=10, oldest=100)
    assert taken(assigned(consumer), offsets) == [100]
    assert (consumer.sought, consumer.gaps) == (sought, [(10, 99)])


def test_a_place_of_a_former_assignment_counts_for_nothing() -> None:
    """Another worker has counted in between."""
    consumer = Consumer(committed=10)
    order = assigned(consumer)
    assert taken(order, [10]) == [10]
    consumer.committed = 50
    asyncio.run(order.seek_to_committed())
    assert taken(order, [50]) == [50]
    assert consumer.sought == []


def test_faust_forgets_what_it_has_read() -> None:
    """It drops what is behind that, and takes what is too far before it for a gap."""
    consumer: Any = Consumer(committed=10)
    InOrder(consumer, TOPIC)
    consumer._read_offset.update({PARTITION: 14})
    assert consumer._read_offset[PARTITION] is None
