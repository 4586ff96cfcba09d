"""One cluster whose processes die at failpoints, and a sound coordinator to come after them."""

import contextlib
import itertools
import re
import signal
import subprocess
import threading
from collections.abc import Iterator

from tests.broker.armed import NEVER, TERMS
from tests.broker.conftest import PATIENCE_S, Process, Site, eventually
from tests.broker.nursery import Nursery

from topolog.events.kafka import KafkaReader, KafkaWriter
from topolog.events.object_types import ObjectType
from topolog.events.topics import Topic
from topolog.streams.clock import SystemClock
from topolog.streams.coordinator.core import Role
from topolog.streams.coordinator.driver import Driver
from topolog.streams.coordinator.snapshots import Cadence
from topolog.streams.node.client import Node, Submitted
from topolog.streams.rules.exchange import Patience

LANDED = "=pause:50ms+crash"
"""The pause lets the producer's own thread deliver what it was given; without it, all of that is lost."""


class CrashSite(Site):
    """One cluster whose processes die at failpoints. `witness` is set once it is a member."""

    witness: Node

    def __init__(self, bootstrap: str, cluster: str) -> None:
        super().__init__(bootstrap, cluster)
        self.numbers = itertools.count(1)
        self._writer = KafkaWriter(self.kafka, cluster)
        self._nursery = Nursery()

    def armed(self, entry: str, role: str, *arguments: str) -> Process:
        return self.forked("armed", entry, self.cluster, self.bootstrap, role, *arguments)

    def forked(self, module: str, *arguments: str) -> Process:
        """`python -m tests.broker.MODULE ARGUMENTS`, without the time that it takes to load."""
        return self.kept(Process([], forked=self._nursery.fork(module, *arguments)))

    def close(self) -> None:
        super().close()
        self._nursery.close()

    def put(self, topic: Topic, key: str, value: bytes) -> None:
        self._writer.append(topic, key, value)
        assert self._writer.flush(PATIENCE_S) == 0

    def submit(self) -> Submitted:
        """A proposal of the witness that adds a field of its own."""
        return self.witness.submit(ObjectType("Busy", {f"w{next(self.numbers)}": "long"}), wait="decided")

    @contextlib.contextmanager
    def leading(
        self,
        cadence: Cadence = NEVER,
        takeover_ms: int = 600,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
    ) -> Iterator[None]:
        """A sound coordinator in this process, which leads inside and retires at the end."""
        with (
            contextlib.closing(KafkaReader(self.kafka, self.cluster)) as reader,
            contextlib.closing(KafkaWriter(self.kafka, self.cluster)) as writer,
        ):
            name = f"c{next(self.numbers)}"
            driver = Driver(
                *(reader, writer, SystemClock(), self.cluster, name),
                terms=TERMS,
                takeover_ms=takeover_ms,
                cadence=cadence,
                patience=patience,
            )
            stop = threading.Event()
            thread = threading.Thread(target=driver.run, args=(stop.is_set,))
            thread.start()
            try:
                eventually(lambda: driver.role is Role.LEADING, "the sound coordinator to lead")
                yield
            finally:
                stop.set()
                thread.join()


def assert_died(process: Process, entry: str) -> None:
    """The process has died at the failpoint: by SIGKILL, after one line that says where."""
    name = name_of(entry)
    try:
        assert process.wait() == -signal.SIGKILL, process.complaints
    except subprocess.TimeoutExpired:
        process.kill()  # or it would stand in the way of the tests that follow
        raise AssertionError(f"never came to {name}: {process.complaints}") from None
    eventually(lambda: any(line.startswith(f"failpoint {name}: ") for line in process.complaints), f"{name} to be said")


def name_of(entry: str) -> str:
    found = re.match("[a-z.-]+", entry)
    assert found is not None
    return found[0]
