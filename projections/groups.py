"""What can be asked of groups: all of them, one by name, who may hold copies."""

from collections.abc import Iterator

from topolog.events.errors import NotFound
from topolog.events.groups import GroupRow
from topolog.events.ids import Position
from topolog.events.leases import NodeRow
from topolog.projections.queries import not_found
from topolog.projections.resources import Group
from topolog.projections.store import Reading


def groups(reading: Reading) -> list[Group]:
    """Every group, by name."""
    return [_group(row) for row in sorted((row for _, row in reading.rows(GroupRow)), key=lambda row: row.name)]


def group(reading: Reading, name: str) -> Group:
    row = reading.row(GroupRow, name)
    if row is None:
        raise no_group(reading, name)
    return _group(row)


def no_group(reading: Reading, name: str) -> NotFound:
    """The error for a group that is not there."""
    return not_found(name, (key for key, _ in reading.rows(GroupRow)), "group")


def dropped_at(reading: Reading, name: str) -> Position | None:
    """Where the last group of this name was dropped; None if there is one now or never was."""
    position, row = next(reading.versions(GroupRow, name), (None, None))
    return position if row is None else None


def admitted(reading: Reading, row: GroupRow) -> Iterator[NodeRow]:
    """The servers that may hold copies of the group's partitions."""
    for _, node in reading.rows(NodeRow):
        if node.holds_lease and row.affinity.admits(node.attributes):
            yield node


def _group(row: GroupRow) -> Group:
    return Group(
        name=row.name,
        number=row.number,
        partitions=row.partitions,
        backups=row.backups,
        exclude_neighbours_by=row.affinity.exclude_neighbours_by,
        node_filter=row.affinity.node_filter,
        backup_filter=row.affinity.backup_filter,
        loss_policy=row.loss_policy.value,
        persistent=row.persistent,
        created_at=row.created_at,
        altered_at=row.altered_at,
    )
