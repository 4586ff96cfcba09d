"""A watch over broken connections: every event once, in order, none left out, whatever breaks where."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from topolog.projections.cli.following import Follower, WatchEvent


def test_an_unbroken_watch_is_delivered_as_it_comes() -> None:
    events = [added("n1"), synced(5), modified("n1", 7), bookmark(9), deleted("n1", 10)]
    assert deliver(Follower(), events) == events


def test_a_resume_is_asked_for_behind_the_last_event_and_drops_nothing() -> None:
    """Three rows changed at position 7; the connection broke behind the second, whose token says so."""
    follower = Follower()
    deliver(
        follower, [synced(5), modified("n1", 6), event("MODIFIED", "log.7+1", "a"), event("MODIFIED", "log.7+2", "b")]
    )
    assert follower.connect() == "log.7+2"
    assert deliver(follower, [modified("c", 7)]) == [modified("c", 7)]
    assert follower.connect() == "log.7"


def test_a_beginning_that_broke_is_compared_with_what_was_delivered_of_it() -> None:
    follower = Follower()
    deliver(follower, [added("n1"), added("n2"), added("n3")])
    assert follower.connect() is None
    again = [added("n1"), added("n2", "new"), added("n4"), synced(8)]
    assert deliver(follower, again) == [
        WatchEvent("MODIFIED", "", "n2", {"is": "new"}),
        added("n4"),
        WatchEvent("DELETED", "", "n3", {"is": "old"}),
        synced(8),
    ]
    assert follower.connect() == "log.8"


def test_what_shows_the_present_begins_anew_and_tells_only_what_is_new() -> None:
    follower = Follower()
    end = WatchEvent("SYNCED", "")
    deliver(follower, [added("n1"), added("n2"), end, WatchEvent("MODIFIED", "", "n1", {"is": "new"})])
    assert follower.connect() is None
    again = [added("n1", "new"), end, WatchEvent("DELETED", "", "n1", {"is": "new"})]
    assert [(each.type, each.name) for each in deliver(follower, again)] == [("DELETED", "n2"), ("DELETED", "n1")]
    assert follower.connect() is None
    assert deliver(follower, [added("n1"), end]) == [added("n1")]


def test_with_a_token_there_is_no_beginning() -> None:
    follower = Follower("log.5")
    assert follower.connect() == "log.5"
    assert deliver(follower, [modified("n1", 6)]) == [modified("n1", 6)]
    assert follower.connect() == "log.6"


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
    log = [
        event("MODIFIED", f"log.{position}" + (f"+{row}" if row < rows else ""), f"n{row}")
        for position, rows in enumerate(sets, start=6)
        for row in range(1, rows + 1)
    ]
    places = {"log.5": 0, **{each.token: number for number, each in enumerate(log, start=1)}}
    follower, delivered = Follower("log.5"), list[WatchEvent]()
    for lasts in [*breaks, len(log) * 2 + 2]:
        behind = log[places[str(follower.connect())] :]
        sent = [*behind, WatchEvent("BOOKMARK", log[-1].token)] if bookmarks else behind
        delivered += [each for each in deliver(follower, sent[:lasts]) if each.is_change]
    assert delivered == log


@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), min_size=1, max_size=6),
    breaks=st.lists(st.integers(0, 4), min_size=6, max_size=6),
)
def test_of_the_present_what_was_told_comes_to_what_is_there(rows: list[dict[str, int]], breaks: list[int]) -> None:
    """Each connection finds other rows, and most break within the list; the last one gets to its end."""
    follower, known = Follower(), dict[str, int]()
    for number, there in enumerate(rows):
        follower.connect()
        sent = [added(name, value) for name, value in there.items()]
        is_last = number == len(rows) - 1
        sent = [*sent, WatchEvent("SYNCED", "")] if is_last else sent[: breaks[number]]
        for told in deliver(follower, sent):
            if told.type == "DELETED":
                del known[told.name]
            elif told.is_change:
                assert (told.name in known) == (told.type == "MODIFIED")
                known[told.name] = told.item["is"]
    assert known == rows[-1]


def deliver(follower: Follower, events: Sequence[WatchEvent]) -> list[WatchEvent]:
    return [delivered for each in events for delivered in follower.feed(each)]


def event(type_: str, token: str, name: str) -> WatchEvent:
    return WatchEvent(type_, token, name, {"at": token})


def added(name: str, what: object = "old") -> WatchEvent:
    """As a list that is begun with has it: there is no token behind which the rest of it would be."""
    return WatchEvent("ADDED", "", name, {"is": what})


def modified(name: str, position: int) -> WatchEvent:
    return event("MODIFIED", f"log.{position}", name)


def deleted(name: str, position: int) -> WatchEvent:
    return WatchEvent("DELETED", f"log.{position}", name)


def synced(position: int) -> WatchEvent:
    return WatchEvent("SYNCED", f"log.{position}")


def bookmark(position: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", f"log.{position}")
