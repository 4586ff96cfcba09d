"""The events of a watch: a function of the log alone, complete, and the same from any mark on."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topolog.events.ids import Position
from topolog.events.topics import Topic
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.watch.events import Event, Mark, Watched
from topolog.projections.projector import Projector
from topolog.projections.store import Reading
from topolog.streams.simulation import Faults
from topolog.streams.simulation.run import _Run, drawn

OF_LOG = [each for each in LISTINGS.values() if not each.shows_present]
SEEDS = (4, 10, 15)


@pytest.fixture(scope="module", params=SEEDS)
def newest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    """The whole history of a simulated cluster with crashes, take-overs and zombies."""
    run = _Run(drawn(request.param, 5_000, Faults()))
    run.through()
    log = run._histories.worlds[0].broker.log
    assert log.entries(Topic.DECISIONS)
    folder: Path = tmp_path_factory.mktemp("store")
    with closing(Projector(log.reader(), folder, "main")) as projector:
        while projector.step():
            pass
        with projector.reading() as reading:
            yield reading


def watched(listing: Listing[Any]) -> Watched:
    """All fields but those that grow by themselves."""
    names = listing.item.__struct_fields__
    return Watched(listing, "log", fields=tuple(name for name in names if not name.endswith("_ms")))


def told(events: Iterator[Event]) -> list[tuple[Any, ...]]:
    return [(each.type, each.name, bytes(each.item or b""), each.token) for each in events]


def items(about: Watched, reading: Reading) -> dict[str, bytes]:
    """The list as a client of the watch would have it."""
    after, found = None, dict[str, bytes]()
    while True:
        page, after = about.snapshot(reading, after, 7)
        found |= {str(each.name): bytes(each.item or b"") for each in page}
        if after is None:
            return found


@pytest.mark.parametrize("listing", OF_LOG, ids=lambda each: each.name)
def test_list_and_events_make_the_later_list(newest: Reading, listing: Listing[Any]) -> None:
    """Snapshot as of any position and the events behind it are the list as it is at the end: no gap, no repeat."""
    about, chance = watched(listing), random.Random(4)
    for start in sorted(chance.sample(range(int(newest.position)), 6)):
        before = newest.as_of(start)
        held = {} if about.grows else items(about, before)
        for event in about.events(newest, Mark(before.position)):
            assert event.name is not None
            if event.type == "DELETED":
                del held[event.name]
            else:
                assert (event.type == "ADDED") == (event.name not in held)
                held[event.name] = bytes(event.item or b"")
        if about.grows:
            expected = {key for key, at in places(listing, newest).items() if at > before.position}
            assert set(held) == expected
        else:
            assert held == items(about, newest)


def places(listing: Listing[Any], reading: Reading) -> dict[str, int]:
    assert listing.place is not None
    return {listing.title_of(each): listing.place(each) for each in listing.items(reading, ListQuery())}


@pytest.mark.parametrize("listing", OF_LOG, ids=lambda each: each.name)
def test_what_is_looked_at_leaves_nothing_out(newest: Reading, listing: Listing[Any]) -> None:
    """By the kinds of rows that a list is made of, and by the rows of a set, come the events of the whole list."""

    def whole(reading: Reading, asked: Any) -> Any:
        return listing.find(reading, asked.__class__(asked.age_ms, asked.filters, asked.after))

    everything = watched(replace(listing, kinds=frozenset(), find=whole))
    assert told(watched(listing).events(newest, Mark(Position(0)))) == told(
        everything.events(newest, Mark(Position(0)))
    )


@pytest.mark.parametrize("listing", OF_LOG, ids=lambda each: each.name)
def test_from_any_event_on_the_same_follows(newest: Reading, listing: Listing[Any]) -> None:
    """A watch that goes on from a token, also inside a set, is told what it would have been told."""
    about = watched(listing)
    every = list(about.events(newest, Mark(Position(0))))
    for cut in random.Random(5).sample(range(len(every)), min(8, len(every))):
        mark = Mark.parse(str(every[cut].token), "log")
        assert told(about.events(newest, mark)) == told(iter(every[cut + 1 :]))


def test_the_histories_have_events_of_most_lists(newest: Reading) -> None:
    """Else the properties above would prove nothing."""
    counts = {each.name: len(list(watched(each).events(newest, Mark(Position(0))))) for each in OF_LOG}
    assert sum(map(bool, counts.values())) >= 9, counts
