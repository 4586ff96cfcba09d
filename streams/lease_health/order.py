"""Every heartbeat, none passed over: what faust gives out is taken in the order of the topic, and no other way.

Threat. When partitions are assigned faust lets records of theirs in before it has gone to the place that was committed,
and then empties the queues that they lie in; it takes what was read before a seek for what follows behind it, drops
what is read again as old, and notes the records between as a gap that may be committed
(`Recovery.on_recovery_completed`, `Consumer._drain_messages`, `_new_offset`, faust 0.15.3). A busy machine is slow
enough for that: heartbeats that a worker had not counted were gone for it, and passed for lost.

Invariant. A record is let through only if all before it have been, from the committed place on; nothing else is
acknowledged. So a place that is committed is one up to which all has been counted.

Argument. Offsets of heartbeats follow each other, for they are neither compacted nor sent in transactions, until the
oldest are deleted. So a record that is too far on is seen by its offset alone, whatever the reason; it is refused, and
what should come is read from there. What comes twice does no harm: `windows.py` counts it once. faust's own memory of
what it has read, which drops that, is switched off.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiokafka.errors import IllegalStateError
from faust.types import TP


class InOrder:
    """Judges the records of one topic for a faust consumer, whose interface and fields these are. One event loop."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._nexts: dict[int, int] = {}
        self._refused: dict[int, int] = {}
        self._seek_to_committed = consumer.seek_to_committed
        consumer.seek_to_committed = self.seek_to_committed
        consumer._read_offset = _Forgotten()

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        """What faust begins with when partitions are assigned: the committed places, from which on all is read."""
        self._nexts.clear()
        found: Mapping[TP, int | None] = await self._seek_to_committed()
        ours = {TP(*tp): place for tp, place in found.items() if tp[0] == self._topic}
        oldest = await self._oldest(*(tp for tp, place in ours.items() if not place))
        if oldest:
            await self._consumer.seek_wait(oldest)  # aiokafka leaves one without a committed place where it stands
        self._refused.clear()
        self._nexts = {tp.partition: place or oldest[tp] for tp, place in ours.items()}
        return found

    async def takes(self, partition: int, offset: int) -> bool:
        """Whether this record is to be processed and acknowledged; one that is not comes again."""
        expected = self._nexts.get(partition)
        if expected is None:
            return False  # before the seek to the committed place, behind which it comes again
        if offset > expected and not await self._follows(partition, offset, expected):
            return False
        self._nexts[partition] = max(self._nexts[partition], offset + 1)
        return True

    async def _follows(self, partition: int, offset: int, expected: int) -> bool:
        """Whether all that should have come before was deleted; what was not is read now, unless it is already."""
        tp = TP(self._topic, partition)
        is_behind_another = self._refused.get(partition) == offset - 1
        self._refused[partition] = offset
        if is_behind_another:
            return False
        oldest = (await self._oldest(tp))[tp]
        if oldest > expected and partition in self._nexts:
            self._nexts[partition] = oldest
            await self._consumer._add_gap(tp, expected, oldest - 1)  # or nothing behind it would be committed
        if oldest < offset:
            with suppress(IllegalStateError, TimeoutError):  # it is assigned anew, and another seek follows
                await self._consumer.seek_wait({tp: max(oldest, expected)})
        return oldest >= offset and partition in self._nexts

    async def _oldest(self, *tps: TP) -> dict[TP, int]:
        if not tps:
            return {}
        found = await self._consumer.earliest_offsets(*tps)
        return {tp: found.get(tp) or 0 for tp in tps}


class _Forgotten(dict[TP, int | None]):
    """Of each partition that nothing of it has been read."""

    def __getitem__(self, _: TP) -> None:
        return None
