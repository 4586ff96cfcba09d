"""Whom a group's partitions are wanted on: the affinity's choice over the baseline, or the servers (BA11, DS19).

The members of the baseline are chosen from whether they are here or not, so that nothing moves when one is away. Only
where a partition cannot begin, because all that are chosen for it are away, others take their place.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from topolog.events import ownership
from topolog.events.awaited import unheard
from topolog.events.baseline import placed_by
from topolog.events.drains import is_drained
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import NodeId
from topolog.events.last_owners import owns
from topolog.events.leases import NodeKind, NodeRow, Standing, members
from topolog.events.ownership import NodeNumber, Wanted
from topolog.events.ownership_columns import NOBODY, Columns, OwnershipRow, any_copy, compact
from topolog.events.state import State
from topolog.streams.rules.affinity import Candidate, Indexes
from topolog.streams.rules.outcome import Ask

Choose = Callable[[GroupRow, Sequence[Candidate]], Indexes]
"""The affinity of a group over candidates: indexes into these for each partition, its primary's first."""


def servers(state: State) -> list[NodeRow]:
    """Members that may hold copies, in the order in which they joined."""
    found = [row for row in members(state) if row.kind is NodeKind.SERVER]
    return sorted(found, key=lambda row: row.joined_at)


def may_hold(state: State) -> list[NodeRow]:
    """The servers that may get copies."""
    return [row for row in servers(state) if row.standing is Standing.MEMBER and not is_drained(state, row.node)]


def candidates(state: State, group: GroupRow, ready: Sequence[NodeRow]) -> list[Candidate]:
    """Whom the affinity chooses from: the members of the baseline for a persistent group, also those that are away; the
    servers that are `ready` for another one, and where there is no baseline."""
    current = placed_by(state, group)
    if current is None:
        return [Candidate(row.node, row.attributes) for row in ready]
    counted = (member for member in current.members if not is_drained(state, member.node))
    return [Candidate(member.node, member.attributes) for member in counted]


class Roster(msgspec.Struct, frozen=True):
    """Names by number, of those too that have none yet: `new` many; `ready` may get copies."""

    names: tuple[str, ...]
    new: tuple[str, ...]
    number_of: Mapping[str, NodeNumber]
    ready: list[NodeRow]

    @classmethod
    def of(cls, state: State) -> "Roster":
        ready, known = may_hold(state), ownership.names(state)
        new = tuple(sorted({str(row.node) for row in ready}.difference(known)))
        names = (*known, *new)
        return cls(names, new, {node: number for number, node in enumerate(names)}, ready)

    def wanted(self, state: State, group: GroupRow, rows: Sequence[OwnershipRow], ask: Ask, choose: Choose) -> Wanted:
        """The affinity's choice for each partition."""
        numbers = {row.node: self.number_of[row.node] for row in self.ready}
        return _wanted(group, rows, candidates(state, group, self.ready), numbers, ask, choose)

    def nodes(self, numbers: Iterable[NodeNumber]) -> frozenset[NodeId]:
        return frozenset(NodeId(self.names[number]) for number in numbers)


def left_out(state: State, choose: Choose, rows: Sequence[OwnershipRow]) -> dict[str, frozenset[int]]:
    """The partitions of these rows, by group, for which a server is wanted that is not listed, for it is not heard
    (DS15, DS19)."""
    missed = unheard(state)
    if missed is None or not missed.servers or not rows:
        return {}
    roster = Roster.of(state)
    silent = [roster.number_of[each.node] for each in missed.servers if each.node in roster.number_of]
    by_group: dict[str, list[OwnershipRow]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    found: dict[str, frozenset[int]] = {}
    for name, some in by_group.items():
        group = group_row(state, name)
        assert group is not None, "a row belongs to a group"
        every = list(ownership.rows_of(state, name, group.partitions))
        found[name] = ownership.unlisted(some, roster.wanted(state, group, every, Ask(), choose), silent)
    return found


def _wanted(
    group: GroupRow,
    rows: Sequence[OwnershipRow],
    chosen_from: Sequence[Candidate],
    numbers: Mapping[NodeId, NodeNumber],
    ask: Ask,
    choose: Choose,
) -> Wanted:
    """The affinity's choice by `numbers`, which those that are away have not: they are left out."""
    chosen = _chosen(group, chosen_from, numbers, choose)
    here = [each for each in chosen_from if each.node in numbers]
    if len(here) == len(chosen_from):
        return chosen
    (found,) = compact(chosen)
    unplaced = _that_cannot_begin(rows, found, also_lost=ask.begins_empty or ask.reset_at is not None)
    return _filled(found, unplaced, _chosen(group, here, numbers, choose)) if len(unplaced) else found


def _chosen(
    group: GroupRow, chosen_from: Sequence[Candidate], numbers: Mapping[NodeId, NodeNumber], choose: Choose
) -> Wanted:
    return ownership.numbered(choose(group, chosen_from), [numbers.get(each.node, NOBODY) for each in chosen_from])


def _that_cannot_begin(rows: Sequence[OwnershipRow], wanted: Wanted, *, also_lost: bool) -> NDArray[np.intp]:
    """The partitions of a group, all of whose rows these are, that nobody has owned and nobody is wanted for; with
    those that are lost, where these are given up."""
    columns = Columns(*rows)
    is_unserved = (columns.acting == NOBODY) & (wanted[:, 0] == NOBODY)
    is_lost = columns.lost.astype(np.bool_)
    is_new = ~is_lost & ~any_copy(owns(columns))
    return np.flatnonzero(is_unserved & (is_new | is_lost if also_lost else is_new))


def _filled(wanted: Wanted, partitions: NDArray[np.intp], others: Wanted) -> Wanted:
    """An assignment that is that of others for these partitions."""
    found = np.full((len(wanted), max(wanted.shape[1], others.shape[1])), NOBODY, wanted.dtype)
    found[:, : wanted.shape[1]] = wanted
    found[partitions, : others.shape[1]] = others[partitions]
    return found
