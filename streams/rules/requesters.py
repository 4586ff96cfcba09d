"""Rules of requesters: one that has been idle for a day is forgotten, by a decision (K19)."""

from collections.abc import Iterable

from topolog.events.decision import Decision
from topolog.events.requests import IDLE_REQUESTER_MS, RequesterRow, RequestersForgotten
from topolog.streams.rules.deadlines import Deadline

FORGOTTEN_MAX = 1_000
"""Requesters in one decision; the rest follow in the next."""


def deadlines(requester: str, row: RequesterRow) -> list[Deadline]:
    return [Deadline(f"idle/{row.last_at}/{requester}", row.last_at, IDLE_REQUESTER_MS)]


def settle(idle: Iterable[str]) -> list[Decision]:
    """`idle`: keys of requesters' deadlines that have passed."""
    names = tuple(sorted(key.split("/", 2)[2] for key in idle)[:FORGOTTEN_MAX])
    return [RequestersForgotten(names)] if names else []
