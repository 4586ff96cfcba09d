"""How long a proposal takes until it is accepted and applied at its proposer, on a real broker (OP29).

    python -m tests.benchmarks.metadata_round [--members 3 8 16] [--proposals 400] [--in-flight 16 64 256]
        [--flight-members 16] [--one-process] [--warm-up 30] [--bootstrap HOST:PORT]

Broker, coordinator and every member run on this machine, each in a process of its own; with `--one-process` all members
are in one, and share what one interpreter can do. Figures of Apache Ignite 2.18 stand beside ours; its members agree in
memory, ours through the broker's log.
"""

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from tests.benchmarks.told import Value, add_json, spread, tell

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.metadata import ObjectType
from topolog.events.topics import PLANS
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY
from topolog.streams.node.client import Node, Outcome

IGNITE_MS = {3: "1.6 / 8", 8: "3.6 / 17", 16: "6.8 / 43", 32: "15 / 34"}
GOALS_MS = {3: "2.5 / 6", 8: "4 / 10", 16: "6 / 14", 32: "10 / 22", 64: "18 / 32"}
GOALS_PER_S = {16: 1_000, 64: 2_200, 256: 3_000}
WARM_UP_S = 30.0
"""The broker's compiler takes the processors for so long after its start; what is measured then is the compiler."""


def member(cluster: str, name: str, bootstrap: str, ready: Barrier, done: Event) -> None:
    """One more member: applies and acknowledges until the measurement is over."""
    with Node(cluster, name, kafka={"bootstrap.servers": bootstrap}):
        ready.wait()
        done.wait()


def one_at_a_time(node: Node, prefix: str, count: int) -> list[float]:
    """ms of each proposal of one new field, proposed when the one before it is accepted."""
    taken = []
    for number in range(count):
        definition = ObjectType(f"{prefix}{number // 50}", {f"f{number % 50}": "long"})
        start = time.perf_counter()
        node.propose(definition)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def warm_up(node: Node, seconds: float) -> None:
    until = time.monotonic() + seconds
    round_ = 0
    while time.monotonic() < until:
        round_ += 1
        many_at_once(node, f"WarmUp{round_}x", 200, 16)
        one_at_a_time(node, f"Warm{round_}x", 100)


def many_at_once(node: Node, prefix: str, count: int, in_flight: int) -> float:
    """Proposals accepted per second with `in_flight` of them always under way."""
    open_: deque[Future[Outcome]] = deque()
    start = time.perf_counter()
    for number in range(count):
        if len(open_) >= in_flight:
            open_.popleft().result(60)
        open_.append(node.submit(ObjectType(f"{prefix}{number // 20}", {f"f{number % 20}": "long"})).outcome)
    for future in open_:
        future.result(60)
    return count / (time.perf_counter() - start)


@contextlib.contextmanager
def in_processes(cluster: str, count: int, bootstrap: str) -> Iterator[None]:
    """So many members more, each in a process of its own, all of them joined."""
    ready, done = multiprocessing.Barrier(count + 1), multiprocessing.Event()
    others = [
        multiprocessing.Process(target=member, args=(cluster, f"n{number}", bootstrap, ready, done), daemon=True)
        for number in range(1, count + 1)
    ]
    for process in others:
        process.start()
    ready.wait()
    try:
        yield
    finally:
        done.set()
        for process in others:
            process.join(10)


@contextlib.contextmanager
def beside(cluster: str, count: int, bootstrap: str) -> Iterator[None]:
    """The same in the proposer's own process."""
    with contextlib.ExitStack() as stack:
        for number in range(1, count + 1):
            stack.enter_context(Node(cluster, f"n{number}", kafka={"bootstrap.servers": bootstrap}))
        yield


def measure(bootstrap: str, members: int, arguments: argparse.Namespace) -> dict[str, Value]:
    cluster = f"bench-{os.getpid()}-{members}"
    KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(cluster, PLANS)
    command = [sys.executable, "-m", "topolog", "run", "coordinator", "--set", f"cluster.name={cluster}"]
    command += ["--set", f"kafka.bootstrap.servers={bootstrap}"]
    coordinator = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    others = beside if arguments.one_process else in_processes
    try:
        with (
            others(cluster, members - 1, bootstrap),
            Node(cluster, "n0", kafka={"bootstrap.servers": bootstrap}) as node,
        ):
            warm_up(node, arguments.warm_up)
            return report(node, members, coordinator.pid, arguments)
    finally:
        coordinator.terminate()
        coordinator.wait(10)


def report(node: Node, members: int, coordinator: int, arguments: argparse.Namespace) -> dict[str, Value]:
    before = cpu_s(coordinator)
    taken = spread(one_at_a_time(node, "Latency", arguments.proposals))
    cpu_ms = (cpu_s(coordinator) - before) * 1000 / arguments.proposals
    print(
        f"{members:3} members: {taken.p50:5.1f} / {taken.p99:5.1f} ms p50 / p99 (goal {GOALS_MS.get(members, '-')}, "
        f"Ignite in memory {IGNITE_MS.get(members, '-')}), coordinator {cpu_ms:.2f} ms CPU a proposal",
        flush=True,
    )
    told: dict[str, Value] = {
        f"round_ms.{members}": taken,
        f"rounds_per_s.{members}": 1_000 / taken.p50,
        f"coordinator_ms.{members}": cpu_ms,
    }
    for in_flight in arguments.in_flight if members in arguments.flight_members else ():
        rate = many_at_once(node, f"Flight{in_flight}x", arguments.proposals * 5, in_flight)
        told[f"accepted_per_s.{members}.{in_flight}"] = rate
        goal = GOALS_PER_S.get(in_flight, 0)
        print(f"{members:3} members, {in_flight:3} in flight: {rate:,.0f} accepted/s (goal {goal:,})", flush=True)
    return told


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="*", default=[3, 8, 16])
    parser.add_argument("--proposals", type=int, default=400)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[16, 64, 256])
    parser.add_argument("--flight-members", type=int, nargs="*", default=[16])
    parser.add_argument("--one-process", action="store_true", help="all members in one process")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, metavar="S")
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    add_json(parser)
    arguments = parser.parse_args()
    told: dict[str, Value] = {}
    with contextlib.ExitStack() as stack:
        bootstrap = arguments.bootstrap
        if not bootstrap:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            broker = LocalBroker(Path(folder) / "broker", port=19392, flags=LOW_LATENCY)
            stack.enter_context(
                broker.running(ready=lambda at: KafkaAdmin({"bootstrap.servers": at}).wait_until_usable())
            )
            bootstrap = broker.bootstrap
        for members in arguments.members:
            told |= measure(bootstrap, members, arguments)
    tell(arguments, told)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
