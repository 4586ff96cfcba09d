"""GET …?watch=true and …?changes_since=: what becomes of a list, as server-sent events, as JSON lines, or by long poll.

A watch begins with the list (ADDED for each item), says SYNCED, and goes on with what changes; one that goes on from a
token begins behind it. A BOOKMARK says how far an idle list was read. ERROR is the last thing said where a watch has to
end; the token given before it is where to go on.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from topolog.events.errors import TopologError
from topolog.projections.api.watch.events import Event, Mark, Watched
from topolog.projections.api.watch.feed import Feed, Feeds, Place
from topolog.projections.projector import Projector

_PAGE = 500
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Watch:
    """What one caller is told of a list: behind `since`, or all of it first; of a list that grows `newest` items."""

    def __init__(self, projector: Projector, feeds: Feeds, watched: Watched, since: Mark | None, newest: int) -> None:
        self.feeds = feeds
        self.mark = since or Mark(projector.meta.position)
        self._projector = projector
        self._watched = watched
        self._since = since
        self._newest = newest

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """What to tell, a few events at a time. It ends when the feed does; an error is the last event."""
        try:
            async with self.feeds.joined(self._watched) as feed:
                async for told in self._told(feed):
                    self.mark = told[-1].mark
                    yield told
            yield [self._watched.said("BOOKMARK", self.mark)]
        except TopologError as error:
            detail = f"{error.message} {error.hint}".strip()
            yield [self._watched.said("ERROR", self.mark, error.code, detail)]

    async def changes(self, wait_s: float, limit: int) -> tuple[list[Event], Mark]:
        """Up to `limit` events behind the mark, as soon as there is one, and the mark to go on behind."""
        async with self.feeds.joined(self._watched) as feed:
            place, told = Place(feed, self.mark), list[Event]()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while not told and not feed.has_ended:
                        told = [each for each in await place.next() if each.item is not None][:limit]
            return told, told[-1].mark if told else place.mark

    async def _told(self, feed: Feed) -> AsyncIterator[list[Event]]:
        if self._since is not None:
            place = Place(feed, self._since)
        elif self._watched.listing.shows_present:
            while feed.present is None and not feed.has_ended:
                await feed.changed()
            place = Place(feed, feed.mark, feed.next_number)
            yield [*self._watched.between(feed.mark, {}, feed.present or {}), self._watched.said("SYNCED", feed.mark)]
        else:
            async for told in self._snapshot():
                yield told
            place = Place(feed, self.mark)
        while told := await place.next():
            yield told

    async def _snapshot(self) -> AsyncIterator[list[Event]]:
        """The list as it was when the watch began, a page at a time: no reading stays open for a slow caller."""

        def page(after: str | None) -> tuple[list[Event], str | None]:
            with self._projector.reading() as newest:
                return self._watched.snapshot(newest.as_of(mark.position), after, self._page_size)

        mark, after, is_first = self.mark, None, True
        while is_first or after is not None:
            is_first = False
            told, after = await run_in_threadpool(page, after)
            if told:
                yield told
        yield [self._watched.said("SYNCED", mark)]

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
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._watch.events()) as events:
            async for told in events:
                body = b"".join(each.line if self._as_lines else each.frame for each in told)
                with self._watch.feeds.sending():
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
