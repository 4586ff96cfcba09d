"""Rules of copies outside an exchange: a load has ended, a copy is no longer needed, a copy is cleared (DS5, DS6, EX8).

A report names the very life of a copy: the position that made it MOVING or RENTING, and for a load the token of the
primary that supplied it. What names another is about a copy that is no more, and is ignored; so a report may be
repeated or late. Nothing changes while an exchange is open (EX10), and the node repeats its report until the log
shows it.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from topolog.events import ownership
from topolog.events.changes import Changes
from topolog.events.decision import Decision
from topolog.events.exchange import HandOverRow, PartitionStatesChanged, open_exchange, queued
from topolog.events.groups import GroupRow
from topolog.events.ids import NodeId, Position
from topolog.events.ownership import (
    Change,
    Copy,
    Ownership,
    row_of,
)
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.state import State


class Loaded(msgspec.Struct, frozen=True):
    """The copy that became MOVING at `since` holds all that the primary of `token` holds (DS5)."""

    node: NodeId
    group: str
    partition: int
    since: Position
    token: Position


class Cleared(msgspec.Struct, frozen=True):
    """The copy that became RENTING at `since` is gone."""

    node: NodeId
    group: str
    partition: int
    since: Position


Report = Loaded | Cleared


def settle(state: State, reports: Iterable[Report]) -> list[Decision]:
    """What the reports change; those that name what is no more are passed over."""
    if open_exchange(state) or queued(state):
        return []
    found: dict[str, dict[int, Change]] = {}
    for report in reports:
        change = _changed(state, report, found)
        if change is not None:
            found.setdefault(report.group, {})[report.partition] = change
    return _decisions(found)


def surplus(state: State, rows: Iterable[OwnershipRow], left_out: Mapping[str, Collection[int]]) -> list[Decision]:
    """Copies in these rows that nobody needs: all that are wanted own, the wanted primary acts, no hand-over is under
    way. `left_out`: partitions for which others are wanted than are listed (DS19)."""
    if open_exchange(state) or queued(state) or state.count(HandOverRow):
        return []
    found: dict[str, dict[int, Change]] = {}
    for row in rows:
        withheld = left_out.get(row.group, ())
        there = [partition for partition in ownership.with_surplus(row) if partition not in withheld]
        for each in ownership.ownerships(row, there):
            found.setdefault(row.group, {})[each.partition] = _rented(each)
    return _decisions(found)


def _changed(state: State, report: Report, found: dict[str, dict[int, Change]]) -> Change | None:
    group = state.get(GroupRow, report.group)
    if group is None or not 0 <= report.partition < group.partitions:
        return None
    number = ownership.number_of(state, report.node)
    before = ownership.ownership(row_of(state, report.group, report.partition), report.partition)
    copy = None if number is None else before.copy_of(number)
    if copy is None or copy.since != report.since:
        return None
    copies = _pending(before, found.get(report.group, {}))
    match report:
        case Loaded() if copy.state is PartitionState.MOVING and before.token == report.token:
            after = tuple(_owned(each) if each.node == copy.node else each for each in copies)
        case Cleared() if copy.state is PartitionState.RENTING:
            after = tuple(each for each in copies if each.node != copy.node)
        case _:
            return None
    return Change(report.partition, after, before.acting, before.is_lost)


def _pending(before: Ownership, changes: dict[int, Change]) -> tuple[Copy, ...]:
    """The copies as reports before this one leave them."""
    change = changes.get(before.partition)
    return change.copies if change else before.copies


def _owned(copy: Copy) -> Copy:
    return Copy(copy.node, PartitionState.OWNING, copy.wanted)


def _rented(before: Ownership) -> Change:
    copies = tuple(
        copy if copy.wanted else Copy(copy.node, PartitionState.RENTING, wanted=False) for copy in before.copies
    )
    return Change(before.partition, copies, before.acting, before.is_lost)


def _decisions(found: Mapping[str, Mapping[int, Change]]) -> list[Decision]:
    """The changes of each group, in as many records of one set as they need."""
    return [
        PartitionStatesChanged(group, record)
        for group, changes in found.items()
        for record in Changes.of([changes[partition] for partition in sorted(changes)]).records()
    ]
