"""The names under which processes number their requests, and how far ahead a number may be.

Threat. A requester is silenced for ever by one request in its name that is numbered 2^62: all that it asks from then on
is older than what is kept. Names stand in the log, where everybody reads them, and those of a process's further lanes
can be guessed.

How it works. On `requests` a requester is called `<name>-<number>`: the name is that of the process, which the request
says too, the number one that it has drawn, in 16 hexadecimal digits; `.join`, or the number of a lane, may stand behind
it. And a number is at most AHEAD_MAX above the highest that has its outcome: who counts as `OpenRequests` does is never
further. Where one of both is not so the record is a dead letter. It gets no outcome: that would count in the name of
somebody else. Nothing of this is asked of `operations`: what stands there is the API's, and of its callers it takes
only their own numbers.

What this does not do: a name says nothing of who has written it. Of those that may write `requests` each can write in
the name of another, and number by number also use up the numbers of a requester (docs/security.md).
"""

import re

from topolog.events.forgotten import highest_remembered
from topolog.events.requests import OUTCOMES_KEPT, RequesterRow
from topolog.events.state import State

NAME_CHARS_MAX = 150
"""Of a longer name of a process its requesters have the end: of the 200 characters of a requester the rest is for its
number, for what stands behind that, and for the number of a lane, however many have been given up."""

AHEAD_MAX = OUTCOMES_KEPT
"""How far a number may be above the highest that has its outcome. Of one further ahead the outcomes of numbers that are
yet to come would be forgotten at once: no requester of ours leaves more open."""

_JOIN, _OPERATIONS = ".join", ".op"
_REQUESTER = re.compile(rf"(?s:(.+))-[0-9a-f]{{16}}(?:{re.escape(_JOIN)}|\.[0-9]+)?")


def requester_of(name: str, process_number: int) -> str:
    """By what the process of this name numbers what it asks on `requests`. `process_number`: one of 64 bits that no
    other process has drawn; for each of its joinings a node has drawn another, the incarnation."""
    return f"{name[-NAME_CHARS_MAX:]}-{process_number:016x}"


def joining(requester: str) -> str:
    """By what that process numbers its joining, however many other requests of it are open."""
    return f"{requester}{_JOIN}"


def operating(requester: str) -> str:
    """By what that process numbers what it asks on `operations`: each topic has an order of its own."""
    return f"{requester}{_OPERATIONS}"


def requester_of_api(process_number: int) -> str:
    """That of an API that has drawn a number of 40 bits: one that no process can have on `requests`."""
    return f"api-{process_number:010x}"


def is_of(requester: str, name: str) -> bool:
    """Whether a process of this name may number by this requester on `requests`."""
    found = _REQUESTER.fullmatch(requester)
    return found is not None and bool(name) and found[1] == name[-NAME_CHARS_MAX:]


def is_of_process(requester: str) -> bool:
    """Whether some process may number by this requester on `requests`."""
    return _REQUESTER.fullmatch(requester) is not None


def highest_of(state: State, requester: str) -> int:
    """The highest number that has its outcome, also where that is forgotten; 0 of a requester that nobody remembers."""
    row = state.get(RequesterRow, requester)
    return row.highest if row else highest_remembered(state, requester)
