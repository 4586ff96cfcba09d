"""Rules of lease terms: what they may be changed to, and when a change is confirmed (`events/lease_terms.py`)."""

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.errors import Refused
from topolog.events.ids import Position
from topolog.events.lease_terms import LeaseTermsChanged, LeaseTermsConfirmed, LeaseTermsRequested, contradictions
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import cluster


def decide(state: State, request: LeaseTermsRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    row = cluster(state)
    fence_ms = row.fence_ms if request.fence_ms is None else request.fence_ms
    margin_ms = row.margin_ms if request.margin_ms is None else request.margin_ms
    if (fence_ms, margin_ms) == (row.fence_ms, row.margin_ms):
        return [RequestUnchanged(ref, request.subject, None)]
    given = {"fence_ms": fence_ms, "margin_ms": margin_ms, "heartbeat_ms": row.heartbeat_ms}
    names = (f"the {name.removesuffix('_ms')} ({value} ms)" for name, value in given.items())
    if broken := contradictions(fence_ms, margin_ms, row.heartbeat_ms, *names):
        message = f"{'; '.join(broken)}."
        facts = {name: str(value) for name, value in given.items()}
        raise Refused("BAD_TERMS", "LE36", f"{message[0].upper()}{message[1:]}", facts)
    return [LeaseTermsChanged(ref, fence_ms, margin_ms)]


def settle(state: State, waited_through: Position) -> list[Decision]:
    """The confirmation of a change that has been waited for.

    `waited_through`: every decision up to it was read back at least proceed_ms ago, by the terms in force at each.
    """
    former = cluster(state).former
    if former is None or waited_through < former.changed_at:
        return []
    return [LeaseTermsConfirmed(former.changed_at)]
