"""Who is waited for, and for how long at most: what `explain` says of things that are not settled.

Who is asked comes from the rules the coordinator decides by (`streams/rules/verdict.py`). Acknowledgements are not in
the log, so all who were asked are named, whether they have answered or not. How long at most is counted from the time
the log took the decision that began the wait to this process's time of day, of a past position to its own time; a new
coordinator begins it again.
"""

import time
from collections.abc import Mapping

import msgspec

from topolog.events.exchange import HandOverRow
from topolog.events.ids import Position
from topolog.events.leases import FENCING, NodeKind, NodeRow, Standing
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import RemovalRow, TypeRow
from topolog.events.object_types import type_id
from topolog.events.objects import ChangeRow
from topolog.events.requests import OutcomeRow, Status
from topolog.projections import change_rows, exchanges, queries
from topolog.projections.resources import Awaited
from topolog.projections.store import Reading
from topolog.streams.rules.verdict import holders


class Wait(msgspec.Struct, frozen=True):
    """Who was asked, and in `facts` what for and how long at most; empty if nothing is waited for."""

    asked: tuple[Awaited, ...] = ()
    facts: Mapping[str, str] = {}


NOTHING = Wait()


def wall_ms() -> int:
    """The time of day of the process that answers; decisions carry that of the broker, which may be a little off."""
    return time.time_ns() // 1_000_000


class Span(msgspec.Struct, frozen=True):
    """`after_ms` from the decision at `begun` on; `left_ms` of it are left."""

    begun: Position
    after_ms: int
    left_ms: int

    def __str__(self) -> str:
        return f"{self.after_ms} ms after position {self.begun}, of which {self.left_ms} ms are left"


def for_type(reading: Reading, row: TypeRow) -> Wait:
    """For the verdict on the version or the removal that is pending."""
    removal = reading.row(RemovalRow, str(row.type_id))
    if removal is not None:
        return for_verdict(reading, removal.position)
    return for_verdict(reading, row.proposed_at) if row.pending_version > row.accepted_version else NOTHING


def for_node(reading: Reading, name: str) -> Wait:
    """For a node that is being removed to be out."""
    row = reading.row(NodeRow, name)
    if row is None or row.standing is not Standing.STOPPING or row.stopped_at is None:
        return NOTHING
    span = _lease_span(reading, row)
    facts = {"waits for": "its word that it has stopped, or the end of its lease", "waits at most": str(span)}
    return Wait((Awaited(row.node, row.stopped_at, span.left_ms),), facts)


def for_join(reading: Reading, waiting: WaitingJoinRow) -> Wait:
    """For the lease of the node's former incarnation."""
    former = reading.row(NodeRow, waiting.joiner.node)
    assert former is not None, "a join waits for a node that was never there"
    span = _lease_span(reading, former)
    asked = Awaited(former.node, waiting.position, span.left_ms)
    return Wait((asked,), {"waits for": f"the end of incarnation {waiting.former}'s lease", "waits at most": str(span)})


def for_hand_over(reading: Reading, row: HandOverRow) -> tuple[Awaited, str]:
    """For the former primary to have drained; the words for how long at most."""
    span = longest_wait(reading, row.prepared_at)
    node = reading.row(NodeRow, row.node)
    if node is not None and FENCING in node.capabilities:
        at_most = f"{row.node} has to drain, or it is presumed to have stopped {span}"
        return Awaited(row.node, row.prepared_at, span.left_ms), at_most
    return Awaited(
        row.node, row.prepared_at, None
    ), f"{row.node} has to drain; it does not fence itself, so no time ends that"


def for_terms(reading: Reading) -> Wait:
    """For a change of lease terms to be confirmed: nobody's answer ends that earlier."""
    former = queries.cluster_row(reading).former
    if former is None:
        return NOTHING
    span = longest_wait(reading, former.changed_at)
    return Wait((), {"waits for": "the end of every lease by the former terms", "waits at most": str(span)})


def for_exchange(reading: Reading) -> Wait:
    """For the exchange that is open to end: the servers whose answer it may wait for."""
    row = exchanges.open_row(reading)
    if row is None:
        return Wait((), {"waits for": "its exchange, which has not begun yet"})
    asked = tuple(Awaited(each.node, each.at, None) for each in row.awaited)
    return Wait(asked, {"waits for": f"exchange {row.version}: `topolog explain exchange {row.version}`"})


def for_request(reading: Reading, row: OutcomeRow) -> Wait:
    """For what was granted to hold everywhere."""
    if row.status is Status.REFUSED or queries.has_taken_effect(reading, row):
        return NOTHING
    kind, _, name = row.subject.partition(" ")
    if kind == "lease-terms":
        return for_terms(reading)
    if kind == "node":
        return for_node(reading, name)
    if kind in ("group", "exchange"):
        return for_exchange(reading)
    if kind == "change":
        return for_change(reading, change_rows.row_ever(reading, int(name)))
    about = reading.row(TypeRow, str(type_id(name)))
    return for_type(reading, about) if about else NOTHING


def for_change(reading: Reading, row: ChangeRow | None) -> Wait:
    """For a change of objects to be over."""
    if row is None or not row.is_open:
        return NOTHING
    facts = {"waits for": f"change {row.number}: `topolog explain change {row.number}`"}
    if row.prepared_at is None:
        return Wait((), facts)
    wait = for_verdict(reading, row.prepared_at)
    return Wait(wait.asked, {**facts, **wait.facts})


def for_verdict(reading: Reading, position: Position) -> Wait:
    """Servers whose answer the verdict at this position asks for; one that does not fence itself must give it."""
    span = longest_wait(reading, position)
    asked = tuple(
        Awaited(row.node, position, span.left_ms if FENCING in row.capabilities else None)
        for row in holders(reading.state(NodeRow), position)
    )
    facts = {"waits at most": str(span)} if any(each.at_most_ms is not None for each in asked) else {}
    endless = ", ".join(each.node for each in asked if each.at_most_ms is None)
    return Wait(asked, facts | ({"waits without end": f"until {endless} answers or is removed"} if endless else {}))


def _lease_span(reading: Reading, row: NodeRow) -> Span:
    """Until the lease of a member is over if nothing renews it.

    As of the past the last renewal is not kept; of a node that is stopped it is known that none came later.
    """
    lease = queries.lease_row(reading, row)
    since = lease.renewed_at if lease else row.stopped_at or row.joined_at
    if row.kind is NodeKind.SERVER:
        return longest_wait(reading, since)
    return span_since(reading, since, queries.cluster_row(reading).fence_ms)


def longest_wait(reading: Reading, since: Position) -> Span:
    """Until a silent server is presumed fenced for the decision there, by the terms then in force; a shorter fence that
    is confirmed meanwhile may end it earlier."""
    terms = queries.cluster_row(reading.as_of(max(since, queries.cluster_row(reading).led_since)))
    return span_since(reading, since, terms.proceed_ms)


def span_since(reading: Reading, since: Position, after_ms: int) -> Span:
    begun = max(since, queries.cluster_row(reading).led_since)
    newest_ms, begun_ms = (reading.surely_decision(each).logged_at_ms for each in (reading.position, begun))
    now_ms = max(newest_ms, wall_ms()) if reading.is_current else newest_ms
    return Span(begun, after_ms, max(0, after_ms - (now_ms - begun_ms)))
