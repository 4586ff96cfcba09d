"""One feed for all who watch the same list: each change is made out and written as bytes once, whoever waits for it.

A feed reads the store behind the projector's commits, in a worker thread, and keeps its newest events. Its readers wait
in the event loop and take what is behind the place that each has reached. One that falls further behind than what is
kept is told so, with the token at which it can go on, and costs the others nothing.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice, takewhile
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Send

from topolog.events.errors import DamagedStore, Overloaded, Retriable, TopologError
from topolog.projections.api.waiting import Commits
from topolog.projections.api.watch.events import Batch, Event, Items, Mark, Watched
from topolog.projections.projector import Projector

BOOKMARK_S = 10.0
"""At least so often a reader is told something: how far it has read, and that its server is there."""

LOOK_S = 1.0
"""Between two looks at a list that shows the present."""

KEPT_MAX = 10_000
CHUNK_MAX = 1_000
READERS_MAX = 5_000
"""Of one cluster in one process: each is a connection, with a buffer of its own."""

FEEDS_MAX = 250
"""Of one cluster in one process: each looks at the store after each commit, and keeps events of its own. More than any
one principal may have open (`auth.watches`), unless that is set higher."""

PATIENCE_S = 60.0
"""How long a reader may take nothing, its buffers being full, before its connection is closed."""

_RETRY_S = 0.5


class FellBehind(Retriable):
    """The reader was too slow: what it has yet to be told is no longer kept for it. The log has it."""

    code = "overflow"


class Feed:
    """The events of one list behind `start`. Everything but `read` belongs to the event loop's thread."""

    def __init__(self, projector: Projector, commits: Commits, watched: Watched, start: Mark) -> None:
        self.watched = watched
        self.mark = start
        self.readers = 0
        self.next_number = 0
        self.present: Items | None = None
        self._projector = projector
        self._commits = commits
        self._kept: deque[Event] = deque()
        self._kept_behind = start
        self._newest: Batch | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._told_at_s = time.monotonic()
        self._ended: list[TopologError | None] = []
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._follow())

    @property
    def has_ended(self) -> bool:
        return bool(self._ended)

    def check(self) -> None:
        """Raise what has ended the feed, if it was an error."""
        if self._ended and self._ended[0]:
            raise self._ended[0]

    def number_behind(self, mark: Mark) -> int | None:
        """The number of the first event behind a mark that is or will be told; None if it is not kept any more."""
        if mark < self._kept_behind:
            return None
        return self.next_number - sum(1 for _ in takewhile(lambda each: each.mark > mark, reversed(self._kept)))

    def told_from(self, number: int) -> Batch | None:
        """The events that were told from this number on; raises FellBehind if some of them are not kept any more."""
        count = self.next_number - number
        if not count:
            return None
        if self._newest and count == len(self._newest.events):
            return self._newest
        if count > len(self._kept):
            raise FellBehind("This reader was too slow to be waited for.", hint="Go on at the token it was given last.")
        return Batch([self._kept[index] for index in range(-count, 0)])

    def changed(self) -> asyncio.Future[None]:
        """Done when something is told, or when the feed ends."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def read(self, behind: Mark) -> tuple[list[Event], Mark]:
        """Up to a chunk of the events behind a mark, and how far that goes; for a worker thread."""
        with self._projector.reading() as reading:
            found = list(islice(self.watched.events(reading, behind), CHUNK_MAX))
            return found, found[-1].mark if len(found) == CHUNK_MAX else max(behind, Mark(reading.position))

    def end(self, error: TopologError | None = None) -> None:
        """Tell no more; whoever reads comes to the end."""
        self._ended.append(error)
        self._task.cancel()
        self._wake()

    async def _follow(self) -> None:
        while True:
            try:
                await (self._look_at_present() if self.watched.listing.shows_present else self._look_at_log())
            except (Retriable, DamagedStore):  # a store that is opened or built again: its log says the same
                await asyncio.sleep(_RETRY_S)
            except TopologError as error:
                self.end(error)
            except Exception:  # whatever it is: who reads would wait for ever on a task that has died of it
                self.end(TopologError("This is a defect of topolog; the log of its server has the details."))
                raise

    async def _look_at_log(self) -> None:
        await self._commits.until(lambda: self._projector.meta.position > self.mark.position or None, BOOKMARK_S)
        told, self.mark = await run_in_threadpool(self.read, self.mark)
        self._tell(told)

    async def _look_at_present(self) -> None:
        def compared() -> tuple[Mark, Items, list[Event]]:
            with self._projector.reading() as reading:
                mark, found = Mark(reading.position), self.watched.present(reading, self._projector.age_ms)
            return mark, found, [] if before is None else list(self.watched.between(mark, before, found))

        before = self.present
        self.mark, self.present, told = await run_in_threadpool(compared)
        self._tell(told)
        await asyncio.sleep(LOOK_S)

    def _tell(self, events: Sequence[Event]) -> None:
        if not events and time.monotonic() - self._told_at_s >= BOOKMARK_S:
            events = [self.watched.said("BOOKMARK", self.mark)]
        if events:
            self._newest = Batch(list(events))
        self._kept.extend(events)
        self.next_number += len(events)
        while len(self._kept) > KEPT_MAX:
            self._kept_behind = self._kept.popleft().mark
        if events or self.present is not None:
            self._told_at_s = time.monotonic() if events else self._told_at_s
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():  # who has left takes its waiter along: it is cancelled
                waiter.set_result(None)


class Place:
    """How far one reader has come in a feed: behind `mark`. `number`: of its next event, if that is known."""

    def __init__(self, feed: Feed, mark: Mark, number: int | None = None) -> None:
        self.mark = mark
        self._feed = feed
        self._number = feed.number_behind(mark) if number is None else number

    async def at_hand(self) -> Batch | None:
        """What is there already, without waiting for more; raises as `next` does."""
        told: Batch | None = None
        while told is None and self._number is None:
            told = await self._from_store()
        return told or self._from_feed()

    async def next(self) -> Batch | None:
        """What comes next, as soon as there is something; None at the feed's end. Raises FellBehind, and what has ended
        the feed."""
        while not self._feed.has_ended:
            told = self._from_feed() if self._number is not None else await self._from_store()
            if told:
                return told
            if self._number is not None:
                await self._feed.changed()
        self._feed.check()
        return None

    def _from_feed(self) -> Batch | None:
        assert self._number is not None, "asked only of a place among what is kept"
        told, self._number = self._feed.told_from(self._number), self._feed.next_number
        if told and not (self._feed.watched.listing.shows_present or told.events[0].mark > self.mark):
            told = self._behind_mark(told.events)
        if told:
            self.mark = told.mark
        return told

    def _behind_mark(self, told: list[Event]) -> Batch | None:
        """Without what this reader, who began ahead of the feed, has been told already."""
        left = [each for each in told if each.mark > self.mark or (each.item is None and each.mark == self.mark)]
        return Batch(left) if left else None

    async def _from_store(self) -> Batch | None:
        """What lies before that which the feed keeps."""
        told, self.mark = await run_in_threadpool(self._feed.read, self.mark)
        self._number = self._feed.number_behind(self.mark)
        return Batch(told) if told else None


class Feeds:
    """The feeds of one cluster; one that nobody reads is gone."""

    def __init__(self, projector: Projector, commits: Commits) -> None:
        self._projector = projector
        self._commits = commits
        self._feeds: dict[object, Feed] = {}
        self._sending: dict[asyncio.Task[Any], float] = {}
        self._sweep: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        """Any thread may ask."""
        return sum(each.readers for each in tuple(self._feeds.values()))

    @asynccontextmanager
    async def joined(self, watched: Watched) -> AsyncIterator[Feed]:
        """The feed of a list for one more reader; raises Overloaded if too many read here, or too much."""
        if self.readers >= READERS_MAX:
            raise Overloaded(f"{READERS_MAX} watch this cluster here already.", hint="Ask another server, or later.")
        newest = Mark(self._projector.meta.position)
        feed = self._feeds.get(watched.key)
        if feed is None and len(self._feeds) >= FEEDS_MAX:
            raise Overloaded(
                f"{FEEDS_MAX} lists of this cluster, each narrowed in its own way, are watched here already.",
                hint="Ask another server, or later, or watch what others watch.",
            )
        if feed is None or feed.has_ended:
            feed = self._feeds[watched.key] = Feed(self._projector, self._commits, watched, newest)
        feed.readers += 1
        self._sweep = self._sweep or asyncio.create_task(self._cut_off())
        try:
            yield feed
        finally:
            feed.readers -= 1
            if not feed.readers:
                feed.end()
                if self._feeds.get(watched.key) is feed:
                    del self._feeds[watched.key]

    def in_time(self, send: Send) -> Send:
        """For the task that asks: as `send`, but the task is cancelled if the connection takes nothing for too long."""
        task = asyncio.current_task()
        assert task is not None, "sent by a task"

        async def sent(message: Message) -> None:
            self._sending[task] = time.monotonic()
            try:
                await send(message)
            finally:
                del self._sending[task]

        return sent

    def end(self) -> None:
        """All readers come to their end, with what they were told last."""
        if self._sweep:
            self._sweep.cancel()
        for feed in list(self._feeds.values()):
            feed.end()

    async def _cut_off(self) -> None:
        while True:
            await asyncio.sleep(PATIENCE_S / 4)
            now_s = time.monotonic()
            for task in [task for task, since_s in self._sending.items() if now_s - since_s > PATIENCE_S]:
                task.cancel()
