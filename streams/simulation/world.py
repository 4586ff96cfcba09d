"""A small cluster in one process: coordinators, nodes, a projector, an operator, and everything that can befall them.

The world knows how a process is started, paused, cut off and killed; it does not know when (`faults.py`) nor what must
hold (`checks.py`). After each step `turned` is the process that had a turn and `broker.landed` what reached the log.
"""

import random
from collections import deque
from functools import partial

import msgspec

from topolog.events import requests as q
from topolog.events.codec import CODEC
from topolog.events.ids import Incarnation
from topolog.events.object_types import ObjectType
from topolog.events.topics import Topic
from topolog.streams.coordinator.core import Role
from topolog.streams.simulation.network import LATE_MS, Broker, Link, Writer
from topolog.streams.simulation.processes import CoordinatorProcess, NodeProcess, Process, ProjectorProcess
from topolog.streams.simulation.timeline import NS_PER_MS, DriftingClock, Timeline

_TURN_MS = (5.0, 60.0)
_REVIVAL_MS = (50.0, 800.0)
_NOTES_KEPT = 40


class World:
    """The cluster at one moment of true time."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.timeline = Timeline(chance)
        self.broker = Broker(self.timeline)
        self.processes: list[Process] = []
        self.turned: Process | None = None
        self.notes: deque[str] = deque(maxlen=_NOTES_KEPT)
        self._lives = 0
        self._node_lives: list[NodeProcess] = []
        self._joiners: dict[str, q.Joiner] = {}
        self.operator = Operator(self.timeline, self.broker)
        for _ in range(chance.randint(2, 3)):
            self.start_coordinator()
        for number in range(chance.randint(3, 6)):
            self._joiners[f"n{number}"] = self._draw_joiner(number)
            self.start_node(f"n{number}")
        self.start_projector()

    @property
    def coordinators(self) -> list[CoordinatorProcess]:
        return [each for each in self.processes if isinstance(each, CoordinatorProcess)]

    @property
    def nodes(self) -> list[NodeProcess]:
        return [each for each in self.processes if isinstance(each, NodeProcess)]

    @property
    def node_names(self) -> list[str]:
        return list(self._joiners)

    def has_released(self, incarnation: Incarnation) -> bool:
        """Whether a process, alive or not, has handed over the release of this incarnation."""
        return any(incarnation in each.released for each in self._node_lives)

    def step(self) -> None:
        """The next thing that happens."""
        self.turned = None
        self.broker.landed.clear()
        self.timeline.advance()

    def note(self, text: str) -> None:
        """One line of history, for whoever reads a violation."""
        self.notes.append(f"{self.timeline.now_ns / 1e9:8.4f} s  {text}")

    def start_coordinator(self, clock: DriftingClock | None = None) -> None:
        self._start(CoordinatorProcess(self._name("c"), self.timeline, self.broker, clock))

    def start_node(self, name: str, clock: DriftingClock | None = None, *, elsewhere: bool = False) -> None:
        """A process of the node comes up; `elsewhere` has another disk, so that its lock proves nothing."""
        joiner = self._joiners[name]
        if elsewhere and joiner.folder:
            joiner = msgspec.structs.replace(joiner, folder=f"another {joiner.folder}")
        process = NodeProcess(name, joiner, self.timeline, self.broker, clock)
        self._node_lives.append(process)
        self._start(process)

    def start_projector(self) -> None:
        self._start(ProjectorProcess(self._name("p"), self.timeline, self.broker))

    def kill(self, process: Process, revive_after_ms: float, *, late: bool = False) -> None:
        """The process is gone, its machine is up; of what it had sent a part still lands, if `late` much later."""
        if late:
            process.link.sends_cut = True
            self.timeline.after(self.timeline.between(0, LATE_MS), process.writer.release)
        process.clock.wake()
        process.writer.die()
        self._end(process, revive_after_ms)

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

    def _name(self, letter: str) -> str:
        self._lives += 1
        return f"{letter}{self._lives}"

    def _draw_joiner(self, number: int) -> q.Joiner:
        """A server or, rarely, a client; some own their data folder alone; some bring types of their own."""
        chance = self.chance
        kind = q.NodeKind.CLIENT if number > 2 and chance.random() < 0.3 else q.NodeKind.SERVER
        types = tuple(
            q.DeclaredType(ObjectType(f"D{index}", {"id": "long", f"n{number}": "int"}), 0)
            for index in range(2)
            if chance.random() < 0.3
        )
        folder = f"disk of n{number}" if chance.random() < 0.3 else ""
        return q.Joiner(f"n{number}", 0, kind, "", {}, ("fencing",), folder, types=types)

    def _start(self, process: Process) -> None:
        self.processes.append(process)
        self.note(f"{process.name} starts")
        self.timeline.after(self.timeline.between(*_TURN_MS), partial(self._turn, process))

    def _turn(self, process: Process) -> None:
        """Let the process run for a moment, unless it is stopped; then it waits for its next turn."""
        if not process.alive:
            return
        if not self.is_paused(process):
            self.turned = process
            if not process.turn():
                self._end(process, self.timeline.between(*_REVIVAL_MS))
                return
        self.timeline.after(self.timeline.between(*_TURN_MS), partial(self._turn, process))

    def _end(self, process: Process, revive_after_ms: float) -> None:
        self.note(f"{process.describe()} has ended")
        process.alive = False
        self.processes.remove(process)
        self.timeline.after(revive_after_ms, partial(self._revive, process))

    def _revive(self, process: Process) -> None:
        """Start a new life of the process on its machine, unless another process has taken its node's place."""
        match process:
            case CoordinatorProcess():
                self.start_coordinator(process.clock)
            case NodeProcess() if all(node.name != process.name for node in self.nodes):
                self.start_node(process.name, process.clock)
            case ProjectorProcess():
                self.start_projector()

    def _mend(self, process: Process, loses: bool) -> None:
        process.link.unreadable = frozenset()
        if loses:
            process.writer.give_up()
        process.writer.release()


class Operator:
    """Asks for things from outside the cluster."""

    def __init__(self, timeline: Timeline, broker: Broker) -> None:
        self.writer = Writer("op", timeline, broker, Link())
        self._sequence = 0

    def next_id(self) -> q.RequestId:
        self._sequence += 1
        return q.RequestId("op", self._sequence)

    def send(self, request: q.Request) -> None:
        assert isinstance(request, q.AnyRequest)
        self.writer.append(Topic.REQUESTS, request.id.requester, CODEC.encode(request))
