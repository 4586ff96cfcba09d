"""A whole cluster in memory, for the unit tests of a service: the real coordinator, the real nodes, no Kafka.

    with LocalCluster() as cluster, cluster.node("n1") as node:
        node.propose(ObjectType("Customer", {"id": "long"}))
        with cluster.cut_off("n1"):
            cluster.advance(3)
            assert not node.lease.is_valid

Time stands still until `advance` moves it, in steps of a heartbeat, and after each step waits until everybody has done
what is to be done by then. So what a test sees depends on what it did, and not on how fast the machine is: a lease of
twenty seconds runs out in milliseconds, and never by itself. Nodes are the service's own objects and have their
threads; between two of them nothing is faked but the broker (`events/log.py`) and the clock.

What cannot be had here: the broker's own faults, and a process that dies. `kill` ends a node as seen by the cluster,
and fences the object, for the process goes on and must not act.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from topolog.events.asked import RequestId
from topolog.events.asking import encode_request, refusal_of
from topolog.events.baseline_requests import ClusterStateRequested
from topolog.events.cluster_state import ClusterState
from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, Refused, Unreachable
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import NOWHERE, Offset, Position
from topolog.events.leases import NodeRow, Standing
from topolog.events.log import Entry, Headers, InMemoryLog, LogReader, LogWriter, OnDelivery, Partition
from topolog.events.object_definition import Statement
from topolog.events.object_requests import SchemaChangeRequested
from topolog.events.objects import ChangeStatus, change_row
from topolog.events.requests import Status, outcome_of
from topolog.events.topics import Topic
from topolog.streams.clock import Clock, ManualClock
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.node.aio import AsyncNode
from topolog.streams.node.client import Node
from topolog.streams.node.member import Member

T = TypeVar("T")

TERMS = LeaseTerms(fence_ms=2_000, margin_ms=500, heartbeat_ms=200)
_TURN_S = 0.002
_PATIENCE_S = 30.0
_BEATS = 200


class Link:
    """The connection of one process to the log: reader and writer in one, which can be cut, healed and ended.

    `has_failed` says whether its process has ended for good by itself. One that `is_hung` reads nothing and goes on
    sending, as a process does of which a hook does not return; `is_reading` says whether a read is under way. What is
    sent to topics that are `denied` fails with NotAllowed.
    """

    def __init__(
        self,
        log: InMemoryLog,
        clock: Clock,
        has_failed: Callable[[], bool] = lambda: False,
        denied: Collection[Topic] = (),
    ) -> None:
        self.turns = 0
        self.beaten_ns = -1
        self.is_cut = False
        self.is_hung = False
        self.is_reading = False
        self._log = log
        self._clock = clock
        self._has_failed = has_failed
        self._reader = log.reader()
        self._writer = log.writer(prompt=False, denied=denied)
        self._end: str | None = None

    @property
    def is_live(self) -> bool:
        return not self.is_cut and self._end is None

    @property
    def has_ended(self) -> bool:
        return self._end is not None or self._has_failed()

    @property
    def takes_turns(self) -> bool:
        return not self.is_cut and not self.is_hung and not self.has_ended

    @property
    def beats(self) -> bool:
        """Whether its heartbeats are to be expected; of one that hangs only if it has joined before."""
        return self.takes_turns or (self.is_hung and self.beaten_ns >= 0 and not self.is_cut and not self.has_ended)

    def end(self, reason: str) -> None:
        """Nothing is read or sent any more; who asks is told so, for good."""
        self._writer.fail()
        self._end = reason

    def assign(self, starts: Mapping[Partition, Offset | None]) -> None:
        self._reader.assign(starts)

    def bounds(self, partition: Partition) -> Any:
        return None if self.is_cut else self._reader.bounds(partition)

    def poll(self, timeout_s: float) -> list[Entry]:
        self.turns += 1
        if self._end is not None:
            raise Unreachable(self._end)
        self.is_reading = True
        try:
            if not self.is_cut and not self.is_hung:
                return self._reader.poll(min(timeout_s, _TURN_S))
        finally:
            self.is_reading = False
        with self._log.changed:
            self._log.changed.wait(_TURN_S)
        return []

    def at_end(self, topic: Topic) -> bool:
        return self.is_live and self._reader.at_end(topic)

    def hears(self, topic: Topic) -> bool:
        return self.is_live and self._reader.hears(topic)

    def counted(self, entry: Entry, fence_ms: int) -> None:
        self._reader.counted(entry, fence_ms)

    def proven(self) -> bool:
        return self.is_live and self._reader.proven()

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is Topic.HEARTBEATS:
            self.beaten_ns = self._clock.monotonic_ns()
        if self._end is None:
            self._writer.append(topic, key, value, headers, on_delivery)
        if self.is_live:
            self._writer.land()

    def serve(self) -> None:
        if self.is_live:
            self._writer.land()
        self._writer.serve()

    def flush(self, timeout_s: float) -> int:
        self.serve()
        return self._writer.in_flight

    def close(self) -> None:
        self.end("The connection is closed.")


class LocalCluster:
    """One cluster with one coordinator. `clock` may be a SystemClock, for tests that want real time to pass.

    As on a broker with access lists, only the nodes named in `operators` may ask for what is an operator's, such as
    `reset_group`: others get NotAllowed.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        terms: LeaseTerms = TERMS,
        clock: Clock | None = None,
        operators: Collection[str] = (),
    ) -> None:
        self.name = name
        self._operators = frozenset(operators)
        self.terms = terms
        self.clock = clock or ManualClock()
        self.log = InMemoryLog(self.clock.wall_ms)
        self._links: dict[str, Link] = {}
        self._nodes: dict[str, Member] = {}
        self._coordinators = 0
        self._asked = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reading = threading.Lock()
        self._fold, self._folded, self._read = Fold(), list[Folded](), list[Entry]()

    def __enter__(self) -> Self:
        self.start_coordinator()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_coordinator()

    # Who takes part.

    def node(self, name: str, **options: Any) -> Node:
        """A node of this cluster, to be entered; `options` are those of Node."""
        node = Node(self.name, name, clock=self.clock, connect=lambda: self._connect(name, node), **options)
        return node

    def async_node(self, name: str, **options: Any) -> AsyncNode:
        """The same for asyncio. Await `asyncio.to_thread(cluster.advance, …)`: it waits for threads."""
        node = AsyncNode(self.name, name, clock=self.clock, connect=lambda: self._connect(name, node), **options)
        return node

    def start_coordinator(self) -> None:
        """Another life of the coordinator; it leads at once if the one before has stopped."""
        self._coordinators += 1
        self._stopping.clear()
        link = self._links["coordinator"] = Link(self.log, self.clock)
        instance = f"c{self._coordinators}"
        driver = Driver(link, link, self.clock, self.name, instance, terms=self.terms, takeover_ms=1)
        self._thread = threading.Thread(target=driver.run, args=(self._stopping.is_set,), name="coordinator")
        self._thread.start()

    def stop_coordinator(self) -> None:
        """In order: its term ends. Until another is started nothing is decided and no lease renewed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._links.pop("coordinator", None)

    # What an operator does.

    def change_state(self, target: ClusterState) -> None:
        """As `topolog cluster activate` and its like; returns when it is decided and everybody has applied it that can.
        Raises Refused."""
        self._asked += 1
        request, log_id = RequestId("operator", self._asked), self._told()[0].header.log_id
        assert log_id is not None, "a coordinator founds the log before anything else"
        asked = ClusterStateRequested(request, log_id, "operator", "", target)
        self.log.put(Topic.OPERATIONS, request.requester, encode_request(asked))
        self.settle()
        outcome = outcome_of(self._told()[0].state, request)
        if outcome is not None and outcome.status is Status.REFUSED:
            raise refusal_of(outcome)

    def change(self, *statements: Statement, deadline_ms: int | None = None, wait: bool = True) -> Position:
        """Change definitions, as `topolog apply` does; gives the number of the change.

        Lets time pass until the change is over, or returns at once unless `wait`. Raises Refused if the change is
        refused or rolled back. A statement that finds all as it wants gives NOWHERE.
        """
        self._asked += 1
        request, log_id = RequestId("operator", self._asked), self._told()[0].header.log_id
        assert log_id is not None, "a coordinator founds the log before anything else"
        asked = SchemaChangeRequested(request, log_id, "operator", "", statements, deadline_ms)
        self.log.put(Topic.OPERATIONS, request.requester, encode_request(asked))
        self.settle()
        outcome = outcome_of(self._told()[0].state, request)
        assert outcome is not None, "no coordinator has answered"
        if outcome.status is Status.REFUSED:
            raise refusal_of(outcome)
        is_change = outcome.subject.startswith("change ")
        number = Position(int(outcome.subject.removeprefix("change "))) if is_change else NOWHERE
        if wait and number != NOWHERE:
            self._wait_for_change(number)
        return number

    def _wait_for_change(self, number: Position) -> None:
        for _ in range(_BEATS):
            row = change_row(self._told()[0].state, number)
            if row is None or not row.is_open:
                break
            self.advance(self.terms.heartbeat_ms / 1000)
        if row is None or row.status is ChangeStatus.COMMITTED:
            return
        if row.is_open:
            raise AssertionError(f"Change {number} is not over: it is {row.status.value}.")
        raise Refused(row.code, row.rule, row.message, row.facts)

    # Faults.

    @contextmanager
    def cut_off(self, *names: str) -> Iterator[None]:
        """These nodes reach no broker inside; what they send waits, as in Kafka's producer, and lands afterwards."""
        links = [self._link(name) for name in names]
        before = [(link, link.turns) for link in links]
        for link in links:
            link.is_cut = True
        self._until(
            lambda: all(link.turns > turns or link.has_ended for link, turns in before)
        )  # a read may be running
        try:
            yield
        finally:
            for link in links:
                link.is_cut = False
            self.settle()

    @contextmanager
    def hung(self, *names: str) -> Iterator[None]:
        """Inside, these nodes are as if one of their hooks did not return: they apply nothing, and their heartbeats go
        on. Nobody waits for what they do, so a hook of theirs may really block inside."""
        links = [link for link in map(self._link, names) if not link.is_hung]  # who hangs already goes on hanging
        for link in links:
            link.is_hung = True
        self._until(lambda: not any(link.is_reading for link in links))
        try:
            yield
        finally:
            for link in links:
                link.is_hung = False
            self.settle()

    @contextmanager
    def leases_expired(self) -> Iterator[None]:
        """Inside, every lease is over, as after an outage of the broker; nobody is removed, all come back by it."""
        with self.cut_off(*self._links):
            self._manual_clock().advance(self.terms.fence_ms + 1)
            yield

    def kill(self, name: str, *, certificate: bool = True) -> None:
        """End a node as `kill -9` would: it releases nothing. Its sentinel speaks for it unless `certificate` is False,
        as when the machine is lost: then it is out of the membership once its lease is over."""
        self._link(name).end(f"Node {name!r} was killed.")
        died = self._nodes[name].death_certificate
        if certificate and died:
            self.log.put(Topic.HEARTBEATS, name, CODEC.encode(died))
        del self._links[name]
        self.settle()

    # Time.

    def advance(self, seconds: float) -> None:
        """Let time pass, a heartbeat at a time; before and after each step all have done what was due."""
        if not 0 <= seconds < math.inf:
            raise BadInput(f"Time cannot pass by {seconds} s.", hint="Give a number that is 0 or more.")
        clock, left_ms = self._manual_clock(), seconds * 1000
        self.settle()
        while left_ms > 0:
            clock.advance(min(left_ms, self.terms.heartbeat_ms))
            left_ms -= self.terms.heartbeat_ms
            self.settle()

    def settle(self) -> None:
        """Wait until nothing more happens without time passing; raises AssertionError if that never comes."""
        self._until(self._is_quiet)

    def decisions(self, kind: type[T]) -> list[T]:
        """The events of this kind in the log so far, in order, as an independent reader folds them."""
        if not isinstance(kind, type):
            raise BadInput(f"{kind!r} is no class of events.", hint="Such as NodeJoined of topolog.events.membership.")
        return [each.event for each in self._told()[1] if isinstance(each.event, kind)]

    def _connect(self, name: str, node: Member) -> tuple[LogReader, LogWriter]:
        if name in self._links and self._links[name].is_live:
            self._links[name].end(f"Another node {name!r} was made.")
        denied = () if name in self._operators else (Topic.OPERATIONS,)
        link = self._links[name] = Link(self.log, self.clock, lambda: node.failure is not None, denied)
        self._nodes[name] = node
        return link, link

    def _link(self, name: str) -> Link:
        if name not in self._links:
            raise BadInput(f"There is no live node {name!r} in this cluster: {', '.join(sorted(self._links))}.")
        return self._links[name]

    def _manual_clock(self) -> ManualClock:
        if not isinstance(self.clock, ManualClock):
            raise BadInput("Nobody moves a real clock.", hint="Leave `clock` out, and time stands still until moved.")
        return self.clock

    def _is_quiet(self) -> bool:
        """Whether everybody has looked twice since the log last grew, and whoever must beat has."""
        live = {name: link for name, link in self._links.items() if link.takes_turns}
        before = {name: link.turns for name, link in live.items()}
        size = self.log.size
        self._until(lambda: all(link.turns >= before[name] + 2 or not link.takes_turns for name, link in live.items()))
        beating = {name for name, link in self._links.items() if link.beats}
        return self.log.size == size and all(self._has_beaten(name) for name in self._members() if name in beating)

    def _has_beaten(self, name: str) -> bool:
        return self.clock.monotonic_ns() - self._links[name].beaten_ns < self.terms.heartbeat_ms * 1_000_000

    def _members(self) -> dict[str, NodeRow]:
        rows = (row for _, row in self._told()[0].state.rows(NodeRow))
        return {row.node: row for row in rows if row.is_member and row.standing is not Standing.STOPPING}

    def _told(self) -> tuple[Fold, list[Folded]]:
        """What an independent reader has folded; one that begins anew if the log is not the one that it has read."""
        with self._reading:
            entries = list(self.log.entries(Topic.DECISIONS))
            if self._read and self._read[-1:] != entries[len(self._read) - 1 : len(self._read)]:
                self._fold, self._folded, self._read = Fold(), [], []
            for entry in entries[len(self._read) :]:
                folded = self._fold.read(entry.stamp, entry.value)
                if not isinstance(folded, Ignored):
                    self._folded.extend(folded)
            self._read = entries
            return self._fold, self._folded

    def _until(self, holds: Any) -> None:
        for _ in range(int(_PATIENCE_S / _TURN_S)):
            if holds():
                return
            with self.log.changed:
                self.log.changed.wait(_TURN_S)
        raise AssertionError(f"The cluster is not quiet after {_PATIENCE_S:g} s: does a hook wait for something?")
