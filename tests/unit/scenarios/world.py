"""A small cluster moved by hand: real Drivers and Sessions on a log in memory and a clock that stands still.

Everything happens in the order of the calls: `run` moves the clock in small steps and lets each process that is up take
its turn, `settle` lets them take turns until nothing more comes, without moving the clock at all.
"""

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import msgspec

from topolog.events import groups as g
from topolog.events import membership as m
from topolog.events import metadata as md
from topolog.events import requests as q
from topolog.events import terms
from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC, Codec
from topolog.events.errors import TopologError
from topolog.events.exchange_requests import LossResetRequested
from topolog.events.fold import Fold, Folded, Ignored
from topolog.events.ids import Position
from topolog.events.leases import FENCING, NodeKind
from topolog.events.log import Headers, InMemoryLog, InMemoryReader, InMemoryWriter, LogWriter, OnDelivery
from topolog.events.object_types import DeclaredType
from topolog.events.partitions import PartitionState
from topolog.events.single_maps import UpdateCounter
from topolog.events.state import State
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.clock import ManualClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.copies import Disk, PartitionId
from topolog.streams.node.core import NodeCore
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.node.service import Service
from topolog.streams.node.session import Session
from topolog.streams.rules.exchange import Patience

Hook = Callable[[Folded], None]

TERMS = LeaseTerms(fence_ms=2_000, margin_ms=500, heartbeat_ms=200)
PROCEED_MS = TERMS.fence_ms + TERMS.margin_ms
STEP_MS = 10
_TURNS_MAX = 100
_QUIET_TURNS = 3  # one to read, one to find oneself out, one to ask anew


class Process:
    """Anything that may be stopped in the middle of its work and go on later, or never. `reader` and `writer` are its
    own, so a test can make one lag or lose its sends."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.paused = False
        self.reader: InMemoryReader = world.log.reader()
        self.writer: InMemoryWriter = world.log.writer()

    def step(self) -> None:
        raise NotImplementedError


class Coordinator(Process):
    def __init__(self, world: "World", name: str, takeover_ms: int | None) -> None:
        super().__init__(world, name)
        self.driver = Driver(
            self.reader,
            self.writer,
            world.clock,
            "demo",
            name,
            terms=TERMS,
            takeover_ms=takeover_ms,
            cadence=world.cadence,
            patience=world.patience,
            chance=random.Random(name),
            codec=world.build,
            interruptions=lambda: self.writer.interruptions,
        )

    def step(self) -> None:
        self.driver.step(0)


class Wire:
    """A writer that, while it `is_mute`, loses single maps and nothing else; its heartbeats say what `blocked` says."""

    def __init__(self, writer: LogWriter) -> None:
        self.is_mute = False
        self.blocked: m.Blocked | None = None
        self._writer = writer
        self.serve, self.flush, self.close = writer.serve, writer.flush, writer.close

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if self.blocked and isinstance(beat := CODEC.decode(value), m.Heartbeat):
            value = CODEC.encode(msgspec.structs.replace(beat, blocked=self.blocked))
        if not (self.is_mute and topic is Topic.MAPS):
            self._writer.append(topic, key, value, headers, on_delivery)


class Hooked(Service):
    """A service made of functions; while it `is_busy`, an operation runs for every partition."""

    def __init__(
        self,
        hook: Hook = lambda _: None,
        begin: Callable[[], None] = lambda: None,
        announce: Callable[[m.NodeDied], None] = lambda _: None,
    ) -> None:
        self._hook = hook
        self._begin = begin
        self._announce = announce
        self.is_busy = False
        self.disk: Disk = {}

    def whole(self) -> Disk:
        return self.disk

    def running(self, places: Set[PartitionId]) -> Set[PartitionId]:
        return places if self.is_busy else frozenset()

    def begin(self, core: NodeCore) -> None:
        self._begin()

    def hook(self, core: NodeCore, folded: Folded) -> None:
        self._hook(folded)

    def announce(self, died: m.NodeDied) -> None:
        self._announce(died)


class Member(Process):
    def __init__(
        self,
        world: "World",
        joiner: m.Joiner,
        hook: Hook,
        disk: Disk | None = None,
        past: MemoryDisk | None = None,
    ) -> None:
        super().__init__(world, joiner.node)
        self._clock = world.clock
        self.chance = random.Random(f"{joiner.node}/{world.lives}")
        self.service = Hooked(hook)
        self.service.disk = disk or {}
        self.wire = Wire(self.writer)
        self.hangs = False
        self.session = Session(
            self.reader,
            self.wire,
            world.clock,
            joiner,
            self.service,
            chance=lambda: self.chance.getrandbits(63),
            disk=past,
            codec=world.build,
            key=(joiner.folder or f"{joiner.node}/{world.lives}").encode(),
        )

    def step(self) -> None:
        """A node that has failed for good does nothing more; why stands in `session.failure`."""
        if self.session.failure is None:
            with contextlib.suppress(TopologError):
                if not self.hangs:
                    self.session.step(0)
                self.session.beat_if_due()

    def finish(self, what: PartitionState) -> None:
        """All its copies in this state are loaded, or cleared."""
        core = self.session.core
        for each in list(core.copies.held(core.state)):
            if each.state is what:
                token = each.token if what is PartitionState.MOVING else Position(0)
                core.copies.finish(core.state, each.group, each.partition, each.since, token)
        core.look_at_map()

    def owned(self) -> Disk:
        """The copies that it owned, as far as it has read."""
        found: dict[int, dict[int, UpdateCounter]] = {}
        core = self.session.core
        for each in core.copies.held(core.state):
            if each.state is PartitionState.OWNING:
                group = g.group_row(core.state, each.group)
                assert group is not None
                found.setdefault(group.number, {})[each.partition] = UpdateCounter(0, 1)
        return found

    @property
    def is_fenced(self) -> bool:
        return not self.session.core.lease.is_valid(self._clock.boottime_ns())

    @property
    def remaining_ms(self) -> int:
        return self.session.core.lease.remaining_ms(self._clock.boottime_ns())

    @property
    def state(self) -> State:
        return self.session.core.state


class World:
    """The processes by name, in the order in which they take turns, the log and the clock. `build`: what processes that
    come up from now on read and write by; `codec`: what the world itself reads the log by."""

    def __init__(
        self,
        coordinators: Iterable[str] = (),
        nodes: Iterable[str] = (),
        cadence: Cadence = Cadence(positions=0),  # noqa: B008 (frozen value)
        codec: Codec = CODEC,
        patience: Patience = Patience(),  # noqa: B008 (the same)
    ) -> None:
        self.cadence = cadence
        self.patience = patience
        self.build = CODEC
        self.clock = ManualClock()
        self.log = InMemoryLog(self.clock.wall_ms)
        self.coordinators: dict[str, Coordinator] = {}
        self.nodes: dict[str, Member] = {}
        self.lives = 0
        self.pasts: dict[str, MemoryDisk] = {}
        """What lies in each data folder, by its id."""
        self._disks: dict[str, Disk] = {}
        self._asked = 0
        self._fold = Fold(codec=codec)
        self._read = 0
        self._accepted: list[Folded] = []
        self._ignored: list[Ignored] = []
        for name in coordinators:
            self.start(name)
        for name in nodes:
            self.node(name)

    # Processes.

    def start(self, name: str, takeover_ms: int | None = None) -> Coordinator:
        self.coordinators[name] = Coordinator(self, name, takeover_ms)
        self.settle()
        return self.coordinators[name]

    def node(  # noqa: PLR0913 (all by name, each of one kind of process)
        self,
        name: str,
        *,
        process: str | None = None,
        kind: NodeKind = NodeKind.SERVER,
        capabilities: tuple[str, ...] = (FENCING,),
        folder: str = "",
        types: tuple[DeclaredType, ...] = (),
        hook: Hook = lambda _: None,
        disk: bool = False,
        mute: bool = False,
    ) -> Member:
        """A process of this node comes up, and is known here as `process`, or as the node itself.

        `disk`: it has the copies that the process of this name owned when it was killed. `mute`: it sends no maps.
        """
        self.lives += 1
        joiner = m.Joiner(name, 0, kind, "", {}, capabilities, folder, types=types)
        kept = self._disks.get(name, {}) if disk else {}
        past = self.pasts.setdefault(folder, MemoryDisk()) if folder and kind is NodeKind.SERVER else None
        member = self.nodes[process or name] = Member(self, joiner, hook, kept, past)
        member.wire.is_mute = mute
        self.settle()
        return member

    def kill(self, name: str) -> Process:
        """`kill -9`: the process takes no further turn."""
        if name in self.nodes:
            self._disks[name] = self.nodes[name].owned()
        return self.coordinators.pop(name) if name in self.coordinators else self.nodes.pop(name)

    def certify(self, process: Process) -> None:
        """The death certificate of a process comes to stand in the topic, as its sentinel would write it."""
        match process:
            case Coordinator():
                died: m.NodeDied | terms.CoordinatorDied = terms.CoordinatorDied(process.name, process.driver.life)
            case Member():
                assert process.session.death_certificate is not None, "it has asked to join"
                died = process.session.death_certificate
        self.log.put(Topic.HEARTBEATS, process.name, CODEC.encode(died))

    def process(self, name: str) -> Process:
        return self.coordinators[name] if name in self.coordinators else self.nodes[name]

    def leader(self) -> Coordinator:
        (leader,) = (each for each in self.coordinators.values() if each.driver.role is Role.LEADING)
        return leader

    # Time.

    def run(self, ms: int) -> None:
        for _ in range(ms // STEP_MS):
            self.clock.advance(STEP_MS)
            self._take_turns()

    def settle(self) -> None:
        """Let everybody take turns until nothing more is written."""
        quiet = 0
        for _ in range(_TURNS_MAX):
            before = self._size()
            self._take_turns()
            quiet = quiet + 1 if self._size() == before else 0
            if quiet == _QUIET_TURNS:
                return
        raise AssertionError(f"still writing after {_TURNS_MAX} turns")

    def _take_turns(self) -> None:
        for process in [*self.coordinators.values(), *self.nodes.values()]:
            if not process.paused:
                process.step()

    def _size(self) -> int:
        return sum(len(self.log.entries(topic, each)) for topic, count in PARTITIONS.items() for each in range(count))

    # Asking.

    @property
    def log_id(self) -> bytes:
        self.decisions()
        assert self._fold.header.log_id is not None
        return self._fold.header.log_id

    def propose(self, process: str, definition: md.ObjectType, based_on: int = 0) -> RequestId:
        """The node sends a proposal; nobody has read it yet."""
        node, session = self.nodes[process].name, self.nodes[process].session
        request = session.requests.next_id()
        session.requests.send(
            md.UpdateRequested(request, self.log_id, node, "", definition, based_on, node, session.core.incarnation)
        )
        return request

    def operator_id(self) -> RequestId:
        self._asked += 1
        return RequestId("operator", self._asked)

    def ask(self, request: Request) -> RequestId:
        """A request comes to stand in the topic, whoever sent it."""
        self.log.put(Topic.OPERATIONS, request.id.requester, CODEC.encode(request))
        return request.id

    def remove_type(self, name: str) -> RequestId:
        return self.ask(md.TypeRemovalRequested(self.operator_id(), self.log_id, "ada", "", name))

    def create_group(self, who: str, group: g.GroupDefinition) -> RequestId:
        """A node declares a group, or the operator does."""
        if who not in self.nodes:
            return self.ask(g.GroupCreationRequested(self.operator_id(), self.log_id, "ada", "", group))
        session = self.nodes[who].session
        request = g.GroupCreationRequested(session.requests.next_id(), self.log_id, self.nodes[who].name, "", group)
        session.requests.send(request)
        return request.id

    def alter_group(self, name: str, changes: Mapping[str, Any]) -> RequestId:
        head = (self.operator_id(), self.log_id, "ada", "", name)
        return self.ask(g.GroupAlterationRequested(*head, **changes))

    def drop_group(self, name: str) -> RequestId:
        return self.ask(g.GroupDropRequested(self.operator_id(), self.log_id, "ada", "", name))

    def reset(self, name: str) -> RequestId:
        return self.ask(LossResetRequested(self.operator_id(), self.log_id, "ada", "", name))

    def remove_node(self, name: str) -> RequestId:
        return self.ask(m.NodeRemovalRequested(self.operator_id(), self.log_id, "ada", "", name))

    # What the log says.

    def decisions(self) -> list[Folded]:
        """All accepted decisions, as a reader of its own folds them."""
        for entry in self.log.entries(Topic.DECISIONS)[self._read :]:
            self._read += 1
            found = self._fold.read(entry.stamp, entry.value)
            if isinstance(found, Ignored):
                self._ignored.append(found)
            else:
                self._accepted += found
        return self._accepted

    @property
    def ignored(self) -> list[Ignored]:
        """Why records of the log did not count."""
        self.decisions()
        return self._ignored

    @property
    def state(self) -> State:
        """The state of that reader."""
        self.decisions()
        return self._fold.state

    def events(self, *kinds: type) -> list[object]:
        """The accepted events of these kinds."""
        return [each.event for each in self.decisions() if isinstance(each.event, kinds)]

    def outcome(self, request: RequestId) -> q.OutcomeRow | None:
        return q.outcome_of(self.state, request)
