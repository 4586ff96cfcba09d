"""The processes of a simulated cluster: the real coordinator and node, and a plain fold in place of the projector.

A process is one life. It is given turns; in between it can be paused, suspended with its machine or killed, without a
word to the code inside it.
"""

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial

import msgspec

from topolog.events.codec import CODEC
from topolog.events.errors import Fenced, HookFailed, LeftCluster, Refused
from topolog.events.fold import Fold, Folded
from topolog.events.ids import NOWHERE, Incarnation, Offset, Position
from topolog.events.leases import FENCING, NodeKind
from topolog.events.log import Headers, OnDelivery
from topolog.events.membership import Heartbeat, Joiner, NodeDied, NodeJoined
from topolog.events.state import State
from topolog.events.terms import CoordinatorDied
from topolog.events.topics import Topic
from topolog.streams.clock import Clock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver, LeaseTerms
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.core import Phase
from topolog.streams.node.guards import LeaseGuard
from topolog.streams.node.hooks import Hooks
from topolog.streams.node.schema import Schema
from topolog.streams.node.session import Session
from topolog.streams.rules.exchange import Patience
from topolog.streams.simulation.disks import SimulatedDisk
from topolog.streams.simulation.network import Broker, Fate, Link, Reader, Writer
from topolog.streams.simulation.sharding import SimulatedShard, Supplies
from topolog.streams.simulation.store import StoredRow
from topolog.streams.simulation.tables import SimulatedTables
from topolog.streams.simulation.timeline import DriftingClock, Timeline

CLUSTER = "simulated"
TERMS = LeaseTerms(fence_ms=1_000, margin_ms=100, heartbeat_ms=200)
"""Short, so that many fences fit a run. The margin pays for the drift of two clocks over a fence (94.3 ms) and for
little else, so that no rule can live off a generous one."""

PATIENCE = Patience(gather_ms=150, warn_ms=500, evict_ms=2_500)
"""A question and its answer take some 100 ms here, so by that gathering some answers come in time and some do not."""

_READ_TURNS_MAX = 60

Carry = Callable[[random.Random, StoredRow], None]
"""Brings a row to the disk of some node."""

Mark = tuple[Position, bytes, State | None]
"""A reader's position, its chain hash there, and its state if that stands at this very position."""


class Life(msgspec.Struct, frozen=True):
    """What a process life is given: its machine, a name of its own, its source of chance, and the world around it."""

    machine: str
    name: str
    chance: random.Random
    timeline: Timeline
    broker: Broker
    clock: DriftingClock


class Process:
    """One life of one process on one machine. `disturbed`: a fault has touched it."""

    def __init__(self, life: Life) -> None:
        self.machine = life.machine
        self.name = life.name
        self.chance = life.chance
        self.alive = True
        self.disturbed = False
        self.paused_until_ns = 0
        self.clock = life.clock
        self.link = Link()
        self.reader = Reader(life.timeline, life.chance, life.broker, self.link)
        self.writer = Writer(life.name, life.timeline, life.chance, life.broker, self.link)

    @property
    def death_certificate(self) -> NodeDied | CoordinatorDied | None:
        """What its sentinel says once it is dead, if it has one."""
        return None

    def turn(self) -> bool:
        """Do what is to be done now; False if the process has ended by itself."""
        raise NotImplementedError

    def mark(self) -> Mark:
        raise NotImplementedError

    @property
    def started_from(self) -> Position | None:
        """The position of the snapshot it has started from, if it has."""
        return None

    def describe(self) -> str:
        raise NotImplementedError


class CoordinatorProcess(Process):
    """A real coordinator. One that has retired has ended."""

    def __init__(
        self, life: Life, cadence: Cadence, terms: LeaseTerms = TERMS, gather_ms: int = PATIENCE.gather_ms
    ) -> None:
        super().__init__(life)
        self.driver = Driver(
            self.reader,
            self.writer,
            self.clock,
            CLUSTER,
            self.name,
            terms=terms,
            cadence=cadence,
            patience=msgspec.structs.replace(PATIENCE, gather_ms=gather_ms),
            chance=self.chance,
        )

    @property
    def started_from(self) -> Position | None:
        return self.driver.started_from

    @property
    def death_certificate(self) -> CoordinatorDied:
        return CoordinatorDied(self.name, self.driver.life)

    def turn(self) -> bool:
        self.driver.step(0.0)
        return self.driver.role is not Role.RETIRED

    def mark(self) -> Mark:
        core = self.driver.core
        return core.confirmed.position, core.confirmed.chain, None if core.unread else core.state

    def describe(self) -> str:
        return f"{self.name} {self.driver.role.value} in term {self.driver.core.confirmed.term}"


class NodeProcess(Process):
    """A real node. One that is refused, is removed or leaves has ended, and whoever runs it starts it again.

    Its service is a shard, a hook and a reader under the real guards. The hook is told each decision: `misled` says
    what was told out of order or counted before it was told. One read follows another, each some turns long: in the
    last turn one `read_began`, or `read_held` and counts.

    `handed` is when, on the node's own clock, each heartbeat was handed over: seen from outside, not from its lease.
    Single maps are lost while it `is_mute`, and land late or twice while its wire `garbles` them. While it `hangs` a
    hook does not return: it reads nothing, and its heartbeats and its operations go on. `disk` is what it finds, and
    leaves, of copies. `incarnations`: all that it has asked to join as. `refused`: why it must not join, if it has
    ended for that.
    """

    def __init__(
        self,
        life: Life,
        joiner: Joiner,
        disk: SimulatedDisk,
        supplies: Supplies,
        carry: Carry,
        history: str = "log",
    ) -> None:
        super().__init__(life)
        self.joiner = joiner
        self.history = history
        self.refused = ""
        self.handed: dict[tuple[Incarnation, int], int] = {}
        self.released: set[Incarnation] = set()
        self.incarnations: set[Incarnation] = set()
        self.misled = ""
        self.read_began = self.read_held = self.hangs = False
        self._leaving = False
        self._death_certificate: NodeDied | None = None
        self._told = NOWHERE
        shard_seed = self.chance.getrandbits(32)
        self.disk = disk
        self.shard = SimulatedShard(random.Random(shard_seed), disk, supplies, self._hook, self._note_words)
        self.wire = _Wire(self.writer, self.link, self.chance, self._note_heartbeat)
        self.session = Session(
            self.reader,
            self.wire,
            self.clock,
            joiner,
            self.shard,
            chance=lambda: self.chance.getrandbits(63),
            disk=disk.past if joiner.folder and self.is_server else None,
            key=(joiner.folder or life.name).encode(),
        )
        self._guard = LeaseGuard(self.clock, self.session, is_client=not self.is_server)
        schema = Definitions(joiner, self.clock, self.shard, self.session, self._guard)
        table_chance = random.Random(f"{shard_seed} tables")
        send = partial(carry, table_chance)
        self.tables = SimulatedTables(table_chance, life.timeline, schema, disk.store(history), send)
        self._reading = ExitStack()
        self._read_turns = 0

    @property
    def death_certificate(self) -> NodeDied | None:
        return self._death_certificate

    @property
    def started_from(self) -> Position | None:
        return self.session.started_from

    @property
    def is_server(self) -> bool:
        return self.joiner.kind is NodeKind.SERVER

    @property
    def fences(self) -> bool:
        """Whether its lease ends by itself."""
        return FENCING in self.joiner.capabilities

    @property
    def holds_lease(self) -> bool:
        return self.session.core.lease.is_valid(self.clock.boottime_ns())

    @property
    def may_store(self) -> bool:
        """Whether it stores what another node writes. A node without a past need not mind its lease."""
        return self.holds_lease or not self.joiner.folder

    def turn(self) -> bool:
        self.shard.begin_turn()
        self.tables.begin_turn()
        try:
            if not self.hangs:
                self.session.step(0.0)
            self.session.beat_if_due()
            self._read()
            self._operate()
            if self.is_server:
                self.tables.turn(self.session.core)
            else:
                self.tables.ask(self.session.core)
        except LeftCluster:
            return False
        except HookFailed:
            if not self.tables.blocked:
                raise
            return False
        except Refused as refusal:
            self.refused = refusal.code
            return False
        return not (self._leaving and self.session.core.phase is Phase.GONE)

    def _hook(self, folded: Folded) -> None:
        """What the service is told, before it counts as applied."""
        core, position = self.session.core, folded.place.position
        if self._told not in (NOWHERE, position - 1) or core.applied.position >= position:
            self.misled = f"told position {position} after {self._told}, applied {core.applied.position}"
        if isinstance(folded.event, NodeJoined) and core.phase is Phase.MEMBER:
            joiner = folded.event.joiner
            if (joiner.node, joiner.incarnation) == (core.node, core.incarnation):
                self.misled = f"a member before position {position} was told"
        self._told = position

    def _read(self) -> None:
        """Go on with the read that is under way, or begin one."""
        self.read_began = self.read_held = False
        self._read_turns -= 1
        if self._read_turns > 0:
            return
        with suppress(Fenced):
            self._reading.close()
            self.read_held = self._read_turns == 0
        with suppress(Fenced):
            self._reading.enter_context(self._guard.reading())
            self.read_began = True
            self._read_turns = self.chance.randint(1, _READ_TURNS_MAX)

    def _operate(self) -> None:
        if self.shard.turn(self.session.core, self.clock.boottime_ns(), holds_lease=self._guard.is_valid):
            self.session.beat()

    def leave(self) -> None:
        """What a service does that stops in order."""
        if self.session.core.phase in (Phase.JOINING, Phase.MEMBER):
            self._leaving = True
            self.session.close()

    def mark(self) -> Mark:
        """One whose hook has failed has folded more than it counts as applied."""
        core = self.session.core
        if self.session.failure is not None:
            return NOWHERE, b"", None
        return core.applied.position, core.applied.chain, core.state

    def describe(self) -> str:
        core = self.session.core
        lease = "with" if self.holds_lease else "without"
        return f"{self.name} {core.phase.value} {lease} a lease at position {core.applied.position}"

    def _note_words(self, died: NodeDied) -> None:
        self.incarnations.add(died.incarnation)
        self._death_certificate = died

    def _note_heartbeat(self, heartbeat: Heartbeat) -> None:
        self.handed[heartbeat.incarnation, heartbeat.sequence] = self.clock.boottime_ns()
        if heartbeat.is_release:
            self.released.add(heartbeat.incarnation)


class ProjectorProcess(Process):
    """Reads the log and folds it, as every projection does."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._fold = Fold()
        self.reader.assign({(Topic.DECISIONS, 0): Offset(0)})

    def turn(self) -> bool:
        for entry in self.reader.poll(0.0):
            self._fold.read(entry.stamp, entry.value)
        return True

    def mark(self) -> Mark:
        return self._fold.header.position, self._fold.header.chain, self._fold.state

    def describe(self) -> str:
        return f"{self.name} at position {self._fold.header.position}"


class Definitions(Schema):
    """The node's real class of definitions, on its session and guard."""

    def __init__(self, joiner: Joiner, clock: Clock, hooks: Hooks, session: Session, guard: LeaseGuard) -> None:
        self.name = joiner.node
        self._kind = joiner.kind
        self.lease = guard
        self._clock = clock
        self._hooks = hooks
        self._session = session
        self._stale = frozenset()
        self._stopping = threading.Event()
        self._reading = guard.reading


class _Wire:
    """A node's writer, listened to: what it hands over, and when, is a fact that no lease can talk away.

    While it `is_mute` single maps are lost, and nothing else; while it `garbles` them they land late, or twice.
    """

    def __init__(self, writer: Writer, link: Link, chance: random.Random, hear: Callable[[Heartbeat], None]) -> None:
        self.is_mute = self.garbles = False
        self._link = link
        self._chance = chance
        self._writer = writer
        self._hear = hear
        self.serve, self.flush, self.close = writer.serve, writer.flush, writer.close

    def append(
        self, topic: Topic, key: str, value: bytes, headers: Headers = (), on_delivery: OnDelivery | None = None
    ) -> None:
        if topic is Topic.MAPS and self.is_mute:
            return
        if topic is Topic.MAPS and self.garbles:
            self._link.fates.appendleft(self._chance.choice((Fate.LATE, Fate.TWICE, Fate.DOUBTED)))
        heartbeat = CODEC.decode(value) if topic is Topic.HEARTBEATS else None
        if isinstance(heartbeat, Heartbeat):
            self._hear(heartbeat)
        self._writer.append(topic, key, value, headers, on_delivery)
