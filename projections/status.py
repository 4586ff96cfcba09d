"""The cluster at a glance: whether it is well, why not, who is silent and what hangs on it, what went wrong last.

It is made of what the other answers are made of, at one position: the headline of the cluster, what is pending, leases.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from topolog.events.baseline import ClusterCold
from topolog.events.exchange import ExchangeOverdue, PartitionsLost
from topolog.events.fold import Event
from topolog.events.ids import Position
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeLeft
from topolog.events.requests import RequestRefused
from topolog.events.terms import TermEnded, TermStarted
from topolog.events.views import REFUSED_KINSHIPS
from topolog.projections import partitions, pending, queries, silence, situation
from topolog.projections.cause_words import NEXT_MAX
from topolog.projections.durations import ago
from topolog.projections.headline import is_bad, stopped
from topolog.projections.layout import Decided
from topolog.projections.moments import iso, position_time
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Cluster, Lease
from topolog.projections.sentences import counted, listed
from topolog.projections.status_resources import BadEvent, Leader, SilentMember, Status, StoppedPartitions
from topolog.projections.store import Reading

_WORST_FIRST = ("NONE", "OVERDUE", "SILENT", "VALID")
"""States of leases."""

_WAITS_MAX = 5
_BAD_EVENTS = 5
LOOKED_THROUGH = 2_000
"""Decisions among which bad ones are looked for: to read them takes some 30 ms of the API's processor."""


def status(reading: Reading, age_ms: int) -> Status:
    """`age_ms` is that of the answer. Of the past it is told but for silences, for renewals are not kept."""
    found = pending.pending(reading, age_ms)
    cluster = situation.cluster(reading, age_ms, found)
    leases = [lease for lease in queries.leases(reading, age_ms) if lease.state]
    why = (*_of_reader(reading, age_ms, cluster), *cluster.news, *_of_service(cluster))
    states = Counter(str(lease.state) for lease in leases)
    bad, waits = [each for each in found if is_bad(each)], [each for each in found if not is_bad(each)]
    return Status(
        name=cluster.name,
        is_well=not why,
        sentence=cluster.sentence,
        why=why,
        leader=_leader(reading, age_ms, cluster),
        members=cluster.members,
        leases={state: count for state in _WORST_FIRST if (count := states[state])},
        silent=tuple(_silent(reading, leases, found)),
        stopped=tuple(StoppedPartitions(each.group, each.condition.name, each.count) for each in stopped(reading)),
        refused_joins=tuple(held.node for each in bad if each.kind == "REFUSED-JOIN" for held in each.waits_for),
        waits=tuple(waits[:_WAITS_MAX]),
        waits_in_all=len(waits),
        bad_events=tuple(islice(_bad_events(reading), _BAD_EVENTS)),
        looked_through=LOOKED_THROUGH,
        next=_next(reading, cluster, bad, waits),
    )


def _next(reading: Reading, cluster: Cluster, bad: Sequence[Pending], waits: Sequence[Pending]) -> tuple[str, ...]:
    first = [each.next[0] for each in (*bad, *waits)]
    if cluster.state != "ACTIVE":
        first.insert(0, "topolog cluster activate --dry-run")
    if reading.is_current and reading.present.stopped:
        first.insert(0, "topolog doctor")
    return tuple(dict.fromkeys([*first[: NEXT_MAX - 1], "topolog get pending" if first else "topolog explain cluster"]))


def _of_reader(reading: Reading, age_ms: int, cluster: Cluster) -> Iterator[str]:
    if reading.is_current and age_ms > cluster.fence_ms:
        yield f"What is shown is {ago(age_ms)} old: more than a lease lasts."


def _of_service(cluster: Cluster) -> Iterator[str]:
    """Whether it serves in full, and with all who should be there."""
    if cluster.state == "INACTIVE":
        yield "The cluster is INACTIVE: nothing is read or written."
    elif cluster.state != "ACTIVE":
        yield f"The cluster is {cluster.state}: nothing is written."
    if cluster.baseline is not None and (away := cluster.baseline.away):
        yield f"Of baseline {cluster.baseline.number} {'is' if len(away) == 1 else 'are'} away: {listed(away)}."


def _leader(reading: Reading, age_ms: int, cluster: Cluster) -> Leader:
    since = Position(cluster.led_since)
    clock = silence.clock(reading, queries.cluster_row(reading), age_ms)
    return Leader(
        cluster.coordinator,
        cluster.term,
        since,
        position_time(reading, since),
        clock.leader_silent_ms if clock else None,
        clock.is_leader_silent if clock else None,
    )


def _silent(reading: Reading, leases: Sequence[Lease], found: Sequence[Pending]) -> Iterator[SilentMember]:
    """Those that are pending as silent, the longest silent first."""
    named = {held.node for each in found if each.kind == "SILENT" for held in each.waits_for}
    if not named:
        return
    primaries: dict[str, dict[str, int]] = {node: {} for node in named}
    for held in partitions.maps(reading, {}):
        if held.node in named and held.primaries:
            primaries[held.node][held.group] = held.primaries
    for lease in sorted(leases, key=lambda lease: -(lease.age_ms or 0)):
        if lease.node in named and lease.renewed_at is not None:
            yield SilentMember(
                node=lease.node,
                lease=lease.state or "",
                renewed_at=lease.renewed_at,
                renewed_time=lease.renewed_time or "",
                age_ms=lease.age_ms or 0,
                fenced_in_ms=lease.fenced_in_ms or 0,
                out_in_ms=lease.out_in_ms,
                primary_of=primaries[lease.node],
                awaited_by=tuple(_awaiting(lease.node, found)),
            )


def _awaiting(node: str, found: Sequence[Pending]) -> Iterator[str]:
    for each in found:
        if each.kind != "SILENT" and node in [held.node for held in each.waits_for]:
            yield each.name


def _bad_events(reading: Reading) -> Iterator[BadEvent]:
    """What went wrong, newest first."""
    for decided in islice(reading.decisions(), LOOKED_THROUGH):
        if decided.event_name in _LOOKED_FOR and (said := _said(reading, decided)):
            time = iso(decided.logged_at_ms)
            yield BadEvent(decided.position, time, decided.event_name, decided.subject, said)


_LOOKED_FOR = frozenset(
    each.__name__ for each in (NodeLeft, PartitionsLost, ExchangeOverdue, ClusterCold, RequestRefused, TermStarted)
)
_LEFT = {
    LeaveReason.FENCED: "its lease ran out in silence",
    LeaveReason.DIED: "its process died",
    LeaveReason.STUCK: "it kept an exchange waiting for too long",
}


def _said(reading: Reading, decided: Decided) -> str:
    """What is bad about a decision, empty if nothing is."""
    event: Event = decided.event
    match event:
        case NodeLeft() if event.reason in _LEFT:
            return f"{event.node} is out: {_LEFT[event.reason]}."
        case PartitionsLost():
            return f"{counted(len(event.partitions), 'partition')} of group {event.group} lost."
        case ExchangeOverdue():
            return f"{listed(event.awaited)} had not answered for long; the last exchange was completed without."
        case ClusterCold():
            return "The cluster went cold."
        case RequestRefused() if event.code in REFUSED_KINSHIPS:
            return f"{event.subject.removeprefix('node ')} was refused: {event.code}."
        case TermStarted() if decided.position and not _ended_in_order(reading, decided.position):
            return f"{event.instance} took over, and the coordinator before had not ended its term."
    return ""


def _ended_in_order(reading: Reading, position: Position) -> bool:
    """Whether the coordinator before has said that it stops, or there was none."""
    before = reading.decision(position - 1)
    return before is None or before.position == 0 or before.event_name == TermEnded.__name__
