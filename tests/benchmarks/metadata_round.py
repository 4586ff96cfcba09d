"""How long a proposal takes until it is accepted and applied at its proposer, on a real broker (DESIGN §8).

    python tests/benchmarks/metadata_round.py [--members 3 8 16] [--proposals 400] [--in-flight 16 64 256]

Broker, coordinator and every member run on this machine, each in a process of its own. Figures of Apache Ignite 2.18
stand beside ours; its members agree in memory, ours through the broker's log.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from topolog.events.kafka_admin import KafkaAdmin
from topolog.events.metadata import ObjectType
from topolog.events.topics import PLANS
from topolog.streams.local.broker import LocalBroker
from topolog.streams.local.runtime import LOW_LATENCY
from topolog.streams.node.client import Node, Outcome

IGNITE_MS = {3: "1.6 / 8", 8: "3.6 / 17", 16: "6.8 / 43"}
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


def warm_up(node: Node) -> None:
    until = time.monotonic() + WARM_UP_S
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


def measure(bootstrap: str, members: int, arguments: argparse.Namespace) -> None:
    cluster = f"bench-{os.getpid()}-{members}"
    KafkaAdmin({"bootstrap.servers": bootstrap}).create_topics(cluster, PLANS)
    command = [sys.executable, "-m", "topolog", "run", "coordinator", "--set", f"cluster.name={cluster}"]
    command += ["--set", f"kafka.bootstrap.servers={bootstrap}"]
    coordinator = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    ready, done = multiprocessing.Barrier(members), multiprocessing.Event()
    others = [
        multiprocessing.Process(target=member, args=(cluster, f"n{number}", bootstrap, ready, done), daemon=True)
        for number in range(1, members)
    ]
    for process in others:
        process.start()
    try:
        with Node(cluster, "n0", kafka={"bootstrap.servers": bootstrap}) as node:
            ready.wait()
            warm_up(node)
            report(node, members, coordinator.pid, arguments)
    finally:
        done.set()
        for process in others:
            process.join(10)
        coordinator.terminate()
        coordinator.wait(10)


def report(node: Node, members: int, coordinator: int, arguments: argparse.Namespace) -> None:
    before = cpu_s(coordinator)
    taken = one_at_a_time(node, "Latency", arguments.proposals)
    cpu_ms = (cpu_s(coordinator) - before) * 1000 / arguments.proposals
    cuts = statistics.quantiles(taken, n=100)
    print(
        f"{members:3} members: {cuts[49]:5.1f} / {cuts[98]:5.1f} ms p50 / p99 (goal {GOALS_MS.get(members, '-')}, "
        f"Ignite in memory {IGNITE_MS.get(members, '-')}), coordinator {cpu_ms:.2f} ms CPU a proposal",
        flush=True,
    )
    for in_flight in arguments.in_flight if members == arguments.flight_members else ():
        rate = many_at_once(node, f"Flight{in_flight}x", arguments.proposals * 5, in_flight)
        goal = GOALS_PER_S.get(in_flight, 0)
        print(f"{members:3} members, {in_flight:3} in flight: {rate:,.0f} accepted/s (goal {goal:,})", flush=True)


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--members", type=int, nargs="*", default=[3, 8, 16])
    parser.add_argument("--proposals", type=int, default=400)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[16, 64, 256])
    parser.add_argument("--flight-members", type=int, default=16)
    parser.add_argument("--bootstrap", help="an existing broker; by default one is started for the measurement")
    arguments = parser.parse_args()
    if arguments.bootstrap:
        for members in arguments.members:
            measure(arguments.bootstrap, members, arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalBroker(Path(folder) / "broker", port=19392, flags=LOW_LATENCY)
        with broker.running(ready=lambda bootstrap: KafkaAdmin({"bootstrap.servers": bootstrap}).wait_until_usable()):
            for members in arguments.members:
                measure(broker.bootstrap, members, arguments)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
