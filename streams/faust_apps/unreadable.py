"""A batch that aiokafka cannot parse is stepped over, or whoever reads it ends at it each time it is started.

Threat. A header's name that is not UTF-8 raises out of aiokafka's iteration over its batch (0.14), and out of faust's
consumer; whoever may write the topic can write one, and the broker takes it.

How it works. The rest of that batch is given out as records without key and value, so that no offset is missing, and
reading goes on behind it. A batch has one writer, and none of ours writes such a name: nothing of anybody else is lost.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.structs import ConsumerRecord


class ReadableRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka's fetcher has no types
    """What one fetch of a partition has brought."""

    next_fetch_offset: int

    def __init__(self, tp: Any, records: Any, *more: Any) -> None:
        super().__init__(tp, _Batches(records), *more)

    def _unpack_records(self) -> Iterator[ConsumerRecord[Any, Any]]:
        while self._records.has_next():
            try:
                yield from super()._unpack_records()
            except UnicodeDecodeError:
                batch = self._records.newest
                for offset in range(max(self.next_fetch_offset, batch.base_offset), batch.next_offset):
                    self.next_fetch_offset = offset + 1
                    yield self._without_content(offset, batch.max_timestamp)

    def _without_content(self, offset: int, timestamp: int) -> ConsumerRecord[Any, Any]:
        topic, partition = self._tp
        return ConsumerRecord(topic, partition, offset, timestamp, 0, None, None, None, -1, -1, ())


class _Batches:
    """The batches of a fetch, of which the one given out last is remembered."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.newest: Any = None

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        self.newest = self._records.next_batch()
        return self.newest


def step_over_unreadable() -> None:
    """From now on, each consumer of aiokafka in this process."""
    fetcher.PartitionRecords = ReadableRecords
