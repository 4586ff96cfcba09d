"""How long partitions take to be shared out anew when a member joins and when it leaves, on a real broker.

    python -m tests.benchmarks.exchange [--members 3 8 16] [--groups 1 10] [--rounds 5] [--bootstrap HOST:PORT]

Broker, coordinator and every member run on this machine, each in a process of its own. A member holds nothing and loads
in no time, so what is measured is the protocol: from NodeJoined or NodeLeft to ExchangeCompleted, and to rest, where
all copies are wanted and own, and the wanted primaries act. Times are the log's own (LogAppendTime), bytes those of the
records' values. No partition is paused by a join but while it is handed over; Apache Ignite 2.18, whose figures stand
beside ours, pauses all of them all that time.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec
from tests.benchmarks.told import Value, add_json, tell
from tests.benchmarks.told import spread as percentiles
from tests.unit.streams.node.shard import Shard

from topolog.events.exchange import ExchangeCompleted, HandOverRow, open_exchange, queued
from topolog.events.fold import Fold, Ignored
from topolog.events.group_definition import GroupDefinition
from topolog.events.groups import GroupRow
from topolog.events.kafka import KafkaReader
from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.leases import NodeKind
from topolog.events.log import Entry
from topolog.events.membership import LeasesRenewed, NodeJoined, NodeLeft
from topolog.events.ownership import is_settled
from topolog.events.ownership_columns import OwnershipRow
from topolog.events.topics import PLANS, Topic
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY
from topolog.streams.node.client import Node

PARTITIONS = 1_024
IGNITE_MS = {(1, 3): 57, (1, 8): 85, (1, 16): 179, (10, 3): 125, (10, 8): 154, (10, 16): 509}
IGNITE_MB = {(1, 3): 0.2, (1, 8): 0.5, (1, 16): 0.9, (10, 3): 1.4, (10, 8): 3.2, (10, 16): 6.0}
HELIX = "Helix: 1.5-2.1 s to converge, 30 s after kill -9"
PATIENCE_S = 60.0
QUIET_S = 0.3
"""Between two rounds, so that one does not begin in the wake of the other."""


class Change(msgspec.Struct, frozen=True):
    """A join or a leave: ms until the exchange was over and until rest, bytes on both topics until then."""

    completed_ms: int
    rest_ms: int
    maps: int
    decisions: int


class Watcher:
    """The log of one cluster as it comes, with the log's own times."""

    def __init__(self, bootstrap: str, cluster: str) -> None:
        self.fold = Fold()
        self._reader = KafkaReader({"bootstrap.servers": bootstrap}, cluster)
        self._reader.assign({(Topic.DECISIONS, 0): None, (Topic.MAPS, 0): None})
        self._maps: list[Entry] = []

    def until_rest(self, begins: Callable[[object], bool]) -> Change:
        """What became of the next join or leave: returns when all has come to rest."""
        began_ms = completed_ms = rest_ms = None
        decisions = 0
        self._maps.clear()
        until = time.monotonic() + PATIENCE_S
        while rest_ms is None:
            if time.monotonic() > until:
                raise SystemExit(f"no rest after {PATIENCE_S:g} s")
            for entry, events in self._more():
                if began_ms is None and any(begins(event) for event in events):
                    began_ms = entry.appended_at_ms
                if began_ms is None:
                    continue
                if not events or not all(isinstance(event, LeasesRenewed) for event in events):
                    decisions += len(entry.value)
                if any(isinstance(event, ExchangeCompleted) for event in events):
                    completed_ms = entry.appended_at_ms
                if events and completed_ms is not None and self.is_at_rest():
                    rest_ms = entry.appended_at_ms
        assert began_ms is not None
        assert completed_ms is not None
        maps = sum(len(entry.value) for entry in self._maps)
        return Change(completed_ms - began_ms, rest_ms - began_ms, maps, decisions)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > until:
                raise SystemExit(f"not so after {PATIENCE_S:g} s")
            for _ in self._more():
                pass

    def is_at_rest(self) -> bool:
        state = self.fold.state
        if open_exchange(state) or queued(state) or state.count(HandOverRow):
            return False
        return all(is_settled(row) for _, row in state.rows(OwnershipRow))

    def close(self) -> None:
        self._reader.close()

    def _more(self) -> Iterator[tuple[Entry, list[object]]]:
        """Records of `decisions`, each with the events of the set that it completes; those of `maps` are kept."""
        for entry in self._reader.poll(0.1):
            if entry.topic is Topic.MAPS:
                self._maps.append(entry)
                continue
            folded = self.fold.read(entry.stamp, entry.value)
            yield entry, [] if isinstance(folded, Ignored) else [each.event for each in folded]


def member(cluster: str, name: str, bootstrap: str, orders: Connection) -> None:
    """A process that joins and leaves as it is told: True to join, False to leave, None to end."""
    while orders.recv():
        node = Node(cluster, name, kafka={"bootstrap.servers": bootstrap}, sentinel=False)
        Shard(node)
        with node:
            orders.send("in")
            orders.recv()
        orders.send("out")


class Members:
    """Processes of members, told what to do."""

    def __init__(self, cluster: str, bootstrap: str, count: int) -> None:
        self._processes: list[BaseProcess] = []
        self.orders: list[Connection] = []
        for number in range(count):
            ours, theirs = multiprocessing.Pipe()
            arguments = (cluster, f"n{number:02d}", bootstrap, theirs)
            process = multiprocessing.Process(target=member, args=arguments, daemon=True)
            process.start()
            self._processes.append(process)
            self.orders.append(ours)

    def tell(self, number: int, order: bool | None) -> None:
        self.orders[number].send(order)

    def hear(self, number: int) -> None:
        if not self.orders[number].poll(PATIENCE_S):
            raise SystemExit(f"member {number} does nothing")
        self.orders[number].recv()

    def close(self) -> None:
        for orders in self.orders:
            with contextlib.suppress(OSError):
                orders.send(None)
                orders.send(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()


@contextlib.contextmanager
def coordinator(cluster: str, bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "topolog", "run", "coordinator", "--set", f"cluster.name={cluster}"]
    command += ["--set", f"kafka.bootstrap.servers={bootstrap}", "--set", "lease.sentinel=false"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def broker(bootstrap: str | None, port: int) -> Iterator[str]:
    """The one that is named, else one that runs only for this."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalBroker(Path(folder) / "broker", port=port, flags=LOW_LATENCY)
        with local.running(ready=lambda at: KafkaAdmin({"bootstrap.servers": at}).wait_until_usable()):
            yield local.bootstrap


def measure(bootstrap: str, members: int, arguments: argparse.Namespace) -> dict[str, Value]:
    """With `members` members: one more joins and leaves, again and again."""
    cluster = f"bench-{os.getpid()}-{members}"
    KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(cluster, PLANS)
    told: dict[str, Value] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(coordinator(cluster, bootstrap))
        watcher = stack.enter_context(contextlib.closing(Watcher(bootstrap, cluster)))
        processes = stack.enter_context(contextlib.closing(Members(cluster, bootstrap, members + 1)))
        for number in range(members):
            processes.tell(number, True)
        for number in range(members):
            processes.hear(number)
        client = stack.enter_context(
            Node(cluster, "bench", kafka={"bootstrap.servers": bootstrap}, sentinel=False, kind=NodeKind.CLIENT)
        )
        for groups in sorted(arguments.groups):
            declare(client, watcher, groups, arguments.backups)
            taken = [a_round(processes, members, watcher) for _ in range(arguments.rounds + 1)][1:]  # one to warm up
            report(members, groups, taken)
            for change, each in (("join", [join for join, _ in taken]), ("leave", [leave for _, leave in taken])):
                told[f"{change}_completed_ms.{members}.{groups}"] = percentiles([found.completed_ms for found in each])
                told[f"{change}_rest_ms.{members}.{groups}"] = percentiles([found.rest_ms for found in each])
    return told


def declare(client: Node, watcher: Watcher, groups: int, backups: int) -> None:
    for number in range(groups):
        client.create_group(GroupDefinition(f"g{number}", PARTITIONS, backups))
    watcher.wait_until(lambda: watcher.fold.state.count(GroupRow) == groups and watcher.is_at_rest())


def a_round(processes: Members, joiner: int, watcher: Watcher) -> tuple[Change, Change]:
    found = []
    for order, kind in ((True, NodeJoined), (False, NodeLeft)):
        quiet = time.monotonic() + QUIET_S
        watcher.wait_until(lambda: time.monotonic() > quiet)  # noqa: B023 (called at once)
        processes.tell(joiner, order)
        found.append(watcher.until_rest(lambda event: isinstance(event, kind)))  # noqa: B023 (called at once)
        processes.hear(joiner)
    return found[0], found[1]


def report(members: int, groups: int, taken: list[tuple[Change, Change]]) -> None:
    print(f"{members:2} members, {groups:2} groups of {PARTITIONS:,}")
    for what, changes in (("join ", [each for each, _ in taken]), ("leave", [each for _, each in taken])):
        completed, rest = spread([each.completed_ms for each in changes]), spread([each.rest_ms for each in changes])
        maps, decisions = (
            statistics.median(each) / 1e6 for each in zip(*((c.maps, c.decisions) for c in changes), strict=True)
        )
        print(f"  {what} completed {completed} ms, at rest {rest} ms; {maps:.3f} MB maps, {decisions:.3f} MB decisions")
    if (groups, members) in IGNITE_MS:
        paused, sent = IGNITE_MS[groups, members], IGNITE_MB[groups, members]
        print(f"  Ignite 2.18: a join pauses all partitions for {paused} ms and sends {sent} MB of maps; {HELIX}")
    sys.stdout.flush()


def spread(taken: list[int]) -> str:
    return f"{statistics.median(taken):.0f} ({min(taken)}-{max(taken)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="*", default=[3, 8, 16], help="members before the join")
    parser.add_argument("--groups", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--backups", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    arguments = parser.parse_args()
    told: dict[str, Value] = {}
    with broker(arguments.bootstrap, 19_692) as bootstrap:
        for members in arguments.members:
            told |= measure(bootstrap, members, arguments)
    tell(arguments, told)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
