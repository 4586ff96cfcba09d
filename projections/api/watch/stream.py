"""GET …?watch=true and …?changes_since=: what becomes of a list, as server-sent events, as JSON lines, or by long poll.

A watch begins with the list (ADDED for each item), says SYNCED, and goes on with what changes; one that goes on from a
token begins behind it. A BOOKMARK says how far an idle list was read. ERROR is the last thing said where a watch has to
end; the token given before it is where to go on. It has to end, too, where who asks may be told no more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from topolog.events.errors import TopologError
from topolog.projections.api.access.admission import Admission
from topolog.projections.api.watch.events import Batch, Event, Mark, Watched
from topolog.projections.api.watch.feed import Feed, Feeds, Place
from topolog.projections.projector import Projector

Write = Callable[[Batch], Awaitable[None]]

_PAGE = 500
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Watch:
    """What one caller is told of a list: behind `since`, or all of it first; of a list that grows `newest` items.

    By `admission` they may be told so: it is looked at before anything is told. None if nobody is asked who they are.
    """

    def __init__(
        self,
        projector: Projector,
        feeds: Feeds,
        watched: Watched,
        since: Mark | None,
        newest: int,
        admission: Admission | None = None,
    ) -> None:
        self.feeds = feeds
        self.mark = since or Mark(projector.meta.position)
        self._projector = projector
        self._watched = watched
        self._since = since
        self._newest = newest
        self._admission = admission
        self._is_synced = since is not None

    async def tell(self, write: Write) -> None:
        """Write what there is to tell, a few events at a time, until the feed ends; an error is the last event."""

        async def write_checked(told: Batch) -> None:
            await self._check()
            await write(told)

        try:
            async with self.feeds.joined(self._watched) as feed:
                place = await self._begun(feed, write_checked)
                self._is_synced = True
                while told := await place.next():
                    await write_checked(told)
                    self.mark = place.mark
            await write_checked(Batch([self._watched.said("BOOKMARK", self.mark)]))
        except TopologError as error:
            detail = f"{error.message} {error.hint}".strip()
            said = self._watched.said("ERROR", self.mark, error.code, detail)
            await write(Batch([said if self._is_synced else msgspec.structs.replace(said, token=None)]))

    async def changes(self, wait_s: float, limit: int) -> tuple[list[Event], Mark]:
        """Up to `limit` events behind the mark, as soon as there is one, and the mark to go on behind."""
        async with self.feeds.joined(self._watched) as feed:
            place = Place(feed, self.mark)
            told = _changes(await place.at_hand())[:limit]
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while not told and not feed.has_ended:
                        told = _changes(await place.next())[:limit]
            await self._check()
            return told, told[-1].mark if told else place.mark

    async def _check(self) -> None:
        """Raise NotAllowed if this caller may be told no more."""
        if self._admission is not None:
            await self._admission.check()

    async def _begun(self, feed: Feed, write: Write) -> Place:
        """Write what comes before all that the feed tells, and the place from where that goes on."""
        if self._since is not None:
            return Place(feed, self._since)
        if self._watched.listing.shows_present:
            while feed.present is None and not feed.has_ended:
                await feed.changed()
            feed.check()
            place = Place(feed, feed.mark, feed.next_number)
            if feed.present is not None:
                there = self._watched.between(feed.mark, {}, feed.present)
                await write(Batch([*there, self._watched.said("SYNCED", feed.mark)]))
            return place
        await self._write_snapshot(write)
        return Place(feed, self.mark)

    async def _write_snapshot(self, write: Write) -> None:
        """The list as it was when the watch began, a page at a time: no reading stays open for a slow caller."""

        def page(after: str | None) -> tuple[list[Event], str | None]:
            with self._projector.reading() as newest:
                return self._watched.snapshot(newest.as_of(self.mark.position), after, self._page_size)

        told, after = await run_in_threadpool(page, None)
        while after is not None:
            await write(Batch(told))
            told, after = await run_in_threadpool(page, after)
        await write(Batch([*told, self._watched.said("SYNCED", self.mark)]))

    @property
    def _page_size(self) -> int:
        return self._newest if self._watched.grows else _PAGE


class Stream(Response):
    """A watch as an answer that does not end by itself."""

    def __init__(self, watch: Watch, *, as_lines: bool) -> None:
        super().__init__(media_type="application/jsonl" if as_lines else "text/event-stream", headers=_HEADERS)
        del self.headers["content-length"]
        self._watch = watch
        self._as_lines = as_lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.create_task(self._tell(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling

    async def _tell(self, send: Send) -> None:
        in_time = self._watch.feeds.in_time(send)

        async def write(told: Batch) -> None:
            body = told.lines if self._as_lines else told.frames
            await in_time({"type": "http.response.body", "body": body, "more_body": True})

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._watch.tell(write)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _changes(told: Batch | None) -> list[Event]:
    return [each for each in told.events if each.item is not None] if told else []


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
