"""Lease terms that are changed while nodes hold leases: how long a lease runs, and how long everybody else waits.

Threats. A shorter fence counts for those who wait before the last lease by the longer one is over: a node serves what
the others have gone on without. A longer fence is in force at a node, and somebody still waits by the shorter one. The
coordinator changes in between, and its successor knows of the new terms only (LE37).

Invariant. Whoever has waited for a decision as long as the terms in force at its position say knows: every node has
applied it or refuses to serve. It is that of `membership.py`, with terms that change.

Argument. The terms are decisions, so each echo in the log has its own: those of the newest LeaseTermsChanged before it,
and a node takes them from there, for it has applied what stands before the echo. Let change e be in the log by time w.
A lease by the terms before e rests on an echo before e, hence on a heartbeat that was sent before w, and is over at w +
fence_ms by those terms. A lease by the new terms rests on an echo behind e. For a decision before e only the former
kind matters: the wait that it began with is enough, even if the fence is raised. For a decision d behind e both do, so
it takes the longer of both waits, from d on. Once e itself has been waited for that long no lease by the former terms
is left anywhere, and LeaseTermsConfirmed says so: decisions from then on take the new wait alone. Nobody's word can
shorten this: a node that has applied e still holds the lease that it got before.

What a change leaves behind is kept in the cluster's row until it is confirmed (`FormerTerms`), so a new coordinator
begins every wait anew with the longer one. A second change before that keeps the largest wait and the smallest fence of
all that came before it, and is what is confirmed then: one that has been waited for has all before it waited for.

Whoever waits takes the largest proceed_ms in force. Whoever has to be heard of in time takes the smallest fence: the
leader's sign of life, the silence that lets a stand-by act, how long a coordinator may fail to listen.
"""

from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.ids import Place, Position
from topolog.events.requests import grant
from topolog.events.state import State
from topolog.events.terms import FormerTerms, cluster

BEATS_PER_FENCE_MIN = 5
"""A few lost heartbeats must not cost a lease."""

MARGIN_PERCENT_MIN = 5
"""Of the fence. Two clocks that are both 1 % wrong take 2 % of it (LE36), the rest is for a pause behind a check."""

MARGIN_MS_MIN = 50
"""Even a process that is well is not scheduled for as long now and then."""

TERM_MS_MAX = 600_000
"""Ten minutes, of either: nobody waits that long for one silent node, and heartbeats are kept for an hour only."""


class LeaseTermsRequested(Request, frozen=True):
    """What is None stays as it is."""

    SUBJECT: ClassVar[str] = "lease-terms"

    fence_ms: int | None = None
    margin_ms: int | None = None


class LeaseTermsChanged(Decision, frozen=True):
    """The terms of every lease whose echo stands behind this; whoever waits takes the longer of both for now."""

    request: RequestRef
    fence_ms: int
    margin_ms: int


class LeaseTermsConfirmed(Decision, frozen=True):
    """No lease rests on terms from before the change at `changed` any more."""

    changed: Position


LeaseTermsEvent = LeaseTermsChanged | LeaseTermsConfirmed


def contradictions(
    fence_ms: int,
    margin_ms: int,
    heartbeat_ms: int,
    fence: str = "the fence",
    margin: str = "the margin",
    heartbeat: str = "the heartbeat",
) -> list[str]:
    """What does not hold of these terms, in words that call them by the names given; empty if they go together."""
    relations = {
        f"{fence} must be at least {BEATS_PER_FENCE_MIN} × {heartbeat}: a few lost heartbeats are normal": (
            BEATS_PER_FENCE_MIN * heartbeat_ms <= fence_ms
        ),
        f"{margin} must be at least {MARGIN_PERCENT_MIN} % of {fence}: clocks drift and processes pause": (
            margin_ms * 100 >= fence_ms * MARGIN_PERCENT_MIN
        ),
        f"{margin} must be at least {MARGIN_MS_MIN} ms: processes pause": margin_ms >= MARGIN_MS_MIN,
        f"{fence} must be at most {TERM_MS_MAX} ms": fence_ms <= TERM_MS_MAX,
        f"{margin} must be at most {TERM_MS_MAX} ms": margin_ms <= TERM_MS_MAX,
    }
    return [text for text, holds in relations.items() if not holds]


def evolve(state: State, event: LeaseTermsEvent, place: Place) -> None:
    row = cluster(state)
    match event:
        case LeaseTermsChanged():
            former = FormerTerms(place.position, row.fence_min_ms, row.proceed_ms)
            terms = {"fence_ms": event.fence_ms, "margin_ms": event.margin_ms}
            state.put("", msgspec.structs.replace(row, **terms, former=former))
            grant(state, event.request, place, "lease-terms")
        case LeaseTermsConfirmed():
            assert row.former is not None, "terms are confirmed that nobody changed"
            assert row.former.changed_at == event.changed, "another change of terms is confirmed than the last one"
            state.put("", msgspec.structs.replace(row, former=None))
