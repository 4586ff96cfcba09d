"""A node's loop: a core on a real log and a real clock. One thread steps it; another may send the regular heartbeats.

It reads the log from a snapshot or from its beginning, joins when it has reached the end, beats, applies each decision
with its hooks in order, and joins again as a new incarnation when it finds itself removed after a silence. Requests it
sends are kept until their outcome is read, and sent again, byte for byte, if the broker did not take them.
"""

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from topolog.events.asked import RequestId
from topolog.events.asking import refusal_of
from topolog.events.codec import CODEC, Codec
from topolog.events.errors import (
    DamagedStore,
    HookFailed,
    LeftCluster,
    Poisoned,
    TopologError,
    Unreachable,
)
from topolog.events.failpoints import is_armed, reach
from topolog.events.fold import Folded, Ignored
from topolog.events.groups import GroupRow
from topolog.events.ids import Incarnation, NodeId, Offset, Position
from topolog.events.leases import LeaveReason, NodeRow
from topolog.events.levels import announced
from topolog.events.log import Entry, LogReader, LogWriter, OnDelivery
from topolog.events.lookahead import LookAhead
from topolog.events.membership import Joiner, JoinRequested, NodeDied
from topolog.events.proof import SECRET_BYTES, seal_of, secret_of
from topolog.events.requesters import joining, requester_of
from topolog.events.requests import OutcomeRow, Status
from topolog.events.single_maps import split_map
from topolog.events.terms import ClusterRow
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.node.confirming import Confirming
from topolog.streams.node.copies import Disk, check_disk
from topolog.streams.node.core import NodeCore, Phase
from topolog.streams.node.lease import Lease
from topolog.streams.node.measures import NodeMeasures
from topolog.streams.node.noting import Noting
from topolog.streams.node.past_disk import PastDisk
from topolog.streams.node.requesting import OwnRequests
from topolog.streams.node.service import Service
from topolog.streams.restoring import Restorer

_LOGGER = logging.getLogger("topolog.node")
T = TypeVar("T")

_NS_PER_MS = 1_000_000
_DEFAULT_HEARTBEAT_MS = 1_000
_DEFAULT_FENCE_MS = 20_000
_DEFAULT_MARGIN_MS = 5_000

RETURNS_AFTER = (LeaveReason.FENCED, LeaveReason.DIED)
"""A node removed for these reasons joins again by itself; any other end is somebody's decision."""


class Session:
    """`joiner` says who joins; its incarnation is replaced by a fresh one at each join. `chance` draws 63 bits.
    `disk` is that of the joiner's data folder, if it is a server and has one; `codec` that of its build.

    `key`: that of the joiner's data folder, from which the secrets of its lives follow (`events/proof.py`); who has no
    folder, and hence nothing to show to a later process, may leave it out. `death_certificate`: that of the life that
    was announced last, for whoever outlives this process.

    `folding` is held while the state changes, for those who look at it from another thread.
    """

    def __init__(  # noqa: PLR0913 (keyword settings of one object, each explained above)
        self,
        reader: LogReader,
        writer: LogWriter,
        clock: Clock,
        joiner: Joiner,
        service: Service = Service(),  # noqa: B008 (it has no state)
        *,
        chance: Callable[[], int] = lambda: secrets.randbits(63),
        disk: PastDisk | None = None,
        codec: Codec = CODEC,
        key: bytes | None = None,
    ) -> None:
        assert key or not joiner.folder, "without the folder's key no later process proves that this one is gone"
        capabilities = (*joiner.capabilities, announced(codec.newest_level))
        joiner = msgspec.structs.replace(joiner, capabilities=capabilities)
        self.core = NodeCore(NodeId(joiner.node), capabilities, service.running, codec)
        self.measures = NodeMeasures()
        requester = requester_of(joiner.node, chance())
        self.requests = OwnRequests(requester, self.core, writer, clock, self.measures)
        self._confirming = Confirming(self.core, self.requests)
        self._noting = Noting(self.core, disk)
        self.failure: TopologError | None = None
        self.ignored: dict[Ignored, int] = {}
        self._reader = LookAhead(reader)
        self._writer = writer
        self._clock = clock
        self._joiner = joiner
        self._service = service
        self._chance = chance
        self.folding = threading.Lock()
        self._map_trouble: str | None = None
        self._join: RequestId | None = None
        self._beating = threading.Lock()
        self._next_beat_ns = 0
        self._key = key or secrets.token_bytes(SECRET_BYTES)
        self.death_certificate: NodeDied | None = None
        self._released = False
        self._announced: Incarnation | None = None
        self._farewell_heard: Incarnation | None = None
        self._closing = False
        self.started_from: Position | None = None
        now_ns = clock.monotonic_ns()
        self._restorer: Restorer | None = Restorer(self._reader, now_ns, codec)
        self._restore(self._restorer, (), now_ns)

    @property
    def _secret(self) -> bytes:
        assert self.death_certificate is not None, "nothing was ever announced"
        return self.death_certificate.secret

    @property
    def lease(self) -> Lease:
        """That of the present incarnation."""
        return self.core.lease

    @property
    def heartbeat_ms(self) -> int:
        row = self.core.state.get(ClusterRow, "")  # asked by any thread, also while LogStarted is being folded
        return row.heartbeat_ms if row else _DEFAULT_HEARTBEAT_MS

    @property
    def fence_ms(self) -> int:
        row = self.core.state.get(ClusterRow, "")
        return row.fence_ms if row else _DEFAULT_FENCE_MS

    @property
    def margin_ms(self) -> int:
        row = self.core.state.get(ClusterRow, "")
        return row.margin_ms if row else _DEFAULT_MARGIN_MS

    def step(self, timeout_s: float) -> bool:
        """Read and apply what is there, waiting up to `timeout_s`; returns whether anything was, or a request denied.

        Raises the error that ends this node for good, after which it is fenced.
        """
        denials = self.requests.denials
        try:
            entries = self._reader.poll(timeout_s)
            if self._restorer:
                self._restore(self._restorer, entries, self._clock.monotonic_ns())
                return bool(entries)
            self._read(entries)
            self.measures.look(self.core.lease, self._clock.boottime_ns())
            self._speak()
        except TopologError as error:
            self.fail(error)
            raise
        return bool(entries) or self.requests.denials != denials

    def _restore(self, restorer: Restorer, entries: Sequence[Entry], now_ns: int) -> None:
        """Go on towards the place in the log from which to read; until it is found this node knows nothing."""
        restored = restorer.step(entries, now_ns)
        if not restored:
            return
        self._restorer, self.started_from = None, restored.position
        if restored.position is not None:
            self.core.begin_from(restored.fold)
            where = f"at the snapshot of position {restored.position}"
            self._run_hook(partial(self._service.begin, self.core), where)
            self._run_hook(partial(self._service.adopt, self.core, self.core.state.keys()), where)
            with self.folding:
                self.core.finish()

    def _read(self, entries: list[Entry]) -> None:
        for entry in entries:
            try:
                with self.folding:
                    found = self.core.read(entry)
            except Poisoned as poisoned:
                self._reader.look_ahead(self.core.fold, poisoned, entry.offset)
                return
            except DamagedStore as error:
                self._start_over(error)
                return
            if not isinstance(found, Ignored):
                self._reader.counted(entry, self.fence_ms)
            self._apply(found)

    def _start_over(self, error: DamagedStore) -> None:
        """The snapshot holds what was voided since: read the log from its beginning.

        Only before the first join. A process that may have acted on that snapshot ends; started again, it comes here.
        """
        if not self.core.has_never_asked:
            raise error
        _LOGGER.warning("%s starts again from the beginning of the log: %s", self.core.node, error.message)
        with self.folding:
            self.core.begin_anew()
        self.started_from = None
        self._run_hook(partial(self._service.begin, self.core), "at the beginning of the log")
        self._reader.assign({(Topic.DECISIONS, 0): Offset(0)})

    def _speak(self) -> None:
        """Say what is to be said by now; what the producer does not take is said at a later step."""
        try:
            self._advance()
            if self.core.wants_acknowledgement:
                reach("node.acknowledging")
                if is_armed("node.drained") and self.core.hands_over:
                    reach("node.drained")
                self.beat()
            if self.core.owes_map:
                reach("node.map-owed")
                self._send_map()
                reach("node.map-sent")
            self._confirming.speak()
            self._writer.serve()
        except Unreachable as error:
            _LOGGER.warning("%s goes on trying: %s", self.core.node, error)

    def beat_if_due(self) -> None:
        """The regular heartbeat."""
        if self._clock.monotonic_ns() >= self._next_beat_ns:
            self.beat()

    def beat(self, *, release: bool = False) -> None:
        """Send a heartbeat now, if this incarnation is a member; its time is read before it is made."""
        with self._beating:
            if self.core.phase is not Phase.MEMBER and not (release and self.core.phase is Phase.STOPPING):
                return
            if not release and not self._noting.may_beat():  # a release is never renewed
                return
            due_ns = self._clock.monotonic_ns() + self.heartbeat_ms * _NS_PER_MS
            heartbeat = self.core.heartbeat(self._clock.boottime_ns(), secret=self._secret if release else b"")
            on_delivery = self._farewell_of(heartbeat.incarnation) if release else None
            self._writer.append(Topic.HEARTBEATS, self.core.node, CODEC.encode(heartbeat), on_delivery=on_delivery)
            reach("node.beaten")
            self.measures.heartbeats += 1
            self._next_beat_ns = due_ns

    def _send_map(self) -> None:
        """Say what this node has of its partitions; again if the log does not take all of it."""
        groups = {row.number: row.partitions for _, row in self.core.state.rows(GroupRow)}
        counters = self._whole(groups)
        with self.folding:
            told = self.core.next_map(counters)
        try:
            for part in split_map(told):
                self._writer.append(Topic.MAPS, self.core.node, CODEC.encode(part), on_delivery=self._on_map_delivered)
        except Unreachable:
            self._unsay_map()
            raise

    def _on_map_delivered(self, error: TopologError | None, _: Offset | None) -> None:
        trouble = error.message if error else None
        if trouble is not None:
            if trouble != self._map_trouble:
                _LOGGER.warning("%s cannot send its single map, and goes on trying: %s", self.core.node, trouble)
            self._unsay_map()
        self._map_trouble = trouble

    def _unsay_map(self) -> None:
        """A service may report from another thread at this moment."""
        with self.folding:
            self.core.unsay_map()

    def close(self) -> None:
        """Leave the cluster; the session may be stepped until `core.phase` is GONE. May be called again."""
        self._closing = True
        self._say_goodbye()

    def leave(self) -> None:
        """As `close`, for who ends whatever comes: a goodbye that cannot be said costs a lease, and hides no error."""
        try:
            self.close()
        except TopologError as error:
            _LOGGER.warning("%s could not say goodbye: %s", self.core.node, error)

    def is_heard_off(self, timeout_s: float) -> bool:
        """Wait for the answers to all that was sent; whether the goodbye was among it."""
        try:
            self._writer.flush(timeout_s)
        except TopologError as error:
            _LOGGER.warning("%s does not know whether its goodbye was heard: %s", self.core.node, error)
        return self.said_goodbye

    @property
    def said_goodbye(self) -> bool:
        """Whether the log is known to hold that what was announced last is over, or nothing was ever announced."""
        if self._announced is None or self._farewell_heard == self._announced:
            return True
        if self.core.phase is Phase.JOINING:
            return self._refusal() is not None
        return self.core.phase is Phase.GONE and self.core.incarnation == self._announced

    def fail(self, error: TopologError) -> None:
        """End this node for good: it is fenced and says so, so that nobody waits for it."""
        self.failure = error
        self.core.lease.void()
        with contextlib.suppress(TopologError):
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        if self.core.phase is Phase.MEMBER or (self.core.phase is Phase.STOPPING and not self._released):
            self._release()
        elif self.core.phase is Phase.JOINING and self._refusal() is None:
            self._renounce()

    def _renounce(self) -> None:
        """End an incarnation whose join is not decided: if it is granted, nobody has to wait for a lease of it."""
        with self._beating:
            died = NodeDied(self.core.node, self.core.incarnation, self._secret)
            self.core.renounce()
        on_delivery = self._farewell_of(died.incarnation)
        self._writer.append(Topic.HEARTBEATS, died.node, CODEC.encode(died), on_delivery=on_delivery)

    def _release(self) -> None:
        """Stop acting for good and say so, so that nobody has to wait for the lease; again if it was not taken."""
        with self._beating:  # no regular heartbeat may follow the release: it would take it back
            self.core.lease.void()
            self.core.phase = Phase.STOPPING
            self._released = True
        reach("node.releasing")
        try:
            self.beat(release=True)
        except Unreachable:
            self._released = False
            raise
        reach("node.released")

    def _farewell_of(self, incarnation: Incarnation) -> OnDelivery:
        def on_delivery(error: TopologError | None, _: Offset | None) -> None:
            if error is None:
                self._farewell_heard = incarnation

        return on_delivery

    def _apply(self, found: list[Folded] | Ignored) -> None:
        if isinstance(found, Ignored):
            self.ignored[found] = self.ignored.get(found, 0) + 1
            return
        self._noting.note(found, self._clock.boottime_ns())
        for index, folded in enumerate(found):
            if index:
                reach("node.inside-a-set")
            reach("node.folded")
            where = f"at position {folded.place.position} ({type(folded.event).__name__})"
            self._run_hook(partial(self._service.hook, self.core, folded), where)
            reach("node.hooked")
            with self._beating:
                self.core.apply(folded, self._clock.boottime_ns())
            self.requests.note_outcome(getattr(folded.event, "request", None))
        if found:
            if keys := self.core.state.drain():
                self._run_hook(partial(self._service.adopt, self.core, keys), f"behind position {self.core.folded}")
            with self.folding:
                self.core.finish()
            reach("node.applied")

    def _whole(self, partitions: Mapping[int, int]) -> Disk:
        """What the service says that it holds; `partitions`: how many the groups have that are this history's."""
        disk = self._run_hook(self._service.whole, "of `holds`")
        check_disk(disk, partitions)
        return disk

    def _run_hook(self, hook: Callable[[], T], where: str) -> T:
        try:
            return hook()
        except HookFailed:
            raise
        except Exception as error:  # whatever the service raises: going on would count as applied what it has not done
            raise HookFailed(
                f"A hook failed {where}: {error!r}.",
                hint="The node is fenced. Repair the hook and start the process again.",
            ) from error

    def _advance(self) -> None:
        """Join when the end is reached; join again after a removal in silence; end for any other reason."""
        core = self.core
        if core.phase is Phase.OUTSIDE and core.log_id and not self._closing and self._reader.at_end(Topic.DECISIONS):
            self._ask_to_join()
        elif core.phase is Phase.JOINING:
            if refusal := self._refusal():
                raise refusal_of(refusal)
        elif core.phase is Phase.STOPPING and not self._released:
            self._release()
        elif core.phase is Phase.GONE and not self._closing:
            if core.left_reason not in RETURNS_AFTER:
                reason = core.left_reason.value if core.left_reason else "?"
                raise LeftCluster(
                    f"Node {core.node!r} is out of the cluster: {reason}.", hint="Start it again to join."
                )
            _LOGGER.warning("%s was removed (%s) although it lives; it joins again", core.node, core.left_reason.value)
            core.phase = Phase.OUTSIDE
            self._released = False

    def _ask_to_join(self) -> None:
        reach("node.joining")
        past = self._noting.past
        incarnation = Incarnation(self._chance())
        self._announced = incarnation
        self.death_certificate = NodeDied(
            self.core.node, incarnation, secret_of(self._key, self.core.node, incarnation)
        )
        seal = seal_of(self.death_certificate.secret)
        self._service.announce(self.death_certificate)
        # What it holds may be of another history: the join's answer says so.
        self.core.incarnate(incarnation, self._whole({}), seal)
        self._join = RequestId(joining(requester_of(self.core.node, incarnation)), 1)  # however many others are open
        row = self.core.state.get(NodeRow, self.core.node)
        held_same_lock = row is not None and row.is_member and bool(row.folder) and row.folder == self._joiner.folder
        replaces = row.incarnation if row is not None and held_same_lock else None
        joiner = msgspec.structs.replace(
            self._joiner,
            incarnation=incarnation,
            replaces=replaces,
            seal=seal,
            proof=b"" if replaces is None else secret_of(self._key, self.core.node, replaces),
        )
        assert self.core.log_id is not None
        self.requests.send(JoinRequested(self._join, self.core.log_id, self.core.node, "", joiner, past))
        reach("node.join-sent")

    def _refusal(self) -> OutcomeRow | None:
        """What the join was answered, if that was a refusal."""
        outcome = self.requests.outcome(self._join) if self._join else None
        return outcome if outcome and outcome.status is Status.REFUSED else None
