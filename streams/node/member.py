"""What Node and AsyncNode have in common: everything but how a caller waits.

A member's log, session, threads and hooks are here, and each question that must wait: it becomes a Pending, which a
blocking caller takes the result of and an asyncio caller awaits. One thread of its own owns the log and applies it; a
second one sends heartbeats, so that a slow hook does not end the lease.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from topolog.events.asked import RequestId
from topolog.events.codec import CODEC
from topolog.events.errors import (
    BadInput,
    Fenced,
    MergeConflict,
    TopologError,
    Unreachable,
)
from topolog.events.groups import GroupRow
from topolog.events.ids import Incarnation, NodeId, Position
from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import FENCING, NodeKind, NodeRow, members
from topolog.events.log import LogReader, LogWriter
from topolog.events.membership import Joiner, NodeDied
from topolog.events.metadata import TypeRow, UpdateRequested, floor_of, removal_of, type_row
from topolog.events.names import node_id
from topolog.events.object_definition import ObjectKind
from topolog.events.object_types import DeclaredType, ObjectType, merge, with_schema
from topolog.events.requests import Status
from topolog.events.topics import NEEDED
from topolog.streams.clock import CAN_FENCE, Clock, SystemClock
from topolog.streams.node.answers import Metadata, Outcome, Submitted, not_accepted, not_removed, not_settled
from topolog.streams.node.core import Phase
from topolog.streams.node.declaring import Declaring
from topolog.streams.node.folder import FolderLock
from topolog.streams.node.forks import tell_children
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.hooks import Hooks, LeftHook, TypeHook
from topolog.streams.node.measures import NodeMeasures
from topolog.streams.node.past_disk import PastFile
from topolog.streams.node.schema import Schema, stale_kinds
from topolog.streams.node.sentinel import Sentinel
from topolog.streams.node.session import Session
from topolog.streams.node.sharing import Sharing
from topolog.streams.node.waits import Pending, Waits

Wait = Literal["decided", "accepted"]

TIMEOUT_S = 30.0
"""How long a call waits unless it is told otherwise."""

_CLOSE_TIMEOUT_S = 2.0
_READY: Future[bool] = Future()
_READY.set_result(True)


class Member(Sharing, Schema):
    """A member of a cluster.

    `kafka`: librdkafka settings, `bootstrap.servers` at least. `endpoint`: where others reach the service.
    `types`: what this node knows from before, as (definition, version). `folder`: opt-in for a node with a local disk;
    its exclusive lock proves that no former process of this node lives, so that a restart need not wait for its lease;
    and a server notes there where in the log it has written, so that it never joins another history of that log.
    `sentinel`: start a tiny process that says when this one has died, so that a crash does not cost the lease.
    `serve_stale`: kinds of objects that are looked at and read while this node is fenced too, labelled with their age.
    `connect` gives reader and writer of another log than Kafka's, as tests do; then there is no sentinel.
    """

    def __init__(  # noqa: PLR0913 (keyword settings of one object, each explained above)
        self,
        cluster_name: str,
        node: str,
        *,
        kafka: Mapping[str, str] | None = None,
        kind: NodeKind = NodeKind.SERVER,
        endpoint: str = "",
        attributes: Mapping[str, str] | None = None,
        types: tuple[tuple[ObjectType, int], ...] = (),
        folder: Path | None = None,
        join_timeout_s: float = 60.0,
        sentinel: bool = True,
        clock: Clock | None = None,
        connect: Callable[[], tuple[LogReader, LogWriter]] | None = None,
        serve_stale: Collection[ObjectKind] = (),
    ) -> None:
        self.name = node_id(node)
        self.cluster = cluster_name
        self._stale = stale_kinds(serve_stale)
        self._kind = kind
        self._clock = clock or SystemClock()
        self._join_timeout_s = join_timeout_s
        self._folder = FolderLock(folder, node) if folder else None
        self._past = PastFile(folder, node) if folder and kind is NodeKind.SERVER else None
        self._address = (kafka or {}).get("bootstrap.servers", "the log")
        is_wanted = sentinel and CAN_FENCE and connect is None
        self._sentinel = Sentinel(kafka or {}, cluster_name, is_wanted=is_wanted)
        self._connect = connect or (lambda: _connect_to_kafka(kafka or {}, cluster_name))
        self._joiner = Joiner(
            node=node,
            incarnation=Incarnation(0),
            kind=kind,
            endpoint=endpoint,
            attributes=dict(attributes or {}),
            capabilities=(FENCING,) if CAN_FENCE else (),
            types=tuple(DeclaredType(definition, version) for definition, version in types),
        )
        self._hooks = Hooks(self._announce)
        self._waits = Waits()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._is_copy = False
        self._changing = threading.Lock()

    def on_type(self, hook: TypeHook) -> None:
        """Call `hook(name, metadata)` for each accepted version, with None for a removal; register before entering.

        Called in the order of the log, before the decision counts as applied here. The log is read from its beginning
        or from a snapshot: of what stands there it calls once per type, with the version that is accepted. A
        snapshot that proves wrong before the node has joined is taken back: None for each type.
        """
        self._hooks.on_type.append(hook)

    def on_left(self, hook: LeftHook) -> None:
        """Call `hook(reason)` when this process finds itself out of the membership; register before entering."""
        self._hooks.on_left.append(hook)

    def _begin(self) -> None:
        """Start the threads, which join; undone if anything of it fails."""
        if self._threads:
            raise BadInput(f"Node {self.name!r} was entered before.", hint="A Node is entered once; make a new one.")
        with self._changing, contextlib.ExitStack() as undo:
            joiner = self._joiner
            if self._folder:
                joiner = msgspec.structs.replace(joiner, folder=self._folder.acquire())
                undo.callback(self._folder.let_go)
            self._reader, self._writer = reader, writer = self._connect()
            undo.callback(self._reader.close)
            undo.callback(self._writer.close)
            key = self._folder.key if self._folder else None
            self._session = Session(reader, writer, self._clock, joiner, self._hooks, disk=self._past, key=key)
            self.lease = LeaseGuard(self._clock, self._session, is_client=self._kind is NodeKind.CLIENT)
            self._declaring = Declaring(self._session, self._waits, lambda: self._may_rely_on_what_it_knows)
            tell_children(self)
            self._sentinel.look_after()
            self._start(self._follow, "log")
            self._start(self._beat, "heartbeats")
            undo.pop_all()

    def _end(self) -> None:
        """Release the lease, end the threads, let go of the folder; nothing if they were never started."""
        with self._changing:
            if self._threads and not self._stopping.is_set() and not self._is_copy:
                self._stop()

    def fence_copy(self) -> None:
        """In a forked child: nothing of this node works there, and nothing it does may touch the parent's."""
        self._is_copy = True
        self._session.folding = threading.Lock()  # threads that are gone may hold the one that it was forked with
        self._changing = threading.Lock()
        self.lease.fence_child()
        self._session.failure = Fenced(
            f"Node {self.name!r} belongs to the process that this one was forked from.",
            retry_after_ms=0,
            hint="Enter a Node of its own in this process, or start it without a fork.",
        )
        self._sentinel.disown()
        if self._folder:
            self._folder.forget_copy()

    # Metadata.

    def submit(
        self, definition: ObjectType, *, wait: Wait = "accepted", based_on: int = 0, reason: str = ""
    ) -> Submitted:
        """As `propose`, without waiting: many proposals may be under way at once, Overloaded says how many."""
        request, future = self._submit(definition, wait, based_on, reason)
        return Submitted(str(request) if request else None, future)

    def types(self, *, at_least: Position | None = None, max_age_s: float | None = None) -> dict[str, Metadata]:
        """Every type with an accepted version, at that version. Raises Fenced, and NotCaughtUp if this node has not
        applied `at_least`; `max_age_s` as of `table`."""
        with self._answering(None, max_age_s) as age_ms, self._session.folding:
            self._check_applied(at_least)
            rows = [row for _, row in self._state.rows(TypeRow)]
        return {row.name: Metadata(row.accepted, row.accepted_version, age_ms) for row in rows if row.accepted}

    # Groups.

    def groups(self) -> dict[str, GroupRow]:
        """Every group by name, as of `position`. Raises Fenced."""
        with self._reading(), self._session.folding:
            return dict(self._state.rows(GroupRow))

    # Membership.

    def members(self) -> list[NodeRow]:
        """The members as of `position`, in the order in which they joined."""
        with self._session.folding:
            found = list(members(self._state))
        return sorted(found, key=lambda row: row.joined_at)

    @property
    def incarnation(self) -> Incarnation:
        return self._session.core.incarnation

    @property
    def position(self) -> Position:
        """The last position this node has applied."""
        return self._session.core.applied.position

    @property
    def phase(self) -> Phase:
        """Where this process stands; OUTSIDE before it is entered."""
        return self._session.core.phase if self._threads else Phase.OUTSIDE

    @property
    def holds_lease(self) -> bool:
        """Whether it is of those that serve under a lease, which others wait for."""
        return self._kind is NodeKind.SERVER

    @property
    def heard_ago_ns(self) -> int | None:
        """How long ago the newest heartbeat was sent whose echo is applied here; None if there is none."""
        anchor_ns = self._session.lease.anchor_ns
        return None if anchor_ns is None else self._clock.boottime_ns() - anchor_ns

    @property
    def measures(self) -> NodeMeasures | None:
        """What it has counted of itself; None before it is entered."""
        return self._session.measures if self._threads else None

    def fingerprint(self) -> tuple[Position, bytes]:
        """A position and the hash of the state there: every reader of the log has the same one at that position."""
        with self._session.folding:
            return self._session.core.folded, self._state.hash()

    @property
    def failure(self) -> TopologError | None:
        """The error that ended this node for good, if one did; it is fenced from then on."""
        return self._session.failure if self._threads else None

    # The threads.

    def _start(self, target: Callable[[], None], role: str) -> None:
        thread = threading.Thread(target=target, name=f"topolog {self.name} {role}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._session.step(0.05):
                    self._waits.check()
        except TopologError as error:
            self._waits.fail(error)
        except BaseException as error:  # a defect of ours: nobody may go on as if this node still read the log
            self._session.fail(TopologError(f"The node's own thread failed: {error!r}."))
            self._waits.fail(error)
            raise

    def _beat(self) -> None:
        while not self._stopping.wait(self._session.heartbeat_ms / 4000) and self.failure is None:
            self._sentinel.look_after()
            try:
                self._session.beat_if_due()
            except Unreachable:
                continue  # the producer is full: the next beat comes soon, or the lease ends
            except TopologError as error:
                self._session.fail(error)
                self._waits.fail(error)

    def _stop(self) -> None:
        """Release the lease, wait a moment for the cluster to take note, end all there is, whatever fails of it."""
        with contextlib.ExitStack() as ending:  # from the last to the first, each of them whatever the others raise
            if self._folder:
                ending.callback(self._folder.let_go)
            ending.callback(self._writer.close)
            ending.callback(self._reader.close)
            ending.callback(self._waits.fail, Unreachable(f"Node {self.name!r} is closed."))
            ending.callback(self._end_sentinel)
            ending.callback(self._session.leave)  # once more: it may have asked to join in between
            ending.callback(self._end_threads)
            self._session.leave()
            with contextlib.suppress(OutOfTime, TopologError):
                stopped = self._waits.when(lambda: self._session.core.phase is not Phase.STOPPING or None)
                stopped.result(_CLOSE_TIMEOUT_S)

    @property
    def death_certificate(self) -> NodeDied | None:
        """What its sentinel says when this process has died; None before it first asks to join."""
        return self._session.death_certificate

    def _end_threads(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _end_sentinel(self) -> None:
        """It is dismissed only if the log is known to have the goodbye."""
        is_heard = False
        try:
            is_heard = self._session.is_heard_off(_CLOSE_TIMEOUT_S)
        finally:
            self._sentinel.end(said_goodbye=is_heard)

    def _announce(self, died: NodeDied) -> None:
        self._sentinel.speak_for(died.node, CODEC.encode(died))

    def _joining(self) -> Pending[None]:
        """Pending until this node is a member whose lease is renewed."""
        ready = self._waits.when(lambda: self._is_ready() or None)
        return Pending(ready, lambda _: None, lambda _: Unreachable(self._why_not_ready()))

    def _is_ready(self) -> bool:
        return self._session.core.phase is Phase.MEMBER and self.lease.is_valid

    def _why_not_ready(self) -> str:
        core, waited = self._session.core, f"after {self._join_timeout_s:g} s"
        if core.log_id is None:
            return (
                f"Node {self.name!r} has read no decision from {self._address} {waited}: no broker, or no coordinator."
            )
        if core.phase is Phase.MEMBER:
            return f"Node {self.name!r} is a member without a lease {waited}: no coordinator renews it."
        return (
            f"Node {self.name!r} is {core.phase.value} {waited}: no coordinator answers, or a former life still lives."
        )

    # Waiting.

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return self.lease.reading()

    def _proposal(self, definition: ObjectType, wait: Wait, based_on: int, reason: str) -> Pending[Outcome]:
        request, future = self._submit(definition, wait, based_on, reason)
        return _settling(future, request)

    def _asked(self, request_id: str, wait: Wait) -> Pending[Outcome]:
        if self.failure:
            raise self.failure
        request = RequestId.parse(request_id)
        self._session.requests.send_again(request)
        return _settling(self._waits.when(lambda: self._outcome(request, wait)), request)

    def _agreed(self, name: str, at_least: Position | None, max_age_s: float | None) -> Pending[Metadata | None]:
        """The pending version that is seen now, once it is accepted; the lease is checked before and after."""
        with contextlib.ExitStack() as begun:
            age_ms = begun.enter_context(self._answering(None, max_age_s))
            self._check_applied(at_least)
            row = type_row(self._state, name)
            if row is None or row.name != name:
                return self._until(lambda: True, None, partial(not_accepted, row), begun.pop_all())
            version = row.pending_version
            if row.removing:
                late = partial(not_removed, removal_of(self._state, name))
                return self._until(lambda: floor_of(self._state, name) >= version, None, late, begun.pop_all())
            found = Metadata(row.pending, version, age_ms)
            late = partial(not_accepted, row)
            return self._until(lambda: self._is_accepted(name, version), found, late, begun.pop_all())

    def _until(
        self,
        holds: Callable[[], bool],
        found: Metadata | None,
        late: Callable[[float], TopologError],
        reading: contextlib.ExitStack,
    ) -> Pending[Metadata | None]:
        began_ns = self._clock.boottime_ns()

        def finish(_: object) -> Metadata | None:
            reading.close()
            return found and found.after(self._clock.boottime_ns() - began_ns)

        future = _READY if holds() else self._waits.when(lambda: holds() or None)  # most reads find it accepted
        return Pending(future, finish, late)

    def _submit(
        self, definition: ObjectType, wait: Wait, based_on: int, reason: str
    ) -> tuple[RequestId | None, Future[Outcome]]:
        if self.failure:
            raise self.failure
        definition = with_schema(definition)
        known = self._version_containing(definition)
        if known is not None:
            row, version = known
            return None, self._waits.when(
                lambda: self._reached(None, Status.UNCHANGED, definition.name, version, row.proposed_at, wait)
            )
        core, request = self._session.core, self._session.requests.next_id()
        assert core.log_id is not None, "a member has read the log"
        proposal = UpdateRequested(
            request, core.log_id, self.name, reason, definition, based_on, NodeId(self.name), core.incarnation
        )
        self._session.requests.send(proposal)
        return request, self._waits.when(lambda: self._outcome(request, wait))

    @property
    def _may_rely_on_what_it_knows(self) -> bool:
        """Whether this node has applied all that was in the log a fence ago, and others rely on that; a client asks."""
        return self._kind is NodeKind.SERVER and self.lease.is_valid

    def _version_containing(self, definition: ObjectType) -> tuple[TypeRow, int] | None:
        """The type, if its pending version contains the definition already and this node may rely on what it knows."""
        row = type_row(self._state, definition.name)
        if row is None or row.removing or not self._may_rely_on_what_it_knows:
            return None
        try:
            return (row, row.pending_version) if merge(row.pending, definition) is row.pending else None
        except MergeConflict:
            return None  # the coordinator refuses it, so that the refusal is in the log

    def _outcome(self, request: RequestId, wait: Wait) -> Outcome | None:
        row = self._session.requests.decided(request)
        if row is None:
            return None
        name = row.subject.removeprefix("type ")
        return self._reached(request, row.status, name, row.version or 0, row.position, wait)

    def _reached(
        self, request: RequestId | None, status: Status, name: str, version: int, position: Position, wait: Wait
    ) -> Outcome | None:
        accepted = self._is_accepted(name, version)
        if wait == "accepted" and not accepted:
            return None
        return Outcome(str(request) if request else None, status, name, version, position, accepted)

    def _is_accepted(self, name: str, version: int) -> bool:
        """Accepted, or accepted and removed since."""
        row = type_row(self._state, name)
        return (row is not None and row.accepted_version >= version) or floor_of(self._state, name) >= version


def _settling(future: Future[Outcome], request: RequestId | None) -> Pending[Outcome]:
    return Pending(future, lambda outcome: outcome, partial(not_settled, request))


def _connect_to_kafka(kafka: Mapping[str, str], cluster_name: str) -> tuple[LogReader, LogWriter]:
    """Reader and writer of a cluster whose topics are there; Unreachable or NotFound at once if they are not."""
    KafkaAdmin(kafka).wait_for_leaders(cluster_name, NEEDED)
    return KafkaReader(kafka, cluster_name), KafkaWriter(kafka, cluster_name)
