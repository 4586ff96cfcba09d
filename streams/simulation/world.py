"""A small cluster in one process: coordinators, nodes, a projector, an operator, and everything that can befall them.

The world knows how a process is started, paused, cut off and killed; it does not know when (`faults.py`) nor what must
hold (`checks.py`). After each step `turned` is the process that had a turn and `broker.landed` what reached the log.
"""

import random
from collections import Counter
from functools import partial

import msgspec

from topolog.events.asked import Request, RequestId
from topolog.events.codec import CODEC
from topolog.events.ids import Incarnation, Position
from topolog.events.leases import FENCING, NodeKind
from topolog.events.membership import Joiner
from topolog.events.object_types import DeclaredType, ObjectType
from topolog.events.topics import Topic
from topolog.events.views import REFUSED_KINSHIPS
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.past_disk import MemoryDisk
from topolog.streams.simulation.chronicle import Chronicle
from topolog.streams.simulation.disks import SimulatedDisk
from topolog.streams.simulation.network import LATE_MS, Broker, Fate, Link, Send, Writer
from topolog.streams.simulation.processes import (
    PATIENCE,
    CoordinatorProcess,
    Life,
    NodeProcess,
    Process,
    ProjectorProcess,
)
from topolog.streams.simulation.store import StoredRow
from topolog.streams.simulation.timeline import NS_PER_MS, DriftingClock, Timeline, between

_TURN_MS = (5.0, 60.0)
_GATHER_MS = (60, PATIENCE.gather_ms, 400)
"""How long exchanges wait: mostly too short for an answer, long enough for some, and for all of who does not hang."""

_CERTIFICATE_MS_MAX = 2_000.0
_SENTINEL_LIVES = 0.7
"""How often a process that is killed leaves a sentinel that can say so."""

ROLES = ("a", "b")
"""The services of this cluster: each node is of one."""

_DISKS, _FOLDERS = 0.6, 0.4
"""How often a node's copies outlive its process; how often they lie in a folder, which says of which life they are."""

_EMPTIES = 0.3
"""How often a node that is refused for its past is given an empty disk."""

_REVIVAL_MS = (50.0, 800.0)


class Site:
    """What is there whichever log is read: true time, the nodes' definitions, disks and backups of these.

    `lives`: every process of a node that there has been. `homes`: the world that a node is to be started in, if that is
    no longer the one that its last process was in.
    """

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.chronicle = Chronicle(self.timeline)
        self.joiners: dict[str, Joiner] = {}
        self.disks: dict[str, SimulatedDisk] = {}
        self.backups: dict[str, SimulatedDisk] = {}
        self.lives: list[NodeProcess] = []
        self.homes: dict[str, World] = {}
        self.worlds: list[World] = []

    def life_of(self, incarnation: Incarnation) -> NodeProcess | None:
        """The process, alive or not, that is or was this incarnation."""
        return next((each for each in self.lives if incarnation in each.incarnations), None)

    def runs(self, name: str) -> bool:
        return any(node.name == name for world in self.worlds for node in world.nodes)

    def other_than(self, world: "World") -> "World | None":
        return next((each for each in self.worlds if each is not world), None)


class World:
    """The cluster of one log at one moment of true time. `name` is that of its history; `common`: up to which position
    another one, by its name, is the same."""

    def __init__(self, seed: int, *, is_durable: bool = False, unfenced: int | None = None) -> None:
        """`unfenced`: the number of a node that does not fence itself, if there is one."""
        self._begin(f"{seed}", Site(), "log")
        self.is_durable = is_durable
        self.broker = Broker(self.timeline)
        self.cadence = _draw_cadence(random.Random(f"{seed} snapshots"))
        self.gather_ms = random.Random(f"{seed} patience").choice(_GATHER_MS)
        self.operator = Operator("op", self.timeline, random.Random(f"{seed} op"), self.broker)
        chance = random.Random(f"{seed} world")
        for number in range(chance.randint(2, 3)):
            self.start_coordinator(f"c{number + 1}")
        for number in range(chance.randint(3, 6)):
            joiner = _draw_joiner(chance, number)
            if number == unfenced:
                joiner = msgspec.structs.replace(joiner, capabilities=())
            self._install(f"n{number}", joiner, chance.random())
            self.start_node(f"n{number}")
        self.start_projector("p1")
        self.machines: list[str] = [each.machine for each in self.processes]

    def copy(self, broker: Broker) -> "World":
        """A copy of the log goes live beside it: coordinators of its own, and nodes that are moved there."""
        copied = World.__new__(World)
        copied._begin(f"{self._seed} copy", self.site, "copy")
        copied.is_durable, copied.cadence, copied.broker = self.is_durable, self.cadence, broker
        copied.gather_ms = self.gather_ms
        copied.operator = Operator("op2", self.timeline, random.Random(f"{copied._seed} op"), broker)
        for machine in ("d1", "d2"):
            copied.start_coordinator(machine)
        copied.start_projector("p2")
        copied.machines = [*(each.machine for each in copied.processes), *self.site.joiners]
        return copied

    def _begin(self, seed: str, site: Site, name: str) -> None:
        self._seed = seed
        self.site = site
        self.name = name
        self.common: dict[str, Position] = {}
        self.timeline = site.timeline
        self.processes: list[Process] = []
        self.coordinators: list[CoordinatorProcess] = []
        self.nodes: list[NodeProcess] = []
        self.turned: Process | None = None
        self._lives: Counter[str] = Counter()
        site.worlds.append(self)

    def _install(self, name: str, joiner: Joiner, draw: float) -> None:
        """A node with a folder has a disk; where disks matter, each node has a folder."""
        if (self.is_durable or draw < _FOLDERS) and not joiner.folder:
            joiner = msgspec.structs.replace(joiner, folder=f"disk of {name}")
        self.site.joiners[name] = joiner
        if draw < _DISKS or joiner.folder:
            self.site.disks[name] = SimulatedDisk()

    @property
    def node_names(self) -> list[str]:
        return list(self.site.joiners)

    def on(self, machine: str) -> Process | None:
        """The process that runs on this machine now: of two that claim to be one node, the older."""
        return next((each for each in self.processes if each.machine == machine), None)

    def has_released(self, incarnation: Incarnation) -> bool:
        """Whether a process, alive or not, has handed over the release of this incarnation."""
        return any(incarnation in each.released for each in self.site.lives)

    def is_alive(self, incarnation: Incarnation) -> bool:
        """Whether a process could act as this incarnation."""
        return any(each.session.core.incarnation == incarnation for each in self.nodes)

    def can_supply(self, incarnation: Incarnation, position: Position) -> bool:
        """Whether a process that runs is this incarnation, and has applied what stands there."""
        of_it = (each.session.core for each in self.nodes if not self.is_paused(each))
        return any(core.incarnation == incarnation and core.applied.position >= position for core in of_it)

    def step(self) -> None:
        """The next thing that happens."""
        self.forget_step()
        self.timeline.advance()

    def forget_step(self) -> None:
        """What the last step has done has been looked at."""
        self.turned = None
        self.broker.landed.clear()

    def note(self, text: str, *, dull: bool = False) -> None:
        """One line of history, for whoever reads a violation."""
        self.site.chronicle.note(text if self.name == "log" else f"[{self.name}] {text}", dull=dull)

    def note_deed(self, text: str) -> None:
        """A line of history that is kept however much follows it: what befell whom."""
        self.note(text)
        self.site.chronicle.deeds.append(self.site.chronicle.notes[-1])

    def history(self) -> str:
        """All deeds, and the last of what else has happened."""
        return self.site.chronicle.told()

    def start_coordinator(self, machine: str, clock: DriftingClock | None = None) -> None:
        self._start(CoordinatorProcess(self._new_life(machine, clock), self.cadence, gather_ms=self.gather_ms))

    def start_node(self, name: str, clock: DriftingClock | None = None, *, elsewhere: bool = False) -> None:
        """A process of the node comes up; `elsewhere` has another disk, so that its lock proves nothing."""
        joiner = self.site.joiners[name]
        if elsewhere and joiner.folder:
            joiner = msgspec.structs.replace(joiner, folder=f"another {joiner.folder}")
        kept = None if elsewhere else self.site.disks.get(name)
        process = NodeProcess(
            self._new_life(name, clock), joiner, kept or SimulatedDisk(), self.can_supply, self.carry, self.name
        )
        self.site.lives.append(process)
        self._start(process)

    def start_projector(self, machine: str) -> None:
        self._start(ProjectorProcess(self._new_life(machine)))

    def kill(self, process: Process, revive_after_ms: float, *, late: bool = False, unseen: bool = False) -> None:
        """The process is gone, its machine is up; of what it had sent a part still lands, if `late` much later.

        Often its sentinel says so, before or after the last of that, unless the power is cut: then it is `unseen`.
        """
        if late:
            process.link.sends_cut = True
            self.timeline.after(between(process.chance, 0, LATE_MS), process.writer.release)
        process.clock.wake()
        process.writer.die()
        if not unseen and process.chance.random() < _SENTINEL_LIVES:
            delay_ms = process.chance.random() ** 3 * _CERTIFICATE_MS_MAX  # mostly soon, now and then late
            self.timeline.after(delay_ms, partial(self.certify, process))
        self._end(process, revive_after_ms)

    def stop(self, name: str, revive_after_ms: float) -> None:
        """The node's process, if one runs, is gone."""
        process = self.on(name)
        if process is not None:
            process.disturbed = True
            self.kill(process, revive_after_ms)

    def move_out(self, name: str, after_ms: float, *, in_order: bool) -> None:
        """The node's process ends here; it is started again where its home is by then."""
        node = self.on(name)
        if in_order and isinstance(node, NodeProcess):
            node.leave()
        else:
            self.stop(name, after_ms)

    def wipe(self, name: str) -> None:
        """The node has a new, empty disk; nothing of it runs."""
        self.site.disks[name] = SimulatedDisk()

    def back_up(self, name: str) -> None:
        """The node's disk, as it is at this moment, is put aside."""
        self.site.backups[name] = self.site.disks[name].copy()

    def restore(self, name: str, *, bare: bool) -> None:
        """The disk that was put aside takes the place of the node's, which does not run; `bare`: without its past."""
        if name in self.site.backups:
            disk = self.site.disks[name] = self.site.backups.pop(name)
            if bare:
                disk.past = MemoryDisk()

    def certify(self, process: Process) -> None:
        """The death certificate of the process lands."""
        if process.death_certificate is not None:
            value = CODEC.encode(process.death_certificate)
            author = f"sentinel of {process.name}"
            self.broker.put(Send(author, Topic.HEARTBEATS, process.machine, value, (), None, Fate.LANDS))

    def carry(self, chance: random.Random, row: StoredRow) -> None:
        """A row is on its way to the disk of some node: mostly soon there, now and then late."""
        delay_ms = chance.random() ** 3 * LATE_MS
        self.timeline.after(delay_ms, partial(self._store, chance.choice(self.node_names), row))

    def _store(self, name: str, row: StoredRow) -> None:
        process = self.on(name)
        if isinstance(process, NodeProcess) and not self.is_paused(process):
            process.tables.receive(row)
        elif name in self.site.disks:
            self.site.disks[name].store(self.name).put(row)

    def is_paused(self, process: Process) -> bool:
        return process.paused_until_ns > self.timeline.now_ns

    def pause(self, process: Process, ms: float) -> None:
        """SIGSTOP, and SIGCONT after `ms`."""
        process.paused_until_ns = max(process.paused_until_ns, self.timeline.now_ns + int(ms * NS_PER_MS))

    def suspend(self, process: Process, ms: float) -> None:
        """The machine sleeps: like a pause, and its monotonic clock stands still."""
        self.pause(process, ms)
        process.clock.sleep()
        self.timeline.after(ms, process.clock.wake)

    def cut(self, process: Process, ms: float, *, reads: frozenset[Topic], sends: bool, loses: bool) -> None:
        """Part the process from the log; if it `loses`, sends held meanwhile run into their time limit."""
        process.link.unreadable |= reads
        process.link.sends_cut |= sends
        self.timeline.after(ms, partial(self._mend, process, loses))

    def mute(self, node: NodeProcess, ms: float) -> None:
        """Its single maps are lost for a while."""
        node.wire.is_mute = True
        self.timeline.after(ms, partial(self.unmute, node))

    def unmute(self, node: NodeProcess) -> None:
        if node.wire.is_mute:
            node.wire.is_mute = False
            node.session.core.unsay_map()

    def garble(self, node: NodeProcess, ms: float) -> None:
        """Its single maps land late or twice for a while."""
        node.wire.garbles = True
        self.timeline.after(ms, partial(setattr, node.wire, "garbles", False))

    def hang(self, node: NodeProcess, ms: float) -> None:
        """A hook of its service does not return for a while."""
        node.hangs = True
        self.timeline.after(ms, partial(setattr, node, "hangs", False))

    def slow_down(self, process: Process, ms: float, lag_ms: int, batch_max: int) -> None:
        process.link.slow_down(lag_ms, batch_max)
        self.timeline.after(ms, process.link.recover)

    def usurp(self, coordinator: CoordinatorProcess) -> None:
        """A stand-by claims the next term although somebody leads."""
        core = coordinator.driver.core
        if core.role is Role.FOLLOWING and core.confirmed.log_id is not None:
            core.claim()

    def retire(self, coordinator: CoordinatorProcess) -> None:
        if coordinator.driver.role is Role.LEADING:
            coordinator.driver.core.retire()

    def heal(self) -> None:
        """No fault lasts beyond this moment."""
        for process in self.processes:
            process.link.recover()
            process.writer.release()
            process.clock.wake()
            process.paused_until_ns = 0
            if isinstance(process, NodeProcess):
                self.unmute(process)
                process.hangs = process.wire.garbles = False

    def _new_life(self, machine: str, clock: DriftingClock | None = None) -> Life:
        """The next life on this machine, whose clock goes on; a machine that is new has a clock of its own."""
        self._lives[machine] += 1
        number = self._lives[machine]
        chance = random.Random(f"{self._seed} {machine} {number}")
        name = machine if number == 1 or machine in self.site.joiners else f"{machine}.{number}"
        joiner = self.site.joiners.get(machine)
        fences = joiner is None or FENCING in joiner.capabilities
        clock = clock or DriftingClock(self.timeline, chance, has_boottime=fences)
        return Life(machine, name, chance, self.timeline, self.broker, clock)

    def _start(self, process: Process) -> None:
        self.processes.append(process)
        self._list()
        self.note(f"{process.name} starts")
        self.timeline.after(between(process.chance, *_TURN_MS), partial(self._turn, process))

    def _list(self) -> None:
        self.coordinators = [each for each in self.processes if isinstance(each, CoordinatorProcess)]
        self.nodes = [each for each in self.processes if isinstance(each, NodeProcess)]

    def _turn(self, process: Process) -> None:
        """Let the process run for a moment, unless it is stopped; then it waits for its next turn."""
        if not process.alive:
            return
        if not self.is_paused(process):
            self.turned = process
            if not process.turn():
                if isinstance(process, NodeProcess) and process.refused in REFUSED_KINSHIPS:
                    self._turn_away(process)
                self._end(process, between(process.chance, *_REVIVAL_MS))
                return
        self.timeline.after(between(process.chance, *_TURN_MS), partial(self._turn, process))

    def _end(self, process: Process, revive_after_ms: float) -> None:
        self.note(f"{process.describe()} has ended")
        process.alive = False
        self.processes.remove(process)
        self._list()
        self.timeline.after(revive_after_ms, partial(self._revive, process))

    def _revive(self, process: Process) -> None:
        """Start a new life of the process on its machine, unless another process has taken its node's place."""
        match process:
            case CoordinatorProcess():
                self.start_coordinator(process.machine, process.clock)
            case NodeProcess() if not self.site.runs(process.name):
                self.site.homes.get(process.name, self).start_node(process.name, process.clock)
            case ProjectorProcess():
                self.start_projector(process.machine)

    def _turn_away(self, node: NodeProcess) -> None:
        """Its past is another one: whoever runs it starts it where it comes from, or with an empty disk."""
        other = self.site.other_than(self)
        if node.disk is not self.site.disks.get(node.name):
            return
        if other is None or node.chance.random() < _EMPTIES:
            self.wipe(node.name)
        else:
            self.site.homes[node.name] = other

    def _mend(self, process: Process, loses: bool) -> None:
        process.link.unreadable = frozenset()
        if loses:
            process.writer.give_up()
        process.writer.release()


def _draw_cadence(chance: random.Random) -> Cadence:
    """Snapshots every few positions and in small pieces, or, in every third seed, none."""
    positions = 0 if chance.random() < 1 / 3 else chance.randint(3, 60)
    return Cadence(positions, piece_bytes=chance.choice((400, 4_000, 100_000)))


def _draw_joiner(chance: random.Random, number: int) -> Joiner:
    """A server or, rarely, a client; some own their data folder alone; some bring types of their own."""
    kind = NodeKind.CLIENT if number > 2 and chance.random() < 0.3 else NodeKind.SERVER
    types = tuple(
        DeclaredType(ObjectType(f"D{index}", {"id": "long", f"n{number}": "int"}), 0)
        for index in range(2)
        if chance.random() < 0.3
    )
    folder = f"disk of n{number}" if chance.random() < 0.3 else ""
    role = {"role": ROLES[number % len(ROLES)]}
    return Joiner(f"n{number}", 0, kind, "", role, ("fencing",), folder, types=types)


class Operator:
    """Asks for things from outside the cluster."""

    def __init__(self, name: str, timeline: Timeline, chance: random.Random, broker: Broker) -> None:
        self.name = name
        self.writer = Writer(name, timeline, chance, broker, Link())
        self.sequence = 0

    def next_id(self) -> RequestId:
        self.sequence += 1
        return RequestId(self.name, self.sequence)

    def send(self, request: Request, topic: Topic = Topic.OPERATIONS) -> None:
        assert isinstance(request, Request)
        self.writer.append(topic, request.id.requester, CODEC.encode(request))
