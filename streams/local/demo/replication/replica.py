"""All copies of one node: the map, operations and messages in, what is to be done out. No I/O (`__init__.py`).

    replica = Replica(NodeId("n1"))
    for output in replica.adopt(applied, changed_partitions, joined_at):
        ...  # send, answer, report

One caller at a time. Whoever owns it calls `resend` every now and then, while anything is missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from topolog.events.ids import NOWHERE, NodeId, Position
from topolog.streams.local.demo.replication.content import PAGE_ROWS, Content
from topolog.streams.local.demo.replication.leading import Supplier, by_number
from topolog.streams.local.demo.replication.messages import AnyMessage, Operation, Output, PartitionView, Place
from topolog.streams.local.demo.replication.partition import Partition


class Replica:
    """`refused` counts messages that came too late, or to the wrong life of a copy, by reason."""

    def __init__(self, node: NodeId, *, page_rows: int = PAGE_ROWS, supplier: Supplier = by_number) -> None:
        self.node = node
        self.refused: Counter[str] = Counter()
        self._page_rows = page_rows
        self._supplier = supplier
        self._joined_at: Position | None = None
        self._applied = NOWHERE
        self._partitions: dict[Place, Partition] = {}
        self._outputs: list[Output] = []

    def adopt(self, applied: Position, views: Iterable[PartitionView], joined_at: Position | None) -> list[Output]:
        """The map as of `applied`: the partitions that the decisions since the last call have changed.

        `joined_at` is where this process's present incarnation joined, None while it is no member. What the log says
        of this node from before that is about a process that is no more. Of a group that is dropped each partition is
        told once more, without copies.
        """
        is_change_of_membership = joined_at != self._joined_at
        self._joined_at, self._applied = joined_at, applied
        told = {view.place: view for view in views}
        if is_change_of_membership:
            untold = {place: each.view for place, each in self._partitions.items() if place not in told and each.view}
            told = {**untold, **told}
        enrolled: set[str] = set()
        for place, view in told.items():
            partition = self._partition(place)
            was_listed = partition.state is not None
            partition.adopt(view, applied, joined_at)
            if partition.state is not None and not was_listed:
                enrolled.add(view.group)
        for (group, _), partition in self._partitions.items():
            if group in enrolled:
                partition.drop_unlisted()
        return self._taken()

    def begin(self, operation: Operation) -> list[Output]:
        """Begin an operation for which the node's guard has given a token; it ends with Answered or Failed."""
        self._partition(operation.place).begin(operation, is_in=self._joined_at is not None)
        return self._taken()

    def abandon(self, place: Place, operation: int) -> None:
        """Whoever waited for the operation has gone: it ends with nothing."""
        self._partition(place).abandon(operation)

    def receive(self, sender: NodeId, message: AnyMessage) -> list[Output]:
        self._partition(message.place).receive(sender, message, is_in=self._joined_at is not None)
        return self._taken()

    def resend(self) -> list[Output]:
        """What others have not answered yet, once more."""
        for partition in self._partitions.values():
            partition.resend()
        return self._taken()

    def whole(self) -> Mapping[str, Mapping[int, int]]:
        """By group and partition the copies that are whole, each with the newest token that it has a row of: what this
        process has to say when it joins again and is asked what is on its disk."""
        found: dict[str, dict[int, int]] = {}
        for place, partition in self.partitions():
            if partition.is_whole:
                found.setdefault(place[0], {})[place[1]] = partition.content.newest_token()
        return found

    def partitions(self) -> Iterator[tuple[Place, Partition]]:
        """Of which this node has heard."""
        return iter(self._partitions.items())

    def partition(self, place: Place) -> Partition | None:
        return self._partitions.get(place)

    def _partition(self, place: Place) -> Partition:
        """Looked up, or made: who asks may be ahead of the map."""
        found = self._partitions.get(place)
        if found is None:
            new = self._new_content
            found = Partition(self.node, new, self._supplier, self.refused, self._outputs.append)
            self._partitions[place] = found
        return found

    def _new_content(self) -> Content:
        return Content(self._page_rows)

    def _taken(self) -> list[Output]:
        taken = list(self._outputs)
        self._outputs.clear()
        return taken
