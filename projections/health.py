"""Lease health as people see it: what the worker told, held against what is known now.

Threat: a worker that has died leaves a last word behind, and the last word was «punctual». So every answer is measured
by the time of the log, which is that of brokers, like what the worker told: who has said nothing for half a fence is
not believed, and what is shown then is the time since which nothing has been heard. Two brokers' clocks may differ: so
the time since this reader has read the worker's last word counts too, by its own clock, and what lies in the future of
the log is not believed, for a stored word may be read by a process that has not seen it come. Lease health has no past:
it lives in minutes, while decisions are kept for ever.
"""

from collections.abc import Iterable, Mapping

import msgspec

from topolog.events.errors import NotFound
from topolog.events.health import Figures, LeaseHealth, warning_margin_ms
from topolog.events.leases import NodeRow
from topolog.events.terms import ClusterRow
from topolog.projections import queries, resources
from topolog.projections.durations import ago
from topolog.projections.moments import iso
from topolog.projections.queries import cluster_row, not_found
from topolog.projections.sides import HealthRow, WatchRow
from topolog.projections.store import Reading

OK, WARNING, FENCED, SILENT, RELEASED, UNKNOWN = "OK", "WARNING", "FENCED", "SILENT", "RELEASED", "UNKNOWN"
ALARMING = frozenset({WARNING, FENCED, SILENT})

NO_PAST = "Lease health has no past: it says what the heartbeats of the last minutes were like."

_WRONG_CLOCK = "that is ahead of the log's time, so nothing can be told of it. Set the brokers' clocks by one source."


class _Said(msgspec.Struct, frozen=True):
    """A state and why."""

    state: str
    sentence: str


class _Now(msgspec.Struct, frozen=True):
    """What holds for every node of one answer; `log_ms` is the log's time now, by what this reader knows,
    `heard_ago_ms` how long ago it has read the last word about a partition."""

    cluster: ClusterRow
    log_ms: int
    watches: tuple[WatchRow, ...]
    heard_ago_ms: Mapping[int, int]

    def health_ms(self, watch: WatchRow) -> int:
        """The time now on the clock that the worker's words are stamped by, at least."""
        return max(self.log_ms, watch.appended_ms + self.heard_ago_ms.get(watch.heard.partition, 0))

    def is_future(self, time_ms: int) -> bool:
        """Whether no clocks in order could have made it: decisions alone may be silent for half a fence."""
        return time_ms > self.log_ms + self.cluster.fence_ms / 2 + self.cluster.heartbeat_ms


def lease_health(reading: Reading, age_ms: int) -> list[resources.LeaseHealth]:
    """Of every member, in the order in which they joined; `age_ms` is that of the answer."""
    now = _now(reading, age_ms)
    rows = sorted((row for _, row in reading.rows(NodeRow) if row.is_member), key=lambda row: row.joined_at)
    return [_shown(now, row, reading.side(HealthRow, row.node)) for row in rows]


def lease_health_of(reading: Reading, age_ms: int, name: str) -> resources.LeaseHealth:
    row = reading.row(NodeRow, name)
    if row is None or not row.is_member:
        raise _no_member(reading, name)
    return _shown(_now(reading, age_ms), row, reading.side(HealthRow, name))


def nodes(reading: Reading, age_ms: int) -> list[resources.Node]:
    """Every node the cluster has known; the members with the state of their health, which only the present has."""
    found = queries.nodes(reading, age_ms)
    if not reading.is_current:
        return found
    states = {each.node: each.state for each in lease_health(reading, age_ms)}
    return [msgspec.structs.replace(each, health=states.get(each.node)) for each in found]


def node(reading: Reading, age_ms: int, name: str) -> resources.Node:
    """One node, as in `nodes`."""
    found = queries.node(reading, age_ms, name)
    if not reading.is_current or found.standing == "LEFT":
        return found
    return msgspec.structs.replace(found, health=lease_health_of(reading, age_ms, name).state)


def _no_member(reading: Reading, name: str) -> NotFound:
    return not_found(name, (row.node for _, row in reading.rows(NodeRow) if row.is_member), "member")


def _now(reading: Reading, age_ms: int) -> _Now:
    cluster = cluster_row(reading)
    watches = (row for _, row in reading.sides(WatchRow) if row.heard.log_id.hex() == cluster.log_id)
    return _Now(cluster, reading.meta.logged_at_ms + age_ms, tuple(watches), reading.present.heard_ago_ms)


def _shown(now: _Now, node: NodeRow, row: HealthRow | None) -> resources.LeaseHealth:
    health = row.health if row and _is_of(now, node, row.health) else None
    watch = _watch(now.watches, row.health.partition if row else None)
    health_ms = now.health_ms(watch) if watch else now.log_ms
    silent_ms = max(0, health_ms - health.beat_ms) if health else None
    said = _said(now, node, health, watch, health_ms)
    heard_ms = _heard_ms(watch, row if health else None)
    fence_ms, heartbeat_ms = now.cluster.fence_ms, now.cluster.heartbeat_ms
    return resources.LeaseHealth(
        node=node.node,
        state=said.state,
        sentence=said.sentence,
        incarnation=node.incarnation,
        sequence=health.sequence if health else None,
        beat_time=iso(health.beat_ms) if health else None,
        silent_ms=silent_ms,
        lateness_ms=health.lateness_ms if health else None,
        warning_below_ms=warning_margin_ms(fence_ms, heartbeat_ms),
        late_above_ms=now.cluster.margin_ms // 2,
        fence_ms=fence_ms,
        heartbeat_ms=heartbeat_ms,
        window=_figures(health.window, fence_ms, heartbeat_ms) if health else None,
        whole=_figures(health.whole, fence_ms, heartbeat_ms) if health else None,
        minutes=tuple(
            resources.HealthMinute(iso(each.start_ms), _figures(each.figures, fence_ms, heartbeat_ms))
            for each in (health.minutes if health else ())
        ),
        worker=watch.heard.worker if watch else None,
        heard_time=iso(heard_ms) if heard_ms is not None else None,
        heard_age_ms=max(0, health_ms - heard_ms) if heard_ms is not None else None,
        passed_over=watch.heard.passed_over if watch else None,
    )


def _is_of(now: _Now, node: NodeRow, health: LeaseHealth) -> bool:
    return health.log_id.hex() == now.cluster.log_id and health.incarnation == node.incarnation


def _watch(watches: Iterable[WatchRow], partition: int | None) -> WatchRow | None:
    """The last word about the node's partition; while that is not known, the last of all."""
    fitting = [each for each in watches if partition in (None, each.heard.partition)]
    return max(fitting, key=lambda each: each.appended_ms, default=None)


def _heard_ms(watch: WatchRow | None, row: HealthRow | None) -> int | None:
    """When the worker said a word last that is shown: a word about the node is one too, also behind its last sign of
    life. So nobody is silent for less long than the worker that heard of him."""
    words = [each.appended_ms for each in (watch, row) if each]
    return max(words) if watch and words else None


def _said(now: _Now, node: NodeRow, health: LeaseHealth | None, watch: WatchRow | None, now_ms: int) -> _Said:
    cluster = now.cluster
    doubt = _doubt(now, watch, now_ms)
    if doubt or health is None:
        return _Said(UNKNOWN, doubt or f"No heartbeat of {node.node}'s incarnation has been measured yet.")
    if now.is_future(health.beat_ms):
        return _Said(UNKNOWN, f"{node.node}'s last heartbeat is stamped {iso(health.beat_ms)}: {_WRONG_CLOCK}")
    silent_ms = now_ms - health.beat_ms
    if health.released:
        return _Said(RELEASED, f"{node.node} has said that it stops.")
    if silent_ms >= cluster.fence_ms:
        return _Said(SILENT, f"{node.node} has been silent for {ago(silent_ms)}, which is more than its fence.")
    if health.fenced:
        return _Said(FENCED, f"{node.node} held no valid lease when it was heard last, {ago(silent_ms)} ago.")
    return _said_of_margin(cluster, health, silent_ms)


def _doubt(now: _Now, watch: WatchRow | None, now_ms: int) -> str:
    """Why nothing can be said of any node, if so."""
    how = "`topolog run lease-health` measures it, and `topolog up` runs that."
    if watch is None:
        return f"No lease health has been heard of yet: {how}"
    if now.is_future(watch.appended_ms):
        return f"Lease health's last word is stamped {iso(watch.appended_ms)}: {_WRONG_CLOCK}"
    age_ms = now_ms - watch.appended_ms
    if age_ms >= now.cluster.fence_ms / 2:
        return f"No lease health has been heard since {iso(watch.appended_ms)}, {ago(age_ms)} ago: {how}"
    if not watch.heard.at_end:
        return "Lease health is still reading heartbeats of the past."
    return ""


def _said_of_margin(cluster: ClusterRow, health: LeaseHealth, silent_ms: int) -> _Said:
    fence_ms, heartbeat_ms = cluster.fence_ms, cluster.heartbeat_ms
    limit_ms = warning_margin_ms(fence_ms, heartbeat_ms)
    window, name = health.window, health.node
    margin_ms = window.margin_ms(fence_ms)
    if (left_ms := fence_ms - silent_ms) < limit_ms:
        return _Said(WARNING, f"{name} has been silent for {silent_ms} ms: {left_ms} of {fence_ms} ms are left.")
    if margin_ms is not None and margin_ms < limit_ms:
        left = f"{margin_ms} of {fence_ms} ms were left" if margin_ms > 0 else f"none of {fence_ms} ms was left"
        return _Said(WARNING, f"{name}'s heartbeats come late: {left} when one came; below {limit_ms} is half eaten.")
    if pause := _pause(cluster, window.gap_max_ms - heartbeat_ms if window.gaps else 0):
        return _Said(WARNING, f"{name}{pause}")
    if window.is_flapping:
        return _Said(WARNING, f"{name} flaps: {window.starts} starts and {window.returns} returns in ten minutes.")
    smallest = f", smallest margin {margin_ms} of {fence_ms} ms" if margin_ms is not None else ""
    return _Said(OK, f"{name}'s heartbeats come in good time{smallest}.")


def _pause(cluster: ClusterRow, late_ms: int) -> str:
    """What is to be said of a heartbeat that was late by more than half of margin_ms, which is all that others wait
    beyond a lease; the worst is said of one that was late by more than all of it.

    A process that stands still behind a check, for as long, acts that long behind the end of its lease.
    """
    if late_ms * 2 <= cluster.margin_ms:
        return ""
    share = "all" if late_ms > cluster.margin_ms else "more than half"
    return (
        f"'s heartbeats come up to {late_ms} ms late: a pause as long behind a lease check takes {share} of the margin "
        f"of {cluster.margin_ms} ms that others wait. `topolog cluster lease-terms --margin` gives it more."
    )


def _figures(figures: Figures, fence_ms: int, heartbeat_ms: int) -> resources.HealthFigures:
    return resources.HealthFigures(
        beats=figures.beats,
        margin_ms=figures.margin_ms(fence_ms),
        lateness_mean_ms=figures.lateness_mean_ms,
        lateness_max_ms=max(0, figures.gap_max_ms - heartbeat_ms) if figures.gaps else None,
        jitter_ms=figures.jitter_mean_ms,
        missed=figures.missed,
        lost=figures.lost,
        fencings=figures.fencings,
        returns=figures.returns,
        starts=figures.starts,
        strays=figures.strays,
    )
