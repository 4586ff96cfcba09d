"""What waits to be sent is sent before faust notes how far it has read.

Threat. faust puts a change of a table into a queue, from which it goes to the changelog, and commits once a second how
far it has read the heartbeats. Before a commit it flushes that queue; but it gives up when nothing has been sent for
0.1 s (`ProducerBuffer.flush_atmost`, faust 0.15.3), and it does not wait for the record that has left the queue and is
not the producer's yet. A busy machine is that slow now and then. A worker that is killed then leaves a place in the
topic that is ahead of its changelog: the next one restores its table from that, and what was counted in between is gone
from it for good (62 of 170 heartbeats passed for lost). `windows.py` counts a repeat once, but nothing comes again.

Invariant. Whatever was put aside before a flush has been taken by the broker when the flush returns, or it fails.
"""

import asyncio
from typing import Any

_LOOK_AGAIN_S = 0.1
"""How often the queue is looked at while it is waited for: one that has been stopped sends nothing more."""


class Outbox:
    """Makes the flush of a faust producer, whose interface this is, one that can be relied upon."""

    def __init__(self, producer: Any) -> None:
        self._buffer = producer.buffer
        self._put, self._flush = self._buffer.put, producer.flush
        self._unsent: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None
        self._buffer.put, producer.flush = self.put, self.flush

    def put(self, message: asyncio.Future[Any]) -> None:
        """Put a record aside, to be sent as soon as may be; it is done when the broker has taken it."""
        self._unsent.add(message)
        message.add_done_callback(self._note)
        self._put(message)

    async def flush(self) -> None:
        """Wait until all that is put aside by now is with the broker; raises what a send has failed with."""
        waiting = set(self._unsent)
        while waiting and self._buffer.state == "running":
            _, waiting = await asyncio.wait(waiting, timeout=_LOOK_AGAIN_S)
        if self._failure is not None:
            raise self._failure
        await self._flush()

    def _note(self, message: asyncio.Future[Any]) -> None:
        self._unsent.discard(message)
        if not message.cancelled():
            self._failure = self._failure or message.exception()
