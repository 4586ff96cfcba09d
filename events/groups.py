"""Groups: what is shared out over the members, and by what rules (docs/design/partitions.md).

Threats. Two services that start together declare one group in two ways, and each shares out its own; a group is dropped
and made anew, and a map, a copy or a message of the old one is taken for one of the new; a key is looked up among 1,024
partitions by one process and among 64 by another.

Invariant. At each position there is one definition of each name, and its number belongs to it alone for ever. The
number of partitions of a group, and whether it is persistent, never change under that number.

Argument. The coordinator decides in the order of the log; what is declared twice alike is one group, and a declaration
that differs is refused with what differs. Numbers are counted in the log and never go back, so whatever names a group
by its number means that one life of it. Everybody takes the number of partitions from the log.

Each change makes a new view: copies move because of it, so it raises the topology version's minor number.
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from topolog.events.asked import Request, RequestRef
from topolog.events.decision import Decision
from topolog.events.group_definition import Affinity, GroupDefinition, LossPolicy
from topolog.events.ids import Place, Position, TopologyVersion
from topolog.events.requests import grant
from topolog.events.state import Row, State
from topolog.events.terms import cluster, enter_view

__all__ = [
    "Affinity",
    "GroupAltered",
    "GroupCreated",
    "GroupDefinition",
    "GroupDropped",
    "GroupEvent",
    "GroupRow",
    "LossPolicy",
    "evolve",
    "group_row",
]


class GroupRow(Row, frozen=True):
    """One group, under its name. `altered_at` is None until it is altered; a group that is dropped leaves no row."""

    KIND: ClassVar[str] = "group"

    name: str
    number: int
    partitions: int
    backups: int
    affinity: Affinity
    loss_policy: LossPolicy
    persistent: bool
    created_at: Position
    altered_at: Position | None = None

    @property
    def definition(self) -> GroupDefinition:
        return GroupDefinition(
            self.name, self.partitions, self.backups, self.affinity, self.loss_policy, self.persistent
        )


class GroupCreationRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "group {0.group.name}"

    group: GroupDefinition


class GroupAlterationRequested(Request, frozen=True):
    """What is None stays as it is; a node filter that is given stands in place of the one before. `harmless`: it is
    refused where, once it is decided, copies or what they hold could be lost by it."""

    SUBJECT: ClassVar[str] = "group {0.name}"

    name: str
    partitions: int | None = None
    backups: int | None = None
    exclude_neighbours_by: str | None = None
    node_filter: Mapping[str, str] | None = None
    backup_filter: str | None = None
    loss_policy: LossPolicy | None = None
    persistent: bool | None = None
    harmless: bool | None = None


class GroupDropRequested(Request, frozen=True):
    SUBJECT: ClassVar[str] = "group {0.name}"

    name: str


GroupRequest = GroupCreationRequested | GroupAlterationRequested | GroupDropRequested


class GroupCreated(Decision, frozen=True):
    request: RequestRef
    number: int
    group: GroupDefinition
    topology_version: TopologyVersion


class GroupAltered(Decision, frozen=True):
    """All that can change of a group, as it is from here on."""

    request: RequestRef
    name: str
    backups: int
    affinity: Affinity
    loss_policy: LossPolicy
    topology_version: TopologyVersion


class GroupDropped(Decision, frozen=True):
    request: RequestRef
    name: str
    number: int
    topology_version: TopologyVersion


GroupEvent = GroupCreated | GroupAltered | GroupDropped


def group_row(state: State, name: str) -> GroupRow | None:
    return state.get(GroupRow, name)


def evolve(state: State, event: GroupEvent, place: Place) -> None:
    match event:
        case GroupCreated():
            _create(state, event, place)
        case GroupAltered():
            _alter(state, event, place)
        case GroupDropped():
            _drop(state, event, place)
    enter_view(state, event.topology_version)


def _create(state: State, event: GroupCreated, place: Place) -> None:
    group, counted = event.group, cluster(state)
    assert group_row(state, group.name) is None, "a group is created that is there"
    assert event.number == counted.next_group, "a group gets a number that is not the next"
    row = GroupRow(
        name=group.name,
        number=event.number,
        partitions=group.partitions,
        backups=group.backups,
        affinity=group.affinity,
        loss_policy=group.loss_policy,
        persistent=group.persistent,
        created_at=place.position,
    )
    state.put(group.name, row)
    state.put("", msgspec.structs.replace(counted, next_group=event.number + 1))
    grant(state, event.request, place, f"group {group.name}")


def _alter(state: State, event: GroupAltered, place: Place) -> None:
    row = group_row(state, event.name)
    assert row is not None, "a group is altered that is not there"
    altered = msgspec.structs.replace(
        row,
        backups=event.backups,
        affinity=event.affinity,
        loss_policy=event.loss_policy,
        altered_at=place.position,
    )
    state.put(event.name, altered)
    grant(state, event.request, place, f"group {event.name}")


def _drop(state: State, event: GroupDropped, place: Place) -> None:
    row = group_row(state, event.name)
    assert row is not None and row.number == event.number, "a group is dropped that is not there"
    state.drop(GroupRow, event.name)
    grant(state, event.request, place, f"group {event.name}")
