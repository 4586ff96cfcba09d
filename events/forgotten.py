"""What is remembered of a requester that is forgotten: up to which number its requests are over (K19).

Threat: a request that is sent again long after its requester was idle for a day (by a pipeline after a weekend, by a
replayed dead letter, by a topic that was mirrored or restored) would be a new one and be carried out a second time. So
whoever is forgotten leaves its highest number. Requests up to that are never carried out: their outcome is no longer
kept, nor is whether they had one. What is above it begins a new window, of which the number is the floor.

The rows are bounded. Once there are more than REMEMBERED_MAX, those that were forgotten first go until REMEMBERED_LEAST
are left, so that they are sorted once in some thousand forgettings. A request of a requester that is not remembered any
more is a new one.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from topolog.events.ids import Position
from topolog.events.state import Row, State

REMEMBERED_MAX = 65_536
REMEMBERED_LEAST = 61_440


class ForgottenRow(Row, frozen=True):
    """A requester that is forgotten: no request up to `highest` is carried out; `at` is where it was forgotten."""

    KIND: ClassVar[str] = "forgotten-requester"

    highest: int
    at: Position


def highest_remembered(state: State, requester: str) -> int:
    """The highest number of a requester that is forgotten; 0 of one that is not, or is not remembered."""
    row = state.get(ForgottenRow, requester)
    return row.highest if row else 0


def remember(state: State, highest: Mapping[str, int], at: Position) -> None:
    """These requesters are forgotten at this position, having come so far."""
    for requester, number in highest.items():
        state.put(requester, ForgottenRow(number, at))
    if state.count(ForgottenRow) > REMEMBERED_MAX:
        _evict(state, oldest(state)[:-REMEMBERED_LEAST])


def oldest(state: State) -> list[str]:
    """The requesters that are remembered, in the order in which they were forgotten; those of one decision by name. No
    reader has them in an order of its own, for some have begun with a snapshot."""
    return [requester for _, requester in sorted((row.at, requester) for requester, row in state.rows(ForgottenRow))]


def _evict(state: State, requesters: Iterable[str]) -> None:
    for requester in requesters:
        state.drop(ForgottenRow, requester)
