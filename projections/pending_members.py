"""What waits among members, metadata and definitions: joins, removals, leases, proposals, changes, drains, states."""

import shlex
from collections.abc import Iterator

from topolog.events.baseline import ClusterStateRow
from topolog.events.cluster_state import ClusterState
from topolog.events.ids import Position
from topolog.events.leases import NodeRow, Standing
from topolog.events.membership import WaitingJoinRow
from topolog.events.metadata import ProposalRow, RemovalRow, TypeRow
from topolog.events.objects import ChangeRow, ChangeStatus
from topolog.events.requests import OutcomeRow
from topolog.projections import baselines, change_rows, definition_words, joins, patience
from topolog.projections.change_rows import Line
from topolog.projections.durations import ago
from topolog.projections.pending_resources import Pending
from topolog.projections.pending_view import PendingView, What
from topolog.projections.resources import Lease
from topolog.projections.sentences import listed


def of_cluster(view: PendingView) -> Iterator[Pending]:
    """That nobody leads, that it is cold, or waits to be whole; that its state or its terms are about to change."""
    reading, row = view.reading, view.cluster
    if not row.coordinator:
        said = "No coordinator leads, so nothing is decided, and no lease is renewed."
        since = _last_of_cluster(view)
        yield _no_decisions(view, "none", said, since)
    elif view.clock is not None and view.clock.is_leader_silent:
        said = (
            f"Nothing has been decided for {ago(view.clock.leader_silent_ms)}: coordinator {row.coordinator} is "
            "silent, or this reader is cut off. No lease is renewed, and none can be judged."
        )
        yield _no_decisions(view, row.coordinator, said, reading.position)
    state = baselines.state_row(reading)
    yield from _of_state(view, state)
    if row.former is not None:
        span = patience.longest_wait(reading, row.former.changed_at)
        said = f"Others wait {row.former.proceed_ms} ms by the former lease terms until no lease rests on them."
        commands = ("topolog explain cluster", f"topolog explain decision {row.former.changed_at}")
        at = row.former.changed_at
        yield view.item(What("TERMS", str(at), "cluster", commands), said, at, (), span.left_ms, "")


def _no_decisions(view: PendingView, name: str, said: str, since: Position) -> Pending:
    ends = "at no fixed time: when a coordinator leads; one that stands by does so within seconds"
    commands = ("topolog doctor", "topolog get decisions", "topolog explain cluster")
    return view.item(What("COORDINATOR", name, "cluster", commands), said, since, (), None, ends)


def _last_of_cluster(view: PendingView) -> Position:
    return next(view.reading.positions(subject="cluster"), Position(0))


def _of_state(view: PendingView, state: ClusterStateRow) -> Iterator[Pending]:
    reading = view.reading
    standing, cold = baselines.now(reading), baselines.cold(reading)
    if cold is not None:
        at, missing = Position(cold.since), cold.quorum - len(cold.online)
        said = f"The cluster is cold: {listed(cold.awaited)} left together, and no exchange ends."
        back = f"{missing} more of the baseline come back"
        ends = f"at no fixed time: it waits until {back}, for a time cannot bring back their data"
        commands = ("topolog explain cluster", "topolog baseline warm --dry-run", "topolog get nodes")
        away = view.holders(cold.awaited, at, None)
        yield view.item(What("COLD", str(at), "cluster", commands), said, at, away, None, ends)
    if state.started_at is not None and state.target is not None:
        said = f"The cluster is on its way from {state.state.value} to {state.target.value}."
        if state.target is state.state:
            said = "The cluster's baseline is being activated."
        about_it = ("topolog explain cluster", f"topolog explain decision {state.started_at}")
        yield view.of_verdict(What("STATE", state.target.value, "cluster", about_it), said, state.started_at)
    elif state.state is ClusterState.INACTIVE and not state.held and standing is not None:
        said = (
            f"The cluster is INACTIVE, and becomes {state.resumes.value} by itself once its baseline is whole: "
            f"{listed(standing.away)} away."
        )
        ends = "at no fixed time: it waits until all of them are online or somebody activates it"
        commands = ("topolog explain cluster", "topolog cluster activate --dry-run", "topolog get nodes")
        away = view.holders(standing.away, state.since, None)
        number = str(standing.number)
        yield view.item(What("ACTIVATION", number, "cluster", commands), said, state.since, away, None, ends)
    yield from _of_adjustment(view)


def _of_adjustment(view: PendingView) -> Iterator[Pending]:
    row, adjust = baselines.auto_adjust_row(view.reading), baselines.auto_adjust(view.reading)
    if adjust.due_in_ms is None or row.last_at is None:
        return
    does = [f"add {listed(adjust.adds)}"] if adjust.adds else []
    does += [f"drop {listed(adjust.drops)}"] if adjust.drops else []
    said = f"The baseline is about to {' and to '.join(does) or 'be looked at'}, by itself."
    left_ms = None if adjust.suppressed else adjust.due_in_ms
    ends = f"at no fixed time, because {adjust.suppressed}" if adjust.suppressed else ""
    commands = ("topolog explain cluster", "topolog baseline auto-adjust --off")
    yield view.item(What("ADJUSTMENT", str(row.last_at), "cluster", commands), said, row.last_at, (), left_ms, ends)


def of_nodes(view: PendingView) -> Iterator[Pending]:
    """Nodes that are refused, members that are silent or on their way out, joins that wait, drains.

    Of the past refusals are left to `get branches`: to find them there takes a look at every outcome that was kept.
    """
    for refused in joins.refused(view.reading) if view.reading.is_current else ():
        yield _refused(view, refused)
    for _, join in view.reading.rows(WaitingJoinRow):
        yield _join(view, join)
    for _, row in view.nodes.rows(NodeRow):
        if row.standing is Standing.STOPPING and row.stopped_at is not None:
            yield _removal(view, row, row.stopped_at)
        elif row.standing is Standing.MEMBER:
            yield from _silent(view, row)
    for node, drain in baselines.drains(view.reading).items():
        if drain.finished_at is None:
            said = f"Server {node} hands over all that it holds."
            ends = (
                "at no fixed time: it waits until other servers hold whole copies of all of it, however long they load"
            )
            name = shlex.quote(node)
            more = f"topolog get maps --node {name}", f"topolog baseline drain {name} --cancel"
            commands = (f"topolog explain node {name}", *more)
            asked = (view.holder(node, drain.started_at, None),)
            yield view.item(What("DRAIN", node, f"node {node}", commands), said, drain.started_at, asked, None, ends)


def _join(view: PendingView, join: WaitingJoinRow) -> Pending:
    node = join.joiner.node
    wait = patience.for_join(view.reading, join)
    left_ms = wait.asked[0].at_most_ms
    said = f"Node {node} waits to join until the lease of its former incarnation {join.former} is over."
    commands = (f"topolog explain node {shlex.quote(node)}", f"topolog remove node {shlex.quote(node)}")
    holders = view.holders((node,), join.position, left_ms)
    return view.item(What("JOIN", node, f"node {node}", commands), said, join.position, holders, left_ms, "")


def _removal(view: PendingView, row: NodeRow, stopped_at: Position) -> Pending:
    wait = patience.for_node(view.reading, row.node)
    left_ms = wait.asked[0].at_most_ms
    said = f"Node {row.node} is being removed: it is out when it says that it has stopped, or its lease is over."
    commands = (f"topolog explain node {shlex.quote(row.node)}", f"topolog explain decision {stopped_at}")
    holders = view.holders((row.node,), stopped_at, left_ms)
    return view.item(What("REMOVAL", row.node, f"node {row.node}", commands), said, stopped_at, holders, left_ms, "")


def _refused(view: PendingView, row: OutcomeRow) -> Pending:
    """A node that may not join with the disk that it has."""
    node = row.subject.removeprefix("node ")
    refused_ago = ago(view.now_ms - view.logged_ms(row.position))
    said = f"Node {node} was refused {refused_ago} ago: its disk {_PARTED.get(row.code, 'does not fit')} ({row.code})."
    ends = "at no fixed time: it waits until it is started with a disk that fits, or anew"
    commands = (f"topolog explain node {shlex.quote(node)}", "topolog get branches", "topolog baseline graph")
    asked = view.holders((node,), row.position, None)
    return view.item(What("REFUSED-JOIN", node, f"node {node}", commands), said, row.position, asked, None, ends)


_PARTED = {
    "AHEAD": "has written behind the end of this log",
    "FORKED": "has written in another history",
    "FOREIGN": "is of another log",
}


def _silent(view: PendingView, row: NodeRow) -> Iterator[Pending]:
    """A member whose lease is not renewed any more; as of the past that is not known."""
    lease = view.leases.get(row.node)
    if lease is None or view.clock is None or lease.renewed_at is None or lease.state is None:
        return
    since = Position(lease.renewed_at)
    if not view.clock.is_left_out(view.logged_ms(since)):
        return
    serves = f"it stops serving in {ago(lease.fenced_in_ms or 0)}" if lease.fenced_in_ms else "it serves nothing"
    said = f"Member {row.node} is {_how_it_is_heard(view, row, lease)}, {serves}."
    if view.clock.is_passed_over(view.logged_ms(since)):
        said += f" Coordinator {view.clock.cluster.coordinator} does not put it out: it may hear nobody's silence."
    ends = "at no fixed time, while no coordinator counts: when it is heard again"
    if lease.out_in_ms is not None:
        ends = f"in {ago(lease.out_in_ms)} at the latest, when it is out, unless it is heard again"
    name = shlex.quote(row.node)
    commands = (f"topolog explain node {name}", f"topolog explain lease {name}")
    asked = (view.holder(row.node, since, lease.out_in_ms),)
    yield view.item(What("SILENT", row.node, f"node {row.node}", commands), said, since, asked, lease.out_in_ms, ends)


def _how_it_is_heard(view: PendingView, row: NodeRow, lease: Lease) -> str:
    """A process that beats and does not apply what was decided hangs: to call it silent would send people to its
    network."""
    unconfirmed = _UNCONFIRMED.get(lease.state or "", "none of its heartbeats was confirmed for {0}")
    said = unconfirmed.format(ago(lease.age_ms or 0))
    heard_ms = view.heard_ms(row.node)
    if view.clock is None or heard_ms is None or heard_ms > view.clock.silent_after_ms:
        return f"silent: {said}"
    return f"heard ({ago(heard_ms)} ago), and has not applied what it must: {said}"


_UNCONFIRMED = {"NONE": "none of its heartbeats has been confirmed since it joined {0} ago"}


def of_types(view: PendingView) -> Iterator[Pending]:
    """Versions of types that are proposed, and removals: each is found by its type, for the history of proposals has
    a row for each that there ever was."""
    for key, row in view.reading.rows(TypeRow):
        for version in range(row.accepted_version + 1, row.pending_version + 1):
            proposal = view.reading.row(ProposalRow, f"{key}/{version}")
            if proposal is not None:
                yield _proposal(view, proposal)
        removal = view.reading.row(RemovalRow, key) if row.removing else None
        if removal is not None:
            yield _type_removal(view, removal)


def _proposal(view: PendingView, row: ProposalRow) -> Pending:
    said = f"Version {row.version} of type {row.name} is proposed, and not every server has applied it."
    commands = (f"topolog explain type {shlex.quote(row.name)}", f"topolog explain decision {row.position}")
    what = What("PROPOSAL", f"{row.name}/{row.version}", f"type {row.name}", commands)
    return view.of_verdict(what, said, row.position)


def _type_removal(view: PendingView, row: RemovalRow) -> Pending:
    said = f"Type {row.name} is being removed, and not every server has applied that."
    commands = (f"topolog explain type {shlex.quote(row.name)}", f"topolog explain decision {row.position}")
    return view.of_verdict(What("TYPE-REMOVAL", row.name, f"type {row.name}", commands), said, row.position)


def of_changes(view: PendingView) -> Iterator[Pending]:
    """Changes of definitions that are queued or prepared, and data that is still being deleted."""
    opened = change_rows.opened(view.reading)
    line = Line(opened)
    for row in opened:
        yield _change(view, row, line)
    for _, row in view.reading.rows(ChangeRow):
        if row.undeleted and row.closed_at is not None:
            said = f"Data that change {row.number} has closed is being deleted by {listed(row.undeleted)}."
            ends = (
                "at no fixed time: it waits until each of them says so, or is out; nobody is shown the data meanwhile"
            )
            asked = view.holders(row.undeleted, row.closed_at, None)
            commands = (f"topolog explain change {row.number}",)
            about = f"change {row.number}"
            yield view.item(What("DELETION", str(row.number), about, commands), said, row.closed_at, asked, None, ends)


def _change(view: PendingView, row: ChangeRow, line: Line) -> Pending:
    does = definition_words.does(change_rows.actions_of(view.reading, row))
    about, number = f"change {row.number}", str(row.number)
    commands = (f"topolog explain change {number}", f"topolog cancel change/{number}")
    deadline_ms = _deadline_ms(view, row)
    if row.status is ChangeStatus.PREPARED and row.prepared_at is not None:
        found = view.of_verdict(
            What("CHANGE", number, about, commands), f"Change {number} ({does}) is prepared.", row.prepared_at
        )
        if found.at_most_ms is None and deadline_ms is not None:
            ends = f"in {ago(deadline_ms)} at the latest: it is given up then unless it is committed"
            return view.item(
                What("CHANGE", number, about, commands),
                found.sentence,
                row.prepared_at,
                found.waits_for,
                deadline_ms,
                ends,
            )
        return found
    behind = sorted(set(line.behind(row).values()))
    said = f"Change {number} ({does}) waits behind {listed([f'change {each}' for each in behind]) or 'nobody now'}."
    ends = "when those are over, then as soon as it is confirmed itself"
    if deadline_ms is not None:
        ends = f"in {ago(deadline_ms)} at the latest: it is given up then unless it is committed"
    first = (f"topolog explain change {behind[0]}",) if behind else ()
    return view.item(
        What("CHANGE", number, about, (*commands[:1], *first, *commands[1:])), said, row.number, (), deadline_ms, ends
    )


def _deadline_ms(view: PendingView, row: ChangeRow) -> int | None:
    """How long until it is given up, None if it has no deadline of its own; a new coordinator counts anew."""
    if row.deadline_ms is None:
        return None
    return patience.span_since(view.reading, row.number, row.deadline_ms).left_ms
