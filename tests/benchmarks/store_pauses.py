"""The pause that clients of the example store see while a node joins, leaves and is killed, on a real broker.

    python -m tests.benchmarks.store_pauses [--nodes 5] [--rounds 5] [--partitions 16] [--every-ms 20]

Broker, coordinator, store nodes and the client run on this machine, each in a process of its own. The client writes to
some of the store's 64 partitions, a thread for each, and finds its way by the node client's `route`. A pause is the
longest time between two acknowledged writes of a partition; that of undisturbed work is given first, for it is what
this machine makes of the pace alone. After `kill -9` it is the time until another node acknowledges a write of what the
killed one had served (goal 500 ms; Apache Ignite 0.8 to 1.2 s, Helix 30 s).
"""

import argparse
import contextlib
import itertools
import multiprocessing
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from urllib.parse import urlsplit

import msgspec
from tests.benchmarks.exchange import PATIENCE_S, Watcher, broker, coordinator
from tests.benchmarks.told import add_json, spread, tell

from topolog.events.errors import TopologError
from topolog.events.groups import GroupRow
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import NodeKind, NodeRow
from topolog.events.membership import NodeJoined, NodeLeft
from topolog.events.topics import PLANS
from topolog.streams.local.demo.program import run_demo_node
from topolog.streams.local.demo.shards import GROUP
from topolog.streams.local.stopping import stopping_when_told
from topolog.streams.node.client import Node
from topolog.streams.rules.affinity import partition_of

FIRST = 11
"""n1 to n5 would load rows."""

GOAL_MS = 500
SERVED = f"kill -9: served by another (goal {GOAL_MS})"
KEYS = {
    SERVED: "kill_served_ms",
    "nothing happens": "calm_ms",
    "join: handed over": "join_moved_ms",
    "join: served by the same node throughout": "join_kept_ms",
    "leave in order: handed over": "leave_moved_ms",
}
"""What scripts call them."""
CALM_S = 1.5
RETRY_S = 0.005
_STORED = 204


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """A write of a partition that a node has acknowledged; seconds of CLOCK_MONOTONIC."""

    partition: int
    at_s: float
    node: str


class Writer:
    """Writes one row of one partition, again and again."""

    def __init__(self, node: Node, partition: int, every_s: float, acks: list[Ack]) -> None:
        self._node = node
        self._partition = partition
        self._every_s = every_s
        self._acks = acks
        self._key = next(f"{key}" for key in range(10_000) if _partition(f"{key}") == partition)
        self._connections: dict[str, HTTPConnection] = {}

    def run(self) -> None:
        number, due_s = 0, time.monotonic()
        while True:
            number += 1
            self._write(b'{"id": "%s", "n": %d}' % (self._key.encode(), number))
            due_s = max(due_s + self._every_s, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _write(self, row: bytes) -> None:
        while not self._is_acknowledged(row):
            time.sleep(RETRY_S)

    def _is_acknowledged(self, row: bytes) -> bool:
        try:
            route = self._node.route(GROUP.name, f"Bench/{self._key}")
        except TopologError:
            return False
        connection = self._connections.get(route.endpoint)
        if connection is None:
            connection = HTTPConnection(urlsplit(route.endpoint).netloc, timeout=10)
            self._connections[route.endpoint] = connection
        try:
            connection.request("PUT", f"/rows/Bench/{self._key}", row)
            response = connection.getresponse()
            response.read()
        except (OSError, HTTPException):
            self._connections.pop(route.endpoint).close()
            return False
        if response.status != _STORED:
            return False
        self._acks.append(Ack(self._partition, time.monotonic(), route.node))
        return True


def _partition(key: str) -> int:
    return partition_of(f"Bench/{key}", GROUP.partitions)


def client(cluster: str, bootstrap: str, partitions: Sequence[int], every_s: float, orders: Connection) -> None:
    """A process that writes, and gives all acknowledgements so far when it is asked."""
    acks: list[Ack] = []
    with Node(cluster, "client", kafka={"bootstrap.servers": bootstrap}, kind=NodeKind.CLIENT, sentinel=False) as node:
        for partition in partitions:
            threading.Thread(target=Writer(node, partition, every_s, acks).run, daemon=True).start()
        while orders.recv():
            taken = list(acks)
            del acks[: len(taken)]
            orders.send_bytes(msgspec.msgpack.encode(taken))
    os._exit(0)  # the writers never end


def store_node(cluster: str, bootstrap: str, name: str, go: Connection) -> None:
    """One node of the store, when it is told to join; until SIGTERM."""
    go.recv()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a node says of connections that break is no figure
    with stopping_when_told({}) as stopping:
        run_demo_node(cluster, name, {"bootstrap.servers": bootstrap}, stopping=stopping, say=lambda _: None)


class Store:
    """The processes of a store's nodes and of its client, and the log beside them."""

    def __init__(self, bootstrap: str, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self._bootstrap, self._stack = bootstrap, stack
        self.cluster = f"bench-{os.getpid()}"
        KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(self.cluster, PLANS)
        stack.enter_context(coordinator(self.cluster, bootstrap))
        self.watcher = stack.enter_context(contextlib.closing(Watcher(bootstrap, self.cluster)))
        self._nodes: dict[str, tuple[BaseProcess, Connection]] = {}
        self.names = [f"n{FIRST + number}" for number in range(arguments.nodes)]
        for name in self.names:
            self.prepare(name)
            self.join(name)
        self.watcher.wait_until(self._is_whole)
        self._orders, theirs = multiprocessing.Pipe()
        step = GROUP.partitions // arguments.partitions
        written = list(range(0, GROUP.partitions, step))[: arguments.partitions]
        details = (self.cluster, bootstrap, written, arguments.every_ms / 1000, theirs)
        self._client = multiprocessing.Process(target=client, args=details, daemon=True)
        self._client.start()
        stack.callback(self._end_client)
        self._acks: list[Ack] = []
        self.rest(5.0)

    def prepare(self, name: str) -> None:
        """Start the process, so that joining costs no start of Python."""
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=store_node, args=(self.cluster, self._bootstrap, name, theirs))
        process.start()
        self._stack.callback(_end, process)
        self._nodes[name] = process, ours

    def join(self, name: str) -> None:
        self._nodes[name][1].send(True)

    def leave(self, name: str) -> None:
        self._nodes[name][0].terminate()

    def kill(self, name: str) -> float:
        pid = self._nodes[name][0].pid
        assert pid is not None
        at_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return at_s

    def rest(self, seconds: float) -> None:
        """Read on for so long."""
        until = time.monotonic() + seconds
        self.watcher.wait_until(lambda: time.monotonic() >= until)

    def acks(self) -> list[Ack]:
        """Those since it was asked last."""
        self._orders.send(True)
        if not self._orders.poll(PATIENCE_S):
            raise SystemExit("the client does not answer")
        found: list[Ack] = msgspec.msgpack.decode(self._orders.recv_bytes(), type=list[Ack])
        return found

    def _is_whole(self) -> bool:
        state = self.watcher.fold.state
        joined = {str(row.node) for _, row in state.rows(NodeRow) if row.is_member}
        return joined.issuperset(self.names) and bool(state.count(GroupRow)) and self.watcher.is_at_rest()

    def _end_client(self) -> None:
        self._client.kill()
        self._client.join()


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join(10)
    if process.is_alive():
        process.kill()


class Pauses:
    """ms by kind of pause, over all rounds."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}

    def note(self, kind: str, ms: list[float]) -> None:
        self.taken.setdefault(kind, []).extend(ms)

    def report(self) -> None:
        print("ms p50 / max, of so many")
        for kind, ms in self.taken.items():
            print(f"  {kind:<76} {statistics.median(ms):6,.0f} / {max(ms):6,.0f}  of {len(ms)}")


def by_partition(acks: Sequence[Ack]) -> dict[int, list[Ack]]:
    found: dict[int, list[Ack]] = {}
    for ack in acks:
        found.setdefault(ack.partition, []).append(ack)
    return found


def longest_ms(acks: Sequence[Ack]) -> float:
    times = [ack.at_s for ack in acks]
    return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0) * 1000


def disturbed(store: Store, pauses: Pauses, what: str) -> None:
    """Note the longest pause of each partition, apart for those that another node serves now."""
    for acks in by_partition(store.acks()).values():
        has_moved = acks[0].node != acks[-1].node
        pauses.note(
            f"{what}: {'handed over' if has_moved else 'served by the same node throughout'}", [longest_ms(acks)]
        )


def killed(acks: Sequence[Ack], name: str, at_s: float, pauses: Pauses) -> None:
    """Until others serve what the killed node has served; the longest pause of all others."""
    for found in by_partition(acks).values():
        before = [ack for ack in found if ack.at_s < at_s]
        behind = [ack.at_s for ack in found if ack.at_s > at_s and ack.node != name]
        if before and before[-1].node == name:
            pauses.note(SERVED, [(behind[0] - at_s) * 1000])
        else:
            pauses.note("kill -9: served by others before", [longest_ms(found)])


def measure(bootstrap: str, arguments: argparse.Namespace, stack: contextlib.ExitStack) -> Pauses:
    pauses, store = Pauses(), Store(bootstrap, arguments, stack)
    joiner = f"n{FIRST + arguments.nodes}"
    for number in range(arguments.rounds):
        store.prepare(joiner)
        store.rest(CALM_S)
        store.acks()
        store.rest(CALM_S)
        pauses.note("nothing happens", [longest_ms(each) for each in by_partition(store.acks()).values()])
        store.join(joiner)
        store.watcher.until_rest(lambda event: isinstance(event, NodeJoined))
        store.rest(CALM_S)
        disturbed(store, pauses, "join")
        store.leave(joiner)
        store.watcher.until_rest(lambda event: isinstance(event, NodeLeft))
        store.rest(CALM_S)
        disturbed(store, pauses, "leave in order")
        name = store.names[number % len(store.names)]
        store.rest(CALM_S)
        at_s = store.kill(name)
        store.watcher.until_rest(lambda event: isinstance(event, NodeLeft))
        store.rest(CALM_S)
        killed(store.acks(), name, at_s, pauses)
        store.prepare(name)
        store.join(name)
        store.watcher.until_rest(lambda event: isinstance(event, NodeJoined))
        sys.stdout.write(f"round {number + 1} of {arguments.rounds}\n")
        sys.stdout.flush()
    return pauses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=16, help="of the store's 64, those that are written to")
    parser.add_argument("--every-ms", type=float, default=20.0, help="pace of the writes to each partition")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        bootstrap = stack.enter_context(broker(arguments.bootstrap, 19_792))
        pauses = measure(bootstrap, arguments, stack)
    pauses.report()
    tell(arguments, {KEYS[kind]: spread(ms) for kind, ms in pauses.taken.items() if kind in KEYS})


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
