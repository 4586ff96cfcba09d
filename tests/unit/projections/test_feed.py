"""Readers of one feed, each at its own place: what is behind that, once, wherever the feed stands when it begins."""

import asyncio

from tests.unit.projections.chronicle import Chronicle

from topolog.events.ids import Position
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.waiting import Commits
from topolog.projections.api.watch.events import Batch, Mark, Watched
from topolog.projections.api.watch.feed import Feed, Place
from topolog.projections.projector import Projector

WATCHED = Watched(LISTINGS["types"], "log")
ANSWER_S = 20.0


def names(told: Batch | None) -> list[str | None]:
    assert told is not None
    return [each.name for each in told.events if each.item is not None]


def propose(chronicle: Chronicle, projector: Projector, *types: str) -> Position:
    for name in types:
        chronicle.propose(name, {"id": "long"})
    while projector.step():
        pass
    return projector.meta.position


def test_who_read_its_list_ahead_of_the_feed_is_told_nothing_twice(chronicle: Chronicle, projector: Projector) -> None:
    """A list is read at the newest commit, which the feed may have yet to look at."""
    chronicle.join("n1")
    before = propose(chronicle, projector, "A")
    ahead = propose(chronicle, projector, "B")

    async def read() -> tuple[list[str | None], list[str | None]]:
        commits = Commits()
        commits.attach(asyncio.get_running_loop())
        feed = Feed(projector, commits, WATCHED, Mark(before))
        listed, early = Place(feed, Mark(ahead)), Place(feed, Mark(before))
        first = names(await asyncio.wait_for(early.next(), ANSWER_S))
        awaited = asyncio.create_task(listed.next())
        propose(chronicle, projector, "C")
        commits.notify()
        found = first, names(await asyncio.wait_for(awaited, ANSWER_S))
        feed.end()
        return found

    assert asyncio.run(read()) == (["B"], ["C"])


def test_each_reader_is_told_what_is_behind_its_own_place(chronicle: Chronicle, projector: Projector) -> None:
    """What was told last, of which bytes are made once, is all only for whoever was told what came before."""
    chronicle.join("n1")
    start = propose(chronicle, projector)

    async def read() -> tuple[list[str | None], list[str | None]]:
        commits = Commits()
        commits.attach(asyncio.get_running_loop())
        feed = Feed(projector, commits, WATCHED, Mark(start))
        slow, brisk = Place(feed, Mark(start)), Place(feed, Mark(start))
        for name in ("A", "B"):
            propose(chronicle, projector, name)
            commits.notify()
            told = names(await asyncio.wait_for(brisk.next(), ANSWER_S))
        found = names(await asyncio.wait_for(slow.next(), ANSWER_S)), told
        feed.end()
        return found

    assert asyncio.run(read()) == (["A", "B"], ["B"])
