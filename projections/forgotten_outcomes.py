"""Requests whose outcome nobody keeps any more: what is said of them, and that nothing comes of sending them again.

This process knows each outcome that it has read, however old; the coordinators know the last ones of a requester, and
that there was something before (K19). Between both lies what it has not read itself, as it began with a snapshot.
"""

from topolog.events import requests
from topolog.events.asked import SEQUENCE_MAX, RequestId
from topolog.events.errors import NotFound, Refused
from topolog.events.forgotten import ForgottenRow
from topolog.events.requesters import highest_of
from topolog.events.requests import RequesterRow
from topolog.events.state import State
from topolog.projections.store import Reading


def is_forgotten(reading: Reading, name: RequestId) -> bool:
    """Whether coordinators no longer keep outcomes so old of this requester, so that they would not answer."""
    return requests.is_forgotten(_known(reading, name.requester), name)


def refusal(reading: Reading, name: RequestId) -> Refused:
    """The error for asking with an id of which no outcome is kept."""
    known = _known(reading, name.requester)
    up_to = requests.forgotten_to(known, name.requester)
    return Refused(
        "OUTCOME_FORGOTTEN",
        "K19",
        f"Request {name} is not carried out: of requests up to {name.requester}/{up_to} the outcomes are no longer "
        "kept, so nobody could say whether it was carried out before.",
        {"forgotten_to": str(up_to)},
        hint=f"See what stands now; to ask anew use {_next(name.requester, highest_of(known, name.requester))}.",
    )


def _next(requester: str, highest: int) -> str:
    if highest == SEQUENCE_MAX:
        return "another requester: this one has no higher number"
    return f"a higher number: {requester}/{highest + 1} is the next"


def no_outcome(reading: Reading, name: RequestId) -> NotFound:
    """The error for a question about a request of which no outcome is known here."""
    if is_forgotten(reading, name):
        return NotFound(
            f"Request {name} is so old that its outcome is no longer kept, nor whether it had one.",
            hint="It is not carried out any more, however often it is sent: see what stands now.",
        )
    return NotFound(
        f"Request {name} has no outcome at position {reading.position}.",
        hint="It was never sent, is not decided yet, or was sent to another cluster.",
    )


def _known(reading: Reading, requester: str) -> State:
    """What the log's rows say of that requester, and of no other."""
    state = State()
    for row in (reading.row(RequesterRow, requester), reading.row(ForgottenRow, requester)):
        if row is not None:
            state.put(requester, row)
    return state
