"""What a service is told as the log is applied: types as they are accepted, partitions as they change, its own end."""

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import groupby

from topolog.events import ownership
from topolog.events.awaited import Awaited
from topolog.events.baseline import ClusterStateRow, cluster_state
from topolog.events.exchange import ExchangeCompleted, ExchangeMerged, ExchangeStarted, HandOverRow
from topolog.events.failpoints import reach
from topolog.events.fold import Folded
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import NOWHERE, Position
from topolog.events.leases import LeaveReason
from topolog.events.membership import NodeDied, NodeJoined, NodeLeft
from topolog.events.metadata import MetadataRemoveAccepted, MetadataUpdateAccepted, TypeRow, type_row
from topolog.events.ownership import NodeNumber
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.partitions import PartitionState
from topolog.events.state import Key, State
from topolog.streams.node import views
from topolog.streams.node.acting import Acting
from topolog.streams.node.answers import Metadata
from topolog.streams.node.copies import Disk, PartitionId
from topolog.streams.node.core import NodeCore
from topolog.streams.node.object_hooks import ObjectHooks
from topolog.streams.node.service import Service
from topolog.streams.node.serving import Serving
from topolog.streams.node.views import PartitionView

TypeHook = Callable[[str, Metadata | None], None]
LeftHook = Callable[[LeaveReason], None]
MapHook = Callable[[Sequence[PartitionView]], None]
JoinedHook = Callable[[], None]
ExchangeHook = Callable[[], None]
StateHook = Callable[[ClusterStateRow], None]
Whole = Callable[[], Disk]


class Hooks(Service):
    """The hooks of one node, called in the order of the log."""

    def __init__(self, announce: Callable[[NodeDied], None] = lambda _: None) -> None:
        self.on_type: list[TypeHook] = []
        self.on_joined: list[JoinedHook] = []
        self.on_left: list[LeftHook] = []
        self.on_map: list[MapHook] = []
        self.on_assigned: list[MapHook] = []
        self.on_released: list[MapHook] = []
        self.on_exchange: list[ExchangeHook] = []
        self.on_cluster_state: list[StateHook] = []
        self.acting = Acting()
        self.serving = Serving()
        self.of_objects = ObjectHooks()
        self.whole_copies: Whole = dict
        self._announce = announce
        self._said: dict[str, None] = {}
        self._cluster_state = cluster_state(State())
        self._rows: dict[str, OwnershipRow] = {}
        self._lives: dict[PartitionId, Position] = {}
        self._numbers: dict[str, int] = {}

    def begin(self, core: NodeCore) -> None:
        """Say each type that is accepted in the snapshot's state, in the order of acceptance.

        Before that, take back whatever was said of a state that proved wrong.
        """
        self.acting.forget()
        self._rows.clear()
        self._lives.clear()
        self._adopt_state(core)
        self.of_objects.begin(core)
        for name in list(self._said):
            self._say(name, None)
        accepted = [row for _, row in core.state.rows(TypeRow) if row.accepted]
        for row in sorted(accepted, key=lambda row: row.accepted_at or NOWHERE):
            assert row.accepted is not None
            self._say(row.name, Metadata(row.accepted, row.accepted_version))

    def hook(self, core: NodeCore, folded: Folded) -> None:
        match folded.event:
            case MetadataUpdateAccepted(type_name=name, version=version):
                row = type_row(core.state, name)
                assert row is not None, "an accepted type has a row"
                assert row.accepted is not None, "an accepted type has a definition"
                self._say(name, Metadata(row.accepted, version))
            case MetadataRemoveAccepted(type_name=name):
                self._say(name, None)
            case ExchangeStarted() | ExchangeMerged() as asked:
                if Awaited(core.node, core.incarnation, needs_map=True) in asked.awaited:
                    self._quiesce()
            case ExchangeCompleted(unheard=missed) if core.node in missed and core.has_joined:
                self._quiesce()
            case NodeJoined(joiner=joiner) if (joiner.node, joiner.incarnation) == (core.node, core.incarnation):
                for joined in self.on_joined:
                    joined()
            case NodeLeft(reason=reason) as left if (left.node, left.incarnation) == (core.node, core.incarnation):
                for hook in self.on_left:
                    hook(reason)

    def _quiesce(self) -> None:
        for quiesce in self.on_exchange:
            quiesce()

    def adopt(self, core: NodeCore, keys: Sequence[Key]) -> None:
        """Who acts for nothing more stops before the service hears of it; who acts anew begins when it has heard."""
        self._adopt_state(core)
        self.of_objects.adopt(core, keys)
        if not any(kind in (OwnershipRow.KIND, HandOverRow.KIND) for kind, _ in keys):
            return
        reach("node.map-folded")
        number = ownership.number_of(core.state, core.node)
        changed = [(key, core.state.get(OwnershipRow, key)) for kind, key in keys if kind == OwnershipRow.KIND]
        before = [self._rows[key] for key, _ in changed if key in self._rows]
        now = [row for _, row in changed if row is not None]
        tokens = {} if number is None else dict(_tokens(now, number))
        was_ours = set() if number is None else {place for place, _ in _tokens(before, number)}
        closing = views.handed_over_by(core.state, core.node)
        self.acting.revoke(was_ours, tokens, closing, core.lease.deadline_ns)
        if closing:
            reach("node.handing-over")
        if self.on_map or self.on_assigned or self.on_released:
            dropped = [self._rows[key] for key, row in changed if row is None and key in self._rows]
            gone = [each for row in dropped for each in views.gone(row, self._numbers[row.group])]
            self._tell(core, [*gone, *self._changed(core, now)])
        self._rows.update((key, row) for key, row in changed if row is not None)
        self._numbers.update((name, row.number) for name, row in core.state.rows(GroupRow))
        for key in [key for key, row in changed if row is None]:
            self._rows.pop(key, None)
        reach("node.map-adopted")
        self.acting.grant(tokens)

    def _adopt_state(self, core: NodeCore) -> None:
        row = cluster_state(core.state)
        if row != self._cluster_state:
            self.serving.narrow(row)
            for hook in self.on_cluster_state:
                hook(row)
            self._cluster_state = row
            self.serving.widen(row)

    def announce(self, died: NodeDied) -> None:
        self._announce(died)

    def whole(self) -> Disk:
        return self.whole_copies()

    def running(self, places: Set[PartitionId]) -> Set[PartitionId]:
        return self.acting.running(places)

    def _changed(self, core: NodeCore, rows: Sequence[OwnershipRow]) -> Iterator[PartitionView]:
        names = ownership.names(core.state)
        for name, some in _by_group(rows):
            group = group_row(core.state, name)
            assert group is not None, "a row belongs to a group"
            before = [self._rows.get(ownership.row_key(name, row.first)) for row in some]
            yield from views.changed(group, before, some, names)

    def _tell(self, core: NodeCore, found: Sequence[PartitionView]) -> None:
        """All that has changed; what of it is a new life of a copy of ours: to be held, or to be cleared."""
        released, assigned = list[PartitionView](), list[PartitionView]()
        for each in found:
            place, copy = (each.group, each.partition), each.copy_of(core.node)
            if copy is None:
                self._lives.pop(place, None)
            elif core.is_of_this_life(copy.since) and self._lives.get(place) != copy.since:
                self._lives[place] = copy.since
                (released if copy.state is PartitionState.RENTING else assigned).append(each)
        if released:
            reach("node.clearing")
        for hooks, told in ((self.on_map, found), (self.on_assigned, assigned), (self.on_released, released)):
            for hook in hooks if told else ():
                hook(told)

    def _say(self, name: str, metadata: Metadata | None) -> None:
        if metadata is None:
            self._said.pop(name, None)
        else:
            self._said[name] = None
        for hook in self.on_type:
            hook(name, metadata)


def _tokens(rows: Sequence[OwnershipRow], number: NodeNumber) -> Iterator[tuple[PartitionId, Position]]:
    """What the node acts for in these rows, with its tokens."""
    for name, some in _by_group(rows):
        for partition, token in ownership.acted_by(some, number):
            yield (name, partition), token


def _by_group(rows: Sequence[OwnershipRow]) -> Iterator[tuple[str, list[OwnershipRow]]]:
    return ((name, list(some)) for name, some in groupby(rows, key=lambda row: row.group))
