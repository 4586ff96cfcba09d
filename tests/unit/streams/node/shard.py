"""A service on the real node client that holds copies of nothing: it loads and clears in no time."""

from collections.abc import Sequence

from topolog.events.errors import NotPrimary, PartitionLost
from topolog.events.partitions import PartitionState
from topolog.streams.node.client import Node
from topolog.streams.node.views import PartitionView


class Shard:
    """A service that loads and clears in no time, and notes what it is told."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.told: list[PartitionView] = []
        self.assigned: list[PartitionView] = []
        self.released: list[PartitionView] = []
        self.asked = 0
        self.is_slow = False
        node.on_map(self._on_map)
        node.on_assigned(self.assigned.extend)
        node.on_released(self.released.extend)
        node.on_exchange(self._on_exchange)

    def load(self) -> None:
        """Finish all that there is to load and to clear."""
        for group in self.node.groups():
            self._finish(self.node.partitions(group))

    def acts_for(self, group: str = "orders") -> set[int]:
        """What it may begin an operation for."""
        return {each.partition for each in self.node.partitions(group) if self._may_act(group, each.partition)}

    def _may_act(self, group: str, partition: int) -> bool:
        try:
            with self.node.acting(group, partition):
                return True
        except (NotPrimary, PartitionLost):
            return False

    def _on_map(self, found: Sequence[PartitionView]) -> None:
        self.told.extend(found)
        if not self.is_slow:
            self._finish(found)

    def _on_exchange(self) -> None:
        self.asked += 1

    def _finish(self, found: Sequence[PartitionView]) -> None:
        for each in found:
            copy = each.copy_of(self.node.name)
            if copy and copy.state is PartitionState.MOVING and each.primary:
                self.node.loaded(each.group, each.partition, copy.since, each.token)
            elif copy and copy.state is PartitionState.RENTING:
                self.node.cleared(each.group, each.partition, copy.since)
