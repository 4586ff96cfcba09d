"""A real Kafka: started, stopped, killed, taken over, and refused for every reason that it can be refused for."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from topolog.events.errors import LocalBrokerError
from topolog.streams.local.broker import LocalBroker

PATIENCE_S = 30.0
QUIET = {"logger": logging.getLogger("test")}
HOLDER = """
import sys, time
from pathlib import Path
from topolog.streams.local.broker import LocalBroker
with LocalBroker(Path(sys.argv[1]), port=int(sys.argv[2])).running():
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def broker(tmp_path: Path, unused_port: Callable[[], int]) -> Iterator[LocalBroker]:
    broker = LocalBroker(tmp_path / "data", port=unused_port())
    yield broker
    broker.stop()


def append(bootstrap: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap}, **QUIET)
    if "t" not in admin.list_topics(timeout=PATIENCE_S).topics:
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap}, **QUIET)
    producer.produce("t", value)
    assert producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"}, **QUIET)
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def test_data_outlives_a_stop_and_a_kill(broker: LocalBroker) -> None:
    """Nothing acknowledged is lost, whichever way the broker ended; its folder tells how it ended."""
    first = broker.start()
    assert first.pid is not None
    append(broker.bootstrap, b"before the stop")
    assert broker.start().pid == first.pid, "a second start finds the first broker"
    assert LocalBroker(broker.folder).stop(), "any process can stop it, whatever port it believes in"
    assert not broker.status().is_running
    assert not broker.stop(), "there is nothing left to stop"

    second = broker.start()
    assert second.pid not in (None, first.pid)
    append(broker.bootstrap, b"before the kill")
    os.kill(second.pid or 0, signal.SIGKILL)
    os.waitpid(second.pid or 0, 0)
    assert broker.status().ended == "It was killed, or the machine was restarted."

    leaders: list[str] = []
    broker.start(ready=leaders.append)
    assert leaders == [broker.bootstrap], "the caller's own wait comes last"
    assert read(broker.bootstrap, 2) == [b"before the stop", b"before the kill"]


def test_a_broker_that_was_left_behind_is_taken_over(broker: LocalBroker) -> None:
    """A killed `topolog up` leaves a broker; the next one uses it and stops it. A living one keeps its own."""
    command = [sys.executable, "-c", HOLDER, str(broker.folder), str(broker.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        with pytest.raises(LocalBrokerError, match=f"belongs to process {holder.pid}"), broker.running():
            pytest.fail("two processes would stop one broker")
        holder.kill()
    left_behind = broker.status()
    assert left_behind.is_running
    with broker.running() as status:
        assert status.pid == left_behind.pid
    assert not broker.status().is_running


def test_a_broker_that_is_to_go_on_is_left_running(broker: LocalBroker) -> None:
    """`topolog up` on top of `topolog broker start` stops only what it started; another port is another broker."""
    pid = broker.start().pid
    with broker.running() as status:
        assert status.pid == pid
    assert broker.status().pid == pid
    with pytest.raises(LocalBrokerError, match=f"runs already, on port {broker.port} and not on"):
        LocalBroker(broker.folder, port=broker.port + 2).start()


def test_a_broker_that_cannot_start_says_why_and_is_gone(broker: LocalBroker) -> None:
    """The decisive line of Kafka's own log is in the sentence; no process and no port stays behind."""
    broker.start()
    broker.stop()
    meta = broker.folder / "kafka" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(LocalBrokerError, match=r"Kafka did not start; it says: .*Stored node id 7"):
        broker.start()
    assert not broker.status().is_running
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", broker.port)) != 0


def test_a_start_that_its_caller_gives_up_leaves_no_broker(broker: LocalBroker) -> None:
    """Ctrl-C during the start, or a wait for leaders that fails, ends what was begun."""

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broker.start(ready=interrupted)
    assert not broker.status().is_running


@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_in_use_is_refused_before_anything_starts(broker: LocalBroker, offset: int) -> None:
    """Both ports are looked at, the broker's and its controller's."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", broker.port + offset))
        taken.listen()
        with pytest.raises(LocalBrokerError, match=f"Port {broker.port + offset} of this machine is in use"):
            broker.start()


def test_a_full_disk_is_refused_before_anything_starts(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with both figures."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 1 << 40, 1 << 20))
    with pytest.raises(LocalBrokerError, match="is full: 1 MB free"):
        broker.start()


def test_a_missing_java_is_refused_before_anything_starts(tmp_path: Path, unused_port: Callable[[], int]) -> None:
    """The sentence names the path that was tried."""
    with pytest.raises(LocalBrokerError, match="There is no Java that runs at /nowhere/bin/java"):
        LocalBroker(tmp_path / "data", port=unused_port(), java_home=Path("/nowhere")).start()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """What the file system says becomes one sentence."""
    (tmp_path / "data").touch()
    with pytest.raises(LocalBrokerError, match="data is not a folder"):
        LocalBroker(tmp_path / "data").start()
    assert not LocalBroker(tmp_path / "data").status().is_running


def test_a_folder_that_nobody_used_has_no_broker(tmp_path: Path) -> None:
    """To ask or to stop makes nothing."""
    broker = LocalBroker(tmp_path / "data")
    assert not broker.status().is_running
    assert not broker.stop()
    assert list(tmp_path.iterdir()) == []
