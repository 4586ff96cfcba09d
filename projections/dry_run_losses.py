"""What a request would cost: data that would be gone, and from where; copies that nobody would be there to hold."""

from collections.abc import Iterator, Mapping

from topolog.events import last_owners, ownership
from topolog.events.asked import Request
from topolog.events.baseline import online, placed_by
from topolog.events.baseline_requests import BaselineChangeRequested, WarmRequested
from topolog.events.exchange_requests import LossResetRequested
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested, GroupRow
from topolog.events.ids import NodeId
from topolog.events.leases import NodeRow
from topolog.events.membership import NodeRemovalRequested
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.state import State
from topolog.projections.baseline_resources import BaselinePreview
from topolog.projections.forecast import What, forecast
from topolog.projections.sentences import listed
from topolog.projections.store import Reading
from topolog.streams.rules import baseline as rules_of_baseline
from topolog.streams.rules import placement


def before(reading: Reading, state: State, request: Request) -> Iterator[str]:
    """What would be gone of that which there is; `state` is that before the request."""
    match request:
        case GroupDropRequested(name=name) if (row := state.get(GroupRow, name)) is not None:
            holders = _holders(state, name)
            where = f", from {listed(holders, 12)}" if holders else ", of which nobody here has a copy"
            yield f"all data of group {name} goes: {row.partitions} partitions{where}"
        case LossResetRequested(name=name):
            lost = sum(len(ownership.lost_in(row)) for row in _rows(state, name))
            yield f"what no present copy holds of {lost} lost partitions of {name} is gone for good"
        case NodeRemovalRequested(node=node):
            yield from _lost_with(reading, node)
        case _:
            pass


def after(state: State, request: Request, preview: BaselinePreview | None) -> Iterator[str]:
    """What would be lost, or could not be met; `state` is that after the request."""
    match request:
        case BaselineChangeRequested() if preview is not None:
            dropped, kept = map(NodeId, preview.dropped), map(NodeId, preview.after)
            for group, count in rules_of_baseline.last_copies(state, list(dropped), list(kept)).items():
                yield f"nobody else has a whole copy of {count} partitions of {group}: what they hold is lost"
        case WarmRequested():
            for group, count in _torn(state).items():
                yield f"nobody who is online has a whole copy of {count} partitions of {group}: they will be lost"
        case GroupAlterationRequested(name=name):
            yield from _unmet(state, name)
        case GroupCreationRequested(group=group):
            yield from _unmet(state, group.name)
        case _:
            pass


def _lost_with(reading: Reading, node: str) -> Iterator[str]:
    row = reading.row(NodeRow, node)
    if row is None or not row.holds_lease:
        return
    for each in forecast(reading, node, What.REMOVED).groups:
        if each.lost:
            yield f"nobody else has a whole copy of {each.lost} partitions of {each.group} ({each.lost_partitions})"


def _rows(state: State, group: str) -> list[OwnershipRow]:
    return [row for _, row in state.rows(OwnershipRow) if row.group == group]


def _holders(state: State, group: str) -> list[str]:
    rows = _rows(state, group)
    numbered = ((name, ownership.number_of(state, NodeId(name))) for name in ownership.names(state))
    return sorted({name for name, number in numbered if number is not None and last_owners.holds_any(rows, number)})


def _unmet(state: State, name: str) -> Iterator[str]:
    row = state.get(GroupRow, name)
    if row is None:
        return
    chosen_from = placement.candidates(state, row, placement.may_hold(state))
    fitting = sum(row.affinity.admits(each.attributes) for each in chosen_from)
    if fitting <= row.backups:
        at_most = f"{max(0, fitting - 1)} at most" if fitting else "no copy at all"
        servers = f"{fitting} server{'' if fitting == 1 else 's'}"
        yield f"{row.backups} backups of {name} cannot be met: {servers} may hold it, so a partition gets {at_most}"


def _torn(state: State) -> Mapping[str, int]:
    """Partitions of persistent groups that have no owner among the servers online."""
    numbers = [number for node in online(state) if (number := ownership.number_of(state, node)) is not None]
    lasting = {group.name for _, group in state.rows(GroupRow) if placed_by(state, group)}
    found: dict[str, int] = {}
    for _, row in state.rows(OwnershipRow):
        if row.group in lasting and (count := len(last_owners.owned_by_none_of(row, numbers))):
            found[row.group] = found.get(row.group, 0) + count
    return found
