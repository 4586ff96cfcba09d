"""The sentinel: what keeps one from starting costs the lease and fails nothing; only the kernel makes it speak."""

import base64
import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from topolog.events.log import InMemoryLog, InMemoryWriter
from topolog.events.topics import PARTITIONS, Topic
from topolog.streams.node import sentinel as sentinel_module
from topolog.streams.node.sentinel import Sentinel, watch

NOWHERE = "127.0.0.1:1"
"""No broker listens there."""

MakeSentinel = Callable[[Mapping[str, str]], Sentinel]


@pytest.fixture
def make_sentinel() -> Iterator[MakeSentinel]:
    """A sentinel with these settings of Kafka besides the broker's address; it has ended when the test has."""
    made: list[Sentinel] = []

    def make(kafka: Mapping[str, str]) -> Sentinel:
        made.append(Sentinel({"bootstrap.servers": NOWHERE, **kafka}, "main"))
        return made[-1]

    yield make
    for sentinel in made:
        sentinel.end(said_goodbye=True)


@pytest.mark.parametrize("executable", [None, "", "/bin/sh", "/somewhere/else/python3"])
def test_a_service_without_an_interpreter_goes_on_without_a_sentinel(
    executable: str | None,
    make_sentinel: MakeSentinel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An embedded Python has no `sys.executable`, or a program that would take our arguments for its own; said once."""
    monkeypatch.setattr(sys, "executable", executable)
    with caplog.at_level(logging.WARNING):
        assert_none_starts(make_sentinel({}))
    assert len([each for each in caplog.messages if "a crash costs the lease" in each]) == 1


def test_a_frozen_service_does_not_start_itself_again(
    make_sentinel: MakeSentinel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sys.executable` is the service itself there, whatever its name."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert_none_starts(make_sentinel({}))


def test_an_interpreter_by_another_name_is_followed_to_its_own(
    make_sentinel: MakeSentinel, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Some run Python by a link, so that `ps` shows the name of their service."""
    link = tmp_path_factory.mktemp("bin") / "billing"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    sentinel = make_sentinel({})
    sentinel.look_after()
    assert sentinel.pid is not None


def assert_none_starts(sentinel: Sentinel) -> None:
    sentinel.look_after()
    sentinel.speak_for("n1", b"certificate")
    sentinel.look_after()
    assert sentinel.pid is None


def test_settings_may_be_larger_than_a_pipe(make_sentinel: MakeSentinel) -> None:
    """A bundle of certificates: the sentinel has them, and lives until it is told that nothing is left to say."""
    sentinel = make_sentinel({"client.id": "x" * 200_000})
    sentinel.look_after()
    assert isinstance(process := sentinel._process, subprocess.Popen)
    sentinel._tell({"done": True})
    assert process.wait(60) == 0


def test_a_sentinel_loads_nothing_that_only_a_service_needs() -> None:
    """Each node has one, and one that is still starting has not heard for whom it speaks."""
    heavy = ("numpy", "fastavro", "topolog.events.codec")
    script = f"import sys, topolog.streams.node.sentinel; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_sentinel_does_not_end_with_the_group_of_its_service(make_sentinel: MakeSentinel) -> None:
    """Ctrl-C in a terminal, `kill` to a group: it leads a session of its own."""
    sentinel = make_sentinel({})
    sentinel.look_after()
    assert sentinel.pid is not None
    assert os.getsid(sentinel.pid) == sentinel.pid


# What makes it speak.


class HeartbeatsWriter(InMemoryWriter):
    """What a sentinel writes with, to a log in memory. A sentinel that speaks is told to `spoken`."""

    def __init__(self, log: InMemoryLog, spoken: Callable[[], None]) -> None:
        super().__init__(log, prompt=True)
        self._spoken = spoken

    def connect(self, topic: Topic) -> None:
        assert topic is Topic.HEARTBEATS

    def flush(self, timeout_s: float) -> int:
        self._spoken()
        return super().flush(timeout_s)


class Waits:
    """The kernel's own `poll`; before the first of its waits the first of `acts` is done, and so on."""

    def __init__(self, acts: Sequence[Callable[[], object]]) -> None:
        self._acts = iter(acts)
        self._kernel = select.poll()
        self.register, self.unregister = self._kernel.register, self._kernel.unregister

    def poll(self) -> list[tuple[int, int]]:
        next(self._acts)()
        return self._kernel.poll()


class Ward:
    """A process, the pipe from it to its sentinel, and the log; `said` is what stands there in the end, by key."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self._log = InMemoryLog()
        self.was_alive: list[bool] = []
        self.reads, self._tells = os.pipe()

    def __enter__(self) -> "Ward":
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        os.close(self.reads)
        self.hang_up()

    @property
    def said(self) -> list[tuple[str | None, bytes]]:
        partitions = range(PARTITIONS[Topic.HEARTBEATS])
        found = (each for partition in partitions for each in self._log.entries(Topic.HEARTBEATS, partition))
        return [(each.key, each.value) for each in found]

    def tell(self, message: Mapping[str, object]) -> None:
        os.write(self._tells, json.dumps(message).encode() + b"\n")

    def speak_for(self, key: str) -> None:
        self.tell({"key": key, "certificate": base64.b64encode(b"died").decode()})

    def hang_up(self) -> None:
        if self._tells >= 0:
            os.close(self._tells)
            self._tells = -1

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()

    def watched(self, *acts: Callable[[], object]) -> None:
        """Watch it to the end in this process; `acts` are done one before each wait."""
        greeting = sentinel_module._in_memory(json.dumps({"kafka": {}, "cluster": "main"}).encode() + b"\n")
        pidfd, waits = os.pidfd_open(self.process.pid), Waits(acts)
        with self._patch.context() as patch:
            patch.setattr(sentinel_module, "_PIPE", self.reads)
            patch.setattr(sentinel_module, "KafkaWriter", self._writer)
            patch.setattr(select, "poll", lambda: waits)
            watch(pidfd, greeting)
        os.close(pidfd)

    def _writer(self, _: object, cluster: str, *, timeout_ms: int) -> HeartbeatsWriter:
        assert (cluster, timeout_ms) == ("main", sentinel_module.CERTIFICATE_S * 1000)
        return HeartbeatsWriter(self._log, lambda: self.was_alive.append(self.process.poll() is None))


@pytest.fixture
def ward(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ward]:
    """A process that lives; what signals do in this one is as before when the test is over."""
    former = {number: signal.getsignal(number) for number in sentinel_module._DEAF_TO}
    with Ward(monkeypatch) as made:
        yield made
    for number, handler in former.items():
        signal.signal(number, handler)


def nothing() -> None:
    """What is waited for stands there already."""


def test_the_end_of_the_pipe_makes_no_sentinel_speak(ward: Ward) -> None:
    """A service may close every descriptor that it has and live on: it is dead when the kernel says so."""
    ward.speak_for("n1")
    ward.hang_up()
    ward.watched(nothing, ward.die)
    assert (ward.said, ward.was_alive) == ([("n1", b"died")], [False])


def test_no_word_but_the_kernels_makes_a_sentinel_speak(ward: Ward) -> None:
    """It is told for whom it speaks, and for whom it speaks instead: the last counts, once its process is dead."""
    ward.watched(lambda: ward.speak_for("n1"), lambda: ward.speak_for("n2"), ward.die)
    assert (ward.said, ward.was_alive) == ([("n2", b"died")], [False])


def test_what_a_process_said_last_counts_though_it_is_dead(ward: Ward) -> None:
    """The pipe outlives its writer."""

    def join_and_die() -> None:
        ward.speak_for("n1")
        ward.hang_up()
        ward.die()

    ward.watched(join_and_die)
    assert (ward.said, ward.was_alive) == ([("n1", b"died")], [False])


def test_who_has_said_goodbye_is_not_declared_dead(ward: Ward) -> None:
    """Also where `done` and the end of the process are seen at once."""

    def leave_and_die() -> None:
        ward.tell({"done": True})
        ward.die()

    ward.watched(lambda: ward.speak_for("n1"), leave_and_die)
    assert ward.said == []


def test_a_process_that_never_asked_to_join_is_not_declared_dead(ward: Ward) -> None:
    ward.watched(ward.die)
    assert ward.said == []


def test_a_sentinel_is_deaf_to_what_ends_its_service(ward: Ward) -> None:
    """SIGINT, SIGTERM and SIGHUP: a supervisor that ends everything may tell the sentinel before its service."""
    found: list[object] = []

    def look_and_die() -> None:
        found.extend(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
        ward.die()

    ward.watched(look_and_die)
    assert found == [signal.SIG_IGN] * 3
