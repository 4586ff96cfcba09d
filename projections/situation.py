"""The cluster as a whole: in one sentence, the worst first, and in figures."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from topolog.events.baseline import ClusterStateRow
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC
from topolog.events.drains import DrainRow
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId
from topolog.events.levels import level_of
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import ProposalRow, TypeRow
from topolog.events.objects import ChangeRow
from topolog.events.repair_definition import SessionKind
from topolog.events.sessions import SessionRow
from topolog.events.snapshots import SnapshotRow
from topolog.events.terms import ClusterRow
from topolog.projections import baselines, change_rows, exchanges, objects, patience, pending, queries, sessions
from topolog.projections.baseline_resources import BaselineNow
from topolog.projections.durations import ago
from topolog.projections.headline import headline, stopped
from topolog.projections.moments import iso
from topolog.projections.pending_resources import Pending
from topolog.projections.resources import Cluster, FormerTerms, Node, Snapshot
from topolog.projections.sentences import counted, listed
from topolog.projections.store import Reading


def cluster(reading: Reading, age_ms: int, found: Sequence[Pending] | None = None) -> Cluster:
    """The cluster as a whole; `age_ms` is that of the answer, for a lease goes on ageing while nothing is read.

    `found`: all that is pending, for who has it already.
    """
    found = pending.pending(reading, age_ms) if found is None else found
    whole = _without_news(reading, age_ms)
    said = headline(found, stopped(reading), whole.cold, reading.present.stopped if reading.is_current else None)
    leases = [lease for lease in queries.leases(reading, age_ms) if lease.state]
    return msgspec.structs.replace(
        whole,
        sentence=" ".join((*_as_of(reading, age_ms), *said.sentences, whole.sentence)),
        news=said.news,
        silent=tuple(held.node for each in found if each.kind == "SILENT" for held in each.waits_for),
        least_heard=max(leases, key=lambda lease: lease.age_ms or 0, default=None),
    )


def _without_news(reading: Reading, age_ms: int) -> Cluster:
    """All that holds of a cluster in peace, too."""
    row = queries.cluster_row(reading)
    head = reading.surely_decision(reading.position)
    all_nodes = queries.nodes(reading, age_ms)
    members = [each for each in all_nodes if each.standing != "LEFT"]
    types = list(reading.rows(TypeRow))
    waiting = [each for _, each in types if _is_pending(each)]
    groups_there = sum(1 for _ in reading.rows(GroupRow))
    open_exchange = _open_exchange(reading)
    opened_changes, tables = change_rows.opened(reading), objects.table_count(reading)
    state, standing = baselines.state_row(reading), baselines.now(reading)
    cold, drains = baselines.cold(reading), baselines.drains(reading)
    former, open_sessions = _former_terms(reading, row), sessions.opened(reading)
    about_state = [*state_parts(state, standing, drains), *_about_terms(former)]
    about_rest = _about_groups(groups_there, open_exchange) + _about_changes(tables, opened_changes)
    about_rest += _about_sessions(reading, open_sessions)
    return Cluster(
        name=row.name,
        log_id=row.log_id,
        sentence=_sentence(about_state, row, members, len(types), waiting, about_rest),
        term=row.term,
        coordinator=row.coordinator,
        led_since=row.led_since,
        topology_version=str(row.topology_version),
        fence_ms=row.fence_ms,
        margin_ms=row.margin_ms,
        heartbeat_ms=row.heartbeat_ms,
        proceed_ms=row.proceed_ms,
        members=len(members),
        servers=sum(each.kind == "SERVER" for each in members),
        nodes=len(all_nodes),
        types=len(types),
        pending_types=len(waiting),
        pending_proposals=sum(1 for _ in reading.rows(ProposalRow)),
        groups=groups_there,
        open_exchange=open_exchange,
        waiting_joins=sum(1 for _ in reading.rows(WaitingJoinRow)),
        state_hash=head.state_hash.hex(),
        chain=head.chain.hex(),
        ignored_records=reading.meta.ignored,
        feature_level=row.feature_level,
        feature_level_possible=min((level_of(each.capabilities) for each in members), default=CODEC.newest_level),
        snapshot=_snapshot(reading, age_ms),
        state=state.state.value,
        state_since=state.since,
        target=state.target.value if state.target else None,
        changing_since=state.started_at,
        awaited=() if state.started_at is None else patience.for_verdict(reading, state.started_at).asked,
        held=state.held,
        cold=cold,
        baseline=standing,
        auto_adjust=baselines.auto_adjust(reading),
        tables=tables,
        open_changes=len(opened_changes),
        undeleted=change_rows.undeleted(reading),
        open_sessions=len(open_sessions),
        draining=tuple(sorted(node for node, each in drains.items() if each.finished_at is None)),
        former_terms=former,
    )


def _as_of(reading: Reading, age_ms: int) -> Iterator[str]:
    """How old all that is said is, where a reader is behind by more than a heartbeat."""
    if reading.is_current and age_ms > queries.cluster_row(reading).heartbeat_ms:
        yield f"As of {ago(age_ms)} ago:"


def state_parts(state: ClusterStateRow, standing: BaselineNow | None, drains: Mapping[NodeId, DrainRow]) -> list[str]:
    """What is to be said of the state and the baseline, the worst first; nothing of a cluster that serves in peace."""
    parts = []
    if state.target is state.state:
        parts.append(f"its baseline is being activated since position {state.started_at}")
    elif state.target is not None:
        parts.append(f"on its way from {state.state.value} to {state.target.value} since position {state.started_at}")
    elif state.state is not ClusterState.ACTIVE:
        held = ", held by an operator" if state.held else ""
        parts.append(f"{state.state.value} since position {state.since}{held}: {_SERVES[state.state]}")
    if state.held and (state.target is not None or state.state is ClusterState.ACTIVE):
        parts.append("held by an operator")
    if draining := [node for node, each in drains.items() if each.finished_at is None]:
        parts.append(f"draining: {listed(draining)}")
    if standing is not None and standing.away and state.cold_at is None:
        parts.append(f"away: {listed(standing.away)} of baseline {standing.number}")
    if standing is not None and standing.outsiders:
        parts.append(f"not in the baseline: {listed(standing.outsiders)}")
    return parts


_SERVES: Mapping[ClusterState, str] = {
    ClusterState.INACTIVE: "nothing is read or written",
    ClusterState.ACTIVE_READ_ONLY: "nothing is written",
}


def _former_terms(reading: Reading, row: ClusterRow) -> FormerTerms | None:
    former = row.former
    if former is None:
        return None
    changed_ms = reading.surely_decision(former.changed_at).logged_at_ms
    span = patience.longest_wait(reading, former.changed_at)
    return FormerTerms(former.changed_at, iso(changed_ms), former.fence_ms, former.proceed_ms, span.left_ms)


def _about_terms(former: FormerTerms | None) -> Iterator[str]:
    if former is not None:
        left = ago(former.left_ms)
        yield f"lease terms changed at position {former.changed_at}, to be confirmed in {left} at most"


def _snapshot(reading: Reading, age_ms: int) -> Snapshot | None:
    row = reading.row(SnapshotRow, "")
    if row is None:
        return None
    said_ms = reading.surely_decision(row.said_at).logged_at_ms
    since_ms = reading.surely_decision(reading.position).logged_at_ms - said_ms + age_ms
    return Snapshot(row.position, row.said_at, iso(said_ms), since_ms, row.rows, row.content_bytes)


def _is_pending(row: TypeRow) -> bool:
    return row.removing or row.accepted_version < row.pending_version


def _sentence(
    about_state: Sequence[str],
    row: ClusterRow,
    members: list[Node],
    types: int,
    waits: list[TypeRow],
    groups: str,
) -> str:
    leases = [each.lease for each in members if each.lease]
    bad = [lease.node for lease in leases if lease.state in ("NONE", "OVERDUE")]
    silent = [lease.node for lease in leases if lease.state == "SILENT"]
    if not leases or leases[0].state is None:
        about_leases = ""
    elif bad:
        about_leases = f", no valid lease: {listed(bad)}"
    elif silent:
        about_leases = f", not renewed any more: {listed(silent)}"
    elif leases[0].out_in_ms is None:
        about_leases = ", no lease is renewed"
    else:
        about_leases = ", all leases valid"
    waiting = f"pending: {listed([each.name for each in waits])}" if waits else "none pending"
    about_types = f"{counted(types, 'type')}, {waiting}" if types else "no types"
    leader = f"coordinator {row.coordinator} leads term {row.term}" if row.coordinator else "no coordinator leads"
    whole = "; ".join((*about_state, f"{counted(len(members), 'member')}{about_leases}"))
    return f"{whole[0].upper()}{whole[1:]}; {about_types}{groups}; {leader}."


def _open_exchange(reading: Reading) -> str | None:
    opened = exchanges.open_row(reading)
    return str(opened.version) if opened else None


def _about_groups(groups: int, open_exchange: str | None) -> str:
    exchange = f", exchange {open_exchange} is open" if open_exchange else ""
    return f"; {counted(groups, 'group')}{exchange}" if groups else ""


def _about_changes(tables: int, opened: Sequence[ChangeRow]) -> str:
    """How many tables there are, and the change of definitions that is open the longest."""
    if not opened:
        return f"; {counted(tables, 'table')}" if tables else ""
    first = f"change {opened[0].number} is open"
    more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
    return f"; {counted(tables, 'table')}, {first}{more}"


def _about_sessions(reading: Reading, opened: Sequence[SessionRow]) -> str:
    """The session that has run the longest; how far it is."""
    if not opened:
        return ""
    found = sessions.shown(reading, opened[0])
    does = "repairs" if found.kind == SessionKind.REPAIR.value else "compares"
    far = "paused" if found.paused else found.state.lower() if found.percent is None else f"{found.percent} %"
    more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
    return f"; session {found.number} {does} replicas of {found.table}, {far}{more}"
