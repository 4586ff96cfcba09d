"""Ids that never fall out of the window of kept outcomes (K7), and the errors that refusals stand for."""

from collections.abc import Callable

import pytest

from topolog.events import requests as q
from topolog.events.asked import SUBJECT_CHARS_MAX, RequestId
from topolog.events.asking import CONFLICT, LANES, OpenRequests, encode_request, refusal_of
from topolog.events.errors import BadInput, MergeConflict, Overloaded, Refused
from topolog.events.ids import Position
from topolog.events.metadata import TypeRemovalRequested
from topolog.events.requesters import AHEAD_MAX, joining, operating, requester_of


def row(code: str) -> q.OutcomeRow:
    return q.OutcomeRow("t", 1, bytes(8), "type T", q.Status.REFUSED, Position(3), code=code, rule="ME8", message="no")


def test_one_at_a_time_uses_one_requester() -> None:
    """Whoever waits for each outcome has one requester, counted from 1."""
    ids = OpenRequests("n1-ab")
    given = []
    for _ in range(200):
        given.append(ids.next_id())
        ids.close(given[-1])
    assert [str(each) for each in given] == [f"n1-ab/{number}" for number in range(1, 201)]


def test_no_open_request_ever_falls_64_behind_its_requester() -> None:
    """K7: however many are under way, each one's outcome is still kept when the newest of its requester is decided."""
    ids = OpenRequests("n1-ab")
    open_ = [ids.next_id() for _ in range(LANES * q.OUTCOMES_KEPT)]
    newest = {each.requester: each.sequence for each in open_}
    assert all(newest[each.requester] - each.sequence < q.OUTCOMES_KEPT for each in open_)
    with pytest.raises(Overloaded):
        ids.next_id()
    ids.close(open_[0])
    assert ids.next_id().requester == open_[0].requester


def test_no_number_comes_too_far_above_what_has_its_outcome() -> None:
    """A coordinator would take it for somebody else's. What is never sent uses up numbers, and of who is no longer
    remembered none has its outcome: then another requester goes on, from 1."""
    decided: dict[str, int] = {}
    ids = OpenRequests("n1-ab", lambda requester: decided.get(requester, 0))
    given = []
    for _ in range(AHEAD_MAX):
        given.append(ids.next_id())
        ids.close(given[-1])
    assert (given[-1].requester, given[-1].sequence) == ("n1-ab", AHEAD_MAX)
    assert ids.next_id() == RequestId(f"n1-ab.{LANES}", 1)


def test_a_lane_with_open_requests_is_not_given_up() -> None:
    """Their outcomes are still to come: another lane is taken meanwhile, and this one again once it is known how far
    it has come."""
    decided: dict[str, int] = {}
    ids = OpenRequests("n1-ab", lambda requester: decided.get(requester, 0))
    given = [ids.next_id() for _ in range(AHEAD_MAX)]
    for each in given[:-1]:
        ids.close(each)
    assert ids.next_id() == RequestId("n1-ab.1", 1)
    decided["n1-ab"] = AHEAD_MAX - 1
    assert ids.next_id() == RequestId("n1-ab", AHEAD_MAX + 1)


def test_who_may_number_nothing_more_is_told_how_many_it_waits_for() -> None:
    """One request in each lane is enough, where each is too far above what has its outcome."""
    decided: dict[str, int] = {}
    ids = OpenRequests("n1-ab", lambda requester: decided.get(requester, 0))
    for _ in range(LANES):
        given = [ids.next_id() for _ in range(AHEAD_MAX)]
        for each in given[:-1]:
            ids.close(each)
    with pytest.raises(Overloaded, match=rf"^{LANES} requests of n1-ab are under way"):
        ids.next_id()


def test_numbers_that_somebody_else_has_used_up_are_passed_over() -> None:
    """A request under one of them would be taken for a repeat; also in the lane that takes the place of another."""
    decided = {"n1-ab": 60, f"n1-ab.{LANES}": 9}
    ids = OpenRequests("n1-ab", lambda requester: decided.get(requester, 0))
    given = [ids.next_id() for _ in range(AHEAD_MAX)]
    assert given[0] == RequestId("n1-ab", 61)
    for each in given:
        ids.close(each)
    assert ids.next_id() == RequestId(f"n1-ab.{LANES}", 10)


@pytest.mark.parametrize("of", [lambda own: own, joining, operating], ids=["itself", "joining", "operating"])
def test_the_name_is_cut_so_that_every_lane_is_a_valid_requester(of: Callable[[str], str]) -> None:
    """A node id may be as long as a requester; the ids of its requests must still be valid, however many lanes it has
    given up."""
    own = requester_of("n" * SUBJECT_CHARS_MAX, (1 << 64) - 1)
    ids = OpenRequests(of(own))
    open_ = [ids.next_id() for _ in range(LANES * q.OUTCOMES_KEPT)]
    assert all(q.is_valid(each) for each in open_)
    assert q.is_valid(RequestId(f"{of(own)}.{(1 << 63) - 1}", 1))
    assert own.endswith("n-ffffffffffffffff")


def test_what_cannot_be_sent_is_refused_where_it_is_made() -> None:
    """Bad input: an id that cannot be kept, a request that no record can hold."""
    with pytest.raises(BadInput, match="cannot be a request's id"):
        encode_request(TypeRemovalRequested(RequestId("t", 0), bytes(16), "", "", "T"))
    for name in ("a\nb", "\x1b]0;x\x07", "\u202eic"):
        with pytest.raises(BadInput, match="cannot be a request's id"):
            encode_request(TypeRemovalRequested(RequestId(name, 1), bytes(16), "", "", "T"))
    with pytest.raises(BadInput, match="the limit is"):
        encode_request(TypeRemovalRequested(RequestId("t", 1), bytes(16), "", "x" * q.REQUEST_BYTES_MAX, "T"))


def test_a_refusal_is_the_error_it_stands_for() -> None:
    """A contradiction is a MergeConflict, any other rule's word a Refused with its code."""
    assert isinstance(refusal_of(row(CONFLICT)), MergeConflict)
    refused = refusal_of(row("TYPE_BUSY"))
    assert type(refused) is Refused
    assert refused.code == "TYPE_BUSY"
