"""All copies of one node: the map, operations and messages in, what is to be done out. No I/O (`__init__.py`).

    replica = Replica(NodeId("n1"))
    for output in replica.adopt(changed_partitions):
        ...  # send, answer, report

One caller at a time. Whoever owns it calls `resend` every now and then, while anything is missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from topolog.events.ids import NodeId
from topolog.streams.local.demo.replication.content import PAGE_ROWS, Content, Keep, everything
from topolog.streams.local.demo.replication.leading import Supplier, by_number
from topolog.streams.local.demo.replication.messages import AnyMessage, Cell, Operation, Output
from topolog.streams.local.demo.replication.partition import Life, Partition
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import PartitionView


class Replica:
    """`refused` counts messages that came too late, or to the wrong life of a copy, by reason."""

    def __init__(
        self, node: NodeId, *, page_rows: int = PAGE_ROWS, supplier: Supplier = by_number, keep: Keep = everything
    ) -> None:
        self._life = Life(node)
        self._page_rows = page_rows
        self._supplier = supplier
        self._keep = keep
        self._partitions: dict[PartitionId, Partition] = {}
        self._outputs: list[Output] = []

    @property
    def refused(self) -> Counter[str]:
        return self._life.refused

    def enter(self) -> list[Output]:
        """This process is a member: from here on the log speaks of it, until it leaves.

        Not only from the first exchange that asks it: a group that was created meanwhile is shared out with it too.
        """
        if self._life.entered_at is None:
            self._life.entered_at = self._life.applied
            self._look_again()
        return self._taken()

    def leave(self) -> list[Output]:
        """This process is out of the membership; it may enter again, with what it holds."""
        self._life.entered_at = None
        self._look_again()
        return self._taken()

    def adopt(self, views: Iterable[PartitionView]) -> list[Output]:
        """What a set of decisions has changed; in the order of the log, also while this process is out."""
        told = list(views)
        positions = [position for view in told for position in (view.token, *(copy.since for copy in view.copies))]
        self._life.applied = max((self._life.applied, *positions))
        enrolled: set[str] = set()
        for view in told:
            partition = self._partition((view.group, view.partition))
            was_listed = partition.state is not None
            partition.adopt(view)
            if partition.state is not None and not was_listed:
                enrolled.add(view.group)
        for (group, _), partition in self._partitions.items():
            if group in enrolled:
                partition.drop_unlisted()
        return self._taken()

    def begin(self, operation: Operation) -> list[Output]:
        """Begin an operation for which the node's guard has given a token; it ends with Answered or Failed."""
        self._partition(operation.place).begin(operation)
        return self._taken()

    def abandon(self, place: PartitionId, operation: int) -> None:
        """Whoever waited for the operation has gone: it ends with nothing."""
        self._partition(place).abandon(operation)

    def receive(self, sender: NodeId, message: AnyMessage) -> list[Output]:
        self._partition(message.place).receive(sender, message)
        return self._taken()

    def resend(self) -> list[Output]:
        """What others have not answered yet, once more."""
        for partition in self._partitions.values():
            partition.resend()
        return self._taken()

    def come_back(self) -> None:
        """Take up what a former process has left; the log is read, and this process asks to join."""

    def write_down(self) -> None:
        """Keep what has changed, before anybody hears of it. In memory it is kept."""

    def sweep(self) -> bool:
        """Drop what counts no more of all that is here; whether there was any."""
        swept = [content.sweep() for content in self._contents()]
        return any(swept)

    def rows(self) -> Iterator[tuple[str, Cell]]:
        """All that is here, also what is on its way."""
        for content in self._contents():
            yield from content.cells()

    def whole(self) -> Mapping[int, Mapping[int, int]]:
        """By group number and partition the copies that are whole, each with the newest token that it has a row of:
        what this process has to say when it joins again and is asked what it holds."""
        found: dict[int, dict[int, int]] = {}
        for (_, number), partition in self.partitions():
            if partition.is_whole and partition.view is not None:
                found.setdefault(partition.view.group_number, {})[number] = partition.content.newest_token()
        return found

    def partitions(self) -> Iterator[tuple[PartitionId, Partition]]:
        """Of which this node has heard."""
        return iter(self._partitions.items())

    def partition(self, place: PartitionId) -> Partition | None:
        return self._partitions.get(place)

    def _contents(self) -> Iterator[Content]:
        """Of the copies, and what their intakes have brought so far."""
        for _, partition in self.partitions():
            yield partition.content
            came = partition.following.unfinished() if partition.following else None
            if came is not None:
                yield came

    def _look_again(self) -> None:
        for partition in self._partitions.values():
            if partition.view is not None:
                partition.adopt(partition.view)

    def _partition(self, place: PartitionId) -> Partition:
        """Looked up, or made: who asks may be ahead of the map."""
        found = self._partitions.get(place)
        if found is None:
            found = Partition(self._life, place, self._new_content, self._supplier, self._outputs.append)
            self._partitions[place] = found
        return found

    def _new_content(self) -> Content:
        return Content(self._page_rows, self._keep)

    def _taken(self) -> list[Output]:
        taken = list(self._outputs)
        self._outputs.clear()
        return taken
