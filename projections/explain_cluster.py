"""Why the cluster is as it is: who leads, what its state and its baseline are, and what ends what is not as usual."""

from collections.abc import Iterator, Sequence
from heapq import merge

from topolog.events.baseline import StateChangeFinished
from topolog.events.cluster_state import ClusterState
from topolog.events.ids import Position
from topolog.projections import baselines, heard, patience, pending, queries, situation
from topolog.projections.durations import ago
from topolog.projections.explain import in_words, last_causes, with_next
from topolog.projections.layout import Decided
from topolog.projections.moments import iso
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Cluster, Explanation
from topolog.projections.store import Reading

_ABOUT = ("cluster", "cluster state", "baseline")
_PENDING_MAX = 5


def explain_cluster(reading: Reading, age_ms: int) -> Explanation:
    """Who leads and since when; why it does not serve, waits or is about to change, and what ends that."""
    waits = pending.pending(reading, age_ms)
    cluster = situation.cluster(reading, age_ms, waits)
    facts = {
        "term": f"{cluster.term}, led by {cluster.coordinator or 'nobody'} since position {cluster.led_since}",
        "lease": f"a node stops {cluster.fence_ms} ms after its last confirmed heartbeat; others go on without it "
        f"after {cluster.proceed_ms} ms",
        **dict(_of_leases(reading, age_ms, cluster)),
        **dict(_of_terms(reading, cluster)),
        "topology version": cluster.topology_version,
        **dict(_of_state(reading, cluster)),
        **dict(_of_baseline(cluster)),
        **dict(_of_pending(waits)),
    }
    positions = merge(*(reading.positions(subject=about) for about in _ABOUT), reverse=True)
    decided = (reading.surely_decision(position) for position in positions)
    found = Explanation(cluster.sentence, facts, last_causes(decided), cluster.awaited)
    first = waits[0].next[:1] if waits else ()
    return with_next(found, *first, "topolog get pending", "topolog history cluster")


def _of_leases(reading: Reading, age_ms: int, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """When the silent were heard last, else who was heard the longest ago; nothing of the past."""
    if not reading.is_current:
        return
    named = cluster.silent or tuple(each.node for each in (cluster.least_heard,) if each)
    for node in named[:_PENDING_MAX]:
        lease = queries.lease(reading, age_ms, node)
        yield f"{'silent' if cluster.silent else 'heard least'}: {node}", heard.in_words(lease)


def _of_pending(waits: Sequence[Pending]) -> Iterator[tuple[str, str]]:
    """The worst of what is not over; `topolog get pending` has all of it."""
    for each in waits[:_PENDING_MAX]:
        yield f"pending: {each.name}", pending.told(each)
    if len(waits) > _PENDING_MAX:
        yield "also pending", f"{len(waits) - _PENDING_MAX} more: `topolog get pending`"


def _of_terms(reading: Reading, cluster: Cluster) -> Iterator[tuple[str, str]]:
    former = cluster.former_terms
    if former is not None:
        changed = Position(former.changed_at)
        yield "terms changed", _by(reading.surely_decision(changed), changed).removeprefix(", begun ")
        yield "former terms", f"others wait {former.proceed_ms} ms by them, for {ago(former.left_ms)} more at most"


def _of_state(reading: Reading, cluster: Cluster) -> Iterator[tuple[str, str]]:
    if cluster.baseline is None and cluster.state == ClusterState.ACTIVE.value and cluster.target is None:
        return
    yield "state", f"{cluster.state}{_since(reading, Position(cluster.state_since))}"
    if cluster.target is not None and cluster.changing_since is not None:
        started = Position(cluster.changing_since)
        yield "on its way to", f"{cluster.target}{_by(reading.surely_decision(started), started)}"
        for what, span in patience.for_verdict(reading, started).facts.items():
            yield f"the change {what}", span
    elif cluster.state == ClusterState.INACTIVE.value:
        yield "ends when", _end_of_inactive(reading, cluster)
    elif cluster.state == ClusterState.ACTIVE_READ_ONLY.value:
        yield "ends with", "`topolog cluster activate`"
    if cluster.cold is not None:
        yield "cold", _cold(cluster)
        ends = (
            f"{cluster.cold.quorum} members of the baseline are online. `topolog baseline warm` goes on without the "
            "others: what only they have is lost then, and with --dry-run it says how much that is"
        )
        yield "ends when", ends
    if cluster.held and cluster.state != ClusterState.INACTIVE.value:
        yield "held", "nothing activates or adjusts by itself; `topolog baseline hold --off` lets it go"


def _since(reading: Reading, position: Position) -> str:
    """Where the state was reached, and who had asked for it."""
    event = reading.surely_decision(position).event
    if not isinstance(event, StateChangeFinished):
        return " since the log began"
    started = reading.surely_decision(event.started)
    return f" since position {position}{_by(started, event.started)}; {in_words(event.evidence)}"


def _by(decided: Decided, position: Position) -> str:
    """Who asked, and why."""
    asked = f" by {decided.asked_by}" if decided.asked_by else ""
    reason = f": {decided.asked_for}" if decided.asked_for else ""
    return f", begun at position {position}, {iso(decided.logged_at_ms)}{asked}{reason}"


def _end_of_inactive(reading: Reading, cluster: Cluster) -> str:
    if cluster.held or cluster.baseline is None:
        return "somebody says `topolog cluster activate`: it is held, so it does not activate by itself"
    away, resumes = _listed(cluster.baseline.away), baselines.state_row(reading).resumes.value
    return f"all members of the baseline are online ({away} away): it is {resumes} then. Or `topolog cluster activate`"


def _cold(cluster: Cluster) -> str:
    assert cluster.cold is not None, "asked only of a cold cluster"
    return (
        f"since position {cluster.cold.since}, {cluster.cold.time}: {_listed(cluster.cold.awaited)} left together, and "
        "partitions would lose their last owner; what has an owner is served"
    )


def _of_baseline(cluster: Cluster) -> Iterator[tuple[str, str]]:
    now, adjust = cluster.baseline, cluster.auto_adjust
    if now is None:
        return
    yield "baseline", f"{now.number}: {_listed(now.members)}"
    if now.away:
        drop = f"; `topolog baseline remove {now.away[0]}` gives its copies to others" if _may_remove(cluster) else ""
        yield "members that are away", f"{_listed(now.away)}{drop}"
    if now.outsiders:
        yield "not in the baseline", f"{_listed(now.outsiders)}: `topolog baseline add {now.outsiders[0]}`"
    if cluster.draining:
        yield "hands over all copies", f"{_listed(cluster.draining)}: `topolog get maps --node {cluster.draining[0]}`"
    if not adjust.enabled:
        yield "auto-adjust", "off"
        return
    terms = f"on, {ago(adjust.soft_ms)} after the last join or leave, {ago(adjust.hard_ms)} after the first"
    yield "auto-adjust", terms
    if adjust.due_in_ms is not None:
        does = [f"adds {_listed(adjust.adds)}"] if adjust.adds else []
        does += [f"drops {_listed(adjust.drops)}"] if adjust.drops else []
        yield "next adjustment", f"{' and '.join(does) or 'nothing'}, in {ago(adjust.due_in_ms)} at the latest"
    if adjust.suppressed:
        yield "is held back", adjust.suppressed


def _may_remove(cluster: Cluster) -> bool:
    """Whether to remove who is away may be the right thing to do: not while a power cut or a stop waits for them."""
    is_settled = cluster.target is None and cluster.state != ClusterState.INACTIVE.value
    return is_settled and cluster.cold is None and not cluster.auto_adjust.enabled


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"
