"""`topolog demo stranger --hangs` beside a real `topolog up --demo`: nodes of the store die and join, and nobody waits
for it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from tests.broker.conftest import eventually

from topolog.events.errors import Unreachable
from topolog.events.leases import NodeKind
from topolog.events.partitions import PartitionState
from topolog.streams.local.demo.others import Connections
from topolog.streams.local.demo.shards import GROUP as ROWS
from topolog.streams.local.demo.stranger import NAME
from topolog.streams.local.door import Act, Question, ask
from topolog.streams.node.client import Node
from topolog.streams.rules.affinity import partition_of

PATIENCE_S = 120.0
SERVED_S = 2.0
"""Some 0.1 s on a quiet machine; a server that is waited for would cost its lease, 25 s."""

THINGS = 600
"""So many rows that there is one in each partition."""

TABLE = "shop.things"


class Program:
    """A `topolog` of the demo, and what it says."""

    def __init__(self, stack: ExitStack, environment: dict[str, str], folder: Path, *arguments: str) -> None:
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "topolog", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
            process_group=0,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        stack.callback(self._end)

    def says(self, text: str) -> None:
        """Return once it has said that."""
        eventually(lambda: self._has_said(text), f"{text!r} in {self.said}", PATIENCE_S)

    def interrupt(self) -> int:
        """Ctrl-C; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def _has_said(self, text: str) -> bool:
        assert self.process.poll() is None, self.said
        return any(text in line for line in self.said)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(iter(self.process.stderr.readline, ""))

    def _end(self) -> None:
        if self.process.poll() is None:
            self.interrupt()
        self._listener.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Demo:
    """`topolog up --demo` with rows of one table in all partitions, and a client of its cluster."""

    def __init__(self, stack: ExitStack, folder: Path, port: int, api_port: int) -> None:
        self._stack = stack
        self._folder = folder
        self._data = folder / "data" / "topolog" / "demo"
        (folder / "rows").mkdir()
        rows = "".join(f"{number},thing\n" for number in range(THINGS))
        (folder / "rows" / "things.csv").write_text(f"id,name\n{rows}")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TOPOLOG_")}
        self._environment = inherited | {
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TOPOLOG_BROKER__PORT": str(port),
            "TOPOLOG_API__PORT": str(api_port),
        }
        self.up = self.start("up", "--demo", "--data", str(folder / "rows"))
        self.up.says("topolog is up")
        kafka = {"bootstrap.servers": f"127.0.0.1:{port}"}
        self.client = stack.enter_context(Node("demo", "watcher", kafka=kafka, kind=NodeKind.CLIENT))

    def start(self, *arguments: str) -> Program:
        return Program(self._stack, self._environment, self._folder, *arguments)

    def is_whole(self, nodes: int) -> bool:
        """Whether so many nodes of the store share all partitions, two whole copies of each."""
        members = [row for row in self.client.members() if row.endpoint]
        if len(members) != nodes or ROWS.name not in self.client.groups():
            return False
        views = self.client.partitions(ROWS.name)
        whole = all([copy.state for copy in each.copies] == [PartitionState.OWNING] * 2 for each in views)
        return whole and len({each.primary for each in views} - {None}) == nodes

    def await_whole(self, nodes: int = 5) -> None:
        eventually(lambda: self.is_whole(nodes), "two whole copies of all partitions", PATIENCE_S)

    def await_rows(self) -> None:
        with Connections(5.0) as stores:
            eventually(lambda: all(self.is_served(stores, key) for key in range(THINGS)), "rows", PATIENCE_S)

    def is_served(self, stores: Connections, key: int) -> bool:
        """Whether the row is read where the log says that it is served."""
        view = self.client.owners(ROWS.name, partition_of(str(key), ROWS.partitions))
        endpoints = {row.node: row.endpoint for row in self.client.members()}
        if view.primary is None or view.primary not in endpoints:
            return False
        try:
            return stores.ask(endpoints[view.primary], "GET", f"/rows/{TABLE}/{key}").status == 200
        except Unreachable:
            return False

    def kill(self, name: str) -> None:
        """`kill -9` of its process, which is a child of `up`."""
        record = msgspec.json.decode((self._data / "children.json").read_bytes())
        pids = [process["pid"] for process in record["processes"]]
        (pid,) = [pid for pid in pids if f"\0demo-node\0{name}\0" in Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(pid, signal.SIGKILL)

    def add(self, name: str) -> None:
        ask(self._data, Question(Act.ADD, (name,)))


@pytest.fixture
def demo(tmp_path: Path, unused_port: Callable[[], int]) -> Iterator[Demo]:
    with ExitStack() as stack:
        found = Demo(stack, tmp_path, unused_port(), unused_port())
        found.await_whole()
        found.await_rows()
        yield found
        assert found.up.interrupt() == 0


@pytest.fixture
def told(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Says a measured time where a person sees it."""
    terminal = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    return lambda text: terminal.write_line(f"\n{text}") if terminal else None


def test_nodes_die_and_join_while_another_service_hangs(demo: Demo, told: Callable[[str], None]) -> None:
    """What a killed node acted for is read at others in a moment, and it is taken in again; Ctrl-C ends the stranger,
    whose hook hangs, and it leaves nothing."""
    stranger = demo.start("demo", "stranger", "--hangs")
    stranger.says("hook hangs from now on")
    killed = "n3"
    mine = {each.partition for each in demo.client.partitions(ROWS.name) if each.primary == killed}
    keys = {partition_of(str(key), ROWS.partitions): key for key in range(THINGS)}
    with Connections(1.0) as stores:
        began_s = time.monotonic()
        demo.kill(killed)
        eventually(lambda: all(demo.is_served(stores, keys[each]) for each in mine), "its rows", every_s=0.002)
        served_s = time.monotonic() - began_s
    told(f"{len(mine)} partitions of a killed node are served after {served_s * 1000:.0f} ms, a stranger hangs")
    assert served_s < SERVED_S
    assert NAME in {row.node for row in demo.client.members()}, "nobody has put it out"
    demo.add(killed)
    demo.await_whole()
    assert NAME in {row.node for row in demo.client.members()}
    assert stranger.interrupt() == 0
    eventually(lambda: NAME not in {row.node for row in demo.client.members()}, "it has left")
    assert [*demo.client.groups()] == [ROWS.name]
