"""What a member of the cluster does about partitions: learn of them, find who serves a key, act, report.

    node.on_map(store.adopt)
    with node.acting("orders", 17) as token:
        store.write(17, key, value, token)

An operation runs under a token: the position of the decision that made its node the acting primary. What travels to
other nodes carries it, and they refuse a lower one (DS8, DS9). `acting` is left in order only if its token was good
until then; an operation that raises `Moved` or `NotActive` at its end must not be acknowledged.
"""

import contextlib
from collections.abc import Callable, Iterator

from topolog.events import ownership
from topolog.events.baseline import ClusterStateRow, cluster_state
from topolog.events.errors import Moved, NotFound, NotPrimary, PartitionLost, Unreachable
from topolog.events.failpoints import reach
from topolog.events.group_definition import LossPolicy
from topolog.events.groups import GroupRow, group_row
from topolog.events.ids import Position
from topolog.events.leases import NodeRow
from topolog.events.partitions import PartitionState
from topolog.events.state import State
from topolog.streams.clock import Clock
from topolog.streams.node import views
from topolog.streams.node.copies import Disk, PartitionId
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.hooks import ExchangeHook, Hooks, JoinedHook, MapHook, StateHook
from topolog.streams.node.session import Session
from topolog.streams.node.views import Move, PartitionView, Route
from topolog.streams.rules.affinity import partition_of


class Sharing:
    """A member, as far as partitions are concerned. Any thread may call, but no hook may report from inside."""

    lease: LeaseGuard
    """Whether this node may act now; there from entering on."""

    name: str
    _clock: Clock
    _hooks: Hooks
    _session: Session

    # To be registered before entering.

    def on_joined(self, hook: JoinedHook) -> None:
        """Call `hook()` when this process has become a member, at each join, in the order of the log.

        What `on_map` tells of positions before that is about a former life of this node.
        """
        self._hooks.on_joined.append(hook)

    def on_map(self, hook: MapHook) -> None:
        """Call `hook(partitions)` with all partitions that a set of decisions has changed, in the order of the log.

        Called before the set counts as applied here. Nobody acts anew before it returns; who acts no longer has stopped
        before it is called.
        """
        self._hooks.on_map.append(hook)

    def on_assigned(self, hook: MapHook) -> None:
        """As `on_map`, with those of which this node is to hold a copy from here on, or one in another life."""
        self._hooks.on_assigned.append(hook)

    def on_released(self, hook: MapHook) -> None:
        """As `on_map`, with those of which this node is to clear its copy, and to say so: `cleared`."""
        self._hooks.on_released.append(hook)

    def on_exchange(self, hook: ExchangeHook) -> None:
        """Call `hook()` before this node sends the single map that an exchange asks it for. Others are not asked, and
        what it does not quieten goes on elsewhere: what quietens a partition is the drain of its hand-over."""
        self._hooks.on_exchange.append(hook)

    def on_cluster_state(self, hook: StateHook) -> None:
        """Call `hook(row)` when the cluster's state has changed, in the order of the log.

        `row.allowed` is what may be served: what no longer may has been refused since before the call, what may again
        is when all hooks have returned.
        """
        self._hooks.on_cluster_state.append(hook)

    def holds(self, whole: Callable[[], Disk]) -> None:
        """`whole()` gives the whole copies that are here, with update counters, by group's number and partition.

        Asked for at each join and for each single map. Without it a node that comes back has nothing; nor has one
        without a data folder, whatever it says.
        """
        self._hooks.whole_copies = whole

    # Who serves what.

    def owners(self, group: str, partition: int) -> PartitionView:
        """Who holds and who acts for a partition, as of `position`. Raises NotFound if there is none."""
        with self._session.folding:
            found = views.view(self._state, group, partition)
        if found is None:
            raise NotFound(f"There is no partition {partition} of a group {group!r}.")
        return found

    def partitions(self, group: str) -> list[PartitionView]:
        """All partitions of a group, as of `position`. Raises NotFound."""
        with self._session.folding:
            return list(views.of_group(self._state, self._group(group)))

    def lost(self, group: str) -> list[int]:
        """The partitions of which no owner is left, as of `position`. Raises NotFound."""
        with self._session.folding:
            return list(self._lost(self._group(group)))

    def moves(self, group: str) -> list[Move]:
        """The copies that load now, and from whom; empty when all has come to rest. Raises NotFound."""
        return list(views.moves(self.partitions(group)))

    def route(self, group: str, key: str | int) -> Route:
        """The node that serves a key, as far as this node knows: it may refuse, and then know better.

        Raises NotFound without the group, PartitionLost, and NotPrimary while nobody acts.
        """
        with self._session.folding:
            partition = partition_of(key, self._group(group).partitions)
            found = views.view(self._state, group, partition)
            assert found is not None, "a key lies in a partition of its group"
            if found.primary is None:
                raise self._nobody(found)
            return Route(group, partition, found.primary, self._endpoint(found.primary), found.token)

    def cluster_state(self) -> ClusterStateRow:
        """Whether the cluster serves, as of `position`; where no operator has ever said anything it is ACTIVE."""
        with self._session.folding:
            return cluster_state(self._state)

    # Acting.

    def acting(
        self, group: str, partition: int, *, writing: bool = True
    ) -> contextlib.AbstractContextManager[Position]:
        """Act for a partition: yields the token. Raises NotPrimary, saying who acts; Fenced; NotActive, where the state
        of the cluster forbids it; PartitionLost, where the group's policy forbids to write while another partition is
        lost; Moved, Fenced or NotActive at the end, and then what was done must not be acknowledged."""
        return self._act(group, partition, writing)

    @contextlib.contextmanager
    def _act(self, group: str, partition: int, writing: bool) -> Iterator[Position]:
        began_ns = self._clock.boottime_ns()
        self.lease.require()
        begun = self._hooks.serving.begin(writing=writing)
        if writing:
            self._check_policy(group)
        place: PartitionId = (group, partition)
        token = self._hooks.acting.begin(place)
        if token is None:
            raise self._not_primary(group, partition)
        is_good = False
        try:
            yield token
        finally:
            ended_ns = self._clock.boottime_ns()
            is_good = self._hooks.acting.end(place, token, ended_ns)
            self.lease.acted(began_ns, ended_ns)
            if self._hooks.acting.is_closing(place):
                self._look_at_drains()
        if not is_good:
            raise Moved(f"Partition {group}/{partition} was handed over while this ran.", hint="Ask who acts now.")
        self._hooks.serving.end(begun, writing=writing)
        self.lease.require()

    # Reports.

    def loaded(self, group: str, partition: int, since: Position, token: Position) -> bool:
        """This node's copy, MOVING since that position, has all that the primary of this token has (DS5).

        False if the copy, or its life, is another by now.
        """
        return self._finish(group, partition, since, token)

    def cleared(self, group: str, partition: int, since: Position) -> bool:
        """This node's copy, RENTING since that position, is gone. False as above."""
        return self._finish(group, partition, since, Position(0))

    def _finish(self, group: str, partition: int, since: Position, token: Position) -> bool:
        with self._session.folding:
            is_current = self._session.core.finish_copy(group, partition, since, token)
        if is_current:
            reach("node.finished")
        return is_current

    @property
    def _state(self) -> State:
        return self._session.core.state

    def _look_at_drains(self) -> None:
        """An operation has ended behind HandOverPrepared: if it was the last one, say so at once."""
        with self._session.folding:
            has_drained = self._session.core.look_at_drains()
        if has_drained:
            reach("node.drained")
            with contextlib.suppress(Unreachable):
                self._session.beat()

    def _check_policy(self, group: str) -> None:
        with self._session.folding:
            row = group_row(self._state, group)
            lost = next(self._lost(row), None) if row and row.loss_policy is LossPolicy.READ_ONLY_SAFE else None
        if lost is not None:
            raise PartitionLost(
                f"Group {group!r} takes no writes: its partition {lost} is lost, and its policy is READ_ONLY_SAFE.",
                hint="It does again when the partition's owner is back, or its loss is reset.",
            )

    def _not_primary(self, group: str, partition: int) -> NotPrimary | PartitionLost | NotFound:
        with self._session.folding:
            found = views.view(self._state, group, partition)
            if found is None:
                return NotFound(f"There is no partition {partition} of a group {group!r}.")
            if found.primary is None:
                return self._nobody(found)
            endpoint = self._endpoint(found.primary)
        if found.primary == self.name:
            message = f"Node {self.name!r} is handing {group}/{partition} over."
            return NotPrimary(message, hint="The next primary acts in a moment.")
        message = f"Node {self.name!r} does not act for {group}/{partition}: node {found.primary!r} does."
        return NotPrimary(message, node=found.primary, endpoint=endpoint)

    def _nobody(self, found: PartitionView) -> NotPrimary | PartitionLost:
        place = f"{found.group}/{found.partition}"
        if found.is_lost:
            awaited = ", ".join(copy.node for copy in found.copies if copy.state is PartitionState.OWNING)
            ends = f"awaits {awaited}" if awaited else "awaits nobody: only a reset of its group ends that"
            return PartitionLost(
                f"Partition {place} is lost and {ends}.", hint=f"`topolog explain partition {place}` says more."
            )
        return NotPrimary(f"Nobody acts for {place} now.", hint="An exchange decides who will.")

    def _group(self, name: str) -> GroupRow:
        row = group_row(self._state, name)
        if row is None:
            raise NotFound(f"There is no group {name!r}.")
        return row

    def _lost(self, group: GroupRow) -> Iterator[int]:
        for row in ownership.rows_of(self._state, group.name, group.partitions):
            yield from ownership.lost_in(row)

    def _endpoint(self, node: str) -> str:
        row = self._state.get(NodeRow, node)
        return row.endpoint if row else ""
