"""Links what is projected to the traces of those who asked for it.

A span covers one batch: from its reading to the next, by when all of it is stored. It links to the trace of each
decision that has one; batches without any have no span.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from topolog.events import telemetry
from topolog.events.ids import Offset
from topolog.events.log import Entry, LogReader, Partition
from topolog.events.topics import Topic


def traced(reader: LogReader, cluster: str) -> LogReader:
    """The reader itself in a process without an SDK."""
    return TracedReader(reader, cluster) if telemetry.is_on() else reader


class TracedReader:
    """A log reader like the one it is given."""

    def __init__(self, inner: LogReader, cluster: str) -> None:
        self._inner = inner
        self._cluster = cluster
        self._span: AbstractContextManager[None] | None = None

    def poll(self, timeout_s: float) -> list[Entry]:
        self._end()
        entries = self._inner.poll(timeout_s)
        decisions = [entry for entry in entries if entry.topic is Topic.DECISIONS]
        links = [each for entry in decisions if (each := telemetry.carried(entry.headers))]
        if links:
            last = decisions[-1]
            self._span = telemetry.messaging(
                "process",
                Topic.DECISIONS,
                self._cluster,
                links=links[: telemetry.LINKS_MAX],
                partition=last.partition,
                offset=last.offset,
                records=len(decisions),
            )
            self._span.__enter__()
        return entries

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._inner.assign(starts)

    def at_end(self, topic: Topic) -> bool:
        return self._inner.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self._inner.hears(topic)

    def bounds(self, partition: Partition) -> tuple[Offset, Offset] | None:
        return self._inner.bounds(partition)

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._inner.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self._inner.proven()

    def close(self) -> None:
        self._end()
        self._inner.close()

    def _end(self) -> None:
        span, self._span = self._span, None
        if span is not None:
            span.__exit__(None, None, None)
