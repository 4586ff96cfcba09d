"""Lets coroutines wait for what the projector has yet to read, without a thread each."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Commits:
    """The projector's commits, as the event loop sees them. Everything but `notify` belongs to the loop's thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def detach(self) -> None:
        self._loop = None

    def notify(self) -> None:
        """Something was committed; any thread may say so."""
        self.soon(self._wake)

    def soon(self, call: Callable[[], object]) -> None:
        """Have the loop call this, from any thread or signal handler."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop was closed a moment ago, and nobody waits in it any more
                loop.call_soon_threadsafe(call)

    async def until(self, look: Callable[[], T | None], timeout_s: float) -> T | None:
        """What `look` finds, as soon as it finds something; None after `timeout_s`. It looks after each commit.

        A commit between a look and the wait behind it is not missed: it wakes through the loop, which runs neither.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while (found := look()) is None:
            remaining_s = deadline - asyncio.get_running_loop().time()
            if remaining_s <= 0:
                return None
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            await asyncio.wait([waiter], timeout=remaining_s)
            self._waiters.discard(waiter)
        return found

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
