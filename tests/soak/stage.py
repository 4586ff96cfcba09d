"""One cluster to be tormented: real brokers, a proxy for every process, and all processes, that can be hurt by name."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx
from tests.soak.audit import Audit
from tests.soak.history import Kill, Rule, Violation
from tests.soak.proxy import Network
from tests.soak.wall_clock import WallClock, library

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.topics import PLANS
from topolog.projections.cli.exit_codes import ExitCode
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.kafka_config import Door, Seat
from topolog.streams.local.quorum import LocalQuorum

ROOT = Path(__file__).parents[2]
FENCE_MS, MARGIN_MS, HEARTBEAT_MS = 2_000, 500, 200
COORDINATORS = ("c1", "c2")
CLIENTS = ("n1", "n2", "n3")
PROJECTOR = "projector"
NAMES = (*COORDINATORS, *CLIENTS, PROJECTOR)
STARTING_S = 20.0
"""So long a process may end because it finds no broker: who starts it tries again."""


def ports_needed(nodes: int) -> int:
    return 2 * nodes + 2 * nodes * len(NAMES) + 1


class Child:
    """One process, started again whenever it is wanted; `output` grows over its lives."""

    def __init__(self, name: str, command: list[str], output: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = command
        self._output = output
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=ROOT,
            )
        self._started_s = time.monotonic()

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals, limit_s: float = 20.0) -> None:
        """Send a signal that ends it, and wait; a paused process would not hear it."""
        if self._process is None:
            return
        self.send(number)
        self.send(signal.SIGCONT)
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def ended_by_itself(self) -> str:
        """How it ended without being told to; "" if it lives, or ended early because it found no broker."""
        if self._process is None or (code := self._process.poll()) is None:
            return ""
        self._process = None
        if code == ExitCode.UNREACHABLE and time.monotonic() - self._started_s < STARTING_S:
            return ""
        return f"{self.name} ended by itself with {code}; {self._output} says why"


class Stage:
    """`brokers` are the nodes of Kafka. Entered, everything runs; left, everything is gone but the files."""

    def __init__(self, folder: Path, cluster: str, nodes: int, first_port: int) -> None:
        self.folder = folder
        self.cluster = cluster
        self.network = Network()
        self.kills: list[Kill] = []
        self.quiet = folder / "quiet"
        self._ports = iter(range(first_port + 2 * nodes, first_port + ports_needed(nodes)))
        doors = {number: tuple(self._door(name) for name in NAMES) for number in range(1, nodes + 1)}
        self._doors = doors
        self._quorum: LocalQuorum | LocalBroker
        if nodes == 1:
            self._quorum = LocalBroker(folder / "kafka", seat=Seat(first_port, doors=doors[1]))
            self.brokers: tuple[LocalBroker, ...] = (self._quorum,)
        else:
            self._quorum = LocalQuorum(folder / "kafka", port=first_port, doors=doors.__getitem__)
            self.brokers = self._quorum.nodes
        self.kafka = {"bootstrap.servers": self._quorum.bootstrap}
        self.api = f"http://127.0.0.1:{(api_port := next(self._ports))}"
        self.audit = Audit(self.kafka, cluster)
        self.clocks: dict[str, WallClock] = {}
        self.children = {name: self._child(name, api_port) for name in NAMES}
        self._starting: list[threading.Thread] = []
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._quorum.stop)
            self._quorum.start(ready=lambda _: KafkaAdmin(self.kafka).wait_until_usable())
            KafkaAdmin(self.kafka).create_topics(self.cluster, PLANS, replicas=len(self.brokers))
            undo.enter_context(self.network)
            for number, doors in self._doors.items():
                for name, door in zip(NAMES, doors, strict=True):
                    self.network.add(name, number, door.advertised, door.port)
            undo.enter_context(self.audit)
            undo.callback(self._end_children)
            self.quiet.touch()
            for child in self.children.values():
                child.start()
            self._exits = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._join_starts()
        self._exits.close()

    def kill(self, name: str) -> None:
        self.kills.append(Kill(name, time.monotonic_ns()))  # before it: a death may be certified while we wait for it
        self.children[name].end(signal.SIGKILL)

    def restart(self, name: str) -> None:
        self.children[name].end(signal.SIGTERM)
        self.children[name].start()

    def start(self, name: str) -> None:
        if not self.children[name].is_alive:
            self.children[name].start()

    def kill_broker(self, index: int) -> None:
        if pid := self.brokers[index].status().pid:
            os.kill(pid, signal.SIGKILL)

    def start_broker(self, index: int) -> None:
        """In the background: a start takes seconds, and one node of three may have to wait for another."""
        thread = threading.Thread(target=self._start_broker, args=(self.brokers[index],), daemon=True)
        thread.start()
        self._starting.append(thread)

    def signal_broker(self, index: int, number: signal.Signals) -> None:
        if pid := self.brokers[index].status().pid:
            os.kill(pid, number)

    def heal(self) -> list[Violation]:
        """Undo whatever has been done; violations are what ended by itself."""
        for index in range(len(self.brokers)):
            self.signal_broker(index, signal.SIGCONT)
            self.start_broker(index)
        self._join_starts()
        for name, child in self.children.items():
            child.send(signal.SIGCONT)
            self.network.restore(name)
            if name in self.clocks:
                self.clocks[name].step(0)
        return self.mend()

    def mend(self) -> list[Violation]:
        """Start again who is not there."""
        ended = [end for child in self.children.values() if (end := child.ended_by_itself())]
        for name in self.children:
            self.start(name)
        return [Violation(Rule.NO_END, end) for end in ended]

    def projected(self) -> tuple[int, str]:
        """Position and state hash of the projector; (-1, "") while it does not answer."""
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            answer = httpx.get(f"{self.api}/v1/clusters/{self.cluster}/cluster", timeout=2, trust_env=False).json()
            return int(answer["asOf"]["position"]), str(answer["item"]["state_hash"])
        return -1, ""

    def _door(self, name: str) -> Door:
        return Door(name.upper(), next(self._ports), next(self._ports))

    def _child(self, name: str, api_port: int) -> Child:
        bootstrap = ",".join(
            f"127.0.0.1:{door.advertised}"
            for doors in self._doors.values()
            for door in doors
            if door.name == name.upper()
        )
        if name in CLIENTS:
            command = ["-m", "tests.soak.client", self.cluster, name, bootstrap, str(self.folder)]
        else:
            command = ["-m", "topolog", "run", *self._role(name, bootstrap, api_port)]
        return Child(name, [sys.executable, *command], self.folder / f"{name}.log", self._clock_of(name))

    def _role(self, name: str, bootstrap: str, api_port: int) -> list[str]:
        settings = {
            "cluster.name": self.cluster,
            "kafka.bootstrap.servers": bootstrap,
            "lease.fence": f"{FENCE_MS}ms",
            "lease.margin": f"{MARGIN_MS}ms",
            "lease.heartbeat": f"{HEARTBEAT_MS}ms",
            "projector.data": str(self.folder / "store"),
            "api.port": str(api_port),
        }
        role = ["projector"] if name == PROJECTOR else ["coordinator", "--instance", name]
        return [*role, *(part for key, value in settings.items() for part in ("--set", f"{key}={value}"))]

    def _clock_of(self, name: str) -> Mapping[str, str]:
        made = library(self.folder)
        if made is None:
            return {}
        self.clocks[name] = WallClock(made, self.folder / f"{name}.clock")
        return self.clocks[name].environment

    def _start_broker(self, broker: LocalBroker) -> None:
        if not broker.status().is_running:
            broker.start(ready=lambda _: KafkaAdmin(self.kafka).wait_until_usable())

    def _join_starts(self) -> None:
        for thread in self._starting:
            thread.join()
        self._starting.clear()

    def _end_children(self) -> None:
        for child in self.children.values():
            child.end(signal.SIGKILL)
