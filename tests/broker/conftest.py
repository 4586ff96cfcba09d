"""Processes on the local broker, and the log as an auditor reads it."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.broker.nursery import Forked

from topolog.events import failpoints
from topolog.events.codec import CODEC
from topolog.events.fold import Fold, Folded, Header, Ignored
from topolog.events.ids import Position
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.log import Entry
from topolog.events.state import State
from topolog.events.terms import ClusterRow
from topolog.events.topics import PARTITIONS, PLANS, Topic, TopicPlan
from topolog.streams.node.client import Node

T = TypeVar("T")
FENCE_MS, MARGIN_MS, HEARTBEAT_MS = 2_000, 500, 200
PATIENCE_S = 120.0
MEMBER = "tests.broker.member"


def eventually(
    look: Callable[[], T | None],
    what: str = "what is looked for",
    patience_s: float = PATIENCE_S,
    every_s: float = 0.02,
) -> T:
    """What `look` finds, as soon as it finds something; fails with `what` after `patience_s`.

    Nothing found is what is false: None, False, an empty list.
    """
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"waited {patience_s:g} s for {what}"
        pause.wait(every_s)


class Told(msgspec.Struct, frozen=True):
    """The log of one cluster as an independent reader has folded it; `hashes`: the state's after each whole set."""

    state: State
    header: Header
    decisions: list[Folded]
    hashes: dict[Position, bytes]


class Process:
    """A child process that is killed at the end of the test if it still lives; `forked`: one that has begun already."""

    def __init__(self, command: list[str], env: Mapping[str, str] | None = None, forked: Forked | None = None) -> None:
        pipe = subprocess.PIPE
        self._popen = forked or subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1, env=env
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.complaints: list[str] = []
        self._readers = [
            threading.Thread(target=self._drain_stdout, daemon=True),
            threading.Thread(target=self._drain_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -9 if it was killed by signal 9."""
        return self._popen.poll()

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait(PATIENCE_S)

    def wait(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self._popen.wait(PATIENCE_S)

    def end(self) -> int:
        """Ask it to stop and wait; its exit code."""
        self._popen.send_signal(signal.SIGCONT)
        self._popen.terminate()
        return self._popen.wait(PATIENCE_S)

    def leave(self) -> int:
        """End its input, upon which a member leaves in order, and wait; its exit code."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        return self._popen.wait(PATIENCE_S)

    def ended(self) -> tuple[int] | None:
        """Its exit code, once it has ended and all that it said is read."""
        code = self._popen.poll()
        if code is None:
            return None
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return (code,)

    def close(self) -> None:
        """End it; what it complained of is shown with a test that fails."""
        if self._popen.poll() is None:
            self.kill()
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        said = "\n    ".join(line.rstrip() for line in self.complaints[-30:])
        sys.stdout.write(f"process {self.pid} ended with {self.exit_code}\n    {said}\n")

    def tell(self, **order: Any) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(order) + "\n")
        self._popen.stdin.flush()

    def hear(self, *wanted: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The next line that says one of `wanted`; lines that say something else are passed over."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line: dict[str, Any] = json.loads(self._lines.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"process {self.pid} never said {wanted}: {self.complaints[-5:]}") from None
            if line["said"] in wanted:
                return line

    def _drain_stdout(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._lines.put(line)

    def _drain_stderr(self) -> None:
        assert self._popen.stderr is not None
        self.complaints.extend(self._popen.stderr)


class Site:
    """One cluster on the shared broker: starts its processes, reads its log."""

    def __init__(self, bootstrap: str, cluster: str, plans: Iterable[TopicPlan] = PLANS) -> None:
        self.bootstrap = bootstrap
        self.cluster = cluster
        self.kafka = {"bootstrap.servers": bootstrap}
        self._processes: list[Process] = []
        KafkaAdmin(self.kafka).create_topics(cluster, plans)

    def coordinator(
        self,
        instance: str,
        env: Mapping[str, str] | None = None,
        *,
        sentinel: bool = True,
        fence_ms: int = FENCE_MS,
        margin_ms: int = MARGIN_MS,
    ) -> Process:
        """A coordinator in a process of its own; `env` replaces this process's environment."""
        flags = {
            "cluster.name": self.cluster,
            "kafka.bootstrap.servers": self.bootstrap,
            "lease.fence": f"{fence_ms}ms",
            "lease.margin": f"{margin_ms}ms",
            "lease.heartbeat": f"{HEARTBEAT_MS}ms",
            "lease.sentinel": str(sentinel).lower(),
        }
        sets = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "topolog", "run", "coordinator", "--instance", instance, *sets]
        return self.started(command, env)

    def projector(self, port: int, folder: Path) -> Process:
        """A projector with its API on this port."""
        flags = {
            "cluster.name": self.cluster,
            "kafka.bootstrap.servers": self.bootstrap,
            "api.port": str(port),
            "projector.data": str(folder),
        }
        sets = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
        return self.started([sys.executable, "-m", "topolog", "run", "projector", *sets])

    def member(self, name: str, *, sentinel: bool = True, role: str = "") -> Process:
        """A node in a process of its own, when it has joined."""
        process = self.started([sys.executable, "-m", MEMBER, self.cluster, name, self.bootstrap, str(sentinel), role])
        process.hear("member")
        return process

    def keeper(self, name: str, folder: Path, failpoint: str = "") -> Process:
        """A node that keeps its rows in a folder of its own below `folder`, in a process of its own."""
        command = [sys.executable, "-m", "tests.broker.keeper", self.cluster, name, self.bootstrap, str(folder)]
        return self.started(command, {**os.environ, failpoints.VARIABLE: failpoint})

    def node(self, name: str) -> Node:
        """A node in this process, not yet entered."""
        return Node(self.cluster, name, kafka=self.kafka, join_timeout_s=PATIENCE_S)

    def entries(self, topic: Topic) -> list[Entry]:
        """Every record of a topic so far."""
        reader = KafkaReader(self.kafka, self.cluster)
        reader.assign({(topic, number): None for number in range(PARTITIONS[topic])})
        found: list[Entry] = []

        def at_end() -> bool:
            found.extend(reader.poll(0.1))
            return reader.at_end(topic)

        eventually(at_end, f"the end of {topic.short_name}")
        reader.close()
        return found

    def told(self) -> Told:
        """Fold the log from its beginning to its end."""
        fold, decisions, hashes = Fold(), list[Folded](), dict[Position, bytes]()
        for entry in self.entries(Topic.DECISIONS):
            folded = fold.read(entry.stamp, entry.value)
            if not isinstance(folded, Ignored):
                decisions.extend(folded)
                hashes[fold.header.position] = fold.state.hash()
        return Told(fold.state, fold.header, decisions, hashes)

    def agrees_with(self, node: Node) -> bool:
        """Whether the node's fold is the log's at the position where the node stands."""
        position, state_hash = node.fingerprint()
        return self.told().hashes[position] == state_hash

    def leader(self) -> str:
        """The instance that leads, as soon as one does."""

        def look() -> str | None:
            row = self.told().state.get(ClusterRow, "")
            return row.coordinator if row and row.coordinator else None

        return eventually(look, "a leader")

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def started(self, command: list[str], env: Mapping[str, str] | None = None) -> Process:
        return self.kept(Process(command, env))

    def kept(self, process: Process) -> Process:
        """It is killed with the site."""
        self._processes.append(process)
        return process


@pytest.fixture
def site(kafka: str, cluster: str) -> Iterator[Site]:
    """A cluster of its own on the shared broker, with short fences."""
    with contextlib.closing(Site(kafka, cluster)) as site:
        yield site


def event_name(folded: Folded) -> str:
    return type(folded.event).__name__


def decode_requests(entries: list[Entry]) -> list[Any]:
    return [CODEC.decode(entry.value) for entry in entries]
