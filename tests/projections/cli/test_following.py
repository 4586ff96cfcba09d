"""A watch over broken connections: every event once, in order, none left out, whatever breaks where."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.cli.following import Follower, WatchEvent


def test_an_unbroken_watch_is_delivered_as_it_comes() -> None:
    events = [added("n1", 5), synced(5), modified("n1", 7), bookmark(9), deleted("n1", 10)]
    assert deliver(Follower(), events) == events


def test_a_resume_within_a_position_neither_repeats_nor_leaves_out() -> None:
    """Three rows changed at position 7; the connection broke behind the second."""
    follower = Follower()
    deliver(follower, [synced(5), modified("n1", 6), modified("a", 7), modified("b", 7)])
    assert follower.connect() == "log.6"
    assert deliver(follower, [modified("a", 7), modified("b", 7), modified("c", 7)]) == [modified("c", 7)]


def test_a_snapshot_that_broke_is_compared_with_what_was_delivered_of_it() -> None:
    follower = Follower()
    deliver(follower, [added("n1", 5), added("n2", 5), added("n3", 5)])
    assert follower.connect() is None
    again = [added("n1", 8), WatchEvent("ADDED", "log.8", "n2", {"is": "new"}), added("n4", 8), synced(8)]
    assert deliver(follower, again) == [
        WatchEvent("MODIFIED", "log.8", "n2", {"is": "new"}),
        added("n4", 8),
        WatchEvent("DELETED", "log.8", "n3", {"at": 5}),
        synced(8),
    ]


def test_what_has_no_past_begins_anew_and_tells_only_what_is_new() -> None:
    follower = Follower(has_past=False)
    deliver(follower, [added("n1", 5), added("n2", 5), synced(5), modified("n1", 6)])
    assert follower.connect() is None
    again = [WatchEvent("ADDED", "log.9", "n1", {"at": 6}), synced(9), deleted("n1", 10)]
    assert [(each.type, each.name) for each in deliver(follower, again)] == [("DELETED", "n2"), ("DELETED", "n1")]


def test_with_a_token_there_is_no_snapshot() -> None:
    follower = Follower("log.5")
    assert follower.connect() == "log.5"
    assert deliver(follower, [modified("n1", 6)]) == [modified("n1", 6)]
    assert follower.newest == "log.6"


@given(
    sets=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    breaks=st.lists(st.integers(0, 6), max_size=8),
    bookmarks=st.booleans(),
)
def test_however_it_breaks_all_is_delivered_once_and_in_order(
    sets: list[int], breaks: list[int], bookmarks: bool
) -> None:
    """The server sends all behind the token it is given, several rows at one position; a connection lasts as many
    events as `breaks` say."""
    log = [modified(f"n{row}", position) for position, rows in enumerate(sets, start=6) for row in range(rows)]
    follower, delivered = Follower("log.5"), list[WatchEvent]()
    for lasts in [*breaks, len(log) * 2 + 2]:
        since = int(str(follower.connect()).removeprefix("log."))
        behind = [each for each in log if position_of(each) > since]
        sent = [*behind, bookmark(position_of(log[-1]))] if bookmarks else behind
        delivered += [each for each in deliver(follower, sent[:lasts]) if each.is_change]
    assert delivered == log


def deliver(follower: Follower, events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [delivered for event in events for delivered in follower.feed(event)]


def position_of(event: WatchEvent) -> int:
    return int(event.token.removeprefix("log."))


def added(name: str, position: int) -> WatchEvent:
    return WatchEvent("ADDED", f"log.{position}", name, {"at": 5})


def modified(name: str, position: int) -> WatchEvent:
    return WatchEvent("MODIFIED", f"log.{position}", name, {"at": position})


def deleted(name: str, position: int) -> WatchEvent:
    return WatchEvent("DELETED", f"log.{position}", name)


def synced(position: int) -> WatchEvent:
    return WatchEvent("SYNCED", f"log.{position}")


def bookmark(position: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", f"log.{position}")
