"""This node's copies at work: the replicas of `replication/`, moved by the node's map, by clients and by other nodes.

Three kinds of threads meet here. The node's own tells what the log says, and must not be held up: it takes the lock for
as long as a few dictionary look-ups last. Threads of clients begin an operation under the node's guard and wait outside
of the lock. One thread of its own says again what others have not answered, deletes what the commit of a change has
closed, and reports what is loaded, cleared and deleted, for a hook may not.
"""

import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

from topolog.events.cluster_state import ClusterState
from topolog.events.errors import (
    Fenced,
    Moved,
    NotActive,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    Refused,
    TopologError,
    Unreachable,
)
from topolog.events.groups import Affinity, GroupDefinition
from topolog.events.ids import NodeId, Position
from topolog.events.single_maps import UpdateCounter
from topolog.streams.local.demo.courier import Courier, batch_of
from topolog.streams.local.demo.disk import DiskReplica, Journal
from topolog.streams.local.demo.replication.messages import (
    Answered,
    AnyMessage,
    Cell,
    Cleared,
    Failed,
    Loaded,
    Operation,
    Output,
    Read,
    Send,
    Version,
    Write,
)
from topolog.streams.local.demo.replication.partition import CopyRole
from topolog.streams.local.demo.replication.replica import Replica
from topolog.streams.local.demo.table_rows import spread_by
from topolog.streams.local.demo.tables import Tables
from topolog.streams.node.client import Node
from topolog.streams.node.copies import Disk
from topolog.streams.node.deletions import Deletion
from topolog.streams.node.views import PartitionView
from topolog.streams.rules.affinity import partition_of

ATTRIBUTES = {"service": "store"}
"""What a node of the store says of itself: no other server of the cluster is given copies, which it could not load."""

GROUP = GroupDefinition("rows", partitions=64, backups=1, affinity=Affinity(node_filter=ATTRIBUTES), persistent=True)

OPERATION_S = 5.0
"""How long a client waits for an operation before it hears that it is not done."""

RESEND_S = 0.25

_LOGGER = logging.getLogger("topolog.store")


class Shards:
    """The copies of one node, in memory only without a journal.

    Make it before its node is entered, and enter it behind its node.
    """

    def __init__(self, node: Node, group: GroupDefinition = GROUP, journal: Journal | None = None) -> None:
        self.group = group
        self.node = NodeId(node.name)
        self._node = node
        self.tables = Tables(node)
        keep = self.tables.keep
        self._replica = DiskReplica(self.node, group.name, journal, keep) if journal else Replica(self.node, keep=keep)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._running: dict[int, Future[Answered]] = {}
        self._reports: deque[Loaded | Cleared] = deque()
        self._is_due = threading.Event()
        self._hears_of_loss = True
        self._closed: deque[Position] = deque()
        self._is_unswept = False
        self._stopping = threading.Event()
        self._courier = Courier(node, self._receive_all)
        self._thread = threading.Thread(target=self._look_after, name=f"{node.name} copies", daemon=True)
        node.on_map(self._on_map)
        node.on_joined(self._on_joined)
        node.on_left(self._on_left)
        node.on_deletion(self._on_deletion)
        node.holds(self._whole)

    def __enter__(self) -> Self:
        self._declare()
        self._courier.start()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._is_due.set()
        with ExitStack() as ending:
            ending.callback(self._thread.join)
            ending.callback(self._courier.stop)

    # Clients.

    def read(self, key: str) -> bytes | None:
        """The row; None if there is none. Raises NotPrimary, Fenced, PartitionLost; Moved and Unreachable: again."""
        partition = self._partition_of(key)
        with self._acting(partition, writing=False) as token:
            return self._run(Read(next(self._numbers), self.group.name, partition, token, key)).value

    def write(self, key: str, value: bytes | None, *, if_absent: bool = False) -> bool:
        """Store a row, or delete it with None; acknowledged when this returns (DS3).

        False if it is there and was to be stored only if absent. Raises what `read` does. Behind Moved and Unreachable
        it may be stored or not: to do it again does no harm.
        """
        partition = self._partition_of(key)
        with self._acting(partition, writing=True) as token:
            write = Write(next(self._numbers), self.group.name, partition, token, key, value, if_absent)
            return self._run(write).value is None

    def keys(self, *, acting_only: bool) -> list[str]:
        """Of the rows that are here, or only of those that this node acts for."""
        with self._lock:
            found = [each for _, each in self._replica.partitions() if each.leading or not acting_only]
            return [key for each in found for key, _ in each.content.rows()]

    def states(self) -> Counter[str]:
        """How many copies are here in each state, and as ACTING for how many this node acts."""
        with self._lock:
            found = [each for _, each in self._replica.partitions()]
            states = Counter(each.state.name for each in found if each.state)
            states["ACTING"] = sum(each.leading is not None for each in found)
            return states

    def refused(self) -> Counter[str]:
        """Messages of other nodes that came too late, by reason."""
        return Counter(self._replica.refused)

    # Who compares copies (`copies.py`).

    def held(self, role: CopyRole, begins: str) -> dict[int, tuple[Position, list[tuple[str, Cell]]]]:
        """By partition the copies that have this role here now: the acting token, and the rows whose keys begin so.

        Each is as it was at one moment. Raises Fenced: without a lease nobody knows what other nodes do by now.
        """
        self._node.lease.require()
        with self._lock:
            return {
                number: (each.view.token, [row for row in each.content.rows() if row[0].startswith(begins)])
                for (group, number), each in self._replica.partitions()
                if group == self.group.name and each.view is not None and each.role is role
            }

    def rewrite(self, key: str, version: Version, is_wrong: Callable[[bytes], bool], value: bytes) -> bool:
        """Put this value in the place of one that is wrong under this version; False if there is no such one here.

        Raises Refused where this node acts: what it holds is changed by writes alone. Fenced as `receive`.
        """
        self._node.lease.require()
        with self._lock:
            partition = self._replica.partition((self.group.name, self._partition_of(key)))
            if partition is not None and partition.leading is not None:
                raise Refused(
                    "ACTING_COPY",
                    "DS3",
                    f"This node acts for row {spread_by(key)!r}.",
                    hint="Write the row as a client.",
                )
            cell = partition.content.get(key) if partition else None
            if partition is None or cell is None or cell.version != version or cell.value is None:
                return False
            if not is_wrong(cell.value):
                return False
            partition.content.rewrite(key, value)
            self._replica.write_down()
            return True

    def rot(self, key: str, damaged: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
        """Let the disk hold other bytes than were written, in this node's copy; before and after. Raises NotFound.

        No replica would do that, nor any other part of a store: it is there so that somebody can find it out.
        """
        with self._lock:
            partition = self._replica.partition((self.group.name, self._partition_of(key)))
            cell = partition.content.get(key) if partition else None
            if partition is None or cell is None or cell.value is None:
                raise NotFound(f"There is no row {spread_by(key)!r} in this node's copies.")
            after = damaged(cell.value)
            partition.content.rewrite(key, after)
            self._replica.write_down()
            return cell.value, after

    # Other nodes.

    def receive(self, sender: NodeId, messages: Iterable[AnyMessage]) -> list[AnyMessage]:
        """Take what another node sends; gives what goes back to that one at once, as much as a parcel holds.

        Raises Fenced without a lease of its own: what a copy stores must be under a renewal that its disk names, or
        nobody could tell in which history it was (`events/views.py`).
        """
        self._node.lease.require()
        with self._lock:
            outputs = [output for message in messages for output in self._replica.receive(sender, message)]
            back = deque(each.message for each in outputs if isinstance(each, Send) and each.to == sender)
            self._perform(each for each in outputs if not (isinstance(each, Send) and each.to == sender))
            first = batch_of(back)
            self._perform(Send(sender, message) for message in back)
        return first

    def _receive_all(self, sender: NodeId, messages: Iterable[AnyMessage]) -> bool:
        """As `receive`, of what others have answered; False without a lease."""
        if not self._node.lease.is_valid:
            return False
        with self._lock:
            for message in messages:
                self._perform(self._replica.receive(sender, message))
        return True

    # What the node tells, on its own thread, and asks.

    def _on_map(self, found: Sequence[PartitionView]) -> None:
        with self._lock:
            own = [each for each in found if each.group == self.group.name]
            self._hears_of_loss |= any(each.is_lost for each in own)
            self._perform(self._replica.adopt(own))

    def _on_joined(self) -> None:
        self._is_unswept = True
        with self._lock:
            self._perform(self._replica.enter())

    def _on_left(self, _: object) -> None:
        with self._lock:
            self._perform(self._replica.leave())

    def _on_deletion(self, deletion: Deletion) -> None:
        self.tables.close(deletion)
        self._closed.append(deletion.change)
        self._is_due.set()

    def _whole(self) -> Disk:
        with self._lock:
            self._replica.come_back()
            self._replica.write_down()
            whole = self._replica.whole()
        return {
            group: {partition: UpdateCounter(0, newest) for partition, newest in held.items()}
            for group, held in whole.items()
        }

    # The rest of the work.

    def _declare(self) -> None:
        """An operator may have altered the group: who may hold how many copies is no business of ours. One of before
        the store had disks is as good, but that it may be begun anew."""
        try:
            self._node.create_group(self.group)
        except Refused as refused:
            if refused.code != "GROUP_EXISTS" or "partitions" in refused.facts:
                raise

    @contextmanager
    def _acting(self, partition: int, *, writing: bool) -> Iterator[Position]:
        """The node's guard. A group that somebody has dropped may be made anew: whoever asks is to ask again."""
        try:
            with self._node.acting(self.group.name, partition, writing=writing) as token:
                yield token
        except NotFound as error:
            options = f"--partitions {self.group.partitions} --backups {self.group.backups} --node-filter service=store"
            raise Unreachable(
                f"{error.message} Somebody has dropped the store's group, with all rows.",
                hint=f"`topolog create group {self.group.name} {options}` makes it anew, empty.",
            ) from error

    def _partition_of(self, key: str) -> int:
        return partition_of(spread_by(key), self.group.partitions)

    def _run(self, operation: Operation) -> Answered:
        done: Future[Answered] = Future()
        with self._lock:
            self._running[operation.id] = done
            self._perform(self._replica.begin(operation))
        try:
            return done.result(OPERATION_S)
        except OutOfTime:
            raise Unreachable(
                f"Not all copies of {operation.group}/{operation.partition} have answered within {OPERATION_S:g} s.",
                hint="Try again: a copy that does not come back is left out when its lease is over.",
            ) from None
        finally:
            with self._lock:
                if self._running.pop(operation.id, None):
                    self._replica.abandon(operation.place, operation.id)

    def _perform(self, outputs: Iterable[Output]) -> None:
        """Under the lock: hand on what the replica wants, to whom it concerns."""
        wanted = list(outputs)
        self._replica.write_down()
        for output in wanted:
            match output:
                case Send(to=to, message=message):
                    self._courier.post(to, message)
                case Answered(id=number):
                    if done := self._running.pop(number, None):
                        done.set_result(output)
                case Failed(id=number):
                    if done := self._running.pop(number, None):
                        done.set_exception(Moved("The partition has moved while this ran.", hint="Ask who acts now."))
                case Loaded() | Cleared():
                    self._reports.append(output)
                    self._is_due.set()

    def _look_after(self) -> None:
        while not self._stopping.is_set():
            is_hurried = self._is_due.wait(RESEND_S)
            self._is_due.clear()
            self._report()
            self._delete_what_is_closed()
            if self._hears_of_loss:
                self._begin_anew_if_all_is_lost()
            if not is_hurried and self._courier.is_idle:
                with self._lock:
                    self._perform(self._replica.resend())

    def _report(self) -> None:
        """Tell the node what is finished. What it cannot take now is of a life that is over."""
        while self._reports and not self._stopping.is_set():
            report = self._reports.popleft()
            try:
                match report:
                    case Loaded():
                        self._is_unswept = True
                        self._node.loaded(report.group, report.partition, report.since, report.token)
                    case Cleared():
                        self._node.cleared(report.group, report.partition, report.since)
            except TopologError:
                return  # the node has ended: `node.failure` says why

    def _delete_what_is_closed(self) -> None:
        """What counts for nothing since a commit; and what was closed while this node was away, which it finds on its
        disk when it joins, or loads from others."""
        if self._node.failure or not (self._closed or self._is_unswept):
            return
        with suppress(Fenced, NotActive), self._node.deleting():  # else when the cluster is ACTIVE again
            self._delete(self._closed.copy())

    def _delete(self, changes: Collection[Position]) -> None:
        if self._is_unswept:
            self._is_unswept = False
            with self._lock:
                found = list(self._replica.rows())
            self.tables.look_at(found)
        with self._lock:
            self._replica.sweep()
        for change in changes:
            self._closed.remove(change)
            self._node.deleted(change)

    def _begin_anew_if_all_is_lost(self) -> None:
        """If rows are in memory and no partition has an owner, no process that held one lives, and none can come back.

        Where a part is lost, somebody should know of it: that is an operator's to give up.
        """
        self._hears_of_loss = self._node.cluster_state().allowed is not ClusterState.ACTIVE
        if self._hears_of_loss:
            return  # nothing is given up now
        try:
            group = self._node.groups().get(self.group.name)
            if group is None or group.persistent:
                return  # whoever comes back with its disk ends the loss
            if len(self._node.lost(group.name)) == group.partitions:
                self._node.reset_group(group.name, timeout_s=1.0, reason="every process that held rows is gone")
        except (Fenced, OutcomeUnknown):
            self._hears_of_loss = True
        except NotAllowed as error:
            hint = f"Give it up with `topolog reset group {self.group.name}`."
            _LOGGER.warning("All of group %s is lost, and stays so: %s %s", self.group.name, error.message, hint)
        except TopologError:
            return  # as in `_report`
