"""What can be asked of partitions: pages of them, one by name, what a node holds of a group.

A page of a million partitions reads the packed rows that it needs and unpacks only its own partitions.
"""

from collections.abc import Iterable, Iterator, Mapping

from topolog.events.errors import BadInput, NotFound
from topolog.events.groups import GroupRow
from topolog.events.leases import NodeRow
from topolog.events.ownership import (
    Copy,
    NodeNumber,
    Ownership,
    RosterRow,
    ownership,
    ownerships,
    row_key,
)
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.state import Key
from topolog.projections import groups, packed
from topolog.projections.packed import CONDITIONS, Condition, Sought, Tally
from topolog.projections.partition_resources import NodeMap, NodeMapDetail, Partition, PartitionCopy
from topolog.projections.queries import not_found
from topolog.projections.store import Reading


def partitions(reading: Reading, filters: Mapping[str, str], after: str | None = None) -> Iterator[Partition]:
    """Partitions behind the one named `after`, by group and number. Filters: group, state, node, primary."""
    who = Names(reading)
    sought = _sought(reading, who, filters)
    if sought is None:
        return
    group_after, next_number = _behind(after)
    for group in _groups(reading, filters.get("group")):
        if group.name < group_after:
            continue
        first = next_number if group.name == group_after else 0
        for row in rows_of(reading, group, first):
            numbers = [number for number in packed.found_in(row, sought) if number >= first]
            if not numbers:
                continue
            conditions = packed.conditions(row, numbers)
            for each, condition in zip(ownerships(row, numbers), conditions, strict=True):
                yield _partition(group.name, each, condition, who)


def touched(reading: Reading, filters: Mapping[str, str], rows: Iterable[Key]) -> Iterator[Partition]:
    """Of `partitions` those that a change of these rows can have changed: all of a packed row, and what a node holds.

    Nothing, where the group or a node that the filters name is not there yet.
    """
    who, keys = Names(reading), {key for kind, key in rows if kind == OwnershipRow.KIND}
    numbers = {who.number_of(key) for kind, key in rows if kind == NodeRow.KIND} - {None}
    try:
        sought, about = _sought(reading, who, filters), _groups(reading, filters.get("group"))
    except NotFound:
        return
    if sought is None:
        return
    for group in about:
        for key, row in (
            reading.rows(OwnershipRow, prefix=f"{group.name}/") if numbers else _named(reading, group, keys)
        ):
            found = packed.found_in(row, sought)
            if key not in keys:
                held = {each for number in numbers for each in packed.found_in(row, Sought(holder=number))}
                found = [each for each in found if each in held]
            conditions = packed.conditions(row, found)
            for each, condition in zip(ownerships(row, found), conditions, strict=True):
                yield _partition(group.name, each, condition, who)


def _named(reading: Reading, group: GroupRow, keys: Iterable[str]) -> Iterator[tuple[str, OwnershipRow]]:
    """The rows of these keys that are the group's, by partition."""
    for key in sorted(each for each in keys if each.rpartition("/")[0] == group.name):
        if (row := reading.row(OwnershipRow, key)) is not None:
            yield key, row


def partition(reading: Reading, group: str, number: int) -> Partition:
    """One partition; raises NotFound if there is no such group or its partitions are fewer."""
    row = row_of(reading, group, number)
    (condition,) = packed.conditions(row, [number])
    return _partition(group, ownership(row, number), condition, Names(reading))


def row_of(reading: Reading, group: str, number: int) -> OwnershipRow:
    """The packed row that holds the partition; raises NotFound as `partition` does."""
    about = reading.row(GroupRow, group)
    if about is None:
        raise groups.no_group(reading, group)
    if not 0 <= number < about.partitions:
        raise NotFound(
            f"Group {group} has no partition {number}.", hint=f"Its partitions are 0 to {about.partitions - 1}."
        )
    row = reading.row(OwnershipRow, row_key(group, number))
    assert row is not None, "a group has rows for all of its partitions"
    return row


def rows_of(reading: Reading, group: GroupRow, first: int = 0) -> Iterator[OwnershipRow]:
    """The packed rows of a group from the one on that holds partition `first`."""
    for _, row in reading.rows(OwnershipRow, prefix=f"{group.name}/", start=row_key(group.name, first)):
        yield row


def condition_totals(reading: Reading, only: str | None = None) -> dict[Condition, int]:
    """How many partitions, of one group if it is named, are in which condition; the most urgent first."""
    totals: dict[Condition, int] = {}
    for group in _groups(reading, only):
        for row in rows_of(reading, group):
            for condition, count in packed.condition_counts(row).items():
                totals[condition] = totals.get(condition, 0) + count
    return {condition: totals[condition] for condition in reversed(CONDITIONS) if condition in totals}


def in_words(counts: Mapping[Condition, int]) -> str:
    """`3 lost, 12 with a copy that loads`."""
    if set(counts) <= {Condition.OWNING}:
        return "all partitions are as wanted"
    return ", ".join(f"{counts[each]} {_WORDS[each]}" for each in reversed(CONDITIONS) if counts.get(each))


_WORDS: Mapping[Condition, str] = {
    Condition.LOST: "lost",
    Condition.PAUSED: "paused",
    Condition.MOVING: "with a copy that loads",
    Condition.SWITCHING: "about to be handed over",
    Condition.RENTING: "with a copy that is no longer needed",
    Condition.OWNING: "as wanted",
}


class Names:
    """Node ids by number, and which of them are members; a number means the same node for ever."""

    def __init__(self, reading: Reading) -> None:
        row = reading.row(RosterRow, "")
        self._reading = reading
        self._nodes = row.nodes if row else ()
        self._members: dict[str, bool] = {}

    def __getitem__(self, number: NodeNumber) -> str:
        return self._nodes[number]

    def number_of(self, node: str) -> NodeNumber | None:
        """None for a node that has never held anything."""
        return self._nodes.index(node) if node in self._nodes else None

    def is_member(self, node: str) -> bool:
        if node not in self._members:
            row = self._reading.row(NodeRow, node)
            self._members[node] = row is not None and row.is_member
        return self._members[node]


def maps(reading: Reading, filters: Mapping[str, str], after: str | None = None) -> Iterator[NodeMap]:
    """What nodes hold of groups, by group and node, behind the one named `after`. Filters: group, node."""
    who = Names(reading)
    if "node" in filters:
        _known(reading, filters["node"])
    group_after = (after or "").partition("/")[0]
    for group in _groups(reading, filters.get("group")):
        if group.name < group_after:
            continue
        for each in _maps_of(reading, group, who):
            if (after is None or group.name > group_after or each.name > after) and (
                filters.get("node") in (None, each.node)
            ):
                yield each


def node_map(reading: Reading, group: str, node: str) -> NodeMapDetail:
    """What one node holds of one group; empty for a node that holds nothing of it."""
    about = reading.row(GroupRow, group)
    if about is None:
        raise groups.no_group(reading, group)
    who = Names(reading)
    number, tallies = who.number_of(_known(reading, node)), dict[NodeNumber, Tally]()
    by_state: dict[str, list[int]] = {}
    acts_for: list[int] = []
    for row in rows_of(reading, about) if number is not None else ():
        packed.add_to(tallies, row)
        acts_for += packed.found_in(row, Sought(primary=number))
        for held, state in packed.states_on(row, number or 0):
            by_state.setdefault(state.name, []).append(held)
    tally = tallies.get(number if number is not None else -1, Tally({}))
    found = _node_map(group, node, tally, who)
    return NodeMapDetail(
        **{field: getattr(found, field) for field in found.__struct_fields__},
        partitions={state: ranges(held) for state, held in sorted(by_state.items())},
        primary_of=ranges(acts_for),
    )


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as people write them: `0-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _maps_of(reading: Reading, group: GroupRow, who: Names) -> list[NodeMap]:
    tallies: dict[NodeNumber, Tally] = {}
    for row in rows_of(reading, group):
        packed.add_to(tallies, row)
    found = (_node_map(group.name, who[number], tally, who) for number, tally in tallies.items())
    return sorted(found, key=lambda each: each.name)


def _node_map(group: str, node: str, tally: Tally, who: Names) -> NodeMap:
    return NodeMap(
        name=f"{group}/{node}",
        group=group,
        node=node,
        is_member=who.is_member(node),
        copies=tally.copies,
        primaries=tally.primaries,
        wanted=tally.wanted,
        states={state.name: count for state, count in sorted(tally.states.items(), key=lambda each: each[0].ordinal)},
    )


def _known(reading: Reading, node: str) -> str:
    """The node's name; raises NotFound for a node that there never was, so that a slip is no empty list."""
    if reading.row(NodeRow, node) is None:
        error = not_found(node, (key for key, _ in reading.rows(NodeRow)), "node")
        raise NotFound(error.message, hint=error.hint or "`topolog get nodes` lists them.")
    return node


def _sought(reading: Reading, who: Names, filters: Mapping[str, str]) -> Sought | None:
    """None if a node is named that has never held anything: then nothing is found."""
    given = (name for name in ("node", "primary") if name in filters)
    numbers = {name: who.number_of(_known(reading, filters[name])) for name in given}
    if None in numbers.values():
        return None
    condition = Condition[filters["state"]] if "state" in filters else None
    return Sought(condition, numbers.get("node"), numbers.get("primary"))


def _groups(reading: Reading, only: str | None) -> list[GroupRow]:
    if only is None:
        return sorted((row for _, row in reading.rows(GroupRow)), key=lambda row: row.name)
    row = reading.row(GroupRow, only)
    if row is None:
        raise groups.no_group(reading, only)
    return [row]


def _behind(after: str | None) -> tuple[str, int]:
    """Group and first number of what comes behind the partition of this name; BadInput for no such name."""
    if after is None:
        return "", 0
    group, _, number = after.rpartition("/")
    if not (group and number.isascii() and number.isdecimal() and len(number) <= 5):
        raise BadInput(f"{after!r} is no partition.", hint="Give back `next` of a page, unchanged.")
    return group, int(number) + 1


def _partition(group: str, held: Ownership, condition: Condition, who: Names) -> Partition:
    primary = None if held.acting is None else who[held.acting]
    copies = tuple([_copy(each, who) for each in held.copies])
    owners = [copy.node for copy in copies if copy.state == "OWNING"]
    return Partition(
        name=f"{group}/{held.partition}",
        group=group,
        partition=held.partition,
        state=condition.name,
        primary=primary,
        backups=tuple([node for node in owners if node != primary]) if primary else (),
        wanted=tuple([copy.node for copy in copies if copy.wanted]),
        copies=copies,
        token=held.token,
        since=max([held.token, *[copy.since for copy in copies]]),
        lost=held.is_lost,
        awaits=tuple(owners) if held.is_lost else (),
    )


def _copy(held: Copy, who: Names) -> PartitionCopy:
    node = who[held.node]
    return PartitionCopy(node, held.state.name, held.wanted, held.since, who.is_member(node))
