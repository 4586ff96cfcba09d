"""Rules of drains: a server hands over all it holds while it goes on serving (BA21; see `events/drains.py`)."""

from topolog.events import last_owners, ownership
from topolog.events.asked import RequestRef
from topolog.events.baseline import Cause, auto_adjust, baseline, cluster_state, online
from topolog.events.decision import Decision
from topolog.events.drains import DrainCancelled, DrainFinished, DrainRequested, DrainRow, DrainStarted, is_drained
from topolog.events.errors import Refused
from topolog.events.exchange import open_exchange, queued
from topolog.events.ids import NodeId
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.requests import RequestUnchanged
from topolog.events.state import State
from topolog.events.terms import changed_view
from topolog.streams.rules import baseline as rules_of_baseline
from topolog.streams.rules.placement import may_hold


def decide(state: State, request: DrainRequested, ref: RequestRef) -> list[Decision]:
    """The decision that answers the request; raises Refused and changes nothing."""
    node, here = NodeId(request.node), online(state)
    if node not in here:
        message = f"{node!r} is no server that is online, so it can hand nothing over."
        current = baseline(state)
        is_away = current is not None and node in current.nodes
        hint = f"`topolog baseline remove {node}` drops it." if is_away else "See `topolog get nodes`."
        raise Refused("NOT_ONLINE", "BA21", message, {"node": node}, hint=hint)
    if is_drained(state, node) is not request.cancelled:
        return [RequestUnchanged(ref, request.subject, None)]
    if request.cancelled:
        return [_cancelled(state, node, ref)]
    rules_of_baseline.check_changeable(state)
    if not [each for each in _takers(state) if each != node]:
        message = f"Nobody else could take what {node!r} holds."
        hint = "`topolog baseline add` takes in another server first."
        raise Refused("NOBODY_ELSE", "BA21", message, {"node": node}, hint=hint)
    return [DrainStarted(ref, node, changed_view(state))]


def _cancelled(state: State, node: NodeId, ref: RequestRef) -> Decision:
    """Who counts no more is taken in by an operator, or, if the baseline follows the servers, by itself."""
    row, current = state.get(DrainRow, node), baseline(state)
    counts = current is None or node in current.nodes or auto_adjust(state).enabled
    if row is not None and row.finished_at is not None and not counts:
        message = f"{node!r} is drained, and counts no more."
        hint = f"`topolog baseline add {node}` takes it in again."
        raise Refused("DRAIN_FINISHED", "BA21", message, {"node": node}, hint=hint)
    return DrainCancelled(ref, node, changed_view(state))


def settle(state: State) -> list[Decision]:
    """A drain whose server holds nothing any more is finished, and the server counts no more."""
    for _, row in state.rows(DrainRow):
        if row.finished_at is None and _is_at_rest(state) and not _holds(state, row.node):
            return [DrainFinished(row.node), *_dropped(state, row.node)]
    return []


def _dropped(state: State, node: NodeId) -> list[Decision]:
    current = baseline(state)
    if current is None or node not in current.nodes or len(current.nodes) == 1:
        return []
    try:
        return [rules_of_baseline.changed(state, None, [each for each in current.nodes if each != node], Cause.DRAINED)]
    except Refused:  # the others have grown too large for a record since: it holds nothing, and counts on
        return []


def _is_at_rest(state: State) -> bool:
    """Whether what the log lists of copies is what the last exchange made of them, and the baseline may change."""
    row = cluster_state(state)
    return row.target is None and row.shares_out and not queued(state) and not open_exchange(state)


def _takers(state: State) -> list[NodeId]:
    """Who is here and may hold copies of every group."""
    current = baseline(state)
    return [row.node for row in may_hold(state) if current is None or row.node in current.nodes]


def _holds(state: State, node: NodeId) -> bool:
    number = ownership.number_of(state, node)
    return number is not None and last_owners.holds_any((row for _, row in state.rows(OwnershipRow)), number)
