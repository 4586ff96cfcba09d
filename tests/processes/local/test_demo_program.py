"""The example service on a real broker: it agrees, loads, refuses while fenced, and leaves."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.unit.streams.rules.changing import add, alter, drop, table

from topolog.events.errors import BadInput
from topolog.events.leases import NodeKind
from topolog.streams.local.demo.program import Loading, run_demo_node, share_of
from topolog.streams.local.demo.tpch import tpch_rows
from topolog.streams.local.stopping import Stopping
from topolog.streams.node.client import Node

PATIENCE_S = 90.0
Coordinated = tuple[str, dict[str, str]]

ROWS_OF_TPCH = {
    "shop.region": 5,
    "shop.nation": 25,
    "shop.supplier": 100,
    "shop.customer": 1500,
    "shop.part": 2000,
    "shop.orders": 15000,
}
TYPES_OF_TPCH = {"Region", "Nation", "Supplier", "Customer", "Part", "Order"}

PROCESS = """
import os, sys
from pathlib import Path
from topolog.streams.local.demo.program import Loading, run_demo_node
from topolog.streams.local.stopping import stopping_when_told
cluster, name, bootstrap, data = sys.argv[1:]
with stopping_when_told(os.environ) as stopping:
    say = lambda text: print(text, flush=True)
    loading = Loading(Path(data), nodes=1, pause_s=0)
    kafka = {"bootstrap.servers": bootstrap}
    folder = Path(data) / name
    sys.exit(run_demo_node(cluster, name, kafka, stopping=stopping, say=say, folder=folder, loading=loading))
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        os.sched_yield()


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tpch_rows(lambda _: None, tmp_path_factory.mktemp("cache"))


@pytest.fixture
def watcher(coordinated: Coordinated) -> Iterator[Node]:
    """A client: it sees everything and holds no lease."""
    cluster, settings = coordinated
    with Node(cluster, "watcher", kafka=settings, kind=NodeKind.CLIENT) as node:
        yield node


class Running:
    """A node of the example in a thread, and what it says."""

    def __init__(self, coordinated: Coordinated, name: str, loading: Loading) -> None:
        self.said: list[str] = []
        self.result: int | None = None
        self._stopping = Stopping()
        self._thread = threading.Thread(target=self._run, args=(*coordinated, name, loading), name=f"demo {name}")
        self._thread.start()

    def _run(self, cluster: str, kafka: dict[str, str], name: str, loading: Loading) -> None:
        self.result = run_demo_node(
            cluster, name, kafka, stopping=self._stopping, say=self.said.append, loading=loading
        )

    def says(self, text: str) -> bool:
        return any(text in line for line in self.said)

    def stop(self) -> None:
        self._stopping.tell()
        self._thread.join(PATIENCE_S)
        self._stopping.close()


def get(endpoint: str, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE_S)
    connection.request("GET", path)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


def endpoints(watcher: Node) -> list[str]:
    return [row.endpoint for row in watcher.members() if row.endpoint]


def served(watcher: Node) -> dict[str, int]:
    """Rows by table, each counted by the node that serves it."""
    return counted(watcher, "rows")


def stored_twice(watcher: Node) -> bool:
    """With one backup each row is on two nodes."""
    return counted(watcher, "copies") == {name: 2 * count for name, count in ROWS_OF_TPCH.items()}


def counted(watcher: Node, what: str) -> dict[str, int]:
    counts = [get(endpoint, "/counts")[1][what] for endpoint in endpoints(watcher)]
    return dict(sum((Counter(each) for each in counts), Counter[str]()))


def test_loaders_of_two_formats_agree_and_hold_every_row(coordinated: Coordinated, watcher: Node, tpch: Path) -> None:
    """One node reads Parquet, one CSV: their types conflict, one side adapts, all rows are stored and have a copy."""
    loading = Loading(tpch, nodes=2, batch_rows=10_000, pause_s=0)
    nodes = [Running(coordinated, name, loading) for name in ("n1", "n2")]
    try:
        wait_until(lambda: all(node.says("all rows are loaded") for node in nodes))
        wait_until(lambda: served(watcher) == ROWS_OF_TPCH)
        assert stored_twice(watcher)
    finally:
        for node in nodes:
            node.stop()
    assert any("Part: field size is" in line for node in nodes for line in node.said)
    assert not any("put aside" in line for node in nodes for line in node.said)
    types = watcher.types()
    assert set(types) == TYPES_OF_TPCH
    assert types["Part"].definition.fields["retailprice"] in ("decimal", "double")
    assert len(types["Customer"].definition.schemas) == 2, "customers of nation 0 have a shape of their own"
    assert [node.result for node in nodes] == [0, 0]
    assert endpoints(watcher) == [], "both have released their leases and left"


@pytest.fixture
def process(coordinated: Coordinated, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A node of the example as a process of its own, all its rows loaded."""
    cluster, settings = coordinated
    (tmp_path / "things.csv").write_text("id,name\n1,one\n2,two\n")
    command = [sys.executable, "-c", PROCESS, cluster, "n1", settings["bootstrap.servers"], str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("all rows are loaded" in line for line in process.stdout)
        yield process
        process.kill()


def test_a_paused_node_refuses_until_it_has_caught_up(watcher: Node, process: "subprocess.Popen[str]") -> None:
    """Stopped beyond its lease it is put out, and tables change without it; continued, it says 503 first, joins again
    and then answers by what they have become (TA18)."""
    (endpoint,) = endpoints(watcher)
    watcher.change(table("shop.others"))
    assert get(endpoint, "/rows/shop.things/2") == (200, {"id": 2, "name": "two"})
    process.send_signal(signal.SIGSTOP)
    watcher.change(alter("shop.things", add("note")), drop("shop.others"))
    wait_until(lambda: endpoints(watcher) == [])
    with socket.create_connection((urlsplit(endpoint).hostname, urlsplit(endpoint).port)) as early:
        early.sendall(b"GET /rows/shop.things/2 HTTP/1.0\r\n\r\n")
        process.send_signal(signal.SIGCONT)
        first = early.makefile("rb").read()
    assert b" 503 " in first.splitlines()[0]
    assert b"Retry-After: 1" in first
    wait_until(lambda: endpoints(watcher) == [endpoint])
    wait_until(lambda: get(endpoint, "/rows/shop.things/2")[0] == 200)
    assert get(endpoint, "/rows/shop.things/2") == (200, {"id": 2, "name": "two", "note": None})
    assert get(endpoint, "/rows/shop.others/2")[0] == 404


def test_a_node_that_is_told_to_stop_releases_its_lease(watcher: Node, process: "subprocess.Popen[str]") -> None:
    """SIGTERM: out of the membership at once, without waiting for the lease, and exit code 0."""
    process.terminate()
    asked_at = time.monotonic()
    assert process.wait(PATIENCE_S) == 0
    wait_until(lambda: endpoints(watcher) == [])
    assert time.monotonic() - asked_at < 2.0, "shorter than the fence: nobody had to wait for it"


def test_a_node_can_be_told_to_stop_while_it_joins(kafka: str, cluster: str, tmp_path: Path) -> None:
    """Without a coordinator a join waits for a minute; a signal ends it at once."""
    (tmp_path / "things.csv").write_text("id\n1\n")
    command = [sys.executable, "-c", PROCESS.replace("loading = ", "say('joining'); loading = ")]
    with subprocess.Popen([*command, cluster, "n1", kafka, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"joining\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_only_the_first_nodes_of_the_demo_have_a_share() -> None:
    """Who joins later holds and serves; a mistyped name is found before anything is read."""
    share = share_of("n3", 5)
    assert share is not None
    assert (share.index, share.count) == (2, 5)
    assert share_of("n6", 5) is None
    for name in ("n0", "3", "n03", ""):
        with pytest.raises(BadInput, match="n1 to n5 load rows"):
            share_of(name, 5)
