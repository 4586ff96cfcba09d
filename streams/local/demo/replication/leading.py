"""The acting primary's side of one partition, under one token: reconcile, then write, read and supply."""

from collections.abc import Callable

from topolog.events.ids import NodeId
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.replication.content import Content
from topolog.streams.local.demo.replication.messages import (
    Answered,
    Ask,
    Cell,
    Failed,
    Operation,
    Output,
    Page,
    Probe,
    Replicate,
    Send,
    Stored,
    Supply,
    Synced,
    Version,
    Write,
)
from topolog.streams.node.copies import PartitionId
from topolog.streams.node.views import CopyView, PartitionView

Supplier = Callable[[PartitionView], NodeId]
"""Who supplies a partition whose map this is: one of its owners, the primary included."""


def by_number(view: PartitionView) -> NodeId:
    """The owners in turn, so that each supplies some partitions."""
    owners = sorted(copy.node for copy in view.copies if copy.state is PartitionState.OWNING)
    return owners[view.partition % len(owners)]


class Pending:
    """A write on its way. `stored`: the listings that have confirmed it; `operation` is None once its client has gone;
    `reads`: those that have found it."""

    def __init__(self, key: str, value: bytes | None, operation: int | None) -> None:
        self.key = key
        self.value = value
        self.operation = operation
        self.stored: set[CopyView] = set()
        self.reads: list[int] = []


class Leading:
    def __init__(
        self, node: NodeId, view: PartitionView, content: Content, supplier: Supplier, out: Callable[[Output], None]
    ) -> None:
        self.view = view
        self.token = view.token
        self.is_ready = False
        self._place: PartitionId = (view.group, view.partition)
        self._node = node
        self._content = content
        self._supplier = supplier
        self._out = out
        self._number = 0
        self._settled = 0
        self._pending: dict[int, Pending] = {}
        self._waiting: dict[int, Operation] = {}
        self._synced: set[CopyView] = set()
        self._held: dict[NodeId, Ask] = {}

    # The map.

    def adopt(self, view: PartitionView) -> None:
        """The map has changed under this token: who is listed now gets what is on its way (DS3)."""
        known, self.view = set(self.others()), view
        for number, pending in self._pending.items():
            for copy in self.others():
                if copy not in known:
                    self._replicate(copy, number, pending)
        self._settle()
        self._begin_when_ready()

    def others(self) -> list[CopyView]:
        """The listings that each write goes to."""
        return [copy for copy in self.view.copies if copy.node != self._node and copy.state.is_written]

    def close(self) -> None:
        """The token acts no more: whatever runs fails (DS8)."""
        for operation in self.running():
            self._out(Failed(operation))

    def running(self) -> list[int]:
        """The operations that have not ended, in no order."""
        writes = [pending.operation for pending in self._pending.values() if pending.operation is not None]
        reads = [read for pending in self._pending.values() for read in pending.reads]
        return [*writes, *reads, *self._waiting]

    # Clients.

    def begin(self, operation: Operation) -> None:
        if not self.is_ready:
            self._waiting[operation.id] = operation
            return
        match operation:
            case Write(if_absent=True) if self._has(operation.key):
                self._read(operation)
            case Write():
                self._write(operation)
            case _:
                self._read(operation)

    def abandon(self, operation: int) -> None:
        """Nobody waits for it any more. A write that has begun still goes to all copies."""
        self._waiting.pop(operation, None)
        for pending in self._pending.values():
            if pending.operation == operation:
                pending.operation = None
            if operation in pending.reads:
                pending.reads.remove(operation)

    def _write(self, write: Write) -> None:
        self._number += 1
        self._content.put(write.key, Cell(Version(self.token, self._number), write.value))
        pending = self._pending[self._number] = Pending(write.key, write.value, write.id)
        for copy in self.others():
            self._replicate(copy, self._number, pending)
        self._settle()

    def _has(self, key: str) -> bool:
        cell = self._content.get(key)
        return cell is not None and cell.value is not None

    def _read(self, read: Operation) -> None:
        """What it would return must be safe first."""
        cell = self._content.get(read.key)
        pending = self._pending.get(cell.version.number) if cell and cell.version.token == self.token else None
        if pending is not None:
            pending.reads.append(read.id)
        elif cell is None or cell.value is None:
            self._out(Answered(read.id, None))
        else:
            self._out(Answered(read.id, cell.version, cell.value))

    # Copies.

    def stored(self, copy: CopyView, message: Stored) -> bool:
        pending = self._pending.get(message.number)
        if pending is None:
            return False
        pending.stored.add(copy)
        self._settle()
        return True

    def synced(self, copy: CopyView, _: Synced) -> bool:
        self._synced.add(copy)
        self._begin_when_ready()
        return True

    def asked(self, copy: CopyView, ask: Ask) -> bool:
        """A listed copy wants a page: an owner to be reconciled, from the primary itself; one that loads when all
        owners are (DS4), from whoever supplies it."""
        if copy.state is PartitionState.OWNING:
            self._page(copy.node, ask)
        elif not self.is_ready:
            self._held[copy.node] = ask
        elif (supplier := self._supplier(self.view)) == self._node:
            self._page(copy.node, ask)
        else:
            supply = Supply(*ask.place, self.token, ask.since, copy.node, ask.after, ask.have)
            self._out(Send(supplier, supply))
        return True

    def resend(self) -> None:
        """Say again what has not been answered."""
        for number, pending in self._pending.items():
            for copy in self._missing(pending):
                self._replicate(copy, number, pending)
        if not self.is_ready:
            for copy in self._unsynced():
                self._out(Send(copy.node, Probe(*self._place, self.token, copy.since)))

    def _page(self, to: NodeId, ask: Ask) -> None:
        rows, through = self._content.page(ask.after, ask.have)
        self._out(Send(to, Page(*ask.place, self.token, ask.since, ask.after, through, rows)))

    def _begin_when_ready(self) -> None:
        if self.is_ready or self._unsynced():
            return
        self.is_ready = True
        waiting, self._waiting = self._waiting, {}
        for operation in waiting.values():
            self.begin(operation)
        held, self._held = self._held, {}
        for node, ask in held.items():
            copy = self.view.copy_of(node)
            if copy is not None and copy.since == ask.since:
                self.asked(copy, ask)

    def _unsynced(self) -> list[CopyView]:
        """The other owners that have not been made equal yet (DS4)."""
        return [copy for copy in self.others() if copy.state is PartitionState.OWNING and copy not in self._synced]

    def _replicate(self, copy: CopyView, number: int, pending: Pending) -> None:
        message = Replicate(*self._place, self.token, copy.since, number, pending.key, pending.value, self._settled)
        self._out(Send(copy.node, message))

    def _settle(self) -> None:
        """Acknowledge what all copies have that are listed now (DS3), in the order of numbers.

        In order, for a copy that is listed meanwhile gets what is on its way and loads the rest: were a deletion
        settled before the write that it deletes, the copy would get the write and never hear of the deletion.
        """
        for number, pending in list(self._pending.items()):
            if self._missing(pending):
                break
            del self._pending[number]
            self._settled = number
            self._acknowledge(Version(self.token, number), pending)
        self._content.forget_deletions(self.token, self._settled)

    def _acknowledge(self, version: Version, pending: Pending) -> None:
        if pending.operation is not None:
            self._out(Answered(pending.operation, version))
        for read in pending.reads:
            self._out(Answered(read, None if pending.value is None else version, pending.value))

    def _missing(self, pending: Pending) -> list[CopyView]:
        return [copy for copy in self.others() if copy not in pending.stored]
