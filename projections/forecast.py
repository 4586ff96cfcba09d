"""What would happen to partitions if a node died or was removed: by the coordinator's own rules, and never logged.

The rows as they are, the node's copies taken out of them as its leaving would (DS1), then the outcome that an exchange
would give each partition concerned (`streams/rules/outcome.py`), over the affinity of the servers that would be left,
or of a persistent group over the members of the baseline, which the leaver stays: nothing moves until that changes.
These are partitions of which the node holds a copy: who was not chosen for one changes nothing by its leaving (EX6).
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import msgspec

from topolog.events.baseline import BaselineRow
from topolog.events.drains import DrainRow
from topolog.events.errors import NotFound
from topolog.events.groups import GroupRow, LossPolicy
from topolog.events.ids import Place, Position
from topolog.events.leases import FENCING, NodeKind, NodeRow
from topolog.events.ownership import (
    Change,
    NodeNumber,
    Ownership,
    ownerships,
    without,
)
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.projections import packed, queries
from topolog.projections.packed import Sought
from topolog.projections.partition_resources import Forecast, GroupForecast
from topolog.projections.partitions import Names, ranges, rows_of
from topolog.projections.queries import not_found
from topolog.projections.store import Reading
from topolog.streams.rules import placement
from topolog.streams.rules.affinity import NOBODY, Candidate, Indexes, Placement, ideal
from topolog.streams.rules.outcome import Ask, Present, outcome


class What(Enum):
    """What the node is imagined to do. For partitions both are the same, for how long it takes they are not."""

    DIES = "dies"
    REMOVED = "removed"

    @property
    def words(self) -> str:
        return "dies" if self is What.DIES else "is removed"


class Fate(msgspec.Struct, frozen=True):
    """One partition now, and when the exchange of the leaving has ended. `is_lost`: what it holds is; by the policy it
    may begin again empty all the same."""

    before: Ownership
    after: Change
    is_lost: bool


def forecast(reading: Reading, name: str, what: What) -> Forecast:
    """Copies left, partitions lost, primaries moved, copies to load, by group; NotFound unless it is a member."""
    node = reading.row(NodeRow, name)
    if node is None:
        raise not_found(name, (key for key, _ in reading.rows(NodeRow)), "node")
    if not node.is_member:
        raise NotFound(
            f"Node {name} is out of the membership already.", hint=f"`topolog explain node {name}` says why."
        )
    future = _Future(reading, node)
    rows = sorted((row for _, row in reading.rows(GroupRow)), key=lambda row: row.name)
    found = tuple(each for row in rows if (each := _of_group(future, row)) is not None)
    facts = {"until it is out": _until(reading, node, what), **dict(_warnings(future, rows))}
    if (number := future.stays_in(name)) is not None and any(row.persistent for row in rows):
        facts["persistent groups"] = (
            f"it stays in baseline {number}: nothing is loaded in its place until the baseline changes"
        )
    return Forecast(name, what.value, _sentence(name, what, found), facts, found)


class _Future:
    """The servers that would be left, and what the affinity would want of them; groups of one placement share it."""

    def __init__(self, reading: Reading, leaver: NodeRow) -> None:
        self.reading = reading
        self.who = Names(reading)
        self.leaver = self.who.number_of(leaver.node)
        self.servers = [
            row
            for _, row in reading.rows(NodeRow)
            if row.kind is NodeKind.SERVER and row.is_member and row.node != leaver.node
        ]
        self._state = reading.state(NodeRow, BaselineRow, DrainRow)
        self._ready = [row for row in placement.may_hold(self._state) if row.node != leaver.node]
        self._new = {row.node: -1 - at for at, row in enumerate(self._ready)}
        numbers = ((self.who.number_of(row.node), row) for row in self.servers)
        self.present = {
            self._new[row.node] if number is None else number: Present(row.joined_at, has_whole_copy=True)
            for number, row in numbers
            if number is not None or row.node in self._new
        }
        self._candidates: dict[str, list[Candidate]] = {}
        self._ideals: dict[tuple[Placement, bool], Indexes] = {}

    def candidates(self, group: GroupRow) -> list[Candidate]:
        """Whom the affinity would choose from: of a baseline also its members that are away, who would get nothing."""
        if group.name not in self._candidates:
            self._candidates[group.name] = placement.candidates(self._state, group, self._ready)
        return self._candidates[group.name]

    def wanted(self, group: GroupRow, partition: int) -> list[NodeNumber]:
        """Numbers of the nodes that the affinity would want; of those that have none yet, negative ones."""
        candidates, key = self.candidates(group), (Placement.of(group.definition), group.persistent)
        if candidates and key not in self._ideals:
            self._ideals[key] = ideal(candidates, key[0])
        indexes = self._ideals[key][partition].tolist() if candidates else []
        chosen = (candidates[index].node for index in indexes if index != NOBODY)
        nodes = [node for node in chosen if node in self._new]
        numbers = ((self.who.number_of(node), self._new[node]) for node in nodes)
        return [new if number is None else number for number, new in numbers]

    def fitting(self, group: GroupRow) -> int:
        """How many would be there that may hold copies of the group."""
        return sum(each.node in self._new and group.affinity.admits(each.attributes) for each in self.candidates(group))

    def stays_in(self, node: str) -> int | None:
        """The number of the baseline in which the leaver would go on counting."""
        row = self._state.get(BaselineRow, "")
        return row.number if row is not None and node in row.nodes else None

    def name_of(self, number: NodeNumber) -> str:
        return self.who[number] if number >= 0 else self._ready[-1 - number].node

    def fates(self, group: GroupRow) -> Iterator[Fate]:
        """What becomes of each partition of which the leaver holds a copy."""
        ask = Ask(begins_empty=group.loss_policy is LossPolicy.IGNORE)
        for row in rows_of(self.reading, group) if self.leaver is not None else ():
            numbers = packed.found_in(row, Sought(holder=self.leaver))
            if not numbers:
                continue
            left = ownerships(self._without_leaver(row), numbers)
            for before, torn in zip(ownerships(row, numbers), left, strict=True):
                after = outcome(torn, self.wanted(group, before.partition), self.present, ask)
                was_owned = any(owner in self.present or owner == self.leaver for owner in before.owners)
                is_owned = any(owner in self.present for owner in torn.owners)
                yield Fate(before, after, is_lost=was_owned and not is_owned)

    def _without_leaver(self, row: OwnershipRow) -> OwnershipRow:
        assert self.leaver is not None
        place = Place(Position(self.reading.position + 1), b"", self.reading.meta.header.term)
        return without([row], self.leaver, place)[0] or row


def _of_group(future: _Future, group: GroupRow) -> GroupForecast | None:
    """None for a group of which the leaver holds nothing."""
    fates = list(future.fates(group))
    if not fates:
        return None
    lost = [fate.before.partition for fate in fates if fate.is_lost]
    loads: dict[str, int] = {}
    owners_left: dict[int, int] = {}
    for fate in fates:
        present = [copy for copy in fate.after.copies if copy.node in future.present]
        owners = sum(copy.state is PartitionState.OWNING for copy in present)
        owners = 0 if fate.is_lost else owners
        owners_left[owners] = owners_left.get(owners, 0) + 1
        for node in _loading(fate):
            loads[future.name_of(node)] = loads.get(future.name_of(node), 0) + 1
    return GroupForecast(
        group=group.name,
        copies=len(fates),
        primaries_moved=sum(fate.before.acting == future.leaver and not fate.is_lost for fate in fates),
        lost=len(lost),
        lost_partitions=ranges(lost),
        loads=dict(sorted(loads.items())),
        owners_left={str(count): partitions for count, partitions in sorted(owners_left.items())},
        begin_empty=sum(fate.is_lost and not fate.after.is_lost for fate in fates),
    )


def _loading(fate: Fate) -> list[NodeNumber]:
    """Nodes that would have to load a copy which they do not load already."""
    loads_now = {copy.node for copy in fate.before.copies if copy.state is PartitionState.MOVING}
    return [
        copy.node for copy in fate.after.copies if copy.state is PartitionState.MOVING and copy.node not in loads_now
    ]


def _sentence(name: str, what: What, found: Sequence[GroupForecast]) -> str:
    copies, lost = sum(each.copies for each in found), sum(each.lost for each in found)
    moved, loads = sum(each.primaries_moved for each in found), sum(sum(each.loads.values()) for each in found)
    if not copies:
        return f"If {name} {what.words}, no partition notices: it holds no copy."
    empty = sum(each.begin_empty for each in found)
    loss = _loss(lost - empty, empty)
    return (
        f"If {name} {what.words}, {loss}; others act for {_count(moved, 'partition')} in its place, "
        f"and {_count(loads, 'copy', 'copies')} {'is' if loads == 1 else 'are'} loaded to replace its {copies}."
    )


def _loss(lost: int, empty: int) -> str:
    """Of partitions that lose their last whole copy: they stay lost, or begin empty by the policy of their group."""
    parts = [f"{_count(lost, 'partition')} {'is' if lost == 1 else 'are'} lost"] if lost else []
    if empty:
        parts.append(f"{_count(empty, 'partition')} {'begins' if empty == 1 else 'begin'} empty (loss policy IGNORE)")
    return " and ".join(parts) or "nothing is lost"


def _until(reading: Reading, node: NodeRow, what: What) -> str:
    proceed_ms = queries.cluster_row(reading).proceed_ms
    if node.kind is NodeKind.CLIENT:
        return "nobody waits for it: a client holds no lease"
    if FENCING not in node.capabilities:
        return "its partitions pause until somebody removes it: it does not fence itself"
    if what is What.REMOVED:
        return f"its partitions pause until it says that it has stopped, {proceed_ms} ms at most"
    return (
        f"its partitions pause until its sentinel says that its process is gone, a moment; without one until "
        f"{proceed_ms} ms after its last renewal"
    )


def _warnings(future: _Future, rows: Sequence[GroupRow]) -> Iterator[tuple[str, str]]:
    """Groups that would ask for more copies than there are servers to hold them."""
    few: Mapping[str, int] = {row.name: future.fitting(row) for row in rows}
    for row in rows:
        if few[row.name] <= row.backups:
            servers = f"{few[row.name]} server{'' if few[row.name] == 1 else 's'}"
            yield f"group {row.name}", f"{servers} left for {row.backups + 1} copies"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
